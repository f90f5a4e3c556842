"""What-if lets the parameters follow the edits: one step towards what retraining would make of them.

Training made the gradient of its loss L small. On edited data the gradient is another one, and retraining follows it.
What-if makes one step of that,

    parameters - (gradient of L on the edited data - gradient of L on the data) / CURVATURE

an influence function (Koh and Liang, ICML 2017) for a curvature of L that is the same in all directions. L is the
softmax of training, summed over choices. Of its terms those count that the edits change directly: for a user whose
history is edited the scores of all bundles, for a bundle whose contents are edited the scores of all other users. The
step leaves out the contrastive loss and edge dropout. Users without choices and unseen nodes have no part in L.
"""

from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr.data.pairs import positions
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.graph.operators import Pattern
from clbr.inference.own_vectors import moved_users
from clbr.models.base import Encoder

CURVATURE = 100.0
"""Of the loss, summed over choices. How it was chosen: results/answers.md."""
BLOCK = 1024
"""Users whose scores are held at once."""
CLOSE = -1e-6
"""The largest logarithm of one term's share of a sum, so that the rest of the sum is above 0."""
Nodes = NDArray[np.int64]
"""Sorted indices of users or bundles."""


@dataclass(frozen=True)
class Competition:
    """What a bundle competes with in each user's part of the loss, before any edits."""

    users: Tensor
    """(n,): users who have chosen bundles, sorted."""
    negatives: Tensor
    """(n,): the logarithm of the sum of e^score over the bundles that the user has not chosen."""
    missing: Tensor
    """(n,): for each choice of the user what its probability lacks to 1, added up."""

    @classmethod
    def of(cls, model: Encoder, graph: BundleGraph) -> "Competition":
        """Compute it for all users, in blocks."""
        with torch.no_grad():
            left, right = _vectors(model, graph)
        users = torch.nonzero(graph.ub.left_degrees[:-1])[:, 0]
        negatives, missing = left.new_empty(len(users)), left.new_empty(len(users))
        for start in range(0, len(users), BLOCK):
            block = slice(start, start + BLOCK)
            row, bundle = _choices(graph.ub.pattern, users[block])
            negatives[block], lacks = _lacks(left[users[block]] @ right.T, row, bundle)
            missing[block] = torch.zeros_like(negatives[block]).index_add_(0, row, lacks)
        return cls(users, negatives, missing)

    def without(self, users: Nodes) -> "Competition":
        """Leave these users out."""
        others = torch.from_numpy(~np.isin(self.users.numpy(), users))
        return Competition(self.users[others], self.negatives[others], self.missing[others])

    def rest(self, scores: Tensor, chosen: Tensor) -> Tensor:
        """The logarithm of the sum over negatives but the bundle itself, (n, bundles), by scores before the edits."""
        share = torch.where(chosen, -torch.inf, scores - self.negatives[:, None]).clamp(max=CLOSE)
        return self.negatives[:, None] + torch.log1p(-share.exp())

    def gradient(self, scores: Tensor, chosen: Tensor, rest: Tensor) -> Tensor:
        """The gradient of the loss by the scores of some bundles, (n, bundles)."""
        pushed = self.missing[:, None] * torch.sigmoid(scores - rest)
        return torch.where(chosen, -torch.sigmoid(rest - scores), pushed)


NOBODY = Competition(torch.empty(0, dtype=torch.int64), torch.empty(0), torch.empty(0))


def followed_nodes(edits: EdgeEdits, graph: BundleGraph) -> tuple[Nodes, Nodes]:
    """The users with edited histories and the bundles with edited contents that have a part in the loss."""
    users = np.union1d(edits.left_nodes("ub"), edits.left_nodes("ui")).astype(np.int64)
    bundles = edits.left_nodes("bi").astype(np.int64)
    chose = graph.ub.left_degrees.numpy() > 0
    return users[chose[users] & (users < graph.users - 1)], bundles[bundles < graph.bundles - 1]


@dataclass(frozen=True)
class _Slope:
    """The gradient of the terms of some nodes by all parameters, on one graph."""

    gradients: tuple[Tensor, ...]
    rest: Tensor
    """See `Competition.rest`."""


class Follower:
    """Lets the parameters of a model follow edits of one graph. What is computed on that graph is kept."""

    def __init__(self, model: Encoder, graph: BundleGraph) -> None:
        self.model, self.graph = model, graph
        self._kept: tuple[bytes, _Slope] | None = None

    @cached_property
    def competition(self) -> Competition:
        """The competition before the edits."""
        return Competition.of(self.model, self.graph)

    def follow(self, edits: EdgeEdits, after: BundleGraph) -> Encoder:
        """The model with parameters that follow the edits; the model itself where there are none to follow.

        `after` is the edited graph. Own vectors that move by a step of their own (own_vectors.py) stay.
        """
        own, (users, bundles) = self.model.own_vectors(), followed_nodes(edits, self.graph)
        if own is None or not len(users) + len(bundles):
            return self.model
        twin = deepcopy(self.model).requires_grad_(True)
        key, kept = users.tobytes() + b"|" + bundles.tobytes(), self._kept
        before = kept[1] if kept and kept[0] == key else self._slope(twin, self.graph, users, bundles)
        self._kept = key, before
        new = self._slope(twin, after, users, bundles, before.rest)
        moved, followed = moved_users(self.model, edits, self.graph, after), twin.own_vectors()
        assert followed is not None
        with torch.no_grad():
            for parameter, one, other in zip(twin.parameters(), before.gradients, new.gradients, strict=True):
                parameter.sub_((other - one) / CURVATURE)
            followed.table[moved] = own.table[moved]
        return twin.requires_grad_(False)

    def _slope(
        self, model: Encoder, graph: BundleGraph, users: Nodes, bundles: Nodes, rest: Tensor | None = None
    ) -> _Slope:
        rows, columns = torch.from_numpy(users), torch.from_numpy(bundles)
        others = self.competition.without(users) if len(bundles) else NOBODY
        with torch.enable_grad():
            left, right = vectors = _vectors(model, graph)
        with torch.no_grad():
            by_row = _row_gradient(left[rows] @ right.T, *_choices(graph.ub.pattern, rows))  # (users, B)
            scores = left[others.users] @ right[columns].T  # (n, bundles)
            chosen = _chosen(graph.ub.pattern, others.users, columns)
            rest = others.rest(scores, chosen) if rest is None else rest
            by_column = others.gradient(scores, chosen, rest)
            pulls = torch.zeros_like(left), by_row.T @ left[rows]
            pulls[0][rows], pulls[0][others.users] = by_row @ right, by_column @ right[columns]
            pulls[1][columns] += by_column.T @ left[others.users]
        parameters = [*model.parameters()]
        return _Slope(torch.autograd.grad(vectors, parameters, pulls, allow_unused=True, materialize_grads=True), rest)


def _vectors(model: Encoder, graph: BundleGraph) -> tuple[Tensor, Tensor]:
    """The vectors of all users, and those of all bundles but the unseen one, levels joined."""
    embeddings = model.encode(graph)
    return embeddings.joined("users"), embeddings.joined("bundles")[:-1]


def _choices(pattern: Pattern, users: Tensor) -> tuple[Tensor, Tensor]:
    """The choices of some users: which of these users, and the bundle."""
    row, at = positions(pattern.pointers, users.numpy())
    return torch.from_numpy(row), torch.from_numpy(pattern.columns[at].astype(np.int64))


def _chosen(pattern: Pattern, users: Tensor, bundles: Tensor) -> Tensor:
    """Which of some sorted users have chosen which of some bundles, (users, bundles)."""
    column, user = _choices(pattern.transposed[0], bundles)
    row = torch.searchsorted(users, user).clamp(max=len(users) - 1)
    known = users[row] == user
    found = torch.zeros(len(users), len(bundles), dtype=torch.bool)
    found[row[known], column[known]] = True
    return found


def _lacks(scores: Tensor, row: Tensor, bundle: Tensor) -> tuple[Tensor, Tensor]:
    """The competition of users with all their scores, (n,), and what the probability of each choice lacks to 1.

    The scores of choices are overwritten.
    """
    own = scores[row, bundle]
    scores[row, bundle] = -torch.inf
    negatives = torch.logsumexp(scores, 1).clamp(min=torch.finfo(scores.dtype).min)  # -inf if all are chosen
    return negatives, torch.sigmoid(negatives[row] - own)


def _row_gradient(scores: Tensor, row: Tensor, bundle: Tensor) -> Tensor:
    """The gradient of the loss by all scores of some users, (n, B), which are overwritten."""
    negatives, lacks = _lacks(scores, row, bundle)
    missing = torch.zeros_like(negatives).index_add_(0, row, lacks)
    gradient = scores.sub_(negatives[:, None]).exp_().mul_(missing[:, None])
    gradient[row, bundle] = -lacks
    return gradient
