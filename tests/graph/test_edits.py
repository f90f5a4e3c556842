import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clbr import EdgeEdits, InputError
from clbr.graph.edits import without_effect

PAIRS = np.array([[0, 0], [0, 2], [1, 1]], np.int32)


def test_pairs_are_added_and_dropped_in_order() -> None:
    edits = EdgeEdits(add={"ui": np.array([[2, 0], [0, 1]])}, drop={"ui": np.array([[0, 2]])})
    assert edits.apply_to("ui", PAIRS, (3, 3)).tolist() == [[0, 0], [0, 1], [1, 1], [2, 0]]


def test_a_relation_without_edits_is_returned_unchanged() -> None:
    edits = EdgeEdits(add={"ui": np.array([[2, 0]])}, drop={"bi": np.empty((0, 2))})
    assert edits.apply_to("ub", PAIRS, (3, 3)) is PAIRS
    assert edits.apply_to("bi", PAIRS, (3, 3)) is PAIRS
    assert edits.touches("ui")
    assert not edits.touches("bi")


def test_the_left_nodes_of_edits_are_sorted_and_listed_once() -> None:
    edits = EdgeEdits(add={"ui": np.array([[2, 0], [0, 1]])}, drop={"ui": np.array([[2, 2]]), "bi": np.empty((0, 2))})
    assert edits.left_nodes("ui").tolist() == [0, 2]
    assert edits.left_nodes("bi").tolist() == edits.left_nodes("ub").tolist() == []


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ({"add": {"ui": [[0, 2]]}}, r"ui: the pair \(0, 2\) exists and cannot be added"),
        ({"drop": {"ui": [[1, 2]]}}, r"ui: the pair \(1, 2\) does not exist and cannot be dropped"),
        ({"add": {"ui": [[1, 2], [1, 2]]}}, "a pair is added to ui twice"),
        ({"drop": {"ui": [[0, 0], [0, 0]]}}, "a pair is dropped from ui twice"),
    ],
)
def test_an_edit_that_contradicts_the_edges_is_an_error(
    edits: dict[str, dict[str, list[list[int]]]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        EdgeEdits(**edits).apply_to("ui", PAIRS, (3, 3))  # type: ignore[arg-type]


@pytest.mark.parametrize("pair", [[0, 3], [3, 0], [0, 99999]])
def test_an_id_that_is_too_high_is_an_error_and_never_read_as_another_pair(pair: list[int]) -> None:
    with pytest.raises(InputError, match=r"is added to ui, but the highest ids are \(2, 2\)"):
        EdgeEdits(add={"ui": [pair]}).apply_to("ui", PAIRS, (3, 3))  # type: ignore[dict-item]


@pytest.mark.parametrize("wrong", [[[0, -1]], [[0.5, 1]], [[0, 1, 2]], [[2**33 + 3, 0]], [0, 1]])
def test_arrays_that_are_not_pairs_of_ids_are_an_error(wrong: object) -> None:
    with pytest.raises(InputError, match="edits:"):
        EdgeEdits(add={"ui": wrong})  # type: ignore[dict-item]


def test_an_unknown_relation_is_an_error() -> None:
    with pytest.raises(InputError, match="unknown relation 'iu': expected one of ub, ui, bi"):
        EdgeEdits(add={"iu": PAIRS})  # type: ignore[dict-item]


SETS = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 4)))


@given(SETS, SETS)
def test_the_difference_of_two_relations_turns_one_into_the_other(
    before: set[tuple[int, int]], after: set[tuple[int, int]]
) -> None:
    array = lambda pairs: np.array(sorted(pairs), np.int32).reshape(-1, 2)  # noqa: E731
    edits = EdgeEdits(add={"bi": array(after - before)}, drop={"bi": array(before - after)})
    assert edits.apply_to("bi", array(before), (7, 5)).tolist() == array(after).tolist()


def test_the_warning_for_a_relation_that_a_model_does_not_use_names_both() -> None:
    assert without_effect("lightgcn", "ui") == "lightgcn does not use user-item pairs: editing them has no effect"
