"""Own vectors of users whose choices are edited: a what-if moves them as retraining would, to first order.

A user's own vector x is fitted to the user's choices, so with other choices retraining would find another one. With all
other parameters fixed, x minimises

    L(x) = sum over choices c of log(1 + sum over the bundles b that are not chosen of exp(s_b - s_c))

the softmax of training, and a ridge: weight decay, and early stopping, which acts like one. What-if moves x by one
Newton step, - (L'' + ridge)^-1 (the gradient of L on the edited data less that on the data). This is an influence
function (Koh and Liang, ICML 2017) of one row of the parameters. It leaves out the contrastive loss, edge dropout, and
that other vectors follow. A user without choices in the graph has no fitted vector, and is not moved; neither is one
who has no pairs at all after the edits, or no own vector then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from clbr.data.pairs import neighbours
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.inference.stopping import check_stop
from clbr.models.base import Encoder
from clbr.models.embeddings import Embeddings

UserLevels = Mapping[str, tuple[Tensor, Tensor]]
"""By level: a user's vector (d,), and those of all bundles (B, d), the unseen one last."""
RIDGE = 10.0
"""At least: weight decay times the number of training pairs, with the defaults of TriLevel for 35,000 pairs or more."""


@dataclass(frozen=True)
class ChoiceLoss:
    """The loss L of one user as a function of the user's own vector. The unseen bundle takes no part."""

    bundles: Tensor
    """(B, d): what the own vector is multiplied with, the bundle vectors added over the levels that contain it."""
    scores: Tensor
    """(B,): the user's scores of all bundles."""
    chosen: Tensor
    """The bundles that the user has chosen."""

    @classmethod
    def of(cls, own: tuple[str, ...], levels: UserLevels, graph: BundleGraph, user: int) -> "ChoiceLoss":
        """The loss of a user with these vectors; `own` are the levels that contain the own vector."""
        known = graph.bundles - 1
        bundles = torch.stack([levels[name][1][:known] for name in own]).sum(0)
        return cls(bundles, level_scores(levels)[:known], _chosen(graph, user))

    def gradient(self) -> Tensor:
        """The gradient by the own vector, (d,); 0 without a choice or without a negative."""
        if not self._has_both:
            return self.bundles.new_zeros(self.bundles.shape[1])
        softmax, missing = self._probabilities()
        return missing.sum() * (softmax @ self.bundles) - missing @ self.bundles[self.chosen]

    def hessian(self) -> Tensor:
        """The second derivatives by the own vector, (d, d)."""
        if not self._has_both:
            return self.bundles.new_zeros(self.bundles.shape[1], self.bundles.shape[1])
        softmax, missing = self._probabilities()
        mean = softmax @ self.bundles
        covariance = (self.bundles * softmax[:, None]).T @ self.bundles - torch.outer(mean, mean)
        differences = mean - self.bundles[self.chosen]  # (choices, d)
        return missing.sum() * covariance + (differences * (missing * (1 - missing))[:, None]).T @ differences

    @property
    def _has_both(self) -> bool:
        return 0 < len(self.chosen) < len(self.scores)

    def _probabilities(self) -> tuple[Tensor, Tensor]:
        """The softmax over the negatives, (B,), and 1 - probability of each choice."""
        negatives = self.scores.clone()
        negatives[self.chosen] = -torch.inf
        total = torch.logsumexp(negatives, 0)
        return torch.exp(negatives - total), torch.sigmoid(total - self.scores[self.chosen])


@dataclass(frozen=True)
class Response:
    """How a user's own vector follows the gradient of the loss."""

    gradient: Tensor
    """(d,): before the edits."""
    factor: Tensor
    """(d, d): the Cholesky factor of the Hessian before the edits, with the ridge."""

    @classmethod
    def of(cls, own: Tensor, loss: ChoiceLoss) -> "Response":
        """The response of an own vector (d,).

        The ridge is that under which the vector would not grow. With less, as training stopped early, it would be
        reversed when all choices are dropped.
        """
        gradient = loss.gradient()
        stationary = -(gradient @ own) / (own @ own).clamp(min=torch.finfo(own.dtype).tiny)
        ridge = stationary.clamp(min=RIDGE) * torch.eye(len(own), dtype=own.dtype, device=own.device)
        return cls(gradient, torch.linalg.cholesky(loss.hessian() + ridge))

    def step(self, after: ChoiceLoss) -> Tensor:
        """The change of the own vector, (d,), by the edits."""
        return torch.cholesky_solve((self.gradient - after.gradient())[:, None], self.factor)[:, 0]


def level_scores(levels: UserLevels) -> Tensor:
    """A user's scores of all bundles, (B,)."""
    vectors, bundles = zip(*levels.values(), strict=True)
    return torch.cat(bundles, 1) @ torch.cat(vectors)


def moved_users(model: Encoder, edits: EdgeEdits, before: BundleGraph, after: BundleGraph) -> list[int]:
    """The users whose own vectors follow the edits of their choices; none if the model has no own vectors."""
    if model.own_vectors() is None:
        return []
    users: list[int] = edits.left_nodes("ub").tolist()
    pairs = after.ub.left_degrees
    if model.vectors_of_choosers() is None:
        pairs = pairs + after.ui.left_degrees
    return [user for user in users if before.ub.left_degrees[user] > 0 and pairs[user] > 0]


def move_own_vectors(
    model: Encoder, users: Sequence[int], before: tuple[BundleGraph, Embeddings], after: tuple[BundleGraph, Embeddings]
) -> Embeddings:
    """The embeddings after edits, with the own vectors of these users moved."""
    own = model.own_vectors()
    if own is None or not users:
        return after[1]
    levels = dict(after[1].levels)
    levels |= {name: replace(levels[name], users=levels[name].users.clone()) for name in own.levels}
    old, new = (_choice_losses(own.levels, *state) for state in (before, after))
    for user in users:
        check_stop()
        step = Response.of(own.table[user], old(user)).step(new(user))
        for name in own.levels:
            levels[name].users[user] += step
    return Embeddings(levels)


def _choice_losses(own: tuple[str, ...], graph: BundleGraph, embeddings: Embeddings) -> Callable[[int], ChoiceLoss]:
    """The losses of users with the vectors on a graph; the tables are put together once."""
    known, users, table = graph.bundles - 1, embeddings.joined("users"), embeddings.joined("bundles")
    bundles = torch.stack([embeddings.levels[name].bundles[:known] for name in own]).sum(0)
    return lambda user: ChoiceLoss(bundles, (table @ users[user])[:known], _chosen(graph, user))


def _chosen(graph: BundleGraph, user: int) -> Tensor:
    return torch.from_numpy(neighbours(graph.ub.pairs, user).astype(np.int64))
