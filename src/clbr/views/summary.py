"""What a set of views did to a graph, in numbers and by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import torch

from clbr.data.pairs import Pairs, Relation, encode
from clbr.graph.bundle_graph import BundleGraph, Edges
from clbr.models.interface import Embeddings
from clbr.views.edits import RELATIONS, EdgeEdits
from clbr.views.samplers import Record

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
