"""The training loop. It is the same for all models and strategies."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from clbr.counterfactual.strategy import Original, Strategy
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs
from clbr.errors import InputError
from clbr.evaluation.protocol import evaluate
from clbr.graph.graph import BundleGraph
from clbr.models.base import ClosedForm, Encoder, Model
from clbr.models.columns import add_up, cut
from clbr.models.embeddings import Batch
from clbr.rng import generator, torch_generator
from clbr.training.batches import HardNegatives, Positives, draw_nodes
from clbr.training.config import TrainConfig

WARM, CROSS = "warm ", "cross-fitted "
"""Precede the metric that selects the epoch of a calibrated model, in `Epoch.validation`."""
SELECTING_PAIRS = {WARM: "warm bundles", CROSS: "cold bundles not fitted to"}
"""The pairs that it is measured on: of bundles with training pairs; or of bundles the calibration was not fitted to."""
OnStep = Callable[[int, int], None]
"""Called after each step with the step's number and the number of steps in an epoch."""


@dataclass(frozen=True)
class Epoch:
    """Result of an epoch. `validation` is empty if it was not evaluated; `measures` are the strategy's diagnostics."""

    number: int
    losses: dict[str, float]
    validation: dict[str, float]
    seconds: float
    measures: dict[str, float]


def selecting_value(validation: Mapping[str, float], metric: str) -> float:
    """Return the value that selects the best epoch: on the pairs of `selecting_pairs`, or on all."""
    return next((validation[key + metric] for key in SELECTING_PAIRS if key + metric in validation), validation[metric])


def selecting_pairs(validation: Mapping[str, float], metric: str) -> str:
    """Return the name of the pairs that select the best epoch; empty if all validation pairs do."""
    return next((name for key, name in SELECTING_PAIRS.items() if key + metric in validation), "")


def train(
    model: Model,
    optimizer: torch.optim.Optimizer,
    dataset: BundleDataset,
    config: TrainConfig,
    seed: int,
    after: int = 0,
    on_step: OnStep = lambda step, steps: None,
    strategy: Strategy | None = None,
    masked: Pairs | None = None,
) -> Iterator[Epoch]:
    """Train epoch by epoch, from epoch `after` + 1 on. What an epoch draws depends only on the seed and its number.

    Validation leaves out the pairs in `masked`, and training pairs. A closed-form model is solved in one epoch.
    """
    graph = BundleGraph.of(dataset)
    if isinstance(model, ClosedForm):
        yield from _solve(model, graph, dataset, config, after, masked)
        return
    strategy, device = strategy or Original(), next(model.parameters()).device
    positives = Positives(dataset.train, graph.ub.shape)
    if not positives:
        raise InputError(f"{dataset.name}: every user with a bundle has all bundles, so there are no negatives")
    item_positives = Positives(dataset.ui, graph.ui.shape) if model.learns_items else None
    hard: HardNegatives | None = None  # built when first needed
    steps, selection = -(-len(positives) // config.batch_size), _selection(model, dataset)
    for epoch in range(after + 1, config.epochs + 1):
        start, losses = perf_counter(), torch.zeros((), device=device)
        draws, noise = generator(seed, "epoch", str(epoch)), torch_generator(seed, "epoch", str(epoch))
        _set_learning_rate(optimizer, config, epoch)
        epoch_losses = strategy.epoch_losses(model, graph, epoch, noise)
        if config.hard_from and epoch >= config.hard_from and hard is None:
            hard = HardNegatives(dataset, config.hard_history, config.hard_contents, config.hardest)
        ub = positives.epoch(config.batch_size, config.negatives, draws, hard, model.compared)
        ui = item_positives.endless(config.batch_size, config.negatives, draws) if item_positives else repeat(None)
        nodes = draw_nodes(model.random_nodes, graph, generator(seed, "other nodes", str(epoch)))
        for step, batch in enumerate(map(Batch, ub, ui, nodes), start=1):
            terms = epoch_losses(batch.to(device))
            loss = _step(model, optimizer, terms, config.clip)
            losses = losses + torch.stack([term.detach() for term in terms.values()])
            if not loss.isfinite():
                remedy = strategy.remedy([name for name, term in terms.items() if not term.isfinite()])
                where = f"epoch {epoch}, step {step}: {model.config} {config}"
                raise InputError(f"the loss is {loss.item()} at {where}; {remedy}")
            on_step(step, steps)
        evaluated = epoch % config.evaluate_every == 0 or epoch == config.epochs
        validation = _validate(model, graph, dataset, config, masked, selection) if evaluated else {}
        measures = strategy.measures(model, graph, epoch)
        named = dict(zip(terms, (losses / steps).tolist(), strict=True))
        yield Epoch(epoch, named, validation, perf_counter() - start, measures)


def _set_learning_rate(optimizer: torch.optim.Optimizer, config: TrainConfig, epoch: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = config.learning_rate * config.decay ** ((epoch - 1) // config.decay_every)


def _step(model: Model, optimizer: torch.optim.Optimizer, terms: dict[str, Tensor], clip: float | None) -> Tensor:
    """Make one optimizer step on the sum of the loss terms; return the sum."""
    loss = torch.stack(list(terms.values())).sum()
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if clip:
        _clip(model, clip)
    optimizer.step()
    return loss


def _clip(model: Model, clip: float) -> None:
    """Scale the gradient down to the norm `clip` if it is longer; its norm is over the columns of all processes."""
    norm = clip_grad_norm_(model.parameters(), clip if cut.size == 1 else float("inf"))  # inf: only computes the norm
    if cut.size > 1:
        factor = (clip / (add_up(norm**2).sqrt() + 1e-6)).clamp(max=1.0)
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(factor)


def _solve(
    model: ClosedForm,
    graph: BundleGraph,
    dataset: BundleDataset,
    config: TrainConfig,
    after: int,
    masked: Pairs | None,
) -> Iterator[Epoch]:
    """Compute the parameters of a closed-form model, evaluate it, and yield the only epoch."""
    if after >= 1:
        return
    start = perf_counter()
    with torch.no_grad():
        model.solve(dataset)
    validation = _validate(model, graph, dataset, config, masked)
    yield Epoch(1, {}, validation, perf_counter() - start, {})


@dataclass(frozen=True)
class Selection:
    """How the epoch of a calibrated model is selected: by `key` and the metric, the mean over `parts`.

    The calibration is fitted to the validation pairs of the first data set of a part, and measured on the second's.
    """

    key: str
    parts: Sequence[tuple[BundleDataset, BundleDataset]]


def _selection(model: Model, dataset: BundleDataset) -> Selection | None:
    """Return how the epoch is selected; None: by all validation pairs.

    Pairs of cold bundles calibrate a model, and a few popular ones hold most of them: they would select an epoch by
    chance. So the pairs of warm bundles do. If there are none, the calibration is fitted to one half of the cold
    bundles and measured on the other, and the reverse.
    """
    if not isinstance(model, Encoder) or not model.calibrates:
        return None

    def part(pairs: NDArray[np.bool_]) -> BundleDataset:
        return replace(dataset, validation=dataset.validation[pairs])

    bundles = dataset.validation[:, 1]
    warm, cold = dataset.popularity[bundles] > 0, generator(0, "halves of cold bundles").permutation(np.unique(bundles))
    if warm.any():
        return None if warm.all() else Selection(WARM, [(dataset, part(warm))])
    one, other = (part(np.isin(bundles, cold[half::2])) for half in (0, 1))
    return Selection(CROSS, [(one, other), (other, one)]) if len(cold) > 1 else None


def _validate(
    model: Model,
    graph: BundleGraph,
    dataset: BundleDataset,
    config: TrainConfig,
    masked: Pairs | None,
    selection: Selection | None = None,
) -> dict[str, float]:
    """Return the metrics on validation, at the usual cut-offs and at that of `config.metric`."""
    metric, users = config.metric, config.validation_users
    k = int(metric.split("@")[1])

    def measure(data: BundleDataset, ks: set[int]) -> dict[str, float]:
        scorer = model.scorer(graph)
        return evaluate(scorer, data, split="validation", ks=ks, masked=masked, max_users=users).means

    selecting, fitted = dict[str, float](), None
    if selection:
        values = []
        for fitted, measured in selection.parts:
            model.calibrate(graph, fitted)
            values.append(measure(measured, {k})[metric])
        selecting = {selection.key + metric: sum(values) / len(values)}
    if fitted is not dataset:  # the calibration that stays is that of all pairs
        model.calibrate(graph, dataset)
    return measure(dataset, {20, 40, k}) | selecting


def make_optimizer(model: Model, config: TrainConfig) -> torch.optim.Optimizer:
    """Return Adam with the settings of the config."""
    return torch.optim.Adam(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)
