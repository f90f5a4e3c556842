"""Hyperparameter search: trials of settings, compared on validation. The test pairs are removed first."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

from clbr.data.dataset import BundleDataset
from clbr.data.folder import load
from clbr.errors import InputError, require
from clbr.files import is_url
from clbr.models.registry import make_model
from clbr.rng import generator, torch_generator
from clbr.training.loop import make_optimizer, selecting_value, train
from clbr.training.processes import Engine, Task, TaskLink, TaskResult, check_workers
from clbr.training.ray_cluster import LOCAL
from clbr.training.ray_engine import check_folders, make_engine
from clbr.training.run import Callbacks, Counters, prepare
from clbr.training.runtime import find_device
from clbr.tuning.spaces import size
from clbr.tuning.study import (
    NUMBER,
    StudyRecord,
    StudySettings,
    is_finished,
    lock_study,
    make_study_settings,
    open_study,
    summarize,
    write_record,
)

if TYPE_CHECKING:
    from optuna import Study, Trial

LEARNED_PROPOSALS = 10
"""After this many proposals that were tried before, settings are drawn at random."""


def search(
    folder: Path,
    data: Path | str,
    model: str,
    trials: int,
    *,
    preset: str | None = None,
    changes: dict[str, Any] | None = None,
    seed: int = 0,
    workers: int = 1,
    on: str = LOCAL,
    paradigm: str = "original",
    on_record: Callable[[StudyRecord], None] = lambda record: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> StudyRecord:
    """Run trials until the study in `folder` has this many finished ones; a stopped study is resumed.

    `changes` are settings that are fixed, `preset` gives the other settings that are not searched. `on_record` is
    called with the record whenever it changes, `should_stop` after each epoch. With one worker, the same seed tries
    the same settings, resumed or not. Several workers learn from each other in the order in which their trials end.
    `on` says where they run, as `make_engine` takes it.
    """
    require("optuna", "sweep")
    dataset = load(data)
    settings = make_study_settings(dataset, model, preset=preset, changes=changes, seed=seed, paradigm=paradigm)
    _check_trials(trials, settings)
    check_workers(workers)
    make_model(model, {}, dataset)  # raises an error before anything is written
    here = workers == 1 and on == LOCAL
    with ExitStack() as stack:
        connect = partial(stack.enter_context, make_engine(on, min(workers, trials)))
        engine = None if here or folder.exists() else connect()  # raises an error before anything is written
        stack.enter_context(lock_study(folder, settings))
        study = open_study(folder, settings)
        _fail_interrupted(study)
        record = _update_record(folder, study, settings, trials, None, on_record)

        def on_trial_end() -> None:
            nonlocal record
            record = _update_record(folder, study, settings, trials, record, on_record)

        finished = {trial.user_attrs[NUMBER] for trial in study.get_trials(deepcopy=False) if is_finished(trial)}
        numbers = [number for number in range(trials) if number not in finished]
        if here:
            _run_here(folder, study, settings, dataset, numbers, should_stop, on_trial_end)
        elif numbers:
            _run_on(engine or connect(), folder, settings, data, numbers, should_stop, on_trial_end)
    if record.best is None and record.finished >= trials:
        raise InputError(f"{folder}: all {record.finished} trials failed; the last one: {_last_error(study)}")
    return record


def _check_trials(trials: int, settings: StudySettings) -> None:
    if not 1 <= trials <= size(settings.space):
        most = f"{size(settings.space):,}"
        raise InputError(f"trials {trials}: expected 1 to {most}, the number of settings in the search space", "trials")


def _last_error(study: "Study") -> str:
    errors: list[str] = [trial.user_attrs["error"] for trial in study.get_trials() if "error" in trial.user_attrs]
    return errors[-1]


def _fail_interrupted(study: "Study", number: int | None = None) -> None:
    """Mark the trials that a stopped or killed search left (only those of this number), so that they are repeated."""
    states = require("optuna", "sweep").trial.TrialState
    for trial in study.get_trials(deepcopy=False, states=(states.RUNNING,)):
        if number in (None, trial.user_attrs.get(NUMBER)):
            study.tell(trial.number, state=states.FAIL)


def _update_record(
    folder: Path,
    study: "Study",
    settings: StudySettings,
    trials: int,
    before: StudyRecord | None,
    on_record: Callable[[StudyRecord], None],
) -> StudyRecord:
    record = summarize(settings, study.get_trials(deepcopy=False), trials)
    if record != before:
        write_record(folder, record)
        on_record(record)
    return record


def _run_here(
    folder: Path,
    study: "Study",
    settings: StudySettings,
    dataset: BundleDataset,
    numbers: Sequence[int],
    should_stop: Callable[[], bool],
    on_trial_end: Callable[[], None],
) -> None:
    """Run the trials with these numbers in this process."""
    for number in numbers:
        if should_stop():
            return
        run_trial(folder, study, settings, dataset, number, should_stop)
        on_trial_end()


def _run_on(
    engine: Engine,
    folder: Path,
    settings: StudySettings,
    data: Path | str,
    numbers: Sequence[int],
    should_stop: Callable[[], bool],
    on_trial_end: Callable[[], None],
) -> None:
    """Run each trial in a process of its own. After an error no further trial is started."""
    waiting, errors = list(numbers), dict[int, str]()
    place = str(data) if is_url(data) else str(Path(data).absolute())
    check_folders(engine, folder, [place])

    def next_task() -> Task | None:
        if errors or not waiting:
            return None
        return Task(_run_trial_task, (folder.absolute(), settings, place, waiting.pop(0)))

    def on_end(task: Task, result: TaskResult) -> None:
        if result.error:
            errors[task.arguments[-1]] = result.error
        on_trial_end()

    engine.run(next_task, on_end, should_stop=should_stop)
    for number, error in errors.items():
        raise InputError(f"{folder}: trial {number} was interrupted: {error}; run the search again to repeat it")


def _run_trial_task(link: TaskLink, folder: Path, settings: StudySettings, data: str, number: int) -> None:
    dataset = load(data)
    if dataset.fingerprint != settings.fingerprint:
        raise InputError(f"{data}: has changed since the search started")
    study = open_study(folder, settings)
    if any(trial.user_attrs.get(NUMBER) == number and is_finished(trial) for trial in study.get_trials(deepcopy=False)):
        return  # by a worker that was lost before it could say so
    _fail_interrupted(study, number)
    run_trial(folder, study, settings, dataset, number, link.should_stop)


def run_trial(
    folder: Path,
    study: "Study",
    settings: StudySettings,
    dataset: BundleDataset,
    number: int,
    should_stop: Callable[[], bool],
) -> None:
    """Propose settings, train with them, and write the outcome to the study's journal.

    `folder` caches the selection model of views. A trial that is stopped stays unfinished.
    """
    without_test = replace(dataset, test=dataset.test[:0])
    _train(propose(study, settings, number), folder, study, settings, without_test, should_stop)


def propose(study: "Study", settings: StudySettings, number: int) -> "Trial":
    """Return a trial with settings that were not tried yet. They depend on the seed, the number and the other trials.

    Trial 0 has the settings that the study starts from, if it has any.
    """
    optuna = require("optuna", "sweep")
    space = {key: optuna.distributions.CategoricalDistribution(values) for key, values in settings.space.items()}
    trials = study.get_trials(deepcopy=False)
    tried = [trial.params for trial in trials if is_finished(trial) or trial.state.name == "RUNNING"]
    for attempt in count():
        seed = int(generator(settings.seed, "trial", str(number), str(attempt)).integers(2**31))
        learned = attempt < LEARNED_PROPOSALS
        study.sampler = optuna.samplers.TPESampler(seed=seed) if learned else optuna.samplers.RandomSampler(seed=seed)
        if number == attempt == 0 and settings.first_trial:
            study.enqueue_trial(settings.first_trial)
        trial = study.ask(space)
        if trial.params not in tried:
            break
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    trial.set_user_attr(NUMBER, number)
    return trial


def _train(
    trial: "Trial",
    folder: Path,
    study: "Study",
    settings: StudySettings,
    dataset: BundleDataset,
    should_stop: Callable[[], bool],
) -> None:
    """Train with a trial's settings until it completes, is pruned or fails, and write the result to the study."""
    states = require("optuna", "sweep").trial.TrialState
    config, counters, started = settings.config(trial.params), Counters(), perf_counter()
    state, failure = states.COMPLETE, ""
    try:
        model = make_model(config.model, config.settings, dataset, torch_generator(config.seed, "init"))
        device = find_device("auto")
        model.to(device)
        with TemporaryDirectory() as views:
            callbacks = Callbacks(should_stop=should_stop)
            strategy = prepare(Path(views), config, dataset, callbacks, device, folder.resolve())
        if strategy is None:
            return
        optimizer = make_optimizer(model, config.train)
        for epoch in train(model, optimizer, dataset, config.train, config.seed, strategy=strategy):
            if should_stop():
                return
            counters.follow(epoch, settings.metric)
            if epoch.validation:
                trial.report(selecting_value(epoch.validation, settings.metric), epoch.number)
            if counters.finished(config.train):
                break
            if epoch.validation and trial.should_prune():
                state = states.PRUNED
                break
    except InputError as error:
        state, failure = states.FAIL, str(error)
    spent = {"epochs": counters.epoch, "seconds": perf_counter() - started, "best_epoch": counters.best_epoch}
    for key, value in spent.items():
        trial.set_user_attr(key, value)
    if failure:
        trial.set_user_attr("error", failure)
    study.tell(trial, counters.best if state == states.COMPLETE else None, state)
