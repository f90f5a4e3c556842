"""EASE: a linear model of which bundles go together, in closed form (Steck, WWW 2019).

    min over W with a zero diagonal of |X - X W|^2 + l2 |W|^2
    =>  W = I - P / diag(P),  P = (X'X + l2 I)^-1

X is the user-bundle matrix. Bundle contents join as further rows, one per item, with a weight of their
own: two bundles then also go together because they share items.
"""

import os
from typing import Self

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import csr_array
from torch import Tensor

from clbr.config import Config
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import incidence
from clbr.errors import InputError
from clbr.models.base import Floor


class EASEConfig(Config):
    """Settings of EASE."""

    l2: float = Field(500.0, gt=0, description="weight of the penalty on W")
    contents: float = Field(0.0, ge=0, description="weight of the bundle-item rows; 0 leaves them out")


class EASE(Floor):
    """Scores a bundle by what the user's other bundles say of it."""

    def __init__(self, history: csr_array, weights: Tensor) -> None:
        self.history = history  # (U, B), sparse
        self.weights = weights  # (B, B)

    @classmethod
    def fit(cls, dataset: BundleDataset, config: Config | None = None) -> Self:
        """Solve for W; memory and time grow with the square and the cube of the number of bundles."""
        settings = EASEConfig() if config is None else config
        if not isinstance(settings, EASEConfig):
            raise InputError(f"EASE: expected an EASEConfig, got {settings!r}")
        bundles = len(dataset.bundles)
        needed, there = 3 * 4 * bundles**2, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if needed > there:
            raise InputError(f"EASE: {bundles:,} bundles take {needed >> 30} GiB, and this machine has {there >> 30}")
        history = incidence(dataset.train, len(dataset.users), bundles)
        gram = (history.T @ history).toarray()
        if settings.contents:
            contents = incidence(dataset.bi, bundles, len(dataset.items))
            gram += settings.contents**2 * (contents @ contents.T).toarray()
        gram[np.diag_indices(bundles)] += settings.l2
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(torch.from_numpy(gram)))
        weights = inverse.div_(-inverse.diagonal().clone())
        weights.fill_diagonal_(0.0)
        return cls(history, weights)

    def scores(self, users: Tensor) -> Tensor:
        """X W, for these rows of X."""
        return torch.from_numpy(self.history[users.numpy()] @ self.weights.numpy())
