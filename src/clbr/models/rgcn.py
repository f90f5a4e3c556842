"""RGCN: graph convolution with one weight matrix per relation (Schlichtkrull et al., ESWC 2018).

    h' = act(W_0 h + sum over relations r of the mean over r-neighbours of W_r h)

on the user-bundle-item graph with its six directed relations. The last layer has no activation.
"""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import relu

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph
from clbr.graph.operators import Matrix
from clbr.models.base import COMMON_SPACE, DROPOUT_VALUES, Encoder, EncoderConfig, SearchSpace
from clbr.models.embeddings import Embeddings, Level
from clbr.models.layers import dropout

Nodes = tuple[Tensor, Tensor, Tensor]
"""The vectors of users, bundles and items."""


class RGCNConfig(EncoderConfig):
    """Settings of RGCN."""

    layers: int = Field(2, ge=1, description="number of convolution layers")
    bases: int = Field(0, ge=0, description="shared basis matrices; 0: one weight matrix per relation")
    message_dropout: float = Field(0.0, ge=0, lt=1, description="dropout rate between layers")


class RGCN(Encoder):
    """Relational layers on the vectors of users, bundles and items."""

    config_class = RGCNConfig
    citation = "Schlichtkrull et al., ESWC 2018"
    relations: ClassVar[tuple[Relation, ...]] = ("ub", "ui", "bi")
    search_space: ClassVar[SearchSpace] = COMMON_SPACE | {
        "layers": [1, 2, 3],
        "bases": [0, 2, 4],
        "message_dropout": DROPOUT_VALUES,
    }
    config: RGCNConfig

    def __init__(self, config: RGCNConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        d = config.dim
        self.users = nn.Parameter(torch.empty(users, d))
        self.bundles = nn.Parameter(torch.empty(bundles, d))
        self.items = nn.Parameter(torch.empty(items, d))
        self.layers = nn.ModuleList(RelationalLayer(d, config.bases) for _ in range(config.layers))

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """Apply the layers."""
        nodes: Nodes = (self.users, self.bundles, self.items)
        for depth, layer in enumerate(self.layers, start=1):
            nodes = layer(graph, *nodes)
            if depth < len(self.layers):
                nodes = tuple(dropout(relu(x), self.config.message_dropout, generator) for x in nodes)  # type: ignore[assignment]
        return Embeddings({"graph": Level(*nodes)})


class RelationalLayer(nn.Module):
    """One convolution layer: a weight matrix for the node itself and one for each directed relation."""

    DIRECTED = 6

    def __init__(self, dim: int, bases: int) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.empty(dim, dim))
        self.transforms = nn.Parameter(torch.empty(bases or self.DIRECTED, dim, dim))
        self.shares = nn.Parameter(torch.empty(self.DIRECTED, bases)) if bases else None

    def forward(self, graph: BundleGraph, users: Tensor, bundles: Tensor, items: Tensor) -> Nodes:
        """Return the vectors of users, bundles and items after this layer."""
        weights: Tensor = self.transforms
        if self.shares is not None:
            weights = torch.einsum("rb,bij->rij", self.shares, weights)
        ub, ui, bi = graph.ub, graph.ui, graph.bi
        return (
            users @ self.own + _message(ub.mean, bundles, weights[0]) + _message(ui.mean, items, weights[1]),
            bundles @ self.own + _message(ub.back_mean, users, weights[2]) + _message(bi.mean, items, weights[3]),
            items @ self.own + _message(ui.back_mean, users, weights[4]) + _message(bi.back_mean, bundles, weights[5]),
        )


def _message(mean: Matrix, x: Tensor, weight: Tensor) -> Tensor:
    """Compute mean @ x @ weight; the weight is applied on the side that has fewer nodes."""
    return (mean @ x) @ weight if mean.shape[0] < mean.shape[1] else mean @ (x @ weight)
