"""Batches: positive pairs with sampled negatives, uniform or hard, or all pairs of some users."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs, contains, encode, incidence, row_pointers
from clbr.evaluation.ranking import top
from clbr.graph.graph import BundleGraph, Edges
from clbr.models.embeddings import NodeSample, Triples

Ids = NDArray[np.int64]
BLOCK = 512
"""Rows of an overlap matrix computed at once."""
SAMPLED = 2048
"""Pairs of a batch that share a sample of bundles."""
TRIES = 20
"""Draws for a hard negative before the uniform one is kept."""


class Negatives:
    """Uniform draws from the right nodes that a left node has no pair with. Exact, without rejection.

    With the left node's sorted pairs p_0 < p_1 < ..., the r-th missing node is r + #{j: p_j - j <= r}. One binary
    search over all left nodes answers any number of draws.
    """

    def __init__(self, pairs: Pairs, shape: tuple[int, int]) -> None:
        self.width, self.rights = shape[1], pairs[:, 1]
        self.pointers = row_pointers(pairs[:, 0], shape[0])
        self.missing = self.width - np.diff(self.pointers)
        position = np.arange(len(pairs)) - self.pointers[pairs[:, 0]]
        self.shifted = pairs[:, 0].astype(np.int64) * self.width + pairs[:, 1] - position

    def draw(self, lefts: Ids, count: int, rng: np.random.Generator) -> Ids:
        """Draw `count` right nodes for each left node, (n, count). Each left node must miss at least one."""
        index = np.floor(rng.random((len(lefts), count)) * self.missing[lefts][:, None]).astype(np.int64)
        return self.nth_missing(lefts[:, None], index)

    def known(self, lefts: Ids) -> Ids:
        """Return all pairs of these distinct, sorted left nodes, (m, 2), sorted."""
        lengths = self.pointers[lefts + 1] - self.pointers[lefts]
        rows = np.repeat(lefts, lengths)
        offset = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.stack([rows, self.rights[self.pointers[rows] + offset]], axis=1)

    def nth_missing(self, lefts: Ids, index: Ids) -> Ids:
        """Return the right node at position `index`, from 0, among those that the left node misses."""
        passed = np.searchsorted(self.shifted, lefts * self.width + index, side="right") - self.pointers[lefts]
        return index + passed


class Positives:
    """The positive pairs of a relation, in shuffled batches with negatives.

    Pairs of left nodes that have all right nodes are left out: there is no negative for them.
    """

    def __init__(self, pairs: Pairs, shape: tuple[int, int]) -> None:
        self.negatives = Negatives(pairs, shape)
        self.pairs = pairs[self.negatives.missing[pairs[:, 0]] > 0].astype(np.int64)

    def __len__(self) -> int:
        return len(self.pairs)

    def epoch(
        self,
        size: int,
        negatives: int,
        rng: np.random.Generator,
        hard: "HardNegatives | None" = None,
        compared: int = 0,
    ) -> Iterator[Triples]:
        """Yield all pairs once, in random order, each with its negatives; with `hard` some of these are hard.

        `compared` is the number of right nodes that the objective compares a pair with. If it is not 0, batches hold
        whole left nodes instead, and no negatives are drawn.
        """
        if compared:
            yield from self._whole_users(size, rng, compared)
            return
        pairs = self.pairs[rng.permutation(len(self.pairs))]
        if hard is None:
            drawn = self.negatives.draw(pairs[:, 0], negatives, rng)
        else:
            drawn = hard.draw(pairs[:, 0], pairs[:, 1], negatives, rng)
        for start in range(0, len(pairs), size):
            chunk = slice(start, start + size)
            users, positives = torch.from_numpy(pairs[chunk, 0]), torch.from_numpy(pairs[chunk, 1])
            yield Triples(users, positives, torch.from_numpy(drawn[chunk]))

    def _whole_users(self, size: int, rng: np.random.Generator, compared: int) -> Iterator[Triples]:
        """Yield all pairs once, those of a user together, users in random order.

        So a user is compared with all bundles once in an epoch (twice where a batch ends between the user's pairs).
        """
        users, bundles = len(self.negatives.missing), self.negatives.width
        place = rng.permutation(users)[self.pairs[:, 0]]
        pairs = self.pairs[np.argsort(place, kind="stable")]
        for start in range(0, len(pairs), size):
            chunk = pairs[start : start + size]
            known = torch.from_numpy(self.negatives.known(np.unique(chunk[:, 0])))
            sample = None
            if bundles > compared:
                parts = [
                    rng.choice(bundles, compared, replace=False, shuffle=False) for _ in range(0, len(chunk), SAMPLED)
                ]
                sample = torch.from_numpy(np.sort(parts, axis=1))
            ids = torch.from_numpy(chunk)
            yield Triples(ids[:, 0], ids[:, 1], ids.new_empty(len(ids), 0), known, sample)

    def endless(self, size: int, negatives: int, rng: np.random.Generator, compared: int = 0) -> Iterator[Triples]:
        """Yield the batches of one epoch after another, without end."""
        while True:
            yield from self.epoch(size, negatives, rng, compared=compared)


def view_batches(
    size: int, negatives: int, edges: Edges, rng: np.random.Generator, compared: int = 0
) -> Iterator[Triples] | None:
    """Return endless batches of a view's own user-bundle edges; None if no negatives are left for any of them."""
    positives = Positives(edges.pairs, edges.shape)
    return positives.endless(size, negatives, rng, compared) if positives else None


def draw_nodes(count: int, graph: BundleGraph, rng: np.random.Generator) -> Iterator[NodeSample | None]:
    """Yield without end `count` distinct random users and bundles, or all if there are fewer; None if `count` is 0."""
    while True:
        drawn = [rng.choice(size, min(count, size), replace=False) for size in graph.ub.shape] if count else None
        yield NodeSample(*map(torch.from_numpy, drawn)) if drawn else None


class HardNegatives:
    """Draws negatives of which a share is hard: by the user's items, or by the items of the positive bundle."""

    def __init__(self, dataset: BundleDataset, history: float, contents: float, hardest: float) -> None:
        self.bundles = len(dataset.bundles)
        self.history, self.contents = history, contents
        self.uniform = Negatives(dataset.train, (len(dataset.users), self.bundles))
        self.known = encode(dataset.train, self.bundles)
        count = max(1, round(hardest * self.bundles))
        bundle_item = incidence(dataset.bi, self.bundles, len(dataset.items))
        user_item = incidence(dataset.ui, len(dataset.users), len(dataset.items))
        self.by_user = _largest_overlaps(user_item, bundle_item, count)
        self.by_bundle = _largest_overlaps(bundle_item, bundle_item, count)

    def draw(self, users: Ids, positives: Ids, count: int, rng: np.random.Generator) -> Ids:
        """Draw `count` negative bundles for each pair, (n, count). Without a hard one a pair gets a uniform one."""
        negatives = self.uniform.draw(users, count, rng)
        kind = rng.random(negatives.shape)
        left, right = np.repeat(users, count), np.repeat(positives, count)
        for lists, rows, mask in (
            (self.by_user, left, kind.ravel() < self.history),
            (self.by_bundle, right, (kind.ravel() >= self.history) & (kind.ravel() < self.history + self.contents)),
        ):
            todo = np.flatnonzero(mask)
            for _ in range(TRIES):
                drawn = lists[rows[todo], rng.integers(lists.shape[1], size=len(todo))].astype(np.int64)
                good = (drawn >= 0) & ~contains(self.known, left[todo] * self.bundles + drawn)
                negatives.ravel()[todo[good]] = drawn[good]
                todo = todo[~good]
        return negatives


def _largest_overlaps(one: csr_array, other: csr_array, count: int) -> NDArray[np.int32]:
    """For each row of `one`, the rows of `other` that share most columns with it; -1 where fewer share any."""
    lists = np.empty((one.shape[0], count), np.int32)
    for start in range(0, one.shape[0], BLOCK):
        shared = torch.from_numpy((one[start : start + BLOCK] @ other.T).toarray())
        lists[start : start + BLOCK] = top(shared.masked_fill(shared == 0, -torch.inf), count).numpy()
    return lists
