import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import clbr
from clbr import BundleDataset, InputError, Recommender, World, load_recommender
from clbr.data.pairs import Pairs, neighbours
from clbr.evaluation.agreement import Agreement
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.inference.artifact import Artifact, make_graph, open_artifact
from clbr.inference.card import describe_added
from clbr.inference.cold_start import encode_filled
from clbr.inference.export import save_artifact, widened
from clbr.inference.new_nodes import grown_model, node_axes
from clbr.inference.update import Rows, update
from clbr.inference.whatif import edited_state
from clbr.models.base import ClosedForm, Encoder
from clbr.models.registry import MODELS, make_model
from conftest import small_disk
from service_helpers import make_client
from typed import snapshot

Make = Callable[[str], Path]
ENCODERS = [name for name, model in MODELS.items() if issubclass(model, Encoder)]
CLOSED = [name for name, model in MODELS.items() if issubclass(model, ClosedForm)]

# The tiny world has users 0 to 599, bundles 0 to 149 and items 0 to 239. User 600, bundle 150 and item 240 are new.
USER_BUNDLE = pl.DataFrame({"user": [600, 600, 600, 5, 6], "bundle": [3, 7, 150, 150, 150]})
USER_ITEM = pl.DataFrame({"user": [600, 600], "item": [11, 240]})
BUNDLE_ITEM = pl.DataFrame({"bundle": [150, 150, 150], "item": [11, 12, 240]})
TABLES = {"user_bundle": USER_BUNDLE, "user_item": USER_ITEM, "bundle_item": BUNDLE_ITEM}


def frame(pairs: Pairs, left: str, right: str) -> pl.DataFrame:
    return pl.DataFrame({left: pairs[:, 0], right: pairs[:, 1]})


def joined(artifact: Artifact) -> tuple[torch.Tensor, torch.Tensor]:
    return artifact.embeddings.joined("users"), artifact.embeddings.joined("bundles")


def test_known_pairs_add_nothing(recommender: Recommender) -> None:
    known = frame(recommender.artifact.graph.ub.pairs[:40], "user", "bundle")
    with pytest.raises(InputError, match="nothing to add: the recommender has all pairs of the tables already"):
        recommender.update(user_bundle=known)
    with pytest.raises(
        InputError, match="nothing to add: expected at least one of user_bundle, user_item, bundle_item"
    ):
        recommender.update()


@pytest.mark.parametrize("model", ENCODERS)
def test_a_model_without_new_nodes_scores_the_same(model: str, artifact_of: Make) -> None:
    artifact = open_artifact(artifact_of(model))
    same = grown_model(artifact, {"user": 600, "bundle": 150, "item": 240})
    assert isinstance(same, Encoder)
    embeddings = encode_filled(same, artifact.graph)
    assert torch.equal(embeddings.joined("users"), joined(artifact)[0])
    assert torch.equal(embeddings.joined("bundles"), joined(artifact)[1])


def test_pairs_between_known_nodes_enter_by_propagation_alone(artifact: Artifact) -> None:
    assert artifact.graph.ub.left_degrees[5] > 0
    bundle = int(
        artifact.graph.ub.pairs[~np.isin(artifact.graph.ub.pairs[:, 1], neighbours(artifact.graph.ub.pairs, 5))][0, 1]
    )
    item = next(i for i in range(240) if i not in neighbours(artifact.graph.ui.pairs, 5))
    tables = {
        "user_bundle": pl.DataFrame({"user": [5], "bundle": [bundle]}),
        "user_item": pl.DataFrame({"user": [5], "item": [item]}),
    }
    updated = update(artifact, tables).artifact
    edits = EdgeEdits(add={"ub": np.array([[5, bundle]], np.int32), "ui": np.array([[5, item]], np.int32)})
    asked = edited_state(artifact, edits)
    assert torch.equal(joined(updated)[0], asked.users)
    assert torch.equal(joined(updated)[1], asked.bundles)
    assert not torch.equal(joined(updated)[0][5], joined(artifact)[0][5])


def test_without_fitting_an_update_is_the_model_on_the_extended_graph(artifact: Artifact) -> None:
    """The expected vectors come from a model whose rows are inserted by hand."""
    updated = update(artifact, TABLES, steps=0).artifact
    by_hand = make_model("crosscbr", artifact.about.settings, _extended(artifact))
    old, graph = artifact.model.state_dict(), artifact.graph
    state = {key: torch.zeros(len(value) + 1, value.shape[1]) for key, value in old.items()}
    state["users"][:600], state["bundles"][:150], state["items"][:240] = (
        old["users"][:-1],
        old["bundles"][:-1],
        old["items"],
    )
    by_hand.load_state_dict(
        {key: state[key][:count] for key, count in (("users", 601), ("bundles", 151), ("items", 241))}
    )
    wide = widened(by_hand, "crosscbr", artifact.about.settings, _extended(artifact))
    pairs = {
        "ub": _sorted([*graph.ub.pairs.tolist(), *USER_BUNDLE.rows()]),
        "ui": _sorted([*graph.ui.pairs.tolist(), *USER_ITEM.rows()]),
        "bi": _sorted([*graph.bi.pairs.tolist(), *BUNDLE_ITEM.rows()]),
    }
    assert isinstance(wide, Encoder)
    expected = encode_filled(wide, make_graph(pairs, 601, 151, 241))  # type: ignore[arg-type]
    assert torch.equal(joined(updated)[0], expected.joined("users"))
    assert torch.equal(joined(updated)[1], expected.joined("bundles"))


def _sorted(pairs: list[object]) -> Pairs:
    return np.unique(np.array(pairs, np.int32), axis=0)


def _extended(artifact: Artifact) -> BundleDataset:
    return update(artifact, TABLES, steps=0).dataset


@pytest.mark.parametrize("model", ENCODERS)
def test_only_the_parameters_of_new_nodes_are_fitted(model: str, artifact_of: Make) -> None:
    artifact = open_artifact(artifact_of(model))
    assert (artifact.graph.ub.left_degrees[[5, 6]] > 0).all() and (artifact.graph.ub.right_degrees[[3, 7]] > 0).all()
    updated = update(artifact, TABLES, steps=3).artifact
    before, after = artifact.model.state_dict(), updated.model.state_dict()
    known = {"user": 600, "bundle": 150, "item": 240}
    tables = 0
    for key, kinds in node_axes(model, artifact.about.settings).items():
        if kinds[0] is None:
            assert torch.equal(before[key], after[key])
            continue
        count = known[kinds[0]]
        assert torch.equal(before[key][:count], after[key][:count])
        assert after[key][count].abs().sum() > 0  # the new node
        assert torch.equal(before[key][count:], after[key][count + 1 :])  # the unseen one
        tables += 1
    assert tables >= 2
    assert torch.isfinite(updated.scorer.scores(torch.tensor([0, 600]))).all()


def test_a_known_bundle_is_fitted_when_it_is_chosen_for_the_first_time(artifact: Artifact) -> None:
    """A bundle comes with its items alone and is chosen later, in another update."""
    listed = update(artifact, {"bundle_item": BUNDLE_ITEM}).artifact
    assert listed.model.state_dict()["bundles"][150].abs().sum() == 0
    chosen = update(listed, {"user_bundle": USER_BUNDLE[3:]}).artifact
    assert chosen.model.state_dict()["bundles"][150].abs().sum() > 0
    assert torch.equal(chosen.model.state_dict()["bundles"][:150], artifact.model.state_dict()["bundles"][:150])
    later = update(chosen, {"user_bundle": pl.DataFrame({"user": [9], "bundle": [150]})}).artifact
    assert torch.equal(later.model.state_dict()["bundles"], chosen.model.state_dict()["bundles"])


def test_fitted_bundles_are_found_more_often(tiny: World) -> None:
    """Bundles are hidden in training. Their choices are given back but for every second one, which a list should find."""
    dataset = tiny.dataset
    cold = np.argsort(-dataset.popularity, kind="stable")[1:60:3]
    hidden = np.isin(dataset.train[:, 1], cold)
    given, wanted = dataset.train[hidden][::2], dataset.train[hidden][1::2]
    kept = replace(
        dataset,
        train=dataset.train[~hidden],
        validation=dataset.validation[~np.isin(dataset.validation[:, 1], cold)],
        test=wanted,
    )
    recommender = clbr.fit(
        kept, "crosscbr", preset="none", epochs=8, learning_rate=0.01, batch_size=512, progress=False
    )
    # Known bundles cannot become new ones, so the hidden ones get new ids.
    more = {int(bundle): 1000 + position for position, bundle in enumerate(cold)}
    contents = dataset.bi[np.isin(dataset.bi[:, 0], cold)]
    tables = {
        "user_bundle": pl.DataFrame({"user": given[:, 0], "bundle": [more[b] for b in given[:, 1].tolist()]}),
        "bundle_item": pl.DataFrame({"bundle": [more[b] for b in contents[:, 0].tolist()], "item": contents[:, 1]}),
    }
    hits = {}
    for steps in (0, 70):
        updated = update(recommender.artifact, tables, steps=steps).artifact
        ranking = Recommender(updated).recommend(np.unique(wanted[:, 0]).tolist(), k=20)
        listed = set(zip(ranking["user"].to_list(), ranking["bundle"].to_list(), strict=True))
        hits[steps] = np.mean([(user, more[bundle]) in listed for user, bundle in wanted.tolist()])
    assert hits[70] > hits[0] + 0.05


def test_new_ids_answer_every_question(recommender: Recommender) -> None:
    updated = recommender.update(**TABLES)
    lists = updated.recommend([600, 5], k=151)
    mine = lists.filter(pl.col("user") == 600)["bundle"].to_list()
    assert len(mine) == 148 and not {3, 7, 150} & set(mine)
    assert 150 in updated.recommend([9], k=151)["bundle"].to_list()
    assert updated.whatif(600, drop_bundles=[3]).after
    assert updated.audience(150, drop_items=[240], k=150).before > 0
    assert updated.explain(600, mine[0]).bundle.id == str(mine[0])
    assert updated.similar_bundles(150, k=3).similar
    assert updated.similar_items(240, k=3).similar
    assert updated.artifact.bundles.label(3) == recommender.artifact.bundles.label(3)
    assert updated.artifact.bundles.label(150) == "150"  # it has no name


def test_rows_are_counted_and_repeated_ones_ignored(artifact: Artifact) -> None:
    known = artifact.graph.ub.pairs[:2].tolist()
    table = pl.DataFrame([*known, [600, 3], [600, 3], [600, 4]], schema=["user", "bundle"], orient="row")
    found = update(artifact, {"user_bundle": table, "user_item": USER_ITEM}, steps=0)
    assert found.rows == {"user_bundle": Rows(5, 2, 2, 1), "user_item": Rows(2, 2, 0, 0)}
    assert found.nodes == {"user": 1, "bundle": 0, "item": 1}
    assert found.artifact.about.added == {
        **{"users": 1, "bundles": 0, "items": 1},
        **{"user_bundle": 2, "user_item": 2},
    }


def test_counts_of_several_updates_add_up_and_the_card_says_when_to_train_again(recommender: Recommender) -> None:
    once = recommender.update(**TABLES)
    more = pl.DataFrame({"user": range(700, 760), "bundle": [150] * 60})
    twice = once.update(user_bundle=more)
    assert twice.artifact.about.added == {
        **{"users": 61, "bundles": 1, "items": 1},
        **{"user_bundle": 65, "user_item": 2, "bundle_item": 3},
    }
    assert "trained on: users 1 (0.2%), bundles 1 (0.7%), items 1 (0.4%), user-bundle pairs 5 (" in once.card
    assert "fitted. Train again on all data when a share is above 10%.\n" in once.card
    assert "users 61 (10.2%)" in twice.card and "a share is above 10%: train again on all data.\n" in twice.card
    assert "measured before the last update" in twice.card
    assert "Added since training" not in recommender.card


def test_an_updated_recommender_is_saved_and_opened_like_any_other(recommender: Recommender, tmp_path: Path) -> None:
    updated = recommender.update(**TABLES)
    opened = load_recommender(updated.save(tmp_path / "new"), backend="pandas")
    assert torch.equal(
        opened.artifact.scorer.scores(torch.arange(601)), updated.artifact.scorer.scores(torch.arange(601))
    )
    assert opened.artifact.about.test == recommender.artifact.about.test
    assert "## Added since training" in opened.card
    assert isinstance(opened.recommend([600]), pd.DataFrame)
    again = opened.update(user_item=pd.DataFrame({"user": [601], "item": [0]}))
    assert isinstance(again.recommend([601], k=3), pd.DataFrame)


@pytest.mark.parametrize("model", CLOSED)
def test_a_closed_form_model_is_computed_again(model: str, artifact_of: Make) -> None:
    artifact = open_artifact(artifact_of(model))
    updated = update(artifact, TABLES)
    trained = make_model(model, artifact.about.settings, updated.dataset)
    assert isinstance(trained, ClosedForm)
    trained.solve(updated.dataset)
    users = torch.tensor([0, 600])
    expected = trained.scorer(BundleGraph.of(updated.dataset)).scores(users)
    assert torch.equal(updated.artifact.scorer.scores(users)[:, :151], expected)
    assert "computed from all of it" in describe_added(updated.artifact.about, updated.dataset)


def test_another_model_has_to_be_trained_again(artifact_of: Make) -> None:
    with pytest.raises(InputError, match="dam computes no embeddings from a graph, so it has to be trained again"):
        load_recommender(artifact_of("dam")).update(user_bundle=USER_BUNDLE)


def test_a_fitted_recommender_keeps_its_validation_and_test_pairs(tiny: World) -> None:
    recommender = clbr.fit(tiny.dataset, "popularity")
    first = tiny.dataset.test[0].tolist()
    updated = recommender.update(user_bundle=pl.DataFrame([first], schema=["user", "bundle"], orient="row"))
    assert updated.dataset is not None
    assert len(updated.dataset.test) == len(tiny.dataset.test) - 1
    assert first in updated.dataset.train.tolist()
    assert 0 < updated.evaluate("test", baseline=False)["recall@20"] < 1


def text_ids() -> Recommender:
    ub = pl.DataFrame({"user": [*"aabbcc"], "bundle": ["x", "y", "x", "z", "y", "z"]})
    ui = pl.DataFrame({"user": [*"abc"], "item": ["p", "q", "p"]})
    bi = pl.DataFrame({"bundle": ["x", "y", "z"], "item": ["p", "q", "q"]})
    held_out = {"validation": pl.DataFrame({"user": ["a"], "bundle": ["z"]})}
    held_out |= {"test": pl.DataFrame({"user": ["b"], "bundle": ["y"]})}
    return clbr.fit(BundleDataset.from_frames(ub, ui, bi, **held_out), "lightgcn", epochs=1)  # type: ignore[arg-type]


def test_ids_keep_their_type(recommender: Recommender) -> None:
    updated = recommender.update(user_item=pl.DataFrame({"user": ["700", "650"], "item": ["3", "3"]}))
    assert updated.recommend(650, k=1)["user"].to_list() == [650]
    assert updated.artifact.users.id(600) == "650"  # in the order of ids
    with pytest.raises(InputError, match=r"user_item, row 1 \(counted from 0\): user id 'anna' is new and not a whole"):
        recommender.update(user_item=pl.DataFrame({"user": ["3", "anna"], "item": ["0", "0"]}))
    named = text_ids()
    assert (
        named.update(user_bundle=pl.DataFrame({"user": ["d"], "bundle": ["x"]})).recommend("d", k=1)["user"][0] == "d"
    )
    with pytest.raises(InputError, match="user id '17' is new and not text like the ids of the recommender"):
        named.update(user_bundle=pl.DataFrame({"user": [17], "bundle": ["x"]}))


def test_a_new_bundle_needs_items_if_the_model_reads_them(recommender: Recommender) -> None:
    table = pl.DataFrame({"user": [0, 1, 2], "bundle": [3, 150, 151]})
    with pytest.raises(InputError, match=r"user_bundle, row 1 .*: bundle '150' is new and has no items \(2 such\)"):
        recommender.update(user_bundle=table)
    named = text_ids().update(user_bundle=pl.DataFrame({"user": ["a"], "bundle": ["w"]}))
    assert "w" in named.recommend("b", k=4)["bundle"].to_list()


def test_bad_columns_are_named(recommender: Recommender) -> None:
    with pytest.raises(InputError, match="user_bundle: no column 'bundle'; its columns are 'user', 'cart'"):
        recommender.update(user_bundle=USER_BUNDLE.rename({"bundle": "cart"}))
    with pytest.raises(InputError, match="columns: unknown key 'basket'"):
        recommender.update(user_bundle=USER_BUNDLE, columns={"basket": "cart"})
    table = USER_ITEM.rename({"item": "sku"})
    assert recommender.update(user_item=table, columns={"item": "sku"}).artifact.about.added["user_item"] == 2


def test_a_full_disk_and_a_kill_leave_the_old_artifact(artifact_of: Make, artifact: Artifact, tmp_path: Path) -> None:
    out, updated = tmp_path / "served", update(artifact, TABLES, steps=0)
    load_recommender(artifact_of("crosscbr")).save(out)
    before = snapshot(out)
    with small_disk(20_000), pytest.raises(InputError, match="cannot be written"):
        save_artifact(updated.artifact, out, updated.dataset, force=True)
    assert snapshot(out) == before
    USER_ITEM.write_csv(tmp_path / "new.csv")
    killed = f"""
import os, signal, sys
from clbr.cli import main
from clbr.inference import export
write, export.write_synced = export.write_synced, lambda path, content: os.kill(os.getpid(), signal.SIGKILL)
sys.argv = ["clbr", "update", "{out}", "--user-item", "{tmp_path / "new.csv"}", "--out", "{out}", "--force"]
main()
"""
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -9
    assert snapshot(out) == before
    save_artifact(updated.artifact, out, updated.dataset, force=True)
    assert open_artifact(out).about.users == 601
    assert {path.name for path in tmp_path.iterdir()} == {"served", "new.csv"}


def test_a_service_swaps_to_the_updated_artifact(recommender: Recommender, tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to(recommender.artifact.folder)
    with make_client(link) as client:
        assert client.get("/v1/recommend", params={"user": "600"}).status_code == 404
        link.unlink()
        link.symlink_to(recommender.update(**TABLES).save(tmp_path / "new"))
        assert client.post("/admin/reload").status_code == 200
        listed = client.get("/v1/recommend", params={"user": "600", "k": 5}).json()["recommended"]
    assert len(listed) == 5


def test_names_of_new_and_known_nodes(artifact: Artifact) -> None:
    """From a mapping or a frame; a node that is not listed, or whose name is empty, keeps its name."""
    names = pl.DataFrame({"item": [240, 1, 2], "name": ["Saw", "Guitar", None]})
    found = update(artifact, TABLES | {"bundle_names": {150: "Rain kit", "3": "Sun kit"}, "item_names": names})
    bundles, items = found.dataset.bundles, found.dataset.items
    assert [bundles.label(bundle) for bundle in (150, 3)] == ["Rain kit", "Sun kit"]
    assert [items.label(item) for item in (240, 1, 2, 0)] == ["Saw", "Guitar", *map(artifact.items.label, (2, 0))]
    assert found.names == {"bundle": 2, "item": 2} and found.unmatched_names == 0
    assert found.dataset.users.names is None


@pytest.mark.parametrize("model", ["dam", "ease", "crosscbr"])
def test_names_alone_keep_the_model(model: str, artifact_of: Make) -> None:
    artifact = open_artifact(artifact_of(model))
    found = update(artifact, {"user_names": {17: "Ann"}})
    assert found.artifact.users.index("Ann") == 17 and found.names == {"user": 1}
    users = torch.tensor([0, 17])
    assert torch.equal(found.artifact.scorer.scores(users), artifact.scorer.scores(users))
    assert found.artifact.about.added == artifact.about.added
    with pytest.raises(InputError, match="nothing to add: the recommender has all names"):
        update(found.artifact, {"user_names": {17: "Ann"}})


def test_names_keep_the_measured_agreement_and_new_pairs_do_not(artifact_of: Make, tmp_path: Path) -> None:
    saved = load_recommender(artifact_of("crosscbr"))
    measured = Agreement(plain=0.2, between=0.3, corrected=0.4, low=0.3, high=0.6, users=200, seeds=3)
    saved.artifact.about = saved.artifact.about.model_copy(update={"whatif_agreement": {"swaps": measured}})
    renamed = load_recommender(saved.update(item_names={0: "spade"}).save(tmp_path / "renamed"))
    assert renamed.artifact.about.whatif_agreement == {"swaps": measured} and "swaps 0.40" in renamed.card
    grown = load_recommender(
        saved.update(user_item=pl.DataFrame({"user": [600], "item": [3]})).save(tmp_path / "grown")
    )
    assert grown.artifact.about.whatif_agreement == {} and "Measured before the update." in grown.card


def test_names_are_saved(recommender: Recommender, tmp_path: Path) -> None:
    updated = recommender.update(item_names={0: "spade"})
    assert load_recommender(updated.save(tmp_path / "renamed")).directory.item("spade").id == "0"
