"""Noise level eta of a sampler's edits, and pass rates of hidden edges.

On a simulated world true preferences are known and eta is measured. On real data they are not; there the pass rate of
hidden edges shows how well the sampler's addition rule finds pairs that are edges in truth.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from clbr.counterfactual.candidates import CandidatePairs
from clbr.counterfactual.samplers import ROUND_PAIRS, Heuristic
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Codes, Pairs, Relation, contains, decode, encode, row_pointers, sorted_codes
from clbr.errors import InputError
from clbr.graph.edits import RELATIONS, EdgeEdits
from clbr.graph.graph import BundleGraph

MEDIAN_SAMPLE = 512
"""Number of unconnected pairs of a left node from which its median is estimated. Nodes with fewer use all of them."""
BLOCK_PAIRS = 1 << 20
"""Number of pairs whose preference is computed at once. Bounds memory."""
MAX_HIDDEN = 4096
"""Largest number of hidden edges that are evaluated."""
Z = 1.959963984540054
"""Quantile of the normal distribution for a 95 % interval."""
Kind = Literal["additions", "drops", "all"]


class Truth(Protocol):
    """True preferences, as a simulated world (`World`) knows them."""

    def preference(self, relation: Relation, pairs: Pairs) -> NDArray[np.floating]:
        """Return the true preference of each pair's left node for its right node."""


@dataclass(frozen=True)
class Noise:
    """Share eta of edits that contradict true preference, with its 95 % interval (`low`, `high`).

    A pair that is edited in several views counts once per view in eta, but only once for the width of the interval.
    `random_eta` is the eta of the same numbers of random additions and drops. It is 0.5 for additions. It is lower for
    drops: the median edge of a node with an odd number of edges (or its only edge) is not above the median.
    """

    edits: int
    contradictions: int
    eta: float
    low: float
    high: float
    random_eta: float

    @classmethod
    def of(cls, evaluated: "EvaluatedEdits") -> "Noise":
        """Return the noise of evaluated edits; at least one."""
        edits, distinct = len(evaluated.contradicts), len(np.unique(evaluated.codes))
        contradictions = int(evaluated.contradicts.sum())
        eta = contradictions / edits
        return cls(edits, contradictions, eta, *wilson(eta * distinct, distinct), evaluated.random_eta)


@dataclass(frozen=True)
class EvaluatedEdits:
    """Edits of a relation, whether each contradicts true preference, and the eta of random edits of this kind."""

    codes: Codes
    contradicts: NDArray[np.bool_]
    random_eta: float


def noise(
    truth: Truth, graph: BundleGraph, views: Sequence[EdgeEdits], rng: np.random.Generator
) -> dict[Relation, dict[Kind, Noise]]:
    """Measure the noise of the views' additions, drops and all edits, for each relation that they edit.

    An addition contradicts preference if the pair's preference is below its left node's median over unconnected pairs;
    a drop if it is above its left node's median over edges. Edges are those of `graph`. The median over edges is exact.
    The median over unconnected pairs is exact for nodes with at most MEDIAN_SAMPLE of them; for others it is estimated
    from MEDIAN_SAMPLE draws with replacement. Raises `InputError` if the views are not views of `graph`.
    """
    for view in views:
        view.apply(graph)  # raises an error if the view does not fit the graph
    found: dict[Relation, dict[Kind, Noise]] = {}
    for relation in RELATIONS:
        candidates = CandidatePairs(graph, relation)
        added, dropped = (_edited_codes(views, kind, candidates) for kind in ("add", "drop"))
        parts: dict[Kind, EvaluatedEdits] = {}
        if len(added):
            parts["additions"] = _evaluate_additions(truth, candidates, added, rng)
        if len(dropped):
            parts["drops"] = _evaluate_drops(truth, candidates, dropped)
        if parts:
            random_eta = sum(part.random_eta * len(part.codes) for part in parts.values()) / (len(added) + len(dropped))
            contradicts = np.concatenate([part.contradicts for part in parts.values()])
            parts["all"] = EvaluatedEdits(np.concatenate([added, dropped]), contradicts, random_eta)
            found[relation] = {kind: Noise.of(part) for kind, part in parts.items()}
    return found


def bound_factor(eta: float) -> float | None:
    """Return (1 - 2 eta)^-2, the factor by which noise eta increases the sample bound of Theorem 1.

    None for an eta of 0.5 or more, where the theorem gives no bound.
    """
    return (1 - 2 * eta) ** -2 if eta < 0.5 else None


def wilson(count: float, total: int) -> tuple[float, float]:
    """Return the 95 % interval of the share count / total (Wilson, 1927)."""
    share, spread = count / total, Z**2 / total
    middle = (share + spread / 2) / (1 + spread)
    half = sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def _edited_codes(views: Sequence[EdgeEdits], kind: str, candidates: CandidatePairs) -> Codes:
    """Return the codes of the pairs that the views add ("add") or drop ("drop"), with repetitions."""
    none = np.empty((0, 2), np.int32)
    pairs = [getattr(view, kind).get(candidates.relation, none) for view in views]
    return encode(np.concatenate([none, *pairs]), candidates.width)


def _evaluate_additions(
    truth: Truth, candidates: CandidatePairs, codes: Codes, rng: np.random.Generator
) -> EvaluatedEdits:
    pairs = decode(codes, candidates.width)
    lefts, positions = np.unique(pairs[:, 0].astype(np.int64), return_inverse=True)
    blocks = np.array_split(lefts, -(-len(lefts) * MEDIAN_SAMPLE // BLOCK_PAIRS))
    medians = np.concatenate([_unconnected_medians(truth, candidates, block, rng) for block in blocks])
    return EvaluatedEdits(codes, _preferences(truth, candidates, codes) < medians[positions], 0.5)


def _unconnected_medians(
    truth: Truth, candidates: CandidatePairs, lefts: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the median preference of each left node over its unconnected pairs. Each node must have one."""
    before = row_pointers(decode(candidates.edges, candidates.width)[:, 0], candidates.shape[0])
    counts = candidates.width - np.diff(before)[lefts]  # unconnected pairs of each node
    drawn = (rng.random((len(lefts), MEDIAN_SAMPLE)) * counts[:, None]).astype(np.int64)
    use_all, index = counts <= MEDIAN_SAMPLE, np.arange(MEDIAN_SAMPLE)
    taken = ~use_all[:, None] | (index < counts[:, None])
    within = np.where(use_all[:, None], index, drawn)  # (n, MEDIAN_SAMPLE), among the node's unconnected pairs
    positions = (lefts * candidates.width - before[lefts])[:, None] + within  # among all unconnected pairs
    codes = candidates.nth_unconnected(positions[taken])
    return _group_medians(taken.nonzero()[0], _preferences(truth, candidates, codes))


def _evaluate_drops(truth: Truth, candidates: CandidatePairs, codes: Codes) -> EvaluatedEdits:
    values = _preferences(truth, candidates, candidates.edges)
    _, groups = np.unique(candidates.edges // candidates.width, return_inverse=True)
    above = values > _group_medians(groups, values)[groups]
    return EvaluatedEdits(codes, above[np.searchsorted(candidates.edges, codes)], float(above.mean()))


def _preferences(truth: Truth, candidates: CandidatePairs, codes: Codes) -> NDArray[np.float64]:
    blocks = np.array_split(codes, -(-len(codes) // BLOCK_PAIRS))
    values = [truth.preference(candidates.relation, decode(block, candidates.width)) for block in blocks]
    return np.concatenate(values).astype(np.float64)


def _group_medians(groups: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median of each group. Groups are numbered 0, 1, ... and not empty."""
    ordered = values[np.lexsort((values, groups))]
    sizes = np.bincount(groups)
    starts = np.cumsum(sizes) - sizes
    return np.asarray((ordered[starts + (sizes - 1) // 2] + ordered[starts + sizes // 2]) / 2)


@dataclass(frozen=True)
class Rate:
    """Share of evaluated pairs that passed, with its 95 % interval (`low`, `high`)."""

    evaluated: int
    passed: int
    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, passed: int, evaluated: int) -> "Rate":
        """Return the rate of these counts."""
        return cls(evaluated, passed, passed / evaluated, *wilson(passed, evaluated))


@dataclass(frozen=True)
class PassRates:
    """Pass rates of hidden edges and of other unconnected pairs, and their ratio (None if no other pair passed)."""

    hidden: Rate
    other: Rate
    ratio: float | None


def hide(
    dataset: BundleDataset, relations: Sequence[Relation], share: float, rng: np.random.Generator
) -> tuple[BundleDataset, dict[Relation, Pairs]]:
    """Remove a random share of the edges of some relations; for "ub" of the training pairs.

    Returns the reduced data set and the hidden edges. Raises `InputError` if a relation has too few edges.
    """
    remaining: dict[str, Any] = {}
    hidden: dict[Relation, Pairs] = {}
    for relation in relations:
        part = "train" if relation == "ub" else relation
        pairs: Pairs = getattr(dataset, part)
        count = int(share * len(pairs))
        if not 0 < count < len(pairs):
            raise InputError(f"{relation}: {100 * share:g} % of {len(pairs):,} edges are {count:,}: nothing to measure")
        order = rng.permutation(len(pairs))
        hidden[relation], remaining[part] = pairs[order[:count]], pairs[order[count:]]
    return replace(dataset, **remaining), hidden


def pass_rates(sampler: Heuristic, relation: Relation, hidden: Pairs, rng: np.random.Generator) -> PassRates:
    """Measure how often the sampler's addition rule accepts hidden edges, and how often other unconnected pairs.

    The sampler's graph has no hidden edges, and its vectors were trained on that graph. Each hidden edge (at most
    MAX_HIDDEN random ones) replaces one pair in a batch drawn by the sampler. The other pairs are evaluated in the same
    batches before the replacement.
    """
    hidden_codes = sorted_codes(encode(hidden, sampler.candidates[relation].width))
    sample = hidden[rng.permutation(len(hidden))[:MAX_HIDDEN]]
    passed, others, others_passed = 0, 0, 0
    for block in np.array_split(sample, min(len(sample), -(-len(sample) * sampler.batch_size // ROUND_PAIRS))):
        codes, scores, are_edges = sampler.draw_batches(relation, len(block), rng)
        other = ~are_edges & ~contains(hidden_codes, codes.ravel()).reshape(codes.shape)
        others += int(other.sum())
        others_passed += int((sampler.accept_additions(scores, are_edges) & other).sum())
        scores[:, 0], are_edges[:, 0] = sampler.pair_scores(relation, block), False
        passed += int(sampler.accept_additions(scores, are_edges)[:, 0].sum())
    if not others:
        raise InputError(f"{relation}: all other pairs are edges, so there is nothing to compare hidden edges with")
    hidden_rate, other_rate = Rate.of(passed, len(sample)), Rate.of(others_passed, others)
    return PassRates(hidden_rate, other_rate, hidden_rate.rate / other_rate.rate if other_rate.passed else None)
