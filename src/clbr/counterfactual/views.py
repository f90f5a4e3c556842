"""A set of counterfactual views: written to and read from a run folder, and summarised."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from safetensors.numpy import load, save

from clbr.counterfactual.samplers import Record
from clbr.data.pairs import Pairs, Relation, encode
from clbr.errors import InputError
from clbr.files import read_bytes, split_tensors, write_atomic
from clbr.graph.edits import RELATIONS, EdgeEdits
from clbr.graph.graph import BundleGraph, Edges
from clbr.models.base import Embeddings

PAIRS, RECORDS = "views.safetensors", "views.json"


def write_views(folder: Path, views: list[EdgeEdits], records: list[Record]) -> None:
    """The records first: where the pairs are, both are. The pairs' header holds the checksum of the two."""
    told = json.dumps(records, indent=2).encode()
    write_atomic(folder / RECORDS, told)
    none = np.empty((0, 2), np.int32)
    tensors = {
        f"{index}.{relation}.{kind}": np.ascontiguousarray(getattr(edits, kind).get(relation, none))
        for index, edits in enumerate(views)
        for relation in RELATIONS
        for kind in ("add", "drop")
    }
    write_atomic(folder / PAIRS, save(tensors, {"sha256": _checksum(split_tensors(save(tensors))[1], told)}))


def read_run_views(folder: Path, expected: bool) -> tuple[list[EdgeEdits], list[Record]]:
    """The views of a run that is to have some."""
    if not expected:
        raise InputError(f"{folder}: was trained without views; make some with clbr train ... --paradigm clbr")
    if not (folder / PAIRS).exists():
        raise InputError(f"{folder}: has no views yet; first: clbr train --resume {folder}")
    return read_views(folder)


def read_views(folder: Path) -> tuple[list[EdgeEdits], list[Record]]:
    """The views of a run and their records."""
    try:
        content, told = read_bytes(folder / PAIRS), read_bytes(folder / RECORDS)
        stated, values = split_tensors(content)
        if stated not in (None, _checksum(values, told)):
            raise ValueError(f"it and {RECORDS} have another checksum than when they were written")
        tensors, records = load(content), json.loads(told)
        views = [
            EdgeEdits(*({r: tensors[f"{index}.{r}.{kind}"] for r in RELATIONS} for kind in ("add", "drop")))
            for index in range(len(records))
        ]
    except InputError:
        raise
    except Exception as error:  # safetensors and json raise many kinds; all mean the same here
        raise InputError(f"{folder / PAIRS}: not a set of views ({str(error).splitlines()[0]})") from None
    return views, records


def _checksum(values: bytes, told: bytes) -> str:
    return sha256(values + told).hexdigest()


NONE = np.empty((0, 2), np.int32)
LENIENT = 0.5
"""A rule that passes more than this share of what it judges lets through more than it keeps back."""


@dataclass(frozen=True)
class RelationSummary:
    """One relation over all views; numbers are means over views unless they say otherwise."""

    relation: Relation
    edges: int
    added: float
    dropped: float
    to_bare: float
    """Share of the additions, of all views, whose left node had no edge."""
    nodes: float
    """Share of left and right nodes whose degree changed."""
    change: float
    """Mean absolute change of degree, of the nodes that changed."""
    largest: int
    """The largest change of degree in any view."""
    bared: float
    """Nodes left without an edge that had one."""
    reached: float
    """Nodes that had no edge and got one."""
    shared: float
    """Share of a view's edits that another view has as well, averaged over pairs of views."""


@dataclass(frozen=True)
class Extreme:
    """An edit that stands out: its pair, its relevance, and whether it was added."""

    relation: Relation
    left: int
    right: int
    relevance: float
    added: bool


def summarise(graph: BundleGraph, views: Sequence[EdgeEdits]) -> list[RelationSummary]:
    """A line for each relation that any view edits."""
    relations = [relation for relation in RELATIONS if any(view.touches(relation) for view in views)]
    return [_summarise(relation, graph.edges(relation), views) for relation in relations]


def _summarise(relation: Relation, edges: Edges, views: Sequence[EdgeEdits]) -> RelationSummary:
    before = _degrees(edges.pairs, edges.shape)
    added, dropped = ([side.get(relation, NONE) for side in sides] for sides in _sides(views))
    lefts = np.concatenate(added)[:, 0]
    changes = [_degrees(a, edges.shape) - _degrees(d, edges.shape) for a, d in zip(added, dropped, strict=True)]
    moved = [np.abs(change[change != 0]) for change in changes]
    codes = [encode(np.concatenate(pair), edges.shape[1]) for pair in zip(added, dropped, strict=True)]
    overlaps = [len(np.intersect1d(a, b)) / max(len(a), 1) for a, b in combinations(codes, 2)]
    return RelationSummary(
        relation,
        len(edges.pairs),
        float(np.mean([len(pairs) for pairs in added])),
        float(np.mean([len(pairs) for pairs in dropped])),
        float((before[lefts] == 0).mean()) if len(lefts) else 0.0,
        float(np.mean([(change != 0).mean() for change in changes])),
        float(np.mean([step.mean() if len(step) else 0.0 for step in moved])),
        int(max(step.max(initial=0) for step in moved)),
        float(np.mean([((before > 0) & (before + change == 0)).sum() for change in changes])),
        float(np.mean([((before == 0) & (change > 0)).sum() for change in changes])),
        float(np.mean(overlaps)) if overlaps else 0.0,
    )


def mean_pass_rates(records: Sequence[Record], kind: Literal["additions", "drops"]) -> dict[Relation, float]:
    """What share of the pairs judged had passed, over all views; without the relations in which none were judged."""
    what = f"pass rate of {kind}"
    found = {
        relation: [record[relation][what] for record in records if what in record.get(relation, {})]
        for relation in RELATIONS
    }
    return {relation: sum(rates) / len(rates) for relation, rates in found.items() if rates}


def extremes(views: Sequence[EdgeEdits], embeddings: Embeddings, count: int = 3) -> list[Extreme]:
    """The added pairs of the highest relevance, the dropped of the lowest; of relations that the vectors can judge."""
    found = []
    for relation in filter(embeddings.both_sides, RELATIONS):
        for added, sides in zip((True, False), _sides(views), strict=True):
            pairs = np.unique(np.concatenate([side.get(relation, NONE) for side in sides]), axis=0)
            if len(pairs):
                lefts, rights = torch.from_numpy(pairs.astype(np.int64)).T
                scores = torch.cat(
                    [
                        embeddings.relevance(relation, some, others[:, None]).squeeze(1)
                        for some, others in zip(lefts.split(8192), rights.split(8192), strict=True)
                    ]
                ).numpy()
                order = np.argsort(-scores if added else scores, kind="stable")[:count]
                found += [
                    Extreme(relation, int(pairs[at, 0]), int(pairs[at, 1]), float(scores[at]), added) for at in order
                ]
    return found


def _sides(views: Sequence[EdgeEdits]) -> tuple[list[dict[Relation, Pairs]], list[dict[Relation, Pairs]]]:
    return [dict(view.add) for view in views], [dict(view.drop) for view in views]


def _degrees(pairs: Pairs, shape: tuple[int, int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Of left nodes, then of right nodes."""
    return np.concatenate([np.bincount(pairs[:, side], minlength=shape[side]) for side in (0, 1)])
