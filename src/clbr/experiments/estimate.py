"""Estimate how long cells take, from equal cells that are done, or from a few training steps."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import mean
from time import perf_counter

from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.evaluation.protocol import evaluate
from clbr.experiments.cells import Cell, VariantCell
from clbr.experiments.store import Store
from clbr.graph.graph import BundleGraph
from clbr.models.base import ClosedForm
from clbr.models.registry import find_model, make_model
from clbr.rng import torch_generator
from clbr.training.loop import make_optimizer, train

STEPS = 3
VIEWS_FACTOR = 2.2
"""Time of an epoch with views, relative to one without."""


class _EnoughStepsError(Exception):
    """Ends a training after a few steps."""


def estimate_seconds(
    store: Store,
    experiment: Sequence[VariantCell],
    cells: Sequence[Cell],
    dataset: BundleDataset,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, float | None]:
    """Return the seconds that each of `cells` takes alone, by key.

    Cells of a model and strategy that `experiment` has results of take as long as those; others are timed by a few
    steps and count all epochs. None if it cannot be estimated, for instance if the training fails at once.
    """
    known: dict[tuple[str, str], list[float]] = {}
    for one in experiment:
        record = store.read(one.cell)
        if record and record.state == "done":
            known.setdefault((one.model, record.config.paradigm), []).append(record.seconds / record.share)
    per_epoch: dict[str, float] = {}
    seconds: dict[str, float | None] = {}
    for number, cell in enumerate(cells):
        on_progress(number, len(cells))
        config = cell.config
        if past := known.get((config.model, config.paradigm)):
            seconds[cell.key] = cell.share * mean(past)
            continue
        if config.model not in per_epoch:
            try:
                per_epoch[config.model] = _seconds_per_epoch(cell, dataset)
            except InputError:  # running the cell raises it again; another cell of the model may work
                seconds[cell.key] = None
                continue
        factor = VIEWS_FACTOR if config.views else 1.0
        epochs = 1 if issubclass(find_model(config.model), ClosedForm) else config.train.epochs
        seconds[cell.key] = cell.share * factor * epochs * per_epoch[config.model]
    return seconds


def _seconds_per_epoch(cell: Cell, dataset: BundleDataset) -> float:
    """Return the time of an epoch of the original strategy, from a few steps and one evaluation on validation."""
    config = cell.config
    model = make_model(config.model, config.settings, dataset, torch_generator(config.seed, "init"))
    times: list[float] = []
    steps = -(-len(dataset.train) // config.train.batch_size)

    def on_step(step: int, total: int) -> None:
        times.append(perf_counter())
        if step == min(STEPS, total):
            raise _EnoughStepsError

    started = perf_counter()
    with suppress(_EnoughStepsError):
        next(train(model, make_optimizer(model, config.train), dataset, config.train, config.seed, on_step=on_step))
    if not times:  # a closed-form model has one epoch without steps
        return perf_counter() - started
    step = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else times[0] - started
    started = perf_counter()
    evaluate(model.scorer(BundleGraph.of(dataset)), dataset, split="validation")
    evaluation = perf_counter() - started
    return steps * step + evaluation / config.train.evaluate_every


def total_seconds(seconds: Sequence[float], workers: int) -> float:
    """Return how long cells take together with so many workers: at least as long as the longest."""
    return max(sum(seconds) / min(workers, len(seconds)), max(seconds)) if seconds else 0.0
