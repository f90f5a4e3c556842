"""Is an explanation true of a retrained model? The explained entries are removed, and the model is trained anew.

For some users: why is a bundle of their first 20 there? The answer of the model with seed 0 names entries of the
history without which the bundle would leave the list. These entries are removed for all users at once, and the model is
retrained on the remaining data, with several seeds. How often is the bundle gone from the first 20? For comparison, the
same after removing as many random entries of the same users' histories, and after removing nothing (another seed alone
moves bundles in and out of a list). The last columns look only at the cases in which the bundle is in the list of the
model that was retrained with the same seed and nothing removed.

    python benchmarks/explanations_retrained.py DATA [--cases 100] [--seeds 4] [--model trilevel] [--out runs]
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from clbr.data.dataset import BundleDataset
from clbr.data.folder import load, save
from clbr.data.pairs import neighbours
from clbr.graph.edits import EdgeEdits
from clbr.inference.artifact import Artifact
from clbr.inference.explain import explain
from clbr.inference.retraining import edit_dataset
from clbr.inference.whatif import factual_state
from clbr.training.runtime import use_threads
from retraining import train_artifact

K = 20
Case = tuple[int, int, EdgeEdits]
"""A user, a bundle of the user's first 20, and the removals that take it out of the list."""


def find_cases(artifact: Artifact, wanted: int) -> tuple[list[Case], int]:
    """Ask why for random users until enough answers are found; return them and the number of questions."""
    state, rng = factual_state(artifact), np.random.default_rng(0)
    cases: list[Case] = []
    for asked, user in enumerate(rng.permutation(np.unique(artifact.graph.ub.pairs[:, 0])).tolist(), 1):
        bundle = state.ranking(user, K)[int(rng.integers(K))]
        answer = explain(artifact, artifact.users.id(user), artifact.bundles.id(bundle), k=K)
        if answer.found:
            drop = {
                relation: np.array([(user, ids.index(one.id)) for one in answer.evidence if one.kind == kind], np.int32)
                for relation, kind, ids in (("ui", "item", artifact.items), ("ub", "bundle", artifact.bundles))
            }
            cases.append((user, bundle, EdgeEdits(drop={name: pairs for name, pairs in drop.items() if len(pairs)})))
        if len(cases) == wanted:
            return cases, asked
    return cases, asked


def random_removals(dataset: BundleDataset, edits: EdgeEdits, rng: np.random.Generator) -> EdgeEdits:
    """Return as many random removals of the same user's entries, relation by relation."""
    every = {"ui": dataset.ui, "ub": dataset.train}
    drop = {}
    for relation, pairs in edits.drop.items():
        user = int(pairs[0, 0])
        drawn = rng.permutation(neighbours(every[relation], user))[: len(pairs)]
        drop[relation] = np.stack([np.full(len(drawn), user), drawn], axis=1).astype(np.int32)
    return EdgeEdits(drop=drop)


def together(parts: Sequence[EdgeEdits]) -> EdgeEdits:
    """Return all removals as one set of edits."""
    found = {name: [part.drop[name] for part in parts if name in part.drop] for name in ("ui", "ub")}
    return EdgeEdits(drop={name: np.concatenate(pairs) for name, pairs in found.items() if pairs})


def gone(artifact: Artifact, cases: Sequence[Case]) -> NDArray[np.bool_]:
    """Return for each case whether the bundle is outside the user's first 20."""
    state = factual_state(artifact)
    return np.array([state.rank(user, bundle) > K for user, bundle, _ in cases])


def share(values: NDArray[np.bool_], counted: NDArray[np.bool_]) -> str:
    """Return the share of True among the counted ones, (seeds, cases), with its 95 % interval.

    The interval is by a bootstrap over cases; all seeds of a case are drawn together.
    """
    if not counted.any():
        return ""
    rng, cases = np.random.default_rng(0), values.shape[1]
    drawn = [rng.integers(cases, size=cases) for _ in range(1000)]
    shares = [(values & counted)[:, some].sum() / max(1, counted[:, some].sum()) for some in drawn]
    low, high = np.quantile(shares, [0.025, 0.975])
    return f"{values[counted].mean():.0%} ({low:.0%} to {high:.0%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--model", default="trilevel")
    parser.add_argument("--preset")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="a folder for one model and preset")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    options.paradigm = "original"
    use_threads(options.threads)
    dataset = load(options.data)

    def retrain(name: str, edits: EdgeEdits) -> list[Artifact]:
        """Train with every seed on the data with the edits; finished runs in --out are used again."""
        data, edited = options.data, dataset
        if edits.drop:
            edited = edit_dataset(dataset, edits)
            edited = replace(edited, name=f"{dataset.name}-edited-{name}-{edited.fingerprint[:8]}")
            data = options.out / edited.name
            if not data.exists():
                save(edited, data)
        names = [f"{edited.name}-{options.model}-original-{seed}" for seed in range(options.seeds)]
        return [train_artifact(options.out / one, data, edited, options, seed) for seed, one in enumerate(names)]

    plain = retrain("nothing", EdgeEdits())
    cases, asked = find_cases(plain[0], options.cases)
    rng = np.random.default_rng(1)
    chosen, random = together([case[2] for case in cases]), [random_removals(dataset, case[2], rng) for case in cases]
    sizes = [sum(map(len, case[2].drop.values())) for case in cases]
    print(f"{options.model} on {dataset.name}: {asked} questions, {len(cases)} answers of seed 0 with", end=" ")
    print(f"{median(sizes):g} entries in the median, {max(sizes)} at most; {options.seeds} seeds\n")
    rows = {
        "nothing": plain,
        "random entries": retrain(f"random-{len(cases)}", together(random)),
        "the explanation": retrain(f"explained-{len(cases)}", chosen),
    }
    print("| removed | gone, seed 0 | gone, other seeds | of those in the list before, seed 0 | other seeds |")
    print("|---|---|---|---|---|")
    before = np.stack([gone(artifact, cases) for artifact in plain])  # (seeds, cases)
    for name, artifacts in rows.items():
        after = np.stack([gone(artifact, cases) for artifact in artifacts])
        every = np.ones_like(after)
        parts = [(after[part], every[part], ~before[part]) for part in (slice(0, 1), slice(1, None))]
        whole = [share(values, counted) for values, counted, _ in parts]
        listed = [share(values, counted) for values, _, counted in parts]
        if name == "nothing":  # the others are 0 by construction
            whole[0], listed = "", ["", ""]
        print(f"| {name} | {' | '.join(whole)} | {' | '.join(listed)} |", flush=True)


if __name__ == "__main__":
    main()
