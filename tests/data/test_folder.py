from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clbr import BundleDataset, InputError, Nodes, load, save
from clbr.data.folder import TABLES
from conftest import make_dataset

FILES = ("small_data_size.txt", *TABLES.values())


@pytest.fixture
def folder(tmp_path: Path, small: BundleDataset) -> Path:
    return save(small, tmp_path / "small")


def same(one: BundleDataset, other: BundleDataset) -> bool:
    nodes = all(
        (mine.count, mine.ids, mine.names) == (theirs.count, theirs.ids, theirs.names)
        for mine, theirs in zip(
            (one.users, one.bundles, one.items), (other.users, other.bundles, other.items), strict=True
        )
    )
    return (
        one.name == other.name
        and nodes
        and all(getattr(one, part).tolist() == getattr(other, part).tolist() for part in TABLES)
    )


def test_what_was_saved_is_loaded(folder: Path, small: BundleDataset) -> None:
    assert same(load(folder), small)
    assert (folder / "user_item.txt").read_text() == "0\t0\n0\t4\n1\t1\n2\t2\n"
    assert (folder / "small_data_size.txt").read_text() == "3\t4\t5\n"


AWKWARD = ("a,b", 'say "hi"', "two\nlines", " space ", "é漢", "", "NULL", "007", "\ttab")


def test_ids_and_names_with_special_characters_are_saved_and_loaded(tmp_path: Path) -> None:
    bundles = Nodes("bundle", 4, AWKWARD[:4], ("", None, AWKWARD[2], AWKWARD[4]))
    items = Nodes("item", 5, None, (None, "x", None, None, "y"))
    written = make_dataset(users=Nodes("user", 3, ("007", "7", "x")), bundles=bundles, items=items)
    read = load(save(written, tmp_path / "out"))
    assert read.bundles.ids == bundles.ids
    assert read.bundles.names == bundles.names
    assert read.items.names == items.names
    assert read.users.ids == ("007", "7", "x")


@pytest.mark.parametrize("part", ["validation", "test", "ui", "bi"])
def test_what_could_not_be_loaded_again_is_not_saved(tmp_path: Path, part: str) -> None:
    with pytest.raises(InputError, match="small: has no pairs for"):
        save(make_dataset(**{part: np.empty((0, 2), int)}), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_windows_line_ends_a_missing_last_one_and_a_byte_order_mark_are_read(
    folder: Path, small: BundleDataset
) -> None:
    (folder / "user_item.txt").write_bytes(b"\xef\xbb\xbf0\t0\r\n0\t4\r\n1\t1\r\n2\t2")
    (folder / "bundle_item.txt").write_bytes((folder / "bundle_item.txt").read_bytes() + b"\n\n")
    assert same(load(folder), small)


def test_repeated_rows_of_a_file_are_merged_and_counted(folder: Path, small: BundleDataset) -> None:
    (folder / "user_item.txt").write_text("1\t1\n0\t0\n0\t4\n1\t1\n2\t2\n1\t1\n")
    again = load(folder)
    assert same(again, small)
    assert dict(again.merged) == {"user_item.txt": 2}


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("user_item.txt", b"0\t0\n7\n", r"user_item.txt, line 2: found 1 column \('7'\), expected a user id and an item id"),
        ("user_item.txt", b"0\t0\t1\n", "line 1: found 3 columns"),
        ("user_item.txt", b"0,1\n1,1\n", "line 1: found 1 column"),
        ("user_item.txt", b"user\titem\n0\t0\n", "line 1: 'user' and 'item' look like a header; this layout has none"),
        ("user_item.txt", b"0\t0\n-1\t0\n", "line 2: user id '-1' is negative; expected a whole number from 0 to 2"),
        ("user_item.txt", b"0\t99999999999999999999999\n", "item id '9+' is too large for an id"),
        ("user_item.txt", b"0\t0\n1.5\t0\n", "line 2: user id '1.5' is not a whole number"),
        ("user_item.txt", b"0\t0\n1\t\n", "line 2: item id '' is empty"),
        ("user_item.txt", b"0\t0\n\n1\t1\n", "line 2: found an empty line"),
        ("user_item.txt", b"0\t0\nx7\t1\n", "line 2: user id 'x7' is not a number"),
        ("user_item.txt", b"0\t5\n", "line 1: item id 5 is beyond the 5 items of the size file; expected .* 0 to 4"),
        ("bundle_item.txt", b"4\t0\n", "line 1: bundle id 4 is beyond the 4 bundles"),
        ("user_item.txt", b"0\t0\n\xff\xfe\t1\n", "line 2: bytes that are not UTF-8 text"),
        ("user_item.txt", b"", "user_item.txt: is empty; expected a line per pair: user, tab, item"),
        ("user_item.txt", b"\n\n", "user_item.txt: is empty"),
        ("user_bundle_tune.txt", b"", "is empty"),
        ("user_bundle_test.txt", b"0\t1\n", r"user_bundle_test.txt, line 1: user 0 and bundle 1 are a pair in user_bundle_train.txt, line 2, too \(1 such\)"),
        ("small_data_size.txt", b"3\t4\n", "found '3\t4', expected three whole numbers: users, bundles, items"),
        ("small_data_size.txt", b"3\t4\t-5\n", "expected three whole numbers"),
        ("small_data_size.txt", b"users\n", "expected three whole numbers"),
        ("small_data_size.txt", b"3\t4\t9000000000\n", r"small_data_size.txt, line 1: 9000000000 items, expected between 1 and"),
        ("small_data_size.txt", b"2\t4\t5\n", "user id 2 is beyond the 2 users of the size file"),
        ("users.csv", b"id\na\nb\n", "has 2 users, but the size file says 3"),
        ("users.csv", b"a\nb\nc\nd\n", "line 1: expected the header id or id,name, found a"),
        ("users.csv", b"id,name\na,x\n,y\nc,z\n", "users.csv, line 3: empty id"),
        ("users.csv", b"id\n\xff\nb\nc\n", "not a CSV file in UTF-8"),
        ("users.csv", b"id\na\nb\na\n", "users.csv, line 2: id 'a' is repeated"),
        ("small_data_size.txt", b"3\t0\t5\n", "line 1: 0 bundles, expected between 1 and"),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_with_line_value_and_what_was_expected(
    folder: Path, file: str, content: bytes, message: str
) -> None:
    (folder / file).write_bytes(content)
    with pytest.raises(InputError, match=message):
        load(folder)


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(InputError, match=r"no such file"):
        load(folder)


def test_what_is_no_data_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        load(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        load(tmp_path / "file")
    (tmp_path / "a_data_size.txt").write_text("1 1 1")
    (tmp_path / "b_data_size.txt").write_text("1 1 1")
    with pytest.raises(InputError, match="found a_data_size.txt, b_data_size.txt"):
        load(tmp_path)


def test_a_folder_in_place_of_a_file_is_an_input_error(folder: Path) -> None:
    (folder / "user_item.txt").unlink()
    (folder / "user_item.txt").mkdir()
    with pytest.raises(InputError, match=r"cannot be read"):
        load(folder)


NEARLY = st.lists(
    st.sampled_from([b"0", b"1", b"2", b"9", b"-1", b"1.5", b"\t", b"\t", b"\n", b"\n", b"\r", b"x", b" ", b'"', b"\xff", b"\x00", b"+"]),
    max_size=12,
).map(b"".join)  # fmt: skip


@pytest.mark.parametrize("file", [*FILES, "bundles.csv"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=40) | NEARLY)
def test_arbitrary_bytes_give_a_dataset_or_an_input_error(folder: Path, file: str, content: bytes) -> None:
    before = (folder / file).read_bytes() if (folder / file).exists() else None
    (folder / file).write_bytes(content)
    try:
        assert isinstance(load(folder), BundleDataset)
    except InputError as error:
        assert str(error)
    finally:
        (folder / file).unlink() if before is None else (folder / file).write_bytes(before)


@pytest.mark.parametrize(
    ("name", "sizes", "parts"),
    [
        ("Youshu", (8_039, 4_771, 32_770), (34_416, 5_189, 9_746, 138_515, 176_667)),
        ("NetEasePartial", (18_528, 22_864, 123_628), (217_864, 27_857, 56_555, 486_149, 694_918)),
    ],
)
def test_real_data_has_its_true_counts(
    real: Callable[[str], BundleDataset], name: str, sizes: tuple[int, ...], parts: tuple[int, ...]
) -> None:
    dataset = real(name)
    assert (len(dataset.users), len(dataset.bundles), len(dataset.items)) == sizes
    assert tuple(len(getattr(dataset, part)) for part in TABLES) == parts
    assert dataset.train.dtype == np.int32
