import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clbr import BundleDataset, DataWarning, InputError, Nodes, World, describe
from clbr.data import checks
from clbr.data.checks import HeldOut, check, measure_held_out
from clbr.data.pairs import Pairs, items_of_bundles
from conftest import make_dataset


def messages(dataset: BundleDataset, kind: str) -> list[str]:
    return [finding.message for finding in check(dataset, measure_held_out(dataset)) if finding.check == kind]


def with_items_of_bundles(dataset: BundleDataset) -> BundleDataset:
    """The data set as it is if user-item holds the items of all chosen bundles, the held-out ones too."""
    chosen = np.concatenate([dataset.train, dataset.validation, dataset.test])
    came = items_of_bundles(chosen, dataset.bi, len(dataset.bundles))[1]
    return replace(dataset, ui=np.unique(np.concatenate([dataset.ui, came]), axis=0))


def frames_of(dataset: BundleDataset) -> dict[str, pl.DataFrame]:
    """The pairs of a data set as five frames, so that the split stays."""
    tables = {
        "user_bundle": (dataset.train, "user", "bundle"),
        "validation": (dataset.validation, "user", "bundle"),
        "test": (dataset.test, "user", "bundle"),
        "user_item": (dataset.ui, "user", "item"),
        "bundle_item": (dataset.bi, "bundle", "item"),
    }
    return {name: pl.DataFrame({left: p[:, 0], right: p[:, 1]}) for name, (p, left, right) in tables.items()}


def test_held_out_pairs_are_measured_as_worked_out_by_hand(small: BundleDataset) -> None:
    # Users 0 and 1 have the items {0, 4} and {1}. Of the pairs (0, 2), (0, 3), (1, 0), (1, 2), (1, 3) they have the
    # shares 0, 1/2, 1/2, 0, 0 of the items. Bundle 3 is in no training pair. All four bundles are in the first 20.
    assert measure_held_out(small) == HeldOut(
        pairs=5,
        unseen_users=0,
        unseen_users_share=0.0,
        unseen_bundles=1,
        unseen_bundles_share=0.4,
        covered_share=0.0,
        first_share=0.4,
        chance_share=1.0,
    )
    assert describe(small).held_out == measure_held_out(small)


def test_bundles_of_equal_shares_are_ranked_in_random_order_and_training_pairs_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "FIRST", 1)
    # User 0 has the items 0 and 2, so all of the bundles 0 and 2 and half of 3; bundle 0 is for training.
    bi = np.array([[0, 0], [1, 1], [2, 2], [3, 0], [3, 1]])
    dataset = make_dataset(
        train=np.array([[0, 0]]), validation=np.array([[0, 2]]), test=np.array([[0, 3]]), ui=np.array([[0, 0], [0, 2]]), bi=bi
    )  # fmt: skip
    found = measure_held_out(dataset)
    assert (found.first_share, found.covered_share) == (0.5, 0.5)
    assert found.chance_share == pytest.approx(1 / 3)
    tied = replace(dataset, bi=np.array([[0, 0], [1, 0], [2, 2], [3, 0], [3, 1]]))  # now also all of bundle 1
    assert measure_held_out(tied).first_share == 0.25


def naive_first_share(dataset: BundleDataset, first: int) -> float:
    items = [set(dataset.bi[dataset.bi[:, 0] == b, 1].tolist()) for b in range(len(dataset.bundles))]
    train = {tuple(pair) for pair in dataset.train.tolist()}
    found = []
    for user, bundle in np.concatenate([dataset.validation, dataset.test]).tolist():
        mine = set(dataset.ui[dataset.ui[:, 0] == user, 1].tolist())
        shares = [len(mine & of) / max(1, len(of)) for of in items]
        others = [share for b, share in enumerate(shares) if (user, b) not in train]
        above, equal = sum(s > shares[bundle] for s in others), sum(s == shares[bundle] for s in others)
        found.append(min(1.0, max(0.0, (first - above) / equal)) if shares[bundle] > 0 else 0.0)
    return float(np.mean(found))


def pairs_of(width: int) -> st.SearchStrategy[Pairs]:
    pairs = st.sets(st.tuples(st.integers(0, 4), st.integers(0, width - 1)), min_size=3, max_size=20)
    return pairs.map(lambda found: np.array(sorted(found), np.int32))


@given(pairs_of(6), pairs_of(7), pairs_of(7), st.integers(1, 3), st.randoms())
def test_the_ranking_by_shared_items_is_that_of_a_plain_loop(
    chosen: Pairs, ui: Pairs, bi: Pairs, first: int, random: Any
) -> None:
    labels = np.array([0, 1, 2, *(random.randrange(3) for _ in chosen[3:])])
    dataset = BundleDataset(
        "drawn", Nodes("user", 5), Nodes("bundle", 6), Nodes("item", 7),
        train=chosen[labels == 0], validation=chosen[labels == 1], test=chosen[labels == 2], ui=ui, bi=bi,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "FIRST", first)
        patch.setattr(checks, "BLOCK_USERS", 2)
        assert measure_held_out(dataset).first_share == pytest.approx(naive_first_share(dataset, first))


def test_a_set_without_held_out_pairs_is_measured() -> None:
    found = measure_held_out(make_dataset(validation=np.empty((0, 2), int), test=np.empty((0, 2), int)))
    assert (found.pairs, found.covered_share, found.first_share, found.unseen_bundles) == (0, 0.0, 0.0, 0)


def test_user_item_that_holds_the_items_of_held_out_bundles_is_a_leak(tiny: World) -> None:
    assert not messages(tiny.dataset, "leak")  # its users choose bundles of items they like: 48 % in the first 20
    (message,) = messages(with_items_of_bundles(tiny.dataset), "leak")
    assert "for 100.0% of the 1,285 pairs the user has every item of the bundle there" in message
    assert "14.1% by chance" in message


def test_bundles_that_stand_first_by_shared_items_are_a_leak_even_if_no_bundle_is_complete() -> None:
    # Of each of 200 bundles with two items of their own, the users have one item of their held-out bundles.
    users, bundles = np.arange(20), 200
    bi = np.stack([np.repeat(np.arange(bundles), 2), np.arange(2 * bundles)], axis=1)
    dataset = BundleDataset(
        "half", Nodes("user", 20), Nodes("bundle", bundles), Nodes("item", 2 * bundles),
        train=np.stack([np.repeat(users, 10), np.arange(bundles)], axis=1),
        validation=np.stack([users, (users * 10 + 15) % bundles], axis=1),
        test=np.stack([users, (users * 10 + 25) % bundles], axis=1),
        ui=np.stack([np.repeat(users, 2), np.stack([(users * 10 + 15) % bundles * 2, (users * 10 + 25) % bundles * 2], 1).ravel()], axis=1),
        bi=bi,
    )  # fmt: skip
    (message,) = messages(dataset, "leak")
    assert "for 0.0% of the 40 pairs" in message
    assert "100.0% of the bundles are in the first 20" in message
    assert "10.5% by chance" in message  # 20 of 190


def test_real_data_has_no_leak(real: Callable[[str], BundleDataset]) -> None:
    found = measure_held_out(real("Youshu"))
    assert (found.pairs, found.covered_share) == (14_935, 0.0)
    assert found.first_share < 0.08
    assert found.unseen_bundles == 606
    assert not describe(real("Youshu")).warnings
    (message,) = messages(with_items_of_bundles(real("Youshu")), "leak")
    assert "for 100.0% of the 14,935 pairs" in message


def test_many_users_are_ranked_by_a_sample(
    real: Callable[[str], BundleDataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = with_items_of_bundles(real("Youshu"))
    sampled = measure_held_out(dataset).first_share
    monkeypatch.setattr(checks, "RANKED_USERS", 10_000)
    assert sampled == pytest.approx(measure_held_out(dataset).first_share, abs=0.02)


def test_ids_written_in_two_ways_are_a_warning() -> None:
    chosen = pl.DataFrame({"user": [f"u{u}" for u in range(4) for _ in range(3)], "bundle": ["a", "b", "c"] * 4})
    bought = pl.DataFrame({"user": ["0", "1", "2"], "item": ["x", "y", "z"]})
    contents = pl.DataFrame({"bundle": ["a", "b", "c"], "item": ["x", "y", "z"]})
    expected = (
        r"user ids hardly overlap: 0 of the 3 in user_item are among the 4 in user_bundle \(user_item has '0', "
        r"user_bundle has 'u0'\). Ids that differ are different users: write them alike"
    )
    with pytest.warns(DataWarning, match=expected) as caught:
        dataset = BundleDataset.from_frames(chosen, bought, contents)
    assert len(dataset.users) == 7
    assert caught[0].filename == __file__
    assert [finding.arguments for finding in describe(dataset).warnings] == [("columns",)]


def test_ids_that_overlap_by_a_tenth_of_the_smaller_table_are_no_warning() -> None:
    users = np.arange(40)
    parts = {"users": Nodes("user", 40), "train": np.stack([users[:20], users[:20] % 3], axis=1)}
    assert not messages(make_dataset(**parts, ui=np.stack([users[18:38], users[18:38] % 5], axis=1)), "ids")
    (message,) = messages(make_dataset(**parts, ui=np.stack([users[19:39], users[19:39] % 5], axis=1)), "ids")
    assert "user ids hardly overlap: 1 of the 20 in" in message


def test_held_out_nodes_without_training_pairs_are_a_warning() -> None:
    train = np.array([[user, bundle] for user in range(10) for bundle in (0, 1)])
    parts = {"users": Nodes("user", 12), "bundles": Nodes("bundle", 5), "bi": np.array([[b, b] for b in range(5)])}
    validation = np.array([[user, 2] for user in range(5)])
    test = np.array([[5, 3], *([user, 2] for user in range(5, 8)), [10, 0], [11, 1]])
    dataset = make_dataset(train=train, validation=validation, test=test, **parts)
    users, bundles = messages(dataset, "unseen")
    assert users.startswith("2 users are in validation or test, but not in train: 18.2% of the 11 held-out pairs. ")
    assert bundles.startswith("2 bundles are in validation or test, but not in train: 81.8% of the 11 held-out pairs.")
    seen = replace(dataset, train=np.concatenate([train, [[9, 2], [10, 1], [11, 0]]]))
    (bundles,) = messages(seen, "unseen")
    assert bundles.startswith("1 bundle is in validation or test, but not in train: 9.1% of")


def test_shares_of_few_held_out_pairs_are_no_warning(small: BundleDataset) -> None:
    assert measure_held_out(small).unseen_bundles_share == 0.4
    assert not describe(small).warnings


@pytest.mark.parametrize(("rows", "warned"), [(20, True), (19, False)])
def test_a_new_id_in_each_row_is_a_warning(rows: int, warned: bool) -> None:
    dataset = make_dataset(users=Nodes("user", 30), ui=np.array([[user, user % 5] for user in range(rows)]))
    expected = f"user_item: nearly each row has another user ({rows} users in {rows} pairs). Check that the user column"
    assert [message.startswith(expected) for message in messages(dataset, "table")] == [True] * warned


@pytest.mark.parametrize(("pairs", "warned"), [(5, False), (4, True)])
def test_a_table_with_hardly_any_rows_is_a_warning(pairs: int, warned: bool) -> None:
    users = np.arange(100)
    train = np.concatenate([np.stack([users, users % 2], axis=1), [[0, 1], [1, 0]]])
    dataset = make_dataset(
        users=Nodes("user", 100), train=train, validation=[[0, 2]], test=[[1, 2]], ui=np.array([[u, u % 4] for u in range(pairs)])
    )  # fmt: skip
    found = [message for message in messages(dataset, "table") if "almost empty" in message]
    assert found == ["user_item: almost empty, 4 pairs for 100 users. Check that the table is complete and its ids are "
                     "those of the other tables"] * warned  # fmt: skip


def test_hiding_the_items_of_held_out_bundles_removes_the_leak_and_counts(tiny: World) -> None:
    leaky = frames_of(with_items_of_bundles(tiny.dataset))
    with pytest.warns(DataWarning, match="can be read off user_item"):
        before = BundleDataset.from_frames(**leaky)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = BundleDataset.from_frames(**leaky, hide_held_out_items=True)
    assert after.hidden == len(before.ui) - len(after.ui) > 0
    assert before.hidden == 0
    assert measure_held_out(after).covered_share < 0.2  # all items of some are in training bundles of the user


def test_hiding_everything_is_an_error(small: BundleDataset) -> None:
    frames = frames_of(small) | {"user_item": pl.DataFrame({"user": [0, 1], "item": [3, 4]})}
    with pytest.raises(InputError, match="user_item: all of its 2 pairs came with held-out bundles") as caught:
        BundleDataset.from_frames(**frames, hide_held_out_items=True)
    assert caught.value.arguments == ("hide_held_out_items",)


def test_held_out_pairs_are_measured_alike_in_blocks(tiny: World, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = measure_held_out(tiny.dataset)
    monkeypatch.setattr(checks, "BLOCK_PAIRS", 7)
    assert measure_held_out(tiny.dataset) == at_once
