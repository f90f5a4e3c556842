from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from clbr import EdgeEdits, InputError, World
from clbr.data.pairs import sorted_pairs
from clbr.evaluation.ranking import rank
from clbr.graph.graph import BundleGraph
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.edit_requests import contents_edits, history_edits
from clbr.inference.recommend import of_left
from clbr.inference.whatif import KEPT, ask_bundle, ask_user, audience, edited, factual, idle
from clbr.models.base import Encoder, VectorRecommender
from clbr.models.registry import make_model
from clbr.training.checkpoint import read_model

Make = Callable[[str], Path]
GRAPH_MODELS = ["lightgcn", "rgcn", "bundlenet", "bgcn", "crosscbr"]


@pytest.mark.parametrize("model", GRAPH_MODELS)
def test_the_answer_is_what_the_model_makes_of_the_edited_data(model: str, artifact_of: Make, tiny: World) -> None:
    """The same weights on a graph built anew from edited data give the same scores, all relations edited at once."""
    opened, dataset = open_artifact(artifact_of(model)), tiny.dataset
    edits = EdgeEdits(
        add={"ub": np.array([[3, 149]]), "ui": np.array([[3, 239], [4, 239]]), "bi": np.array([[7, 237]])},
        drop={"ub": dataset.train[:2], "ui": dataset.ui[5:6], "bi": dataset.bi[8:9]},
    )
    after = replace(
        dataset,
        train=edits.apply_to("ub", dataset.train, (600, 150)),
        ui=edits.apply_to("ui", dataset.ui, (600, 240)),
        bi=edits.apply_to("bi", dataset.bi, (150, 240)),
        validation=dataset.validation[:0],
        test=dataset.test[:0],
    )
    run = opened.folder.parent / "run-elsewhere"
    trained = make_model(model, opened.about.settings, dataset)
    assert isinstance(trained, Encoder)
    read_model(run / "best" / "model.safetensors", trained)
    with torch.no_grad():
        expected = VectorRecommender.of(trained.encode(BundleGraph.of(after))).scores(torch.arange(600))
    state = edited(opened, edits)
    users, bundles = (torch.from_numpy(np.unique(side).astype(np.int64)) for side in after.train.T)  # none is a blank
    found = state.users[users] @ state.bundles[bundles].T
    assert torch.allclose(found, expected[users][:, bundles], atol=1e-5)


def test_no_edits_no_difference(artifact: Artifact) -> None:
    answer = ask_user(artifact, 3, EdgeEdits(), 10)
    assert [p.bundle for p in answer.before] == [p.bundle for p in answer.after]
    assert all(
        move.before == move.after and move.score_before == pytest.approx(move.score_after, abs=1e-6)
        for move in answer.moves
    )


def test_moves_tell_where_each_bundle_was_and_is(artifact: Artifact) -> None:
    items = np.setdiff1d(np.arange(240), of_left(artifact.graph.ui.pairs, 3))[:8]
    answer = ask_user(artifact, 3, history_edits(artifact, 3, add_items=tuple(items.tolist())), 10)
    before, after = ([p.bundle for p in places] for places in (answer.before, answer.after))
    assert before != after
    assert {move.bundle for move in answer.moves} == {*before, *after}
    for move in answer.moves:
        assert move.before == (before.index(move.bundle) + 1 if move.bundle in before else None)
        assert move.after == (after.index(move.bundle) + 1 if move.bundle in after else None)
    now = edited(artifact, history_edits(artifact, 3, add_items=tuple(items.tolist())))
    assert answer.moves[0].score_after == pytest.approx(float(now.scores(3)[answer.moves[0].bundle]))


def test_a_bundle_added_to_her_history_leaves_her_list(artifact: Artifact) -> None:
    first = factual(artifact).ranking(3, 1)[0].bundle
    answer = ask_user(artifact, 3, history_edits(artifact, 3, add_bundles=(first,)), 10)
    assert next(move for move in answer.moves if move.bundle == first).after is None


@pytest.mark.parametrize("k", [1, 5, 20])
def test_the_audience_is_whose_list_has_it(artifact: Artifact, k: int) -> None:
    state = factual(artifact)
    lists = rank(VectorRecommender(state.users, state.bundles[:-1]), np.arange(600), k, exclude=artifact.chosen)
    for bundle in (0, 17, 149):
        assert audience(state, bundle, k).tolist() == np.flatnonzero((lists == bundle).any(axis=1)).tolist()


def test_places_that_were_asked_for_are_kept_but_not_without_end(artifact: Artifact) -> None:
    state = edited(artifact, EdgeEdits())
    first = state.places(0)
    assert state.places(0) is first
    for bundle in range(1, KEPT + 1):
        state.places(bundle)
    assert len(state.found_places) == KEPT and 0 not in state.found_places
    assert state.places(0).tolist() == first.tolist()


def test_who_enters_who_leaves_and_from_which_segment(artifact: Artifact) -> None:
    inside = of_left(artifact.graph.bi.pairs, 12)
    outside = np.setdiff1d(np.arange(240), inside)[: len(inside) - 1]
    edits = contents_edits(artifact, 12, drop_items=tuple(inside[1:].tolist()), add_items=tuple(outside.tolist()))
    answer = ask_bundle(artifact, 12, edits, 20)
    before, after = set(answer.before.tolist()), set(answer.after.tolist())
    assert set(answer.entered.tolist()) == after - before
    assert set(answer.left.tolist()) == before - after
    assert before != after
    assert sum(change.before for change in answer.segments.values()) == len(before)
    assert sum(change.after for change in answer.segments.values()) == len(after)
    assert sum(change.users for change in answer.segments.values()) == 600


def test_an_edit_without_effect_is_said_to_be(artifact_of: Make) -> None:
    opened = open_artifact(artifact_of("lightgcn"))
    lacks = int(np.setdiff1d(np.arange(240), of_left(opened.graph.ui.pairs, 3))[0])
    edits = history_edits(opened, 3, add_items=(lacks,))
    assert idle(opened, edits) == ["lightgcn does not look at user-item pairs: editing them is without effect"]
    assert not idle(opened, history_edits(opened, 3, drop_bundles=tuple(of_left(opened.chosen, 3)[:1].tolist())))


@pytest.mark.parametrize("model", ["bprmf", "dam"])
def test_models_without_a_graph_say_why_not(model: str, artifact_of: Make) -> None:
    opened = open_artifact(artifact_of(model))
    with pytest.raises(InputError, match=f"{model} does not look at a graph when it recommends"):
        ask_user(opened, 3, EdgeEdits(add={"ui": sorted_pairs(np.array([[3, 5]]))}))
