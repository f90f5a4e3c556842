from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clbr import World, save
from clbr.experiments.store import Record
from clbr.training.config import RunConfig, TrainConfig


@pytest.fixture
def changed_default() -> Iterator[Callable[[str, object], None]]:
    """Change the default of a training setting, as a later version may."""
    before: dict[str, object] = {}

    def change(name: str, value: object) -> None:
        before.setdefault(name, TrainConfig.model_fields[name].default)
        TrainConfig.model_fields[name].default = value
        for settings in (TrainConfig, RunConfig, Record):
            settings.model_rebuild(force=True)

    yield change
    for name, value in before.items():
        change(name, value)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    return save(tiny.dataset, tmp_path_factory.mktemp("data") / "shop")
