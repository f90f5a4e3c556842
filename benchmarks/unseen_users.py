"""Quality of lists for unseen users, and of ranks of unseen bundles, measured by hiding known ones.

A user is hidden by dropping all edges of the user and adding them to the unseen user. A bundle is hidden by dropping
all its edges and adding its contents to the unseen bundle. Measured on the pairs of a split: for users the recall at 20,
for bundles the share of pairs whose user has the bundle among the first 20.

    python benchmarks/unseen_users.py RECOMMENDER DATA [--split test] [--users 300] [--bundles 150]
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from clbr.data.folder import load
from clbr.data.pairs import Pairs, neighbours
from clbr.graph.edits import EdgeEdits
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.recommend import best
from clbr.inference.whatif import edited_state, factual_state
from clbr.training.runtime import use_threads

K = 20


def make_pairs(left: int, rights: np.ndarray) -> np.ndarray:
    return np.stack([np.full(len(rights), left), rights], axis=1).astype(np.int32)


def interval(differences: list[float]) -> str:
    """Return the mean difference with its 95 % interval, in percent."""
    return f"{100 * np.mean(differences):+.1f} ± {196 * np.std(differences) / len(differences) ** 0.5:.1f}"


def user_recalls(artifact: Artifact, held_out: Pairs, users: list[int]) -> dict[str, list[float]]:
    """Return the recall of each user's held-out pairs: known, hidden, hidden with items only, and by popularity."""
    graph, unseen = artifact.graph, artifact.unseen_user
    chosen_bundles = torch.from_numpy(graph.ub.pairs[:, 1].astype(np.int64))
    popularity = torch.bincount(chosen_bundles, minlength=artifact.about.bundles + 1).float()
    recalls: dict[str, list[float]] = {"known": [], "unseen": [], "unseen, items only": [], "popularity": []}
    for user in users:
        items, chosen = neighbours(graph.ui.pairs, user), neighbours(graph.ub.pairs, user)
        drop = {"ui": make_pairs(user, items), "ub": make_pairs(user, chosen)}
        item_edges = {"ui": make_pairs(unseen, items)}
        all_edges = item_edges | {"ub": make_pairs(unseen, chosen)}
        scores = {
            "known": factual_state(artifact).scores(user),
            "unseen": edited_state(artifact, EdgeEdits(add=all_edges, drop=drop)).scores(unseen),
            "unseen, items only": edited_state(artifact, EdgeEdits(add=item_edges, drop=drop)).scores(unseen),
            "popularity": popularity,
        }
        for name, values in scores.items():
            listed, _ = best(artifact, values, K, exclude=chosen)
            recalls[name].append(float(np.isin(neighbours(held_out, user), listed).mean()))
    return recalls


def bundle_hits(artifact: Artifact, held_out: Pairs, bundles: list[int]) -> tuple[list[bool], list[bool]]:
    """Return for each held-out pair whether the bundle is in the user's list: as a known bundle, and as a hidden one."""
    graph, known, hidden = artifact.graph, [], []
    for bundle in bundles:
        choosers, items = graph.ub.pairs[graph.ub.pairs[:, 1] == bundle, 0], neighbours(graph.bi.pairs, bundle)
        drop = {"ub": np.stack([choosers, np.full(len(choosers), bundle)], axis=1), "bi": make_pairs(bundle, items)}
        edits = EdgeEdits(add={"bi": make_pairs(artifact.unseen_bundle, items)}, drop=drop)
        users = held_out[held_out[:, 1] == bundle, 0]
        known += (factual_state(artifact).ranks(bundle)[users] <= K).tolist()
        hidden += (edited_state(artifact, edits).ranks(artifact.unseen_bundle)[users] <= K).tolist()
    return known, hidden


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recommender", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", default="test", choices=("validation", "test"))
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--bundles", type=int, default=150)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    use_threads(options.threads)
    artifact, dataset, rng = open_artifact(options.recommender), load(options.data), np.random.default_rng(0)
    held_out = dataset.pairs(options.split)
    users = rng.permutation(np.unique(held_out[:, 0]))[: options.users].tolist()
    recalls = user_recalls(artifact, held_out, users)
    print(f"{options.split}, {artifact.about.model} on {dataset.name}, {len(users)} users hidden one by one\n")
    print("| users | recall@20 | difference to known |\n|---|---|---|")
    for name, values in recalls.items():
        differences = [value - known for value, known in zip(values, recalls["known"], strict=True)]
        print(f"| {name} | {100 * np.mean(values):.1f} | {interval(differences)} |")
    bundles = rng.permutation(np.unique(held_out[:, 1]))[: options.bundles].tolist()
    known, hidden = bundle_hits(artifact, held_out, bundles)
    random_share = 100 * K / artifact.about.bundles
    print(
        f"\n{len(known)} pairs of {len(bundles)} bundles hidden one by one; a random list finds {random_share:.1f} %\n"
    )
    print("| bundles | pairs found in the first 20, percent |\n|---|---|")
    print(f"| known | {100 * np.mean(known):.1f} |\n| unseen, contents only | {100 * np.mean(hidden):.1f} |")


if __name__ == "__main__":
    main()
