"""Training strategies: which losses a model is trained with. Original, CLBR and CASR (the paper's paradigms)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from clbr.config import nearest
from clbr.counterfactual.config import CASRConfig, ViewsConfig
from clbr.counterfactual.constraint import constraint_loss
from clbr.counterfactual.diagnostics import measure
from clbr.counterfactual.samplers import Casr, EdgeDropout, Heuristic, Record, Sampler, Stochastic
from clbr.counterfactual.views import PAIRS, read_views, write_views
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Relation
from clbr.errors import InputError
from clbr.graph.edits import RELATIONS, EdgeEdits
from clbr.graph.graph import BundleGraph, Edges
from clbr.models.base import Encoder, Model, SearchSpace
from clbr.models.embeddings import Batch, Embeddings, Triples
from clbr.rng import generator, torch_generator

Losses = Callable[[Batch], dict[str, Tensor]]
"""The terms of the loss on a batch, by name."""
Batches = Callable[[Edges, np.random.Generator, int], Iterator[Triples] | None]
"""Endless batches of a graph's user-bundle edges (see `Positives.epoch`); None if no edge's user misses a bundle."""

# The paper's ratios and weights, and smaller ones: few edits under a small constraint do best.
RATIOS = [0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3]
OMEGAS = [0.0, 0.001, 0.003, 0.01, 0.05, 0.1, 0.5, 1.0]
WEIGHTS = [0.1, 0.3, 0.5, 1.0]


@dataclass(frozen=True)
class Preparation:
    """What a strategy needs before the first epoch of a run."""

    folder: Path
    """Where the views are written, and read if they exist."""
    dataset: BundleDataset
    relations: Collection[Relation]
    """The relations that the model uses. Others are not edited."""
    seed: int
    batches: Batches
    selection_embeddings: Callable[[], Embeddings | None]
    """Returns the selection model's embeddings on the training graph; trains it first if needed. None if stopped."""


class Strategy(ABC):
    """Supplies the losses of an epoch. The training loop is the same for all strategies."""

    name: ClassVar[str]
    config_class: ClassVar[type[ViewsConfig] | None] = None
    """Settings of its views; None if it has no views."""
    search_space: ClassVar[SearchSpace] = {}
    """Values to search for its settings."""

    @classmethod
    @abstractmethod
    def prepare(cls, config: ViewsConfig | None, preparation: Preparation) -> Self | None:
        """Return the strategy of a run, ready to train. None if it was stopped meanwhile."""

    @classmethod
    def ineffective(cls, config: ViewsConfig) -> tuple[str, ...]:
        """Return the settings of the search space that have no effect with this config; a search leaves them out."""
        return ()

    @abstractmethod
    def epoch_losses(self, model: Model, graph: BundleGraph, epoch: int, noise: torch.Generator) -> Losses:
        """Return the loss function of an epoch. `graph` is the factual graph; `noise` draws dropout and samples."""

    def measures(self, model: Model, graph: BundleGraph, epoch: int) -> dict[str, float]:
        """Return diagnostics of the model after an epoch, by name; empty if nothing is measured."""
        return {}

    def remedy(self, not_finite: Sequence[str]) -> str:
        """Return what to try if these terms of the loss are not finite."""
        return "try a lower learning_rate"


class Original(Strategy):
    """The model's own losses on the factual graph."""

    name = "original"

    @classmethod
    def prepare(cls, config: ViewsConfig | None, preparation: Preparation) -> Self:
        """Return the strategy; there is nothing to prepare."""
        return cls()

    def epoch_losses(self, model: Model, graph: BundleGraph, epoch: int, noise: torch.Generator) -> Losses:
        """Return the model's losses on this epoch's graph, which the model may augment."""
        augmented = model.epoch_graph(graph, noise)
        return lambda batch: model.losses(augmented, batch, noise)


class CLBR(Strategy):
    """Task loss on the factual graph and on one view an epoch, and a constraint between the two embeddings.

    Each epoch uses one of `views` (Algorithm 1 of the paper), or with a `sampler` a new view.
    """

    name = "clbr"
    config_class = ViewsConfig
    search_space: ClassVar[SearchSpace] = {
        "ratio_ub": RATIOS,
        "ratio_ui": RATIOS,
        "ratio_bi": RATIOS,
        "constraint": ["adaptive", "contrastive"],
        "omega_u": OMEGAS,
        "omega_b": OMEGAS,
        "lambda_u": [0.0, 0.5, 1.0, 2.0],
        "lambda_b": [0.0, 0.5, 1.0, 2.0],
        "tau": [0.2, 0.5, 1.0],
        "sampler_batch": [64, 256, 1024],
        "redraw": [False, True],
        "view_weight": WEIGHTS,
        "view_positives": [False, True],
        "warm_up": [0, 10],
    }

    def __init__(
        self,
        config: ViewsConfig,
        views: Sequence[EdgeEdits],
        seed: int,
        batches: Batches,
        sampler: Sampler | None = None,
    ) -> None:
        self.config, self.views, self.seed, self.batches, self.sampler = config, views, seed, batches, sampler
        self.graphs: dict[int, BundleGraph] = {}

    @classmethod
    def prepare(cls, config: ViewsConfig | None, preparation: Preparation) -> Self | None:
        """Read the views of the run folder; draw and write them first if there are none."""
        assert config is not None
        config, folder, seed = config.within(preparation.relations), preparation.folder, preparation.seed
        is_drawn = (folder / PAIRS).exists()
        sampler = None
        if config.redraw or not is_drawn:
            embeddings = preparation.selection_embeddings() if config.needs_selection else None
            if config.needs_selection and embeddings is None:
                return None
            sampler = make_sampler(config, BundleGraph.of(preparation.dataset), embeddings, seed)
            if not is_drawn:
                write_views(folder, *draw_views(sampler, config, seed))
        views, _ = read_views(folder)
        return cls(config, views, seed, preparation.batches, sampler if config.redraw else None)

    @classmethod
    def ineffective(cls, config: ViewsConfig) -> tuple[str, ...]:
        """Return the settings that have no effect under this config's constraint."""
        if config.constraint == "none":
            return ("constraint", "omega_u", "omega_b", "lambda_u", "lambda_b", "tau", "warm_up")
        return () if config.constraint == "adaptive" else ("lambda_u", "lambda_b")

    def epoch_losses(self, model: Model, graph: BundleGraph, epoch: int, noise: torch.Generator) -> Losses:
        """Return the losses with this epoch's view."""
        assert isinstance(model, Encoder)
        config, view_graph = self.config, self.view_graph(graph, epoch)
        augmented, augmented_view = model.epoch_graph(graph, noise), model.epoch_graph(view_graph, noise)
        warm_up = min(1.0, epoch / config.warm_up) if config.warm_up else 1.0
        view_batches = self._view_batches(model, view_graph, epoch) if config.view_positives else None

        def losses(batch: Batch) -> dict[str, Tensor]:
            factual = model.encode(model.batch_graph(augmented, batch), noise)
            terms = model.task_losses(factual, batch)
            view_batch = replace(batch, ub=next(view_batches).to(batch.ub.users.device)) if view_batches else batch
            view = model.encode(model.batch_graph(augmented_view, view_batch), noise)
            if config.view_weight:
                view_terms = model.task_losses(view, view_batch)
                terms |= {f"view {name}": config.view_weight * term for name, term in view_terms.items()}
            if config.constraint != "none":
                users, bundles = (self._sample(nodes, noise) for nodes in (batch.ub.users, batch.ub.positives))
                user_loss = self._constraint_loss("users", factual, view, users, config.lambda_u)
                bundle_loss = self._constraint_loss("bundles", factual, view, bundles, config.lambda_b)
                terms["constraint users"] = warm_up * config.omega_u * user_loss
                terms["constraint bundles"] = warm_up * config.omega_b * bundle_loss
            return terms

        return losses

    def measures(self, model: Model, graph: BundleGraph, epoch: int) -> dict[str, float]:
        """Return alignment, uniformity and entropies over the views (Lemmas 1 and 2), after the first epoch too."""
        if not self.config.measure_every or (epoch > 1 and epoch % self.config.measure_every):
            return {}
        assert isinstance(model, Encoder)
        views = [self._fixed_view(graph, index) for index in range(len(self.views))]
        draw = torch_generator(self.seed, "measured nodes")
        return measure(model, graph, views, self.config.tau, self.config.distance, draw)

    def remedy(self, not_finite: Sequence[str]) -> str:
        """Suggest a larger tau if only the constraint is not finite: a small tau makes the exponential overflow."""
        only_constraint = not_finite and all(name.startswith("constraint") for name in not_finite)
        if self.config.distance == "exponential" and only_constraint:
            return f"only the constraint is not finite: try a larger tau than {self.config.tau:g}"
        return super().remedy(not_finite)

    def view_graph(self, graph: BundleGraph, epoch: int) -> BundleGraph:
        """Return the graph of an epoch's view."""
        if self.sampler is not None:
            edits, _ = self.sampler.draw(self.config.ratios, generator(self.seed, "view of epoch", str(epoch)))
            return edits.apply(graph)
        index = int(generator(self.seed, "choice of view", str(epoch)).integers(len(self.views)))
        return self._fixed_view(graph, index)

    def _fixed_view(self, graph: BundleGraph, index: int) -> BundleGraph:
        """Return the graph of a view of the set; cached with its operators."""
        if index not in self.graphs:
            self.graphs[index] = self.views[index].apply(graph)
        return self.graphs[index]

    def _view_batches(self, model: Model, view: BundleGraph, epoch: int) -> Iterator[Triples]:
        batches = self.batches(view.ub, generator(self.seed, "view choices", str(epoch)), model.compared)
        if batches is None:
            raise InputError(
                f"epoch {epoch}: in its view every user with a bundle has all bundles, so no negatives are left; "
                "lower ratio_ub"
            )
        return batches

    def _sample(self, nodes: Tensor, noise: torch.Generator) -> Tensor:
        """Return the distinct nodes, or a random sample of them if there are more than the constraint takes."""
        distinct: Tensor = torch.unique(nodes)
        if not self.config.nodes or len(distinct) <= self.config.nodes:
            return distinct
        sample = torch.randperm(len(distinct), generator=noise)[: self.config.nodes]
        return distinct.index_select(0, sample.to(distinct.device))

    def _constraint_loss(
        self, side: Literal["users", "bundles"], factual: Embeddings, view: Embeddings, nodes: Tensor, weight: float
    ) -> Tensor:
        ours, theirs = (
            [getattr(level, side).index_select(0, nodes) for level in embeddings.levels.values()]
            for embeddings in (view, factual)
        )
        return constraint_loss(self.config, ours, theirs, weight)


class CASR(CLBR):
    """Views that add the pairs which CASR selects, and learn them as positives; no constraint (Wang et al., 2021)."""

    name = "casr"
    config_class = CASRConfig
    search_space: ClassVar[SearchSpace] = {
        "ratio_ub": RATIOS[1:],
        "confident": [0.01, 0.05, 0.1, 0.3],
        "view_weight": WEIGHTS,
    }


STRATEGIES: dict[str, type[Strategy]] = {strategy.name: strategy for strategy in (Original, CLBR, CASR)}


def find_strategy(paradigm: str) -> type[Strategy]:
    """Return the training strategy of this name."""
    if paradigm not in STRATEGIES:
        raise InputError(f"unknown paradigm '{paradigm}', {nearest(paradigm, list(STRATEGIES))}", "paradigm")
    return STRATEGIES[paradigm]


def make_sampler(config: ViewsConfig, graph: BundleGraph, embeddings: Embeddings | None, seed: int) -> Sampler:
    """Return the sampler of the settings. Samplers that score pairs need the embeddings of a trained model."""
    if config.sampler == "dropout" or not config.ratios:  # without edits every sampler returns the factual graph
        return EdgeDropout(graph)
    if config.sampler == "stochastic" and config.additions is not None:
        return Stochastic(graph, dict.fromkeys(RELATIONS, config.additions))
    if embeddings is None:
        raise InputError(f"the {config.sampler} sampler needs a trained selection model to score pairs")
    if config.sampler == "casr":
        return Casr(graph, embeddings, config.sampler_batch, config.confident)
    heuristic = Heuristic(graph, embeddings, config.sampler_batch, config.upper, config.lower, config.literal)
    if config.sampler == "heuristic":
        return heuristic
    _, record = heuristic.draw(config.ratios, generator(seed, "mix"))
    share: dict[Relation, float] = {r: x["added"] / (x["added"] + x["dropped"]) for r, x in record.items()}
    return Stochastic(graph, share)


def draw_views(sampler: Sampler, config: ViewsConfig, seed: int) -> tuple[list[EdgeEdits], list[Record]]:
    """Draw the view set of a run: the edits of each view, and the records of how they were found."""
    drawn = [sampler.draw(config.ratios, generator(seed, "view", str(index))) for index in range(config.views)]
    return [edits for edits, _ in drawn], [record for _, record in drawn]
