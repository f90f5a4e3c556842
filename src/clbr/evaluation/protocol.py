"""Evaluation protocol: rank all bundles, exclude training pairs, average over the users with pairs in the split."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clbr.config import Config, whole_number
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs, contains, decode, distinct, encode
from clbr.errors import InputError
from clbr.evaluation.metrics import METRICS, PerUser, average_popularity, coverage
from clbr.evaluation.ranking import rank
from clbr.models.base import Scorer
from clbr.rng import generator


class BestBaseline(Config):
    """The baseline that is best on validation, with its metrics on a split."""

    name: str
    settings: dict[str, Any] = Field(description="its settings, chosen on validation")
    metric: str = Field(description="the metric on validation that chose it")
    means: dict[str, float] = Field(description="its metrics on the split")
    notes: list[str] = Field(default_factory=list, description="sentences that belong to the figures")

    @property
    def label(self) -> str:
        """Its name with its settings."""
        return labelled(self.name, self.settings)

    def shared_metric(self, means: Mapping[str, float]) -> str:
        """The metric that chose it, if a model's metrics have it; else the first that both have."""
        return next(name for name in (self.metric, *self.means) if name in means and name in self.means)

    def is_above(self, means: Mapping[str, float]) -> bool:
        """Whether a model with these metrics on the same split is below it."""
        metric = self.shared_metric(means)
        return means[metric] < self.means[metric]

    def verdict(self, model: str, means: Mapping[str, float]) -> str:
        """A sentence that compares a model's metrics on the same split with it."""
        metric = self.shared_metric(means)
        beside = f"{metric} {100 * means[metric]:.2f} against {100 * self.means[metric]:.2f} percent"
        if self.is_above(means):
            return f"{model} is below the best baseline, {self.label}: {beside}."
        return f"Best baseline: {self.label}; {model}: {beside}."


def labelled(name: str, settings: Mapping[str, Any]) -> str:
    """The name of a baseline with its settings: EASE (l2 200)."""
    stated = ", ".join(f"{setting} {value:g}" for setting, value in settings.items())
    return f"{name} ({stated})" if stated else name


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
    baseline: BestBaseline | None = None
    """The best baseline on the same split, if it was evaluated."""
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

        If `baseline` is set, the columns baseline (name and settings) and baseline_value follow; a metric that the
        baseline has no value for gets None.
        """
        from clbr.data.frames import make_frame

        columns: dict[str, list[Any]] = {"metric": list(self.means), "value": list(self.means.values())}
        if self.baseline is not None:
            columns["baseline"] = [self.baseline.label] * len(self.means)
            columns["baseline_value"] = [self.baseline.means.get(metric) for metric in self.means]
        return make_frame(columns, self.backend)

    def __getitem__(self, metric: str) -> float:
        return self.means[metric]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {value:.4f}" for name, value in self.means.items())
        sentences = [self.baseline.verdict("this model", self.means), *self.baseline.notes] if self.baseline else []
        return " ".join([f"Evaluation({self.split}, {len(self.users):,} users: {shown})", *sentences])


def evaluate(
    scorer: Scorer,
    dataset: BundleDataset,
    *,
    split: Literal["validation", "test"],
    ks: Iterable[int] = (20, 40),
    mask_validation: bool = False,
    masked: Pairs | None = None,
    max_users: int | None = None,
    block: int | None = None,
    on_progress: Callable[[int], None] = lambda users: None,
) -> Evaluation:
    """Rank all bundles for every user with a pair in `split` and compute metrics of the top of the ranking.

    Metrics are named "recall@20" and so on, for each K in `ks`. Training pairs and pairs in `masked` are never
    recommended. With `mask_validation`, validation pairs are not recommended on test either (published figures do not
    mask them). If there are more than `max_users` users, a random sample of them is ranked, always the same one.
    `block` is the number of users ranked at once; `on_progress(done)` is called after each block.
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
    if max_users is not None and len(users) > max_users:
        some = np.sort(generator(0, "evaluated users").choice(len(users), max_users, replace=False))
        users, relevant = users[some], relevant[some]
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
