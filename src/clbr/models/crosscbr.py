"""CrossCBR: propagation on two levels, aligned by a contrastive loss (Ma et al., KDD 2022).

The node vectors are the only parameters. Item level: propagation over user-item edges; a bundle is the mean of its
items. Bundle level: propagation over user-bundle edges. InfoNCE between the levels, for users and for bundles, makes
the two vectors of a node similar to each other and different from those of other nodes.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph
from clbr.models.base import COMMON_SPACE, DROPOUT_VALUES, Encoder, EncoderConfig, SearchSpace
from clbr.models.embeddings import Batch, Embeddings, Level
from clbr.models.layers import directed_edge_dropout, dropout, propagate
from clbr.models.objectives import level_contrast


class CrossCBRConfig(EncoderConfig):
    """Settings of CrossCBR."""

    layers: int = Field(1, ge=1, description="number of propagation layers on each level")
    contrastive_weight: float = Field(0.04, ge=0, description="weight of the contrastive loss")
    temperature: float = Field(0.25, gt=0, description="temperature of the contrastive loss")
    augmentation: Literal["edges", "messages", "none"] = Field("edges", description="dropout on edges or messages")
    item_dropout: float = Field(0.2, ge=0, lt=1, description="dropout rate on user-item")
    bundle_dropout: float = Field(0.2, ge=0, lt=1, description="dropout rate on user-bundle")
    contents_dropout: float = Field(0.2, ge=0, lt=1, description="dropout rate on bundle-item")


class CrossCBR(Encoder):
    """Item level and bundle level with a contrastive loss between them."""

    config_class = CrossCBRConfig
    citation = "Ma et al., KDD 2022"
    relations: ClassVar[tuple[Relation, ...]] = ("ub", "ui", "bi")
    cuts_columns = True
    # augmentation "none" is not searched: it equals dropout 0 of either kind.
    search_space: ClassVar[SearchSpace] = COMMON_SPACE | {
        "layers": [1, 2, 3],
        "contrastive_weight": [0.01, 0.02, 0.04, 0.1, 0.2],
        "temperature": [0.1, 0.15, 0.2, 0.25, 0.3, 0.4],
        "augmentation": ["edges", "messages"],
        "item_dropout": DROPOUT_VALUES,
        "bundle_dropout": DROPOUT_VALUES,
        "contents_dropout": DROPOUT_VALUES,
    }
    config: CrossCBRConfig

    def __init__(self, config: CrossCBRConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        self.users = nn.Parameter(torch.empty(users, config.dim))
        self.bundles = nn.Parameter(torch.empty(bundles, config.dim))
        self.items = nn.Parameter(torch.empty(items, config.dim))

    @classmethod
    def informative_relations(cls, level: str, side: Literal["users", "bundles"]) -> tuple[Relation, ...]:
        """Item level: items. Bundle level: user-bundle pairs."""
        return ("ui", "bi") if level == "item" else ("ub",)

    def epoch_graph(self, graph: BundleGraph, generator: torch.Generator) -> BundleGraph:
        """Apply edge dropout, drawn once per epoch, independently for each direction of an edge."""
        if self.config.augmentation != "edges":
            return graph
        return graph.replaced(
            ub=directed_edge_dropout(graph.ub, self.config.bundle_dropout, generator),
            ui=directed_edge_dropout(graph.ui, self.config.item_dropout, generator),
            bi=directed_edge_dropout(graph.bi, self.config.contents_dropout, generator),
        )

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """Compute both levels."""
        if self.config.augmentation != "messages":
            generator = None
        config = self.config
        item_users, items = propagate(graph.ui, self.users, self.items, config.layers, config.item_dropout, generator)
        contents = dropout(graph.bi.mean @ items, config.contents_dropout, generator)  # (B, d)
        bundle_users, bundles = propagate(
            graph.ub, self.users, self.bundles, config.layers, config.bundle_dropout, generator
        )
        return Embeddings({"item": Level(item_users, contents, items), "bundle": Level(bundle_users, bundles)})

    def task_losses(self, embeddings: Embeddings, batch: Batch) -> dict[str, Tensor]:
        """Return BPR and the contrastive loss between the levels, for the batch's users and positive bundles."""
        losses = super().task_losses(embeddings, batch)
        item, bundle, temperature = embeddings.levels["item"], embeddings.levels["bundle"], self.config.temperature
        users = level_contrast([item.users, bundle.users], batch.ub.users, temperature)
        bundles = level_contrast([item.bundles, bundle.bundles], batch.ub.positives, temperature)
        return losses | {"contrast": self.config.contrastive_weight * (users + bundles) / 2}
