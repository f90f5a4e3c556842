"""One table of a user's own: found columns, checked ids, times."""

import codecs
import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from clbr.config import nearest
from clbr.data.checks import fault_of_id
from clbr.data.folder import UNREADABLE
from clbr.errors import InputError
from clbr.files import read_bytes

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET = (".parquet", ".pq")
TEXT = (pl.String, pl.Categorical, pl.Enum)
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
        return f"{self.path}, " + (f"row {row + 1}" if self.path.suffix.lower() in PARQUET else f"line {row + 2}")

    def column(self, role: str) -> pl.Series:
        """The column that plays this role: as told, or called after the role ("user" or "user_id")."""
        told = self.columns.get(f"{self.name}.{role}", self.columns.get(role))
        wanted = [told] if told else [role, f"{role}_id"]
        names = self.frame.columns
        for name in wanted:
            found = [n for n in names if n == name] or [n for n in names if not told and n.strip().lower() == name]
            if found:
                return self.frame[found[0]]
        has = ", ".join(f"'{column}'" for column in self.frame.columns)
        raise InputError(
            f"{self.path}: no column '{wanted[0]}'; its first line names {has}. "
            f"Give the table a header, or say which column it is: --columns {role}=NAME"
        )

    def ids(self, role: str) -> pl.Series:
        """The column's ids as text; empty, negative and fractional ones are refused."""
        column = self.column(role)
        if column.dtype.is_float():
            whole = (column.is_finite() & (column == column.round()) & (column.abs() < 2**53)).fill_null(False)
            self._refuse_ids(role, ~whole, column)
            column = column.cast(pl.Int64)  # pandas writes whole numbers so, once one was missing
        elif not (column.dtype.is_integer() or column.dtype in TEXT):
            raise InputError(f"{self.path}: column '{column.name}' is {column.dtype}, expected text or whole numbers")
        ids = column.cast(pl.String)
        suspect = ids.is_null() | (ids.str.strip_chars() == "")
        if ids.str.contains(NUMBER).all():  # numbers must then be plain ones; anything else is a text id
            suspect |= ~ids.str.contains(r"^\d+$")
        self._refuse_ids(role, suspect.fill_null(True), ids)
        return ids

    def _refuse_ids(self, role: str, suspect: pl.Series, values: pl.Series) -> None:
        if suspect.any():
            row = int(suspect.arg_true()[0])
            value = "" if values[row] is None else str(values[row])
            fault = fault_of_id(value) or "is no id"
            raise InputError(f"{self.place(row)}: {role} id '{value}' {fault}; expected text or a whole number from 0")

    def texts(self, role: str) -> pl.Series:
        """A column that must be text."""
        column = self.column(role)
        if column.dtype not in TEXT:
            raise InputError(f"{self.path}: column '{column.name}' is {column.dtype}, expected text")
        return column.cast(pl.String)

    def times(self) -> NDArray[np.int64]:
        """The time column as ranks: equal times are equal, later ones larger."""
        column = self.column("time")
        times = _parse_times(column) if column.dtype == pl.String else column
        if not (times.dtype.is_numeric() or times.dtype.is_temporal()):
            raise InputError(f"{self.path}: column '{column.name}' is {column.dtype}, expected numbers or dates")
        unknown = times.is_null()
        if times.dtype.is_float():
            unknown |= ~times.is_finite().fill_null(False)
        if unknown.any():
            row = int(unknown.arg_true()[0])
            value = "" if column[row] is None else column[row]
            raise InputError(f"{self.place(row)}: time '{value}' is not a number, a date or a date with a time")
        return times.rank("dense").cast(pl.Int64).to_numpy()

    def splits(self, known: tuple[str, ...]) -> NDArray[np.int8]:
        """The split column as positions in `known`."""
        column = self.texts("split")
        strange = ~column.is_in(known).fill_null(False)
        if strange.any():
            row = int(strange.arg_true()[0])
            raise InputError(f"{self.place(row)}: split '{column[row]}', expected {', '.join(known)}")
        return column.replace_strict(known, range(len(known)), return_dtype=pl.Int8).to_numpy()


def read_table(name: str, path: Path, columns: Mapping[str, str]) -> Table:
    """Read a CSV, TSV or Parquet file, by its ending."""
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
            raise InputError(f"{path}: not a whole Parquet file ({reason}); write it again") from None
        fault = next(_faults(content, SEPARATORS[suffix]), f": cannot be read ({reason})")
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
    for kind in (pl.Int64, pl.Float64):  # whole numbers first: nanoseconds do not fit into a float
        numbers = texts.cast(kind, strict=False)
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
