import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clbr import BundleDataset, InputError, SplitConfig, import_tables
from clbr.data.frames import make_frame, read_ids
from relations import BOUGHT, CHOSEN, CONTENTS, MAKERS, USERS, Make, frames


def everything(dataset: BundleDataset) -> tuple[object, ...]:
    """All that a data set is to a model, and its ids and names."""
    nodes = (dataset.users, dataset.bundles, dataset.items)
    return dataset.fingerprint, *((node.ids, node.names) for node in nodes)


@pytest.mark.parametrize("make", MAKERS)
def test_three_frames_become_a_dataset(make: Make) -> None:
    dataset = BundleDataset.from_frames(**frames(make), name="home")
    assert dataset.name == "home"
    assert dataset.users.ids == ("u10", "u2", "u7", "u9")
    assert dataset.bundles.ids == ("b1", "b2", "b3", "b4", "b9")
    assert dataset.items.ids == ("ham", "jam", "tea")
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (6, 3, 3)
    assert dataset.ui.tolist() == [[1, 1], [2, 2], [3, 2]]
    assert dataset.bi.tolist() == [[0, 2], [1, 1], [2, 0], [4, 2]]
    assert dataset.backend == ("pandas" if make is pd.DataFrame else "polars")


def test_the_user_bundle_frame_decides_the_backend() -> None:
    mixed = frames(pl.DataFrame) | {"user_bundle": pd.DataFrame(CHOSEN)}
    assert BundleDataset.from_frames(**mixed).backend == "pandas"
    mixed = frames(pd.DataFrame) | {"user_bundle": pl.DataFrame(CHOSEN)}
    assert BundleDataset.from_frames(**mixed).backend == "polars"


@pytest.mark.parametrize("ids", ["text", "numbers"])
@pytest.mark.parametrize("split", ["random", "last", "given"])
def test_frames_and_files_give_the_same_dataset(tmp_path: Path, split: str, ids: str) -> None:
    number = {"u10": 10, "u9": 9, "u2": 2, "u7": 7}
    chosen = CHOSEN | {
        "user": [number[u] if ids == "numbers" else u for u in CHOSEN["user"]],
        "time": list(range(12)),
        "split": ["train", "validation", "test", "train"] * 3,
    }
    bought = BOUGHT | {"user": [number[u] if ids == "numbers" else u for u in BOUGHT["user"]]}
    names = {"item": ["tea", "ham"], "name": ["Green tea", None]}
    tables = {"user_bundle": chosen, "user_item": bought, "bundle_item": CONTENTS, "item_names": names}
    found = []
    for suffix in (".csv", ".parquet"):
        paths = {}
        for name, columns in tables.items():
            paths[name], frame = tmp_path / f"{name}{suffix}", pl.DataFrame(columns)
            frame.write_csv(paths[name]) if suffix == ".csv" else frame.write_parquet(paths[name])
        config = SplitConfig.make({"method": split, "seed": 3})
        found.append(import_tables(**paths, split=config).dataset)  # type: ignore[arg-type]
    for make in MAKERS:
        given = {name: make(columns) for name, columns in tables.items()}
        found.append(BundleDataset.from_frames(**given, split=split, seed=3))
        found.append(BundleDataset.from_frames(**given, split=config))
    assert all(everything(dataset) == everything(found[0]) for dataset in found)
    integer = [dataset.users.integer_ids for dataset in found]
    assert integer == ([False] + [True] * 5 if ids == "numbers" else [False] * 6)  # text files have no types


@pytest.mark.filterwarnings("ignore::clbr.DataWarning")
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=60), st.randoms())
def test_the_order_of_rows_and_the_kind_of_frame_have_no_effect(pairs: list[tuple[int, int]], random: Any) -> None:
    pairs = [*pairs, (0, 1), (0, 2), (0, 3)]
    shuffled = random.sample([*pairs, *pairs[:3]], len(pairs) + len(pairs[:3]))
    rest = {"user_item": pl.DataFrame({"user": [0], "item": [0]}), "bundle_item": pl.DataFrame({"bundle": [0], "item": [0]})}  # fmt: skip
    one = BundleDataset.from_frames(pl.DataFrame(pairs, schema=["user", "bundle"], orient="row"), **rest)
    other = BundleDataset.from_frames(pd.DataFrame(shuffled, columns=["user", "bundle"]).astype(str), **rest)
    assert everything(one) == everything(other)
    assert other.merged["user_bundle"] == one.merged["user_bundle"] + len(pairs[:3])


PANDAS_IDS = {
    "int64": lambda ids: pd.Series(ids, dtype="int64"),
    "int8": lambda ids: pd.Series(ids, dtype="int8"),
    "nullable": lambda ids: pd.Series(ids, dtype="Int64"),
    "unsigned": lambda ids: pd.Series(ids, dtype="uint32"),
    "object of int": lambda ids: pd.Series(ids, dtype=object),
    "float": lambda ids: pd.Series(ids, dtype="float64"),
    "categorical": lambda ids: pd.Series(ids).astype("category"),
}


@pytest.mark.parametrize("kind", PANDAS_IDS)
def test_whole_numbers_of_every_pandas_type_are_ids_and_come_back_as_whole_numbers(kind: str) -> None:
    users = PANDAS_IDS[kind]([10] * 4 + [9] * 4 + [2] * 4)
    given = frames(pd.DataFrame, user_bundle={"user": users}, user_item={"user": [9, 2, 7]})
    nodes = BundleDataset.from_frames(**given).users
    assert nodes.ids == ("2", "7", "9", "10")
    assert nodes.integer_ids
    assert nodes.values([3, 0]) == [10, 2]


@pytest.mark.parametrize("kind", ["str", "object", "string", "category"])
def test_texts_of_every_pandas_type_are_ids(kind: str) -> None:
    users = pd.Series(CHOSEN["user"]).astype(kind)
    given = frames(pd.DataFrame, user_bundle={"user": users})
    assert everything(BundleDataset.from_frames(**given)) == everything(
        BundleDataset.from_frames(**frames(pl.DataFrame))
    )


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(USERS), pl.String])
def test_texts_of_every_polars_type_are_ids(dtype: Any) -> None:
    given = frames(pl.DataFrame, user_bundle={"user": pl.Series(CHOSEN["user"], dtype=dtype)})
    assert everything(BundleDataset.from_frames(**given)) == everything(
        BundleDataset.from_frames(**frames(pl.DataFrame))
    )


def test_a_whole_number_and_its_text_are_the_same_id() -> None:
    chosen = {"user": [17] * 4, "bundle": ["1", "2", "3", "01"]}
    bought = {"user": ["17", "8"], "item": ["x", "y"]}
    contents = {"bundle": [1, 2], "item": ["x", "y"]}
    dataset = BundleDataset.from_frames(pd.DataFrame(chosen), pl.DataFrame(bought), pl.DataFrame(contents))
    assert dataset.users.ids == ("8", "17")
    assert dataset.bundles.ids == ("01", "1", "2", "3")
    assert not dataset.users.integer_ids  # text in one frame
    assert not dataset.bundles.integer_ids


@pytest.mark.parametrize("make", MAKERS)
def test_columns_are_named_for_all_frames_or_for_one(make: Make) -> None:
    renamed = {
        "user_bundle": make({"customer": CHOSEN["user"], "cart": CHOSEN["bundle"], "note": ["x"] * 12}),
        "user_item": make({"customer": BOUGHT["user"], "sku": BOUGHT["item"]}),
        "bundle_item": make({"Bundle_ID": CONTENTS["bundle"], "item_id": CONTENTS["item"]}),
    }
    columns = {"user": "customer", "user_bundle.bundle": "cart", "user_item.item": "sku"}
    names = {"u9": "Nina"}  # a mapping has no columns
    dataset = BundleDataset.from_frames(**renamed, columns=columns, user_names=names)
    assert everything(dataset) == everything(BundleDataset.from_frames(**frames(make), user_names=names))


def test_the_columns_of_a_pandas_frame_may_be_numbers() -> None:
    given = frames(pd.DataFrame)
    given["user_item"] = pd.DataFrame({0: BOUGHT["user"], 1: BOUGHT["item"]})
    columns: dict[str, Any] = {"user_item.user": 0, "user_item.item": 1}
    expected = everything(BundleDataset.from_frames(**frames(pd.DataFrame)))
    assert everything(BundleDataset.from_frames(**given, columns=columns)) == expected


@pytest.mark.parametrize("make", MAKERS)
def test_names_are_frames_or_mappings(make: Make) -> None:
    named = make({"id": ["b3", "b1", "unknown"], "name": ["Three", None, "?"]})
    users = {"u9": "Nina", "u10": None, "nobody": "No"}
    dataset = BundleDataset.from_frames(**frames(make), user_names=users, bundle_names=named)
    assert dataset.bundles.names == (None, None, "Three", None, None)
    assert dataset.users.names == (None, None, None, "Nina")
    assert dataset.items.names is None


def test_names_of_whole_number_ids_are_a_mapping_of_whole_numbers() -> None:
    given = frames(pd.DataFrame, user_bundle={"user": [10] * 4 + [9] * 8}, user_item={"user": [9, 2, 7]})
    dataset = BundleDataset.from_frames(**given, user_names={9: "Nina", np.int64(2): "Zoe"})
    assert dataset.users.names == ("Zoe", None, "Nina", None)


@pytest.mark.parametrize("make", MAKERS)
def test_frames_for_validation_and_test_are_the_split(make: Make) -> None:
    parts = {
        "user_bundle": make({"user": ["a", "b", "a"], "bundle": ["x", "x", "x"]}),
        "validation": make({"user": ["a"], "bundle": ["y"]}),
        "test": make({"user": ["b", "c"], "bundle": ["z", "x"]}),
    }
    rest = {"user_item": make({"user": ["c"], "item": ["i"]}), "bundle_item": make({"bundle": ["x"], "item": ["i"]})}
    dataset = BundleDataset.from_frames(**parts, **rest)
    users, bundles = dataset.users, dataset.bundles
    found = {
        split: [(users.id(u), bundles.id(b)) for u, b in dataset.pairs(split).tolist()]
        for split in ("train", "validation", "test")
    }
    assert found == {"train": [("a", "x"), ("b", "x")], "validation": [("a", "y")], "test": [("b", "z"), ("c", "x")]}
    assert dataset.merged["user_bundle"] == 1


@pytest.mark.parametrize(
    "times",
    [
        pd.to_datetime([f"2024-01-{day:02}" for day in range(1, 13)]),
        pd.date_range("2024-01-01", periods=12, unit="s", tz="UTC"),
        pd.date_range("2024-01-01", periods=12).date,
        [f"2024-01-{day:02}" for day in range(1, 13)],
        np.arange(12) / 7,
    ],
)
def test_the_last_pair_by_time_is_for_test(times: Any) -> None:
    given = frames(pd.DataFrame, user_bundle={"time": times})
    dataset = BundleDataset.from_frames(**given, split="last")
    assert [dataset.bundles.id(bundle) for bundle in dataset.test[:, 1]] == ["b4"] * 3
    assert [dataset.bundles.id(bundle) for bundle in dataset.validation[:, 1]] == ["b2"] * 3


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ("u17", ["u17"]),
        (17, ["17"]),
        (np.int64(17), ["17"]),
        (["u1", 3, 4.0, np.int32(5)], ["u1", "3", "4", "5"]),
        (("a",), ["a"]),
        (np.array([3, 4]), ["3", "4"]),
        (pd.Series([3, 4], index=[7, 8]), ["3", "4"]),
        (pd.Series(["a", "b"]).astype("category"), ["a", "b"]),
        (pl.Series(["a", "b"]), ["a", "b"]),
        (range(2), ["0", "1"]),
        ([], []),
    ],
)
def test_ids_are_read_from_one_value_a_list_an_array_or_a_series(given: object, texts: list[str]) -> None:
    assert read_ids(given, "users") == texts


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "users: is a NoneType, expected one id or a list of ids"),
        (pd.DataFrame(BOUGHT), "users: is a DataFrame, expected one id"),
        (True, "users: True is no id"),
        (b"ab", "users: is a bytes"),
        (["a", None], "users, position 1: None is no id, expected text or a whole number"),
        ([1.5], "users, position 0: 1.5 is no id"),
        (pd.Series([1, None]), "users, position 1: nan is no id"),
        (["a", ["b"]], "users, position 1"),
        ([""], "users, position 0: '' is no id"),
    ],
)
def test_what_is_no_id_is_an_error_with_its_position(given: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_ids(given, "users")


def test_a_frame_is_made_for_the_backend() -> None:
    columns = {"user": ["a", "b"], "name": ["A", None], "score": np.array([0.5, 0.25])}
    made = make_frame(columns, "polars")
    assert isinstance(made, pl.DataFrame)
    assert made.to_dicts() == [{"user": "a", "name": "A", "score": 0.5}, {"user": "b", "name": None, "score": 0.25}]
    made = make_frame(columns, "pandas")
    assert isinstance(made, pd.DataFrame)
    assert made.columns.tolist() == list(columns)
    assert made["score"].tolist() == [0.5, 0.25]
    assert len(make_frame({"user": []}, "pandas")) == len(make_frame({"user": []}, "polars")) == 0


def test_an_unknown_or_missing_backend_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"unknown backend 'panda', did you mean 'pandas'\?"):
        make_frame({"a": [1]}, "panda")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pandas is not installed; install it, or choose another backend"):
        make_frame({"a": [1]}, "pandas")
