"""Latency of a recommender folder: opening, a list, a user's what-if, a bundle's audience, explanations, all users.

RECOMMENDER is a folder that `clbr export` wrote. Users, bundles and edits are drawn with a fixed seed. Every kind of
question is asked a few times before it is timed. Medians and 95th percentiles (of few values: maxima) in milliseconds.
`--only TEXT` times the questions whose name contains it; `--processor` gives processor time, for a machine with other load.

    python benchmarks/answers.py RECOMMENDER [RECOMMENDER ...] [--questions 60] [--only TEXT] [--processor]
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from clbr.data.pairs import Pairs, neighbours
from clbr.inference.lists import write_lists
from clbr.inference.recommender import Recommender, load_recommender
from clbr.inference.whatif import factual_state
from clbr.training.runtime import use_threads

WARM_UP = 3
OPENING = """
import sys, time
import torch
start = time.perf_counter()
from clbr.inference.recommender import load_recommender
imported = time.perf_counter()
recommender = load_recommender(sys.argv[1])
recommender.recommend_one(recommender.artifact.users.id(0))
print(1000 * (imported - start), 1000 * (time.perf_counter() - imported))
"""


def time_calls(ask: Callable[[], object], questions: int, clock: Callable[[], float] = perf_counter) -> np.ndarray:
    """Return the milliseconds of each call, without the first ones."""
    milliseconds = []
    for number in range(WARM_UP + questions):
        start = clock()
        ask()
        if number >= WARM_UP:
            milliseconds.append(1000 * (clock() - start))
    return np.array(milliseconds)


def time_opening(folder: Path, runs: int = 5) -> dict[str, np.ndarray]:
    """Return the milliseconds of the import and of the first list, each run in a new process."""
    command = [sys.executable, "-c", OPENING, str(folder)]
    lines = [subprocess.check_output(command, text=True) for _ in range(runs)]
    times = np.array([line.split() for line in lines], float).T
    return dict(zip(("import of clbr, after torch", "opening and a first list"), times, strict=True))


def make_questions(recommender: Recommender, rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    """Return a function for each kind of question; every call asks about random nodes."""
    artifact = recommender.artifact
    graph, state = artifact.graph, factual_state(artifact)
    users, bundles = np.unique(graph.ub.pairs[:, 0]), np.unique(graph.bi.pairs[:, 0])

    def random_user() -> int:
        return int(rng.choice(users))

    def new_item(pairs: Pairs, left: int) -> str:
        known = neighbours(pairs, left)
        items = rng.integers(artifact.about.items, size=1000).tolist()
        return artifact.items.id(next(item for item in items if item not in known))

    def item_added() -> object:
        user = random_user()
        return recommender.whatif(artifact.users.id(user), add_items=[new_item(graph.ui.pairs, user)])

    def bundle_dropped() -> object:
        user = random_user()
        dropped = artifact.bundles.id(int(rng.choice(neighbours(graph.ub.pairs, user))))
        return recommender.whatif(artifact.users.id(user), drop_bundles=[dropped])

    def audience() -> object:
        bundle = int(rng.choice(bundles))
        contents, new = neighbours(graph.bi.pairs, bundle), new_item(graph.bi.pairs, bundle)
        old = artifact.items.id(int(rng.choice(contents)))
        return recommender.audience(artifact.bundles.id(bundle), swap=[(old, new)])

    def explain(first: int, last: int) -> object:
        user = random_user()
        bundle = state.ranking(user, last)[int(rng.integers(first, last))]
        return recommender.explain(artifact.users.id(user), artifact.bundles.id(bundle))

    return {
        "a list of 20": lambda: recommender.recommend_one(artifact.users.id(random_user())),
        "what-if of a user, an item added": item_added,
        "what-if of a user, a bundle dropped": bundle_dropped,
        "audience of a bundle": audience,
        "why a bundle is in the list": lambda: explain(0, 20),
        "what would bring a bundle in": lambda: explain(20, 100),
    }


def show(name: str, median: float, high: float, digits: int = 0) -> None:
    print(f"| {name} | {median:.{digits}f} | {high:.{digits}f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recommenders", nargs="+", type=Path, metavar="RECOMMENDER")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--only", metavar="TEXT")
    parser.add_argument("--processor", action="store_true")
    options = parser.parse_args()
    threads = use_threads(options.threads)
    clock = process_time if options.processor else perf_counter
    for folder in options.recommenders:
        recommender = load_recommender(folder)
        about = recommender.artifact.about
        print(f"\n| {about.model} on {about.data}, {threads} threads | median ms | 95 % ms |\n|---|---|---|")
        for name, times in ({} if options.only else time_opening(folder)).items():
            show(name, np.median(times), np.max(times))
        for name, ask in make_questions(recommender, np.random.default_rng(0)).items():
            if not options.only or options.only in name:
                times = time_calls(ask, options.questions, clock)
                show(name, np.median(times), np.percentile(times, 95), digits=1)
        if options.only:
            continue
        with tempfile.TemporaryDirectory() as space:
            out = Path(space) / "all.parquet"
            times = time_calls(lambda: write_lists(recommender.artifact, out), 3)  # noqa: B023
        show("lists of all users, to Parquet", np.median(times), np.max(times))


if __name__ == "__main__":
    main()
