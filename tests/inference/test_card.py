"""The model card sets the best baseline beside the model."""

from dataclasses import replace
from pathlib import Path

import numpy as np

import clbr
from clbr import World
from clbr.evaluation.baselines import best_baseline
from clbr.inference.artifact import open_artifact


def test_the_card_sets_the_best_baseline_beside_the_model_and_says_who_is_below(tiny: World, tmp_path: Path) -> None:
    recommender = clbr.fit(tiny.dataset, "popularity", progress=False, metric="ndcg@20")
    best = best_baseline(tiny.dataset, split="test", metric="ndcg@20")
    about = open_artifact(recommender.save(tmp_path / "saved")).about
    assert (about.metric, about.baseline) == ("ndcg@20", best)
    figures = " | ".join(f"{100 * best.means[name]:.2f}" for name in about.test)
    assert f"| baseline, all: {best.label} | 480 | {figures} |" in recommender.card
    assert best.verdict("popularity", about.test) in recommender.card
    assert "popularity is below the best baseline" in recommender.card
    assert "chosen on validation by ndcg@20" in recommender.card


def test_a_model_that_is_the_best_baseline_is_not_called_below_it(tiny: World) -> None:
    best = best_baseline(tiny.dataset, split="test")
    assert best.name == "neighbours"
    card = clbr.fit(tiny.dataset, "neighbours", progress=False, **best.settings).card
    assert "is below" not in card and f"Best baseline: {best.label}; neighbours: recall@20" in card


def test_an_artifact_without_a_baseline_still_opens_and_one_without_test_pairs_has_none(
    tiny: World, tmp_path: Path
) -> None:
    untested = replace(tiny.dataset, test=np.empty((0, 2), np.int32))
    saved = clbr.fit(untested, "popularity", progress=False).save(tmp_path / "saved")
    opened = clbr.load_recommender(saved)
    assert opened.artifact.about.baseline is None and "baseline" not in opened.card
