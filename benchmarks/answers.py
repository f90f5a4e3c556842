"""How fast an artifact answers: opened, a user's what-if, a bundle's audience, an explanation, everyone ranked.

ARTIFACT is a folder that `clbr export` made. Users, bundles and edits are drawn by a fixed seed; every kind of question is
asked a few times before it is timed. Medians and 95th percentiles in milliseconds.

    python benchmarks/answers.py ARTIFACT [ARTIFACT ...] [--questions 60]
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.edit_requests import contents_edits, history_edits
from clbr.inference.explain import what_it_takes, why
from clbr.inference.recommend import of_left, recommend, recommend_all
from clbr.inference.whatif import ask_bundle, ask_user, factual
from clbr.training.runtime import use_threads

WARM_UP = 3
OPENING = """
import sys, time
import torch
begun = time.perf_counter()
from clbr.serve import artifact, recommend
imported = time.perf_counter()
recommend.recommend(artifact.open_artifact(sys.argv[1]), 0)
print(1000 * (imported - begun), 1000 * (time.perf_counter() - imported))
"""


def timed(ask: Callable[[], object], questions: int) -> np.ndarray:
    seconds = []
    for turn in range(WARM_UP + questions):
        begun = perf_counter()
        ask()
        if turn >= WARM_UP:
            seconds.append(perf_counter() - begun)
    return 1000 * np.array(seconds)


def questions_of(opened: Artifact, rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    about, users = opened.about, np.unique(opened.chosen[:, 0])

    def absent(pairs: np.ndarray, left: int) -> int:
        held = of_left(pairs, left)
        return next(item for item in rng.integers(about.items, size=1000).tolist() if item not in held)

    def user_edit() -> object:
        user = int(rng.choice(users))
        return ask_user(opened, user, history_edits(opened, user, add_items=(absent(opened.graph.ui.pairs, user),)))

    def bundle_swap() -> object:
        bundle = int(rng.choice(np.unique(opened.graph.bi.pairs[:, 0])))
        inside, new = of_left(opened.graph.bi.pairs, bundle), absent(opened.graph.bi.pairs, bundle)
        edits = contents_edits(opened, bundle, drop_items=(int(rng.choice(inside)),), add_items=(new,))
        return ask_bundle(opened, bundle, edits)

    def explain_why() -> object:
        user = int(rng.choice(users))
        return why(opened, user, factual(opened).ranking(user, 20)[int(rng.integers(20))].bundle)

    def explain_taking() -> object:
        user = int(rng.choice(users))
        return what_it_takes(opened, user, factual(opened).ranking(user, 100)[int(rng.integers(20, 100))].bundle)

    return {
        "a list of 20": lambda: recommend(opened, int(rng.choice(users))),
        "a user's what-if": user_edit,
        "a bundle's audience": bundle_swap,
        "why": explain_why,
        "what would it take": explain_taking,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifacts", nargs="+", type=Path)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    threads = use_threads(options.threads)
    for folder in options.artifacts:
        opened = open_artifact(folder)
        print(
            f"\n| {opened.about.model} on {opened.about.data}, {threads} threads | median ms | 95 % ms |\n|---|---|---|"
        )
        told = [subprocess.check_output([sys.executable, "-c", OPENING, folder], text=True) for _ in range(5)]
        for name, found in zip(
            ("imported clbr, after torch", "opened, and a first list"),
            np.array([line.split() for line in told], float).T,
            strict=True,
        ):
            print(f"| {name} | {np.median(found):.0f} | {np.max(found):.0f} |", flush=True)
        rng = np.random.default_rng(0)
        for name, ask in questions_of(opened, rng).items():
            found = timed(ask, options.questions)
            print(f"| {name} | {np.median(found):.1f} | {np.percentile(found, 95):.1f} |", flush=True)
        with tempfile.TemporaryDirectory() as space:
            everyone = timed(lambda: recommend_all(opened, Path(space) / "all.parquet"), 3)  # noqa: B023
        print(f"| everyone ranked, to Parquet | {np.median(everyone):.0f} | {np.max(everyone):.0f} |", flush=True)


if __name__ == "__main__":
    main()
