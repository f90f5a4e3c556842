"""Ranking metrics, one value per user.

`hits` is an (n, K) array: whether the bundle at each rank of a user's list is relevant (a pair of the split).
`relevant` is (n,): the user's number of relevant bundles. Every function uses the first k ranks.
"""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Hits = NDArray[np.bool_]
Counts = NDArray[np.int64]
PerUser = NDArray[np.float64]
Headline = Literal["recall@20", "ndcg@20", "recall@40", "ndcg@40"]
HEADLINE: tuple[Headline, ...] = get_args(Headline)
"""The metrics that papers report."""


def recall(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Return hits / relevant: the share of the relevant bundles that are in the top k."""
    return np.asarray(hits[:, :k].sum(axis=1) / relevant)


def ndcg(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Return DCG / ideal DCG, with DCG = sum over hits of 1 / log2(rank + 1). The ideal list is cut at k, too."""
    ranks = min(k, max(hits.shape[1], int(relevant.max(initial=0))))
    discounts = 1 / np.log2(np.arange(2, ranks + 2))
    ideal = np.concatenate([[0.0], np.cumsum(discounts)])[np.minimum(relevant, ranks)]
    return np.asarray(hits[:, :k] @ discounts[: hits[:, :k].shape[1]] / ideal)


def hit_rate(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Return 1 if there is a hit, else 0."""
    return np.asarray(hits[:, :k].any(axis=1), dtype=np.float64)


def mrr(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Return 1 / the rank of the first hit, or 0 without a hit."""
    found = hits[:, :k]
    return np.where(found.any(axis=1), 1 / (found.argmax(axis=1) + 1), 0.0)


def average_precision(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Return the sum over hits of the precision at their rank, / min(relevant, k). Its mean over users is MAP."""
    found = hits[:, :k]
    precision = np.cumsum(found, axis=1) / np.arange(1, found.shape[1] + 1)
    return np.asarray((precision * found).sum(axis=1) / np.minimum(relevant, k))


METRICS: dict[str, Callable[[Hits, Counts, int], PerUser]] = {
    "recall": recall,
    "ndcg": ndcg,
    "hit": hit_rate,
    "mrr": mrr,
    "map": average_precision,
}


def average_popularity(ranking: Counts, popularity: Counts, k: int) -> PerUser:
    """Return the mean number of training users of the bundles recommended to each user."""
    shown = ranking[:, :k] >= 0
    counts = np.where(shown, popularity[ranking[:, :k]], 0)
    return np.asarray(counts.sum(axis=1) / np.maximum(shown.sum(axis=1), 1))


def coverage(ranking: Counts, bundles: int, k: int) -> float:
    """Return the share of all bundles that are recommended to at least one user."""
    shown = np.unique(ranking[:, :k])
    return int((shown >= 0).sum()) / bundles
