"""Reading a data folder: the canonical layout, as published for Youshu, NetEase and iFashion.

<Name>_data_size.txt                  users, bundles, items
user_bundle_{train,tune,test}.txt     a pair of ids per line, tab-separated, counted from 0, no header
user_item.txt, bundle_item.txt        the same
users.csv, bundles.csv, items.csv     optional: id and name of each, in the order of their numbers
"""

import codecs
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from clbr.data.dataset import BundleDataset, Nodes
from clbr.data.faults import explain_pairs, explain_size
from clbr.data.pairs import Pairs, decode, distinct
from clbr.errors import InputError

SIZE_SUFFIX = "_data_size.txt"
TABLES = {
    "train": "user_bundle_train.txt",
    "tune": "user_bundle_tune.txt",
    "test": "user_bundle_test.txt",
    "ui": "user_item.txt",
    "bi": "bundle_item.txt",
}


def load(path: str | Path) -> BundleDataset:
    """Read a data folder; a row that is there twice in one file counts once (see `BundleDataset.merged`)."""
    folder = Path(path)
    size_file = _size_file(folder)
    counts = read_sizes(size_file)
    users = _read_nodes(folder, "user", counts[0])
    bundles = _read_nodes(folder, "bundle", counts[1])
    items = _read_nodes(folder, "item", counts[2])

    parts: dict[str, Pairs] = {}
    merged: dict[str, int] = {}
    for part, file in TABLES.items():
        left = bundles if part == "bi" else users
        right = items if part in ("ui", "bi") else bundles
        parts[part], repeated = read_pairs(folder / file, left, right)
        if repeated:
            merged[file] = repeated
    return BundleDataset(size_file.name.removesuffix(SIZE_SUFFIX), users, bundles, items, **parts, merged=merged)


def read_pairs(path: Path, left: Nodes, right: Nodes) -> tuple[Pairs, int]:
    """The distinct pairs of a file, and how many rows repeated one."""
    content = read_bytes(path).removeprefix(codecs.BOM_UTF8).rstrip(b"\r\n")
    if not content:
        raise InputError(f"{path}: is empty; expected a line per pair: {left.kind}, tab, {right.kind}")
    try:
        schema = {"left": pl.Int64(), "right": pl.Int64()}
        table = pl.read_csv(content, has_header=False, separator="\t", schema=schema, quote_char=None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise explain_pairs(path, content, left, right, str(error)) from None
    columns = table.get_columns()
    for column, nodes in zip(columns, (left, right), strict=True):
        lowest, highest = column.min(), column.max()
        if column.null_count() or lowest < 0 or highest >= len(nodes):  # type: ignore[operator]
            raise explain_pairs(path, content, left, right, "an id is out of range")
    lefts, rights = (column.to_numpy() for column in columns)
    codes = distinct(lefts * len(right) + rights)
    return decode(codes, len(right)), table.height - len(codes)


def read_sizes(path: Path) -> tuple[int, int, int]:
    """How many users, bundles and items a size file states."""
    content = read_bytes(path)
    fields = content.split()
    if len(fields) != 3 or not all(field.isdigit() and len(field) < 19 for field in fields):
        raise explain_size(path, content)
    users, bundles, items = (int(field) for field in fields)
    return users, bundles, items


def read_bytes(path: Path) -> bytes:
    """A file's content, or the reason why there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def _size_file(folder: Path) -> Path:
    if not folder.is_dir():
        found = "is a file" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {found}; expected a data folder (see: clbr data --help)")
    found_files = sorted(folder.glob(f"*{SIZE_SUFFIX}"))
    if len(found_files) != 1:
        what = ", ".join(file.name for file in found_files) or "no such file"
        raise InputError(f"{folder}: expected one file <Name>{SIZE_SUFFIX}, found {what}")
    return found_files[0]


def _read_nodes(folder: Path, kind: Literal["user", "bundle", "item"], count: int) -> Nodes:
    path = folder / f"{kind}s.csv"
    if not path.exists():
        return Nodes(kind, count)
    try:
        table = pl.read_csv(read_bytes(path), infer_schema=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"{path}: not a CSV file in UTF-8 ({str(error).splitlines()[0]})") from None
    if table.columns not in (["id"], ["id", "name"]):
        raise InputError(f"{path}, line 1: expected the header id or id,name, found {','.join(table.columns)}")
    if table.height != count:
        raise InputError(f"{path}: names {table.height} {kind}s, but the size file says {count}")
    if table["id"].null_count():
        line = int(np.flatnonzero(table["id"].is_null().to_numpy())[0]) + 2
        raise InputError(f"{path}, line {line}: empty id")
    names = tuple(table["name"].to_list()) if "name" in table.columns else None
    return Nodes(kind, count, tuple(table["id"].to_list()), names)
