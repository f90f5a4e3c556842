"""Is a difference more than chance? Compared user by user, both ways, corrected for the number of comparisons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_rel

from clbr.errors import InputError
from clbr.evaluation.metrics import PerUser
from clbr.evaluation.protocol import Evaluation


@dataclass(frozen=True)
class Comparison:
    """A contender beside the baseline in one metric."""

    contender: str
    metric: str
    baseline_mean: float
    mean: float
    p: float
    """Two-sided, corrected (Holm) over all comparisons made together."""

    @property
    def difference(self) -> float:
        """By how much the contender's mean is higher."""
        return self.mean - self.baseline_mean


def compare(groups: Mapping[str, Sequence[Evaluation]], metrics: Sequence[str]) -> list[Comparison]:
    """Every group but the first against the first, in each metric.

    A group is one contender's evaluations, a seed each; per-user values are averaged over seeds and then compared
    user by user with a paired t-test. All must have been evaluated on the same users.
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
            mine, theirs = average(group, metric), average(first, metric)
            raw.append((name, metric, float(theirs.mean()), float(mine.mean()), paired_p(mine, theirs)))
    corrected = holm([row[-1] for row in raw])
    return [Comparison(*row[:-1], p=p) for row, p in zip(raw, corrected, strict=True)]


def average(group: Sequence[Evaluation], metric: str) -> PerUser:
    """Each user's value, averaged over seeds."""
    return np.asarray(np.mean([result.per_user[metric] for result in group], axis=0))


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
