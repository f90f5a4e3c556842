import tracemalloc
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from clbr import BundleDataset, InputError, Nodes, World, import_tables, load, save
from clbr.data import pair_files
from clbr.data.folder import TABLES, is_data_folder
from conftest import make_dataset, small_disk
from typed import Run


@pytest.fixture
def folder(tmp_path: Path, small: BundleDataset) -> Path:
    return save(small, tmp_path / "small", format="parquet")


def write(path: Path, **columns: object) -> None:
    pl.DataFrame(columns).write_parquet(path)


def test_text_and_parquet_of_one_data_set_have_the_same_fingerprint_and_names(tmp_path: Path, tiny: World) -> None:
    text, parquet = (load(save(tiny.dataset, tmp_path / form, format=form)) for form in ("text", "parquet"))  # type: ignore[arg-type]
    assert text.fingerprint == parquet.fingerprint == tiny.dataset.fingerprint
    assert parquet.items.names == tiny.dataset.items.names
    assert sorted(file.name for file in (tmp_path / "parquet" / "user_item").iterdir()) == ["part-0000.parquet"]
    assert is_data_folder(tmp_path / "parquet")


def test_a_parquet_folder_holds_the_columns_of_its_kinds(folder: Path) -> None:
    table = pl.read_parquet(folder / "user_item" / "part-0000.parquet")
    assert table.schema == {"user": pl.Int32, "item": pl.Int32}
    assert table.rows() == [(0, 0), (0, 4), (1, 1), (2, 2)]
    assert not list(folder.glob("*_item.txt"))


@pytest.mark.parametrize("kind", [pl.Int8, pl.UInt16, pl.Int64, pl.UInt64])
def test_a_table_may_be_one_file_of_any_whole_numbers_in_any_order_with_repeated_rows(
    folder: Path, small: BundleDataset, kind: pl.DataType
) -> None:
    for file in (folder / "user_item").iterdir():
        file.unlink()
    (folder / "user_item").rmdir()
    table = pl.DataFrame({"item": [4, 2, 1, 0, 1], "note": list("abcde"), "user": [0, 2, 1, 0, 1]})
    table.with_columns(pl.col("item", "user").cast(kind)).write_parquet(folder / "user_item.parquet")
    read = load(folder)
    assert read.ui.tolist() == small.ui.tolist()
    assert dict(read.merged) == {"user_item.parquet": 1}


def test_parts_are_read_in_the_order_of_their_names_and_in_pieces(
    folder: Path, small: BundleDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_files, "PIECE", 2)
    assert load(folder).fingerprint == small.fingerprint
    again = save(small, folder.parent / "again", format="parquet")
    assert [len(pl.read_parquet(file)) for file in sorted((again / "train").parent.glob("user_bundle_train/*"))] == [
        2,
        2,
        1,
    ]
    assert load(again).fingerprint == small.fingerprint
    assert not np.shares_memory(load(again).train, small.train)


def test_two_forms_of_one_table_are_an_error(folder: Path) -> None:
    (folder / "user_item.txt").write_text("0\t0\n")
    with pytest.raises(InputError, match="has user_item.txt and user_item, two forms of one table; delete one of them"):
        load(folder)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": [0], "thing": [1]}, "no column 'item'; its columns are 'user', 'thing', expected user, item"),
        ({"user": ["0"], "item": [1]}, "column 'user' is String, expected whole numbers"),
        ({"user": [0.0], "item": [1]}, "column 'user' is Float64, expected whole numbers"),
        ({"user": [0, 1], "item": [1, 5]}, "row 2: item id 5 is beyond the 5 items of the size file; expected a whole number from 0 to 4"),
        ({"user": [0, -1], "item": [1, 1]}, "row 2: user id '-1' is negative"),
        ({"user": [0, None], "item": [1, 1]}, "row 2: empty user id"),
        ({"user": np.array([0, 2**64 - 1], np.uint64), "item": [1, 1]}, "row 2: user id 18446744073709551615 is beyond"),
        ({"user": np.array([], np.int32), "item": np.array([], np.int32)}, "user_item: has no rows"),
    ],
)  # fmt: skip
def test_a_bad_parquet_table_is_named_with_its_fault(folder: Path, columns: dict[str, object], message: str) -> None:
    write(folder / "user_item" / "part-0000.parquet", **columns)
    with pytest.raises(InputError, match=message):
        load(folder)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"0\t0\n", None])
def test_a_broken_parquet_file_is_one_message(folder: Path, content: bytes | None) -> None:
    file = folder / "user_item" / "part-0000.parquet"
    file.write_bytes(file.read_bytes()[:-9] if content is None else content)
    with pytest.raises(InputError, match="user_item/part-0000.parquet: not a complete Parquet file"):
        load(folder)


def test_a_folder_without_parquet_files_is_an_error(folder: Path) -> None:
    (folder / "user_item" / "part-0000.parquet").rename(folder / "user_item" / "other")
    with pytest.raises(InputError, match="user_item: is a folder without Parquet files"):
        load(folder)
    assert not is_data_folder(folder)


def test_a_pair_of_two_splits_is_named_with_its_rows(folder: Path) -> None:
    write(folder / "user_bundle_test" / "part-0000.parquet", user=[1, 0], bundle=[3, 1])
    found = (
        r"small/user_bundle_test/part-0000.parquet, row 2: user 0 and bundle 1 are a pair in "
        r"user_bundle_train/part-0000.parquet, row 2, too \(1 such\)"
    )
    with pytest.raises(InputError, match=found):
        load(folder)


def test_only_folders_that_save_writes_are_replaced(folder: Path, small: BundleDataset) -> None:
    save(small, folder, force=True)
    assert (folder / "user_item.txt").exists() and not (folder / "user_item").exists()
    save(small, folder, force=True, format="parquet")
    (folder / "user_item" / "notes.parquet").write_text("mine")
    with pytest.raises(InputError, match="holds other things"):
        save(small, folder, force=True)
    assert (folder / "user_item" / "notes.parquet").read_text() == "mine"


def test_a_full_disk_leaves_nothing(tmp_path: Path, tiny: World) -> None:
    with small_disk(2_000), pytest.raises(InputError, match="cannot be written"):
        save(tiny.dataset, tmp_path / "out", format="parquet")
    assert list(tmp_path.iterdir()) == []


def test_reading_parquet_keeps_no_second_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy allocates the arrays that stay, and then less than a fifth of that: the pieces, and codes of the splits."""
    monkeypatch.setattr(pair_files, "PIECE", 1 << 14)
    users, items = 1000, 1000
    ui = np.stack(np.divmod(np.arange(users * items), items), axis=1)
    ub = np.stack([np.arange(users), np.zeros(users, int)], axis=1)
    big = make_dataset(
        users=Nodes("user", users),
        items=Nodes("item", items),
        ui=ui,
        train=ub,
        validation=ub + np.array([0, 1]),
        test=ub + np.array([0, 2]),
    )
    folder, arrays = save(big, tmp_path / "big", format="parquet"), sum(getattr(big, part).nbytes for part in TABLES)
    del big, ui, ub
    load(folder)  # imports and caches
    tracemalloc.start()
    read = load(folder)
    peak = tracemalloc.get_traced_memory()[1]
    after = tracemalloc.get_traced_memory()[0]
    read.fingerprint  # noqa: B018
    hashing = tracemalloc.get_traced_memory()[1] - max(peak, after)
    tracemalloc.stop()
    assert arrays <= peak < 1.8 * arrays
    assert hashing < 0.1 * arrays


def test_tables_of_whole_numbers_are_imported_as_their_texts_would_be(tmp_path: Path, tiny: World) -> None:
    """Whole numbers in Parquet, one table as a folder of files, one with 32 bits; and the same as CSV."""
    chosen = np.concatenate([tiny.dataset.train, tiny.dataset.validation, tiny.dataset.test]) * 7 + 3
    frames = {
        "user_bundle": pl.DataFrame({"user": chosen[:, 0], "bundle": chosen[:, 1].astype(np.int64)}),
        "user_item": pl.DataFrame(dict(zip(("user", "item"), tiny.dataset.ui.T * 7 + 3, strict=True))),
        "bundle_item": pl.DataFrame(dict(zip(("bundle", "item"), tiny.dataset.bi.T * 7 + 3, strict=True))),
    }
    paths: dict[str, dict[str, Path]] = {"csv": {}, "parquet": {}}
    for name, frame in frames.items():
        paths["csv"][name], paths["parquet"][name] = (tmp_path / f"{name}.{form}" for form in paths)
        frame.write_csv(paths["csv"][name])
        if name == "user_item":
            paths["parquet"][name].mkdir()
            frame[:4000].write_parquet(paths["parquet"][name] / "0.parquet")
            frame[4000:].write_parquet(paths["parquet"][name] / "1.parquet")
        else:
            frame.write_parquet(paths["parquet"][name])
    csv, parquet = (import_tables(**given).dataset for given in paths.values())
    assert parquet.fingerprint == csv.fingerprint
    assert parquet.users.ids == csv.users.ids
    assert parquet.users.integer_ids and not csv.users.integer_ids


def test_the_command_line_describes_a_parquet_folder(run: Run, tiny: World, tmp_path: Path) -> None:
    save(tiny.dataset, tmp_path / "text"), save(tiny.dataset, tmp_path / "parquet", format="parquet")
    (_, text, _), (code, parquet, _) = (run("data", "describe", form) for form in ("text", "parquet"))
    assert (code, parquet) == (0, text)
