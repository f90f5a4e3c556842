"""How good are lists for someone never seen, and places of a bundle never seen? Measured by hiding known ones.

A user is hidden by taking all her edges away; the spare user gets them instead. A bundle is hidden by taking its edges
away; the spare bundle gets its contents alone. Found are pairs of the split: for users the recall at 20, for bundles the
share of pairs in whose user's first 20 the bundle stands.

    python benchmarks/newcomers.py ARTIFACT DATA [--split test] [--users 300] [--bundles 150]
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from clbr import EdgeEdits, load
from clbr.inference.artifact import open_artifact
from clbr.inference.recommend import best, of_left
from clbr.inference.whatif import edited, factual
from clbr.training.runtime import use_threads


def pairs(left: int, rights: np.ndarray) -> np.ndarray:
    return np.stack([np.full(len(rights), left), rights], axis=1).astype(np.int32)


def interval(differences: list[float]) -> str:
    return f"{100 * np.mean(differences):+.1f} ± {196 * np.std(differences) / len(differences) ** 0.5:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="test", choices=("validation", "test"))
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--bundles", type=int, default=150)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    use_threads(options.threads)
    opened, dataset, rng = open_artifact(options.artifact), load(options.data), np.random.default_rng(0)
    wanted = dataset.pairs(options.split)
    graph, popular = (
        opened.graph,
        torch.bincount(torch.from_numpy(opened.chosen[:, 1].astype(np.int64)), minlength=len(dataset.bundles) + 1),
    )
    rows: dict[str, list[float]] = {"known": [], "never seen": [], "never seen, items alone": [], "popularity": []}
    for user in rng.permutation(np.unique(wanted[:, 0]))[: options.users].tolist():
        items, chosen, hers = of_left(graph.ui.pairs, user), of_left(graph.ub.pairs, user), of_left(wanted, user)
        gone = {"ui": pairs(user, items), "ub": pairs(user, chosen)}
        spare = opened.unseen_user
        whole = edited(opened, EdgeEdits(add={"ui": pairs(spare, items), "ub": pairs(spare, chosen)}, drop=gone))
        bare = edited(opened, EdgeEdits(add={"ui": pairs(spare, items)}, drop=gone))
        lists = {
            "known": factual(opened).scores(user),
            "never seen": whole.scores(spare),
            "never seen, items alone": bare.scores(spare),
            "popularity": popular.float(),
        }
        for name, scores in lists.items():
            found = [place.bundle for place in best(opened, scores, 20, chosen=chosen)]
            rows[name].append(float(np.isin(hers, found).mean()))
    print(f"{options.split}, {opened.about.model} on {dataset.name}, {len(rows['known'])} users hidden one by one\n")
    print("| users | recall@20 | against known |\n|---|---|---|")
    for name, values in rows.items():
        print(
            f"| {name} | {100 * np.mean(values):.1f} | {interval([a - b for a, b in zip(values, rows['known'], strict=True)])} |"
        )
    known, hidden = [], []
    for bundle in rng.permutation(np.unique(wanted[:, 1]))[: options.bundles].tolist():
        takers, items = opened.chosen[opened.chosen[:, 1] == bundle, 0], of_left(graph.bi.pairs, bundle)
        gone = {"ub": np.stack([takers, np.full(len(takers), bundle)], axis=1), "bi": pairs(bundle, items)}
        state = edited(opened, EdgeEdits(add={"bi": pairs(opened.unseen_bundle, items)}, drop=gone))
        users = wanted[wanted[:, 1] == bundle, 0]
        known += (factual(opened).places(bundle)[users] <= 20).tolist()
        hidden += (state.places(opened.unseen_bundle)[users] <= 20).tolist()
    print(
        f"\n{len(known)} pairs of {options.bundles} bundles hidden one by one; by chance {2000 / opened.about.bundles:.1f}\n"
    )
    print("| bundles | pairs found in the first 20, percent |\n|---|---|")
    print(f"| known | {100 * np.mean(known):.1f} |\n| never seen, contents alone | {100 * np.mean(hidden):.1f} |")


if __name__ == "__main__":
    main()
