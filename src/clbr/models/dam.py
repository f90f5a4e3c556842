"""DAM: a bundle is what of its items this user attends to (Chen et al., IJCAI 2019).

The weights of a bundle's items are a softmax of the user's vector times a second table of item vectors; the bundle is
their weighted sum plus a vector of its own. Next to the user's vector it passes two shared layers, then a head for
bundles or one for items, so that both tasks learn together. Heads are linear: a ReLU there would kill the gradient.
"""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import relu

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph
from clbr.models.base import Batch, Model, ModelConfig, Recommender, Triples
from clbr.models.layers import dropout
from clbr.models.objectives import bpr

FARTHEST = (-25.0, 30.0)
"""Of an item's attention: beyond, the sum of the weights would vanish or overflow in single precision."""


class DAMConfig(ModelConfig):
    """Settings of DAM."""

    hidden_dropout: float = Field(0.5, ge=0, lt=1, description="after each of the shared layers")
    item_task: float = Field(1.0, ge=0, description="weight of the choices of items; 0 learns from bundles alone")


class DAM(Model):
    """Attention over items, then a small network: the bundle's vector depends on who looks."""

    settings = DAMConfig
    citation = "Chen et al., IJCAI 2019"
    relations: ClassVar[tuple[Relation, ...]] = ("bi",)
    config: DAMConfig

    def __init__(self, config: DAMConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        d = config.dim
        self.users = nn.Parameter(torch.empty(users, d))
        self.bundles = nn.Parameter(torch.empty(bundles, d))
        self.items = nn.Parameter(torch.empty(items, d))
        self.attention = nn.Parameter(torch.empty(items, d))
        self.first, self.second = nn.Linear(2 * d, 2 * d), nn.Linear(2 * d, 2 * d)
        self.bundle_head, self.item_head = nn.Linear(2 * d, 1), nn.Linear(2 * d, 1)

    @property
    def learns_items(self) -> bool:
        """If the item task has a weight."""
        return self.config.item_task > 0

    def losses(self, graph: BundleGraph, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """BPR on choices of bundles and of items."""
        left, right = _flat(batch.ub)
        users, things = self.users.index_select(0, left), self._attend(graph, left, right)
        losses = {"bpr": bpr(*_unflat(self._score(users, things, self.bundle_head, generator), batch.ub))}
        if batch.ui is not None and self.learns_items:
            left, right = _flat(batch.ui)
            users, things = self.users.index_select(0, left), self.items.index_select(0, right)
            scores = self._score(users, things, self.item_head, generator)
            losses["items"] = self.config.item_task * bpr(*_unflat(scores, batch.ui))
        return losses

    def _attend(self, graph: BundleGraph, users: Tensor, bundles: Tensor) -> Tensor:
        """The bundles' vectors in the eyes of the users, pair by pair: (n, d)."""
        pattern = graph.bi.pattern
        device = bundles.device
        pointers = torch.from_numpy(pattern.pointers).to(device)
        lengths = pointers[bundles + 1] - pointers[bundles]
        pair = torch.repeat_interleave(torch.arange(len(bundles), device=device), lengths)  # (m,): whose item
        offset = torch.arange(len(pair), device=device) - (lengths.cumsum(0) - lengths)[pair]
        item = torch.from_numpy(pattern.columns).to(device).long()[pointers[bundles][pair] + offset]  # (m,)
        wanted = self.users.index_select(0, users[pair]) * self.attention.index_select(0, item)  # (m, d)
        weight = wanted.sum(1).clamp(*FARTHEST).exp()
        weighted = weight[:, None] * self.items.index_select(0, item)
        total = weight.new_zeros(len(bundles)).index_add(0, pair, weight).clamp(min=1e-12)
        drawn = weight.new_zeros(len(bundles), self.config.dim).index_add(0, pair, weighted)
        return drawn / total[:, None] + self.bundles.index_select(0, bundles)

    def _score(self, user: Tensor, thing: Tensor, head: nn.Linear, generator: torch.Generator | None) -> Tensor:
        hidden = torch.cat([user, thing], dim=1)
        for layer in (self.first, self.second):
            hidden = dropout(relu(layer(hidden)), self.config.hidden_dropout, generator)
        scores: Tensor = head(hidden).squeeze(1)
        return scores

    def recommender(self, graph: BundleGraph) -> Recommender:
        """Attends anew for every user: costly, and so done for a few at a time."""
        return DAMRecommender(self, graph)


class DAMRecommender(Recommender):
    """Ranks with a model whose bundles look different to everyone."""

    TOGETHER = 8

    def __init__(self, model: DAM, graph: BundleGraph) -> None:
        self.model, self.contents = model, graph.bi.plain

    @torch.no_grad()
    def scores(self, users: Tensor) -> Tensor:
        """The weighted sums of all bundles for some users at once are one product with wide vectors."""
        model, d = self.model, self.model.config.dim
        blocks = []
        for some in users.to(model.users.device).split(self.TOGETHER):  # type: ignore[no-untyped-call]
            vectors = model.users[some]  # (n, d)
            weight = (model.attention @ vectors.T).clamp(*FARTHEST).exp()  # (I, n)
            wide = (weight[:, :, None] * model.items[:, None, :]).flatten(1)  # (I, n d)
            drawn = (self.contents @ wide).view(-1, len(some), d)  # (B, n, d)
            total = (self.contents @ weight).clamp(min=1e-12)  # (B, n)
            things = drawn / total[:, :, None] + model.bundles[:, None]
            pairs = things.transpose(0, 1).reshape(-1, d)  # (n B, d)
            viewers = vectors.repeat_interleave(len(model.bundles), dim=0)
            blocks.append(model._score(viewers, pairs, model.bundle_head, None).view(len(some), -1))
        return torch.cat(blocks)


def _flat(triples: Triples) -> tuple[Tensor, Tensor]:
    """All pairs to score, the chosen first in each row: (n (1 + k),) users and things."""
    right = torch.cat([triples.positives[:, None], triples.negatives], dim=1)
    return triples.users.repeat_interleave(right.shape[1]), right.flatten()


def _unflat(scores: Tensor, triples: Triples) -> tuple[Tensor, Tensor]:
    rows = scores.view(len(triples.users), -1)
    return rows[:, :1], rows[:, 1:]
