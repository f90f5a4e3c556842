"""Writing a data folder, whole or not at all."""

from pathlib import Path

import polars as pl

from clbr.data.dataset import BundleDataset, Nodes
from clbr.data.pairs import Pairs
from clbr.data.read import SIZE_SUFFIX, TABLES
from clbr.errors import InputError
from clbr.files import whole_folder, write_synced

NODE_FILES = ("users.csv", "bundles.csv", "items.csv")
ORIGIN = "origin.toml"


def is_data_folder(folder: Path) -> bool:
    """Whether a folder is a whole data folder and nothing else: what `force` may replace."""
    entries = list(folder.iterdir())
    rest = {entry.name for entry in entries} - {*TABLES.values(), *NODE_FILES, ORIGIN}
    sized = len(rest) == 1 and rest.pop().endswith(SIZE_SUFFIX)
    plain = all(entry.is_file() and not entry.is_symlink() for entry in entries)
    return sized and plain and all((folder / table).exists() for table in TABLES.values())


def save(dataset: BundleDataset, out: str | Path, *, origin: str = "", force: bool = False) -> Path:
    """Write a data set to a folder that `load` reads; `origin` is TOML text on where it came from.

    A folder that holds something is refused; `force` replaces a data folder, never anything else.
    """
    out = Path(out)
    for part, file in TABLES.items():
        if not len(getattr(dataset, part)):
            raise InputError(f"{dataset.name}: has no pairs for {file}, and a data folder needs some in each file")
    with whole_folder(out, force, is_data_folder) as folder:
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
