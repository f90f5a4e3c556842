"""From tables to a data set: number the ids, merge repeated pairs, split user-bundle, add names.

Files and frames share this code, so the same tables give the same data set in either form.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from clbr.data.checks import Finding
from clbr.data.columns import Table
from clbr.data.dataset import Backend, BundleDataset, Nodes
from clbr.data.pairs import KINDS, SIDES, Codes, Kind, Pairs, decode, distinct, encode
from clbr.data.split import (
    SPLITS,
    SplitConfig,
    hide_held_out_items,
    split_last,
    split_leave_one_out,
    split_random,
)
from clbr.errors import InputError

RELATIONS: dict[str, tuple[Kind, Kind]] = {
    "user_bundle": SIDES["ub"],
    "validation": SIDES["ub"],
    "test": SIDES["ub"],
    "user_item": SIDES["ui"],
    "bundle_item": SIDES["bi"],
}
"""The kinds of node in each table of pairs."""


@dataclass(frozen=True)
class Built:
    """A data set, and what was left out of it."""

    dataset: BundleDataset
    merged: dict[str, int]
    """Repeated rows, by table."""
    unmatched_names: int
    """Names whose id is in no relation."""
    findings: tuple[Finding, ...] = ()
    """What is probably wrong with the tables of names."""


def build_dataset(
    tables: Mapping[str, Table],
    split: SplitConfig | None,
    name: str,
    backend: Backend = "polars",
    hide_items: bool = False,
) -> Built:
    """Number the ids, merge repeated pairs, split user-bundle and add names.

    `tables` has the three relations and maybe names. If it has validation and test, these are the split, and `split`
    is not used. Of a repeated pair the earliest time counts. `hide_items` removes the user-item pairs that came with
    held-out bundles.
    """
    relations = [key for key in RELATIONS if key in tables]
    nodes, pairs, unmatched = _number_tables(tables, relations)
    chosen = {key: pairs[key] for key in relations if RELATIONS[key] == SIDES["ub"]}
    parts = _split_pairs(chosen, tables, split, nodes["user"], nodes["bundle"])
    merged = {"user_bundle": sum(map(len, chosen.values())) - sum(map(len, parts.values()))}
    for part, key in (("ui", "user_item"), ("bi", "bundle_item")):
        parts[part] = _merge(pairs[key], len(nodes["item"]))
        merged[key] = len(pairs[key]) - len(parts[part])
    if hide_items:
        parts["ui"] = _hide_items(parts, tables["user_item"], len(nodes["bundle"]), len(nodes["item"]))
    dataset = BundleDataset(
        name,
        nodes["user"],
        nodes["bundle"],
        nodes["item"],
        train=parts["train"],
        validation=parts["validation"],
        test=parts["test"],
        ui=parts["ui"],
        bi=parts["bi"],
        merged=merged,
        hidden=len(pairs["user_item"]) - merged["user_item"] - len(parts["ui"]),
        backend=backend,
    )
    findings = tuple(f for k in KINDS if f"{k}_names" in tables for f in check_names(k, tables[f"{k}_names"]))
    return Built(dataset, merged, unmatched, findings)


def _number_tables(
    tables: Mapping[str, Table], relations: Sequence[str]
) -> tuple[dict[Kind, Nodes], dict[str, Pairs], int]:
    """All nodes with their names, the pairs of each relation by their indices, and how many names belong to no node."""
    columns: dict[str, list[NDArray[np.int32]]] = {key: [] for key in relations}
    nodes: dict[Kind, Nodes] = {}
    unmatched = 0
    for kind in KINDS:  # in the order in which the kinds stand in a pair
        ids, whole = _id_columns(kind, {key: tables[key] for key in relations if kind in RELATIONS[key]})
        index = number_ids(list(ids.values()))
        names, left_out = match_names(kind, index, tables.get(f"{kind}_names"))
        unmatched += left_out
        nodes[kind] = Nodes(kind, index.height, tuple(index["id"].to_list()), names, integer_ids=whole)
        for key, column in ids.items():
            columns[key].append(lookup_ids(column, index))
    return nodes, {key: np.stack(columns.pop(key), axis=1) for key in relations}, unmatched


def _id_columns(kind: Kind, tables: Mapping[str, Table]) -> tuple[dict[str, pl.Series], bool]:
    """The ids of a kind in each table, and whether they are whole numbers in all of them.

    They are texts, or whole numbers where all tables have these: that needs less memory.
    """
    numbers = {key: table.whole_numbers(kind) for key, table in tables.items()}
    found = {key: column for key, column in numbers.items() if column is not None}
    if len(found) == len(tables):
        return found, True
    texts = {key: table.ids(kind) for key, table in tables.items()}
    return {key: column for key, (column, _) in texts.items()}, all(whole for _, whole in texts.values())


def number_ids(columns: Sequence[pl.Series]) -> pl.DataFrame:
    """The distinct ids as texts, numbered in their order: numeric if all are whole numbers, else alphabetical."""
    ids = pl.concat([column.rename("id").unique() for column in columns]).unique()
    if ids.dtype.is_integer():
        ids = ids.sort().cast(pl.String)
    elif ids.str.contains(r"^\d+$").all():
        bare = ids.str.strip_chars_start("0")
        ids = pl.DataFrame({"id": ids, "length": bare.str.len_bytes(), "bare": bare}).sort("length", "bare", "id")["id"]
    else:
        ids = ids.sort()
    return pl.DataFrame({"id": ids}).with_row_index("number")


def lookup_ids(ids: pl.Series, index: pl.DataFrame) -> NDArray[np.int32]:
    """The number of each id; the ids are texts, or whole numbers if all those of the index are."""
    if ids.dtype.is_integer():
        return index["id"].cast(pl.Int64).search_sorted(ids).cast(pl.Int32).to_numpy()
    joined = pl.DataFrame({"id": ids}).join(index, on="id", how="left", maintain_order="left")
    return joined["number"].cast(pl.Int32).to_numpy()


def match_names(kind: Kind, index: pl.DataFrame, table: Table | None) -> tuple[tuple[str | None, ...] | None, int]:
    """The name of each node, and how many names belong to no node."""
    if table is None:
        return None, 0
    by_id = _cleaned_names(kind, table).unique("id", keep="first", maintain_order=True)
    unmatched = by_id.join(index, on="id", how="anti").height
    if unmatched == by_id.height:
        raise InputError(
            f"{table.source}: none of its ids is in the relations: it has {kind} '{by_id['id'][0]}', "
            f"they have '{index['id'][0]}'"
        )
    names = index.join(by_id, on="id", how="left", maintain_order="left")["name"]
    return tuple(names.to_list()), unmatched


def check_names(kind: Kind, table: Table) -> Iterator[Finding]:
    """Ids with more than one name."""
    names = _cleaned_names(kind, table).drop_nulls().unique(maintain_order=True)
    again = names.filter(pl.col("id").is_duplicated())
    if again.height:
        ids, id = again["id"].n_unique(), again["id"][0]
        kept, other = again.filter(pl.col("id") == id)["name"][:2]
        yield Finding(
            "names",
            f"{table.source}: {ids:,} {kind}{'s have' if ids > 1 else ' has'} more than one name; {kind} '{id}' is "
            f"'{kept}' and '{other}'. The first one is kept. Check that the {kind} column is the right one, and delete "
            "the rows that are wrong",
        )


def _cleaned_names(kind: Kind, table: Table) -> pl.DataFrame:
    """The ids and cleaned names of a table, in its order."""
    cleaned = [_clean_name(name) for name in table.texts("name")]
    return pl.DataFrame({"id": table.ids(kind)[0], "name": pl.Series(cleaned, dtype=pl.String)})


def _clean_name(name: str | None) -> str | None:
    """A name without HTML entities and without repeated or surrounding whitespace; None if nothing is left."""
    return " ".join(html.unescape(name).split()) or None if name else None


def _merge(pairs: Pairs, width: int) -> Pairs:
    """The distinct pairs, sorted."""
    return decode(distinct(encode(pairs, width)), width)


def _split_pairs(
    chosen: Mapping[str, Pairs], tables: Mapping[str, Table], split: SplitConfig | None, users: Nodes, bundles: Nodes
) -> dict[str, Pairs]:
    """The distinct user-bundle pairs of each split."""
    pairs, table, width = chosen["user_bundle"], tables["user_bundle"], len(bundles)
    if split is None or split.method == "given":
        if split is None:  # a frame per split
            labels = np.repeat(np.arange(len(SPLITS), dtype=np.int8), [len(part) for part in chosen.values()])
            pairs = np.concatenate(list(chosen.values()))
        else:
            labels = table.splits(SPLITS)
        _check_given_split(encode(pairs, width), labels, [tables[key] for key in chosen], users, bundles)
        parts = {part: _merge(pairs[labels == label], width) for label, part in enumerate(SPLITS)}
    else:
        codes = encode(pairs, width)
        if split.method == "last":
            times = table.times()
            order = np.lexsort((times, codes))  # the earliest of a repeated pair first
            codes, first = np.unique(codes[order], return_index=True)
            pairs = decode(codes, width)
            labels = split_last(pairs, times[order][first])
        else:
            pairs = decode(distinct(codes), width)
            labels = (
                split_random(pairs[:, 0], split.validation, split.test, split.seed)
                if split.method == "random"
                else split_leave_one_out(pairs[:, 0], split.seed)
            )
        parts = {part: pairs[labels == label] for label, part in enumerate(SPLITS)}
    for part in SPLITS:
        if not len(parts[part]):
            method = split.method if split else "given"
            reason = "it has no such row" if method == "given" else _too_small(pairs[:, 0], method)
            raise InputError(f"{table.source}: the split leaves {part} empty; {reason}", "split")
    return parts


def _too_small(users: NDArray[np.int32], method: str) -> str:
    """Why a split by users held nothing out, and which splits are for small data."""
    if np.bincount(users).max() == 1:
        found = "each user has one pair (is the user column the right one?)"
    else:
        found = "one user has two pairs" if method == "leave-one-out" else "no user has three pairs or more"
    return (
        f"{found}. For small data: leave-one-out holds out one pair of each user with two, and needs two such users; "
        "given takes a split of your own from a column 'split'"
    )


def _hide_items(parts: Mapping[str, Pairs], table: Table, bundles: int, items: int) -> Pairs:
    """The user-item pairs without those that came with held-out bundles."""
    held_out = np.concatenate([parts["validation"], parts["test"]])
    kept = hide_held_out_items(parts["ui"], parts["bi"], parts["train"], held_out, bundles, items)
    if not len(kept):
        raise InputError(
            f"{table.source}: all of its {len(parts['ui']):,} pairs came with held-out bundles, so nothing is left "
            "without them; give a table of items that users chose on their own",
            "hide_held_out_items",
        )
    return kept


def _check_given_split(
    codes: Codes, labels: NDArray[np.int8], tables: Sequence[Table], users: Nodes, bundles: Nodes
) -> None:
    """Check that no pair is in two splits. `codes` and `labels` are those of all rows of the tables."""
    order = np.lexsort((labels, codes))
    same = (codes[order][1:] == codes[order][:-1]) & (labels[order][1:] != labels[order][:-1])
    if not same.any():
        return
    ends = np.cumsum([len(table.frame) for table in tables])
    first = int(np.flatnonzero(same)[0])
    places = []
    for row in (int(order[first]), int(order[first + 1])):
        table = int(np.searchsorted(ends, row, side="right"))
        place = tables[table].place(row - (int(ends[table - 1]) if table else 0))
        places.append((SPLITS[labels[row]], place))
    user, bundle = divmod(int(codes[order[first]]), len(bundles))
    (one, there), (other, here) = places
    raise InputError(
        f"{here}: user '{users.id(user)}' and bundle '{bundles.id(bundle)}' are a pair of {other}, but of {one} in "
        f"{there} ({int(same.sum()):,} such): a pair belongs to one split; delete it from the others"
    )
