"""Cold bundles, which no training user chose: how their scores compare with those of other bundles.

A cold bundle was a negative for every user, so a model ranks it below all others, however well its contents fit. Its
score becomes

    sum over levels (scale * s) + offset + size_weight * log(number of its items) + popularity_weight * p

with s the score of a level, and p how popular the bundles are that its items are in. Each level has a scale of its own:
what a level says of a bundle that nobody chose is worth more or less than what it says of another. Popular bundles tend
to be large, which a mean over items hides. The numbers are those under which the validation pairs are most likely.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor

from clbr.data.pairs import Pairs
from clbr.graph.graph import BundleGraph
from clbr.models.columns import cut
from clbr.models.embeddings import Embeddings, Level

FEATURES = 3
"""The first numbers of a calibration: offset, size weight and popularity weight. The scales of the levels follow."""
MAX_LEVELS = 8
"""Scales that a calibration holds. Those of levels that a model does not have stay 1."""
NEUTRAL = (0.0,) * FEATURES + (1.0,) * MAX_LEVELS
"""The calibration that leaves scores as they are."""
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


def item_popularity(graph: BundleGraph) -> Tensor:
    """Return for each item how popular its warm bundles are: the mean of log(1 + users), less that of all of them.

    One more bundle of average popularity is counted, so that an item of few bundles, or of none, is near 0.
    """
    popularity = graph.ub.right_degrees.log1p()
    warm = graph.ub.right_degrees > 0
    average = popularity[warm].mean() if warm.any() else popularity.new_zeros(())
    both = torch.stack([(popularity - average) * warm, warm.to(popularity.dtype)], dim=1)  # sums and counts
    sums, counts = (graph.bi.plain.T @ both).unbind(1)
    return sums / (counts + 1)


def features(graph: BundleGraph, popularity: Tensor) -> Tensor:
    """Return for each bundle 1, the logarithm of its number of items, and the mean of `popularity` over its items."""
    sizes = graph.bi.left_degrees.clamp(min=1).log()[:, None]  # an empty bundle counts as one of one item
    return torch.cat([torch.ones_like(sizes), sizes, graph.bi.mean @ popularity[:, None]], dim=1)


def cold_share(train: Pairs, held_out: Pairs, side: Literal["users", "bundles"]) -> float:
    """Return the share of held-out pairs whose user, or bundle, has no training pair."""
    column = 0 if side == "users" else 1
    return float((~np.isin(held_out[:, column], train[:, column])).mean()) if len(held_out) else 0.0


def fit_calibration(
    score: Callable[[Tensor], Tensor],
    users: NDArray[np.int64],
    graph: BundleGraph,
    held_out: Pairs,
    start: tuple[float, ...] = NEUTRAL,
) -> Tensor:
    """Return the calibration of cold bundles that makes the users' held-out pairs most likely.

    `score` maps user indices to the scores of each level, (levels, n, bundles); `users` are sorted. The likelihood of a
    pair is a softmax over all bundles that the user has not chosen in training. It is log-linear in the numbers, so
    there is one maximum, which the search finds from any start up to its tolerance.
    """
    from scipy.optimize import minimize  # here: its import takes a quarter of a second

    cold = cold_bundles(graph).numpy()
    held_out = held_out[np.isin(held_out[:, 0], users)]
    if not cold.any() or not len(held_out):
        return torch.tensor(NEUTRAL)
    warm, table = _log_sums(score, users, graph, cold)
    described = features(graph, item_popularity(graph)).double().numpy()[cold]  # (cold, FEATURES)
    rows, column_of = np.searchsorted(users, held_out[:, 0]), np.cumsum(cold) - 1
    weights = np.bincount(rows, minlength=len(users)) / len(held_out)
    chosen = cold[held_out[:, 1]]
    rows, columns = rows[chosen], column_of[held_out[chosen, 1]]
    observed = np.concatenate([described[columns].sum(0), table[:, rows, columns].sum(1)]) / len(held_out)
    size = FEATURES + len(table)
    neutral = np.array(NEUTRAL[:size])

    def loss(numbers: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the mean of -log likelihood with the ridge, and its gradient."""
        logits = np.tensordot(numbers[FEATURES:], table, 1) + described @ numbers[:FEATURES]
        total = np.logaddexp(warm, logsumexp(logits, axis=1))
        shares = weights[:, None] * np.exp(logits - total[:, None])
        distance = numbers - neutral
        expected = np.concatenate([shares.sum(0) @ described, np.tensordot(table, shares, 2)])
        value = weights @ total - numbers @ observed + RIDGE * distance @ distance
        return float(value), expected - observed + 2 * RIDGE * distance

    # A scale below 0 would reverse the ranking of a level.
    bounds = [(None, None)] * FEATURES + [(0.0, None)] * len(table)
    found = minimize(loss, np.array(start[:size]), jac=True, method="L-BFGS-B", bounds=bounds)
    return torch.tensor([*found.x, *NEUTRAL[size:]], dtype=torch.float32)


def _log_sums(
    score: Callable[[Tensor], Tensor], users: NDArray[np.int64], graph: BundleGraph, cold: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for each user the log of the sum of e^score over warm bundles not chosen, and the scores of cold ones.

    The scores of cold bundles are those of each level, (levels, users, cold bundles).
    """
    known = graph.ub.pairs[np.isin(graph.ub.pairs[:, 0], users)]
    place, block = np.searchsorted(users, known[:, 0]), max(1, BLOCK_SCORES // graph.bundles)
    sums, table = np.full(len(users), -np.inf), np.empty((0, 0, 0))
    for start in range(0, len(users), block):
        part = slice(start, start + block)
        levels = score(torch.from_numpy(users[part])).cpu().double().numpy()
        if not start:
            table = np.empty((len(levels), len(users), int(cold.sum())))
        table[:, part] = levels[:, :, cold]
        scores = levels.sum(0)
        inside = (place >= start) & (place < start + block)
        scores[place[inside] - start, known[inside, 1]] = -np.inf
        if not cold.all():
            sums[part] = logsumexp(scores[:, ~cold], axis=1)
    return sums, table


def calibrate_cold(
    embeddings: Embeddings, graph: BundleGraph, numbers: Tensor, cold: Tensor, popularity: Tensor
) -> Embeddings:
    """Return the embeddings with the vectors of cold bundles scaled, and a level with what is added to their scores.

    `cold` is 1 for cold bundles and 0 for others, `popularity` that of the items. Both are those of training: an edit
    of one user's choices must not change what all others see.
    """
    weights, scales = numbers[:FEATURES], numbers[FEATURES:]
    factors = 1 + (scales - 1) * cold[:, None]  # (bundles, MAX_LEVELS)
    levels = {
        name: replace(level, bundles=level.bundles * factors[:, number, None])
        for number, (name, level) in enumerate(embeddings.levels.items())
    }
    added = (features(graph, popularity.cpu()).to(numbers.device) @ weights * cold)[:, None]
    users = added.new_full((graph.users, 1), 1 / cut.size)  # the parts of several processes are added up
    return Embeddings(levels | {COLD_LEVEL: Level(users, added)})


def calibration_users(held_out: Pairs, bundles: int) -> NDArray[np.int64]:
    """Return the users to fit to: those with held-out pairs, evenly thinned out if there are many."""
    users = np.unique(held_out[:, 0]).astype(np.int64)
    count = min(len(users), max(MIN_USERS, min(MAX_USERS, MAX_SCORES // bundles)))
    return users[np.linspace(0, len(users) - 1, count).astype(np.int64)]
