from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from clbr import EdgeEdits, InputError, Recommender, World, load_recommender
from clbr.data.pairs import neighbours
from clbr.evaluation.agreement import Agreement
from clbr.graph.graph import BundleGraph
from clbr.inference.artifact import open_artifact
from clbr.inference.cold_start import encode_filled
from clbr.inference.edits_by_id import edit_history
from clbr.inference.whatif import CACHED_BUNDLES, edited_state, factual_state
from clbr.models.base import Encoder, VectorScorer
from clbr.models.registry import make_model
from clbr.training.run_folder import read_model

Make = Callable[[str], Path]
GRAPH_MODELS = ["lightgcn", "rgcn", "bundlenet", "bgcn", "crosscbr", "bundlegt", "multicbr", "trilevel"]

AGREEMENT = Agreement(plain=0.2, between=0.3, corrected=0.437, low=0.3, high=0.6, users=200, seeds=3)


@pytest.mark.parametrize("model", GRAPH_MODELS)
def test_the_answer_is_what_the_model_computes_on_the_edited_data(model: str, artifact_of: Make, tiny: World) -> None:
    """The same weights on a graph built from edited data give the same scores, all relations edited at once.

    With fixed parameters: those of a model with own vectors follow the edits.
    """
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
        expected = VectorScorer.of(trained.encode(BundleGraph.of(after))).scores(torch.arange(600))
    state = edited_state(opened, edits)
    users, bundles = (torch.from_numpy(np.unique(side).astype(np.int64)) for side in after.train.T)  # none is cold
    if trained.own_vectors():  # its parameters follow the edits: tests/inference/test_influence.py
        state = replace(state, embeddings=encode_filled(opened.model, state.graph))  # type: ignore[arg-type]
    found = state.users[users] @ state.bundles[bundles].T
    assert torch.allclose(found, expected[users][:, bundles], atol=1e-5)


def test_without_edits_nothing_moves(recommender: Recommender) -> None:
    answer = recommender.whatif(3, k=10)
    assert [one.id for one in answer.before] == [one.id for one in answer.after]
    for move in answer.moves:
        assert move.rank_before == move.rank_after
        assert move.score_before == pytest.approx(move.score_after, abs=1e-6)


def test_moves_hold_the_ranks_and_scores_of_both_lists(recommender: Recommender) -> None:
    artifact = recommender.artifact
    items = np.setdiff1d(np.arange(240), neighbours(artifact.graph.ui.pairs, 3))[:8].tolist()
    answer = recommender.whatif(3, add_items=items, k=10)
    before, after = ([one.id for one in ranked] for ranked in (answer.before, answer.after))
    assert before != after
    assert {move.id for move in answer.moves} == {*before, *after}
    for move in answer.moves:
        assert move.rank_before == (before.index(move.id) + 1 if move.id in before else None)
        assert move.rank_after == (after.index(move.id) + 1 if move.id in after else None)
    state = edited_state(artifact, edit_history(artifact, 3, add_items=items))
    assert answer.moves[0].score_after == pytest.approx(float(state.scores(3)[int(answer.moves[0].id)]))


def test_a_bundle_added_to_the_history_leaves_the_list(recommender: Recommender) -> None:
    first = recommender.recommend_one(3, k=1).recommended[0].id
    answer = recommender.whatif(3, add_bundles=[first], k=10)
    assert next(move for move in answer.moves if move.id == first).rank_after is None


def test_the_rank_of_a_bundle_is_its_position_in_the_list(recommender: Recommender) -> None:
    state = factual_state(recommender.artifact)
    for position, bundle in enumerate(state.ranking(3, 150), start=1):
        assert state.rank(3, bundle) == position == state.ranks(bundle)[3]


def test_ranks_are_cached_within_a_limit(recommender: Recommender) -> None:
    state = edited_state(recommender.artifact, EdgeEdits())
    first = state.ranks(0)
    assert state.ranks(0) is first
    for bundle in range(1, CACHED_BUNDLES + 1):
        state.ranks(bundle)
    assert len(state.cached_ranks) == CACHED_BUNDLES and 0 not in state.cached_ranks
    assert state.ranks(0).tolist() == first.tolist()


def test_impossible_edits_are_named_by_id(recommender: Recommender) -> None:
    pairs = recommender.artifact.graph.ui.pairs
    has, lacks = int(neighbours(pairs, 3)[0]), int(np.setdiff1d(np.arange(240), neighbours(pairs, 3))[0])
    for edits, message in (
        ({"add_items": [has]}, f"user 3 has item {has} already: adding it changes nothing"),
        ({"drop_items": [lacks]}, f"user 3 does not have item {lacks}, so it cannot be dropped; its items: "),
        ({"add_items": [lacks, lacks]}, f"item {lacks} is added twice"),
        ({"add_items": [lacks], "drop_items": [lacks]}, f"item {lacks} is both added and dropped: choose one"),
        ({"add_items": [lacks], "edits": {"drop": {}}}, "`edits` holds all edits"),
        ({"add_items": ["x"]}, "unknown item 'x'"),
    ):
        with pytest.raises(InputError, match=message):
            recommender.whatif(3, **edits)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([], r"edits: found \[\], expected an object with the keys add, drop"),
        ({"add": None}, "edits, add: found None, expected an object with the keys ub, ui, bi"),
        ({"add": {"ui": None}}, "edits, add, ui: found None, expected a list of pairs of ids"),
        ({"add": {"ui": ["12"]}}, "edits, add, ui: found '12', expected a pair of ids"),
        ({"add": {"ui": [[3, True]]}}, "edits, add, ui: True is no id, expected text or a whole number"),
        ({"add": {"ui": [[1, 2, 3]]}}, "found .1, 2, 3., expected a pair of ids"),
        ({"swap": {}}, "unknown key 'swap', expected add, drop"),
        ({"add": {"iu": [[1, 2]]}}, "unknown key 'iu', expected ub, ui, bi"),
        ({"add": {"bi": [[3, 200], ["3", "200"]]}}, "item 200 is added twice"),
        ({"add": {"ui": [["900", "2"]]}}, "unknown user '900'"),
        ({"drop": {"ub": [["3", "149"]]}}, "user 3 does not have bundle 149, so it cannot be dropped"),
    ],
)
def test_edits_of_any_relation_are_checked(recommender: Recommender, edits: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        recommender.whatif(3, edits=edits)  # type: ignore[arg-type]


def test_edits_of_several_relations_at_once(recommender: Recommender) -> None:
    graph = recommender.artifact.graph
    has, inside = (int(neighbours(pairs, 3)[0]) for pairs in (graph.ui.pairs, graph.bi.pairs))
    both = recommender.whatif(3, edits={"drop": {"ui": [[3, has]], "bi": [["3", str(inside)]]}}, k=150)
    history = recommender.whatif(3, drop_items=[has], k=150)
    alone = {move.id: move.score_after for move in history.moves}
    assert [move.id for move in both.moves if move.score_after != pytest.approx(alone[move.id])] == ["3"]


def test_an_edit_without_effect_is_a_warning(artifact_of: Make) -> None:
    recommender = load_recommender(artifact_of("lightgcn"))
    pairs = recommender.artifact.graph.ui.pairs
    lacks = int(np.setdiff1d(np.arange(240), neighbours(pairs, 3))[0])
    (warning,) = recommender.whatif(3, add_items=[lacks]).warnings
    assert warning.startswith("lightgcn does not use user-item pairs")
    chosen = neighbours(recommender.artifact.graph.ub.pairs, 3)[:1].tolist()
    assert not recommender.whatif(3, drop_bundles=chosen).warnings


@pytest.mark.parametrize("model", ["bprmf", "dam", "popularity", "ease"])
def test_models_without_a_graph_say_why_not(model: str, artifact_of: Make) -> None:
    with pytest.raises(InputError, match=f"{model} computes no embeddings from a graph"):
        load_recommender(artifact_of(model)).whatif(3, add_items=[5])


def test_the_caveat_comes_from_the_artifact_itself(artifact_of: Make) -> None:
    recommender = load_recommender(artifact_of("crosscbr"))
    assert "was not measured for this recommender" in recommender.whatif(3).caveat
    measured = load_recommender(artifact_of("crosscbr"))
    measured.artifact.about = measured.artifact.about.model_copy(
        update={"whatif_agreement": {"items-added": AGREEMENT}}
    )
    assert "items added 0.44 (95 % interval 0.30 to 0.60)" in measured.whatif(3).caveat
    assert measured.whatif(3).caveat == measured.suggest(5).caveat == measured.audience(5).caveat
