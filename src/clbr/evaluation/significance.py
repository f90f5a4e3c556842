"""Is a difference more than chance? Over users and over seeds, both ways, corrected for the number of comparisons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t, ttest_rel

from clbr.errors import InputError
from clbr.evaluation.metrics import PerUser
from clbr.evaluation.protocol import Evaluation

ONE_SEED = "one seed: these trained models, nothing about others"
"""What a test user by user can say where there is no spread over seeds to go by."""
Values = NDArray[np.float64]
"""(seeds, users): a metric of one contender."""


@dataclass(frozen=True)
class Comparison:
    """A contender beside the baseline in one metric."""

    contender: str
    metric: str
    baseline_mean: float
    mean: float
    p: float
    """Two-sided, corrected (Holm) over all comparisons made together."""
    one_seed: bool
    """Either has a single seed: p is user by user and speaks of these trained models alone."""

    @property
    def difference(self) -> float:
        """By how much the contender's mean is higher."""
        return self.mean - self.baseline_mean


def compare(groups: Mapping[str, Sequence[Evaluation]], metrics: Sequence[str]) -> list[Comparison]:
    """Every group but the first against the first, in each metric.

    A group is one contender's evaluations, a seed each. All must have been evaluated on the same users.
    """
    (baseline, first), *rest = groups.items()
    users = first[0].users
    for name, group in groups.items():
        for result in group:
            if result.split != first[0].split or not np.array_equal(result.users, users):
                raise InputError(f"{name} and {baseline} were not evaluated on the same users and split")
    raw = []
    for name, group in rest:
        for metric in metrics:
            mine, theirs = (np.stack([result.per_user[metric] for result in one]) for one in (group, first))
            p = difference_p(mine, theirs)
            by_user = paired_p(mine.mean(axis=0), theirs.mean(axis=0)) if p is None else p
            raw.append((name, metric, float(theirs.mean()), float(mine.mean()), by_user, p is None))
    corrected = holm([by_user for *_, by_user, _ in raw])
    return [Comparison(*row[:4], p=p, one_seed=row[5]) for row, p in zip(raw, corrected, strict=True)]


def difference_p(one: Values, other: Values) -> float | None:
    """The two-sided p-value of the difference of two means over users and seeds; None if either has one seed.

    Chance comes in twice: other users (paired, over the users' means of their seeds), and other seeds, which shift all
    users together (s, pooled over the two). SE^2 = SE^2 over users + s^2 (1/k1 + 1/k2), and t has the degrees of
    freedom of Welch and Satterthwaite.
    """
    (k1, users), k2 = one.shape, len(other)
    if min(k1, k2) < 2:
        return None
    apart = one.mean(axis=0) - other.mean(axis=0)
    if users < 2 or not apart.any():
        return 1.0
    freedom = k1 + k2 - 2
    pooled = ((k1 - 1) * one.mean(axis=1).var(ddof=1) + (k2 - 1) * other.mean(axis=1).var(ddof=1)) / freedom
    by_users, by_seeds = apart.var(ddof=1) / users, pooled * (1 / k1 + 1 / k2)
    if by_users + by_seeds == 0:
        return 0.0
    error = by_users + by_seeds
    satterthwaite = error**2 / (by_users**2 / (users - 1) + by_seeds**2 / freedom)
    return float(2 * t.sf(abs(apart.mean()) / error**0.5, satterthwaite))


def paired_p(one: PerUser, other: PerUser) -> float:
    """The two-sided p-value of a paired t-test; 1 where nothing differs, or where there is but one value to go by."""
    if len(one) < 2 or np.array_equal(one, other):
        return 1.0
    return float(ttest_rel(one, other).pvalue)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the chance of any false finding stays below the level."""
    order = np.argsort(p, kind="stable")
    stepped = np.asarray(p)[order] * np.arange(len(p), 0, -1)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(value) for value in corrected]
