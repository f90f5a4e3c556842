"""Popularity: everyone gets the bundles that most users chose. The floor of floors."""

from typing import Self

import torch
from torch import Tensor

from clbr.config import Config
from clbr.data.dataset import BundleDataset
from clbr.models.base import Floor


class PopularityConfig(Config):
    """Popularity has nothing to set."""


class Popularity(Floor):
    """Scores a bundle by its number of training users."""

    def __init__(self, counts: Tensor) -> None:
        self.counts = counts  # (B,)

    @classmethod
    def fit(cls, dataset: BundleDataset, config: Config | None = None) -> Self:
        """Count."""
        return cls(torch.tensor(dataset.popularity, dtype=torch.float32))

    def scores(self, users: Tensor) -> Tensor:
        """The same for every user."""
        return self.counts.expand(len(users), -1)
