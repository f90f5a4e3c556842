"""DAM: attention of the user over the items of a bundle, then a small network (Chen et al., IJCAI 2019).

The weights of a bundle's items are a softmax of the user's vector times a second table of item vectors. The bundle
vector is the weighted sum of its items plus a vector of its own. Concatenated with the user vector it passes two shared
layers, then a head for bundles or a head for items: the two tasks are learned together. The heads are linear, because a
ReLU on the output would stop the gradient.
"""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import relu

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph
from clbr.models.base import COMMON_SPACE, DROPOUT_VALUES, Model, ModelConfig, Scorer, SearchSpace
from clbr.models.embeddings import Batch, Triples
from clbr.models.layers import dropout
from clbr.models.objectives import bpr

ATTENTION_RANGE = (-25.0, 30.0)
"""Attention logits are clamped to this range: beyond it the sum of weights underflows or overflows in float32."""


class DAMConfig(ModelConfig):
    """Settings of DAM."""

    hidden_dropout: float = Field(0.5, ge=0, lt=1, description="dropout rate after each shared layer")
    item_task: float = Field(1.0, ge=0, description="weight of the user-item loss; 0 trains on user-bundle pairs only")


class DAM(Model):
    """Attention over items and a shared network. The vector of a bundle depends on the user."""

    config_class = DAMConfig
    citation = "Chen et al., IJCAI 2019"
    relations: ClassVar[tuple[Relation, ...]] = ("bi",)
    search_space: ClassVar[SearchSpace] = COMMON_SPACE | {
        "hidden_dropout": DROPOUT_VALUES,
        "item_task": [0.0, 0.1, 0.5, 1.0],
    }
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
        """Whether the user-item loss has a weight above 0."""
        return self.config.item_task > 0

    def losses(self, graph: BundleGraph, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Return BPR on user-bundle and on user-item triples."""
        users, bundles = _pairs(batch.ub)
        vectors, targets = self.users.index_select(0, users), self._attend(graph, users, bundles)
        losses = {"bpr": bpr(*_by_row(self._score(vectors, targets, self.bundle_head, generator), batch.ub))}
        if batch.ui is not None and self.learns_items:
            users, items = _pairs(batch.ui)
            vectors, targets = self.users.index_select(0, users), self.items.index_select(0, items)
            scores = self._score(vectors, targets, self.item_head, generator)
            losses["items"] = self.config.item_task * bpr(*_by_row(scores, batch.ui))
        return losses

    def _attend(self, graph: BundleGraph, users: Tensor, bundles: Tensor) -> Tensor:
        """Return the vector of each bundle for its user, for n (user, bundle) pairs: (n, d)."""
        pattern = graph.bi.pattern
        device = bundles.device
        pointers = torch.from_numpy(pattern.pointers).to(device)
        lengths = pointers[bundles + 1] - pointers[bundles]
        pair = torch.repeat_interleave(torch.arange(len(bundles), device=device), lengths)  # (m,): each item's pair
        offset = torch.arange(len(pair), device=device) - (lengths.cumsum(0) - lengths)[pair]
        item = torch.from_numpy(pattern.columns).to(device).long()[pointers[bundles][pair] + offset]  # (m,)
        products = self.users.index_select(0, users[pair]) * self.attention.index_select(0, item)  # (m, d)
        weight = products.sum(1).clamp(*ATTENTION_RANGE).exp()
        weighted = weight[:, None] * self.items.index_select(0, item)
        total = weight.new_zeros(len(bundles)).index_add(0, pair, weight).clamp(min=1e-12)
        attended = weight.new_zeros(len(bundles), self.config.dim).index_add(0, pair, weighted)
        return attended / total[:, None] + self.bundles.index_select(0, bundles)

    def _score(self, users: Tensor, targets: Tensor, head: nn.Linear, generator: torch.Generator | None) -> Tensor:
        """Score (n, d) user vectors with (n, d) vectors of bundles or items: (n,)."""
        hidden = torch.cat([users, targets], dim=1)
        for layer in (self.first, self.second):
            hidden = dropout(relu(layer(hidden)), self.config.hidden_dropout, generator)
        scores: Tensor = head(hidden).squeeze(1)
        return scores

    def scorer(self, graph: BundleGraph) -> Scorer:
        """Return a scorer that computes the vectors of all bundles for each user."""
        return DAMScorer(self, graph)


class DAMScorer(Scorer):
    """Scores with bundle vectors that differ by user, a few users at a time to bound memory."""

    BLOCK = 8

    def __init__(self, model: DAM, graph: BundleGraph) -> None:
        self.model, self.contents = model, graph.bi.plain

    @torch.no_grad()
    def scores(self, users: Tensor) -> Tensor:
        """Score all bundles; the weighted sums for a block of users are one sparse product with (n d)-wide vectors."""
        model, d = self.model, self.model.config.dim
        blocks = []
        for block in users.to(model.users.device).split(self.BLOCK):  # type: ignore[no-untyped-call]
            vectors = model.users[block]  # (n, d)
            weight = (model.attention @ vectors.T).clamp(*ATTENTION_RANGE).exp()  # (I, n)
            wide = (weight[:, :, None] * model.items[:, None, :]).flatten(1)  # (I, n d)
            attended = (self.contents @ wide).view(-1, len(block), d)  # (B, n, d)
            total = (self.contents @ weight).clamp(min=1e-12)  # (B, n)
            bundles = attended / total[:, :, None] + model.bundles[:, None]  # (B, n, d)
            targets = bundles.transpose(0, 1).reshape(-1, d)  # (n B, d)
            repeated = vectors.repeat_interleave(len(model.bundles), dim=0)  # (n B, d)
            blocks.append(model._score(repeated, targets, model.bundle_head, None).view(len(block), -1))
        return torch.cat(blocks)


def _pairs(triples: Triples) -> tuple[Tensor, Tensor]:
    """Return all pairs to score, each positive before its negatives: (n (1 + k),) users and bundles or items."""
    right = torch.cat([triples.positives[:, None], triples.negatives], dim=1)
    return triples.users.repeat_interleave(right.shape[1]), right.flatten()


def _by_row(scores: Tensor, triples: Triples) -> tuple[Tensor, Tensor]:
    """Split (n (1 + k),) scores into those of the positives, (n, 1), and of the negatives, (n, k)."""
    rows = scores.view(len(triples.users), -1)
    return rows[:, :1], rows[:, 1:]
