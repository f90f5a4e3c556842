import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clbr.data.pairs import contains, decode, distinct, encode, row_pointers, sorted_pairs

PAIRS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=60)


@given(PAIRS)
def test_codes_stand_for_pairs_and_sort_like_them(pairs: list[tuple[int, int]]) -> None:
    array = np.array(pairs, np.int32).reshape(-1, 2)
    codes = encode(array, 13)
    assert decode(codes, 13).tolist() == array.tolist()
    assert decode(np.sort(codes), 13).tolist() == [list(pair) for pair in sorted(pairs)]
    assert decode(distinct(codes), 13).tolist() == [list(pair) for pair in sorted(set(pairs))]
    assert sorted_pairs(array).tolist() == [list(pair) for pair in sorted(pairs)]


@given(PAIRS, PAIRS)
def test_membership_is_that_of_sets(pairs: list[tuple[int, int]], wanted: list[tuple[int, int]]) -> None:
    codes = distinct(encode(np.array(pairs, np.int32).reshape(-1, 2), 13))
    asked = encode(np.array(wanted, np.int32).reshape(-1, 2), 13)
    assert contains(codes, asked).tolist() == [pair in set(pairs) for pair in wanted]


@given(PAIRS)
def test_row_pointers_find_a_rows_pairs(pairs: list[tuple[int, int]]) -> None:
    array = np.array(sorted(set(pairs)), np.int32).reshape(-1, 2)
    pointers = row_pointers(array[:, 0], 31)
    for row in range(31):
        mine = array[pointers[row] : pointers[row + 1], 1].tolist()
        assert mine == sorted(right for left, right in set(pairs) if left == row)
