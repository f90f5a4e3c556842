"""Metrics of rankings, user by user.

`hits` is an (n, K) array: whether the bundle at each place of a user's ranking is one she chose.
`relevant` is (n,): how many she chose in all. Every function looks at the first k places.
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
"""What the literature reports."""


def recall(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """hits / relevant: the share of her bundles that were found."""
    return np.asarray(hits[:, :k].sum(axis=1) / relevant)


def ndcg(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """DCG / ideal DCG, with DCG = sum over hits of 1 / log2(place + 1); the ideal is cut at k too."""
    places = min(k, max(hits.shape[1], int(relevant.max(initial=0))))
    discounts = 1 / np.log2(np.arange(2, places + 2))
    ideal = np.concatenate([[0.0], np.cumsum(discounts)])[np.minimum(relevant, places)]
    return np.asarray(hits[:, :k] @ discounts[: hits[:, :k].shape[1]] / ideal)


def hit_rate(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """1 if anything was found, else 0."""
    return np.asarray(hits[:, :k].any(axis=1), dtype=np.float64)


def mrr(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """1 / the place of the first hit, 0 without one."""
    found = hits[:, :k]
    return np.where(found.any(axis=1), 1 / (found.argmax(axis=1) + 1), 0.0)


def average_precision(hits: Hits, relevant: Counts, k: int) -> PerUser:
    """Sum over hits of precision at their place, / min(relevant, k). Its mean over users is MAP."""
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
    """The mean number of training users of the bundles recommended to each user."""
    shown = ranking[:, :k] >= 0
    counts = np.where(shown, popularity[ranking[:, :k]], 0)
    return np.asarray(counts.sum(axis=1) / np.maximum(shown.sum(axis=1), 1))


def coverage(ranking: Counts, bundles: int, k: int) -> float:
    """The share of all bundles that are recommended to anyone."""
    shown = np.unique(ranking[:, :k])
    return int((shown >= 0).sum()) / bundles
