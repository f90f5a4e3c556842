import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clbr.data.split import (
    TEST,
    TRAIN,
    VALIDATION,
    SplitConfig,
    hide_held_out_items,
    split_last,
    split_leave_one_out,
    split_random,
)
from clbr.errors import InputError


@pytest.mark.parametrize(
    ("pairs", "train", "validation", "test"),
    [(1, 1, 0, 0), (2, 2, 0, 0), (3, 1, 1, 1), (9, 7, 1, 1), (10, 7, 1, 2), (15, 11, 1, 3), (20, 14, 2, 4), (30, 21, 3, 6)],
)  # fmt: skip
def test_a_random_split_takes_from_each_user_what_the_published_sets_took(
    pairs: int, train: int, validation: int, test: int
) -> None:
    labels = split_random(np.zeros(pairs, np.int32), 0.1, 0.2, seed=0)
    assert [int((labels == label).sum()) for label in (TRAIN, VALIDATION, TEST)] == [train, validation, test]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(0, 5))
def test_a_random_split_depends_on_the_seed_alone_and_counts_by_user(users: list[int], seed: int) -> None:
    left = np.sort(np.array(users, np.int32))
    labels = split_random(left, 0.1, 0.2, seed)
    assert (labels == split_random(left, 0.1, 0.2, seed)).all()
    for user in set(users):
        mine, n = labels[left == user], users.count(user)
        assert (mine == VALIDATION).sum() == (0 if n < 3 else max(1, n // 10))
        assert (mine == TEST).sum() == (0 if n < 3 else max(1, n * 2 // 10))
        assert (mine == TRAIN).any()


def test_another_seed_gives_another_split() -> None:
    users = np.repeat(np.arange(50, dtype=np.int32), 10)
    assert (split_random(users, 0.1, 0.2, 0) != split_random(users, 0.1, 0.2, 1)).any()


def test_the_last_pair_is_for_test_and_the_one_before_it_for_validation() -> None:
    pairs = np.array([[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [2, 5], [2, 6], [2, 7]], np.int32)
    times = np.array([5, 9, 1, 7, 1, 2, 3, 3, 3])
    labels = split_last(pairs, times)
    assert labels.tolist() == [TRAIN, TEST, TRAIN, VALIDATION, TRAIN, TRAIN, TRAIN, VALIDATION, TEST]


def test_shares_that_leave_nothing_to_train_on_are_an_error() -> None:
    with pytest.raises(InputError, match="leave nothing to train on"):
        SplitConfig.make({"validation": 0.5, "test": 0.5})


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(0, 5))
def test_leave_one_out_holds_out_one_pair_for_each_use_and_one_of_two_in_turn(users: list[int], seed: int) -> None:
    left = np.sort(np.array(users, np.int32))
    labels = split_leave_one_out(left, seed)
    assert (labels == split_leave_one_out(left, seed)).all()
    two = [user for user in sorted(set(users)) if users.count(user) == 2]
    for user in set(users):
        mine, n = labels[left == user], users.count(user)
        first = user in two[0::2]
        assert (mine == TEST).sum() == (0 if n == 1 else first if n == 2 else 1)
        assert (mine == VALIDATION).sum() == (0 if n == 1 else not first if n == 2 else 1)
        assert (mine == TRAIN).any()


def test_leave_one_out_draws_with_its_seed() -> None:
    users = np.repeat(np.arange(50, dtype=np.int32), 3)
    assert (split_leave_one_out(users, 0) != split_leave_one_out(users, 1)).any()


def test_items_of_held_out_bundles_are_hidden_unless_a_training_bundle_of_the_user_has_them() -> None:
    bi = np.array([[0, 0], [0, 1], [1, 1], [1, 2], [2, 3]], np.int32)
    train = np.array([[0, 0], [1, 2]], np.int32)  # user 0: items 0 and 1; user 1: item 3
    held_out = np.array([[0, 1], [1, 0]], np.int32)  # user 0: items 1 and 2; user 1: items 0 and 1
    ui = np.array([[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 2], [2, 0]], np.int32)
    kept = hide_held_out_items(ui, bi, train, held_out, bundles=3, items=4)
    assert kept.tolist() == [[0, 0], [0, 1], [0, 3], [1, 2], [2, 0]]


@pytest.mark.parametrize("method", ["last", "given", "leave-one-out"])
def test_shares_for_a_split_that_uses_none_are_an_error(method: str) -> None:
    with pytest.raises(InputError, match=f"the method {method} uses no shares; leave validation and test out"):
        SplitConfig.make({"method": method, "test": 0.3})
