import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clbr import InputError, Nodes, Recommender
from clbr.data.pairs import neighbours
from clbr.inference.find import Catalogue

NAMES = ("Sea stories", "The sea", "Seasons", "Overseas", None, "Cats")
SEA = Catalogue(Nodes("bundle", 6, ("a1", "sea", "c3", "d4", "e5", "f6"), NAMES), np.array([1, 2, 9, 4, 5, 6]))


def test_the_id_itself_comes_first_then_beginnings_then_words_then_the_rest() -> None:
    found, total = SEA.find("SEA", 10)
    assert found.tolist() == [1, 2, 0, 3] and total == 4  # of the beginnings, Seasons has more edges


def test_without_a_text_those_with_the_most_edges_come_first() -> None:
    found, total = SEA.find("  ", 3)
    assert found.tolist() == [2, 5, 4] and total == 6


def test_the_limit_cuts_what_is_listed_and_not_what_is_counted() -> None:
    found, total = SEA.find("s", 1)
    assert len(found) == 1 and total == 5


def test_numbers_serve_as_ids_where_there_are_no_others() -> None:
    found, _ = Catalogue(Nodes("user", 120), np.arange(120)).find("11", 5)
    assert found.tolist() == [11, 119, 118, 117, 116]


@given(st.text(max_size=20))
def test_any_text_is_looked_for_as_it_is(text: str) -> None:
    found, total = SEA.find(text, 10)
    assert len(found) == total <= 6
    if text.strip():
        labels = [f"{SEA.nodes.id(n)}\n{NAMES[n] or ''}".casefold() for n in found.tolist()]
        assert all(text.strip().casefold() in label for label in labels)


def test_a_number_of_five_thousand_digits_is_an_unknown_id() -> None:
    assert Nodes("user", 5).find("9" * 5000) is None
    with pytest.raises(ValueError, match="expected a number from 0 to 4"):
        Nodes("user", 5).index("9" * 5000)


def test_all_kinds_at_once_as_a_frame(recommender: Recommender) -> None:
    answer = recommender.find("camp", limit=4)
    assert [results.kind for results in answer.results] == ["user", "bundle", "item"]
    frame = answer.to_frame()
    assert frame.columns == ["kind", "id", "name", "size"]
    assert frame["id"].dtype == pl.Int64 and len(frame) == sum(len(results.found) for results in answer.results)
    assert recommender.find("17", "user").to_frame().row(0)[:2] == ("user", 17)
    with pytest.raises(InputError, match="expected user, bundle or item"):
        recommender.find("x", "bundel")  # type: ignore[arg-type]


def test_previews_have_the_first_items_of_each_bundle_in_the_order_of_the_request(recommender: Recommender) -> None:
    directory, pairs = recommender.directory, recommender.artifact.graph.bi.pairs
    for limit in (0, 3, 500):
        answer = directory.previews(["9", "4", "9"], limit)
        assert [bundle.id for bundle in answer.bundles] == ["9", "4", "9"]
        for bundle in answer.bundles:
            inside = [str(item) for item in neighbours(pairs, int(bundle.id))]
            assert bundle.size == len(inside) and [item.id for item in bundle.items] == inside[:limit]
            assert bundle.name == recommender.artifact.bundles.label(int(bundle.id))
    with pytest.raises(InputError, match="unknown bundle 'nope'"):
        directory.previews(["nope"])
