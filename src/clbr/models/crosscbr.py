"""CrossCBR: two views of the same choices that must agree (Ma et al., KDD 2022).

No weights but the node vectors. On the item level users and items exchange vectors over user-item and a bundle is
the mean of its items; on the bundle level users and bundles exchange vectors over user-bundle. A contrastive loss
asks that a user (and a bundle) be recognisable from one level to the other.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph, Edges
from clbr.models.base import Batch, Embeddings, Encoder, Level, ModelConfig
from clbr.models.layers import directed_edge_dropout, dropout, unit_rows
from clbr.models.objectives import info_nce


class CrossCBRConfig(ModelConfig):
    """Settings of CrossCBR."""

    layers: int = Field(1, ge=1, description="rounds of propagation on each level")
    contrastive_weight: float = Field(0.04, ge=0, description="weight of the contrastive loss")
    temperature: float = Field(0.25, gt=0, description="of the contrastive loss")
    augmentation: Literal["edges", "messages", "none"] = Field("edges", description="dropout of edges, messages, none")
    item_dropout: float = Field(0.2, ge=0, lt=1, description="on user-item")
    bundle_dropout: float = Field(0.2, ge=0, lt=1, description="on user-bundle")
    contents_dropout: float = Field(0.2, ge=0, lt=1, description="on bundle-item")


class CrossCBR(Encoder):
    """Item level and bundle level, kept together by contrast."""

    settings = CrossCBRConfig
    citation = "Ma et al., KDD 2022"
    relations: ClassVar[tuple[Relation, ...]] = ("ub", "ui", "bi")
    config: CrossCBRConfig

    def __init__(self, config: CrossCBRConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        self.users = nn.Parameter(torch.empty(users, config.dim))
        self.bundles = nn.Parameter(torch.empty(bundles, config.dim))
        self.items = nn.Parameter(torch.empty(items, config.dim))

    @classmethod
    def informative_relations(cls, level: str, side: Literal["users", "bundles"]) -> tuple[Relation, ...]:
        """On the item level by items, on the bundle level by choices."""
        return ("ui", "bi") if level == "item" else ("ub",)

    def epoch_graph(self, graph: BundleGraph, generator: torch.Generator) -> BundleGraph:
        """Edge dropout, drawn once an epoch, each direction of an edge on its own."""
        if self.config.augmentation != "edges":
            return graph
        return graph.replaced(
            ub=directed_edge_dropout(graph.ub, self.config.bundle_dropout, generator),
            ui=directed_edge_dropout(graph.ui, self.config.item_dropout, generator),
            bi=directed_edge_dropout(graph.bi, self.config.contents_dropout, generator),
        )

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """Both levels."""
        if self.config.augmentation != "messages":
            generator = None
        item_users, items = self._level(graph.ui, self.items, self.config.item_dropout, generator)
        contents = dropout(graph.bi.mean @ items, self.config.contents_dropout, generator)  # (B, d)
        bundle_users, bundles = self._level(graph.ub, self.bundles, self.config.bundle_dropout, generator)
        return Embeddings({"item": Level(item_users, contents, items), "bundle": Level(bundle_users, bundles)})

    def _level(
        self, edges: Edges, others: Tensor, rate: float, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """x0 + the sum over layers of the row-normalised A^l x0, for users and for the other side."""
        left: Tensor = self.users
        right: Tensor = others
        left_sum, right_sum = left, right
        for _ in range(self.config.layers):
            left, right = edges.symmetric @ right, edges.back_symmetric @ left
            left, right = dropout(left, rate, generator), dropout(right, rate, generator)
            left_sum, right_sum = left_sum + unit_rows(left), right_sum + unit_rows(right)
        return left_sum, right_sum

    def task_losses(self, embeddings: Embeddings, batch: Batch) -> dict[str, Tensor]:
        """BPR, and the contrast between the levels for the batch's users and chosen bundles."""
        losses = super().task_losses(embeddings, batch)
        item, bundle = embeddings.levels["item"], embeddings.levels["bundle"]
        users = self._contrast(item.users, bundle.users, batch.ub.users)
        bundles = self._contrast(item.bundles, bundle.bundles, batch.ub.positives)
        return losses | {"contrast": self.config.contrastive_weight * (users + bundles) / 2}

    def _contrast(self, one: Tensor, other: Tensor, nodes: Tensor) -> Tensor:
        distinct, counts = torch.unique(nodes, return_counts=True)
        views = [unit_rows(level.index_select(0, distinct)) for level in (one, other)]
        return info_nce(views[0], views[1], counts.to(one.dtype), self.config.temperature)
