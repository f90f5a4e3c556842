"""Which differences from the base arm are more than chance: over users and seeds, from ten up over seeds alone, too."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clbr.evaluation.metrics import Headline
from clbr.evaluation.significance import ONE_SEED, difference_p, holm, paired_p
from clbr.experiments.report.results import Group, Results, common_seeds

LEVEL = 0.05
SEEDS_TO_TEST = 10
"""Fewer say too little about the spread over seeds."""


class Ps(NamedTuple):
    """Two-sided p-values of a difference, one for each kind of test that could be made."""

    both: float | None
    """Over users and seeds; None with one seed."""
    users: float | None
    """User by user: of these trained models alone."""
    seeds: float | None
    """Across seeds; None below ten seeds."""


@dataclass(frozen=True)
class Comparison:
    """A group beside its base in one metric, over the seeds that both have done."""

    difference: float
    p: Ps
    """Each corrected (Holm) over all tests of its kind in the report."""
    tested: int
    """How many comparisons over users and seeds there are in the report."""

    @property
    def holds(self) -> bool:
        """Whether the difference is more than chance at the level."""
        return self.p.both is not None and self.p.both < LEVEL

    @property
    def holds_across_seeds(self) -> bool:
        """Whether the test across seeds says so, too."""
        return self.p.seeds is not None and self.p.seeds < LEVEL


Comparisons = dict[tuple[int, Headline], Comparison]
"""By the number of the group and the metric."""


def compare(results: Results) -> Comparisons:
    """Every group that has a base with a seed in common, in every metric shown.

    Where points coincide, as at a default, the same cells are held against each other once and corrected for once.
    """
    places: dict[tuple[int, Headline], tuple[str, ...]] = {}
    raw: dict[tuple[str, ...], tuple[float, Ps]] = {}
    for number, group in enumerate(results.groups):
        base = results.base(group)
        if base is None or not (seeds := common_seeds(group, base)):
            continue
        for metric in results.spec.metrics:
            pair = (metric, *(one.records[seed].key for one in (group, base) for seed in seeds))
            places[number, metric] = pair
            if pair not in raw:
                mine, theirs = (_values(results, one, metric, seeds) for one in (group, base))
                across = paired_p(mine.mean(axis=1), theirs.mean(axis=1)) if len(seeds) >= SEEDS_TO_TEST else None
                by_user = paired_p(mine.mean(axis=0), theirs.mean(axis=0))
                raw[pair] = float(mine.mean() - theirs.mean()), Ps(difference_p(mine, theirs), by_user, across)
    kinds = [_corrected([getattr(ps, kind) for _, ps in raw.values()]) for kind in Ps._fields]
    corrected = dict(zip(raw, map(Ps, *kinds), strict=True))
    tested = sum(ps.both is not None for ps in corrected.values())
    return {key: Comparison(raw[pair][0], corrected[pair], tested) for key, pair in places.items()}


def _corrected(ps: Sequence[float | None]) -> list[float | None]:
    there = iter(holm([p for p in ps if p is not None]))
    return [None if p is None else next(there) for p in ps]


def _values(results: Results, group: Group, metric: Headline, seeds: Sequence[int]) -> NDArray[np.float64]:
    return np.stack([results.per_user(group, seed).metrics[metric] for seed in seeds])  # (seeds, users)


def explain_marks(comparisons: Comparisons, base: str, mark: str) -> str:
    """For captions: what it says of a difference that it stands out, and what one seed can say."""
    told, tested = [], max((one.tested for one in comparisons.values()), default=0)
    if tested:
        told.append(
            f"What stands {mark} differs from {base}, up or down, at the level {LEVEL}: two-sided t-test, chance among"
            f" users (paired) and among seeds, Holm's correction over {tested} comparisons."
        )
    if any(one.p.both is None for one in comparisons.values()):
        told.append(f"Nothing stands {mark} that rests on {ONE_SEED}.")
    return " ".join(told)
