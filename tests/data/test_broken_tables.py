"""Broken tables, drawn at random: each is imported soundly, or gives one clear message."""

import csv
import io
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clbr import BundleDataset, InputError, SplitConfig, import_tables, load, save
from relations import BOUGHT, CHOSEN, CONTENTS

pytestmark = pytest.mark.filterwarnings("ignore::clbr.DataWarning")
TABLES = {"user_bundle": CHOSEN, "user_item": BOUGHT, "bundle_item": CONTENTS}
SUFFIXES = (".csv", ".tsv", ".txt")

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
odd_ids = st.one_of(
    texts,
    st.integers(-3, 10**30).map(str),
    st.sampled_from(["", " ", "u9", " u9 ", "007", "1e5", "1.0", "-1", "nan", "NULL", '"', 'a"b', "a,b", "a;b", "a\nb", "\r", "\ufeff", "\x00", "9" * 400]),
)  # fmt: skip
cells = st.one_of(st.none(), st.booleans(), st.floats(), st.integers(-(10**25), 10**25), st.binary(max_size=3), odd_ids)


def check_message(error: InputError, name: str) -> None:
    """One line that names the table (or the kind of node, if the fault is in no single table)."""
    message = str(error)
    assert message.strip()
    assert any(word in message for word in (name, "user", "bundle", "item")), message


def import_bytes(content: bytes, suffix: str, name: str, **settings: Any) -> BundleDataset | None:
    """The data set of three tables of which one holds these bytes, saved and loaded again; None for an `InputError`."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {key: Path(folder) / f"{key}.csv" for key in TABLES}
        for key, columns in TABLES.items():
            pl.DataFrame(columns).write_csv(paths[key])
        paths[name] = Path(folder) / f"{name}{suffix}"
        paths[name].write_bytes(content)
        try:
            dataset = import_tables(**paths, **settings).dataset  # type: ignore[arg-type]
            loaded = load(save(dataset, Path(folder) / "out"))
        except InputError as error:
            check_message(error, name)
            return None
    assert loaded.fingerprint == dataset.fingerprint
    assert [nodes.ids for nodes in (loaded.users, loaded.bundles, loaded.items)] == [
        nodes.ids for nodes in (dataset.users, dataset.bundles, dataset.items)
    ]
    return dataset


@settings(max_examples=150)
@given(
    content=st.binary(max_size=80),
    header=st.sampled_from(
        [b"", b"user,bundle\n", b"user\tbundle\n", b"\xef\xbb\xbfuser;bundle\r\n", b"user bundle\n"]
    ),
    suffix=st.sampled_from([*SUFFIXES, ".parquet"]),
)
@example(content=b"x\x01\x02\x01", header=b"", suffix=".csv")  # starts like a compressed stream
def test_random_bytes(content: bytes, header: bytes, suffix: str) -> None:
    import_bytes(header + content, suffix, "user_bundle")


@settings(max_examples=150)
@given(
    rows=st.lists(st.lists(odd_ids, max_size=3), max_size=8),
    header=st.lists(st.sampled_from(["user", "bundle", "User_ID", "item", "", "a b", '"']), max_size=4),
    separator=st.sampled_from([",", "\t", ";", "|", " "]),
    line_end=st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
    suffix=st.sampled_from(SUFFIXES),
)
def test_rows_of_any_length_without_quoting(
    rows: list[list[str]], header: list[str], separator: str, line_end: str, suffix: str
) -> None:
    text = line_end.join(separator.join(row) for row in [header, *rows])
    import_bytes(text.encode(), suffix, "user_bundle", split=SplitConfig(method="leave-one-out"))


sound_ids = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)


@settings(max_examples=150)
@given(
    pairs=st.lists(st.tuples(sound_ids, sound_ids), min_size=1, max_size=8),
    separator=st.sampled_from([",", "\t", ";", "|"]),
    line_end=st.sampled_from(["\n", "\r\n"]),
    repeats=st.integers(1, 3),
    mark=st.booleans(),
)
def test_every_id_of_a_quoted_table_is_kept_whatever_it_holds(
    pairs: list[tuple[str, str]], separator: str, line_end: str, repeats: int, mark: bool
) -> None:
    pairs = [(f"u{user}x", f"b{bundle}x") for user, bundle in pairs]
    pairs += [("u9", bundle) for bundle in ("b1", "b2", "b3")]  # so that it can be split
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator=line_end, quoting=csv.QUOTE_ALL)
    writer.writerows([("user", "bundle"), *(pair for pair in pairs for _ in range(repeats))])
    content = b"\xef\xbb\xbf" * mark + text.getvalue().encode()
    dataset = import_bytes(content, ".csv", "user_bundle")
    assert dataset is not None
    chosen = [pair for split in (dataset.train, dataset.validation, dataset.test) for pair in split.tolist()]
    assert {(dataset.users.id(u), dataset.bundles.id(b)) for u, b in chosen} == set(pairs)
    assert dataset.merged["user_bundle"] == len(pairs) * repeats - len(set(pairs))


@settings(max_examples=150)
@given(
    table=st.sampled_from([*TABLES, "item_names"]),
    columns=st.dictionaries(
        st.sampled_from(["user", "bundle", "item", "name", "time", "split", "other"]),
        st.lists(cells, min_size=4, max_size=4),
        max_size=4,
    ),
    make=st.sampled_from([pd.DataFrame, "object"]),
    split=st.sampled_from(["random", "leave-one-out", "last", "given"]),
)
def test_frames_of_mixed_types_and_missing_columns(
    table: str, columns: dict[str, list[Any]], make: Any, split: Any
) -> None:
    try:
        frame = pd.DataFrame(columns, dtype=object) if make == "object" else make(columns)
    except (ValueError, OverflowError, TypeError):  # pandas itself cannot hold it
        return
    frames: dict[str, Any] = {name: pd.DataFrame(columns) for name, columns in TABLES.items()} | {table: frame}
    try:
        assert isinstance(BundleDataset.from_frames(**frames, split=split), BundleDataset)
    except InputError as error:
        check_message(error, table)
