"""Full ranking of NetEase-like data (18,528 users, 22,864 bundles, 64 dimensions): seconds and peak memory.

For comparison, in the same run: a stable sort of every row, which breaks ties in the same order, and the memory of the
dense users x bundles mask that published code subtracts.

    python benchmarks/ranking.py
"""

import resource
from time import perf_counter

import numpy as np
import torch

from clbr.data.dataset import BundleDataset
from clbr.evaluation.ranking import rank, top
from clbr.models.base import VectorScorer
from clbr.simulation.generate import simulate

TOP = 40
BLOCK_USERS = 350


def random_scorer(dataset: BundleDataset) -> VectorScorer:
    """Return a scorer with random vectors: its cost is that of any model that scores by inner products."""
    draw = torch.Generator().manual_seed(0)
    sizes = (len(dataset.users), len(dataset.bundles))
    return VectorScorer(*(torch.randn(size, 64, generator=draw) for size in sizes))


def main() -> None:
    dataset = simulate("netease").dataset
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    scorer = random_scorer(dataset)
    start = perf_counter()
    rank(scorer, np.arange(len(dataset.users)), TOP, exclude=dataset.train)
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    users, bundles = len(dataset.users), len(dataset.bundles)
    print(f"{users:,} x {bundles:,}, top {TOP}: {seconds:.1f} s with {torch.get_num_threads()} threads")
    print(
        f"peak {peak:.2f} GiB ({before:.2f} before ranking); a dense mask alone: {users * bundles * 4 / 2**30:.2f} GiB"
    )

    block = scorer.scores(torch.arange(BLOCK_USERS))
    start = perf_counter()
    best = top(block, TOP)
    top_seconds = perf_counter() - start
    start = perf_counter()
    by_sort = block.sort(dim=1, descending=True, stable=True).indices[:, :TOP]
    sort_seconds = perf_counter() - start
    assert torch.equal(best, by_sort)
    ratio = sort_seconds / top_seconds
    print(f"a block of {BLOCK_USERS} users: {top_seconds * 1e3:.0f} ms; a stable sort takes {ratio:.0f} times as long")


if __name__ == "__main__":
    main()
