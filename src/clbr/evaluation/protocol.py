"""The protocol: full ranking over all bundles, training pairs left out, users without a test pair left out."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs, contains, decode, distinct, encode
from clbr.errors import InputError
from clbr.evaluation.metrics import METRICS, PerUser, average_popularity, coverage
from clbr.evaluation.ranking import rank
from clbr.models.base import Recommender


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What a recommender achieved on a split: per-user values (for significance tests) and their means."""

    split: str
    users: NDArray[np.int64]
    per_user: dict[str, PerUser]
    means: dict[str, float]
    ranking: NDArray[np.int64]
    """Each user's best bundles, as many as the largest K, best first; -1 where there are no more."""

    def found(self, pairs: Pairs, k: int) -> NDArray[np.bool_]:
        """For each pair of an evaluated user whether the bundle is among her first k."""
        shown = self.ranking[np.searchsorted(self.users, pairs[:, 0]), :k]
        return np.asarray((shown == pairs[:, 1:2]).any(axis=1))

    def __getitem__(self, metric: str) -> float:
        return self.means[metric]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {value:.4f}" for name, value in self.means.items())
        return f"Evaluation({self.split}, {len(self.users):,} users: {shown})"


def evaluate(
    recommender: Recommender,
    dataset: BundleDataset,
    *,
    split: Literal["validation", "test"],
    ks: Iterable[int] = (20, 40),
    mask_validation: bool = False,
    masked: Pairs | None = None,
    block: int | None = None,
    progress: Callable[[int], None] = lambda users: None,
) -> Evaluation:
    """Rank all bundles for every user with a pair in `split` and score the top of the ranking.

    Metrics are named "recall@20" and so on. Training pairs are never recommended, nor are those that are `masked`
    besides; with `mask_validation` validation pairs are not either when testing (published figures leave them in).
    """
    ks = sorted(set(ks))
    if split not in ("validation", "test"):
        raise InputError(f"cannot evaluate on '{split}': validation or test")
    if not ks or ks[0] < 1:
        raise InputError("expected at least one K, each 1 or more")
    wanted = dataset.pairs(split)
    if not len(wanted):
        raise InputError(f"{dataset.name}: no {split} pairs to evaluate on")
    bundles = len(dataset.bundles)
    exclude, more = dataset.train, [masked] if masked is not None else []
    if mask_validation and split == "test":
        more.append(dataset.validation)
    if more:
        exclude = decode(distinct(encode(np.concatenate([exclude, *more]), bundles)), bundles)
    users, relevant = np.unique(wanted[:, 0].astype(np.int64), return_counts=True)
    ranking = rank(recommender, users, ks[-1], exclude=exclude, block=block, progress=progress)

    codes = np.where(ranking >= 0, users[:, None] * bundles + ranking, -1)
    hits = contains(encode(wanted, bundles), codes.ravel()).reshape(ranking.shape)
    per_user = {f"{name}@{k}": metric(hits, relevant, k) for k in ks for name, metric in METRICS.items()}
    per_user |= {f"popularity@{k}": average_popularity(ranking, dataset.popularity, k) for k in ks}
    means = {name: float(values.mean()) for name, values in per_user.items()}
    means |= {f"coverage@{k}": coverage(ranking, bundles, k) for k in ks}
    return Evaluation(split, users, per_user, means, ranking)
