import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clbr import EdgeEdits, InputError

PAIRS = np.array([[0, 0], [0, 2], [1, 1]], np.int32)


def test_pairs_are_added_and_dropped_in_order() -> None:
    edits = EdgeEdits(add={"ui": np.array([[2, 0], [0, 1]])}, drop={"ui": np.array([[0, 2]])})
    assert edits.apply_to("ui", PAIRS, (3, 3)).tolist() == [[0, 0], [0, 1], [1, 1], [2, 0]]


def test_a_relation_without_edits_is_given_back_as_it_is() -> None:
    edits = EdgeEdits(add={"ui": np.array([[2, 0]])}, drop={"bi": np.empty((0, 2))})
    assert edits.apply_to("ub", PAIRS, (3, 3)) is PAIRS
    assert edits.apply_to("bi", PAIRS, (3, 3)) is PAIRS
    assert edits.touches("ui")
    assert not edits.touches("bi")


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ({"add": {"ui": [[0, 2]]}}, r"ui: the pair \(0, 2\) is there already and cannot be added"),
        ({"drop": {"ui": [[1, 2]]}}, r"ui: the pair \(1, 2\) is not there and cannot be dropped"),
        ({"add": {"ui": [[1, 2], [1, 2]]}}, "a pair is added to ui twice"),
        ({"drop": {"ui": [[0, 0], [0, 0]]}}, "a pair is dropped from ui twice"),
    ],
)
def test_an_edit_that_contradicts_the_edges_is_refused(
    edits: dict[str, dict[str, list[list[int]]]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        EdgeEdits(**edits).apply_to("ui", PAIRS, (3, 3))  # type: ignore[arg-type]


@pytest.mark.parametrize("pair", [[0, 3], [3, 0], [0, 99999]])
def test_an_id_beyond_the_nodes_is_refused_and_never_taken_for_another_pair(pair: list[int]) -> None:
    with pytest.raises(InputError, match=r"is added to ui, but ids end at \(2, 2\)"):
        EdgeEdits(add={"ui": [pair]}).apply_to("ui", PAIRS, (3, 3))  # type: ignore[dict-item]


@pytest.mark.parametrize("wrong", [[[0, -1]], [[0.5, 1]], [[0, 1, 2]], [[2**33 + 3, 0]], [0, 1]])
def test_what_is_no_pair_of_ids_is_refused(wrong: object) -> None:
    with pytest.raises(InputError, match="edits:"):
        EdgeEdits(add={"ui": wrong})  # type: ignore[dict-item]


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(InputError, match="unknown relation 'iu'"):
        EdgeEdits(add={"iu": PAIRS})  # type: ignore[dict-item]


SETS = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 4)))


@given(SETS, SETS)
def test_edits_are_the_difference_of_two_relations(before: set[tuple[int, int]], after: set[tuple[int, int]]) -> None:
    array = lambda pairs: np.array(sorted(pairs), np.int32).reshape(-1, 2)  # noqa: E731
    edits = EdgeEdits(add={"bi": array(after - before)}, drop={"bi": array(before - after)})
    assert edits.apply_to("bi", array(before), (7, 5)).tolist() == array(after).tolist()
