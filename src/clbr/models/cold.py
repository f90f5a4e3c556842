"""Bundles that nobody chose (cold bundles): training on choices as if they were cold, and how often they are chosen."""

import numpy as np
import torch
from torch import Tensor

from clbr.data.pairs import Pairs
from clbr.graph.graph import Edges
from clbr.models.base import Scorer

MAX_USERS, BLOCK = 500, 128
"""Users whose scores decide the offset at most, and who are scored at once."""
LIMIT = 50.0
"""The largest offset. Scores differ by less."""


def without_some_bundles(edges: Edges, share: float, generator: torch.Generator) -> Edges:
    """Return user-bundle edges without those of a random share of bundles: the view in which nobody chose them yet."""
    kept = (torch.rand(edges.shape[1], generator=generator) >= share).numpy()[edges.pairs[:, 1]]
    weights = None if edges.weights is None else edges.weights[torch.from_numpy(kept)]
    return Edges(edges.pairs[kept], edges.shape, weights)


def cold_bundles(edges: Edges) -> Tensor:
    """Return which bundles no user-bundle edge ends in."""
    return torch.from_numpy(np.bincount(edges.pairs[:, 1], minlength=edges.shape[1]) == 0)


def fit_offset(scorer: Scorer, cold: Tensor, train: Pairs, held_out: Pairs) -> float:
    """Return what to add to the scores of cold bundles so that they get their share of the held-out pairs.

    The share that a model expects is the mean over the pairs of P(cold | user), of the softmax over all bundles that
    the user has not chosen in training. The offset that makes it the share observed is the most likely one. A share of
    0 or 1 is taken as half a pair less.
    """
    users = np.unique(held_out[:, 0])
    if not len(users) or not cold.any() or cold.all():
        return 0.0
    users = users[np.linspace(0, len(users) - 1, min(len(users), MAX_USERS)).astype(np.int64)]
    log_odds = torch.cat(
        [_log_odds(scorer, cold, train, block) for block in np.array_split(users, -(-len(users) // BLOCK))]
    )
    pairs = held_out[np.isin(held_out[:, 0], users)]
    mine = log_odds[torch.from_numpy(np.searchsorted(users, pairs[:, 0]))]
    count = int(cold.numpy()[pairs[:, 1]].sum())
    share = min(max(count, 0.5), len(pairs) - 0.5) / len(pairs)
    low, high = -LIMIT, LIMIT
    for _ in range(40):  # bisection: the expected share grows with the offset
        middle = (low + high) / 2
        low, high = (middle, high) if torch.sigmoid(mine + middle).mean() < share else (low, middle)
    return (low + high) / 2


def _log_odds(scorer: Scorer, cold: Tensor, train: Pairs, users: np.ndarray) -> Tensor:
    """Return for each of some ascending users log P(cold) - log P(not cold)."""
    scores = scorer.scores(torch.from_numpy(users.astype(np.int64))).cpu().double()
    begin, end = np.searchsorted(train[:, 0], users[0]), np.searchsorted(train[:, 0], users[-1], side="right")
    near = train[begin:end]  # pairs are sorted by user
    near = near[np.isin(near[:, 0], users)]
    scores[
        torch.from_numpy(np.searchsorted(users, near[:, 0])), torch.from_numpy(near[:, 1].astype(np.int64))
    ] = -torch.inf
    return scores[:, cold].logsumexp(1) - scores[:, ~cold].logsumexp(1)
