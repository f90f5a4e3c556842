"""The training loop. There is no other."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter

import torch
from torch.nn.utils import clip_grad_norm_

from clbr.counterfactual.strategy import Original, Strategy
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs
from clbr.errors import InputError
from clbr.evaluation.protocol import evaluate
from clbr.graph.graph import BundleGraph
from clbr.models.base import Batch, Model
from clbr.rng import generator, torch_generator
from clbr.training.batches import Choices, HardNegatives
from clbr.training.config import TrainConfig


@dataclass(frozen=True)
class Epoch:
    """What an epoch came to; `validation` is empty where validation was not looked at, `measures` are the paradigm's own."""

    number: int
    losses: dict[str, float]
    validation: dict[str, float]
    seconds: float
    measures: dict[str, float]


def train(
    model: Model,
    optimiser: torch.optim.Optimizer,
    dataset: BundleDataset,
    config: TrainConfig,
    seed: int,
    after: int = 0,
    progress: Callable[[int, int], None] = lambda step, steps: None,
    paradigm: Strategy | None = None,
    masked: Pairs | None = None,
) -> Iterator[Epoch]:
    """Train on, epoch by epoch, after epoch `after`. What an epoch draws depends on seed and epoch alone.

    Pairs that are `masked` are left out of the rankings on validation, besides the training pairs.
    """
    paradigm = paradigm or Original()
    graph, device = BundleGraph.of(dataset), next(model.parameters()).device
    choices = Choices(dataset.train, graph.ub.shape)
    if not choices:
        raise InputError(f"{dataset.name}: whoever has a bundle has them all, so there is no choice to learn from")
    item_choices = Choices(dataset.ui, graph.ui.shape) if model.learns_items else None
    hard: HardNegatives | None = None  # made when first needed
    steps = -(-len(choices.pairs) // config.batch_size)
    for epoch in range(after + 1, config.epochs + 1):
        start, losses = perf_counter(), torch.zeros((), device=device)
        draws, noise = generator(seed, "epoch", str(epoch)), torch_generator(seed, "epoch", str(epoch))
        for group in optimiser.param_groups:
            group["lr"] = config.learning_rate * config.decay ** ((epoch - 1) // config.decay_every)
        losses_of = paradigm.epoch(model, graph, epoch, noise)
        if config.hard_from and epoch >= config.hard_from and hard is None:
            hard = HardNegatives(dataset, config.hard_history, config.hard_contents, config.hardest)
        bundles = choices.epoch(config.batch_size, config.negatives, draws, hard)
        items = item_choices.endless(config.batch_size, config.negatives, draws) if item_choices else repeat(None)
        for step, batch in enumerate(map(Batch, bundles, items), start=1):
            terms = losses_of(batch.to(device))
            loss = torch.stack(list(terms.values())).sum()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if config.clip:
                clip_grad_norm_(model.parameters(), config.clip)
            optimiser.step()
            losses = losses + torch.stack([term.detach() for term in terms.values()])
            if not loss.isfinite():
                where = f"epoch {epoch}, step {step}: {model.config} {config}"
                broken = [name for name, term in terms.items() if not term.isfinite()]
                raise InputError(f"the loss is {loss.item()} at {where}; {paradigm.remedy(broken)}")
            progress(step, steps)
        validation = {}
        if epoch % config.evaluate_every == 0 or epoch == config.epochs:
            cut = int(config.metric.split("@")[1])
            validation = evaluate(
                model.recommender(graph), dataset, split="validation", ks={20, 40, cut}, masked=masked
            ).means
        measures = paradigm.measures(model, graph, epoch)
        named = dict(zip(terms, (losses / steps).tolist(), strict=True))
        yield Epoch(epoch, named, validation, perf_counter() - start, measures)


def make_optimiser(model: Model, config: TrainConfig) -> torch.optim.Optimizer:
    """Adam."""
    return torch.optim.Adam(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)
