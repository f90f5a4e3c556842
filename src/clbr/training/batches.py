"""Batches: positive pairs with negatives, uniform or hard, drawn for a whole epoch at once."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs, contains, encode, incidence, row_pointers
from clbr.evaluation.ranking import top
from clbr.models.base import Triples

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


BLOCK = 512
TRIES = 20


class HardNegatives:
    """Draws negatives of which a share is hard, by the user's history and by the chosen bundle's contents."""

    def __init__(self, dataset: BundleDataset, history: float, contents: float, hardest: float) -> None:
        self.bundles = len(dataset.bundles)
        self.history, self.contents = history, contents
        self.uniform = Negatives(dataset.train, (len(dataset.users), self.bundles))
        self.known = encode(dataset.train, self.bundles)
        count = max(1, round(hardest * self.bundles))
        bundle_item = incidence(dataset.bi, self.bundles, len(dataset.items))
        user_item = incidence(dataset.ui, len(dataset.users), len(dataset.items))
        self.by_user = _hardest(user_item, bundle_item, count)
        self.by_bundle = _hardest(bundle_item, bundle_item, count)

    def draw(self, users: Ids, chosen: Ids, count: int, rng: np.random.Generator) -> Ids:
        """(n, count) bundles not chosen; a pair for which no hard one turns up gets a uniform one."""
        others = self.uniform.draw(users, count, rng)
        kind = rng.random(others.shape)
        left, right = np.repeat(users, count), np.repeat(chosen, count)
        for lists, rows, mask in (
            (self.by_user, left, kind.ravel() < self.history),
            (self.by_bundle, right, (kind.ravel() >= self.history) & (kind.ravel() < self.history + self.contents)),
        ):
            todo = np.flatnonzero(mask)
            for _ in range(TRIES):
                drawn = lists[rows[todo], rng.integers(lists.shape[1], size=len(todo))].astype(np.int64)
                good = (drawn >= 0) & ~contains(self.known, left[todo] * self.bundles + drawn)
                others.ravel()[todo[good]] = drawn[good]
                todo = todo[~good]
        return others


def _hardest(one: csr_array, other: csr_array, count: int) -> NDArray[np.int32]:
    """For each row of one the rows of other that share most with it, at least something; -1 fills the rest."""
    lists = np.empty((one.shape[0], count), np.int32)
    for start in range(0, one.shape[0], BLOCK):
        shared = torch.from_numpy((one[start : start + BLOCK] @ other.T).toarray())
        lists[start : start + BLOCK] = top(shared.masked_fill(shared == 0, -torch.inf), count).numpy()
    return lists
