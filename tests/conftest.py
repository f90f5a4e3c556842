import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch is loaded: spinning threads slow each other down

import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from torch import Tensor

from clbr import BundleDataset, Nodes, Recommender, World, load, load_recommender, simulate
from clbr.cli import main
from clbr.data.folder import save
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.export import export
from clbr.models.base import ClosedForm, Scorer
from clbr.models.registry import MODELS
from clbr.training.config import compose
from clbr.training.run import start
from typed import Run

# A busy machine is no failure; in CI the same examples are tried every time.
settings.register_profile("clbr", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("clbr")

ROOT = Path(__file__).parent.parent
SHARED = Path(os.environ.get("CLBR_DATA", ROOT.parent / "shared" / "data"))


def make_dataset(**changes: object) -> BundleDataset:
    """Three users, four bundles, five items; small enough to work out by hand."""
    parts: dict[str, object] = {
        "name": "small",
        "users": Nodes("user", 3),
        "bundles": Nodes("bundle", 4),
        "items": Nodes("item", 5),
        "train": np.array([[0, 0], [0, 1], [1, 1], [2, 1], [2, 2]]),
        "validation": np.array([[0, 2], [1, 0]]),
        "test": np.array([[0, 3], [1, 2], [1, 3]]),
        "ui": np.array([[0, 0], [0, 4], [1, 1], [2, 2]]),
        "bi": np.array([[0, 0], [0, 1], [1, 1], [2, 2], [3, 3], [3, 4]]),
    }
    return BundleDataset(**(parts | changes))  # type: ignore[arg-type]


@contextmanager
def small_disk(room: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: the system refuses the write, as a full disk does.

    Only for the lines under test: pytest's own output may be a file that is longer already.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Fixed(Scorer):
    """Scores from a table."""

    def __init__(self, table: Tensor) -> None:
        self.table = table

    def scores(self, users: Tensor) -> Tensor:
        return self.table[users]


@pytest.fixture
def small() -> BundleDataset:
    return make_dataset()


@pytest.fixture(scope="session")
def tiny() -> World:
    return simulate("tiny")


@pytest.fixture(scope="session")
def real() -> Callable[[str], BundleDataset]:
    """A real data set by name, where there is one."""

    def find(name: str) -> BundleDataset:
        if not (SHARED / name).is_dir():
            pytest.skip(f"no {name} data at hand (put it into CLBR_DATA to run this test)")
        return load(SHARED / name)

    return find


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Type a command; get its exit code, its output and its errors."""
    monkeypatch.setattr("clbr.training.display.LINE_SECONDS", 600.0)  # no progress lines on a busy machine
    monkeypatch.chdir(tmp_path)

    def typed(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["clbr", *map(str, words)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        out, err = capsys.readouterr()
        return code, out, err

    return typed


EPOCHS = {"crosscbr": 8, "bgcn": 3}


@pytest.fixture(scope="session")
def artifact_of(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Callable[[str], Path]:
    """The artifact of a model trained for a few epochs on the tiny world; its run and data are gone."""
    made: dict[str, Path] = {}

    def make(model: str) -> Path:
        if model not in made:
            space = tmp_path_factory.mktemp(model)
            data = save(tiny.dataset, space / "shop")
            closed_form = issubclass(MODELS[model], ClosedForm)
            changes = {} if closed_form else {"epochs": EPOCHS.get(model, 1), "learning_rate": 0.01, "batch_size": 512}
            start(space / "run", compose(str(data), model, changes=changes), tiny.dataset)
            made[model] = export(space / "run", space / "artifact")
            for gone in ("run", "shop"):
                (space / gone).rename(space / f"{gone}-elsewhere")
        return made[model]

    return make


@pytest.fixture
def artifact(artifact_of: Callable[[str], Path]) -> Artifact:
    return open_artifact(artifact_of("crosscbr"))


@pytest.fixture
def recommender(artifact_of: Callable[[str], Path]) -> Recommender:
    return load_recommender(artifact_of("crosscbr"))
