"""Paradigms: what a model learns from. The original way, or beside counterfactual views under a constraint."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from clbr.counterfactual.config import ViewsConfig
from clbr.counterfactual.constraint import adaptive, constant
from clbr.counterfactual.diagnostics import measure
from clbr.counterfactual.samplers import Casr, EdgeDropout, Heuristic, Record, Sampler, Stochastic
from clbr.data.pairs import Relation
from clbr.errors import InputError
from clbr.graph.edits import RELATIONS, EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.models.base import Batch, Embeddings, Encoder, Model
from clbr.models.layers import unit_rows
from clbr.models.objectives import info_nce
from clbr.rng import generator, torch_generator
from clbr.training.batches import Choices
from clbr.training.config import TrainConfig

Losses = Callable[[Batch], dict[str, Tensor]]
Side = Literal["users", "bundles"]


class Strategy(ABC):
    """Supplies the losses of an epoch. Neither a paradigm nor a model owns a loop."""

    @abstractmethod
    def epoch(self, model: Model, graph: BundleGraph, number: int, noise: torch.Generator) -> Losses:
        """What to minimise in this epoch, as a function of the batch."""

    def measures(self, model: Model, graph: BundleGraph, number: int) -> dict[str, float]:
        """What is worth following as the model learns, after epoch `number`."""
        return {}

    def remedy(self, broken: Sequence[str]) -> str:
        """What to try where these terms of the loss are no finite numbers."""
        return "try a lower rate"


class Original(Strategy):
    """The model's own losses on the factual graph."""

    def epoch(self, model: Model, graph: BundleGraph, number: int, noise: torch.Generator) -> Losses:
        """The same in every epoch, but for what the model augments."""
        seen = model.epoch_graph(graph, noise)
        return lambda batch: model.losses(seen, batch, noise)


class Counterfactual(Strategy):
    """The task on the factual graph and on one view an epoch, and a constraint that keeps the two together.

    With a sampler every epoch has a view of its own; else it takes one of `views` (Algorithm 1 of the paper).
    """

    def __init__(
        self,
        config: ViewsConfig,
        views: Sequence[EdgeEdits],
        seed: int,
        train: TrainConfig,
        sampler: Sampler | None = None,
    ) -> None:
        self.config, self.edits, self.seed, self.train, self.sampler = config, views, seed, train, sampler
        self.graphs: dict[int, BundleGraph] = {}

    def epoch(self, model: Model, graph: BundleGraph, number: int, noise: torch.Generator) -> Losses:
        """One view for the whole epoch."""
        assert isinstance(model, Encoder)
        config, view = self.config, self._view(graph, number)
        seen, other = model.epoch_graph(graph, noise), model.epoch_graph(view, noise)
        share = min(1.0, number / config.warm_up) if config.warm_up else 1.0
        choices = None
        if config.view_positives:
            draws = generator(self.seed, "view choices", str(number))
            chosen = Choices(view.ub.pairs, view.ub.shape)
            if not chosen:
                raise InputError(f"epoch {number}: in its view whoever has a bundle has them all; lower ratio_ub")
            choices = chosen.endless(self.train.batch_size, self.train.negatives, draws)

        def losses(batch: Batch) -> dict[str, Tensor]:
            fact = model.encode(model.batch_graph(seen, batch), noise)
            terms = model.task_losses(fact, batch)
            theirs = Batch(next(choices).to(batch.ub.users.device), batch.ui) if choices else batch
            counter = model.encode(model.batch_graph(other, theirs), noise)
            if config.view_weight:
                there = model.task_losses(counter, theirs)
                terms |= {f"view {name}": config.view_weight * term for name, term in there.items()}
            if config.constraint != "none":
                users, bundles = (self._some(nodes, noise) for nodes in (batch.ub.users, batch.ub.positives))
                held_u = self._constraint_loss("users", fact, counter, users, config.lambda_u)
                held_b = self._constraint_loss("bundles", fact, counter, bundles, config.lambda_b)
                terms["constraint users"] = share * config.omega_u * held_u
                terms["constraint bundles"] = share * config.omega_b * held_b
            return terms

        return losses

    def measures(self, model: Model, graph: BundleGraph, number: int) -> dict[str, float]:
        """Alignment, uniformity and entropies of the paper's lemmas, over the views; after the first epoch, too."""
        if not self.config.measure_every or (number > 1 and number % self.config.measure_every):
            return {}
        assert isinstance(model, Encoder)
        views = [self._fixed(graph, index) for index in range(len(self.edits))]
        draw = torch_generator(self.seed, "measured nodes")
        return measure(model, graph, views, self.config.tau, self.config.distance, draw)

    def remedy(self, broken: Sequence[str]) -> str:
        """A tiny tau puts the exponential distance beyond any number, and then the constraint alone is broken."""
        if self.config.distance == "exponential" and broken and all(name.startswith("constraint") for name in broken):
            return f"the constraint alone is not finite: try a larger tau than {self.config.tau:g}"
        return super().remedy(broken)

    def _view(self, graph: BundleGraph, number: int) -> BundleGraph:
        if self.sampler is not None:
            edits, _ = self.sampler.draw(self.config.ratios, generator(self.seed, "view of epoch", str(number)))
            return edits.apply(graph)
        return self._fixed(graph, int(generator(self.seed, "choice of view", str(number)).integers(len(self.edits))))

    def _fixed(self, graph: BundleGraph, index: int) -> BundleGraph:
        """A view of the set; made once, with all its operators."""
        if index not in self.graphs:
            self.graphs[index] = self.edits[index].apply(graph)
        return self.graphs[index]

    def _some(self, nodes: Tensor, noise: torch.Generator) -> Tensor:
        """The distinct nodes, or by chance as many of them as are to be constrained."""
        distinct: Tensor = torch.unique(nodes)
        if not self.config.nodes or len(distinct) <= self.config.nodes:
            return distinct
        some = torch.randperm(len(distinct), generator=noise)[: self.config.nodes]
        return distinct.index_select(0, some.to(distinct.device))

    def _constraint_loss(
        self, side: Side, fact: Embeddings, counter: Embeddings, nodes: Tensor, weight: float
    ) -> Tensor:
        """The constraint on some nodes, with their levels side by side or one by one."""
        pairs = [
            (getattr(there, side).index_select(0, nodes), getattr(here, side).index_select(0, nodes))
            for here, there in zip(fact.levels.values(), counter.levels.values(), strict=True)
        ]
        if not self.config.per_level:
            view, real = zip(*pairs, strict=True)
            pairs = [(torch.cat(view, dim=1), torch.cat(real, dim=1))]
        config = self.config
        terms = []
        for view, real in pairs:
            there, here = unit_rows(view), unit_rows(real)
            if config.constraint == "adaptive":
                terms.append(adaptive(there, here, weight, config.tau, config.distance))
            elif config.constraint == "contrastive":
                terms.append(info_nce(here, there, here.new_ones(len(here)), config.tau))
            else:
                terms.append(constant(there, here, config.threshold, config.tau, config.distance, config.hinge))
        return torch.stack(terms).mean()


def make_sampler(config: ViewsConfig, graph: BundleGraph, embeddings: Embeddings | None, seed: int) -> Sampler:
    """The sampler of the settings; those that judge pairs need the vectors of a trained model."""
    if config.sampler == "dropout" or not config.ratios:  # without edits any sampler draws the factual graph
        return EdgeDropout(graph)
    if config.sampler == "stochastic" and config.additions is not None:
        return Stochastic(graph, dict.fromkeys(RELATIONS, config.additions))
    if embeddings is None:
        raise InputError(f"the {config.sampler} sampler needs a trained model to judge pairs by")
    if config.sampler == "casr":
        return Casr(graph, embeddings, config.sampler_batch, config.confident)
    heuristic = Heuristic(graph, embeddings, config.sampler_batch, config.upper, config.lower, config.literal)
    if config.sampler == "heuristic":
        return heuristic
    _, record = heuristic.draw(config.ratios, generator(seed, "mix"))
    share: dict[Relation, float] = {r: x["added"] / (x["added"] + x["dropped"]) for r, x in record.items()}
    return Stochastic(graph, share)


def draw_views(sampler: Sampler, config: ViewsConfig, seed: int) -> tuple[list[EdgeEdits], list[Record]]:
    """The view set of a run."""
    drawn = [sampler.draw(config.ratios, generator(seed, "view", str(index))) for index in range(config.views)]
    return [edits for edits, _ in drawn], [record for _, record in drawn]
