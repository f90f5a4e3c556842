"""Update against retraining: what new data gains a trained recommender, and in what time.

A share of the users (with all their pairs), of the bundles (with all their pairs) and of the remaining training pairs is
hidden. A model is trained on the rest, then all that was hidden is given back by `update`. Measured on the test pairs
of new users, of new bundles, and of old users:

    nothing           the recommender as it was: a new user gets the list of an unknown user, a new bundle is in no list
    without fitting   the new graph, with zeros as parameters of new nodes
    update            the parameters of new nodes are fitted
    retraining        trained on all data

`--grid` shows the steps and learning rates of the fit on validation pairs instead, from which the defaults were chosen.

    python benchmarks/update.py DATA [--model trilevel] [--share 0.1] [--grid] [--threads 1]
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time
from typing import Literal, TypeVar

import numpy as np
import polars as pl
import torch
from torch import Tensor

from clbr import BundleDataset, Nodes, fit, load
from clbr.data.pairs import Pairs, contains, encode
from clbr.evaluation.protocol import evaluate
from clbr.inference.artifact import Artifact
from clbr.inference.update import update
from clbr.models.base import Scorer
from clbr.rng import generator

T = TypeVar("T")
GRID = [(steps, rate) for rate in (0.005, 0.01, 0.02) for steps in (35, 70, 140)]


def hide(dataset: BundleDataset, share: float, seed: int) -> tuple[BundleDataset, dict[str, pl.DataFrame]]:
    """Return the data set without what is hidden, ids as in the whole one, and the hidden pairs as tables."""
    rng = generator(seed, "hidden")
    counts = {"user": len(dataset.users), "bundle": len(dataset.bundles)}
    old = {kind: np.sort(rng.permutation(count)[round(share * count) :]) for kind, count in counts.items()}
    train = among(dataset.train, old["user"], old["bundle"])
    train = train[rng.random(len(train)) >= share]
    ui = dataset.ui[np.isin(dataset.ui[:, 0], old["user"])]
    bi = dataset.bi[np.isin(dataset.bi[:, 0], old["bundle"])]
    old["item"] = np.union1d(ui[:, 1], bi[:, 1])
    nodes = [Nodes(kind, len(kept), tuple(map(str, kept.tolist())), integer_ids=True) for kind, kept in old.items()]

    def renumbered(pairs: Pairs, left: str, right: str) -> Pairs:
        sides = np.searchsorted(old[left], pairs[:, 0]), np.searchsorted(old[right], pairs[:, 1])
        return np.stack(sides, axis=1).astype(np.int32)

    kept = BundleDataset(
        dataset.name,
        *nodes,
        train=renumbered(train, "user", "bundle"),
        validation=renumbered(among(dataset.validation, old["user"], old["bundle"]), "user", "bundle"),
        test=np.empty((0, 2), np.int32),
        ui=renumbered(ui, "user", "item"),
        bi=renumbered(bi, "bundle", "item"),
    )
    hidden = {
        "user_bundle": rest(dataset.train, train, counts["bundle"], "user", "bundle"),
        "user_item": rest(dataset.ui, ui, len(dataset.items), "user", "item"),
        "bundle_item": rest(dataset.bi, bi, len(dataset.items), "bundle", "item"),
    }
    return kept, hidden


def among(pairs: Pairs, users: np.ndarray, bundles: np.ndarray) -> Pairs:
    return pairs[np.isin(pairs[:, 0], users) & np.isin(pairs[:, 1], bundles)]


def rest(pairs: Pairs, kept: Pairs, width: int, left: str, right: str) -> pl.DataFrame:
    hidden = pairs[~contains(encode(kept, width), encode(pairs, width))]
    return pl.DataFrame({left: hidden[:, 0], right: hidden[:, 1]})


class ByNumber(Scorer):
    """An artifact's scores in the numbering of the whole data set. Bundles that it does not know come last."""

    def __init__(self, artifact: Artifact, dataset: BundleDataset) -> None:
        users = [artifact.users.find(user) for user in range(len(dataset.users))]
        bundles = [artifact.bundles.find(bundle) for bundle in range(len(dataset.bundles))]
        self.artifact, self.unknown = artifact, torch.tensor([bundle is None for bundle in bundles])
        self.users = torch.tensor([artifact.unseen_user if user is None else user for user in users])
        self.bundles = torch.tensor([artifact.unseen_bundle if bundle is None else bundle for bundle in bundles])

    def scores(self, users: Tensor) -> Tensor:
        return self.artifact.scorer.scores(self.users[users])[:, self.bundles].masked_fill(self.unknown, -torch.inf)


def measure(
    artifact: Artifact, dataset: BundleDataset, old: BundleDataset, split: Literal["validation", "test"]
) -> list[str]:
    """Return R@20 and NDCG@20 in percent for the pairs of new users, of new bundles, of old users, and all."""
    pairs, scorer = dataset.pairs(split), ByNumber(artifact, dataset)
    old_users, old_bundles = (np.array(nodes.ids, np.int64) for nodes in (old.users, old.bundles))
    new_user, new_bundle = ~np.isin(pairs[:, 0], old_users), ~np.isin(pairs[:, 1], old_bundles)
    cells = []
    for mine in (new_user, new_bundle, ~new_user, np.ones(len(pairs), bool)):
        part = replace(dataset, **{split: pairs[mine]})
        found = evaluate(scorer, part, split=split, ks=[20])
        cells.append(f"{100 * found['recall@20']:.2f} / {100 * found['ndcg@20']:.2f}")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="trilevel")
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--grid", action="store_true")
    options = parser.parse_args()
    dataset = load(options.data)
    kept, hidden = hide(dataset, options.share, options.seed)
    train = partial(fit, model=options.model, seed=options.seed, threads=options.threads)
    before, seconds = timed(lambda: train(kept))
    print(
        f"{kept!r}\ntrained in {seconds:.0f} CPU seconds; hidden: { {name: len(table) for name, table in hidden.items()} }\n"
    )
    if options.grid:
        show_grid(before.artifact, dataset, kept, hidden)
        return
    add = partial(update, before.artifact, hidden)
    unfitted, unfitted_seconds = timed(lambda: add(steps=0))
    fitted, fitted_seconds = timed(add)
    retrained, retrained_seconds = timed(lambda: train(dataset))
    print("R@20 / NDCG@20 on test, percent\n")
    print("| | new users | new bundles | old users | all | CPU seconds | of retraining |\n" + "|---" * 7 + "|")
    for name, artifact, seconds in (
        ("nothing", before.artifact, 0.0),
        ("update without fitting", unfitted.artifact, unfitted_seconds),
        ("update", fitted.artifact, fitted_seconds),
        ("retraining", retrained.artifact, retrained_seconds),
    ):
        cells = measure(artifact, dataset, kept, "test")
        print(f"| {name} | {' | '.join(cells)} | {seconds:.1f} | {seconds / retrained_seconds:.1%} |")


def show_grid(before: Artifact, dataset: BundleDataset, kept: BundleDataset, hidden: dict[str, pl.DataFrame]) -> None:
    """Print R@20 and NDCG@20 on validation by steps and learning rate of the fit."""
    print("R@20 / NDCG@20 on validation, percent\n")
    print("| steps | learning rate | new users | new bundles | old users | all |\n" + "|---" * 6 + "|")
    for steps, rate in [(0, 0.0), *GRID]:
        updated = update(before, hidden, steps=steps, learning_rate=rate)
        cells = measure(updated.artifact, dataset, kept, "validation")
        print(f"| {steps} | {rate} | {' | '.join(cells)} |", flush=True)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a call and its CPU seconds, which other load on the machine does not change."""
    start = process_time()
    result = work()
    return result, process_time() - start


if __name__ == "__main__":
    main()
