"""TriLevel: three graphs, three levels, one softmax over all bundles.

A level is propagation over one graph, as in CrossCBR (Ma et al., KDD 2022): x0 + the row-normalised A x0.

    item      users and items over user-item; a bundle is the mean of its items
    bundle    users and bundles over user-bundle
    contents  bundles and items over bundle-item; a user is the mean of the user's items

The levels share one table each of user, bundle and item vectors, and a score is the sum of the levels' inner products.
The third level is where a bundle's contents meet its own vector: it serves bundles that few users chose. A contrastive
loss between each two levels makes a node recognisable from one level to another, and edge dropout keeps the model from
relying on single edges. The softmax compares a choice with all bundles instead of one sampled negative.
"""

from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph
from clbr.models.base import COMMON_SPACE, Encoder, EncoderConfig, Objective, SearchSpace
from clbr.models.embeddings import Batch, Embeddings, Level, OwnVectors
from clbr.models.layers import directed_edge_dropout, propagate
from clbr.models.objectives import level_contrast, mixed_parts

SMALL, LARGE = 35_000, 100_000
"""Numbers of training pairs up to which the defaults do not depend on it, and from which on edge dropout is less."""


class TriLevelConfig(EncoderConfig):
    """Settings of TriLevel."""

    objective: Objective = Field("softmax", description="bpr, softmax or slk")
    layers: int = Field(1, ge=1, description="number of propagation layers on each level")
    contents_level: bool = Field(True, description="whether there is a contents level")
    user_vectors: Literal["all", "choosers", "none"] = Field(
        "all", description="which users have vectors of their own besides those of their choices: with bundles, or none"
    )
    fusion: Literal["late", "early"] = Field("late", description="add the levels' scores, or the levels' user vectors")
    contrastive_weight: float = Field(0.2, ge=0, description="weight of the contrastive loss")
    temperature: float = Field(0.2, gt=0, description="of the contrastive loss")
    contrasted_nodes: int = Field(
        0, ge=0, description="random users, and as many bundles, that are contrasted together with those of a batch"
    )
    edge_dropout: float = Field(0.4, ge=0, lt=1, description="share of edges left out in an epoch, per direction")


class TriLevel(Encoder):
    """Item, bundle and contents level, kept together by contrast."""

    config_class = TriLevelConfig
    citation = "clbr, after Ma et al., KDD 2022"
    relations: ClassVar[tuple[Relation, ...]] = ("ub", "ui", "bi")
    cuts_columns = True
    search_space: ClassVar[SearchSpace] = COMMON_SPACE | {
        "contrastive_weight": [0.04, 0.1, 0.2, 0.4],
        "temperature": [0.1, 0.15, 0.2, 0.25, 0.3],
        "edge_dropout": [0.0, 0.2, 0.3, 0.4, 0.5],
    }
    train_defaults: ClassVar[dict[str, Any]] = {"learning_rate": 0.002, "weight_decay": 0.0003, "patience": 10}
    config: TriLevelConfig

    def __init__(self, config: TriLevelConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        self.users = nn.Parameter(torch.empty(users, config.dim))
        self.bundles = nn.Parameter(torch.empty(bundles, config.dim))
        self.items = nn.Parameter(torch.empty(items, config.dim))

    @property
    def random_nodes(self) -> int:
        """The random nodes of the contrast."""
        return self.config.contrasted_nodes if self.config.contrastive_weight else 0

    @classmethod
    def defaults_for(cls, pairs: int) -> dict[str, Any]:
        """Return less weight decay and less dropout for large data.

        The loss is a mean over pairs, so the gradient of one node is the smaller, the more nodes there are; a fixed
        weight decay would outweigh it.
        """
        if pairs <= SMALL:
            return {}
        return {
            "weight_decay": cls.train_defaults["weight_decay"] * SMALL / pairs,
            "edge_dropout": 0.2 if pairs >= LARGE else 0.4,
        }

    @classmethod
    def informative_relations(cls, level: str, side: Literal["users", "bundles"]) -> tuple[Relation, ...]:
        """Return the relations of the level's graph; for users also user-item, since all levels share their table."""
        if side == "users":
            return ("ub", "ui")
        return ("ub",) if level == "bundle" else ("bi",)

    def own_vectors(self) -> OwnVectors | None:
        """Return the users' vectors, a term on two levels; early fusion would mix them into all three."""
        config = self.config
        if config.objective != "softmax" or config.fusion != "late" or config.user_vectors == "none":
            return None
        return OwnVectors(self.users, ("item", "bundle"))

    def vectors_of_choosers(self) -> Tensor | None:
        """Return the users' vectors if `user_vectors` is "choosers"."""
        return self.users if self.config.user_vectors == "choosers" else None

    def epoch_graph(self, graph: BundleGraph, generator: torch.Generator) -> BundleGraph:
        """Drop edges once an epoch, each direction of an edge on its own."""
        rate = self.config.edge_dropout
        dropped = {name: directed_edge_dropout(graph.edges(name), rate, generator) for name in self.relations}
        return graph.replaced(**dropped)

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        """Propagate over each graph."""
        layers, own = self.config.layers, self._own_vectors_on(graph)
        users, items = propagate(graph.ui, own, self.items, layers)  # (U, d), (I, d)
        choosers, bundles = propagate(graph.ub, own, self.bundles, layers)  # (U, d), (B, d)
        levels = {"item": Level(users, graph.bi.mean @ items, items), "bundle": Level(choosers, bundles)}
        if self.config.contents_level:
            contents, parts = propagate(graph.bi, self.bundles, self.items, layers)  # (B, d), (I, d)
            levels["contents"] = Level(graph.ui.mean @ parts, contents, parts)
        if self.config.fusion == "early":  # (sum of u) (sum of b) = the sum over levels of (sum of u) b
            fused = torch.stack([level.users for level in levels.values()]).sum(0)
            levels = {name: replace(level, users=fused) for name, level in levels.items()}
        return Embeddings(levels)

    def _own_vectors_on(self, graph: BundleGraph) -> Tensor:
        """Return the users' own vectors, (U, d), 0 for those who have none."""
        if self.config.user_vectors == "choosers":
            return graph.ub.only_connected(self.users)
        return self.users if self.config.user_vectors == "all" else 0 * self.users

    def task_losses(self, embeddings: Embeddings, batch: Batch) -> dict[str, Tensor]:
        """Return the objective, and the contrast between the levels.

        The contrast covers the batch's users and positives, counted as often as they occur. With random nodes, each
        node counts once. A batch of whole users has few users: without random ones a user has few negatives.
        """
        losses = super().task_losses(embeddings, batch)
        if self.config.contrastive_weight:
            users, bundles = batch.ub.users, batch.ub.positives
            if batch.random:
                users = mixed_parts(torch.unique(torch.cat([users, batch.random.users])))
                bundles = mixed_parts(torch.unique(torch.cat([bundles, batch.random.bundles])))
            levels, temperature = embeddings.levels.values(), self.config.temperature
            user_loss = level_contrast([level.users for level in levels], users, temperature)
            bundle_loss = level_contrast([level.bundles for level in levels], bundles, temperature)
            losses["contrast"] = self.config.contrastive_weight * (user_loss + bundle_loss) / 2
        return losses
