"""The Python API: frames in, a recommender out that answers in the user's own ids."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import clbr
from clbr import BundleDataset, InputError, Recommender, World
from clbr.evaluation.agreement import Agreement
from clbr.models.registry import BASELINES

SETTINGS: dict[str, Any] = {"epochs": 3, "learning_rate": 0.01, "batch_size": 512, "progress": False}


def tables(world: World, prefix: bool) -> dict[str, dict[str, list[Any]]]:
    """The world's three relations with ids as u17, b5, i3, or as numbers from 1000 on."""
    dataset = world.dataset

    def ids(kind: str, numbers: np.ndarray) -> list[Any]:
        return [f"{kind}{number}" if prefix else 1000 + int(number) for number in numbers]

    chosen = np.concatenate([dataset.train, dataset.validation, dataset.test])
    return {
        "user_bundle": {"user": ids("u", chosen[:, 0]), "bundle": ids("b", chosen[:, 1])},
        "user_item": {"user": ids("u", dataset.ui[:, 0]), "item": ids("i", dataset.ui[:, 1])},
        "bundle_item": {"bundle": ids("b", dataset.bi[:, 0]), "item": ids("i", dataset.bi[:, 1])},
    }


def from_frames(world: World, frame: Any, prefix: bool = True) -> BundleDataset:
    parts = {name: frame(table) for name, table in tables(world, prefix).items()}
    names = {f"b{b}" if prefix else 1000 + b: world.dataset.bundles.label(b) for b in range(150)}
    return BundleDataset.from_frames(**parts, bundle_names=names)


@pytest.fixture(scope="module")
def text_ids(tiny: World) -> Recommender:
    return clbr.fit(from_frames(tiny, pl.DataFrame), **SETTINGS)


@pytest.fixture(scope="module")
def whole_number_ids(tiny: World) -> Recommender:
    return clbr.fit(from_frames(tiny, pd.DataFrame, prefix=False), **SETTINGS)


def test_recommendations_are_a_frame_of_the_users_own_kind_and_ids(
    text_ids: Recommender, whole_number_ids: Recommender
) -> None:
    frame = text_ids.recommend(["u17", "u3"], k=4)
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == ["user", "bundle", "name", "rank", "score"]
    assert frame["user"].to_list() == ["u17"] * 4 + ["u3"] * 4
    assert frame["rank"].to_list() == [1, 2, 3, 4] * 2
    assert frame["score"].to_list()[:4] == sorted(frame["score"].to_list()[:4], reverse=True)
    table = whole_number_ids.recommend(pd.Series([1017, 1003]), k=4)
    assert isinstance(table, pd.DataFrame)
    assert table["user"].tolist() == [1017] * 4 + [1003] * 4
    assert table["bundle"].min() >= 1000
    assert len(text_ids.recommend(k=2)) == 2 * len(text_ids.artifact.users)


def test_every_question_takes_and_gives_the_users_ids(whole_number_ids: Recommender) -> None:
    recommender = whole_number_ids
    listed = recommender.recommend([1017], k=20)["bundle"].tolist()
    answer = recommender.whatif(1017, add_bundles=[listed[0]], k=5)
    assert listed[0] not in answer.to_frame()["bundle"].tolist()[:5]
    assert set(answer.to_frame().columns) >= {"bundle", "rank_before", "rank_after"}
    assert recommender.similar_bundles(listed[0], k=3).to_frame()["bundle"].min() >= 1000
    assert recommender.similar_items(1003, k=3).to_frame()["item"].min() >= 1000
    assert recommender.new_bundle_audience([1003, 1007], k=3).to_frame()["user"].min() >= 1000
    explained = recommender.explain(1017, listed[-1])
    assert isinstance(explained.to_frame(), pd.DataFrame) and explained.question == "why"
    assert isinstance(recommender.suggest(listed[0]).to_frame(), pd.DataFrame)
    inside = recommender.directory.bundle(listed[0]).items[0].id
    assert isinstance(recommender.audience(listed[0], drop_items=[inside]).to_frame(), pd.DataFrame)


def test_scores_are_those_of_the_list(text_ids: Recommender) -> None:
    frame = text_ids.recommend(["u17", "u3"], k=4)
    scores = text_ids.score(frame["user"], frame["bundle"])
    np.testing.assert_allclose(scores, frame["score"].to_numpy(), rtol=1e-5)
    with pytest.raises(InputError, match="2 users and 1 bundles: expected pairs"):
        text_ids.score(["u1", "u2"], ["b1"])


def test_evaluation_stands_beside_the_best_baseline(text_ids: Recommender) -> None:
    result = text_ids.evaluate("test", ks=(5, 20))
    frame = result.to_frame()
    assert {"metric", "value", "baseline", "baseline_value"} == set(frame.columns)
    row = frame.filter(pl.col("metric") == "recall@20").row(0, named=True)
    assert row["value"] == result["recall@20"]
    assert row["baseline"].partition(" (")[0] in BASELINES
    assert 0 < row["baseline_value"] < 1
    assert text_ids.evaluate("test", ks=(5, 20), baseline=False).baseline is None


def test_saved_and_opened_it_answers_the_same(text_ids: Recommender, tmp_path: Path, tiny: World) -> None:
    folder = text_ids.save(tmp_path / "recommender")
    opened = clbr.load_recommender(folder)
    assert opened.recommend(["u17"], k=5)["bundle"].to_list() == text_ids.recommend(["u17"], k=5)["bundle"].to_list()
    for ask in (
        lambda one: one.whatif("u17", add_bundles=["b9"]),
        lambda one: one.explain("u17", one.recommend(["u17"], k=3)["bundle"][2]),
        lambda one: one.similar_bundles("b3"),
    ):
        here, there = ask(text_ids), ask(opened)
        assert type(here) is type(there) and here.caveat == there.caveat if hasattr(here, "caveat") else True
        assert [node.id for node in _nodes(here)] == [node.id for node in _nodes(there)]
    with pytest.raises(InputError, match="holds training pairs only: give the data set"):
        opened.evaluate()
    assert opened.evaluate(data=from_frames(tiny, pl.DataFrame), baseline=False)["recall@20"] == pytest.approx(
        text_ids.evaluate(baseline=False)["recall@20"]
    )
    with pytest.raises(InputError, match="tiny: is not the data set"):
        opened.evaluate(data=tiny.dataset)
    copy = opened.save(tmp_path / "copy")
    assert sorted(path.name for path in copy.iterdir()) == sorted(path.name for path in folder.iterdir())
    with pytest.raises(InputError, match="is not empty"):
        opened.save(folder)


def _nodes(answer: Any) -> list[Any]:
    return next(getattr(answer, name) for name in ("moves", "evidence", "similar") if hasattr(answer, name))


def test_whole_numbers_stay_whole_numbers_after_saving(whole_number_ids: Recommender, tmp_path: Path) -> None:
    opened = clbr.load_recommender(whole_number_ids.save(tmp_path / "recommender"))
    frame = opened.recommend([1017], k=2)
    assert isinstance(frame, pl.DataFrame) and frame["user"].to_list() == [1017, 1017]
    frame = clbr.load_recommender(tmp_path / "recommender", backend="pandas").recommend([1017], k=2)
    assert isinstance(frame, pd.DataFrame) and frame["user"].tolist() == [1017, 1017]
    assert isinstance(whole_number_ids.evaluate(baseline=False).to_frame(), pd.DataFrame)
    assert opened.recommend("1017", k=2)["user"].to_list() == [1017, 1017]


@pytest.mark.parametrize("model", ["popularity", "ease"])
def test_closed_form_models_are_fitted_like_any_other(model: str, tiny: World, tmp_path: Path) -> None:
    recommender = clbr.fit(tiny.dataset, model, progress=False)
    opened = clbr.load_recommender(recommender.save(tmp_path / model))
    assert opened.recommend([3], k=5)["bundle"].to_list() == recommender.recommend([3], k=5)["bundle"].to_list()
    name = {"popularity": "popularity", "ease": "EASE"}[model]
    best = clbr.evaluate(_baseline(name, tiny.dataset), tiny.dataset, split="test")
    assert recommender.evaluate(baseline=False)["recall@20"] == best["recall@20"]
    with pytest.raises(InputError, match="closed form"):
        clbr.fit(tiny.dataset, model, epochs=3)


def _baseline(name: str, dataset: BundleDataset) -> Any:
    from clbr.models.registry import baseline_scorer

    return baseline_scorer(name, dataset)


def test_callbacks_follow_the_training_and_can_stop_it(tiny: World) -> None:
    seen: list[int] = []

    def stop_after_two(epoch: Any, counters: Any) -> bool:
        seen.append(epoch.number)
        assert counters.epoch == epoch.number and epoch.validation["recall@20"] > 0
        return epoch.number == 2

    clbr.fit(tiny.dataset, "bprmf", callbacks=[stop_after_two], progress=False, epochs=9)
    assert seen == [1, 2]


def test_progress_is_shown_where_it_is_asked_for(
    tiny: World, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clbr.training.display.LINE_SECONDS", 0.0)
    clbr.fit(tiny.dataset, "bprmf", epochs=1, progress=False)
    assert capfd.readouterr().err == ""
    clbr.fit(tiny.dataset, "bprmf", epochs=1, progress=True)
    assert "epoch 1" in capfd.readouterr().err


def test_the_run_is_kept_where_it_is_asked_for(tiny: World, tmp_path: Path) -> None:
    data = clbr.save(tiny.dataset, tmp_path / "shop")
    recommender = clbr.fit(data, "bprmf", out=tmp_path / "run", progress=False, epochs=1, seed=5)
    assert (tmp_path / "run" / "config.toml").exists()
    assert "seed 5" in repr(recommender)
    exported = clbr.load_recommender(clbr.export(tmp_path / "run", tmp_path / "exported"))
    assert exported.recommend([3], k=5)["bundle"].to_list() == recommender.recommend([3], k=5)["bundle"].to_list()


def test_a_preset_that_changes_the_method_is_a_warning(tiny: World, tmp_path: Path) -> None:
    preset = tmp_path / "own.toml"
    preset.write_text('[train]\nepochs = 1\n[views]\nconstraint = "contrastive"\n')
    with pytest.warns(UserWarning, match="its constraint is 'contrastive', not the paper's 'adaptive'"):
        clbr.fit(
            tiny.dataset, "lightgcn", paradigm="clbr", preset=str(preset), ratio_ui=0.0, ratio_bi=0.0, progress=False
        )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda one: one.recommend(["nobody"]), "unknown user 'nobody'"),
        (lambda one: one.recommend([3.5]), "3.5"),
        (lambda one: one.recommend(["u3"], k=0), "k = 0: expected a whole number, at least 1"),
        (lambda one: one.whatif("u3", drop_items=["i999"]), "unknown item 'i999'"),
        (lambda one: one.evaluate("train"), "cannot evaluate on 'train'"),
        (lambda one: one.similar_bundles("b999"), "unknown bundle 'b999'"),
        (lambda one: one.recommend(None, k="5"), "k = '5': expected a whole number"),
        (lambda one: one.recommend(b"u3"), "users: is a bytes, expected one id or a list of ids"),
        (lambda one: one.whatif(None), "user: is a NoneType"),
        (lambda one: one.whatif(["u3", "u4"]), "user: expected one id, found 2"),
        (lambda one: one.whatif("u3", add_items=None), "add_items: is a NoneType"),
        (lambda one: one.whatif("u3", edits={"add": {"xy": []}}), "unknown key 'xy', expected ub, ui, bi"),
        (lambda one: one.audience("b3", swap=("i1", "i2")), "swap: found 'i1', expected a pair of ids"),
        (lambda one: one.audience("b3", max_users=-1), "max_users = -1"),
        (lambda one: one.explain("u3", "b3", of="histor"), "of = 'histor': expected 'history' or 'contents'"),
        (lambda one: one.suggest("b3", count=0), "count = 0"),
        (lambda one: one.evaluate(ks=[True]), "ks = True: expected a whole number"),
        (lambda one: one.evaluate(data=pl.DataFrame()), "data: is a DataFrame, expected the path of a folder"),
        (lambda one: one.directory.find("bundel"), "expected user, bundle or item"),
        (lambda one: one.save(None), "folder: is a NoneType"),
        (lambda one: clbr.load_recommender("x", backend="arrow"), "no recommender there"),
        (lambda one: clbr.fit(None), "data: is a NoneType"),
        (lambda one: clbr.fit(one.dataset, None), "model = None: expected a name"),
        (lambda one: clbr.fit(one.dataset, paradigm=None), "paradigm = None: expected a name"),
        (lambda one: clbr.fit(one.dataset, preset=5), "preset = 5: expected a name"),
        (lambda one: clbr.fit(one.dataset, threads=0), "threads = 0"),
        (lambda one: clbr.fit(one.dataset, callbacks=[5]), "callbacks: expected a function"),
        (lambda one: clbr.fit("nowhere"), "nowhere: no such folder"),
        (lambda one: clbr.load_recommender("nowhere"), "no recommender there"),
        (lambda one: clbr.fit(one.dataset, "nomodel"), "unknown model 'nomodel'"),
        (lambda one: clbr.fit(one.dataset, rate=0.1), "unknown setting 'rate'"),
    ],
)
def test_whatever_is_wrong_is_an_input_error(text_ids: Recommender, ask: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask(text_ids)


def test_one_id_is_as_good_as_a_list_and_columns_are_lists(text_ids: Recommender) -> None:
    """A text is one id, never its letters."""
    one = text_ids.whatif("u17", add_items="i99", k=5)
    assert one.to_json() == text_ids.whatif("u17", add_items=pl.Series(["i99"]), k=5).to_json()
    assert text_ids.recommend_batch("u17").lists[0].user == text_ids.recommend_one(pd.Series(["u17"])).user
    assert text_ids.new_bundle_audience(np.array(["i1", "i2"])).to_json()


def test_numbers_of_numpy_are_settings_and_ids(tiny: World) -> None:
    settings: dict[str, Any] = {"epochs": np.int64(1), "learning_rate": np.float32(0.5), "seed": np.int64(3)}
    recommender = clbr.fit(tiny.dataset, "bprmf", progress=False, **settings)
    assert recommender.artifact.about.seed == 3
    first = recommender.recommend(np.int64(17), k=np.int64(2))
    assert first["bundle"].to_list() == recommender.recommend([17.0], k=2)["bundle"].to_list()


def test_the_lists_of_a_batch_are_frames_of_the_datas_kind(whole_number_ids: Recommender) -> None:
    frame = whole_number_ids.recommend_batch([1017], k=3).lists[0].to_frame()
    assert isinstance(frame, pd.DataFrame) and frame["bundle"].min() >= 1000


def test_the_card_of_a_baseline_says_only_what_is_true(tiny: World) -> None:
    card = clbr.fit(tiny.dataset, "popularity", progress=False).card
    assert "was chosen on validation" not in card and "filled-in" not in card and "What-if" not in card
    assert "Their lists are the same for all of them" in card
    assert "The epoch (1) was chosen on validation" in clbr.fit(tiny.dataset, "bprmf", progress=False, epochs=1).card


def test_a_measured_agreement_is_quoted(tiny: World, tmp_path: Path) -> None:
    recommender = clbr.fit(tiny.dataset, "lightgcn", progress=False, epochs=1)
    measured = Agreement(plain=0.2, between=0.3, corrected=0.437, low=0.3, high=0.6, users=200, seeds=3)
    opened = clbr.load_recommender(recommender.save(tmp_path / "measured", whatif_agreement={"items-added": measured}))
    for text in (opened.whatif(3).caveat, opened.card):
        assert "what retraining changes on average: items added 0.44 (95 % interval 0.30 to 0.60)." in text


def test_answers_are_frozen_and_short_to_look_at(text_ids: Recommender) -> None:
    answer = text_ids.whatif("u17", add_bundles=["b9"], k=5)
    assert repr(answer) == "WhatIf(user u17, k 5, 5 before, 5 after, " + repr(answer).partition("5 after, ")[2]
    with pytest.raises(ValueError, match="frozen"):
        answer.k = 3
    assert pickle.loads(pickle.dumps(answer)).to_json() == answer.to_json()
