"""Data sets from files: CSV, TSV or Parquet, with a header, any column names, ids of text or whole numbers."""

import codecs
import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import narwhals as nw
import polars as pl

from clbr.config import Config
from clbr.data.columns import Table, check_columns
from clbr.data.dataset import BundleDataset
from clbr.data.folder import UNREADABLE
from clbr.data.numbering import build_dataset
from clbr.data.split import SplitConfig
from clbr.errors import InputError
from clbr.files import read_bytes

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET = (".parquet", ".pq")


class Origin(Config):
    """The files that a data set was imported from; written into its folder."""

    tables: dict[str, str]
    rows: dict[str, int]
    merged: dict[str, int]
    split: SplitConfig


@dataclass(frozen=True)
class Imported:
    """An imported data set, its origin, and how many names were left out."""

    dataset: BundleDataset
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
) -> Imported:
    """Read three tables with a header, number their ids, merge repeated pairs and split user-bundle.

    `columns` gives the tables' own names for user, bundle, item, time, split and name, for all tables or for one
    ("user_item.user"). Ids are numbered in their sorted order, so the order of rows and of files has no effect. Of a
    repeated pair the earliest time counts. `BundleDataset.from_frames` does the same for frames.
    """
    split = split or SplitConfig()
    columns = columns or {}
    check_columns(columns)
    relations = {"user_bundle": user_bundle, "user_item": user_item, "bundle_item": bundle_item}
    names = {"user_names": user_names, "bundle_names": bundle_names, "item_names": item_names}
    given = relations | {key: path for key, path in names.items() if path is not None}
    tables = {key: read_table(key, Path(path), columns) for key, path in given.items()}
    built = build_dataset(tables, split, name)
    origin = Origin(
        tables={key: Path(path).name for key, path in relations.items()},
        rows={key: len(tables[key].frame) for key in relations},
        merged=built.merged,
        split=split,
    )
    return Imported(built.dataset, origin, built.unmatched_names)


def read_table(name: str, path: Path, columns: Mapping[str, str]) -> Table:
    """Read a CSV, TSV or Parquet file; its suffix says which."""
    suffix = path.suffix.lower()
    if suffix not in (*SEPARATORS, *PARQUET):
        raise InputError(f"{path}: expected a file that ends in {', '.join((*SEPARATORS, *PARQUET))}")
    content = read_bytes(path)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path}, line 1: UTF-16 text, expected UTF-8; save the file as UTF-8")
    try:
        frame = (
            pl.read_parquet(BytesIO(content))
            if suffix in PARQUET
            else pl.read_csv(content, separator=SEPARATORS[suffix], infer_schema=False)
        )
    except UNREADABLE as error:
        reason = str(error).strip().partition("\n")[0]
        if suffix in PARQUET:
            raise InputError(f"{path}: not a complete Parquet file ({reason}); write it again") from None
        fault = next(_faulty_lines(content, SEPARATORS[suffix]), f": cannot be read ({reason})")
        raise InputError(f"{path}{fault}") from None
    if not frame.height:
        raise InputError(f"{path}: has no rows, expected at least one")
    return Table(name, str(path), "parquet" if suffix in PARQUET else "text", nw.from_native(frame), columns)


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
