"""Candidate pairs of a relation, and a set of edits that is filled batch by batch."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clbr.data.pairs import Codes, Relation, contains, encode
from clbr.errors import InputError
from clbr.graph.graph import BundleGraph


class Pool:
    """The pairs of a relation, connected and not."""

    def __init__(self, graph: BundleGraph, relation: Relation) -> None:
        edges = graph.edges(relation)
        self.relation, self.shape, self.width = relation, edges.shape, edges.shape[1]
        self.edges = encode(edges.pairs, self.width)
        self.missing = edges.shape[0] * edges.shape[1] - len(self.edges)

    def unconnected(self, count: int, rng: np.random.Generator) -> Codes:
        """Distinct unconnected pairs, all equally likely."""
        if count > self.missing:
            raise InputError(f"{self.relation}: {count:,} pairs to add, but only {self.missing:,} are unconnected")
        return self.nth_unconnected(rng.choice(self.missing, count, replace=False, shuffle=False))

    def nth_unconnected(self, rank: Codes) -> Codes:
        """The unconnected pairs of these ranks in the order of codes: r + the number of edges before it."""
        return rank + np.searchsorted(self.edges - np.arange(len(self.edges)), rank, side="right")

    def lacking(self, lefts: Codes, rng: np.random.Generator) -> Codes:
        """For each of these left nodes one pair that it lacks, all equally likely; it must lack at least one."""
        start, end = (np.searchsorted(self.edges, (lefts + step) * self.width) for step in (0, 1))
        return self.nth_unconnected(lefts * self.width - start + rng.integers(self.width - (end - start)))

    def connected(self, count: int, rng: np.random.Generator) -> Codes:
        """Distinct edges, all equally likely."""
        return rng.choice(self.edges, count, replace=False, shuffle=False)

    @cached_property
    def sieve(self) -> NDArray[np.bool_]:
        """True at the last bits of every edge's code: most pairs are seen not to be edges at one small look."""
        marks = np.zeros(1 << 22, np.bool_)
        marks[self.edges & (len(marks) - 1)] = True
        return marks

    def are_edges(self, codes: Codes) -> NDArray[np.bool_]:
        """Which of the codes are edges."""
        found: NDArray[np.bool_] = self.sieve[codes & (len(self.sieve) - 1)]
        (at,) = found.nonzero()
        found[at] = contains(self.edges, codes[at])
        return found


@dataclass(frozen=True)
class Choice:
    """Codes that a sampler adds to a relation and drops from it, and how it came to them."""

    add: Codes
    drop: Codes
    record: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Passed:
    """The pairs that passed, with the number of the batch that each was in, and how many might have."""

    codes: Codes
    batch: NDArray[np.int64]
    judged: int

    @classmethod
    def of(cls, codes: Codes, passed: NDArray[np.bool_], judged: int) -> "Passed":
        """From batches, one a row."""
        row, column = passed.nonzero()
        return cls(codes[row, column], row, judged)

    @classmethod
    def none(cls) -> "Passed":
        """Where nothing is judged."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), 0)


class Filling:
    """A set of edits on its way to a given size."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.codes, self.is_drop = np.empty(0, np.int64), np.empty(0, np.bool_)
        self.passed, self.judged = np.zeros(2, np.int64), np.zeros(2, np.int64)

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.codes)

    @property
    def full(self) -> bool:
        """Whether these are enough."""
        return self.size >= self.count

    def take(self, added: Passed, dropped: Passed, rng: np.random.Generator) -> None:
        """Take what is new, batch by batch, additions first; of the batch that is too many a random part."""
        self.passed += (len(added.codes), len(dropped.codes))
        self.judged += (added.judged, dropped.judged)
        codes = np.concatenate([added.codes, dropped.codes])
        batch = np.concatenate([2 * added.batch, 2 * dropped.batch + 1])
        order = np.lexsort((rng.random(len(codes)), batch))  # within a batch by chance: cutting it is then fair
        codes, batch = codes[order], batch[order]
        _, first = np.unique(codes, return_index=True)
        first = np.sort(first)
        fresh = first[~np.isin(codes[first], self.codes)][: self.count - self.size]
        self.codes = np.concatenate([self.codes, codes[fresh]])
        self.is_drop = np.concatenate([self.is_drop, batch[fresh] % 2 == 1])

    def choice(self, batch: int) -> Choice:
        """The edits, and what share of the pairs that were judged had passed."""
        added, dropped = self.codes[~self.is_drop], self.codes[self.is_drop]
        record: dict[str, float] = {"batch": batch}
        for kind, passed, judged in zip(("additions", "drops"), self.passed, self.judged, strict=True):
            if judged:
                record[f"pass rate of {kind}"] = float(passed / judged)
        return Choice(added, dropped, record)
