"""What a recommender can do, and what a trainable model adds to it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from clbr.config import Config
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph
from clbr.models.objectives import bpr


class Recommender(ABC):
    """Scores every bundle for a user: the higher, the sooner it is recommended."""

    @abstractmethod
    def scores(self, users: Tensor) -> Tensor:
        """For n user ids an (n, bundles) float32 tensor. Training pairs are scored like all others."""


class Floor(Recommender):
    """A recommender that is simply computed from a data set; any trained model has to beat it."""

    @classmethod
    @abstractmethod
    def fit(cls, dataset: BundleDataset, config: Config | None = None) -> Self:
        """Learn from the training pairs, and only from these."""


@dataclass(frozen=True)
class Triples:
    """Choices and, for each, things not chosen: (n,) lefts, (n,) chosen, (n, k) not chosen."""

    users: Tensor
    positives: Tensor
    negatives: Tensor

    def to(self, device: torch.device) -> "Triples":
        """The same, there."""
        return Triples(self.users.to(device), self.positives.to(device), self.negatives.to(device))


@dataclass(frozen=True)
class Batch:
    """What a step of training learns from."""

    ub: Triples
    ui: Triples | None = None

    def to(self, device: torch.device) -> "Batch":
        """The same, there."""
        return Batch(self.ub.to(device), self.ui.to(device) if self.ui else None)


@dataclass(frozen=True)
class Level:
    """The vectors of one level of a model; items where the level has them."""

    users: Tensor  # (U, d)
    bundles: Tensor  # (B, d)
    items: Tensor | None = None  # (I, d)

    def side(self, kind: Literal["users", "bundles", "items"]) -> Tensor | None:
        """The vectors of one kind of node."""
        vectors: Tensor | None = getattr(self, kind)
        return vectors


SIDES: dict[Relation, tuple[Literal["users", "bundles", "items"], Literal["users", "bundles", "items"]]] = {
    "ub": ("users", "bundles"),
    "ui": ("users", "items"),
    "bi": ("bundles", "items"),
}


@dataclass(frozen=True)
class Embeddings:
    """A model's vectors, level by level; a score is the sum of the levels' inner products."""

    levels: dict[str, Level]

    def both_sides(self, relation: Relation) -> list[tuple[Tensor, Tensor]]:
        """Left and right vectors, of the levels that have both: not all have items."""
        one, other = SIDES[relation]
        sides = [(level.side(one), level.side(other)) for level in self.levels.values()]
        return [(left, right) for left, right in sides if left is not None and right is not None]

    def relevance(self, relation: Relation, left: Tensor, right: Tensor) -> Tensor:
        """How well (n,) left nodes fit (n, k) right nodes each; for items, by the levels that have them."""
        scores = []
        for lefts, rights in self.both_sides(relation):
            mine = lefts.index_select(0, left)[:, None]  # (n, 1, d)
            scores.append((mine * rights.index_select(0, right.flatten()).view(*right.shape, -1)).sum(-1))
        return torch.stack(scores).sum(0)

    def task_scores(self, relation: Relation, triples: Triples) -> tuple[Tensor, Tensor]:
        """The scores of the chosen, (n, 1), and of the others, (n, k)."""
        right = torch.cat([triples.positives[:, None], triples.negatives], dim=1)
        scores = self.relevance(relation, triples.users, right)
        return scores[:, :1], scores[:, 1:]

    def joined(self, kind: Literal["users", "bundles"]) -> Tensor:
        """The levels' vectors side by side."""
        return torch.cat([getattr(level, kind) for level in self.levels.values()], dim=1)


class ModelConfig(Config):
    """What every trainable model can be told."""

    dim: int = Field(64, ge=1, le=8192, description="length of the node vectors")
    init: Literal["normal", "xavier"] = Field("xavier", description="how parameters begin: N(0, 0.1) or Xavier uniform")


class Model(nn.Module, ABC):
    """A trainable recommender. The graph is an argument, never a part of the model."""

    settings: ClassVar[type[ModelConfig]]
    citation: ClassVar[str]
    relations: ClassVar[tuple[Relation, ...]]
    """The relations that the model looks at, beside the choices that it learns from."""

    @property
    def learns_items(self) -> bool:
        """Whether its batches are to hold choices of items as well."""
        return False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    def initialise(self, generator: torch.Generator) -> None:
        """Draw all parameters anew, in their fixed order."""
        for parameter in self.parameters():
            if parameter.dim() < 2:
                nn.init.zeros_(parameter)
            elif self.config.init == "normal":
                nn.init.normal_(parameter, 0.0, 0.1, generator=generator)
            else:
                nn.init.xavier_uniform_(parameter, generator=generator)

    def epoch_graph(self, graph: BundleGraph, generator: torch.Generator) -> BundleGraph:
        """The graph to train on in this epoch, if the model augments it."""
        return graph

    @abstractmethod
    def losses(self, graph: BundleGraph, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """The terms of the loss by name; their sum is minimised."""

    @abstractmethod
    def recommender(self, graph: BundleGraph) -> Recommender:
        """What the model, as it stands, recommends on a graph."""


class Encoder(Model):
    """A model that turns a graph into vectors. Counterfactual views and what-if need one."""

    @classmethod
    def informative_relations(cls, level: str, side: Literal["users", "bundles"]) -> tuple[Relation, ...]:
        """The relations that a level's users, or bundles, are known by: one without edges in them is a blank there."""
        return cls.relations or ("ub",)  # what it learned from

    @abstractmethod
    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """The vectors on a graph; with a generator as in training (dropout), without one as in use."""

    def task_losses(self, embeddings: Embeddings, batch: Batch) -> dict[str, Tensor]:
        """The model's own losses on vectors; BPR unless it says otherwise."""
        return {"bpr": bpr(*embeddings.task_scores("ub", batch.ub))}

    def batch_graph(self, graph: BundleGraph, batch: Batch) -> BundleGraph:
        """The graph to encode for this batch, if the model hides something from itself."""
        return graph

    def losses(self, graph: BundleGraph, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Encode, then the task."""
        return self.task_losses(self.encode(self.batch_graph(graph, batch), generator), batch)

    def recommender(self, graph: BundleGraph) -> Recommender:
        """Inner products of the vectors on this graph."""
        with torch.no_grad():
            return VectorRecommender.of(self.encode(graph))


class VectorRecommender(Recommender):
    """Recommends by inner products."""

    def __init__(self, users: Tensor, bundles: Tensor) -> None:
        self.users, self.bundles = users, bundles

    @classmethod
    def of(cls, embeddings: Embeddings) -> Self:
        """By all levels."""
        return cls(embeddings.joined("users"), embeddings.joined("bundles"))

    def scores(self, users: Tensor) -> Tensor:
        """Users' vectors times all bundles'."""
        return self.users[users.to(self.users.device)] @ self.bundles.T
