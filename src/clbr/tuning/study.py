"""Study: a folder with a hyperparameter search, that is its settings, the journal of its trials, and its record."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from clbr.config import Config
from clbr.data.dataset import BundleDataset
from clbr.errors import InputError, require
from clbr.files import lock, read_bytes, write_atomic
from clbr.training.config import NO_PRESET, Preset, RunConfig, compose, defaults_by_data, find_preset
from clbr.tuning.spaces import nearby, search_space, with_own

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

JOURNAL, RECORD, BEST = "journal.log", "study.json", "best.toml"
STARTUP_TRIALS = 4
"""Trials before the first one may be pruned."""
NUMBER = "number"
"""Attribute of a trial in the journal: its number in the study. Optuna's own numbers also count repeated proposals."""


class StudySettings(Config):
    """What a study searches. Only trials with equal study settings can be compared."""

    model: str = Field(description="the model's name")
    paradigm: str = Field("original", description="the training strategy")
    data: str = Field(description="the data set's name")
    fingerprint: str = Field(description="the data set's checksum")
    metric: str = Field(description="the metric that is maximised, on validation")
    seed: int = Field(description="of every training, and of the proposed settings")
    fixed: dict[str, Any] = Field(description="settings that are not searched")
    space: dict[str, list[Any]] = Field(description="settings that are searched, with their values")
    first_trial: dict[str, Any] = Field(
        default_factory=dict, description="settings of the first trial: those of the preset, or the defaults"
    )

    def config(self, proposed: dict[str, Any]) -> RunConfig:
        """Return the settings of a trial."""
        changes = self.fixed | proposed
        return compose(self.data, self.model, preset=NO_PRESET, changes=changes, seed=self.seed, paradigm=self.paradigm)


class StudyRecord(StudySettings):
    """The settings of a study, its budget and its best trial. A fair comparison gives both sides the same budget."""

    trials: int = Field(0, description="trials that were requested")
    finished: int = Field(0, description="trials that ended: completed, pruned or failed")
    pruned: int = Field(0, description="of the finished trials, those stopped early because they were below the median")
    failed: int = Field(0, description="of the finished trials, those that ended with an error, as a loss that is nan")
    epochs: int = Field(0, description="of all finished trials")
    seconds: float = Field(0.0, description="of all finished trials, added up over the workers")
    best: float | None = Field(None, description="the best value of the metric on validation")
    best_epoch: int | None = Field(None, description="the epoch of the best value")
    best_settings: dict[str, Any] = Field(default_factory=dict, description="the searched settings of the best trial")


def make_study_settings(
    dataset: BundleDataset,
    model: str,
    *,
    preset: str | None = None,
    changes: dict[str, Any] | None = None,
    seed: int,
    paradigm: str = "original",
) -> StudySettings:
    """Decide what to search: the search space of the model (or of the strategy) without the settings in `changes`.

    The first trial has the values of the preset (by default the one of the data set, if there is one) or the defaults,
    so that the best trial is never worse. With a preset the others try the values next to its values.
    """
    config = compose(
        dataset.name,
        model,
        preset=preset,
        data_name=dataset.name,
        by_data=defaults_by_data(model, dataset),
        changes=changes,
        seed=seed,
        paradigm=paradigm,
    )
    values = config.settings | config.train.model_dump(mode="json", exclude_none=True)
    values |= config.views.model_dump(mode="json", exclude_none=True) if config.views else {}
    space = {key: tried for key, tried in search_space(config).items() if key not in (changes or {})}
    preset_name, _ = find_preset(model, preset, dataset.name, paradigm)
    around = nearby if preset_name else with_own
    space = {key: around(tried, values[key]) for key, tried in space.items()}
    return StudySettings.make(
        {
            "model": model,
            "paradigm": paradigm,
            "data": dataset.name,
            "fingerprint": dataset.fingerprint,
            "metric": config.train.metric,
            "seed": seed,
            "fixed": {key: value for key, value in values.items() if key not in space},
            "space": space,
            "first_trial": {key: values[key] for key in space},
        }
    )


@contextmanager
def lock_study(folder: Path, settings: StudySettings) -> Iterator[None]:
    """Hold the lock of a study's folder, which is new or has a study with equal settings.

    Raises `InputError` if the folder holds anything else, or if another process uses it.
    """
    record = folder / RECORD
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: there is a file of this name; choose another folder", "out")
    if record.exists():
        _check_same_settings(folder, settings)
    elif folder.exists() and not all(path.name.startswith(".") for path in folder.iterdir()):
        raise InputError(f"{folder}: holds other things than a study; choose another folder", "out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})", "out") from None
    with lock(folder):
        if not record.exists():
            write_record(folder, StudyRecord(**settings.model_dump()))
        _repair_journal(folder / JOURNAL)
        yield


def _check_same_settings(folder: Path, settings: StudySettings) -> None:
    found = read_record(folder).model_dump()
    for key, here in settings.model_dump().items():
        there = found[key]
        if key == "data" or there == here:  # a data set may be renamed; its checksum is compared
            continue
        if key == "fingerprint":
            raise InputError(
                f"{folder}: is a study of {found['data']}, which is other data; choose another folder", "out"
            )
        if isinstance(here, dict):  # name the first setting that differs
            key = min(name for name in {*here, *there} if here.get(name) != there.get(name))
            there, here = there.get(key, "searched"), here.get(key, "searched")
        raise InputError(f"{folder}: is a study with {key} {there}, not {here}; choose another folder", "out")


def _repair_journal(journal: Path) -> None:
    """Remove what a killed process left: an incomplete last line, and optuna's lock. We hold the folder's lock."""
    journal.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)
    if journal.exists():
        content = journal.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            write_atomic(journal, content[:complete])


def open_study(folder: Path, settings: StudySettings) -> "Study":
    """Open the study in the folder's journal; it is created if it is not there."""
    optuna = require("optuna", "sweep")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / JOURNAL)))
    warmup = settings.fixed["epochs"] // 10
    pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=warmup)
    study: Study = optuna.create_study(
        storage=storage, study_name=settings.model, pruner=pruner, direction="maximize", load_if_exists=True
    )
    return study


def is_finished(trial: "FrozenTrial") -> bool:
    """Whether a trial completed, was pruned or failed. An interrupted trial is not finished and is repeated."""
    return trial.state.name in ("COMPLETE", "PRUNED") or (trial.state.name == "FAIL" and "error" in trial.user_attrs)


def summarize(settings: StudySettings, trials: Sequence["FrozenTrial"], requested: int) -> StudyRecord:
    """Return the record of a study after these trials."""
    finished = [trial for trial in trials if is_finished(trial)]
    states = [trial.state.name for trial in finished]
    completed = [trial for trial in finished if trial.state.name == "COMPLETE"]
    # Of equal trials the lowest number wins, whichever worker was faster.
    best = max(completed, key=lambda trial: (trial.value, -trial.user_attrs[NUMBER]), default=None)
    return StudyRecord(
        **settings.model_dump(),
        trials=requested,
        finished=len(finished),
        pruned=states.count("PRUNED"),
        failed=states.count("FAIL"),
        epochs=sum(trial.user_attrs["epochs"] for trial in finished),
        seconds=round(sum(trial.user_attrs["seconds"] for trial in finished), 3),
        best=best.value if best else None,
        best_epoch=best.user_attrs["best_epoch"] if best else None,
        best_settings=best.params if best else {},
    )


def write_record(folder: Path, record: StudyRecord) -> None:
    """Write the record, and the best settings as a preset if a trial has completed."""
    write_atomic(folder / RECORD, (record.model_dump_json(indent=2) + "\n").encode())
    if record.best is not None:
        config = record.config(record.best_settings)
        views = config.views.model_dump(mode="json", exclude_none=True) if config.views else {}
        # The search may have limited the number of epochs. How many a training needs is found by its patience.
        train = config.train.model_dump(mode="json", exclude_none=True, exclude={"epochs"})
        preset = Preset(settings=config.settings, train=train, views=views)
        result = f"{record.metric} {record.best:.4f} on validation, best of {record.finished} trials"
        write_atomic(folder / BEST, f"# {record.model} on {record.data}: {result}\n{preset.to_toml()}".encode())


def read_record(folder: Path) -> StudyRecord:
    """Read the record of a study."""
    path = folder / RECORD
    try:
        return StudyRecord.make(json.loads(read_bytes(path)), str(path))
    except ValueError as error:
        raise InputError(f"{path}: is not the record of a study ({error}); choose another folder", "out") from None
