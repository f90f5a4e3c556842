"""Data folders: reading and writing the canonical layout, as published for Youshu, NetEase and iFashion.

<Name>_data_size.txt                  users, bundles, items
user_bundle_{train,tune,test}.txt     a pair of numbers per line, tab-separated, counted from 0, no header
user_item.txt, bundle_item.txt        the same
users.csv, bundles.csv, items.csv     optional: id and name of each node, in the order of the numbers
"""

import codecs
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from clbr.data.dataset import KINDS, BundleDataset, Kind, Nodes, shared_pairs
from clbr.data.faults import explain_pairs, explain_shared, explain_size
from clbr.data.pairs import MAX_NODES, Ids, Pairs, decode, distinct, encode, in_order
from clbr.errors import InputError
from clbr.files import as_path, atomic_folder, read_bytes, write_synced

UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What polars raises. It is an OSError if text starts like a compressed stream but is none."""
SIZE_SUFFIX = "_data_size.txt"
TABLES = {
    "train": "user_bundle_train.txt",
    "validation": "user_bundle_tune.txt",
    "test": "user_bundle_test.txt",
    "ui": "user_item.txt",
    "bi": "bundle_item.txt",
}
NODE_FILES = ("users.csv", "bundles.csv", "items.csv")
ORIGIN = "origin.toml"


def as_dataset(data: object) -> BundleDataset:
    """A data set, or the data set of a data folder."""
    return data if isinstance(data, BundleDataset) else load(as_path(data, "data"))


def load(path: str | Path) -> BundleDataset:
    """Read a data folder. A repeated row of a file counts once (see `BundleDataset.merged`)."""
    folder = as_path(path, "data")
    size_file = _size_file(folder)
    users, bundles, items = (
        _read_nodes(folder, kind, count, size_file) for kind, count in zip(KINDS, read_sizes(size_file), strict=True)
    )

    ub, ui, bi = (users, bundles), (users, items), (bundles, items)
    sides = dict(zip(TABLES, (ub, ub, ub, ui, bi), strict=True))
    parts: dict[str, Pairs] = {}
    merged: dict[str, int] = {}
    for part, (pairs, repeated) in zip(TABLES, _read_tables(folder, sides), strict=True):
        parts[part] = pairs
        if repeated:
            merged[TABLES[part]] = repeated
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        shared = shared_pairs(parts[one], parts[other], len(bundles))
        if len(shared):
            raise explain_shared(folder / TABLES[one], folder / TABLES[other], shared)
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


def _read_tables(folder: Path, sides: Mapping[str, tuple[Nodes, Nodes]]) -> Iterator[tuple[Pairs, int]]:
    """For each file its distinct pairs, all in range, and the number of repeated rows."""
    try:  # all files at once, so that small ones do not leave a core idle
        frames = pl.collect_all([_scan(folder / file) for file in TABLES.values()])
    except UNREADABLE:
        frames = [pl.DataFrame() for _ in TABLES]  # each file is read again below
    for (part, file), frame in zip(TABLES.items(), frames, strict=True):
        columns = _columns(frame, *sides[part]) or _read_slowly(folder / file, *sides[part])
        yield _distinct_pairs(columns, len(sides[part][1]))


def _scan(source: Path | bytes) -> pl.LazyFrame:
    schema = {"left": pl.Int32(), "right": pl.Int32()}
    return pl.scan_csv(source, has_header=False, separator="\t", schema=schema, quote_char=None, glob=False)


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
        columns = _columns(_scan(content).collect(), left, right)
    except UNREADABLE as error:
        raise explain_pairs(path, content, left, right, str(error)) from None
    if columns is None:
        raise explain_pairs(path, content, left, right, "an id is out of range")
    return columns


def _distinct_pairs(columns: tuple[Ids, Ids], width: int) -> tuple[Pairs, int]:
    pairs = np.stack(columns, axis=1)
    if in_order(*columns):
        return pairs, 0
    once = distinct(encode(pairs, width))
    return decode(once, width), len(pairs) - len(once)


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
    rest = {entry.name for entry in entries} - {*TABLES.values(), *NODE_FILES, ORIGIN}
    sized = len(rest) == 1 and rest.pop().endswith(SIZE_SUFFIX)
    plain = all(entry.is_file() and not entry.is_symlink() for entry in entries)
    return sized and plain and all((folder / table).exists() for table in TABLES.values())


def save(dataset: BundleDataset, out: str | Path, *, origin: str = "", force: bool = False) -> Path:
    """Write a data set to a folder that `load` reads. `origin` is TOML text on where the data came from.

    A folder that is not empty raises an `InputError`; `force` replaces a data folder, but no other folder.
    """
    out = Path(out)
    for part, file in TABLES.items():
        if not len(getattr(dataset, part)):
            raise InputError(f"{dataset.name}: has no pairs for {file}; a data folder needs at least one in each file")
    with atomic_folder(out, force, is_data_folder) as folder:
        sizes = "\t".join(str(len(nodes)) for nodes in (dataset.users, dataset.bundles, dataset.items))
        write_synced(folder / f"{dataset.name}{SIZE_SUFFIX}", f"{sizes}\n".encode())
        for part, file in TABLES.items():
            write_synced(folder / file, _pairs_text(getattr(dataset, part)))
        for nodes, file in zip((dataset.users, dataset.bundles, dataset.items), NODE_FILES, strict=True):
            if nodes.ids is not None or nodes.names is not None:
                write_synced(folder / file, _nodes_text(nodes))
        if origin:
            write_synced(folder / ORIGIN, origin.encode("utf-8", "replace"))
    return out


def _pairs_text(pairs: Pairs) -> bytes:
    table = pl.DataFrame({"left": pairs[:, 0], "right": pairs[:, 1]})
    return table.write_csv(separator="\t", include_header=False).encode()


def _nodes_text(nodes: Nodes) -> bytes:
    columns: dict[str, object] = {"id": nodes.ids or [str(index) for index in range(nodes.count)]}
    if nodes.names is not None:
        columns["name"] = nodes.names
    return (
        pl.DataFrame(columns, schema_overrides={"name": pl.String} if "name" in columns else None).write_csv().encode()
    )
