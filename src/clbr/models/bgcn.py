"""BGCN: graph convolution on an item level and on a bundle level (Chang et al., SIGIR 2020).

On both levels a layer computes h <- dropout([LeakyReLU(A h W), h]), so vectors grow with each layer. The output of a
level is the initial vectors concatenated with the row-normalised layers. Item level: user-item edges with self-loops; a
bundle is the row-normalised mean of its items. Bundle level: user-bundle edges, and bundle-bundle edges N N' between
bundles that share items, with N the bundle-item matrix with rows of length 1. Both levels share the user vectors.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph, power
from clbr.graph.operators import Blocks, Diagonal, Product
from clbr.models.base import COMMON_SPACE, DROPOUT_VALUES, Encoder, EncoderConfig, SearchSpace
from clbr.models.embeddings import Batch, Embeddings, Level
from clbr.models.layers import grow, unit_rows


class BGCNConfig(EncoderConfig):
    """Settings of BGCN."""

    layers: int = Field(2, ge=1, description="number of convolution layers on each level")
    message_dropout: float = Field(0.3, ge=0, lt=1, description="dropout rate on the output of every layer")
    l2: float = Field(0.0, ge=0, description="weight of the squared norm of the batch's embeddings")


class BGCN(Encoder):
    """Convolution on two levels that share the user vectors."""

    config_class = BGCNConfig
    citation = "Chang et al., SIGIR 2020"
    relations: ClassVar[tuple[Relation, ...]] = ("ub", "ui", "bi")
    search_space: ClassVar[SearchSpace] = COMMON_SPACE | {
        "layers": [1, 2, 3],
        "message_dropout": DROPOUT_VALUES,
        "l2": [0.0, 1e-7, 1e-6, 1e-5, 1e-4],
    }
    config: BGCNConfig

    def __init__(self, config: BGCNConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        d = config.dim
        self.users = nn.Parameter(torch.empty(users, d))
        self.bundles = nn.Parameter(torch.empty(bundles, d))
        self.items = nn.Parameter(torch.empty(items, d))
        widths = [d * (layer + 1) for layer in range(config.layers)]
        self.item_layers = nn.ModuleList(nn.Linear(width, d) for width in widths)
        self.bundle_layers = nn.ModuleList(nn.Linear(width, d) for width in widths)

    @classmethod
    def informative_relations(cls, level: str, side: Literal["users", "bundles"]) -> tuple[Relation, ...]:
        """Item level: items. Bundle level: user-bundle pairs, and for bundles also the items they share."""
        if level == "item":
            return ("ui", "bi")
        return ("ub",) if side == "users" else ("ub", "bi")

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """Compute both levels, each d + 2 d + ... wide. Item vectors are not needed in training."""
        item_level = graph.keep("bgcn item", _item_level, "ui")
        bundle_level = graph.keep("bgcn bundle", _bundle_level, "ub", "bi")
        users, items = self._convolve(item_level, self.items, self.item_layers, generator)
        bundle_users, bundles = self._convolve(bundle_level, self.bundles, self.bundle_layers, generator)
        contents = unit_rows(torch.cat([graph.bi.mean @ output for output in items], dim=1))
        item_vectors = torch.cat(items, dim=1) if generator is None else None
        return Embeddings(
            {
                "item": Level(torch.cat(users, dim=1), contents, item_vectors),
                "bundle": Level(torch.cat(bundle_users, dim=1), torch.cat(bundles, dim=1)),
            }
        )

    def _convolve(
        self, level: Blocks, others: Tensor, layers: nn.ModuleList, generator: torch.Generator | None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the output of each layer, for the users and for the other side (items or bundles)."""
        hidden: list[Tensor] = [self.users, others]
        outputs = [hidden]
        for layer in layers:
            assert isinstance(layer, nn.Linear)
            # A (h W) equals (A h) W, and its vectors do not grow with the layers.
            messages = level.apply([x @ layer.weight.T for x in hidden])
            pairs = zip(messages, hidden, strict=True)
            both = [grow(message, layer.bias, old, self.config.message_dropout, generator) for message, old in pairs]
            hidden, unit = map(list, zip(*both, strict=True))
            outputs.append(unit)
        users, rest = zip(*outputs, strict=True)
        return list(users), list(rest)

    def task_losses(self, embeddings: Embeddings, batch: Batch) -> dict[str, Tensor]:
        """Return BPR and, if `l2` is above 0, the weighted squared norm of the batch's embeddings."""
        losses = super().task_losses(embeddings, batch)
        if self.config.l2:
            bundles = torch.cat([batch.ub.positives, batch.ub.negatives.flatten()])
            levels = embeddings.levels.values()
            vectors = [x for level in levels for x in (level.users[batch.ub.users], level.bundles[bundles])]
            losses["l2"] = self.config.l2 / 2 * torch.stack([x.square().sum() for x in vectors]).sum()
        return losses


def _item_level(graph: BundleGraph) -> Blocks:
    """Build D^-1/2 [[I, UI], [UI', I]] D^-1/2."""
    users, items = (power(degrees + 1, -0.5) for degrees in (graph.ui.left_degrees, graph.ui.right_degrees))
    ui = graph.ui.plain.scaled(users, items)
    return Blocks([[Diagonal(users**2), ui], [ui.T, Diagonal(items**2)]])


def _bundle_level(graph: BundleGraph) -> Blocks:
    """Build D^-1/2 [[I, UB], [UB', N N']] D^-1/2. N N' stays a product: it would be nearly dense."""
    unit = graph.bi.plain.scaled(left=power(graph.bi.left_degrees, -0.5))
    overlap = (Product(unit, unit.T) @ torch.ones(graph.bundles, 1)).squeeze(1)
    users, bundles = power(graph.ub.left_degrees + 1, -0.5), power(graph.ub.right_degrees + overlap, -0.5)
    ub, unit = graph.ub.plain.scaled(users, bundles), unit.scaled(left=bundles)
    return Blocks([[Diagonal(users**2), ub], [ub.T, Product(unit, unit.T)]])
