"""What every recommender can do."""

from abc import ABC, abstractmethod
from typing import Self

from torch import Tensor

from clbr.config import Config
from clbr.data.dataset import BundleDataset


class Recommender(ABC):
    """Scores every bundle for a user: the higher, the sooner it is recommended."""

    @abstractmethod
    def scores(self, users: Tensor) -> Tensor:
        """For n user ids an (n, bundles) float32 tensor. Training pairs are scored like all others."""

    @classmethod
    @abstractmethod
    def fit(cls, dataset: BundleDataset, config: Config | None = None) -> Self:
        """Learn from the training pairs, and only from these, of a data set."""
