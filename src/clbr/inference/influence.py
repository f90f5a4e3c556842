"""What-if lets the parameters follow the edits: one step towards what retraining would make of them.

Training made the gradient of its loss L small. On edited data the gradient is another one, and retraining follows it.
What-if makes one step of that,

    parameters - change / curvature,   change = gradient of L on the edited data - gradient of L on the data

an influence function (Koh and Liang, ICML 2017) for a curvature of L that is the same in all directions. It is
CURVATURE, or that of L along the step if this is larger: a bundle that thousands have chosen has thousands of terms in
L, and a longer step would go past the point where L is least.

L is the softmax of training, summed over choices. Of its terms those count that the edits change directly: for a user
whose history is edited the scores of all bundles, for a bundle whose contents are edited its scores for all other
users. With s the score of such a bundle and N the logarithm of the sum of e^score over the user's other negatives, the
bundle's terms are log(1 + e^(N - s)) if the user has chosen it. Otherwise they are log(1 + e^(s - N)) times the sum of
1 - probability over the user's choices. N and the probabilities are those before the edits.

The step leaves out the contrastive loss, edge dropout, and that training on large data compares with a sample of the
bundles. Users without choices and unseen nodes are not in L.
"""

from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

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
from clbr.models.embeddings import Embeddings

CURVATURE = 100.0
"""Of the loss, summed over choices, at least. How it was chosen: results/answers.md."""
TOLERANCE = 1.1
"""A step is made if the curvature along it is at most so many times the one that it was divided by."""
TRIALS = 8
"""Steps that are tried at most, each divided by the curvature along the one before."""
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
Vectors = tuple[Tensor, Tensor]
"""Of all users, and of all bundles but the unseen one, levels joined."""


@dataclass(frozen=True)
class Competition:
    """What a bundle competes with in each user's part of the loss, before any edits."""

    users: Tensor
    """(n,): users who have chosen bundles, sorted."""
    negatives: Tensor
    """(n,): the logarithm of the sum of e^score over the bundles that the user has not chosen."""
    missed: Tensor
    """(n,): 1 - probability, summed over the user's choices."""

    @classmethod
    def of(cls, left: Tensor, right: Tensor, graph: BundleGraph) -> "Competition":
        """Compute it for all users of a graph, from their vectors and those of all bundles, in blocks."""
        users = torch.nonzero(graph.ub.left_degrees[:-1])[:, 0]
        negatives, missed = left.new_empty(len(users)), left.new_empty(len(users))
        for start in range(0, len(users), BLOCK):
            check_stop()
            block = slice(start, start + BLOCK)
            row, bundle = _choices(graph.ub.pattern, users[block])
            negatives[block], of_choices = _missed_probabilities(left[users[block]] @ right.T, row, bundle)
            missed[block] = torch.zeros_like(negatives[block]).index_add_(0, row, of_choices)
        return cls(users, negatives, missed)

    def without(self, users: Nodes) -> "Competition":
        """Leave these users out."""
        others = torch.from_numpy(~np.isin(self.users.numpy(), users))
        return Competition(self.users[others], self.negatives[others], self.missed[others])

    def rest(self, scores: Tensor, chosen: Tensor) -> Tensor:
        """The logarithm of the sum over negatives but the bundle itself, (n, bundles), by scores before the edits."""
        share = torch.where(chosen, -torch.inf, scores - self.negatives[:, None]).clamp(max=MAX_LOG_SHARE)
        return self.negatives[:, None] + torch.log1p(-share.exp())

    def gradient(self, scores: Tensor, chosen: Tensor, rest: Tensor) -> Tensor:
        """The gradient of the loss with respect to the scores of some bundles, (n, bundles)."""
        as_negative = self.missed[:, None] * torch.sigmoid(scores - rest)
        return torch.where(chosen, -torch.sigmoid(rest - scores), as_negative)


class Terms(NamedTuple):
    """The terms of the loss that edits change directly: those of some users, and those of some bundles."""

    users: Nodes
    bundles: Nodes

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return len(self.users) + len(self.bundles) > 0

    @property
    def key(self) -> bytes:
        """What tells them from others."""
        return self.users.tobytes() + b"|" + self.bundles.tobytes()


def terms_of(edits: EdgeEdits, graph: BundleGraph) -> Terms:
    """The terms of users with edited histories and of bundles with edited contents, as far as they are in the loss."""
    users = np.union1d(edits.left_nodes("ub"), edits.left_nodes("ui")).astype(np.int64)
    bundles = edits.left_nodes("bi").astype(np.int64)
    chose = graph.ub.left_degrees.numpy() > 0
    return Terms(users[chose[users] & (users < graph.users - 1)], bundles[bundles < graph.bundles - 1])


class _Gradient(NamedTuple):
    """The gradient of some terms with respect to the vectors, and where it was computed."""

    users: Tensor
    bundles: Tensor
    by_users: Tensor
    by_bundles: Tensor

    def rise_from(self, start: "_Gradient") -> float:
        """How much the gradient rises along the way from a start, times the length of the way."""
        of_users = (self.users - start.users) * (self.by_users - start.by_users)
        of_bundles = (self.bundles - start.bundles) * (self.by_bundles - start.by_bundles)
        return float(of_users.sum() + of_bundles.sum())


class InfluenceStep:
    """The step of a model's parameters after edits of one graph. What is computed on that graph is kept."""

    def __init__(self, model: Encoder, graph: BundleGraph) -> None:
        self.model, self.graph = model, graph
        self._kept: tuple[bytes, Gradients] | None = None

    @cached_property
    def vectors(self) -> Vectors:
        """Before the edits."""
        with torch.no_grad():
            return _joined(self.model.encode(self.graph))

    @cached_property
    def competition(self) -> Competition:
        """The competition before the edits."""
        return Competition.of(*self.vectors, self.graph)

    def follow(self, edits: EdgeEdits, after: BundleGraph) -> tuple[Encoder, Embeddings]:
        """The model with parameters that follow the edits, and its vectors on the edited graph, `after`.

        The model itself where no parameter follows. Own vectors that move by a step of their own (own_vectors.py) stay.
        """
        own, terms = self.model.own_vectors(), terms_of(edits, self.graph)
        if own is None or not terms.any:
            with torch.no_grad():
                return self.model, self.model.encode(after)
        model = deepcopy(self.model).requires_grad_(True)
        key, kept = terms.key, self._kept
        old = kept[1] if kept and kept[0] == key else self._gradients(model, self.graph, terms)[0]
        self._kept = key, old
        new, start = self._gradients(model, after, terms)
        change = tuple(now - before for before, now in zip(old, new, strict=True))
        table = next(at for at, one in enumerate(self.model.parameters()) if one is own.table)
        change[table][moved_users(self.model, edits, self.graph, after)] = 0
        model.requires_grad_(False)
        return model, self._step(model, change, after, terms, start)

    def _step(
        self, model: Encoder, change: Gradients, after: BundleGraph, terms: Terms, start: _Gradient
    ) -> Embeddings:
        """Change the model by the step, and return its vectors."""
        parameters = [parameter.clone() for parameter in model.parameters()]
        squared_length = sum(float((one * one).sum()) for one in change)
        curvature = CURVATURE
        for trial in range(TRIALS):
            for parameter, before, one in zip(model.parameters(), parameters, change, strict=True):
                parameter.copy_(before - one / curvature)
            embeddings = model.encode(after)
            if trial == TRIALS - 1 or not squared_length:
                break
            end = self._gradient(_joined(embeddings), after, terms)
            along = end.rise_from(start) * curvature**2 / squared_length
            if along <= TOLERANCE * curvature:
                break
            curvature = along
        return embeddings

    def _gradients(self, model: Encoder, graph: BundleGraph, terms: Terms) -> tuple[Gradients, _Gradient]:
        """The gradient of these terms on a graph with respect to the parameters, and with respect to the vectors."""
        check_stop()
        with torch.enable_grad():
            vectors = _joined(model.encode(graph))
        found = self._gradient((vectors[0].detach(), vectors[1].detach()), graph, terms)
        check_stop()
        parameters, by_vectors = [*model.parameters()], (found.by_users, found.by_bundles)
        every = torch.autograd.grad(vectors, parameters, by_vectors, allow_unused=True, materialize_grads=True)
        return every, found

    def _gradient(self, vectors: Vectors, graph: BundleGraph, terms: Terms) -> _Gradient:
        """The gradient of these terms on a graph with respect to the vectors."""
        found = _Gradient(*vectors, torch.zeros_like(vectors[0]), torch.zeros_like(vectors[1]))
        with torch.no_grad():
            self._add_users(found, graph, terms.users)
            if len(terms.bundles):
                self._add_bundles(found, terms)
        return found

    def _add_users(self, found: _Gradient, graph: BundleGraph, users: Nodes) -> None:
        """Add the terms of these users."""
        for start in range(0, len(users), BLOCK):
            check_stop()
            rows = torch.from_numpy(users[start : start + BLOCK])
            left = found.users[rows]
            by_scores = _row_gradient(left @ found.bundles.T, *_choices(graph.ub.pattern, rows))  # (n, B)
            found.by_users[rows] += by_scores @ found.bundles
            found.by_bundles.addmm_(by_scores.T, left)

    def _add_bundles(self, found: _Gradient, terms: Terms) -> None:
        """Add the terms of these bundles, for all users but those who have terms of their own."""
        others = self.competition.without(terms.users)
        left, old = found.users[others.users], self.vectors[0][others.users]
        size = max(1, SCORES // max(1, len(left)))
        for start in range(0, len(terms.bundles), size):
            check_stop()
            columns = torch.from_numpy(terms.bundles[start : start + size])
            chosen = _chosen(self.graph.ub.pattern, others.users, columns)  # others' choices are not edited
            rest = others.rest(old @ self.vectors[1][columns].T, chosen)
            right = found.bundles[columns]
            by_scores = others.gradient(left @ right.T, chosen, rest)  # (n, bundles)
            found.by_users[others.users] += by_scores @ right
            found.by_bundles[columns] += by_scores.T @ left


def _joined(embeddings: Embeddings) -> Vectors:
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


def _missed_probabilities(scores: Tensor, row: Tensor, bundle: Tensor) -> tuple[Tensor, Tensor]:
    """The competition of users with all their scores, (n,), and 1 - probability of each choice.

    The scores of choices are overwritten.
    """
    own = scores[row, bundle]
    scores[row, bundle] = -torch.inf
    negatives = torch.logsumexp(scores, 1).clamp(min=torch.finfo(scores.dtype).min)  # -inf if all are chosen
    return negatives, torch.sigmoid(negatives[row] - own)


def _row_gradient(scores: Tensor, row: Tensor, bundle: Tensor) -> Tensor:
    """The gradient of the loss with respect to all scores of some users, (n, B), which are overwritten."""
    negatives, of_choices = _missed_probabilities(scores, row, bundle)
    missed = torch.zeros_like(negatives).index_add_(0, row, of_choices)
    gradient = scores.sub_(negatives[:, None]).exp_().mul_(missed[:, None])
    gradient[row, bundle] = -of_choices
    return gradient
