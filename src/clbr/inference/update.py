"""New data without retraining: new users, bundles, items, pairs and names enter a trained recommender.

New pairs extend the graph, and the vectors are computed on it: known nodes change by propagation alone. New nodes get
parameters of their own (new_nodes.py). A closed-form model is computed again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from clbr.data.columns import Table, check_columns
from clbr.data.dataset import BundleDataset, Nodes
from clbr.data.frames import frame_table, names_table
from clbr.data.numbering import RELATIONS, lookup_ids, match_names, number_ids
from clbr.data.pairs import Kind, Pairs, Relation, contains, decode, distinct, encode
from clbr.data.tables import read_table
from clbr.errors import InputError, UnsupportedError
from clbr.inference.artifact import KINDS, Artifact, make_graph
from clbr.inference.export import widened
from clbr.inference.new_nodes import LEARNING_RATE, STEPS, fit_new_nodes, grown_model
from clbr.models.base import ClosedForm, Encoder, Model
from clbr.models.registry import find_model, make_model

TABLES: dict[str, Relation] = {"user_bundle": "ub", "user_item": "ui", "bundle_item": "bi"}
NAMES: dict[str, Kind] = {f"{kind}_names": kind for kind in KINDS}
WHOLE_NUMBER = r"^(0|[1-9]\d{0,17})$"


@dataclass(frozen=True)
class Rows:
    """What became of the rows of a table."""

    total: int
    added: int
    known: int
    """Pairs that the recommender has already."""
    repeated: int


@dataclass(frozen=True)
class Updated:
    """An updated artifact in memory, its data, and what was added."""

    artifact: Artifact
    dataset: BundleDataset
    """All pairs. Validation and test are empty if the update did not know them."""
    nodes: dict[Kind, int]
    """Numbers of new users, bundles and items."""
    rows: dict[str, Rows]
    """By table of pairs."""
    names: dict[Kind, int]
    """Numbers of nodes whose name is new or has changed, by table of names."""
    unmatched_names: int
    """Names whose id no node has; they are left out."""


def update(
    artifact: Artifact,
    tables: Mapping[str, Any],
    columns: Mapping[str, str] | None = None,
    dataset: BundleDataset | None = None,
    *,
    steps: int = STEPS,
    learning_rate: float = LEARNING_RATE,
) -> Updated:
    """Add tables (frames, or paths of files; None is left out) of pairs and of names of new and known nodes.

    The pairs are user_bundle, user_item and bundle_item; the names user_names, bundle_names and item_names (also
    mappings from id to name). `dataset` is the data that the artifact was made of, if it is at hand: its validation and
    test pairs are kept, but for those that are added. `steps` and `learning_rate` are those of the fit of new nodes;
    with 0 steps their parameters stay 0. New pairs for a model without embeddings that is not in closed form raise an
    `UnsupportedError`.
    """
    read = _read(tables, columns or {})
    relations = {name: table for name, table in read.items() if name in TABLES}
    kind = find_model(artifact.about.model)
    if relations and not issubclass(kind, ClosedForm | Encoder):
        raise UnsupportedError(
            f"{artifact.about.model} computes no embeddings from a graph, so it has to be trained again on all data"
        )
    nodes, given = _number(artifact, relations)
    pairs, rows = _merge(artifact, nodes, given)
    names, unmatched = _rename(nodes, read)
    new = {kind: len(nodes[kind]) - len(artifact.nodes[kind]) for kind in KINDS}
    added = {f"{kind}s": count for kind, count in new.items()} | {name: table.added for name, table in rows.items()}
    if not any(added.values()) and not any(names.values()):
        what = "pairs and names" if names and rows else "names" if names else "pairs"
        raise InputError(f"nothing to add: the recommender has all {what} of the tables already", *read)
    if "bi" in kind.relations:
        _require_contents(artifact, relations, given, nodes["bundle"], pairs["bi"])
    extended = _dataset(artifact, nodes, pairs, dataset)
    if any(added.values()):
        model = _updated_model(artifact, kind, extended, steps, learning_rate)
        updated = _updated_artifact(artifact, model, extended, added)
    else:
        updated = Artifact.of(artifact.about.model_copy(update={"files": {}}), artifact.model, extended)
    return Updated(updated, extended, new, rows, names, unmatched)


def _read(tables: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Table]:
    check_columns(columns)
    given = {name: table for name, table in tables.items() if table is not None}
    if not given:
        known = (*TABLES, *NAMES)
        raise InputError(f"nothing to add: expected at least one of {', '.join(known)}", *known)
    return {name: _read_one(name, table, columns) for name, table in given.items()}


def _read_one(name: str, table: Any, columns: Mapping[str, str]) -> Table:
    if isinstance(table, str | Path):
        return read_table(name, Path(table), columns)
    return names_table(NAMES[name], table, columns) if name in NAMES else frame_table(name, table, columns)


def _rename(nodes: dict[Kind, Nodes], tables: Mapping[str, Table]) -> tuple[dict[Kind, int], int]:
    """Give the nodes the names of tables; how many names are new or changed, and how many belong to no node.

    A node that a table does not name keeps its name.
    """
    changed, unmatched = {}, 0
    for name, kind in NAMES.items():
        if name in tables:
            before = nodes[kind].names or (None,) * len(nodes[kind])
            found, left_out = match_names(kind, pl.DataFrame({"id": _texts(nodes[kind])}), tables[name])
            names = tuple(new or old for new, old in zip(found or (), before, strict=True))
            changed[kind] = sum(new != old for new, old in zip(names, before, strict=True))
            nodes[kind] = replace(nodes[kind], names=names)
            unmatched += left_out
    return changed, unmatched


def _number(artifact: Artifact, tables: Mapping[str, Table]) -> tuple[dict[Kind, Nodes], dict[str, Pairs]]:
    """All nodes, the new ones after those known, and the pairs of each table by their indices."""
    ids = {name: {kind: table.ids(kind)[0] for kind in RELATIONS[name]} for name, table in tables.items()}
    nodes: dict[Kind, Nodes] = {}
    numbers: dict[Kind, pl.DataFrame] = {}
    for kind in KINDS:
        columns = {name: found[kind] for name, found in ids.items() if kind in found}
        nodes[kind] = _extended(artifact.nodes[kind], columns, tables)
        numbers[kind] = pl.DataFrame({"id": _texts(nodes[kind])}).with_row_index("number")
    pairs = {
        name: np.stack([lookup_ids(texts, numbers[kind]) for kind, texts in found.items()], axis=1)
        for name, found in ids.items()
    }
    return nodes, pairs


def _texts(nodes: Nodes) -> pl.Series:
    """The ids of nodes as texts."""
    if nodes.ids is None:
        return pl.int_range(len(nodes), eager=True).cast(pl.String)
    return pl.Series(nodes.ids, dtype=pl.String)


def _extended(nodes: Nodes, columns: Mapping[str, pl.Series], tables: Mapping[str, Table]) -> Nodes:
    """The nodes with those of the tables that are new, in the order of their ids, without names."""
    known = _texts(nodes)
    whole = nodes.ids is None or nodes.integer_ids
    text = not whole and not known.str.contains(r"^\d+$").any()
    new = {name: texts.filter(~texts.is_in(known.implode())) for name, texts in columns.items()}
    for name, texts in new.items():
        suspect = texts.str.contains(WHOLE_NUMBER) != whole
        if (whole or text) and suspect.any():
            id = texts.filter(suspect)[0]
            row = int((columns[name] == id).arg_true()[0])
            expected = "a whole number" if whole else "text"
            raise InputError(
                f"{tables[name].place(row)}: {nodes.kind} id '{id}' is new and not {expected} like the ids of the "
                f"recommender, for instance '{nodes.id(0)}'; give {nodes.kind}s the ids that they had in training"
            )
    if not any(map(len, new.values())):
        return nodes
    more = number_ids(list(new.values()))["id"].to_list()
    names = None if nodes.names is None else (*nodes.names, *[None] * len(more))
    return Nodes(nodes.kind, len(nodes) + len(more), (*known.to_list(), *more), names, integer_ids=whole)


def _merge(
    artifact: Artifact, nodes: dict[Kind, Nodes], given: dict[str, Pairs]
) -> tuple[dict[Relation, Pairs], dict[str, Rows]]:
    """All pairs of each relation, sorted, and what became of each table's rows."""
    merged: dict[Relation, Pairs] = {}
    rows = {}
    for name, relation in TABLES.items():
        merged[relation] = artifact.graph.edges(relation).pairs
        if name in given:
            width = len(nodes[RELATIONS[name][1]])
            old, new = encode(merged[relation], width), distinct(encode(given[name], width))
            known = contains(old, new)
            merged[relation] = decode(distinct(np.concatenate([old, new[~known]])), width)
            counts = len(given[name]), int((~known).sum()), int(known.sum()), len(given[name]) - len(new)
            rows[name] = Rows(*counts)
    return merged, rows


def _require_contents(
    artifact: Artifact, tables: Mapping[str, Table], given: dict[str, Pairs], bundles: Nodes, contents: Pairs
) -> None:
    """Raise an error for a new bundle without items; the model computes its vector from them."""
    if "user_bundle" not in given:
        return
    chosen = given["user_bundle"][:, 1]
    empty = (chosen >= artifact.about.bundles) & ~np.isin(chosen, contents[:, 0])
    if empty.any():
        row, count = int(empty.argmax()), len(np.unique(chosen[empty]))
        raise InputError(
            f"{tables['user_bundle'].place(row)}: bundle '{bundles.id(chosen[row])}' is new and has no items "
            f"({count:,} such); give the items of new bundles, too",
            "bundle_item",
        )


def _dataset(
    artifact: Artifact, nodes: dict[Kind, Nodes], pairs: dict[Relation, Pairs], dataset: BundleDataset | None
) -> BundleDataset:
    """The extended data. Validation and test pairs that were added are training pairs now."""
    width, none = len(nodes["bundle"]), np.empty((0, 2), np.int32)
    train = encode(pairs["ub"], width)
    both = (none, none) if dataset is None else (dataset.validation, dataset.test)
    validation, test = (part[~contains(train, encode(part, width))] for part in both)
    return BundleDataset(
        artifact.about.data,
        nodes["user"],
        nodes["bundle"],
        nodes["item"],
        train=pairs["ub"],
        validation=validation,
        test=test,
        ui=pairs["ui"],
        bi=pairs["bi"],
    )


def _updated_model(artifact: Artifact, kind: type[Model], dataset: BundleDataset, steps: int, rate: float) -> Model:
    about = artifact.about
    if issubclass(kind, ClosedForm):
        solved = make_model(about.model, about.settings, dataset)
        assert isinstance(solved, ClosedForm)
        with torch.no_grad():
            solved.solve(dataset)
        return widened(solved, about.model, about.settings, dataset)
    sizes: dict[Kind, int] = {"user": len(dataset.users), "bundle": len(dataset.bundles), "item": len(dataset.items)}
    model = grown_model(artifact, sizes)
    assert isinstance(model, Encoder)
    pairs: dict[Relation, Pairs] = {"ub": dataset.train, "ui": dataset.ui, "bi": dataset.bi}
    graph = make_graph(pairs, *sizes.values())
    fit_new_nodes(artifact, model, graph, steps, rate)
    if model.calibrates:
        model.mark_cold(graph)
        model.cold[-1] = 0  # the unseen bundle is asked about as if it were known
    return model


def _updated_artifact(artifact: Artifact, model: Model, dataset: BundleDataset, added: dict[str, int]) -> Artifact:
    from clbr import __version__

    before = artifact.about
    changes = {
        "version": __version__,
        "fingerprint": dataset.fingerprint,
        "users": len(dataset.users),
        "bundles": len(dataset.bundles),
        "items": len(dataset.items),
        "added": {name: before.added.get(name, 0) + added.get(name, 0) for name in {**before.added, **added}},
        "whatif_agreement": {},
        "files": {},
    }
    return Artifact.of(before.model_copy(update=changes), model, dataset)
