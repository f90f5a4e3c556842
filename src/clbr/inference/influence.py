"""What-if lets the parameters follow the edits: one step towards what retraining would make of them.

Training made the gradient of its loss L small. On edited data the gradient is another one, and retraining follows it.
What-if makes one step of that,

    parameters - (gradient of L on the edited data - gradient of L on the data) / CURVATURE

an influence function (Koh and Liang, ICML 2017) for a curvature of L that is the same in all directions. L is the
softmax of training, summed over choices. Of its terms those count that the edits change directly: for a user whose
history is edited the scores of all bundles, for a bundle whose contents are edited its scores for all other users. With
s the score of such a bundle and N the logarithm of the sum of e^score over the user's other negatives, the bundle's
terms are log(1 + e^(N - s)) if the user has chosen it. Otherwise they are log(1 + e^(s - N)) times the sum of
1 - probability over the user's choices. N and the probabilities are those before the edits.

The step leaves out the contrastive loss and edge dropout. Users without choices and unseen nodes are not in L.
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
from clbr.inference.stopping import check_stop
from clbr.models.base import Encoder

CURVATURE = 100.0
"""Of the loss, summed over choices. How it was chosen: results/answers.md."""
BLOCK = 1024
"""Users whose scores of all bundles are held at once."""
SCORES = 1 << 22
"""Scores of edited bundles that are held at once."""
MAX_LOG_SHARE = -1e-6
"""Upper bound of the logarithm of one negative's share, so that the sum of the others stays positive."""
Nodes = NDArray[np.int64]
"""Sorted indices of users or bundles."""
Gradients = tuple[Tensor, ...]
"""Of a loss, one for each parameter of a model."""


@dataclass(frozen=True)
class Competition:
    """What a bundle competes with in each user's part of the loss, before any edits."""

    users: Tensor
    """(n,): users who have chosen bundles, sorted."""
    negatives: Tensor
    """(n,): the logarithm of the sum of e^score over the bundles that the user has not chosen."""
    missing: Tensor
    """(n,): 1 - probability, summed over the user's choices."""

    @classmethod
    def of(cls, left: Tensor, right: Tensor, graph: BundleGraph) -> "Competition":
        """Compute it for all users of a graph, from their vectors and those of all bundles, in blocks."""
        users = torch.nonzero(graph.ub.left_degrees[:-1])[:, 0]
        negatives, missing = left.new_empty(len(users)), left.new_empty(len(users))
        for start in range(0, len(users), BLOCK):
            check_stop()
            block = slice(start, start + BLOCK)
            row, bundle = _choices(graph.ub.pattern, users[block])
            negatives[block], missing_of_choices = _missing_probabilities(left[users[block]] @ right.T, row, bundle)
            missing[block] = torch.zeros_like(negatives[block]).index_add_(0, row, missing_of_choices)
        return cls(users, negatives, missing)

    def without(self, users: Nodes) -> "Competition":
        """Leave these users out."""
        others = torch.from_numpy(~np.isin(self.users.numpy(), users))
        return Competition(self.users[others], self.negatives[others], self.missing[others])

    def rest(self, scores: Tensor, chosen: Tensor) -> Tensor:
        """The logarithm of the sum over negatives but the bundle itself, (n, bundles), by scores before the edits."""
        share = torch.where(chosen, -torch.inf, scores - self.negatives[:, None]).clamp(max=MAX_LOG_SHARE)
        return self.negatives[:, None] + torch.log1p(-share.exp())

    def gradient(self, scores: Tensor, chosen: Tensor, rest: Tensor) -> Tensor:
        """The gradient of the loss with respect to the scores of some bundles, (n, bundles)."""
        as_negative = self.missing[:, None] * torch.sigmoid(scores - rest)
        return torch.where(chosen, -torch.sigmoid(rest - scores), as_negative)


def nodes_in_loss(edits: EdgeEdits, graph: BundleGraph) -> tuple[Nodes, Nodes]:
    """The users with edited histories and the bundles with edited contents whose terms are in the loss."""
    users = np.union1d(edits.left_nodes("ub"), edits.left_nodes("ui")).astype(np.int64)
    bundles = edits.left_nodes("bi").astype(np.int64)
    chose = graph.ub.left_degrees.numpy() > 0
    return users[chose[users] & (users < graph.users - 1)], bundles[bundles < graph.bundles - 1]


class InfluenceStep:
    """The step of a model's parameters after edits of one graph. What is computed on that graph is kept."""

    def __init__(self, model: Encoder, graph: BundleGraph) -> None:
        self.model, self.graph = model, graph
        self._kept: tuple[bytes, Gradients] | None = None

    @cached_property
    def vectors(self) -> tuple[Tensor, Tensor]:
        """Before the edits: see `_vectors`."""
        with torch.no_grad():
            return _vectors(self.model, self.graph)

    @cached_property
    def competition(self) -> Competition:
        """The competition before the edits."""
        return Competition.of(*self.vectors, self.graph)

    def model_after(self, edits: EdgeEdits, after: BundleGraph) -> Encoder:
        """The model with parameters that follow the edits; the model itself where none do.

        `after` is the edited graph. Own vectors that move by a step of their own (own_vectors.py) stay.
        """
        own, (users, bundles) = self.model.own_vectors(), nodes_in_loss(edits, self.graph)
        if own is None or not len(users) + len(bundles):
            return self.model
        model = deepcopy(self.model).requires_grad_(True)
        key, kept = users.tobytes() + b"|" + bundles.tobytes(), self._kept
        old = kept[1] if kept and kept[0] == key else self._gradients(model, self.graph, users, bundles)
        self._kept = key, old
        new = self._gradients(model, after, users, bundles)
        moved, table = moved_users(self.model, edits, self.graph, after), model.own_vectors()
        assert table is not None
        with torch.no_grad():
            for parameter, before, now in zip(model.parameters(), old, new, strict=True):
                parameter.sub_((now - before) / CURVATURE)
            table.table[moved] = own.table[moved]
        return model.requires_grad_(False)

    def _gradients(self, model: Encoder, graph: BundleGraph, users: Nodes, bundles: Nodes) -> Gradients:
        """The gradients of the terms of these users and bundles on a graph."""
        check_stop()
        with torch.enable_grad():
            vectors = _vectors(model, graph)
        with torch.no_grad():
            by_vectors = torch.zeros_like(vectors[0]), torch.zeros_like(vectors[1])
            self._add_users(by_vectors, vectors, graph, users)
            if len(bundles):
                self._add_bundles(by_vectors, vectors, users, bundles)
        check_stop()
        parameters = [*model.parameters()]
        return torch.autograd.grad(vectors, parameters, by_vectors, allow_unused=True, materialize_grads=True)

    def _add_users(
        self, by_vectors: tuple[Tensor, Tensor], vectors: tuple[Tensor, Tensor], graph: BundleGraph, users: Nodes
    ) -> None:
        """Add the gradient of these users' terms with respect to the vectors."""
        left, right = vectors
        for start in range(0, len(users), BLOCK):
            check_stop()
            rows = torch.from_numpy(users[start : start + BLOCK])
            by_scores = _row_gradient(left[rows] @ right.T, *_choices(graph.ub.pattern, rows))  # (n, B)
            by_vectors[0][rows] += by_scores @ right
            by_vectors[1].addmm_(by_scores.T, left[rows])

    def _add_bundles(
        self, by_vectors: tuple[Tensor, Tensor], vectors: tuple[Tensor, Tensor], users: Nodes, bundles: Nodes
    ) -> None:
        """Add the gradient of these bundles' terms, for all users but `users`, with respect to the vectors."""
        others = self.competition.without(users)
        left, old = vectors[0][others.users], self.vectors[0][others.users]
        size = max(1, SCORES // max(1, len(left)))
        for start in range(0, len(bundles), size):
            check_stop()
            columns = torch.from_numpy(bundles[start : start + size])
            chosen = _chosen(self.graph.ub.pattern, others.users, columns)  # edits of others' choices: they are `users`
            rest = others.rest(old @ self.vectors[1][columns].T, chosen)
            right = vectors[1][columns]
            by_scores = others.gradient(left @ right.T, chosen, rest)  # (n, bundles)
            by_vectors[0][others.users] += by_scores @ right
            by_vectors[1][columns] += by_scores.T @ left


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
    found = torch.zeros(len(users), len(bundles), dtype=torch.bool)
    if not len(users):
        return found
    column, user = _choices(pattern.transposed[0], bundles)
    row = torch.searchsorted(users, user).clamp(max=len(users) - 1)
    known = users[row] == user
    found[row[known], column[known]] = True
    return found


def _missing_probabilities(scores: Tensor, row: Tensor, bundle: Tensor) -> tuple[Tensor, Tensor]:
    """The competition of users with all their scores, (n,), and 1 - probability of each choice.

    The scores of choices are overwritten.
    """
    own = scores[row, bundle]
    scores[row, bundle] = -torch.inf
    negatives = torch.logsumexp(scores, 1).clamp(min=torch.finfo(scores.dtype).min)  # -inf if all are chosen
    return negatives, torch.sigmoid(negatives[row] - own)


def _row_gradient(scores: Tensor, row: Tensor, bundle: Tensor) -> Tensor:
    """The gradient of the loss with respect to all scores of some users, (n, B), which are overwritten."""
    negatives, missing_of_choices = _missing_probabilities(scores, row, bundle)
    missing = torch.zeros_like(negatives).index_add_(0, row, missing_of_choices)
    gradient = scores.sub_(negatives[:, None]).exp_().mul_(missing[:, None])
    gradient[row, bundle] = -missing_of_choices
    return gradient
