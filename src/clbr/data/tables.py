"""Data sets from files: text tables or Parquet, with a header, any column names, ids of text or whole numbers."""

import codecs
import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import narwhals as nw
import numpy as np
import polars as pl

from clbr.config import Config
from clbr.data.checks import warn
from clbr.data.columns import Table, check_columns, may_be_read
from clbr.data.dataset import BundleDataset
from clbr.data.describe import Description, describe
from clbr.data.numbering import build_dataset
from clbr.data.pair_files import PARQUET, UNREADABLE, broken_parquet, parquet_files, scan_parquet
from clbr.data.split import SplitConfig
from clbr.errors import InputError
from clbr.files import read_bytes

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
"""The usual separator of a text table, by the end of its name."""
OTHER_SEPARATORS = (",", "\t", ";", "|")


class Origin(Config):
    """The files that a data set was imported from; written into its folder."""

    tables: dict[str, str]
    rows: dict[str, int]
    merged: dict[str, int]
    hide_held_out_items: bool
    hidden: int
    split: SplitConfig


@dataclass(frozen=True)
class Imported:
    """An imported data set, its statistics and warnings, its origin, and how many names were left out."""

    dataset: BundleDataset
    description: Description
    origin: Origin
    unmatched_names: int
    """Rows of the name tables whose id is in no relation."""


def import_tables(
    user_bundle: Path,
    user_item: Path,
    bundle_item: Path,
    *,
    name: str = "data",
    columns: Mapping[str, str] | None = None,
    user_names: Path | None = None,
    bundle_names: Path | None = None,
    item_names: Path | None = None,
    split: SplitConfig | None = None,
    hide_held_out_items: bool = False,
) -> Imported:
    """Read three tables with a header, number their ids, merge repeated pairs and split user-bundle.

    `columns` gives the tables' own names for user, bundle, item, time, split and name, for all tables or for one
    ("user_item.user"). Ids are numbered in their sorted order, so the order of rows and of files has no effect. Of a
    repeated pair the earliest time counts. `BundleDataset.from_frames` does the same for frames, and says what
    `hide_held_out_items` removes. Input that is valid but probably wrong gives a `DataWarning`.
    """
    split = split or SplitConfig()
    columns = columns or {}
    check_columns(columns)
    relations = {"user_bundle": user_bundle, "user_item": user_item, "bundle_item": bundle_item}
    names = {"user_names": user_names, "bundle_names": bundle_names, "item_names": item_names}
    given = relations | {key: path for key, path in names.items() if path is not None}
    tables = {key: read_table(key, Path(path), columns) for key, path in given.items()}
    built = build_dataset(tables, split, name, hide_items=hide_held_out_items)
    description = describe(built.dataset)
    description = replace(description, warnings=(*description.warnings, *built.findings))
    warn(description.warnings, stacklevel=2)
    origin = Origin(
        tables={key: Path(path).name for key, path in relations.items()},
        rows={key: len(tables[key].frame) for key in relations},
        merged=built.merged,
        hide_held_out_items=hide_held_out_items,
        hidden=built.dataset.hidden,
        split=split,
    )
    return Imported(built.dataset, description, origin, built.unmatched_names)


def read_table(name: str, path: Path, columns: Mapping[str, str]) -> Table:
    """Read a text table, a Parquet file or a folder of Parquet files.

    The end of a file's name says which it is, the header of a text says its separator.
    """
    suffix = ".parquet" if path.is_dir() else path.suffix.lower()
    if suffix not in (*SEPARATORS, *PARQUET):
        expected = f"a file that ends in {', '.join((*SEPARATORS, *PARQUET))}, or a folder of Parquet files"
        raise InputError(f"{path}: expected {expected}")
    table = _read_parquet(name, path, columns) if suffix in PARQUET else _read_text(name, path, columns)
    if not len(table.frame):
        raise InputError(f"{path}: has no rows, expected at least one")
    return table


def _read_parquet(name: str, path: Path, columns: Mapping[str, str]) -> Table:
    """Read a Parquet file, or a folder of Parquet files with the same columns."""
    files = parquet_files(path)
    try:
        scans = [scan_parquet(file) for file in files]
        schemas = [scan.collect_schema() for scan in scans]
        for file, schema in zip(files, schemas, strict=True):
            if schema != schemas[0]:
                found, first = (
                    ", ".join(f"{column} {kind}" for column, kind in s.items()) for s in (schema, schemas[0])
                )
                raise InputError(f"{file}: has the columns {found}, and {files[0].name} has {first}; expected the same")
        unread = [pl.lit(None).alias(name) for name in schemas[0] if not may_be_read(name, columns)]
        frame = pl.concat(scans).with_columns(unread).collect()  # their names stay, for messages
    except UNREADABLE as error:
        raise broken_parquet(path, error) from None
    return Table(name, str(path), "parquet", nw.from_native(frame), columns)


def _read_text(name: str, path: Path, columns: Mapping[str, str]) -> Table:
    """Read a text table. Whitespace around values does not count, lines without a value are left out."""
    content = read_bytes(path)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path}, line 1: UTF-16 text, expected UTF-8; save the file as UTF-8")
    content = content.removeprefix(codecs.BOM_UTF8)
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")  # line ends of old systems
    text = content.lstrip(b"\r\n")
    blank_lines = content[: len(content) - len(text)].count(b"\n")
    separator = _find_separator(text.partition(b"\n")[0].decode("utf-8", "replace"), path.suffix.lower())
    if separator == " ":  # columns may be aligned by several spaces
        text = re.sub(rb" *(\r?\n|$) *", rb"\1", re.sub(rb" +", b" ", text)).lstrip(b" ")
    # A quote that stands nowhere at the start of a value is a character like others.
    quotes = re.search(rb"(^|[\n" + re.escape(separator.encode()) + rb'])"', text)
    try:
        frame = pl.read_csv(text, separator=separator, infer_schema=False, quote_char='"' if quotes else None)
    except UNREADABLE as error:
        reason = str(error).strip().partition("\n")[0]
        fault = next(_faulty_lines(content, separator), f": cannot be read ({reason})")
        raise InputError(f"{path}{fault}") from None
    frame = frame.with_columns(pl.all().str.strip_chars().replace("", None))
    filled = frame.select(pl.any_horizontal(pl.all().is_not_null())).to_series()
    lines = np.flatnonzero(filled.to_numpy()) + blank_lines + 2
    return Table(name, str(path), "text", nw.from_native(frame.filter(filled)), columns, lines)


def _find_separator(header: str, suffix: str) -> str:
    """The usual separator if the header has it, else the most frequent of the others in it, else a space."""
    header = re.sub('"[^"]*"', "", header.strip())
    if (usual := SEPARATORS[suffix]) in header:
        return usual
    best = max(OTHER_SEPARATORS, key=header.count)
    return best if best in header else " " if " " in header else usual


def _faulty_lines(content: bytes, separator: str) -> Iterator[str]:
    """What is wrong with a text table, line by line."""
    lines = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            yield f", line {number}: bytes that are not UTF-8 text; save the file as UTF-8"
    rows = csv.reader(lines, delimiter=separator)
    try:
        header = next(rows, [])
        for row in rows:
            if row and len(row) != len(header):
                yield f", line {rows.line_num}: {len(row)} columns, but the header has {len(header)}"
    except csv.Error as error:
        yield f", line {rows.line_num}: {error}"
    quoted = next((number for number, line in enumerate(lines, start=1) if '"' in line), None)
    if quoted:
        yield f', line {quoted}: cannot be read for its quotes; write a value with a quote as "5"" wide"'
