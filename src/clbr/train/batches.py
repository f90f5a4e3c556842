"""Batches of choices with things not chosen, drawn for a whole epoch at once."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from clbr.data.pairs import Pairs, row_pointers
from clbr.models.interface import Triples

if TYPE_CHECKING:
    from clbr.train.hard import HardNegatives

Ids = NDArray[np.int64]


class Negatives:
    """Uniform draws from the right nodes that a left node is not paired with: exact, and without trial and error.

    The r-th node that is missing from the sorted list p_0 < p_1 < ... is r + #{j: p_j - j <= r}; one search over
    all lists answers for any number of draws.
    """

    def __init__(self, pairs: Pairs, shape: tuple[int, int]) -> None:
        self.width = shape[1]
        self.pointers = row_pointers(pairs[:, 0], shape[0])
        self.missing = self.width - np.diff(self.pointers)
        place = np.arange(len(pairs)) - self.pointers[pairs[:, 0]]
        self.shifted = pairs[:, 0].astype(np.int64) * self.width + pairs[:, 1] - place

    def draw(self, lefts: Ids, count: int, rng: np.random.Generator) -> Ids:
        """For each left node `count` right nodes, (n, count); a node must miss at least one."""
        rank = np.floor(rng.random((len(lefts), count)) * self.missing[lefts][:, None]).astype(np.int64)
        return self.nth_missing(lefts[:, None], rank)

    def nth_missing(self, lefts: Ids, rank: Ids) -> Ids:
        """The node at place `rank` among those that the left node misses."""
        passed = np.searchsorted(self.shifted, lefts * self.width + rank, side="right") - self.pointers[lefts]
        return rank + passed


class Choices:
    """The pairs of a relation, to be learned from in shuffled batches."""

    def __init__(self, pairs: Pairs, shape: tuple[int, int]) -> None:
        self.negatives = Negatives(pairs, shape)
        # Someone who has everything teaches nothing: there is nothing that she did not choose.
        self.pairs = pairs[self.negatives.missing[pairs[:, 0]] > 0].astype(np.int64)

    def __len__(self) -> int:
        return len(self.pairs)

    def epoch(
        self, size: int, negatives: int, rng: np.random.Generator, hard: "HardNegatives | None" = None
    ) -> Iterator[Triples]:
        """All pairs once, in random order, each with its negatives, of which some are hard if there is a source."""
        pairs = self.pairs[rng.permutation(len(self.pairs))]
        if hard is None:
            others = self.negatives.draw(pairs[:, 0], negatives, rng)
        else:
            others = hard.draw(pairs[:, 0], pairs[:, 1], negatives, rng)
        for start in range(0, len(pairs), size):
            chunk = slice(start, start + size)
            left, chosen = torch.from_numpy(pairs[chunk, 0]), torch.from_numpy(pairs[chunk, 1])
            yield Triples(left, chosen, torch.from_numpy(others[chunk]))

    def endless(self, size: int, negatives: int, rng: np.random.Generator) -> Iterator[Triples]:
        """One epoch after the other."""
        while True:
            yield from self.epoch(size, negatives, rng)
