"""Names stand for ids in every question."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import clbr
from clbr import InputError, Recommender
from clbr.inference.answers import Answer
from service_helpers import assert_error, make_client

Ask = Callable[[Recommender], Answer]


@pytest.fixture(scope="module")
def named() -> Recommender:
    """Users u0 to u11, bundles b0 to b8 and items i0 to i9. Items i8 and i9 share a name; b8 has the name "b7"."""
    data = clbr.BundleDataset.from_frames(
        pl.DataFrame(
            [(f"u{u}", f"b{(u + k) % 9}") for u in range(12) for k in range(4)], ["user", "bundle"], orient="row"
        ),
        pl.DataFrame([(f"u{u}", f"i{u % 5}") for u in range(12)], ["user", "item"], orient="row"),
        pl.DataFrame(
            [(f"b{b}", f"i{(b + k) % 10}") for b in range(9) for k in range(3)], ["bundle", "item"], orient="row"
        ),
        user_names={"u0": "Ann", "u1": "Bob"},
        bundle_names={f"b{b}": f"Bundle {b}" for b in range(8)} | {"b8": "b7"},
        item_names={f"i{i}": f"Item {i}" for i in range(8)} | {"i8": "Tea", "i9": "Tea"},
    )
    return clbr.fit(data, "crosscbr", epochs=1, progress=False)


QUESTIONS: list[tuple[Ask, Ask]] = [
    (lambda one: one.recommend_one("Ann"), lambda one: one.recommend_one("u0")),
    (lambda one: one.recommend_batch(["Bob", "u0"]), lambda one: one.recommend_batch(["u1", "u0"])),
    (
        lambda one: one.recommend_one("Ann", allow=["Bundle 4", "b5"], deny=["Bundle 5"]),
        lambda one: one.recommend_one("u0", allow=["b4", "b5"], deny=["b5"]),
    ),
    (
        lambda one: one.recommend_one(likes_items=["Item 3"], likes_bundles=["Bundle 2"]),
        lambda one: one.recommend_one(likes_items=["i3"], likes_bundles=["b2"]),
    ),
    (
        lambda one: one.whatif("Ann", add_items=["Item 7"], drop_items=[" Item 0 "]),
        lambda one: one.whatif("u0", add_items=["i7"], drop_items=["i0"]),
    ),
    (
        lambda one: one.whatif("u0", edits={"add": {"ui": [["Ann", "Item 7"]]}}),
        lambda one: one.whatif("u0", edits={"add": {"ui": [["u0", "i7"]]}}),
    ),
    (
        lambda one: one.audience("Bundle 0", swap=[("Item 0", "Item 7")]),
        lambda one: one.audience("b0", swap=[("i0", "i7")]),
    ),
    (lambda one: one.new_bundle_audience(["Item 1"]), lambda one: one.new_bundle_audience(["i1"])),
    (lambda one: one.explain("Ann", "Bundle 5", k=2), lambda one: one.explain("u0", "b5", k=2)),
    (
        lambda one: one.suggest("Bundle 0", k=2, add_items=["Item 7"]),
        lambda one: one.suggest("b0", k=2, add_items=["i7"]),
    ),
    (lambda one: one.similar_bundles("Bundle 0"), lambda one: one.similar_bundles("b0")),
    (lambda one: one.similar_items("Item 0"), lambda one: one.similar_items("i0")),
    (lambda one: one.directory.user("Ann"), lambda one: one.directory.user("u0")),
    (lambda one: one.directory.bundle("b7"), lambda one: one.directory.bundle("Bundle 7")),  # the id wins
    (lambda one: one.directory.item("Item 2"), lambda one: one.directory.item("i2")),
]


@pytest.mark.parametrize(("by_name", "by_id"), QUESTIONS)
def test_a_name_gives_the_answer_of_its_id(named: Recommender, by_name: Ask, by_id: Ask) -> None:
    assert by_name(named).to_json() == by_id(named).to_json()


def test_scores_and_lists_by_name(named: Recommender) -> None:
    assert (named.score(["Ann", "Bob"], ["Bundle 4", "Bundle 5"]) == named.score(["u0", "u1"], ["b4", "b5"])).all()
    assert named.recommend(["Bob", "u2"], k=3).equals(named.recommend(["u1", "u2"], k=3))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda one: one.whatif("Ann", add_items=["Tea"]),
            r"2 items have the name 'Tea': give the id of one \(i8, i9\)",
        ),
        (lambda one: one.directory.item("Tea"), "2 items have the name 'Tea'"),
        (lambda one: one.recommend(["Anne"]), "unknown user 'Anne', did you mean 'Ann'"),
        (lambda one: one.recommend_one("Bundle 1"), "unknown user 'Bundle 1'"),  # the name of another kind
        (lambda one: one.similar_bundles("bundle 1"), "unknown bundle 'bundle 1', did you mean 'Bundle 1'"),
    ],
)
def test_what_is_no_unique_name_is_an_error(named: Recommender, ask: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask(named)


def test_an_update_reads_ids_only(named: Recommender) -> None:
    """A new user whose id is another user's name stays a user of its own."""
    updated = named.update(pl.DataFrame({"user": ["Ann"], "bundle": ["b0"]}))
    assert updated.artifact.about.users == 13
    assert updated.directory.user("Ann").name is None


def test_names_over_http(named: Recommender, tmp_path: Path) -> None:
    """An ambiguous name is bad input (422), an unknown one is not found (404)."""
    with make_client(named.save(tmp_path / "artifact")) as client:
        by_name, by_id = (client.get("/v1/recommend", params={"user": user}) for user in ("Ann", "u0"))
        assert by_name.status_code == 200 and by_name.json() == by_id.json()
        assert client.get("/v1/bundle", params={"id": "Bundle 3"}).json()["id"] == "b3"
        assert_error(client.get("/v1/item", params={"id": "Tea"}), 422, "2 items have the name 'Tea'", "(i8, i9)")
        assert_error(client.get("/v1/recommend", params={"user": "Anne"}), 404, "unknown user 'Anne'", "'Ann'")
