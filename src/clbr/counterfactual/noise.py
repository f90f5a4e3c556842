"""The noise level eta of a sampler's edits: measured where the truth is known, hinted at by hidden edges elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from clbr.counterfactual.pool import Pool
from clbr.counterfactual.samplers import ROUND, Heuristic
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Codes, Pairs, Relation, contains, decode, encode, row_pointers, sorted_codes
from clbr.errors import InputError
from clbr.graph.edits import RELATIONS, EdgeEdits
from clbr.graph.graph import BundleGraph

SAMPLE = 512
"""Unconnected pairs of a left node whose preference gives its median; nodes with no more have all of them taken."""
BLOCK = 1 << 20
"""Pairs whose preference is asked for at once: bounds memory."""
HIDDEN = 4096
"""Hidden edges that are judged, at most."""
Z = 1.959963984540054
Kind = Literal["additions", "drops", "all"]


class Truth(Protocol):
    """What is asked of a world."""

    def preference(self, relation: Relation, pairs: Pairs) -> NDArray[np.floating]:
        """How much each left node truly wants the right one."""


@dataclass(frozen=True)
class Noise:
    """The share eta of some edits that contradicts preference, with its 95 % interval.

    A pair that several views edit counts in each of them, but only once for the width of the interval. `chance` is the
    eta of as many additions and drops drawn evenly: a half of additions, and less of drops, since the middle one of an
    odd number of edges (or the only one) is not above their median.
    """

    edits: int
    contradictions: int
    eta: float
    low: float
    high: float
    chance: float

    @classmethod
    def of(cls, judged: "Judged") -> "Noise":
        """From edits, each judged; at least one."""
        edits, distinct = len(judged.wrong), len(np.unique(judged.codes))
        contradictions = int(judged.wrong.sum())
        eta = contradictions / edits
        return cls(edits, contradictions, eta, *wilson(eta * distinct, distinct), judged.chance)


@dataclass(frozen=True)
class Judged:
    """Edits of a relation, and which of them contradict preference."""

    codes: Codes
    wrong: NDArray[np.bool_]
    chance: float


def noise(
    truth: Truth, graph: BundleGraph, views: Sequence[EdgeEdits], rng: np.random.Generator
) -> dict[Relation, dict[Kind, Noise]]:
    """For each relation that the views edit the noise of its additions, of its drops and of all, as far as there are.

    An addition contradicts preference if the pair's is below the left node's median over unconnected pairs, a drop if
    the pair's is above the left node's median over its edges; edges are the graph's. The median over edges is exact. So
    is the one over unconnected pairs of a node with at most SAMPLE of them; for others it is that of SAMPLE draws, with
    replacement. Refused: views that are not of this graph.
    """
    for view in views:
        view.apply(graph)  # refuses what is not of this graph
    found: dict[Relation, dict[Kind, Noise]] = {}
    for relation in RELATIONS:
        pool = Pool(graph, relation)
        added, dropped = (_codes(views, side, pool) for side in ("add", "drop"))
        parts: dict[Kind, Judged] = {}
        if len(added):
            parts["additions"] = _judge_additions(truth, pool, added, rng)
        if len(dropped):
            parts["drops"] = _judge_drops(truth, pool, dropped)
        if parts:
            chance = sum(part.chance * len(part.codes) for part in parts.values()) / (len(added) + len(dropped))
            wrong = np.concatenate([part.wrong for part in parts.values()])
            parts["all"] = Judged(np.concatenate([added, dropped]), wrong, chance)
            found[relation] = {kind: Noise.of(part) for kind, part in parts.items()}
    return found


def bound_factor(eta: float) -> float | None:
    """(1 - 2 eta)^-2: how many times the samples of a noiseless sampler Theorem 1 asks for; None from a half on."""
    return (1 - 2 * eta) ** -2 if eta < 0.5 else None


def wilson(count: float, of: int) -> tuple[float, float]:
    """The 95 % interval of a share, count / of, after Wilson (1927)."""
    share, spread = count / of, Z**2 / of
    middle = (share + spread / 2) / (1 + spread)
    half = sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def _codes(views: Sequence[EdgeEdits], side: str, pool: Pool) -> Codes:
    none = np.empty((0, 2), np.int32)
    pairs = [getattr(view, side).get(pool.relation, none) for view in views]
    return encode(np.concatenate([none, *pairs]), pool.width)


def _judge_additions(truth: Truth, pool: Pool, codes: Codes, rng: np.random.Generator) -> Judged:
    pairs = decode(codes, pool.width)
    lefts, at = np.unique(pairs[:, 0].astype(np.int64), return_inverse=True)
    blocks = np.array_split(lefts, -(-len(lefts) * SAMPLE // BLOCK))
    medians = np.concatenate([_unconnected_medians(truth, pool, block, rng) for block in blocks])
    return Judged(codes, _preferences(truth, pool, codes) < medians[at], 0.5)


def _unconnected_medians(
    truth: Truth, pool: Pool, lefts: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """The median preference of each left node over pairs that are no edges; each node has some."""
    before = row_pointers(decode(pool.edges, pool.width)[:, 0], pool.shape[0])
    missing = pool.width - np.diff(before)[lefts]
    drawn = (rng.random((len(lefts), SAMPLE)) * missing[:, None]).astype(np.int64)
    few, places = missing <= SAMPLE, np.arange(SAMPLE)
    taken = ~few[:, None] | (places < missing[:, None])
    rank = (lefts * pool.width - before[lefts])[:, None] + np.where(few[:, None], places, drawn)  # (n, SAMPLE)
    return _medians(taken.nonzero()[0], _preferences(truth, pool, pool.nth_unconnected(rank[taken])))


def _judge_drops(truth: Truth, pool: Pool, codes: Codes) -> Judged:
    values = _preferences(truth, pool, pool.edges)
    _, group = np.unique(pool.edges // pool.width, return_inverse=True)
    above = values > _medians(group, values)[group]
    return Judged(codes, above[np.searchsorted(pool.edges, codes)], float(above.mean()))


def _preferences(truth: Truth, pool: Pool, codes: Codes) -> NDArray[np.float64]:
    blocks = np.array_split(codes, -(-len(codes) // BLOCK))
    wanted = [truth.preference(pool.relation, decode(block, pool.width)) for block in blocks]
    return np.concatenate(wanted).astype(np.float64)


def _medians(group: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The median of each group, 0, 1, ...; none is empty."""
    ordered = values[np.lexsort((values, group))]
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    return np.asarray((ordered[starts + (sizes - 1) // 2] + ordered[starts + sizes // 2]) / 2)


@dataclass(frozen=True)
class Rate:
    """The share of the pairs judged that passed, with its 95 % interval."""

    judged: int
    passed: int
    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, passed: int, judged: int) -> "Rate":
        """From counts."""
        return cls(judged, passed, passed / judged, *wilson(passed, judged))


@dataclass(frozen=True)
class PassRates:
    """How often a rule of addition passes hidden edges and other unconnected pairs; None: none of the others."""

    hidden: Rate
    other: Rate
    ratio: float | None


def hide(
    dataset: BundleDataset, relations: Sequence[Relation], share: float, rng: np.random.Generator
) -> tuple[BundleDataset, dict[Relation, Pairs]]:
    """A data set without a share of the edges of some relations, evenly drawn, and these edges; of "ub", training's."""
    kept: dict[str, Any] = {}
    hidden: dict[Relation, Pairs] = {}
    for relation in relations:
        part = "train" if relation == "ub" else relation
        pairs: Pairs = getattr(dataset, part)
        count = int(share * len(pairs))
        if not 0 < count < len(pairs):
            raise InputError(f"{relation}: {100 * share:g} % of {len(pairs):,} edges are {count:,}: nothing to measure")
        order = rng.permutation(len(pairs))
        hidden[relation], kept[part] = pairs[order[:count]], pairs[order[count:]]
    return replace(dataset, **kept), hidden


def pass_rates(sampler: Heuristic, relation: Relation, hidden: Pairs, rng: np.random.Generator) -> PassRates:
    """How often the sampler would add an edge that was hidden from it, and any other unconnected pair.

    The sampler is made of the graph without the hidden edges and of vectors trained on that. Each hidden edge (at most
    HIDDEN, evenly drawn) takes the place of one pair in a batch of the sampler's own; other pairs are judged in these
    batches as they were.
    """
    codes = sorted_codes(encode(hidden, sampler.pools[relation].width))
    joining = hidden[rng.permutation(len(hidden))[:HIDDEN]]
    passed, others, others_passed = 0, 0, 0
    for block in np.array_split(joining, min(len(joining), -(-len(joining) * sampler.batch // ROUND))):
        drawn, scores, edges = sampler.batches(relation, len(block), rng)
        other = ~edges & ~contains(codes, drawn.ravel()).reshape(drawn.shape)
        others += int(other.sum())
        others_passed += int((sampler.additions(scores, edges) & other).sum())
        scores[:, 0], edges[:, 0] = sampler.of_pairs(relation, block), False
        passed += int(sampler.additions(scores, edges)[:, 0].sum())
    if not others:
        raise InputError(f"{relation}: all other pairs are edges, so there is nothing to compare hidden edges with")
    ours, theirs = Rate.of(passed, len(joining)), Rate.of(others_passed, others)
    return PassRates(ours, theirs, ours.rate / theirs.rate if theirs.passed else None)
