"""Search a model's grid for the settings that do best on validation. Never on test."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clbr.data.folder import load
from clbr.errors import InputError, require
from clbr.models.registry import make_model
from clbr.tuning.spaces import size
from clbr.tuning.study import Record, held, is_done, make_aim, open_study, sum_up, write_record
from clbr.tuning.trial import work
from clbr.tuning.workers import work_in_processes

if TYPE_CHECKING:
    from optuna import Study


def search(
    folder: Path,
    data: Path,
    model: str,
    trials: int,
    *,
    preset: str | None = None,
    changes: dict[str, Any] | None = None,
    seed: int = 0,
    workers: int = 1,
    paradigm: str = "original",
    heard: Callable[[Record], None] = lambda record: None,
    stop: Callable[[], bool] = lambda: False,
) -> Record:
    """Run trials until the study in `folder` has so many, going on with what is there; gives its record.

    `changes` are held fast and not searched; `preset` gives what is not searched. `heard` hears the record whenever
    it changes; `stop` is asked after each epoch. With one worker the same seed tries the same settings, stopped and
    gone on with or not; several learn from each other in the order in which they happen to end.
    """
    require("optuna", "sweep")
    dataset = load(data)
    aim = make_aim(dataset, model, preset=preset, changes=changes, seed=seed, paradigm=paradigm)
    if not 1 <= trials <= size(aim.grid):
        raise InputError(f"--trials {trials}: expected 1 to {size(aim.grid):,}, as many settings as there are to try")
    if workers < 1:
        raise InputError(f"--workers {workers}: expected 1 or more")
    make_model(model, {}, dataset)  # refuse what cannot be, before anything is written
    with held(folder, aim):
        study = open_study(folder, aim)
        _give_up_interrupted(study)
        record = sum_up(aim, study.get_trials(deepcopy=False), trials)
        write_record(folder, record)
        heard(record)

        def look() -> None:
            nonlocal record
            now = sum_up(aim, study.get_trials(deepcopy=False), trials)
            if now != record:
                record = now
                write_record(folder, record)
                heard(record)

        done = {trial.user_attrs["turn"] for trial in study.get_trials(deepcopy=False) if is_done(trial)}
        turns = [turn for turn in range(trials) if turn not in done]
        if workers == 1:
            work(folder, study, aim, dataset, turns, stop, look)
        elif turns:
            work_in_processes(folder, aim, data, turns, min(workers, len(turns)), stop, look)
        look()
    if record.best is None and record.done >= trials:
        errors = [trial.user_attrs["error"] for trial in study.get_trials() if "error" in trial.user_attrs]
        raise InputError(f"{folder}: none of {record.done} trials came to an end; the last: {errors[-1]}")
    return record


def _give_up_interrupted(study: "Study") -> None:
    states = require("optuna", "sweep").trial.TrialState
    for trial in study.get_trials(deepcopy=False, states=(states.RUNNING,)):
        study.tell(trial.number, state=states.FAIL)
