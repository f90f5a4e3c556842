"""LightGCN: the neighbours' vectors, again and again, and nothing else (He et al., SIGIR 2020). User-bundle only."""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph
from clbr.models.base import Embeddings, Encoder, Level, ModelConfig


class LightGCNConfig(ModelConfig):
    """Settings of LightGCN."""

    layers: int = Field(2, ge=1, description="rounds of propagation over user-bundle")


class LightGCN(Encoder):
    """The mean over layers of what A^l brings, with A normalised on both sides."""

    settings = LightGCNConfig
    citation = "He et al., SIGIR 2020"
    relations: ClassVar[tuple[Relation, ...]] = ("ub",)
    config: LightGCNConfig

    def __init__(self, config: LightGCNConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        self.users = nn.Parameter(torch.empty(users, config.dim))
        self.bundles = nn.Parameter(torch.empty(bundles, config.dim))

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """Propagate and average."""
        users: Tensor = self.users
        bundles: Tensor = self.bundles
        user_sum, bundle_sum = users, bundles
        for _ in range(self.config.layers):
            users, bundles = graph.ub.symmetric @ bundles, graph.ub.back_symmetric @ users
            user_sum, bundle_sum = user_sum + users, bundle_sum + bundles
        count = self.config.layers + 1
        return Embeddings({"bundle": Level(user_sum / count, bundle_sum / count)})
