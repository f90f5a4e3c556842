"""Cold bundles, which no training user chose: how their scores compare with those of other bundles.

A cold bundle was a negative for every user, so a model ranks it below all others, however well its contents fit. Its
score s becomes scale * s + offset + size_weight * log(number of its items); popular bundles tend to be large, which a
mean over items hides. The three numbers are those under which the validation pairs are most likely.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor

from clbr.data.pairs import Pairs
from clbr.graph.graph import BundleGraph
from clbr.models.columns import cut
from clbr.models.embeddings import Embeddings, Level

NEUTRAL = (1.0, 0.0, 0.0)
"""Scale, offset and size weight that leave a score as it is."""
RIDGE = 1e-4
"""Weight of the squared distance from NEUTRAL: it keeps the offset finite if all validation pairs are cold."""
MAX_USERS, MIN_USERS, MAX_SCORES = 1_000, 50, 1 << 23
"""Users that the numbers are fitted to: at most 1,000, fewer for many bundles, but 50 if there are as many."""
BLOCK_SCORES = 1 << 21
"""Scores computed at once."""
COLD_LEVEL = "cold"
"""The level that holds what is added to the scores of cold bundles, the same for every user."""


def cold_bundles(graph: BundleGraph) -> Tensor:
    """Return which bundles have no user-bundle edge."""
    return graph.ub.right_degrees == 0


def log_sizes(graph: BundleGraph) -> Tensor:
    """Return the logarithm of each bundle's number of items; 0 for an empty bundle."""
    return graph.bi.left_degrees.clamp(min=1).log()


def cold_share(train: Pairs, held_out: Pairs, bundles: int) -> float:
    """Return the share of held-out pairs whose bundle has no training pair."""
    chosen = np.bincount(train[:, 1], minlength=bundles) > 0
    return float((~chosen[held_out[:, 1]]).mean()) if len(held_out) else 0.0


def fit_calibration(
    score: Callable[[Tensor], Tensor], users: NDArray[np.int64], graph: BundleGraph, held_out: Pairs
) -> Tensor:
    """Return the scale, offset and size weight of cold bundles that make the users' held-out pairs most likely.

    `score` maps user indices to (n, bundles) scores; `users` are sorted. The likelihood of a pair is a softmax over all
    bundles that the user has not chosen in training. It is log-linear in the three numbers, so there is one maximum.
    """
    from scipy.optimize import minimize  # here, since its import would slow down every start by a quarter of a second

    cold, sizes = cold_bundles(graph).numpy(), log_sizes(graph).double().numpy()
    held_out = held_out[np.isin(held_out[:, 0], users)]
    if not cold.any() or not len(held_out):
        return torch.tensor(NEUTRAL)
    warm, table = _log_sums(score, users, graph, cold)
    sizes, rows, place = sizes[cold], np.searchsorted(users, held_out[:, 0]), np.cumsum(cold) - 1
    weights = np.bincount(rows, minlength=len(users)) / len(held_out)
    chosen = cold[held_out[:, 1]]
    rows, columns = rows[chosen], place[held_out[chosen, 1]]
    observed = np.array([table[rows, columns].sum(), len(rows), sizes[columns].sum()]) / len(held_out)

    def loss(numbers: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the mean of -log likelihood with the ridge, and its gradient."""
        logits = numbers[0] * table + (numbers[1] + numbers[2] * sizes)
        total = np.logaddexp(warm, logsumexp(logits, axis=1))
        shares = weights[:, None] * np.exp(logits - total[:, None])
        by_bundle, away = shares.sum(0), numbers - NEUTRAL
        expected = np.array([(shares * table).sum(), by_bundle.sum(), by_bundle @ sizes])
        return float(weights @ total - numbers @ observed + RIDGE * away @ away), expected - observed + 2 * RIDGE * away

    bounds = [(0.0, None), (None, None), (None, None)]  # a scale below 0 would turn the ranking of cold bundles round
    found = minimize(loss, np.array(NEUTRAL), jac=True, method="L-BFGS-B", bounds=bounds)
    return torch.from_numpy(found.x).to(torch.float32)


def _log_sums(
    score: Callable[[Tensor], Tensor], users: NDArray[np.int64], graph: BundleGraph, cold: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for each user the log of the sum of e^score over warm bundles not chosen, and the scores of cold ones."""
    known = graph.ub.pairs[np.isin(graph.ub.pairs[:, 0], users)]
    place, block = np.searchsorted(users, known[:, 0]), max(1, BLOCK_SCORES // graph.bundles)
    sums, table = np.full(len(users), -np.inf), np.empty((len(users), int(cold.sum())))
    for start in range(0, len(users), block):
        part = slice(start, start + block)
        scores = score(torch.from_numpy(users[part])).cpu().double().numpy()
        inside = (place >= start) & (place < start + block)
        scores[place[inside] - start, known[inside, 1]] = -np.inf
        table[part] = scores[:, cold]
        if not cold.all():
            sums[part] = logsumexp(scores[:, ~cold], axis=1)
    return sums, table


def calibrate_cold(embeddings: Embeddings, graph: BundleGraph, numbers: Tensor, cold: Tensor) -> Embeddings:
    """Return the embeddings with the vectors of cold bundles scaled, and a level with what is added to their scores.

    `cold` is 1 for cold bundles and 0 for others. It is that of training: an edit of one user's choices must not
    change what all others see.
    """
    scale, offset, size_weight = numbers
    factors = (1 + (scale - 1) * cold)[:, None]
    levels = {name: replace(level, bundles=level.bundles * factors) for name, level in embeddings.levels.items()}
    added = ((offset + size_weight * log_sizes(graph).to(numbers.device)) * cold)[:, None]
    users = added.new_full((graph.users, 1), 1 / cut.size)  # the parts of several processes are added up
    return Embeddings(levels | {COLD_LEVEL: Level(users, added)})


def calibration_users(held_out: Pairs, bundles: int) -> NDArray[np.int64]:
    """Return the users to fit to: those with held-out pairs, evenly thinned out if there are many."""
    users = np.unique(held_out[:, 0]).astype(np.int64)
    count = min(len(users), max(MIN_USERS, min(MAX_USERS, MAX_SCORES // bundles)))
    return users[np.linspace(0, len(users) - 1, count).astype(np.int64)]
