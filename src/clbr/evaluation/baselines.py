"""Baselines: the simple recommenders that any model has to beat, with settings chosen on validation.

Nothing is chosen on test. Results are kept in this process by the checksum of the data set.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from clbr.data.checks import FIRST, measure_held_out
from clbr.data.dataset import BundleDataset, Nodes
from clbr.data.pairs import Pairs
from clbr.errors import InputError
from clbr.evaluation.protocol import BestBaseline, Evaluation, evaluate
from clbr.models.base import ClosedForm, SearchSpace
from clbr.models.registry import BASELINES, baseline_scorer, find_model, make_model
from clbr.rng import generator

EASE_BUNDLES = 6_000
"""EASE inverts a (bundles, bundles) matrix: with more bundles it is left out."""
NEIGHBOUR_PAIRS = 100_000_000
"""Neighbours counts pairs of what a user has and what the user chose: with more of them it is left out."""
TUNE_USERS = 4_096
"""Users on whom settings are compared: the same sample that a training ranks after an epoch."""
EASE_SEARCH_BUNDLES = 2_500
"""The settings of EASE are searched on at most so many bundles, drawn at random."""
SAMPLED_USERS = 3_000
"""Choices are made on the pairs of at most so many users, drawn at random."""
METRIC = "recall@20"
LEAK = "Held-out pairs can be read off user_item"
"""How the note about a leak begins."""
Split = Literal["validation", "test"]


@dataclass(frozen=True)
class Tuned:
    """The baselines of a data set."""

    settings: dict[str, dict[str, Any]]
    """The chosen settings, by baseline."""
    values: dict[str, float]
    """The metric on validation at these settings; empty without validation pairs."""
    left_out: dict[str, str]
    """Why a baseline was not computed."""

    @property
    def best(self) -> str:
        """The best baseline on validation; without validation pairs the last one, as a rule the strongest."""
        return max(self.values, key=lambda name: self.values[name]) if self.values else list(self.settings)[-1]

    def notes(self, dataset: BundleDataset, metric: str) -> list[str]:
        """How the baselines were chosen, and which ones are missing."""
        found = [f"The baseline and its settings were chosen on validation by {metric}."]
        if not self.values:
            found = [f"{dataset.name} has no validation pairs: baselines have fixed settings, and none was chosen."]
        reasons: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            reasons.setdefault(reason, []).append(name)
        return found + [f"Left out: {', '.join(names)} ({reason})." for reason, names in reasons.items()]


_tuned: dict[tuple[str, str], Tuned] = {}
_best: dict[tuple[object, ...], BestBaseline] = {}


def tune_baselines(
    dataset: BundleDataset, metric: str = METRIC, on_progress: Callable[[int], None] = lambda done: None
) -> Tuned:
    """Choose the settings of every baseline by a metric on validation; without validation pairs they are fixed."""
    key = (dataset.fingerprint, metric)
    if key not in _tuned:
        found, some = Tuned({}, {}, {}), _some_users(dataset, "validation")
        for done, name in enumerate(BASELINES, start=1):
            if reason := _left_out(name, dataset):
                found.left_out[name] = reason
            elif len(some.validation):
                found.settings[name], found.values[name] = _tune(name, some, metric)
            else:
                found.settings[name] = BASELINES[name].settings
            on_progress(done)
        _tuned[key] = found
    return _tuned[key]


def _some_users(dataset: BundleDataset, split: Split) -> BundleDataset:
    """The data set with the pairs of at most SAMPLED_USERS users in a split."""
    pairs = dataset.pairs(split)
    users = np.unique(pairs[:, 0])
    if len(users) <= SAMPLED_USERS:
        return dataset
    pairs = pairs[np.isin(pairs[:, 0], generator(0, "users of baselines").permutation(users)[:SAMPLED_USERS])]
    return replace(dataset, validation=pairs) if split == "validation" else replace(dataset, test=pairs)


def _some_bundles(dataset: BundleDataset) -> BundleDataset:
    """The data set with at most EASE_SEARCH_BUNDLES bundles; all, if no training or validation pair would be left."""
    count = len(dataset.bundles)
    if count <= EASE_SEARCH_BUNDLES:
        return dataset
    some = np.sort(generator(0, "bundles of baselines").permutation(count)[:EASE_SEARCH_BUNDLES])
    new = np.full(count, -1, np.int32)
    new[some] = np.arange(len(some))

    def kept(pairs: Pairs, side: int) -> Pairs:
        numbered = pairs.copy()
        numbered[:, side] = new[pairs[:, side]]
        return numbered[numbered[:, side] >= 0]

    train, validation, test = (kept(pairs, 1) for pairs in (dataset.train, dataset.validation, dataset.test))
    if not (len(train) and len(validation)):
        return dataset
    bundles = Nodes("bundle", len(some))
    return replace(dataset, bundles=bundles, train=train, validation=validation, test=test, bi=kept(dataset.bi, 0))


def _left_out(name: str, dataset: BundleDataset) -> str:
    """Why a baseline is not computed for this data set; empty if it is."""
    model, settings, _ = BASELINES[name]
    if model == "ease" and len(dataset.bundles) > EASE_BUNDLES:
        return (
            f"more than {EASE_BUNDLES:,} bundles, and it inverts a matrix of bundles x bundles; "
            "train the model ease to compare with it"
        )
    if model == "neighbours" and _common_pairs(dataset) > NEIGHBOUR_PAIRS:
        return f"more than {NEIGHBOUR_PAIRS:,} pairs of what a user has and a bundle that the user chose"
    try:
        make_model(model, settings, dataset)
    except InputError as error:
        return str(error).removesuffix("; choose another model")
    return ""


def _common_pairs(dataset: BundleDataset) -> int:
    """Over all users, what a user has (bundles and items) times the user's bundles."""
    bundles, items = (np.bincount(pairs[:, 0], minlength=len(dataset.users)) for pairs in (dataset.train, dataset.ui))
    return int(((bundles + items) * bundles).sum())


def _tune(name: str, dataset: BundleDataset, metric: str) -> tuple[dict[str, Any], float]:
    """The best settings of a baseline that a walk over its grid finds, and the metric at them."""
    _, settings, grid = BASELINES[name]
    fewer = _some_bundles(dataset) if BASELINES[name].model == "ease" else dataset
    settings, value = walk(settings, grid, _values(name, fewer, metric))
    return settings, value if fewer is dataset else _values(name, dataset, metric)(settings)


def _values(name: str, dataset: BundleDataset, metric: str) -> Callable[[dict[str, Any]], float]:
    """A function from the settings of a baseline to its metric on validation."""
    kind = find_model(BASELINES[name].model)
    assert issubclass(kind, ClosedForm)
    solved, k = kind.trials(dataset), int(metric.partition("@")[2])

    def value(settings: dict[str, Any]) -> float:
        try:
            scorer = solved(kind.config_class.make(settings))
        except InputError:  # these settings have no solution
            return -1.0
        return evaluate(scorer, dataset, split="validation", ks=[k], max_users=TUNE_USERS)[metric]

    return value


def walk(
    settings: dict[str, Any], grid: SearchSpace, value: Callable[[dict[str, Any]], float]
) -> tuple[dict[str, Any], float]:
    """Move one setting after the other along its values, up or else down, as long as the value grows."""
    best, highest = settings, value(settings)
    for setting, values in grid.items():
        start = values.index(best[setting])
        for path in (values[start + 1 :], values[:start][::-1]):
            for step in path:
                found = value(best | {setting: step})
                if found <= highest:
                    break
                best, highest = best | {setting: step}, found
            if best[setting] != values[start]:
                break
    return best, highest


def evaluate_baselines(
    dataset: BundleDataset,
    *,
    split: Split,
    ks: Iterable[int] = (20, 40),
    mask_validation: bool = False,
    metric: str = METRIC,
    on_progress: Callable[[int], None] = lambda done: None,
) -> tuple[dict[str, Evaluation], Tuned]:
    """Every baseline by name, evaluated on a split by full ranking, and how their settings were chosen."""
    ks = sorted(ks)
    tuned = tune_baselines(dataset, metric, on_progress)
    found = {}
    for name, settings in tuned.settings.items():
        scorer = baseline_scorer(name, dataset, settings)
        found[name] = evaluate(scorer, dataset, split=split, ks=ks, mask_validation=mask_validation)
    return found, tuned


def best_baseline(
    dataset: BundleDataset,
    *,
    split: Split,
    ks: Iterable[int] = (20, 40),
    mask_validation: bool = False,
    metric: str = METRIC,
    max_users: int | None = None,
) -> BestBaseline:
    """The baseline that is best on validation by a metric, with its metrics on a split (of at most `max_users`)."""
    ks = sorted(ks)
    key = (dataset.fingerprint, split, tuple(ks), mask_validation, metric, max_users)
    if key not in _best:
        tuned = tune_baselines(dataset, metric)
        name = tuned.best
        settings = tuned.settings[name]
        scorer = baseline_scorer(name, dataset, settings)
        means = evaluate(
            scorer, dataset, split=split, ks=ks, mask_validation=mask_validation, max_users=max_users
        ).means
        notes = [*leak_notes(dataset), *tuned.notes(dataset, metric)]
        _best[key] = BestBaseline(name=name, settings=settings, metric=metric, means=means, notes=notes)
    return _best[key]


def leak_notes(dataset: BundleDataset) -> list[str]:
    """A warning if the held-out pairs can be read off the user-item table."""
    held_out = measure_held_out(dataset)
    if not held_out.leaks:
        return []
    return [
        f"{LEAK}: {held_out.covered_share:.0%} are bundles of which the user has every item, and shared items alone "
        f"find {held_out.first_share:.0%} among {FIRST} bundles. These figures say nothing about a model; "
        "clbr data describe says what to do."
    ]
