"""EASE: a linear item-item model in closed form (Steck, WWW 2019), here with bundles as items.

    min over W with a zero diagonal of |X - X W|^2 + l2 |W|^2
    =>  W = I - P / diag(P),  P = (X'X + l2 I)^-1

X is the user-bundle matrix. With `contents` > 0 the items of bundles are added as further rows of X, scaled by
`contents`: bundles that share items then get higher weights for each other.
"""

import os
from collections.abc import Callable
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from scipy.sparse import csr_array
from torch import Tensor, nn

from clbr.config import Config
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Relation, incidence
from clbr.errors import InputError
from clbr.graph.graph import BundleGraph
from clbr.models.base import ClosedForm, Scorer, SearchSpace


class EASEConfig(Config):
    """Settings of EASE."""

    l2: float = Field(500.0, gt=0, description="weight of the L2 penalty on W")
    contents: float = Field(0.0, ge=0, description="weight of the bundle-item rows; 0 leaves them out")


class EASE(ClosedForm):
    """Scores bundles for a user by X W: the weights from the bundles in the user's history, added up."""

    config_class = EASEConfig
    citation = "Steck, WWW 2019"
    relations: ClassVar[tuple[Relation, ...]] = ("ub",)
    search_space: ClassVar[SearchSpace] = {
        "l2": [50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0],
        "contents": [0.0, 0.1, 0.3, 1.0],
    }
    config: EASEConfig

    def __init__(self, config: EASEConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        _require_memory(bundles, matrices=1)
        self.weights = nn.Parameter(torch.zeros(bundles, bundles), requires_grad=False)

    def solve(self, dataset: BundleDataset) -> None:
        """Compute W. Memory grows with the square of the number of bundles, time with its cube."""
        bundles = len(dataset.bundles)
        _require_memory(bundles, matrices=3)
        history = incidence(dataset.train, len(dataset.users), bundles)
        gram = (history.T @ history).toarray()
        if self.config.contents:
            contents = incidence(dataset.bi, bundles, len(dataset.items))
            gram += (self.config.contents**2 * (contents @ contents.T)).toarray()
        gram[np.diag_indices(bundles)] += self.config.l2
        factor = _cholesky(gram, self.config.l2, dataset)
        del gram  # never more than three matrices at once, the parameter included
        self.weights.copy_(_weights(torch.cholesky_inverse(factor)))

    @classmethod
    def trials(cls, dataset: BundleDataset) -> Callable[[EASEConfig], Scorer]:
        """Return a function from settings to the scorer. The Gram matrices are computed once."""
        bundles = len(dataset.bundles)
        _require_memory(bundles, matrices=5)
        history = incidence(dataset.train, len(dataset.users), bundles)
        chosen = (history.T @ history).toarray()

        @cache
        def shared() -> NDArray[np.float32]:
            contents = incidence(dataset.bi, bundles, len(dataset.items))
            return np.asarray((contents @ contents.T).toarray())

        def solved(config: EASEConfig) -> Scorer:
            gram = chosen + np.float32(config.contents**2) * shared() if config.contents else chosen.copy()
            gram[np.diag_indices(bundles)] += config.l2
            return EASEScorer(history, _weights(torch.cholesky_inverse(_cholesky(gram, config.l2, dataset))))

        return solved

    def scorer(self, graph: BundleGraph) -> Scorer:
        """Return a scorer that takes the user-bundle edges of the graph as the users' histories."""
        return EASEScorer(incidence(graph.ub.pairs, *graph.ub.shape), self.weights.detach().cpu())


class EASEScorer(Scorer):
    """Scores by the product of sparse histories and dense weights."""

    def __init__(self, history: csr_array, weights: Tensor) -> None:
        self.history, self.weights = history, weights  # (U, B), (B, B)

    def scores(self, users: Tensor) -> Tensor:
        """Return X W for these rows of X."""
        return torch.from_numpy(self.history[users.cpu().numpy()] @ self.weights.numpy())


def _cholesky(matrix: NDArray[np.float32], l2: float, dataset: BundleDataset) -> Tensor:
    """The Cholesky factor of X'X + l2 I."""
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(torch.from_numpy(matrix))
    if failed:
        raise InputError(
            f"EASE: l2 = {l2:g} is too small for {dataset.name}: X'X + l2 I has no Cholesky "
            "factorisation in float32; raise l2"
        )
    return factor


def _weights(inverse: Tensor) -> Tensor:
    """W = I - P / diag(P), written over P."""
    inverse.div_(-inverse.diagonal().clone())
    return inverse.fill_diagonal_(0.0)


def _require_memory(bundles: int, matrices: int) -> None:
    """Raise an `InputError` if this machine has no room for so many (bundles, bundles) matrices."""
    needed, available = matrices * 4 * bundles**2, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > available:
        raise InputError(
            f"EASE: {bundles:,} bundles need {needed >> 30} GiB of memory, and this machine has {available >> 30}; "
            "choose another model"
        )
