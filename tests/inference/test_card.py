"""The model card sets the best baseline beside the model."""

from dataclasses import replace
from pathlib import Path

import numpy as np

import clbr
from clbr import World
from clbr.data.pairs import incidence, sorted_pairs
from clbr.evaluation.baselines import best_baseline, leak_notes
from clbr.evaluation.protocol import BestBaseline
from clbr.inference.artifact import About, open_artifact
from clbr.inference.card import summarize_accuracy


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


def about_with(**measured: object) -> About:
    """A model with 40 % recall on 1,200 users and a baseline with 30 %, or what is given."""
    made = {"version": "1", "model": "crosscbr", "paradigm": "original", "seed": 0, "settings": {}, "data": "shop"}
    sizes = {"fingerprint": "0", "users": 2000, "bundles": 9, "items": 9, "best_epoch": 1}
    test = {"recall@20": 0.4, "ndcg@20": 0.2}
    baseline = BestBaseline(
        name="neighbours", settings={}, metric="recall@20", means={"recall@20": 0.3, "ndcg@20": 0.1}
    )
    segments = {"heavy": {"users": 1000.0}, "light": {"users": 200.0}}
    found = {"test": test, "validation": test, "segments": segments, "baseline": baseline}
    return About.model_validate({**made, **sizes, **found, **measured})


FOUND = "On average over 1,200 users, 40.0 % of a user's held-out bundles are among the first 20."


def test_the_accuracy_is_said_beside_the_best_baseline() -> None:
    good = summarize_accuracy(about_with())
    assert good.verdict == "not below"
    assert good.sentences == [FOUND, "The best simple rule, neighbours, finds 30.0 %."]
    unvalidated = summarize_accuracy(about_with(validation={}))
    assert unvalidated.sentences[1] == "The simple rule, neighbours, finds 30.0 %."  # none was chosen
    better = {"name": "ease", "settings": {}, "metric": "recall@20", "means": {"recall@20": 0.5, "ndcg@20": 0.1}}
    below = summarize_accuracy(about_with(baseline=better))
    assert below.verdict == "below" and below.sentences[-1] == "The model finds fewer than this rule."
    by_ndcg = {"name": "ease", "settings": {}, "metric": "ndcg@20", "means": {"recall@20": 0.3, "ndcg@20": 0.3}}
    below = summarize_accuracy(about_with(baseline=by_ndcg))
    assert below.verdict == "below" and below.sentences[-1] == "By ndcg@20 the model is below this rule."


def test_the_accuracy_says_that_a_leak_makes_figures_meaningless_and_what_is_missing(tiny: World) -> None:
    leaking = replace(tiny.dataset, ui=all_items_of_chosen(tiny))
    notes = leak_notes(leaking)
    assert len(notes) == 1
    baseline = BestBaseline(name="overlap", settings={}, metric="recall@20", means={"recall@20": 0.9}, notes=notes)
    leak = summarize_accuracy(about_with(baseline=baseline))
    assert leak.verdict == "leak" and leak.sentences[0].startswith("These figures say nothing about the model")
    alone = summarize_accuracy(about_with(baseline=None))
    assert alone.verdict == "unknown" and alone.sentences[0] == FOUND and "No simple rule" in alone.sentences[1]
    untested = summarize_accuracy(about_with(test={}, segments={}, baseline=None))
    assert untested.verdict == "unknown" and "no test pairs" in untested.sentences[0]


def all_items_of_chosen(tiny: World) -> np.ndarray:
    """User-item pairs of a shop that records every item of each bundle that is chosen, held out or not."""
    data = tiny.dataset
    chosen = np.concatenate([data.train, data.validation, data.test])
    has = incidence(chosen, len(data.users), len(data.bundles)) @ incidence(data.bi, len(data.bundles), len(data.items))
    return sorted_pairs(np.argwhere(has.toarray() > 0).astype(np.int32))
