"""Files of pairs: text or Parquet, read and written in pieces.

A table of a data folder has one of three forms, by its name: `user_item.txt` (a pair of numbers per line, separated by
a tab, no header), `user_item.parquet` (whole-number columns named user and item), or `user_item`, a folder of such
Parquet files, read in the order of their names.
"""

import codecs
import os
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from clbr.data.dataset import Nodes
from clbr.data.faults import explain_pairs, explain_row
from clbr.data.pairs import Codes, Ids, Pairs, decode, encode, in_order
from clbr.errors import InputError
from clbr.files import read_bytes, write_synced

UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What polars raises. It is an OSError if text starts like a compressed stream but is none."""
Format = Literal["text", "parquet"]
PARQUET = (".parquet", ".pq")
PIECE = 1 << 20
"""Rows of Parquet that are read, and written to a file, at once. It limits the memory."""
SMALL = 1 << 25
"""Bytes of a text file above which it is read alone. It limits the memory."""


def find_table(folder: Path, file: str) -> Path:
    """The form in which a table is in a data folder; `file` is its name as text. Two forms raise an `InputError`."""
    text = folder / file
    forms = [form for form in (text, text.with_suffix(".parquet"), text.with_suffix("")) if form.exists()]
    if len(forms) > 1:
        found = " and ".join(form.name for form in forms)
        raise InputError(f"{folder}: has {found}, two forms of one table; delete one of them")
    return forms[0] if forms else text


def parquet_files(path: Path) -> list[Path]:
    """The Parquet file at a path, or the Parquet files of a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in PARQUET)
    if not files:
        raise InputError(f"{path}: is a folder without Parquet files (.parquet); expected at least one")
    return files


def read_tables(paths: Mapping[str, Path], sides: Mapping[str, tuple[Nodes, Nodes]]) -> Iterator[tuple[Pairs, int]]:
    """For each table its distinct pairs, sorted and all in range, and the number of repeated rows."""
    small = [
        path for path in paths.values() if path.suffix == ".txt" and path.is_file() and path.stat().st_size < SMALL
    ]
    try:  # small text files all at once, so that they do not leave a core idle
        frames = dict(zip(small, pl.collect_all([_scan_text(path) for path in small]), strict=True))
    except UNREADABLE:
        frames = {}  # each file is read again below
    for part, path in paths.items():
        left, right = sides[part]
        if path.suffix == ".txt":
            pairs = _read_text(path, frames.pop(path, None), left, right)
        else:
            pairs = _read_parquet(path, left, right)
        yield _distinct_pairs(pairs, len(right))


def _scan_text(source: Path | bytes) -> pl.LazyFrame:
    schema = {"left": pl.Int32(), "right": pl.Int32()}
    return pl.scan_csv(source, has_header=False, separator="\t", schema=schema, quote_char=None, glob=False)


def _read_text(path: Path, frame: pl.DataFrame | None, left: Nodes, right: Nodes) -> Pairs:
    """The pairs of a text file in the order of its lines; `frame` is its content if it was read already."""
    try:
        columns = _columns(_scan_text(path).collect() if frame is None else frame, left, right)
    except UNREADABLE:
        columns = None
    return np.stack(columns or _read_slowly(path, left, right), axis=1)


def _columns(frame: pl.DataFrame, left: Nodes, right: Nodes) -> tuple[Ids, Ids] | None:
    """The two columns, or None if there are no rows or an id is out of range."""
    if not frame.height or any(column.null_count() for column in frame.get_columns()):
        return None
    lefts, rights = (column.to_numpy() for column in frame.get_columns())
    # As an unsigned number a negative id is very large, so one comparison checks both ends.
    known = lefts.view(np.uint32).max() < len(left) and rights.view(np.uint32).max() < len(right)
    return (lefts, rights) if known else None


def _read_slowly(path: Path, left: Nodes, right: Nodes) -> tuple[Ids, Ids]:
    """Read a file on which the fast reader failed: skip blank lines at its end, or raise an error for its fault."""
    content = read_bytes(path).removeprefix(codecs.BOM_UTF8).rstrip(b"\r\n")
    if not content:
        raise InputError(f"{path}: is empty; expected a line per pair: {left.kind}, tab, {right.kind}")
    try:
        columns = _columns(_scan_text(content).collect(), left, right)
    except UNREADABLE as error:
        raise explain_pairs(path, content, left, right, str(error)) from None
    if columns is None:
        raise explain_pairs(path, content, left, right, "an id is out of range")
    return columns


def _read_parquet(path: Path, left: Nodes, right: Nodes) -> Pairs:
    """The pairs of a Parquet table in the order of its rows, read in pieces: no second copy of all is made."""
    files = parquet_files(path)
    counts = [_count_rows(file, left, right) for file in files]
    if not sum(counts):
        raise InputError(f"{path}: has no rows; expected a row per pair: {left.kind}, {right.kind}")
    pairs, done = np.empty((sum(counts), 2), np.int32), 0
    for file, count in zip(files, counts, strict=True):
        for start in range(0, count, PIECE):
            try:
                piece = scan_parquet(file).select(left.kind, right.kind).slice(start, PIECE).collect()
            except UNREADABLE as error:
                raise broken_parquet(file, error) from None
            for side, nodes in enumerate((left, right)):
                column = piece[nodes.kind]
                numbers = column.cast(pl.Int64, strict=False)  # what does not fit is null
                known = numbers.is_between(0, len(nodes) - 1).fill_null(False)
                if not known.all():
                    row = int((~known).arg_true()[0])
                    raise explain_row(file, start + row + 1, column[row], nodes)
                pairs[done : done + piece.height, side] = numbers.to_numpy()
            done += piece.height
    return pairs


def scan_parquet(file: Path) -> pl.LazyFrame:
    """A Parquet file, not read yet."""
    return pl.scan_parquet(file, glob=False, hive_partitioning=False)


def broken_parquet(path: Path, error: BaseException) -> InputError:
    """The error for a Parquet file that cannot be read."""
    if isinstance(error, OSError) and not path.exists():
        return InputError(f"{path}: no such file")
    return InputError(
        f"{path}: not a complete Parquet file ({str(error).strip().partition(chr(10))[0]}); write it again"
    )


def _count_rows(file: Path, left: Nodes, right: Nodes) -> int:
    """The number of rows that a file states. A column that is missing or not whole numbers raises an `InputError`."""
    try:
        schema = scan_parquet(file).collect_schema()
        rows = int(scan_parquet(file).select(pl.len()).collect().item())
    except UNREADABLE as error:
        raise broken_parquet(file, error) from None
    for nodes in (left, right):
        kind = schema.get(nodes.kind)
        if kind is None:
            has = ", ".join(f"'{name}'" for name in schema) or "none"
            raise InputError(
                f"{file}: no column '{nodes.kind}'; its columns are {has}, expected {left.kind}, {right.kind}"
            )
        if not kind.is_integer():
            raise InputError(f"{file}: column '{nodes.kind}' is {kind}, expected whole numbers")
    return rows


def _distinct_pairs(pairs: Pairs, width: int) -> tuple[Pairs, int]:
    """The distinct pairs, sorted, in the same array where possible, and the number of the others."""
    repeated = 0
    if not in_order(pairs[:, 0], pairs[:, 1]):
        codes: Codes = encode(pairs, width)
        codes.sort()
        new = np.append(True, codes[1:] != codes[:-1])
        repeated = len(codes) - int(np.count_nonzero(new))
        if repeated:
            codes = codes[new]
            del pairs
            pairs = np.empty((len(codes), 2), np.int32)
        decode(codes, width, out=pairs)
    pairs.flags.writeable = False  # so that a data set takes it without a copy
    return pairs, repeated


class PairsWriter:
    """Writes the pairs of one table, piece by piece.

    Parquet files have `PIECE` rows each, but the last, so they do not depend on the pieces that are given.
    """

    def __init__(self, folder: Path, file: str, format: Format, kinds: tuple[str, str]) -> None:
        self.path = folder / file if format == "text" else (folder / file).with_suffix("")
        self.format, self.kinds = format, kinds
        self.rows, self._files = 0, 0
        self._waiting: list[Pairs] = []
        if format == "parquet":
            self.path.mkdir()

    def write(self, pairs: Pairs) -> None:
        """Append pairs."""
        self.rows += len(pairs)
        if self.format == "text":
            table = pl.DataFrame({"left": pairs[:, 0], "right": pairs[:, 1]})
            with self.path.open("ab") as file:
                file.write(table.write_csv(separator="\t", include_header=False).encode())
            return
        self._waiting.append(pairs)
        if sum(map(len, self._waiting)) >= PIECE:
            waiting = np.concatenate(self._waiting)
            full = len(waiting) // PIECE * PIECE
            for start in range(0, full, PIECE):
                self._write_file(waiting[start : start + PIECE])
            self._waiting = [waiting[full:].copy()]

    def close(self) -> None:
        """Write what is left, and sync it to the disk."""
        if self.format == "text":
            if self.rows:
                with self.path.open("rb") as file:
                    os.fsync(file.fileno())
        elif any(map(len, self._waiting)):
            self._write_file(np.concatenate(self._waiting))

    def _write_file(self, pairs: Pairs) -> None:
        buffer = BytesIO()
        pl.DataFrame({kind: pairs[:, side] for side, kind in enumerate(self.kinds)}).write_parquet(buffer)
        write_synced(self.path / f"part-{self._files:04}.parquet", buffer.getvalue())
        self._files += 1
