"""Your own tables: CSV, TSV or Parquet, any column names, string or whole-number ids -> BundleDataset."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from clbr.config import Config
from clbr.data.dataset import BundleDataset, Nodes
from clbr.data.pairs import Pairs, decode, encode
from clbr.data.split import SPLITS, SplitConfig, split_last, split_random
from clbr.data.table import Table, check_columns, read_table
from clbr.errors import InputError


class Origin(Config):
    """Where an imported data set came from; written beside it."""

    tables: dict[str, str]
    rows: dict[str, int]
    merged: dict[str, int]
    split: SplitConfig


@dataclass(frozen=True)
class Imported:
    """An imported data set and the story of its import."""

    dataset: BundleDataset
    origin: Origin
    nameless: int
    """Rows of the name tables whose id appears in no relation; they were left out."""


def import_tables(
    user_bundle: Path,
    user_item: Path,
    bundle_item: Path,
    *,
    name: str = "own",
    columns: Mapping[str, str] | None = None,
    bundle_names: Path | None = None,
    item_names: Path | None = None,
    split: SplitConfig | None = None,
) -> Imported:
    """Read three tables with a header, number their ids, merge repeated pairs and split user-bundle.

    `columns` gives the tables' own names for user, bundle, item, time, split and name, for all tables or
    for one ("user_item.user"). Ids are numbered in their sorted order, so neither the order of the rows
    nor of the files changes the result. Of a repeated pair the earliest time counts.
    """
    split = split or SplitConfig()
    columns = columns or {}
    check_columns(columns)
    ub_table = read_table("user_bundle", user_bundle, columns)
    ui_table = read_table("user_item", user_item, columns)
    bi_table = read_table("bundle_item", bundle_item, columns)
    ub = pl.DataFrame({"user": ub_table.ids("user"), "bundle": ub_table.ids("bundle")})
    ui = pl.DataFrame({"user": ui_table.ids("user"), "item": ui_table.ids("item")})
    bi = pl.DataFrame({"bundle": bi_table.ids("bundle"), "item": bi_table.ids("item")})
    index = {
        "user": _number(ub["user"], ui["user"]),
        "bundle": _number(ub["bundle"], bi["bundle"]),
        "item": _number(ui["item"], bi["item"]),
    }
    users, _ = _nodes("user", index["user"], None)
    bundles, spare_bundles = _nodes("bundle", index["bundle"], bundle_names, columns)
    items, spare_items = _nodes("item", index["item"], item_names, columns)

    parts, merged_ub = _split_pairs(_numbered(ub, index), ub_table, split, len(bundles))
    parts["ui"], merged_ui = _merge(_numbered(ui, index), len(items))
    parts["bi"], merged_bi = _merge(_numbered(bi, index), len(items))
    merged = {"user_bundle": merged_ub, "user_item": merged_ui, "bundle_item": merged_bi}
    dataset = BundleDataset(name, users, bundles, items, **parts, merged=merged)
    for part, pairs in (("validation", dataset.validation), ("test", dataset.test)):
        if not len(pairs):
            raise InputError(f"{user_bundle}: the split leaves {part} empty; it takes users with three pairs or more")
    tables = (ub_table, ui_table, bi_table)
    origin = Origin(
        tables={table.name: table.path.name for table in tables},
        rows={table.name: table.frame.height for table in tables},
        merged=merged,
        split=split,
    )
    return Imported(dataset, origin, spare_bundles + spare_items)


def _number(*columns: pl.Series) -> pl.DataFrame:
    """Every distinct id with its number: in numeric order if all are whole numbers, else alphabetical."""
    ids = pl.concat([column.rename("id") for column in columns]).unique()
    if ids.str.contains(r"^\d+$").all():
        bare = ids.str.strip_chars_start("0")
        ids = pl.DataFrame({"id": ids, "length": bare.str.len_bytes(), "bare": bare}).sort("length", "bare", "id")["id"]
    else:
        ids = ids.sort()
    return pl.DataFrame({"id": ids}).with_row_index("number")


def _numbered(pairs: pl.DataFrame, index: Mapping[str, pl.DataFrame]) -> Pairs:
    """Ids replaced by their numbers, row by row."""
    numbers = []
    for role in pairs.columns:
        joined = pairs.select(id=role).join(index[role], on="id", how="left", maintain_order="left")
        numbers.append(joined["number"].cast(pl.Int32).to_numpy())
    return np.stack(numbers, axis=1)


def _merge(pairs: Pairs, width: int) -> tuple[Pairs, int]:
    codes = np.unique(encode(pairs, width))
    return decode(codes, width), len(pairs) - len(codes)


def _split_pairs(pairs: Pairs, table: Table, split: SplitConfig, width: int) -> tuple[dict[str, Pairs], int]:
    """The distinct pairs by split, and how many rows repeated one."""
    if split.method == "given":
        labels = table.splits(SPLITS)
        parts = {part: _merge(pairs[labels == label], width)[0] for label, part in enumerate(SPLITS)}
        return parts, len(pairs) - sum(len(part) for part in parts.values())
    codes = encode(pairs, width)
    if split.method == "last":
        times = table.times()
        order = np.lexsort((times, codes))  # the earliest of a repeated pair first
        codes, first = np.unique(codes[order], return_index=True)
        distinct = decode(codes, width)
        labels = split_last(distinct, times[order][first])
    else:
        distinct = decode(np.unique(codes), width)
        labels = split_random(distinct[:, 0], split.validation, split.test, split.seed)
    parts = {part: distinct[labels == label] for label, part in enumerate(SPLITS)}
    return parts, len(pairs) - len(distinct)


def _nodes(
    kind: Literal["user", "bundle", "item"],
    index: pl.DataFrame,
    names: Path | None,
    columns: Mapping[str, str] | None = None,
) -> tuple[Nodes, int]:
    """The nodes with their ids and, where a table gives them, names; and how many names found no node."""
    ids = tuple(index["id"].to_list())
    if names is None:
        return Nodes(kind, len(ids), ids), 0
    table = read_table(f"{kind}_names", names, columns or {})
    by_id = pl.DataFrame({"id": table.ids(kind), "name": table.texts("name")})
    by_id = by_id.unique("id", keep="first", maintain_order=True)
    joined = index.join(by_id, on="id", how="left", maintain_order="left")
    spare = by_id.join(index, on="id", how="anti").height
    return Nodes(kind, len(ids), ids, tuple(joined["name"].to_list())), spare
