"""Hard negatives: bundles that a user did not choose although much speaks for them (BGCN's second stage).

By history: bundles that hold many items which she has. By contents: bundles that share much with the one chosen.
A list of each row's hardest bundles is made once; draws from it are never a known choice.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from clbr.data.dataset import BundleDataset
from clbr.data.pairs import contains, encode, incidence
from clbr.evaluation.ranking import top
from clbr.train.batches import Ids, Negatives

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
