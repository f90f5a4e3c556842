"""A study: a folder that holds a search for settings: what it is about, every trial, what it cost, what it found."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from clbr.config import Config
from clbr.data.dataset import BundleDataset
from clbr.errors import InputError, require
from clbr.files import read_bytes, write_atomic
from clbr.training.config import RunConfig, compose
from clbr.training.presets import Preset
from clbr.training.run import locked
from clbr.tuning.spaces import IDLE, grid_of, near

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

JOURNAL, RECORD, BEST = "journal.log", "study.json", "best.toml"
STARTUP_TRIALS = 4
"""Trials before the first one may be pruned."""


class Aim(Config):
    """What a study is about. Trials of another aim cannot be compared with its own."""

    model: str = Field(description="the model's name")
    paradigm: str = Field("original", description="the way it is trained")
    data: str = Field(description="the data set's name")
    fingerprint: str = Field(description="the data set's checksum")
    metric: str = Field(description="chosen on, on validation")
    seed: int = Field(description="of every training, and of what is tried")
    fixed: dict[str, Any] = Field(description="settings that are not searched")
    grid: dict[str, list[Any]] = Field(description="settings that are, and their values")
    first: dict[str, Any] = Field(default_factory=dict, description="what is tried first; empty: drawn like the others")

    def config(self, tried: dict[str, Any]) -> RunConfig:
        """The settings of a trial."""
        return compose(self.data, self.model, changes=self.fixed | tried, seed=self.seed, paradigm=self.paradigm)


class Record(Aim):
    """A study's aim and its budget: who is compared with what it found must be given the same."""

    asked: int = Field(0, description="trials asked for")
    done: int = Field(0, description="trials that came to an end: whole, pruned or failed")
    pruned: int = Field(0, description="of these, stopped early for being worse than the median")
    failed: int = Field(0, description="of these, ended by an error, as a loss that is not a number")
    epochs: int = Field(0, description="of all these trials")
    seconds: float = Field(0.0, description="of all these trials, the workers' added up")
    best: float | None = Field(None, description="the best value of the metric on validation")
    best_epoch: int | None = Field(None, description="its epoch")
    best_settings: dict[str, Any] = Field(default_factory=dict, description="the searched settings that gave it")


def make_aim(
    dataset: BundleDataset,
    model: str,
    *,
    preset: str | None = None,
    changes: dict[str, Any] | None = None,
    seed: int,
    paradigm: str = "original",
) -> Aim:
    """What to search: the model's grid (or the views') without what `changes` holds fast.

    From a preset the search sets out: it is tried first, then values next to its own.
    """
    config = compose(dataset.name, model, preset=preset, changes=changes, seed=seed, paradigm=paradigm)
    held_fast = {*(changes or {}), *(IDLE.get(config.views.constraint, ()) if config.views else ())}
    grid = {key: values for key, values in grid_of(model, paradigm).items() if key not in held_fast}
    whole = config.settings | config.train.model_dump(mode="json", exclude_none=True)
    whole |= config.views.model_dump(mode="json", exclude_none=True) if config.views else {}
    first = {key: whole[key] for key in grid} if preset else {}
    if preset:
        grid = {key: near(values, whole[key]) for key, values in grid.items()}
    fixed = {key: value for key, value in whole.items() if key not in grid}
    about = {"model": model, "data": dataset.name, "fingerprint": dataset.fingerprint, "metric": config.train.metric}
    return Aim.make(about | {"seed": seed, "fixed": fixed, "grid": grid, "first": first, "paradigm": paradigm})


@contextmanager
def held(folder: Path, aim: Aim) -> Iterator[None]:
    """Hold a study's folder, new or begun with the same aim; anything else there is refused."""
    known = folder / RECORD
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: there is a file of this name; choose another --out")
    if known.exists():
        _refuse_other(folder, aim)
    elif folder.exists() and not all(path.name.startswith(".") for path in folder.iterdir()):
        raise InputError(f"{folder}: holds other things than a study; choose another --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    with locked(folder):
        if not known.exists():
            write_record(folder, Record(**aim.model_dump()))
        _mend_journal(folder / JOURNAL)
        yield


def _refuse_other(folder: Path, aim: Aim) -> None:
    found = read_record(folder).model_dump()
    for key, wanted in aim.model_dump().items():
        if key == "data" or found[key] == wanted:  # a data set may be renamed; its checksum tells
            continue
        if key == "fingerprint":
            raise InputError(f"{folder}: is a study of {found['data']}, and this is other data; choose another --out")
        there, here = found[key], wanted
        if isinstance(wanted, dict):  # name the first setting that differs
            key = min(k for k in {*here, *there} if here.get(k) != there.get(k))
            there, here = there.get(key, "searched"), here.get(key, "searched")
        raise InputError(f"{folder}: is a study with {key} {there}, not {here}; choose another --out")


def _mend_journal(journal: Path) -> None:
    """Take away what a killed process left: half a line, and its hold on the file. We hold the folder."""
    journal.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)
    if journal.exists():
        content = journal.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            write_atomic(journal, content[:whole])


def open_study(folder: Path, aim: Aim) -> "Study":
    """The study in the folder's journal, begun if it is not there."""
    optuna = require("optuna", "sweep")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / JOURNAL)))
    pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=aim.fixed["epochs"] // 10)
    study: Study = optuna.create_study(
        storage=storage, study_name=aim.model, pruner=pruner, direction="maximize", load_if_exists=True
    )
    return study


def is_done(trial: "FrozenTrial") -> bool:
    """Whether a trial came to an end of its own; one that was interrupted did not, and is begun again."""
    return trial.state.name in ("COMPLETE", "PRUNED") or (trial.state.name == "FAIL" and "error" in trial.user_attrs)


def sum_up(aim: Aim, trials: Sequence["FrozenTrial"], asked: int) -> Record:
    """What the trials came to."""
    done = [trial for trial in trials if is_done(trial)]
    states = [trial.state.name for trial in done]
    whole = [trial for trial in done if trial.state.name == "COMPLETE"]
    # Of equals the first in turn, whichever worker was quicker.
    best = max(whole, key=lambda trial: (trial.value, -trial.user_attrs["turn"]), default=None)
    return Record(
        **aim.model_dump(),
        asked=asked,
        done=len(done),
        pruned=states.count("PRUNED"),
        failed=states.count("FAIL"),
        epochs=sum(trial.user_attrs["epochs"] for trial in done),
        seconds=round(sum(trial.user_attrs["seconds"] for trial in done), 3),
        best=best.value if best else None,
        best_epoch=best.user_attrs["best_epoch"] if best else None,
        best_settings=best.params if best else {},
    )


def write_record(folder: Path, record: Record) -> None:
    """The budget, and the best settings as a preset if there are any yet."""
    write_atomic(folder / RECORD, (record.model_dump_json(indent=2) + "\n").encode())
    if record.best is not None:
        config = record.config(record.best_settings)
        views = config.views.model_dump(mode="json", exclude_none=True) if config.views else {}
        train = config.train.model_dump(mode="json", exclude_none=True)
        preset = Preset(settings=config.settings, train=train, views=views)
        told = f"{record.model} on {record.data}: {record.metric} {record.best:.4f} on validation, best of {record.done} trials"
        write_atomic(folder / BEST, f"# {told}\n{preset.to_toml()}".encode())


def read_record(folder: Path) -> Record:
    """The record of a study."""
    path = folder / RECORD
    try:
        return Record.make(json.loads(read_bytes(path)), str(path))
    except ValueError as error:
        raise InputError(f"{path}: not the record of a study ({error})") from None
