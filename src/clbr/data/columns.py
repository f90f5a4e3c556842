"""Columns of a user's table, found by their role and checked: ids, names, times, splits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from clbr.config import nearest
from clbr.data.faults import explain_id
from clbr.errors import InputError

ROLES = ("user", "bundle", "item", "time", "split", "name")
TABLES = (
    *("user_bundle", "user_item", "bundle_item", "validation", "test"),
    *("user_names", "bundle_names", "item_names"),
)
TEXT = (pl.String, pl.Categorical, pl.Enum)
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


@dataclass(frozen=True)
class Table:
    """A frame with a name of `TABLES`, and the user's names of its columns ("user" or "user_item.user" -> name)."""

    name: str
    source: str
    """What messages call it: the path of a file, or the argument that a frame was given as."""
    kind: Literal["text", "parquet", "frame"]
    frame: nw.DataFrame[Any]
    columns: Mapping[str, str]
    lines: NDArray[np.int64] | None = None
    """The line of each row in a text file."""

    def place(self, row: int) -> str:
        """Where a row is found, for messages."""
        if self.lines is not None:
            return f"{self.source}, line {self.lines[row]}"
        return (
            f"{self.source}, row {row + 1}" if self.kind == "parquet" else f"{self.source}, row {row} (counted from 0)"
        )

    def column(self, role: str) -> pl.Series:
        """The column of this role: the one that `columns` gives, else the one called "user" or "user_id"."""
        given = self.columns.get(f"{self.name}.{role}", self.columns.get(role))
        wanted = [role, f"{role}_id"] if given is None else [str(given)]
        if given is None and self.name == f"{role}_names":
            wanted.append("id")
        names = self.frame.columns
        for name in wanted:
            found = [n for n in names if str(n) == name]
            found = found or [n for n in names if str(n).strip() == name]
            found = found or [n for n in names if given is None and str(n).strip().lower() == name]
            if found:
                return self._to_polars(found[0])
        raise self._missing_column(role, wanted[0])

    def _missing_column(self, role: str, wanted: str) -> InputError:
        has = ", ".join(f"'{column}'" for column in self.frame.columns) or "none"
        if self.kind == "text":
            found = f"its first line names {has}. Give the table a header with '{wanted}'"
        elif wanted in getattr(getattr(self.frame.to_native(), "index", None), "names", ()):
            found = f"'{wanted}' is its index. Call reset_index() first"
        else:
            found = f"its columns are {has}. Rename one to '{wanted}'"
        return InputError(f"{self.source}: no column '{wanted}'; {found}, or name the {role} column", "columns")

    def _to_polars(self, name: str) -> pl.Series:
        """A column as a polars series. Other frames are read through numpy, so pyarrow is not needed."""
        column = self.frame.get_column(name)
        if column.implementation.is_polars():
            series: pl.Series = column.to_native()
            return series
        values = column.to_numpy()
        if values.dtype == np.dtype("datetime64[s]"):  # a resolution that polars does not have
            values = values.astype("datetime64[ms]")
        if values.dtype != object:
            return pl.Series(str(name), values, nan_to_null=True)
        known = ~column.is_null().to_numpy()
        values = values.copy()
        values[~known] = None
        try:
            return pl.Series(str(name), values.tolist())
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
            kinds = [type(value).__name__ for value in values]
            first = kinds[int(known.argmax())]
            row = next((int(row) for row in np.flatnonzero(known) if kinds[row] != first), None)
            if row is None:
                raise InputError(f"{self.source}: column '{name}' cannot be read ({error})") from None
            raise InputError(
                f"{self.place(row)}: column '{name}' holds {kinds[row]} after {first}; expected one type: convert the "
                "column to text or to whole numbers"
            ) from None

    def ids(self, role: str) -> tuple[pl.Series, bool]:
        """The ids of a column as text, and whether they are whole numbers in the table."""
        column = self.column(role)
        self._check_ids(role, column.is_null(), column)
        whole = column.dtype.is_integer() or column.dtype.is_float()
        if column.dtype.is_float():
            fits = column.is_finite() & (column == column.round()) & (column.abs() < 2**53)
            self._check_ids(role, ~fits, column)
            column = column.cast(pl.Int64)  # pandas turns whole numbers to floats where one was missing
        elif not (whole or column.dtype in TEXT):
            raise InputError(
                f"{self.source}: column '{column.name}' is {column.dtype}, expected text or whole numbers", "columns"
            )
        ids = column.cast(pl.String)
        suspect = ids.str.strip_chars() == ""
        if ids.str.contains(NUMBER).all():  # a column of numbers must hold whole ones; other columns hold text ids
            suspect |= ~ids.str.contains(r"^\d+$")
        self._check_ids(role, suspect, ids)
        return ids, whole

    def whole_numbers(self, role: str) -> pl.Series | None:
        """The ids of a column as whole numbers, without a text for each; None if a column is not of such from 0 on."""
        column = self.column(role)
        if not column.dtype.is_integer() or column.null_count():
            return None
        numbers = column.cast(pl.Int64, strict=False)
        return None if numbers.null_count() or (numbers < 0).any() else numbers

    def _check_ids(self, role: str, suspect: pl.Series, values: pl.Series) -> None:
        if suspect.any():
            row = int(suspect.arg_true()[0])
            value = "" if values[row] is None else str(values[row])
            fault = explain_id(value) or "is no id"
            raise InputError(f"{self.place(row)}: {role} id '{value}' {fault}; expected text or a whole number from 0")

    def texts(self, role: str) -> pl.Series:
        """A column that must be text; values may be missing."""
        column = self.column(role)
        if column.dtype not in (*TEXT, pl.Null):
            raise InputError(f"{self.source}: column '{column.name}' is {column.dtype}, expected text", "columns")
        return column.cast(pl.String)

    def times(self) -> NDArray[np.int64]:
        """The time column as ranks: equal times have equal ranks, later times larger ones."""
        column = self.column("time")
        times = _parse_times(column.cast(pl.String)) if column.dtype in TEXT else column
        if not (times.dtype.is_numeric() or times.dtype.is_temporal()):
            raise InputError(
                f"{self.source}: column '{column.name}' is {column.dtype}, expected numbers or dates", "columns"
            )
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
            value = "" if column[row] is None else column[row]
            raise InputError(f"{self.place(row)}: split '{value}', expected {', '.join(known)}")
        return column.replace_strict(known, range(len(known)), return_dtype=pl.Int8).to_numpy()


def check_columns(columns: object) -> None:
    """Check that every key of a column mapping is a role, or a table and a role."""
    if not isinstance(columns, Mapping):
        found = type(columns).__name__
        raise InputError(f'columns: is a {found}, expected a mapping such as {{"user": "customer"}}', "columns")
    known = [*ROLES, *(f"{table}.{role}" for table in TABLES for role in ROLES)]
    for key in columns:
        if key not in known:
            hint = nearest(str(key), known if "." in str(key) else list(ROLES))
            raise InputError(f"columns: unknown key '{key}', {hint}", "columns")


def may_be_read(name: str, columns: Mapping[str, str]) -> bool:
    """Whether `Table.column` may take a column of this name for one of the roles."""
    name = name.strip()
    standard = {"id", *ROLES, *(f"{role}_id" for role in ROLES)}
    return name.lower() in standard or name in {str(given).strip() for given in columns.values()}


def _parse_times(texts: pl.Series) -> pl.Series:
    """Texts as numbers, else as dates; null where a text is neither."""
    for kind in (pl.Int64, pl.Float64):  # whole numbers first: nanoseconds do not fit into a float
        numbers = texts.cast(kind, strict=False)
        if not numbers.null_count():
            return numbers
    try:
        dates = texts.str.to_datetime(strict=False)
    except pl.exceptions.ComputeError:  # no known format fits the first text
        return numbers
    return min(numbers, dates, key=pl.Series.null_count)
