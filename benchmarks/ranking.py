"""Full ranking of NetEase-like data (18,528 users, 22,864 bundles, d = 64): seconds and peak memory.

Beside it, in the same run, the ways that give the same order of ties: a stable sort of every row, and the
dense mask of users x bundles that published code subtracts, as a figure of memory.

    python benchmarks/ranking.py
"""

import resource
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from clbr import BundleDataset, Recommender, rank, simulate
from clbr.config import Config
from clbr.evaluation.ranking import top

TOP = 40


class Vectors(Recommender):
    """Inner products of random vectors: the cost of any model that has vectors."""

    def __init__(self, users: Tensor, bundles: Tensor) -> None:
        self.users, self.bundles = users, bundles

    @classmethod
    def fit(cls, dataset: BundleDataset, config: Config | None = None) -> "Vectors":
        draw = torch.Generator().manual_seed(0)
        sizes = (len(dataset.users), len(dataset.bundles))
        return cls(*(torch.randn(size, 64, generator=draw) for size in sizes))

    def scores(self, users: Tensor) -> Tensor:
        return self.users[users] @ self.bundles.T


def main() -> None:
    dataset = simulate("netease").dataset
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    model = Vectors.fit(dataset)
    start = perf_counter()
    rank(model, np.arange(len(dataset.users)), TOP, exclude=dataset.train)
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    users, bundles = len(dataset.users), len(dataset.bundles)
    print(f"{users:,} x {bundles:,}, top {TOP}: {seconds:.1f} s with {torch.get_num_threads()} threads")
    print(
        f"peak {peak:.2f} GiB ({before:.2f} before ranking); a dense mask alone: {users * bundles * 4 / 2**30:.2f} GiB"
    )

    block = model.scores(torch.arange(350))
    start = perf_counter()
    ours = top(block, TOP)
    ours_seconds = perf_counter() - start
    start = perf_counter()
    sorted_ = block.sort(dim=1, descending=True, stable=True).indices[:, :TOP]
    sort_seconds = perf_counter() - start
    assert torch.equal(ours, sorted_)
    print(
        f"a block of 350 users: {ours_seconds * 1e3:.0f} ms, by stable sort {sort_seconds / ours_seconds:.0f} times as long"
    )


if __name__ == "__main__":
    main()
