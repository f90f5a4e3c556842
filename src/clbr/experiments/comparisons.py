"""Which differences from the base arm are more than chance: user by user, and from ten seeds up across seeds too."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clbr.evaluation.metrics import Headline, PerUser
from clbr.evaluation.significance import holm, paired_p
from clbr.experiments.results import Group, Results, common_seeds

LEVEL = 0.05
SEEDS_TO_TEST = 10
"""Fewer say too little about the spread over seeds."""


@dataclass(frozen=True)
class Comparison:
    """A group beside its base in one metric, over the seeds that both have done."""

    difference: float
    p: float
    """User by user, two-sided, corrected (Holm) over all comparisons of the report."""
    seed_p: float | None
    """Across seeds, corrected likewise; None below ten seeds."""

    @property
    def holds(self) -> bool:
        """Whether the difference is more than chance at the level."""
        return self.p < LEVEL

    @property
    def holds_across_seeds(self) -> bool:
        """Whether the test across seeds says so, too."""
        return self.seed_p is not None and self.seed_p < LEVEL


Comparisons = dict[tuple[int, Headline], Comparison]
"""By the number of the group and the metric."""


def compare(results: Results) -> Comparisons:
    """Every group that has a base with a seed in common, in every metric shown."""
    raw: dict[tuple[int, Headline], tuple[float, float, float | None]] = {}
    for number, group in enumerate(results.groups):
        base = results.base(group)
        if base is None or not (seeds := common_seeds(group, base)):
            continue
        for metric in results.spec.metrics:
            mine, theirs = (results.average(one, metric, seeds) for one in (group, base))
            across = None
            if len(seeds) >= SEEDS_TO_TEST:
                across = paired_p(_means(group, metric, seeds), _means(base, metric, seeds))
            raw[number, metric] = (float(mine.mean() - theirs.mean()), paired_p(mine, theirs), across)
    by_user = holm([p for _, p, _ in raw.values()])
    seeded = {key: across for key, (_, _, across) in raw.items() if across is not None}
    by_seed = dict(zip(seeded, holm(list(seeded.values())), strict=True))
    return {
        key: Comparison(difference, p, by_seed.get(key))
        for (key, (difference, _, _)), p in zip(raw.items(), by_user, strict=True)
    }


def _means(group: Group, metric: str, seeds: Sequence[int]) -> PerUser:
    return np.array([group.records[seed].test[metric] for seed in seeds])
