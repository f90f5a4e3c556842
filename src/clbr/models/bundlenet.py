"""BundleNet: bundles drawn from their items on the user-item-bundle graph (Deng et al., CIKM 2020).

Relation-specific transforms over the tripartite graph; a bundle starts from its own vector and the mean of its items.
Choices of bundles and of items are learned together. While training, the batch's own choices are taken out of the
graph, so that the answer does not stand in the question.
"""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph
from clbr.models.base import Batch, Embeddings, Encoder, Level, ModelConfig
from clbr.models.layers import dropout
from clbr.models.objectives import bpr
from clbr.models.rgcn import Nodes, RelationalLayer


class BundleNetConfig(ModelConfig):
    """Settings of BundleNet."""

    layers: int = Field(2, ge=1, description="rounds of convolution")
    message_dropout: float = Field(0.1, ge=0, lt=1, description="on every layer's vectors")
    item_task: float = Field(0.5, ge=0, description="weight of the choices of items; 0 learns from bundles alone")
    hide_choices: bool = Field(True, description="take the batch's own choices out of the graph while training")


class BundleNet(Encoder):
    """The layers' vectors side by side."""

    settings = BundleNetConfig
    citation = "Deng et al., CIKM 2020"
    relations: ClassVar[tuple[Relation, ...]] = ("ub", "ui", "bi")
    config: BundleNetConfig

    def __init__(self, config: BundleNetConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        d = config.dim
        self.users = nn.Parameter(torch.empty(users, d))
        self.bundles = nn.Parameter(torch.empty(bundles, d))
        self.items = nn.Parameter(torch.empty(items, d))
        self.layers = nn.ModuleList(RelationalLayer(d, bases=0) for _ in range(config.layers))

    @property
    def learns_items(self) -> bool:
        """If the item task has a weight."""
        return self.config.item_task > 0

    def batch_graph(self, graph: BundleGraph, batch: Batch) -> BundleGraph:
        """Without the batch's choices: only user-bundle is weighted anew."""
        if not self.config.hide_choices:
            return graph
        return graph.replaced(ub=graph.ub.without(batch.ub.users, batch.ub.positives))

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """Convolve; the output is every layer's vectors, next to each other."""
        nodes: Nodes = (self.users, self.bundles + graph.bi.mean @ self.items, self.items)
        outputs: list[Nodes] = [nodes]
        for layer in self.layers:
            convolved = layer(graph, *nodes)
            nodes = tuple(dropout(leaky_relu(x), self.config.message_dropout, generator) for x in convolved)  # type: ignore[assignment]
            outputs.append(nodes)
        users, bundles, items = (torch.cat(kind, dim=1) for kind in zip(*outputs, strict=True))
        return Embeddings({"graph": Level(users, bundles, items)})

    def task_losses(self, embeddings: Embeddings, batch: Batch) -> dict[str, Tensor]:
        """BPR on choices of bundles and of items."""
        losses = super().task_losses(embeddings, batch)
        if batch.ui is not None and self.learns_items:
            losses["items"] = self.config.item_task * bpr(*embeddings.task_scores("ui", batch.ui))
        return losses
