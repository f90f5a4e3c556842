"""Data folders: reading and writing the canonical layout, as published for Youshu, NetEase and iFashion.

<Name>_data_size.txt                  users, bundles, items
user_bundle_{train,tune,test}.txt     a pair of numbers per line, tab-separated, counted from 0, no header
user_item.txt, bundle_item.txt        the same
users.csv, bundles.csv, items.csv     optional: id and name of each node, in the order of the numbers

A table may be Parquet instead of text: user_item.parquet, or a folder user_item of Parquet files (see pair_files.py).
"""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import numpy as np
import polars as pl

from clbr.data.dataset import BundleDataset, Nodes, shared_pairs
from clbr.data.faults import explain_shared, explain_size
from clbr.data.pair_files import UNREADABLE, Format, PairsWriter, find_table, read_tables
from clbr.data.pairs import KINDS, MAX_NODES, SIDES, Kind, Pairs
from clbr.errors import InputError
from clbr.files import atomic_folder, local_folder, read_bytes, write_synced

SIZE_SUFFIX = "_data_size.txt"
TABLES = {
    "train": "user_bundle_train.txt",
    "validation": "user_bundle_tune.txt",
    "test": "user_bundle_test.txt",
    "ui": "user_item.txt",
    "bi": "bundle_item.txt",
}
KINDS_OF: dict[str, tuple[Kind, Kind]] = dict.fromkeys(TABLES, SIDES["ub"]) | {r: SIDES[r] for r in ("ui", "bi")}
NODE_FILES = ("users.csv", "bundles.csv", "items.csv")
ORIGIN = "origin.toml"
PARQUET_BYTES = 8
"""Bytes of a pair in Parquet at most: two numbers of four bytes, before they are compressed."""


def as_dataset(data: object) -> BundleDataset:
    """A data set, or the data set of a data folder."""
    return data if isinstance(data, BundleDataset) else load(data)  # type: ignore[arg-type]


def load(path: str | Path) -> BundleDataset:
    """Read a data folder; also one with a URL (see `local_folder`).

    A repeated row of a file counts once (see `BundleDataset.merged`).
    """
    folder = local_folder(path, "data")
    size_file = _size_file(folder)
    users, bundles, items = (
        _read_nodes(folder, kind, count, size_file) for kind, count in zip(KINDS, read_sizes(size_file), strict=True)
    )
    nodes = {"user": users, "bundle": bundles, "item": items}
    paths = {part: find_table(folder, file) for part, file in TABLES.items()}
    sides = {part: (nodes[left], nodes[right]) for part, (left, right) in KINDS_OF.items()}
    parts: dict[str, Pairs] = {}
    merged: dict[str, int] = {}
    for (part, table), (pairs, repeated) in zip(paths.items(), read_tables(paths, sides), strict=True):
        parts[part] = pairs
        if repeated:
            merged[table.name] = repeated
    try:
        return BundleDataset(
            size_file.name.removesuffix(SIZE_SUFFIX),
            users,
            bundles,
            items,
            train=parts["train"],
            validation=parts["validation"],
            test=parts["test"],
            ui=parts["ui"],
            bi=parts["bi"],
            merged=merged,
        )
    except InputError:
        for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
            shared = shared_pairs(parts[one], parts[other], len(bundles))
            if len(shared):
                raise explain_shared(paths[one], paths[other], shared) from None
        raise


def read_sizes(path: Path) -> tuple[int, int, int]:
    """The numbers of users, bundles and items in a size file."""
    content = read_bytes(path)
    fields = content.split()
    if len(fields) != 3 or not all(field.isdigit() and len(field) < 19 for field in fields):
        raise explain_size(path, content)
    users, bundles, items = (int(field) for field in fields)
    return users, bundles, items


def _size_file(folder: Path) -> Path:
    if not folder.is_dir():
        found = "is a file" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {found}; expected a data folder with a file <Name>{SIZE_SUFFIX}")
    found_files = sorted(folder.glob(f"*{SIZE_SUFFIX}"))
    if len(found_files) != 1:
        what = ", ".join(file.name for file in found_files) or "no such file"
        raise InputError(f"{folder}: expected one file <Name>{SIZE_SUFFIX}, found {what}")
    return found_files[0]


def _read_nodes(folder: Path, kind: Kind, count: int, size_file: Path) -> Nodes:
    if not 0 < count <= MAX_NODES:
        raise InputError(f"{size_file}, line 1: {count} {kind}s, expected between 1 and {MAX_NODES:,}")
    path = folder / f"{kind}s.csv"
    if not path.exists():
        return Nodes(kind, count)
    try:
        table = pl.read_csv(read_bytes(path), infer_schema=False)
    except UNREADABLE as error:
        raise InputError(f"{path}: not a CSV file in UTF-8 ({str(error).splitlines()[0]})") from None
    if table.columns not in (["id"], ["id", "name"]):
        raise InputError(f"{path}, line 1: expected the header id or id,name, found {','.join(table.columns)}")
    if table.height != count:
        raise InputError(f"{path}: has {table.height} {kind}s, but the size file says {count}")
    if table["id"].null_count():
        line = int(np.flatnonzero(table["id"].is_null().to_numpy())[0]) + 2
        raise InputError(f"{path}, line {line}: empty id")
    twice = table["id"].is_duplicated()
    if twice.any():
        line = int(twice.arg_true()[0]) + 2
        raise InputError(f"{path}, line {line}: id '{table['id'][line - 2]}' is repeated; ids must be unique")
    names = tuple(table["name"].to_list()) if "name" in table.columns else None
    whole = bool(table["id"].str.contains(r"^(0|[1-9][0-9]{0,17})$").all())  # 007 is a text: it would not survive
    return Nodes(kind, count, tuple(table["id"].to_list()), names, integer_ids=whole)


def is_data_folder(folder: Path) -> bool:
    """Whether a folder is a complete data folder with no other files; only such a folder may be replaced."""
    entries = list(folder.iterdir())
    tables = {find_table(folder, file) for file in TABLES.values()}
    rest = {entry.name for entry in entries} - {*(table.name for table in tables), *NODE_FILES, ORIGIN}
    sized = len(rest) == 1 and rest.pop().endswith(SIZE_SUFFIX)
    # A table may be a folder, of the files that `save` writes.
    files = [file for entry in entries for file in (entry.iterdir() if entry in tables and entry.is_dir() else [entry])]
    plain = all(file.is_file() and not file.is_symlink() for file in files)
    parts = all(re.fullmatch(r"part-\d+\.parquet", file.name) for file in files if file.parent != folder)
    return sized and plain and parts and all(table.exists() for table in tables)


def save(
    dataset: BundleDataset, out: str | Path, *, origin: str = "", force: bool = False, format: Format = "text"
) -> Path:
    """Write a data set to a folder that `load` reads. `origin` is TOML text on where the data came from.

    `format` is "text", as public data sets are published, or "parquet". A folder that is not empty raises an
    `InputError`; `force` replaces a data folder, but no other folder.
    """
    out, nodes = Path(out), (dataset.users, dataset.bundles, dataset.items)
    with write_folder(out, dataset.name, *nodes, format=format, origin=origin, force=force) as write:
        for part in TABLES:
            write(part, getattr(dataset, part))
    return out


@contextmanager
def write_folder(
    out: Path,
    name: str,
    users: Nodes,
    bundles: Nodes,
    items: Nodes,
    *,
    format: Format = "text",
    origin: str = "",
    force: bool = False,
) -> Iterator[Callable[[str, Pairs], None]]:
    """Yield a function that appends sorted pairs to a part ("train", "ui", ...) of a new data folder.

    The folder is written atomically: it is there when the block ends without an error. See `save`.
    """
    if format not in get_args(Format):
        raise InputError(f"unknown format '{format}': expected {' or '.join(get_args(Format))}", "format")
    with atomic_folder(out, force, is_data_folder) as folder:
        sizes = "\t".join(str(len(nodes)) for nodes in (users, bundles, items))
        write_synced(folder / f"{name}{SIZE_SUFFIX}", f"{sizes}\n".encode())
        for nodes, file in zip((users, bundles, items), NODE_FILES, strict=True):
            if nodes.ids is not None or nodes.names is not None:
                write_synced(folder / file, _nodes_text(nodes))
        if origin:
            write_synced(folder / ORIGIN, origin.encode("utf-8", "replace"))
        writers = {part: PairsWriter(folder, file, format, KINDS_OF[part]) for part, file in TABLES.items()}
        yield lambda part, pairs: writers[part].write(pairs)
        for part, writer in writers.items():
            writer.close()
            if not writer.rows:
                raise InputError(
                    f"{name}: has no pairs for {TABLES[part]}; a data folder needs at least one in each file"
                )


def require_room(out: Path, sizes: Mapping[Kind, int], pairs: Mapping[str, int], format: Format) -> None:
    """Raise an `InputError` if the disk has no room for a folder of these numbers of nodes and pairs (by part)."""
    needed = 0
    for part, count in pairs.items():
        digits = sum(len(str(sizes[kind] - 1)) for kind in KINDS_OF[part])
        needed += count * (PARQUET_BYTES if format == "parquet" else digits + 2)
    place = next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.is_dir())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise InputError(
            f"{out}: needs up to {needed / 1e9:.3g} GB, but its disk has {free / 1e9:.3g} GB free; choose a smaller "
            "scale or another disk",
            *("scale", "out"),
        )


def _nodes_text(nodes: Nodes) -> bytes:
    columns: dict[str, object] = {"id": nodes.ids or [str(index) for index in range(nodes.count)]}
    if nodes.names is not None:
        columns["name"] = nodes.names
    return (
        pl.DataFrame(columns, schema_overrides={"name": pl.String} if "name" in columns else None).write_csv().encode()
    )
