"""How long cells will take: as long as such cells took before, or as a few steps let one expect."""

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
from clbr.models.registry import make_model
from clbr.rng import torch_generator
from clbr.training.loop import make_optimiser, train

STEPS = 3
VIEWS_FACTOR = 2.2
"""An epoch with views against one without."""


class _EnoughError(Exception):
    """A few steps are done."""


def estimate(
    store: Store,
    placed: Sequence[VariantCell],
    cells: Sequence[Cell],
    dataset: BundleDataset,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, float | None]:
    """Seconds for each cell on its own, by its key; those never run before count all their epochs.

    None where a few steps cannot tell, as where training breaks at once.
    """
    known: dict[tuple[str, str], list[float]] = {}
    for one in placed:
        record = store.read(one.cell)
        if record and record.state == "done":
            known.setdefault((one.model, record.config.paradigm), []).append(record.seconds / record.share)
    measured: dict[str, float] = {}
    seconds: dict[str, float | None] = {}
    for done, cell in enumerate(cells):
        progress(done, len(cells))
        config = cell.config
        if past := known.get((config.model, config.paradigm)):
            seconds[cell.key] = cell.share * mean(past)
            continue
        if config.model not in measured:
            try:
                measured[config.model] = _seconds_an_epoch(cell, dataset)
            except InputError:  # that is for its run to tell; another cell of the model may do better
                seconds[cell.key] = None
                continue
        factor = VIEWS_FACTOR if config.views else 1.0
        seconds[cell.key] = cell.share * factor * config.train.epochs * measured[config.model]
    return seconds


def _seconds_an_epoch(cell: Cell, dataset: BundleDataset) -> float:
    """Of training in the original way, from a few steps and one look at validation."""
    config = cell.config
    model = make_model(config.model, config.settings, dataset, torch_generator(config.seed, "init"))
    times: list[float] = []
    steps = -(-len(dataset.train) // config.train.batch_size)

    def count(step: int, of: int) -> None:
        times.append(perf_counter())
        if step == min(STEPS, of):
            raise _EnoughError

    begun = perf_counter()
    with suppress(_EnoughError):
        next(train(model, make_optimiser(model, config.train), dataset, config.train, config.seed, progress=count))
    step = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else times[0] - begun
    begun = perf_counter()
    evaluate(model.recommender(BundleGraph.of(dataset)), dataset, split="validation")
    look = perf_counter() - begun
    return steps * step + look / config.train.evaluate_every


def whole(seconds: Sequence[float], workers: int) -> float:
    """How long cells take together, so many at once: never less than the longest."""
    return max(sum(seconds) / min(workers, len(seconds)), max(seconds)) if seconds else 0.0
