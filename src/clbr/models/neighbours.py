"""Neighbours: item-based collaborative filtering (Sarwar et al., WWW 2001) from bundles and items to bundles.

    similarity(f, b) = users who have f and chose b / (users of f^(1 - penalty) * users of b^penalty)
    score(u, b) = sum of the similarities of the user's bundles to b + items * the same sum over the user's items

f is a bundle or an item. With a penalty of 0.5 the similarity is the cosine; with 0 it is the share of the users of f
who chose b (Deshpande and Karypis, TOIS 2004), which favours popular bundles.
"""

from typing import ClassVar

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import diags_array, hstack
from torch import nn

from clbr.config import Config
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Relation, incidence
from clbr.graph.graph import BundleGraph
from clbr.models.base import ClosedForm, Scorer, SearchSpace
from clbr.models.overlap import SparseScorer


class NeighboursConfig(Config):
    """Settings of neighbours."""

    penalty: float = Field(0.2, ge=0, le=1, description="exponent of a bundle's number of users; 0.5: the cosine")
    items: float = Field(1.0, ge=0, description="weight of the user's items beside the user's bundles")


class Neighbours(ClosedForm):
    """Scores a bundle by how often its users also have what the user has."""

    config_class = NeighboursConfig
    citation = "Sarwar et al., WWW 2001"
    relations: ClassVar[tuple[Relation, ...]] = ("ub", "ui")
    search_space: ClassVar[SearchSpace] = {"penalty": [0.0, 0.1, 0.2, 0.3, 0.5, 0.7], "items": [0.0, 0.3, 1.0, 3.0]}
    config: NeighboursConfig

    def __init__(self, config: NeighboursConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        self.sources = nn.Parameter(torch.zeros(bundles), requires_grad=False)
        self.targets = nn.Parameter(torch.zeros(bundles), requires_grad=False)
        self.items = nn.Parameter(torch.zeros(items), requires_grad=False)

    def solve(self, dataset: BundleDataset) -> None:
        """Compute the powers of the numbers of users of bundles and items; without users the count is taken as 1."""
        bundles = torch.tensor(dataset.popularity).clamp(min=1)
        items = torch.from_numpy(np.bincount(dataset.ui[:, 1], minlength=len(dataset.items))).clamp(min=1)
        penalty = self.config.penalty
        self.sources.copy_(bundles.double() ** (penalty - 1))
        self.targets.copy_(bundles.double() ** -penalty)
        self.items.copy_(self.config.items * items.double() ** (penalty - 1))

    def scorer(self, graph: BundleGraph) -> Scorer:
        """Return a scorer that counts common users in the graph and takes the users' histories from it."""
        chosen = incidence(graph.ub.pairs, *graph.ub.shape)
        profiles = hstack([chosen, incidence(graph.ui.pairs, *graph.ui.shape)], format="csr")  # (U, B + I)
        source = diags_array(torch.cat([self.sources, self.items]).cpu().numpy())
        common = profiles.T @ (chosen @ diags_array(self.targets.cpu().numpy()))  # (B + I, B)
        return SparseScorer(profiles, (source @ common).tocsr())
