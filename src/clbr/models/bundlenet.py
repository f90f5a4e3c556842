"""BundleNet: relational convolution on the user-item-bundle graph (Deng et al., CIKM 2020).

The first vector of a bundle is its own vector plus the mean of its items' vectors. User-bundle and user-item pairs are
learned together. In training the positive user-bundle edges of the batch are removed from the graph: otherwise the
label would be part of the input.
"""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph
from clbr.models.base import COMMON_SPACE, DROPOUT_VALUES, Encoder, EncoderConfig, SearchSpace
from clbr.models.embeddings import Batch, Embeddings, Level
from clbr.models.layers import dropout
from clbr.models.objectives import bpr
from clbr.models.rgcn import Nodes, RelationalLayer


class BundleNetConfig(EncoderConfig):
    """Settings of BundleNet."""

    layers: int = Field(2, ge=1, description="number of convolution layers")
    message_dropout: float = Field(0.1, ge=0, lt=1, description="dropout rate on the output of every layer")
    item_task: float = Field(0.5, ge=0, description="weight of the user-item loss; 0 trains on user-bundle pairs only")
    hide_choices: bool = Field(True, description="remove the batch's positive edges from the graph in training")


class BundleNet(Encoder):
    """The embeddings are the concatenated outputs of all layers."""

    config_class = BundleNetConfig
    citation = "Deng et al., CIKM 2020"
    relations: ClassVar[tuple[Relation, ...]] = ("ub", "ui", "bi")
    search_space: ClassVar[SearchSpace] = COMMON_SPACE | {
        "layers": [1, 2, 3],
        "message_dropout": DROPOUT_VALUES,
        "item_task": [0.0, 0.1, 0.5, 1.0],
        "hide_choices": [True, False],
    }
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
        """Whether the user-item loss has a weight above 0."""
        return self.config.item_task > 0

    def batch_graph(self, graph: BundleGraph, batch: Batch) -> BundleGraph:
        """Return the graph without the batch's positive user-bundle edges."""
        if not self.config.hide_choices:
            return graph
        return graph.replaced(ub=graph.ub.without(batch.ub.users, batch.ub.positives))

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """Apply the layers and concatenate their outputs."""
        nodes: Nodes = (self.users, self.bundles + graph.bi.mean @ self.items, self.items)
        outputs: list[Nodes] = [nodes]
        for layer in self.layers:
            convolved = layer(graph, *nodes)
            nodes = tuple(dropout(leaky_relu(x), self.config.message_dropout, generator) for x in convolved)  # type: ignore[assignment]
            outputs.append(nodes)
        users, bundles, items = (torch.cat(kind, dim=1) for kind in zip(*outputs, strict=True))
        return Embeddings({"graph": Level(users, bundles, items)})

    def task_losses(self, embeddings: Embeddings, batch: Batch) -> dict[str, Tensor]:
        """Return BPR on user-bundle and on user-item triples."""
        losses = super().task_losses(embeddings, batch)
        if batch.ui is not None and self.learns_items:
            losses["items"] = self.config.item_task * bpr(*embeddings.task_scores("ui", batch.ui))
        return losses
