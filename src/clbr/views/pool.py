"""The pairs of a relation, connected and not, for samplers to draw from."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clbr.data.pairs import Codes, Relation, contains, encode
from clbr.errors import InputError
from clbr.graph.bundle_graph import BundleGraph


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
