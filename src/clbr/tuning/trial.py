"""One trial of a search: propose settings, train with them, tell the study. Test pairs are taken away first."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

from clbr.data.dataset import BundleDataset
from clbr.errors import InputError, require
from clbr.models.registry import make_model
from clbr.rng import generator, torch_generator
from clbr.training.loop import make_optimiser, train
from clbr.training.run import Callbacks, Counters, prepare
from clbr.training.runtime import find_device
from clbr.tuning.study import Aim, is_done

if TYPE_CHECKING:
    from optuna import Study, Trial

LEARNED_DRAWS = 10
"""After so many proposals that were tried before, propose blindly."""


def work(
    folder: Path,
    study: "Study",
    aim: Aim,
    dataset: BundleDataset,
    turns: Sequence[int],
    stop: Callable[[], bool],
    look: Callable[[], None] = lambda: None,
) -> None:
    """Run the trials of these turns, one after the other; `folder` keeps the model that judges pairs for views."""
    blind = replace(dataset, test=dataset.test[:0])
    for turn in turns:
        if stop():
            return
        _run(propose(study, aim, turn), folder, study, aim, blind, stop)
        look()


def propose(study: "Study", aim: Aim, turn: int) -> "Trial":
    """A trial of settings not tried yet. What is drawn depends on the seed, the turn and the trials done.

    The first turn is what the study sets out from, if it does from anything.
    """
    optuna = require("optuna", "sweep")
    grid = {key: optuna.distributions.CategoricalDistribution(values) for key, values in aim.grid.items()}
    trials = study.get_trials(deepcopy=False)
    tried = [trial.params for trial in trials if is_done(trial) or trial.state.name == "RUNNING"]
    for attempt in count():
        seed = int(generator(aim.seed, "trial", str(turn), str(attempt)).integers(2**31))
        samplers = optuna.samplers
        study.sampler = samplers.TPESampler(seed=seed) if attempt < LEARNED_DRAWS else samplers.RandomSampler(seed=seed)
        if turn == attempt == 0 and aim.first:
            study.enqueue_trial(aim.first)
        trial = study.ask(grid)
        if trial.params not in tried:
            break
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
    trial.set_user_attr("turn", turn)
    return trial


def _run(
    trial: "Trial", folder: Path, study: "Study", aim: Aim, dataset: BundleDataset, stop: Callable[[], bool]
) -> None:
    """Train with a trial's settings and tell the study; stopped on the way, the trial is left for later."""
    states = require("optuna", "sweep").trial.TrialState
    config, counters, begun = aim.config(trial.params), Counters(), perf_counter()
    state, failure = states.COMPLETE, ""
    try:
        model = make_model(config.model, config.settings, dataset, torch_generator(config.seed, "init"))
        device = find_device("auto")
        model.to(device)
        with TemporaryDirectory() as space:
            paradigm = prepare(Path(space), config, dataset, Callbacks(stop=stop), device, folder.resolve())
        if paradigm is None:
            return
        optimiser = make_optimiser(model, config.train)
        for epoch in train(model, optimiser, dataset, config.train, config.seed, paradigm=paradigm):
            if stop():
                return
            counters.follow(epoch, aim.metric)
            if epoch.validation:
                trial.report(epoch.validation[aim.metric], epoch.number)
            if counters.finished(config.train):
                break
            if epoch.validation and trial.should_prune():
                state = states.PRUNED
                break
    except InputError as error:
        state, failure = states.FAIL, str(error)
    spent = {"epochs": counters.epoch, "seconds": perf_counter() - begun, "best_epoch": counters.best_epoch}
    for key, value in spent.items():
        trial.set_user_attr(key, value)
    if failure:
        trial.set_user_attr("error", failure)
    study.tell(trial, counters.best if state == states.COMPLETE else None, state)
