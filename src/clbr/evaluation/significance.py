"""Significance tests of differences between models, over users and seeds, two-sided, with Holm's correction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t, ttest_rel

from clbr.errors import InputError
from clbr.evaluation.metrics import PerUser
from clbr.evaluation.protocol import Evaluation

ONE_SEED = "one seed: these trained models, nothing about others"
"""What a paired test over users can say when one model has a single seed: its spread over seeds is unknown."""
Values = NDArray[np.float64]
"""(seeds, users): the values of one metric of one model."""


@dataclass(frozen=True)
class Comparison:
    """The difference between a model (the contender) and the first model (the baseline) in one metric."""

    contender: str
    metric: str
    reference_mean: float
    mean: float
    p: float
    """Two-sided p-value, corrected (Holm) over all comparisons made together."""
    one_seed: bool
    """Either has a single seed: p is from a paired test over users and holds for these trained models only."""

    @property
    def difference(self) -> float:
        """The contender's mean minus the baseline's mean."""
        return self.mean - self.reference_mean


def compare(groups: Mapping[str, Sequence[Evaluation]], metrics: Sequence[str]) -> list[Comparison]:
    """Compare every group with the first one, in each metric.

    A group is the evaluations of one model, one per seed. Raises an `InputError` if they are not on the same users and
    split.
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
    """Return the two-sided p-value of the difference of two means over users and seeds; None if either has one seed.

    There are two sources of variance: users (paired differences of each user's mean over seeds), and seeds, which shift
    all users together (standard deviation s, pooled over both models). SE^2 = SE^2 over users + s^2 (1/k1 + 1/k2), and
    t has the degrees of freedom of Welch and Satterthwaite.
    """
    (k1, users), k2 = one.shape, len(other)
    if min(k1, k2) < 2:
        return None
    differences = one.mean(axis=0) - other.mean(axis=0)
    if users < 2 or not differences.any():
        return 1.0
    freedom = k1 + k2 - 2
    pooled = ((k1 - 1) * one.mean(axis=1).var(ddof=1) + (k2 - 1) * other.mean(axis=1).var(ddof=1)) / freedom
    from_users, from_seeds = differences.var(ddof=1) / users, pooled * (1 / k1 + 1 / k2)
    if from_users + from_seeds == 0:
        return 0.0
    error = from_users + from_seeds
    satterthwaite = error**2 / (from_users**2 / (users - 1) + from_seeds**2 / freedom)
    return float(2 * t.sf(abs(differences.mean()) / error**0.5, satterthwaite))


def paired_p(one: PerUser, other: PerUser) -> float:
    """Return the two-sided p-value of a paired t-test; 1 if the values are equal or there is only one."""
    if len(one) < 2 or np.array_equal(one, other):
        return 1.0
    return float(ttest_rel(one, other).pvalue)


def holm(p: Sequence[float]) -> list[float]:
    """Apply Holm's step-down correction, which bounds the probability of any false finding by the level."""
    order = np.argsort(p, kind="stable")
    stepped = np.asarray(p)[order] * np.arange(len(p), 0, -1)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(value) for value in corrected]
