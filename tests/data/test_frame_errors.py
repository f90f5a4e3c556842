from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from clbr import BundleDataset, InputError, SplitConfig
from relations import BOUGHT, CHOSEN, MAKERS, USERS, Make, frames


def change(name: str, **columns: object) -> Callable[[Make], dict[str, Any]]:
    return lambda make: frames(make, **{name: columns})


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (change("user_bundle", user=[*USERS * 3, None, None, "u2"]), r"user_bundle, row 9 \(counted from 0\): user id '' is empty; expected text or a whole number"),
        (change("user_item", user=["a", " ", "b"]), r"user_item, row 1 \(counted from 0\): user id ' ' is empty"),
        (change("bundle_item", item=[1.0, 2.5, 3.0, 4.0]), r"bundle_item, row 1 .*: item id '2.5' is not a whole number"),
        (change("bundle_item", item=[1, 2, -3, 4]), r"bundle_item, row 2 .*: item id '-3' is negative"),
        (change("bundle_item", item=[True, False, True, True]), r"bundle_item: column 'item' is Boolean, expected text or whole numbers"),
        (change("bundle_item", item=[b"a", b"b", b"c", b"d"]), r"bundle_item: column 'item' is Binary"),
    ],
)  # fmt: skip
def test_a_wrong_id_is_named_with_its_frame_row_and_value(
    make: Make, given: Callable[[Make], dict[str, Any]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        BundleDataset.from_frames(**given(make))


def test_a_pandas_column_of_several_types_is_an_error_with_its_row() -> None:
    given = frames(pd.DataFrame, user_item={"item": pd.Series(["tea", 3, None], dtype=object)})
    message = r"user_item, row 1 .*: column 'item' holds int after str; expected one type: convert the column"
    with pytest.raises(InputError, match=message):
        BundleDataset.from_frames(**given)


@pytest.mark.parametrize("make", MAKERS)
def test_a_missing_column_is_named_with_the_columns_there_are(make: Make) -> None:
    given = frames(make) | {"user_item": make({"buyer": ["a"], "item": ["x"]})}
    message = (
        r"user_item: no column 'user'; its columns are 'buyer', 'item'. Rename one to 'user', or name the user column"
    )
    with pytest.raises(InputError, match=message) as caught:
        BundleDataset.from_frames(**given)
    assert caught.value.arguments == ("columns",)
    with pytest.raises(InputError, match="user_item: no column 'sku'; its columns are 'buyer', 'item'"):
        BundleDataset.from_frames(**given, columns={"user_item.user": "buyer", "user_item.item": "sku"})
    with pytest.raises(InputError, match=r"columns: unknown key 'usr', did you mean 'user'\?"):
        BundleDataset.from_frames(**given, columns={"usr": "buyer"})


def test_an_id_in_the_index_is_an_error_that_says_so() -> None:
    given = frames(pd.DataFrame) | {"user_item": pd.DataFrame(BOUGHT).set_index("user")}
    with pytest.raises(InputError, match=r"no column 'user'; 'user' is its index. Call reset_index\(\) first"):
        BundleDataset.from_frames(**given)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([("u", "b")], "user_item: is a list, expected a pandas or polars DataFrame"),
        (BOUGHT, "user_item: is a dict, expected a pandas"),
        (None, "user_item: is a NoneType, expected a pandas"),
        ("bought.csv", "user_item: is a path, expected .*; import_tables reads files"),
        (Path("bought.csv"), "user_item: is a path"),
        (pl.LazyFrame(BOUGHT), r"user_item: is a polars LazyFrame, expected .*; call collect\(\) first"),
        (pd.Series([1]), "user_item: is a pandas Series, expected"),
        (np.ones((3, 2)), "user_item: is a numpy ndarray, expected"),
        (pd.DataFrame([["u", "x"]], columns=["user", "user"]), "user_item: Expected unique column names"),
        (pd.DataFrame(BOUGHT)[:0], "user_item: has no rows, expected at least one"),
        (pl.DataFrame(BOUGHT)[:0], "user_item: has no rows, expected at least one"),
        (pl.DataFrame(), "user_item: has no rows"),
        (pd.DataFrame([["u", "x"]]), "user_item: no column 'user'; its columns are '0', '1'"),
    ],
)
def test_what_is_no_frame_with_rows_is_an_error(wrong: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        BundleDataset.from_frames(**(frames(pl.DataFrame) | {"user_item": wrong}))


@pytest.mark.parametrize("make", MAKERS)
def test_a_pair_in_two_splits_is_an_error_with_both_rows(make: Make) -> None:
    given = frames(make, user_bundle={"user": ["a"] * 12, "split": ["train", "validation", "test"] * 4})
    message = (
        r"user_bundle, row 1 \(counted from 0\): user 'a' and bundle 'b1' are a pair of validation, but of train in "
        r"user_bundle, row 9 \(counted from 0\) \(8 such\): a pair belongs to one split; delete it from the others"
    )
    with pytest.raises(InputError, match=message):
        BundleDataset.from_frames(**given, split="given")


@pytest.mark.parametrize("make", MAKERS)
def test_a_pair_in_two_frames_of_the_split_is_an_error_with_both_rows(make: Make) -> None:
    held_out = {"validation": make({"user": ["z", "z"], "bundle": ["b1", "b2"]})}
    held_out["test"] = make({"user": ["y", "u9"], "bundle": ["b1", "b4"]})
    message = (
        r"test, row 1 .*: user 'u9' and bundle 'b4' are a pair of test, but of train in user_bundle, row 7 .*1 such"
    )
    with pytest.raises(InputError, match=message):
        BundleDataset.from_frames(**frames(make), **held_out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "lats"}, "split: method = 'lats'"),
        ({"validation": 0.5, "test": 0.5}, "split: validation 0.5 and test 0.5 leave nothing to train on"),
        ({"validation": -0.1}, "split: validation = -0.1"),
        ({"seed": -1}, "split: seed = -1"),
        ({"split": "last", "test": 0.3}, "split: the method last uses no shares"),
        ({"split": SplitConfig(), "seed": 1}, "split is a SplitConfig, which holds the shares and the seed"),
        ({"validation": pl.DataFrame(CHOSEN)}, "validation and test: one is a share, one a frame; give two shares or two frames"),
        ({"validation": None, "test": None}, "validation: is a NoneType, expected a pandas or polars DataFrame"),
        ({"validation": pl.DataFrame(CHOSEN), "test": pl.DataFrame(CHOSEN), "split": "last"}, "so the split is given; leave split out"),
        ({"split": "given"}, "user_bundle: no column 'split'"),
        ({"split": "last"}, "user_bundle: no column 'time'"),
        ({"name": "a/b"}, "name 'a/b': expected a letter or digit"),
        ({"item_names": {"tea": 3}}, "item_names: the name of item 'tea' is 3, expected text"),
        ({"item_names": {None: "x"}}, "item_names, position 0: None is no id"),
        ({"item_names": {}}, "item_names: has no rows"),
        ({"item_names": pd.DataFrame({"item": ["tea"], "name": [3]})}, "item_names: column 'name' is Int64, expected text"),
        ({"item_names": {"coffee": "Coffee"}}, "item_names: none of its ids is in the relations: it has item 'coffee'"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_an_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        BundleDataset.from_frames(**frames(pl.DataFrame), **arguments)


@pytest.mark.parametrize(
    ("changes", "split", "message"),
    [
        ({"split": ["train"] * 12}, "given", "the split leaves validation empty; it has no such row"),
        ({"split": ["train"] * 11 + [None]}, "given", r"row 11 .*: split '', expected train, validation, test"),
        (
            {"user": list("abcdefghijkl")},
            "random",
            "the split leaves validation empty; each user has one pair .is the user column the right one",
        ),
        ({"time": [1.0] * 11 + [None]}, "last", r"user_bundle, row 11 .*: time '' is not a number, a date"),
    ],
)
@pytest.mark.parametrize("make", MAKERS)
def test_a_split_that_cannot_be_made_is_an_error(make: Make, changes: dict[str, Any], split: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        BundleDataset.from_frames(**frames(make, user_bundle=changes), split=split)
