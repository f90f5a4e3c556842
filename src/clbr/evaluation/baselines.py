"""Baselines: evaluate the simple recommenders that any model has to beat, and choose the best on validation."""

from collections.abc import Callable, Iterable
from typing import Literal

from clbr.data.dataset import BundleDataset
from clbr.evaluation.protocol import Evaluation, evaluate
from clbr.models.registry import BASELINES, baseline_scorer

EASE_BUNDLES = 10_000
"""EASE inverts a (bundles, bundles) matrix: with more bundles it is left out where nobody asked for it."""


def evaluate_baselines(
    dataset: BundleDataset,
    *,
    split: Literal["validation", "test"],
    ks: Iterable[int] = (20, 40),
    mask_validation: bool = False,
    on_progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Evaluation]:
    """Every baseline by name, evaluated on a split by full ranking."""
    found, ks = {}, list(ks)
    for done, name in enumerate(BASELINES, start=1):
        scorer = baseline_scorer(name, dataset)
        found[name] = evaluate(scorer, dataset, split=split, ks=ks, mask_validation=mask_validation)
        on_progress(done)
    return found


def best_baseline(
    dataset: BundleDataset, *, split: Literal["validation", "test"], ks: Iterable[int] = (20, 40)
) -> tuple[str, dict[str, float]]:
    """Name and metrics on a split of the baseline with the best recall on validation. Test decides nothing."""
    ks = sorted(ks)
    small = len(dataset.bundles) <= EASE_BUNDLES
    scorers = {name: baseline_scorer(name, dataset) for name in BASELINES if small or name == "popularity"}
    name = next(iter(scorers))
    if len(dataset.validation):
        recalls = {
            one: evaluate(scorer, dataset, split="validation", ks=ks)[f"recall@{ks[0]}"]
            for one, scorer in scorers.items()
        }
        name = max(recalls, key=lambda one: recalls[one])
    return name, evaluate(scorers[name], dataset, split=split, ks=ks).means
