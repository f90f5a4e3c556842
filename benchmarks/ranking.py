"""Speed and memory of ranking.

    python benchmarks/ranking.py                  full ranking of NetEase-like data (18,528 users, 22,864 bundles, 64
                                                  dimensions), beside a stable sort of every row, which breaks ties in
                                                  the same order, and the memory of a dense users x bundles mask
    python benchmarks/ranking.py RECOMMENDER      exact ranking and the index among 5,000 to 1,000,000 bundles

The second takes the vectors of a recommender that `clbr export` wrote. Its bundles are drawn anew, with replacement, and
noise is added: a part of the standard deviation of each dimension. Gaussian vectors, which have no clusters at all, are
the hardest case. The users are those of the recommender. Times are CPU times of one thread, which other load on the
machine changes little.
"""

import argparse
import resource
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import faiss
import numpy as np
import torch
from torch import Tensor

from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs, neighbours
from clbr.errors import UnsupportedError
from clbr.evaluation.ranking import rank, top
from clbr.inference.artifact import open_artifact
from clbr.inference.index import BLOCK, BundleIndex, build, tune
from clbr.models.base import VectorScorer
from clbr.simulation.generate import simulate
from clbr.training.runtime import use_threads

TOP = 40
BLOCK_USERS = 350
LISTED = 20
SINGLES = 100
"""Users who are asked for one by one."""


def random_scorer(dataset: BundleDataset) -> VectorScorer:
    """Return a scorer with random vectors: its cost is that of any model that scores by inner products."""
    draw = torch.Generator().manual_seed(0)
    sizes = (len(dataset.users), len(dataset.bundles))
    return VectorScorer(*(torch.randn(size, 64, generator=draw) for size in sizes))


def measure_exact() -> None:
    """Print the time and memory of a full ranking, and the time of a block beside a stable sort."""
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


def enlarged(bundles: Tensor, count: int, noise: float | None) -> Tensor:
    """So many bundle vectors: drawn from those given, with noise; None: Gaussian vectors."""
    draw = torch.Generator().manual_seed(0)
    if noise is None:
        return torch.randn(count, bundles.shape[1], generator=draw)
    drawn = bundles[torch.randint(len(bundles), (count,), generator=draw)]
    for part in drawn.split(1 << 16):
        part += noise * bundles.std(0) * torch.randn(part.shape, generator=draw)
    return drawn


def rank_one(scorer: VectorScorer, user: int, chosen: Pairs) -> None:
    """Rank for one user exactly, as `Recommender.recommend_one` does without an index."""
    scores = scorer.scores(torch.tensor([user]))[0].clone()
    scores[torch.from_numpy(neighbours(chosen, user).astype(np.int64))] = -torch.inf
    top(scores[None], LISTED)


def milliseconds(index: BundleIndex, users: np.ndarray, single: bool) -> tuple[float, float, float]:
    """The time for one user in milliseconds, exactly and with the index: one by one, or all together; and the recall."""
    scorer, chosen = VectorScorer(index.users, index.bundles), index.chosen
    users = users[:SINGLES] if single else users
    start = process_time()
    if single:
        for user in users.tolist():
            rank_one(scorer, user, chosen)
    else:
        exact = rank(scorer, users, LISTED, exclude=chosen)
    middle, size = process_time(), 1 if single else BLOCK
    found = [index.rank(users[begin : begin + size], LISTED)[0] for begin in range(0, len(users), size)]
    end = process_time()
    recall = 1.0 if single else np.mean([np.isin(*lists) for lists in zip(exact, np.concatenate(found), strict=True)])
    return 1e3 * (middle - start) / len(users), 1e3 * (end - middle) / len(users), float(recall)


def measure_index(users: Tensor, bundles: Tensor, chosen: Pairs) -> None:
    """Print a row of times and recall."""
    start = process_time()
    index = BundleIndex(build(bundles), users, bundles, chosen)
    row = f"| {len(bundles):,} | {process_time() - start:.0f} s "
    try:
        probes, recall = tune(index)
    except UnsupportedError as error:
        print(f"{row}| {error} |", flush=True)
        return
    with tempfile.NamedTemporaryFile() as file:
        faiss.write_index(index.searcher, file.name)
        row += f"| {Path(file.name).stat().st_size / 2**20:,.0f} MiB | {probes} of {index.searcher.nlist} "
    row += f"| {min(recall.values()):.4f} "
    some = np.random.default_rng(0).permutation(len(users) - 1)[: max(SINGLES, 40_000_000 // len(bundles))]
    for single in (True, False):
        exact, found, share = milliseconds(index, some, single)
        row += f"| {exact:.2f} | {found:.2f} | {exact / found:.1f} "
    print(f"{row}| {share:.4f} |", flush=True)


def measure_sizes(folder: Path, sizes: list[int], noises: list[float | None]) -> None:
    """Print a table of times by number of bundles for each kind of vectors."""
    artifact = open_artifact(folder)
    users, bundles = artifact.embeddings.joined("users"), artifact.embeddings.joined("bundles")[:-1]
    chosen = artifact.graph.ub.pairs
    about = artifact.about
    print(f"{about.model} on {about.data}, {users.shape[1]} dimensions, lists of {LISTED}; CPU milliseconds a user")
    for noise in noises:
        print("\nGaussian vectors" if noise is None else f"\nnoise {noise:g}")
        print("| bundles | build | size | clusters read | recall, its sample | exact | index | ratio ", end="")
        print("| exact, all | index, all | ratio | recall@20, random users |\n" + "|---" * 12 + "|")
        for size in sizes if noise is not None else sizes[-2:-1]:
            measure_index(users, enlarged(bundles, size, noise), chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recommender", type=Path, nargs="?")
    parser.add_argument("--sizes", type=int, nargs="+", default=[5000, 10_000, 20_000, 50_000, 100_000, 1_000_000])
    parser.add_argument("--noises", type=float, nargs="+", default=[0.3, 1.0])
    options = parser.parse_args()
    if options.recommender is None:
        measure_exact()
        return
    use_threads(1)
    measure_sizes(options.recommender, options.sizes, [*options.noises, None])


if __name__ == "__main__":
    main()
