"""Evaluation protocol: rank all bundles, exclude training pairs, average over the users with pairs in the split."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clbr.config import whole_number
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs, contains, decode, distinct, encode
from clbr.errors import InputError
from clbr.evaluation.metrics import METRICS, PerUser, average_popularity, coverage
from clbr.evaluation.ranking import rank
from clbr.models.base import Scorer


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Metrics of a scorer on a split: one value per user (for significance tests) and their means."""

    split: str
    users: NDArray[np.int64]
    """Indices of the evaluated users, sorted."""
    per_user: dict[str, PerUser]
    means: dict[str, float]
    ranking: NDArray[np.int64]
    """The top bundles of each user, as many as the largest K, best first; -1 where there are no more."""
    baseline: tuple[str, dict[str, float]] | None = None
    """Name and means of the best baseline on the same split, if it was evaluated."""
    backend: str = "polars"
    """The kind of frame that `to_frame` gives: polars or pandas."""

    @property
    def ks(self) -> list[int]:
        """The cut-offs, sorted."""
        return sorted({int(name.partition("@")[2]) for name in self.means})

    def found(self, pairs: Pairs, k: int) -> NDArray[np.bool_]:
        """Return for each pair of an evaluated user whether the bundle is in the user's top k."""
        shown = self.ranking[np.searchsorted(self.users, pairs[:, 0]), :k]
        return np.asarray((shown == pairs[:, 1:2]).any(axis=1))

    def to_frame(self) -> Any:
        """Return a frame of the kind `backend` with a row per metric: metric, value.

        If `baseline` is set, the columns baseline (its name) and baseline_value follow; a metric that the baseline has
        no value for gets None.
        """
        from clbr.data.frames import make_frame

        columns: dict[str, list[Any]] = {"metric": list(self.means), "value": list(self.means.values())}
        if self.baseline is not None:
            name, means = self.baseline
            columns["baseline"] = [name] * len(self.means)
            columns["baseline_value"] = [means.get(metric) for metric in self.means]
        return make_frame(columns, self.backend)

    def __getitem__(self, metric: str) -> float:
        return self.means[metric]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {value:.4f}" for name, value in self.means.items())
        return f"Evaluation({self.split}, {len(self.users):,} users: {shown})"


def evaluate(
    scorer: Scorer,
    dataset: BundleDataset,
    *,
    split: Literal["validation", "test"],
    ks: Iterable[int] = (20, 40),
    mask_validation: bool = False,
    masked: Pairs | None = None,
    block: int | None = None,
    on_progress: Callable[[int], None] = lambda users: None,
) -> Evaluation:
    """Rank all bundles for every user with a pair in `split` and compute metrics of the top of the ranking.

    Metrics are named "recall@20" and so on, for each K in `ks`. Training pairs and pairs in `masked` are never
    recommended. With `mask_validation`, validation pairs are not recommended on test either (published figures do not
    mask them). `block` is the number of users ranked at once; `on_progress(done)` is called after each block.
    """
    ks = sorted({whole_number(k, "ks") for k in ([ks] if isinstance(ks, int) else ks)})
    if split not in ("validation", "test"):
        raise InputError(f"cannot evaluate on '{split}': expected validation or test", "split")
    if not ks:
        raise InputError("ks is empty: expected at least one K", "ks")
    wanted = dataset.pairs(split)
    if not len(wanted):
        raise InputError(f"{dataset.name}: no {split} pairs to evaluate on")
    bundles = len(dataset.bundles)
    users, relevant = np.unique(wanted[:, 0].astype(np.int64), return_counts=True)
    exclude = _excluded(dataset, dataset.validation if mask_validation and split == "test" else None, masked)
    ranking = rank(scorer, users, ks[-1], exclude=exclude, block=block, on_progress=on_progress)

    codes = np.where(ranking >= 0, users[:, None] * bundles + ranking, -1)
    hits = contains(encode(wanted, bundles), codes.ravel()).reshape(ranking.shape)
    per_user = {f"{name}@{k}": metric(hits, relevant, k) for k in ks for name, metric in METRICS.items()}
    per_user |= {f"popularity@{k}": average_popularity(ranking, dataset.popularity, k) for k in ks}
    means = {name: float(values.mean()) for name, values in per_user.items()}
    means |= {f"coverage@{k}": coverage(ranking, bundles, k) for k in ks}
    return Evaluation(split, users, per_user, means, ranking)


def _excluded(dataset: BundleDataset, *more: Pairs | None) -> Pairs:
    """Return the training pairs and further pairs, sorted and each once."""
    further = [pairs for pairs in more if pairs is not None]
    if not further:
        return dataset.train
    bundles = len(dataset.bundles)
    return decode(distinct(encode(np.concatenate([dataset.train, *further]), bundles)), bundles)
