"""Values that models compute with: training examples, and the embeddings of nodes by level."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from clbr.data.pairs import Relation
from clbr.models.columns import add_up


@dataclass(frozen=True)
class Triples:
    """Training examples of one relation: (n,) users, (n,) positives, (n, k) sampled negatives."""

    users: Tensor
    positives: Tensor
    negatives: Tensor
    known: Tensor | None = None
    """All training pairs of these users, (m, 2), sorted; for objectives that compare with all bundles."""
    sample: Tensor | None = None
    """The bundles to compare with, (parts, n): the users in equal parts, each with sorted bundles; None: all."""

    def to(self, device: torch.device) -> "Triples":
        """Return the triples on a device."""
        known, sample = (None if x is None else x.to(device) for x in (self.known, self.sample))
        return Triples(self.users.to(device), self.positives.to(device), self.negatives.to(device), known, sample)


class NodeSample(NamedTuple):
    """Some users and some bundles, (n,) each."""

    users: Tensor
    bundles: Tensor


@dataclass(frozen=True)
class Batch:
    """Training examples of one step: user-bundle triples and, for models with an item task, user-item triples."""

    ub: Triples
    ui: Triples | None = None
    random: NodeSample | None = None
    """Random nodes, for models that contrast more nodes than those of the triples."""

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on a device."""
        random = NodeSample(*(nodes.to(device) for nodes in self.random)) if self.random else None
        return Batch(self.ub.to(device), self.ui.to(device) if self.ui else None, random)


@dataclass(frozen=True)
class Level:
    """The embeddings of one level of a model. `items` is None where the level has no items."""

    users: Tensor  # (U, d)
    bundles: Tensor  # (B, d)
    items: Tensor | None = None  # (I, d)

    def side(self, kind: Literal["users", "bundles", "items"]) -> Tensor | None:
        """Return the embeddings of one kind of node."""
        vectors: Tensor | None = getattr(self, kind)
        return vectors


class OwnVectors(NamedTuple):
    """The users' own vectors, and the levels whose user vectors contain them as a term."""

    table: Tensor  # (U, d)
    levels: tuple[str, ...]


SIDES: dict[Relation, tuple[Literal["users", "bundles", "items"], Literal["users", "bundles", "items"]]] = {
    "ub": ("users", "bundles"),
    "ui": ("users", "items"),
    "bi": ("bundles", "items"),
}


@dataclass(frozen=True)
class Embeddings:
    """The embeddings of a model by level. The score of a pair is the sum of the inner products of all levels."""

    levels: dict[str, Level]

    def both_sides(self, relation: Relation) -> list[tuple[Tensor, Tensor]]:
        """Return the left and right embeddings of a relation, for the levels that have both (some have no items)."""
        one, other = SIDES[relation]
        sides = [(level.side(one), level.side(other)) for level in self.levels.values()]
        return [(left, right) for left, right in sides if left is not None and right is not None]

    def relevance(self, relation: Relation, left: Tensor, right: Tensor) -> Tensor:
        """Score (n,) left nodes against (n, k) right nodes: (n, k), over the levels that have both sides."""
        scores = []
        for lefts, rights in self.both_sides(relation):
            mine = lefts.index_select(0, left)[:, None]  # (n, 1, d)
            scores.append((mine * rights.index_select(0, right.flatten()).view(*right.shape, -1)).sum(-1))
        return add_up(torch.stack(scores).sum(0))

    def task_scores(self, relation: Relation, triples: Triples) -> tuple[Tensor, Tensor]:
        """Return the scores of the positives, (n, 1), and of the negatives, (n, k)."""
        right = torch.cat([triples.positives[:, None], triples.negatives], dim=1)
        scores = self.relevance(relation, triples.users, right)
        return scores[:, :1], scores[:, 1:]

    def joined(self, kind: Literal["users", "bundles"]) -> Tensor:
        """Return the embeddings of all levels, concatenated: one row per node."""
        return torch.cat([getattr(level, kind) for level in self.levels.values()], dim=1)
