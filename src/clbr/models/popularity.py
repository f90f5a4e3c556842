"""Popularity: the same ranking for every user, by number of training users. The simplest baseline."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from clbr.config import Config
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Relation
from clbr.graph.graph import BundleGraph
from clbr.models.base import ClosedForm, Scorer


class PopularityConfig(Config):
    """Popularity has no settings."""


class Popularity(ClosedForm):
    """Scores a bundle by its number of training users."""

    config_class = PopularityConfig
    relations: ClassVar[tuple[Relation, ...]] = ()

    def __init__(self, config: PopularityConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        self.counts = nn.Parameter(torch.zeros(bundles), requires_grad=False)

    def solve(self, dataset: BundleDataset) -> None:
        """Count the training users of each bundle."""
        self.counts.copy_(torch.tensor(dataset.popularity, dtype=torch.float32))

    def scorer(self, graph: BundleGraph) -> Scorer:
        """Return a scorer by the counts. The graph is not used."""
        return PopularityScorer(self.counts)


class PopularityScorer(Scorer):
    """Scores by counts, equal for all users."""

    def __init__(self, counts: Tensor) -> None:
        self.counts = counts  # (B,)

    def scores(self, users: Tensor) -> Tensor:
        """Repeat the counts for each user."""
        return self.counts.expand(len(users), -1)
