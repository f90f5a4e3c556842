from collections.abc import Callable
from pathlib import Path

import pytest

from clbr import World
from clbr.data.write import save
from clbr.serve.artefact import Artefact, open_artefact
from clbr.serve.export import export
from clbr.train.run import start
from clbr.train.settings import compose

EPOCHS = {"crosscbr": 8, "bgcn": 3}


@pytest.fixture(scope="session")
def artefact_of(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Callable[[str], Path]:
    """The artefact of a model trained for a few epochs on the tiny world; its run and data are gone."""
    made: dict[str, Path] = {}

    def make(model: str) -> Path:
        if model not in made:
            space = tmp_path_factory.mktemp(model)
            data = save(tiny.dataset, space / "shop")
            changes = {"epochs": EPOCHS.get(model, 1), "rate": 0.01, "batch": 512}
            start(space / "run", compose(str(data), model, changes=changes), tiny.dataset)
            made[model] = export(space / "run", space / "artefact")
            for gone in ("run", "shop"):
                (space / gone).rename(space / f"{gone}-elsewhere")
        return made[model]

    return make


@pytest.fixture
def artefact(artefact_of: Callable[[str], Path]) -> Artefact:
    return open_artefact(artefact_of("crosscbr"))
