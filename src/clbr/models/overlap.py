"""Content overlap: bundles that hold many of a user's items, and of the items of the bundles that the user has chosen.

    score(u, b) = sum over the items i of b of idf(i)^2 p(u, i) / |b|^(2 length)
    p(u, i) = 1 if u has i, and `history` more for each chosen bundle of u that holds i
    idf(i) = ln(bundles / bundles that hold i),  |b|^2 = sum over the items i of b of idf(i)^2

With `length` 0.5 the scores of a user are in the order of the cosine of tf-idf vectors (Salton and Buckley, 1988); with
1 they are the share of a bundle's items that the user has; with 0 the length of a bundle does not matter.
"""

from typing import ClassVar

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import csr_array, diags_array
from torch import Tensor, nn

from clbr.config import Config
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Relation, incidence
from clbr.graph.graph import BundleGraph
from clbr.models.base import ClosedForm, Scorer, SearchSpace


class OverlapConfig(Config):
    """Settings of content overlap."""

    length: float = Field(0.5, ge=0, le=1, description="how much the length of a bundle counts; 0.5: as in the cosine")
    history: float = Field(0.3, ge=0, description="weight of the items of chosen bundles beside the user's own items")


class Overlap(ClosedForm):
    """Scores a bundle by the rare items that it shares with the user's items and chosen bundles."""

    config_class = OverlapConfig
    citation = "Salton and Buckley, IPM 1988"
    relations: ClassVar[tuple[Relation, ...]] = ("ub", "ui", "bi")
    search_space: ClassVar[SearchSpace] = {"length": [0.0, 0.25, 0.5, 1.0], "history": [0.0, 0.1, 0.3, 1.0]}
    config: OverlapConfig

    def __init__(self, config: OverlapConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        self.weights = nn.Parameter(torch.zeros(items), requires_grad=False)

    def solve(self, dataset: BundleDataset) -> None:
        """Compute idf(i)^2 of every item; an item that is in no bundle gets 0."""
        counts = np.bincount(dataset.bi[:, 1], minlength=len(dataset.items))
        idf = np.log(len(dataset.bundles) / np.maximum(counts, 1), where=counts > 0, out=np.zeros(len(counts)))
        self.weights.copy_(torch.from_numpy(idf**2))

    def scorer(self, graph: BundleGraph) -> Scorer:
        """Return a scorer that takes histories and contents from the graph."""
        contents = incidence(graph.bi.pairs, *graph.bi.shape)
        profiles = incidence(graph.ui.pairs, *graph.ui.shape)
        if self.config.history:
            profiles = profiles + self.config.history * (incidence(graph.ub.pairs, *graph.ub.shape) @ contents)
        weighted = contents @ diags_array(self.weights.cpu().numpy())  # (B, I)
        lengths = weighted.sum(axis=1)
        scale = np.power(lengths, -self.config.length, where=lengths > 0, out=np.zeros_like(lengths))
        return SparseScorer(profiles.astype(np.float32), (diags_array(scale) @ weighted).T.tocsr())


class SparseScorer(Scorer):
    """Scores by the product of two sparse matrices: what a user has, and what it says about each bundle."""

    def __init__(self, profiles: csr_array, weights: csr_array) -> None:
        self.profiles, self.weights = profiles, weights  # (U, features), (features, B)

    def scores(self, users: Tensor) -> Tensor:
        """Return the product for these rows."""
        return torch.from_numpy((self.profiles[users.cpu().numpy()] @ self.weights).toarray())
