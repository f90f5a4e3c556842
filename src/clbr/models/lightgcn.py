"""LightGCN: propagation of node vectors over user-bundle edges, without weights (He et al., SIGIR 2020)."""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph
from clbr.models.base import COMMON_SPACE, Encoder, EncoderConfig, SearchSpace
from clbr.models.embeddings import Embeddings, Level


class LightGCNConfig(EncoderConfig):
    """Settings of LightGCN."""

    layers: int = Field(2, ge=1, description="number of propagation layers over user-bundle")


class LightGCN(Encoder):
    """The embeddings are the mean over layers l of A^l x0, with A the symmetrically normalised adjacency matrix."""

    config_class = LightGCNConfig
    citation = "He et al., SIGIR 2020"
    relations: ClassVar[tuple[Relation, ...]] = ("ub",)
    cuts_columns = True
    search_space: ClassVar[SearchSpace] = COMMON_SPACE | {"layers": [1, 2, 3]}
    config: LightGCNConfig

    def __init__(self, config: LightGCNConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        self.users = nn.Parameter(torch.empty(users, config.dim))
        self.bundles = nn.Parameter(torch.empty(bundles, config.dim))

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """Propagate, then average over the layers."""
        users: Tensor = self.users
        bundles: Tensor = self.bundles
        user_sum, bundle_sum = users, bundles
        for _ in range(self.config.layers):
            users, bundles = graph.ub.symmetric @ bundles, graph.ub.back_symmetric @ users
            user_sum, bundle_sum = user_sum + users, bundle_sum + bundles
        count = self.config.layers + 1
        return Embeddings({"bundle": Level(user_sum / count, bundle_sum / count)})
