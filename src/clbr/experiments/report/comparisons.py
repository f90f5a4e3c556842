"""Significance of differences from the reference variant, and between every two rows; over users and over seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from clbr.evaluation.metrics import Headline
from clbr.evaluation.significance import difference_p, holm, paired_p
from clbr.experiments.report.results import Group, Results, common_seeds

LEVEL = 0.05
SEEDS_TO_TEST = 10
"""With fewer seeds there is no test across seeds: their spread is not known well enough."""


class PValues(NamedTuple):
    """Two-sided p-values of a difference, one for each kind of test."""

    both: float | None
    """Over users and seeds; None with one seed."""
    users: float | None
    """Over users: valid for these trained models only."""
    seeds: float | None
    """Over seeds; None with fewer than ten seeds."""


@dataclass(frozen=True)
class Comparison:
    """Two groups compared in one metric, over the seeds that are done in both."""

    difference: float
    p: PValues
    """Each corrected (Holm) for all tests of its kind in the report."""
    tested: int
    """Number of tests over users and seeds in the report."""

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant over users and seeds."""
        return self.p.both is not None and self.p.both < LEVEL

    @property
    def is_significant_across_seeds(self) -> bool:
        """Whether the difference is significant over seeds."""
        return self.p.seeds is not None and self.p.seeds < LEVEL


Comparisons = dict[tuple[int, Headline], Comparison]
"""By the index of the group and the metric."""
Pairwise = dict[tuple[int, int, Headline], Comparison]
"""By the indices of two groups and the metric: the first group minus the second."""
Key = TypeVar("Key", bound=tuple[Any, ...])


def compare(results: Results) -> Comparisons:
    """Compare every group with its reference, in every metric of the specification.

    Groups with the same cells, as at a default value of a varied setting, are tested once and corrected for once.
    """
    groups, metrics = list(enumerate(results.groups)), results.spec.metrics
    references = {number: reference for number, group in groups if (reference := results.reference(group))}
    pairs = {
        (number, metric): (results.groups[number], references[number]) for number in references for metric in metrics
    }
    return _compare(results, pairs)


def compare_pairs(results: Results) -> Pairwise:
    """Compare every two groups, in every metric of the specification. Holm's correction is for all of these tests."""
    every = list(combinations(enumerate(results.groups), 2))
    metrics = results.spec.metrics
    return _compare(
        results,
        {(first, second, metric): (one, other) for (first, one), (second, other) in every for metric in metrics},
    )


def _compare(results: Results, pairs: Mapping[Key, tuple[Group, Group]]) -> dict[Key, Comparison]:
    """Compare pairs of groups that have seeds in common; the metric is the last part of a key."""
    cells_of: dict[Key, tuple[str, ...]] = {}
    raw: dict[tuple[str, ...], tuple[float, PValues]] = {}
    for key, (one, other) in pairs.items():
        if seeds := common_seeds(one, other):
            metric = key[-1]
            cells = (metric, *(group.records[seed].key for group in (one, other) for seed in seeds))
            cells_of[key] = cells
            if cells not in raw:
                raw[cells] = _test(results, one, other, metric, seeds)
    comparisons = _correct(raw)
    return {key: comparisons[cells] for key, cells in cells_of.items()}


def _test(results: Results, one: Group, other: Group, metric: Headline, seeds: Sequence[int]) -> tuple[float, PValues]:
    """Return the mean difference of two groups, and the p-values without correction."""
    mine, theirs = (_values(results, group, metric, seeds) for group in (one, other))
    across = paired_p(mine.mean(axis=1), theirs.mean(axis=1)) if len(seeds) >= SEEDS_TO_TEST else None
    by_user = paired_p(mine.mean(axis=0), theirs.mean(axis=0))
    return float(mine.mean() - theirs.mean()), PValues(difference_p(mine, theirs), by_user, across)


def _correct(raw: Mapping[tuple[str, ...], tuple[float, PValues]]) -> dict[tuple[str, ...], Comparison]:
    """Return the comparisons with p-values that are corrected for each other."""
    kinds = [_corrected([getattr(p, kind) for _, p in raw.values()]) for kind in PValues._fields]
    corrected = dict(zip(raw, map(PValues, *kinds), strict=True))
    tested = sum(p.both is not None for p in corrected.values())
    return {key: Comparison(raw[key][0], corrected[key], tested) for key in raw}


def _corrected(p_values: Sequence[float | None]) -> list[float | None]:
    corrected = iter(holm([p for p in p_values if p is not None]))
    return [None if p is None else next(corrected) for p in p_values]


def _values(results: Results, group: Group, metric: Headline, seeds: Sequence[int]) -> NDArray[np.float64]:
    return np.stack([results.per_user(group, seed).metrics[metric] for seed in seeds])  # (seeds, users)


def explain_marks(comparisons: Comparisons, reference: str, mark: str) -> str:
    """Return the part of a caption that says what a mark ("Bold") means, and what is not tested with one seed."""
    parts, tested = [], max((one.tested for one in comparisons.values()), default=0)
    if tested:
        parts.append(
            f"{mark}: significantly different from {reference}, higher or lower, at the level {LEVEL} (two-sided t-test"
            f" over users, paired, and seeds; Holm's correction for {tested} comparisons)."
        )
    if any(one.p.both is None for one in comparisons.values()):
        parts.append(f"{mark} is not used with one seed: such a test is valid for these trained models only.")
    return " ".join(parts)
