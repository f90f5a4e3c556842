"""One table of a user's own: found columns, checked ids, times."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from clbr.config import nearest
from clbr.data.faults import fault_of_id
from clbr.data.read import UNREADABLE, read_bytes
from clbr.errors import InputError

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET = (".parquet", ".pq")
ROLES = ("user", "bundle", "item", "time", "split", "name")
TABLES = ("user_bundle", "user_item", "bundle_item", "bundle_names", "item_names")
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


@dataclass(frozen=True)
class Table:
    """A file with a header, and what its columns are called ("user" or "user_item.user" -> name)."""

    name: str
    path: Path
    frame: pl.DataFrame
    columns: Mapping[str, str]

    def place(self, row: int) -> str:
        """Where a row stands, for messages."""
        return f"{self.path}, " + (f"row {row + 1}" if self.path.suffix in PARQUET else f"line {row + 2}")

    def column(self, role: str) -> pl.Series:
        """The column that plays this role: as told, or called after the role ("user" or "user_id")."""
        told = self.columns.get(f"{self.name}.{role}", self.columns.get(role))
        wanted = [told] if told else [role, f"{role}_id"]
        for found in self.frame.columns:
            if found in wanted or (not told and found.strip().lower() in wanted):
                return self.frame[found]
        has = ", ".join(f"'{column}'" for column in self.frame.columns)
        raise InputError(
            f"{self.path}: no column '{wanted[0]}'; its first line names {has}. "
            f"Give the table a header, or say which column it is: --columns {role}=NAME"
        )

    def ids(self, role: str) -> pl.Series:
        """The column's ids as text; empty, negative and fractional ones are refused."""
        column = self.column(role)
        if not (column.dtype.is_integer() or column.dtype.is_float() or column.dtype in (pl.String, pl.Categorical)):
            raise InputError(f"{self.path}: column '{column.name}' is {column.dtype}, expected text or whole numbers")
        if column.dtype.is_float() and not column.is_null().any() and (column == column.round()).all():
            column = column.cast(pl.Int64, strict=False)  # pandas writes whole numbers so, once one was missing
        ids = column.cast(pl.String)
        suspect = ids.is_null() | (ids.str.strip_chars() == "")
        if ids.str.contains(NUMBER).all():  # numbers must then be plain ones; anything else is a text id
            suspect |= ~ids.str.contains(r"^\d+$")
        if suspect.any():
            row = int(suspect.arg_true()[0])
            value = ids[row] or ""
            raise InputError(
                f"{self.place(row)}: {role} id '{value}' {fault_of_id(value)}; expected text or a whole number from 0"
            )
        return ids

    def times(self) -> NDArray[np.int64]:
        """The time column as ranks: equal times are equal, later ones larger."""
        column = self.column("time")
        times = _parse_times(column) if column.dtype == pl.String else column
        if times.null_count():
            row = int(times.is_null().arg_true()[0])
            raise InputError(f"{self.place(row)}: time '{column[row]}' is not a number, a date or a date with a time")
        return times.rank("dense").cast(pl.Int64).to_numpy()

    def splits(self, known: tuple[str, ...]) -> NDArray[np.int8]:
        """The split column as positions in `known`."""
        column = self.column("split").cast(pl.String)
        strange = ~column.is_in(known).fill_null(False)
        if strange.any():
            row = int(strange.arg_true()[0])
            raise InputError(f"{self.place(row)}: split '{column[row]}', expected {', '.join(known)}")
        return column.replace_strict(known, range(len(known)), return_dtype=pl.Int8).to_numpy()


def read_table(name: str, path: Path, columns: Mapping[str, str]) -> Table:
    """Read a CSV, TSV or Parquet file, by its ending."""
    if path.suffix not in (*SEPARATORS, *PARQUET):
        raise InputError(f"{path}: expected a file that ends in {', '.join((*SEPARATORS, *PARQUET))}")
    content = read_bytes(path)
    try:
        frame = (
            pl.read_parquet(BytesIO(content))
            if path.suffix in PARQUET
            else pl.read_csv(content, separator=SEPARATORS[path.suffix], infer_schema=False)
        )
    except UNREADABLE as error:
        reason = str(error).strip().partition("\n")[0]
        if path.suffix in PARQUET:
            raise InputError(f"{path}: not a whole Parquet file ({reason}); write it again") from None
        fault = next(_faults(content, SEPARATORS[path.suffix]), f": cannot be read ({reason})")
        raise InputError(f"{path}{fault}") from None
    if not frame.height:
        raise InputError(f"{path}: has no rows; every relation needs at least one pair")
    return Table(name, path, frame, columns)


def check_columns(columns: Mapping[str, str]) -> None:
    """Refuse a column mapping with a key that means nothing."""
    known = [*ROLES, *(f"{table}.{role}" for table in TABLES for role in ROLES)]
    for key in columns:
        if key not in known:
            close = nearest(key, known) if "." in key else nearest(key, list(ROLES))
            raise InputError(f"--columns {key}=...: no such column, {close}")


def _parse_times(texts: pl.Series) -> pl.Series:
    """Numbers, or else dates; null where a text is neither."""
    numbers = texts.cast(pl.Float64, strict=False)
    if not numbers.null_count():
        return numbers
    try:
        dates = texts.str.to_datetime(strict=False)
    except pl.exceptions.ComputeError:  # no format fits the first of them
        return numbers
    return min(numbers, dates, key=pl.Series.null_count)


def _faults(content: bytes, separator: str) -> Iterator[str]:
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
