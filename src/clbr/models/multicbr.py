"""MultiCBR: three graphs fused into one vector per node, then a contrastive loss (Ma et al., TOIS 2024).

On each graph (user-bundle, user-item, bundle-item) the vector of a node is the weighted sum over layers of x0 and the
row-normalised A^l x0. On user-item a bundle is the mean of its items; on bundle-item a user is the mean of the user's
items. The vectors of the three graphs are added with one weight per graph, before any loss: the score is one inner
product. The contrastive loss compares the fused vectors of a batch with each other, so it only spreads them. In
training, noise with the signs of the vector is added after each product with the graph.
"""

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph, Edges
from clbr.models.base import COMMON_SPACE, Encoder, EncoderConfig, SearchSpace
from clbr.models.embeddings import Batch, Embeddings, Level
from clbr.models.layers import add_noise, unit_rows
from clbr.models.objectives import level_contrast

Weights = Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=2)]
"""The weights of x0 and of layers 1, 2, ...: their number is the number of layers plus 1."""


class MultiCBRConfig(EncoderConfig):
    """Settings of MultiCBR. The defaults are those of the paper for Youshu."""

    ub_weight: float = Field(0.35, ge=0, description="weight of the user-bundle graph")
    ui_weight: float = Field(0.15, ge=0, description="weight of the user-item graph")
    bi_weight: float = Field(0.5, ge=0, description="weight of the bundle-item graph")
    ub_layers: Weights = Field((0.7, 0.2, 0.1), description="user-bundle: weights of x0 and of each layer")
    ui_layers: Weights = Field((0.6, 0.2, 0.2), description="user-item: weights of x0 and of each layer")
    bi_layers: Weights = Field((0.6, 0.1, 0.3), description="bundle-item: weights of x0 and of each layer")
    ub_noise: float = Field(0.2, ge=0, description="length of the noise on user-bundle")
    ui_noise: float = Field(0.1, ge=0, description="length of the noise on user-item")
    bi_noise: float = Field(0.1, ge=0, description="length of the noise on bundle-item")
    contrastive_weight: float = Field(0.04, ge=0, description="weight of the contrastive loss")
    temperature: float = Field(0.23, gt=0, description="temperature of the contrastive loss")


class MultiCBR(Encoder):
    """Three graphs, one level."""

    config_class = MultiCBRConfig
    citation = "Ma et al., TOIS 2024"
    relations: ClassVar[tuple[Relation, ...]] = ("ub", "ui", "bi")
    cuts_columns = True
    search_space: ClassVar[SearchSpace] = COMMON_SPACE | {
        "ub_weight": [0.1, 0.2, 0.35, 0.5, 0.7],
        "ui_weight": [0.1, 0.15, 0.2, 0.35, 0.5],
        "bi_weight": [0.1, 0.3, 0.5, 0.7],
        "ub_noise": [0.0, 0.05, 0.1, 0.2, 0.3],
        "ui_noise": [0.0, 0.05, 0.1, 0.2, 0.3],
        "bi_noise": [0.0, 0.05, 0.1, 0.2, 0.3],
        "contrastive_weight": [0.01, 0.02, 0.04, 0.05, 0.1, 0.2],
        "temperature": [0.1, 0.15, 0.2, 0.23, 0.25, 0.3, 0.4],
    }
    config: MultiCBRConfig

    def __init__(self, config: MultiCBRConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        self.users = nn.Parameter(torch.empty(users, config.dim))
        self.bundles = nn.Parameter(torch.empty(bundles, config.dim))
        self.items = nn.Parameter(torch.empty(items, config.dim))

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """Propagate on the three graphs and add the results. Items are on two of the graphs only."""
        c = self.config
        ub = _propagate(graph.ub, self.users, self.bundles, c.ub_layers, c.ub_noise, generator)  # (U, d), (B, d)
        ui = _propagate(graph.ui, self.users, self.items, c.ui_layers, c.ui_noise, generator)  # (U, d), (I, d)
        bi = _propagate(graph.bi, self.bundles, self.items, c.bi_layers, c.bi_noise, generator)  # (B, d), (I, d)
        contents = add_noise(graph.bi.mean @ ui[1], c.bi_noise, generator)  # (B, d)
        history = add_noise(graph.ui.mean @ bi[1], c.ui_noise, generator)  # (U, d)
        users = c.ub_weight * ub[0] + c.ui_weight * ui[0] + c.bi_weight * history
        bundles = c.ub_weight * ub[1] + c.ui_weight * contents + c.bi_weight * bi[0]
        return Embeddings({"fused": Level(users, bundles, c.ui_weight * ui[1] + c.bi_weight * bi[1])})

    def task_losses(self, embeddings: Embeddings, batch: Batch) -> dict[str, Tensor]:
        """Return the objective, and the contrastive loss of the batch's users and positive bundles."""
        losses = super().task_losses(embeddings, batch)
        if self.config.contrastive_weight:
            fused, temperature = embeddings.levels["fused"], self.config.temperature
            users = level_contrast([fused.users], batch.ub.users, temperature)
            bundles = level_contrast([fused.bundles], batch.ub.positives, temperature)
            losses["contrast"] = self.config.contrastive_weight * (users + bundles) / 2
        return losses


def _propagate(
    edges: Edges,
    left: Tensor,
    right: Tensor,
    weights: tuple[float, ...],
    noise: float,
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    """Return the weighted sum of x0 and the row-normalised layers, for both sides of a relation."""
    left_sum, right_sum = weights[0] * left, weights[0] * right
    for weight in weights[1:]:
        left, right = edges.symmetric @ right, edges.back_symmetric @ left
        left, right = add_noise(left, noise, generator), add_noise(right, noise, generator)
        left_sum = torch.add(left_sum, unit_rows(left), alpha=weight)
        right_sum = torch.add(right_sum, unit_rows(right), alpha=weight)
    return left_sum, right_sum
