"""View set of a run: the edits of its counterfactual views on disk, and a summary of what they change."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load, save

from clbr.counterfactual.samplers import Record
from clbr.data.pairs import Pairs, Relation, encode
from clbr.errors import InputError
from clbr.files import read_bytes, split_tensors, write_atomic
from clbr.graph.edits import RELATIONS, EdgeEdits
from clbr.graph.graph import BundleGraph, Edges
from clbr.models.embeddings import Embeddings

PAIRS, RECORDS = "views.safetensors", "views.json"
NO_PAIRS = np.empty((0, 2), np.int32)
LENIENT = 0.5
"""A sampler rule with a pass rate above this accepts more candidates than it rejects."""
BLOCK = 8192
"""Number of pairs whose relevance is computed at once. Bounds memory."""


def write_views(folder: Path, views: list[EdgeEdits], records: list[Record]) -> None:
    """Write the views and their records to a run folder.

    The records are written first: if the file of pairs exists, both files are complete. The header of that file has the
    checksum of both.
    """
    payload = json.dumps(records, indent=2).encode()
    write_atomic(folder / RECORDS, payload)
    tensors = {
        f"{index}.{relation}.{kind}": np.ascontiguousarray(getattr(edits, kind).get(relation, NO_PAIRS))
        for index, edits in enumerate(views)
        for relation in RELATIONS
        for kind in ("add", "drop")
    }
    write_atomic(folder / PAIRS, save(tensors, {"sha256": _checksum(split_tensors(save(tensors))[1], payload)}))


def read_run_views(folder: Path, expected: bool) -> tuple[list[EdgeEdits], list[Record]]:
    """Read the views of a run. `expected` says whether its config has views.

    Raises `InputError` if the run was trained without views, or if its views are not drawn yet.
    """
    if not expected:
        raise InputError(f"{folder}: was trained without views; train a run with the paradigm clbr or casr", "paradigm")
    if not (folder / PAIRS).exists():
        raise InputError(f"{folder}: has no views yet, its training was stopped before; resume the training", "resume")
    return read_views(folder)


def read_views(folder: Path) -> tuple[list[EdgeEdits], list[Record]]:
    """Read the views and their records from a run folder. Raises `InputError` if a file is missing or damaged."""
    try:
        content, payload = read_bytes(folder / PAIRS), read_bytes(folder / RECORDS)
        stated, values = split_tensors(content)
        if stated not in (None, _checksum(values, payload)):
            raise ValueError(f"the checksum of it and {RECORDS} differs from the one written")
        tensors, records = load(content), json.loads(payload)
        views = [
            EdgeEdits(*({r: tensors[f"{index}.{r}.{kind}"] for r in RELATIONS} for kind in ("add", "drop")))
            for index in range(len(records))
        ]
    except InputError:
        raise
    except Exception as error:  # safetensors and json raise many types; all mean that a file is damaged
        raise InputError(f"{folder / PAIRS}: not a set of views ({str(error).splitlines()[0]})") from None
    return views, records


def _checksum(values: bytes, records: bytes) -> str:
    return sha256(values + records).hexdigest()


@dataclass(frozen=True)
class RelationSummary:
    """What the views change in one relation. Values are means over views unless stated otherwise."""

    relation: Relation
    edges: int
    """Number of edges before the edits."""
    added: float
    dropped: float
    additions_to_isolated: float
    """Share of all views' additions whose left node has no edge before the edits."""
    nodes: float
    """Share of left and right nodes whose degree changes."""
    change: float
    """Mean absolute change of degree, over the nodes whose degree changes."""
    largest: int
    """Largest change of degree in any view."""
    newly_isolated: float
    """Number of nodes that lose all their edges."""
    newly_connected: float
    """Number of nodes without edges that get one."""
    shared: float
    """Share of a view's edits that are also edits of another view, mean over pairs of views."""


@dataclass(frozen=True)
class Extreme:
    """Edit with an extreme relevance: an addition of high or a drop of low relevance."""

    relation: Relation
    left: int
    right: int
    relevance: float
    added: bool


def summarise(graph: BundleGraph, views: Sequence[EdgeEdits]) -> list[RelationSummary]:
    """Summarise the views of a graph: one summary per relation that any view edits."""
    relations = [relation for relation in RELATIONS if any(view.touches(relation) for view in views)]
    return [_summarise_relation(relation, graph.edges(relation), views) for relation in relations]


def _summarise_relation(relation: Relation, edges: Edges, views: Sequence[EdgeEdits]) -> RelationSummary:
    before = _degrees(edges.pairs, edges.shape)
    added, dropped = (_edited_pairs(views, kind, relation) for kind in ("add", "drop"))
    added_lefts = np.concatenate(added)[:, 0]
    changes = [_degrees(a, edges.shape) - _degrees(d, edges.shape) for a, d in zip(added, dropped, strict=True)]
    sizes = [np.abs(change[change != 0]) for change in changes]
    codes = [encode(np.concatenate(pairs), edges.shape[1]) for pairs in zip(added, dropped, strict=True)]
    overlaps = [len(np.intersect1d(a, b)) / max(len(a), 1) for a, b in combinations(codes, 2)]
    return RelationSummary(
        relation=relation,
        edges=len(edges.pairs),
        added=float(np.mean([len(pairs) for pairs in added])),
        dropped=float(np.mean([len(pairs) for pairs in dropped])),
        additions_to_isolated=float((before[added_lefts] == 0).mean()) if len(added_lefts) else 0.0,
        nodes=float(np.mean([(change != 0).mean() for change in changes])),
        change=float(np.mean([size.mean() if len(size) else 0.0 for size in sizes])),
        largest=int(max(size.max(initial=0) for size in sizes)),
        newly_isolated=float(np.mean([((before > 0) & (before + change == 0)).sum() for change in changes])),
        newly_connected=float(np.mean([((before == 0) & (change > 0)).sum() for change in changes])),
        shared=float(np.mean(overlaps)) if overlaps else 0.0,
    )


def mean_pass_rates(records: Sequence[Record], kind: Literal["additions", "drops"]) -> dict[Relation, float]:
    """Return the pass rate of each relation's candidates, mean over views.

    Relations without evaluated candidates are left out.
    """
    key = f"pass rate of {kind}"
    found = {
        relation: [record[relation][key] for record in records if key in record.get(relation, {})]
        for relation in RELATIONS
    }
    return {relation: sum(rates) / len(rates) for relation, rates in found.items() if rates}


def extremes(views: Sequence[EdgeEdits], embeddings: Embeddings, count: int = 3) -> list[Extreme]:
    """Return per relation the `count` additions of the highest and the `count` drops of the lowest relevance.

    Relations for which the embeddings give no relevance are left out.
    """
    found = []
    for relation in filter(embeddings.both_sides, RELATIONS):
        for kind, sign in (("add", -1), ("drop", 1)):
            pairs = np.unique(np.concatenate(_edited_pairs(views, kind, relation)), axis=0)
            if not len(pairs):
                continue
            relevance = _relevance(embeddings, relation, pairs)
            for index in np.argsort(sign * relevance, kind="stable")[:count]:
                left, right = (int(node) for node in pairs[index])
                found.append(Extreme(relation, left, right, float(relevance[index]), kind == "add"))
    return found


def _relevance(embeddings: Embeddings, relation: Relation, pairs: Pairs) -> NDArray[np.float32]:
    """Return the relevance of each pair, computed block by block."""
    lefts, rights = torch.from_numpy(pairs.astype(np.int64)).T
    blocks = zip(lefts.split(BLOCK), rights.split(BLOCK), strict=True)
    found = [embeddings.relevance(relation, left, right[:, None]).squeeze(1) for left, right in blocks]
    return torch.cat(found).numpy()


def _edited_pairs(views: Sequence[EdgeEdits], kind: str, relation: Relation) -> list[Pairs]:
    """Return for each view the pairs of a relation that it adds ("add") or drops ("drop")."""
    return [getattr(view, kind).get(relation, NO_PAIRS) for view in views]


def _degrees(pairs: Pairs, shape: tuple[int, int]) -> NDArray[np.int64]:
    """Return the degrees of all left nodes, then of all right nodes."""
    return np.concatenate([np.bincount(pairs[:, side], minlength=shape[side]) for side in (0, 1)])
