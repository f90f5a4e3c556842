"""Candidate pairs of a relation, and the collector that gathers accepted candidates into a set of edits."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clbr.data.pairs import Codes, Relation, contains, encode
from clbr.errors import InputError
from clbr.graph.graph import BundleGraph


class CandidatePairs:
    """All pairs of a relation: its edges are candidates to drop, its unconnected pairs are candidates to add.

    Pairs are given as codes, left node * width + right node.
    """

    def __init__(self, graph: BundleGraph, relation: Relation) -> None:
        edges = graph.edges(relation)
        self.relation, self.shape, self.width = relation, edges.shape, edges.shape[1]
        self.edges = encode(edges.pairs, self.width)
        self.unconnected_count = edges.shape[0] * edges.shape[1] - len(self.edges)

    def draw_unconnected(self, count: int, rng: np.random.Generator) -> Codes:
        """Draw distinct unconnected pairs, all equally likely. Raises `InputError` if there are fewer than `count`."""
        if count > self.unconnected_count:
            raise InputError(
                f"{self.relation}: {count:,} pairs to add, but only {self.unconnected_count:,} are unconnected"
            )
        return self.nth_unconnected(rng.choice(self.unconnected_count, count, replace=False, shuffle=False))

    def nth_unconnected(self, positions: Codes) -> Codes:
        """Return the unconnected pairs at these positions of their sorted list (which is not stored).

        The code of a pair is its position plus the number of edges before it.
        """
        return positions + np.searchsorted(self.edges - np.arange(len(self.edges)), positions, side="right")

    def draw_unconnected_of(self, lefts: Codes, rng: np.random.Generator) -> Codes:
        """Draw one unconnected pair for each of these left nodes, all equally likely. Each node must have one."""
        start, end = (np.searchsorted(self.edges, (lefts + step) * self.width) for step in (0, 1))
        return self.nth_unconnected(lefts * self.width - start + rng.integers(self.width - (end - start)))

    def draw_edges(self, count: int, rng: np.random.Generator) -> Codes:
        """Draw distinct edges, all equally likely."""
        return rng.choice(self.edges, count, replace=False, shuffle=False)

    @cached_property
    def _low_bits(self) -> NDArray[np.bool_]:
        """Table that is True at the low bits of every edge's code: excludes most other pairs by one lookup."""
        marks = np.zeros(1 << 22, np.bool_)
        marks[self.edges & (len(marks) - 1)] = True
        return marks

    def are_edges(self, codes: Codes) -> NDArray[np.bool_]:
        """Return for each code whether it is an edge."""
        found: NDArray[np.bool_] = self._low_bits[codes & (len(self._low_bits) - 1)]
        (possible,) = found.nonzero()
        found[possible] = contains(self.edges, codes[possible])
        return found


@dataclass(frozen=True)
class RelationEdits:
    """Codes that a sampler adds to a relation and drops from it, and a record of how it selected them."""

    add: Codes
    drop: Codes
    record: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class AcceptedPairs:
    """Candidates that a sampler's rule accepted, the batch of each, and the number of candidates evaluated."""

    codes: Codes
    batch: NDArray[np.int64]
    evaluated: int

    @classmethod
    def of(cls, codes: Codes, accepted: NDArray[np.bool_], evaluated: int) -> "AcceptedPairs":
        """Return the accepted pairs of (batches, pairs) arrays of codes and of decisions."""
        row, column = accepted.nonzero()
        return cls(codes[row, column], row, evaluated)

    @classmethod
    def none(cls) -> "AcceptedPairs":
        """Return no pairs of no candidates."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), 0)


class EditCollector:
    """Collects distinct edits of a relation until there are `count`, and counts how many candidates were accepted."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.codes, self.is_drop = np.empty(0, np.int64), np.empty(0, np.bool_)
        self.accepted, self.evaluated = np.zeros(2, np.int64), np.zeros(2, np.int64)  # additions, drops

    @property
    def size(self) -> int:
        """Number of edits collected."""
        return len(self.codes)

    @property
    def complete(self) -> bool:
        """Whether there are `count` edits."""
        return self.size >= self.count

    def collect(self, additions: AcceptedPairs, drops: AcceptedPairs, rng: np.random.Generator) -> None:
        """Collect the new pairs batch by batch, additions before drops, up to `count`.

        Of the batch that exceeds `count`, a random part is collected.
        """
        self.accepted += (len(additions.codes), len(drops.codes))
        self.evaluated += (additions.evaluated, drops.evaluated)
        codes = np.concatenate([additions.codes, drops.codes])
        batch = np.concatenate([2 * additions.batch, 2 * drops.batch + 1])
        order = np.lexsort((rng.random(len(codes)), batch))  # random within a batch, so that truncation is fair
        codes, batch = codes[order], batch[order]
        _, first = np.unique(codes, return_index=True)
        first = np.sort(first)
        new = first[~np.isin(codes[first], self.codes)][: self.count - self.size]
        self.codes = np.concatenate([self.codes, codes[new]])
        self.is_drop = np.concatenate([self.is_drop, batch[new] % 2 == 1])

    def result(self, batch_size: int) -> RelationEdits:
        """Return the edits, with the batch size and the pass rates of the evaluated candidates in the record."""
        added, dropped = self.codes[~self.is_drop], self.codes[self.is_drop]
        record: dict[str, float] = {"batch": batch_size}
        for kind, accepted, evaluated in zip(("additions", "drops"), self.accepted, self.evaluated, strict=True):
            if evaluated:
                record[f"pass rate of {kind}"] = float(accepted / evaluated)
        return RelationEdits(added, dropped, record)
