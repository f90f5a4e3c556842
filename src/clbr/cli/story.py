"""Texts of the demo: one customer's recommendations, a what-if, and a customer who came after training."""

import time
from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from clbr.data.dataset import Nodes
from clbr.data.pairs import Pairs, neighbours
from clbr.evaluation.ranking import rank
from clbr.graph.edits import EdgeEdits
from clbr.inference.answers import WhatIf
from clbr.inference.recommender import Recommender
from clbr.models.base import Scorer
from clbr.simulation.world import World

HAS, LACKS = "keyboard", "mouse"
K = 5


def customer_story(world: World, scorers: Mapping[str, Scorer], k: int = 4) -> str:
    """One user: the history, what each model recommends, what the user chose and would choose."""
    dataset = world.dataset
    user = _user_with_clear_taste(world)
    chosen = _right_nodes(dataset.test, user)
    lines = [
        ("has bought", _labels(dataset.items, _right_nodes(dataset.ui, user)[:k]) + ", ..."),
        ("has the bundles", _labels(dataset.bundles, _right_nodes(dataset.train, user)[:k])),
    ]
    for name, scorer in scorers.items():
        offered = rank(scorer, np.array([user]), k, exclude=dataset.train)[0]
        found = sum(bundle in chosen for bundle in offered)
        lines.append((f"is offered by {name}", f"{_labels(dataset.bundles, offered)} ({found} of {k} right)"))
    truth = world.choices(np.array([user]), k)[0]
    lines += [
        ("chose in the test", _labels(dataset.bundles, chosen)),
        ("would choose next", f"{_labels(dataset.bundles, truth)} (the truth, if shown everything)"),
    ]
    width = max(len(what) for what, _ in lines)
    return "\n".join([f"Customer {dataset.users.label(user)}", *(f"  {what:{width}}  {text}" for what, text in lines)])


def _user_with_clear_taste(world: World) -> int:
    """Of the users with three test pairs or more, the one with the strongest interest in one theme."""
    tested = np.bincount(world.dataset.test[:, 0], minlength=len(world.dataset.users)) >= 3
    return int(np.where(tested, world.shown["ub"].interest.max(axis=1), -1).argmax())


def whatif_story(recommender: Recommender, world: World) -> str:
    """Someone bought one item and not the one that goes with it: what if both had been bought?"""
    dataset = world.dataset
    names = [dataset.items.label(item) for item in range(len(dataset.items))]
    has, lacks = names.index(HAS), names.index(LACKS)
    user = next(
        int(user)
        for user in np.setdiff1d(dataset.ui[dataset.ui[:, 1] == has, 0], dataset.ui[dataset.ui[:, 1] == lacks, 0])
        if len(neighbours(dataset.train, int(user)))
    )
    answer = recommender.whatif(dataset.users.id(user), add_items=[dataset.items.id(lacks)], k=K)
    lines = [
        f"What if? Customer {answer.user.label} bought the {HAS} and not the {LACKS}. With both, the first {K} are",
        f"  {', '.join(bundle.label for bundle in answer.after)}",
        *_moves(answer),
        _truth(world, answer, user, lacks),
    ]
    return "\n".join(lines)


def update_story(recommender: Recommender) -> str:
    """A customer who came after training: added without retraining, in how many seconds, and offered what."""
    items, new = recommender.artifact.items, len(recommender.artifact.users)
    bought = pl.DataFrame({"user": [new, new], "item": [items.index(HAS), items.index(LACKS)]})
    start = time.perf_counter()
    updated = recommender.update(user_item=bought)
    seconds = time.perf_counter() - start
    offered = updated.recommend_one(new, k=K).recommended
    return (
        f"New data without retraining: customer {new} is new and bought the {HAS} and the {LACKS}. After an update, "
        f"which took {1000 * seconds:.0f} ms, the first {K} are\n  {', '.join(bundle.label for bundle in offered)}"
    )


def _moves(answer: WhatIf) -> list[str]:
    lines = []
    for move in answer.moves:
        if move.rank_before is None:
            lines.append(f"  {move.label} is new, at rank {move.rank_after}")
        elif move.rank_after is None:
            lines.append(f"  {move.label}, at rank {move.rank_before} before, is gone")
        elif move.rank_before != move.rank_after:
            lines.append(f"  {move.label} goes from rank {move.rank_before} to {move.rank_after}")
    return lines or ["  and that is the list as it was: one item more does not change it"]


def _truth(world: World, answer: WhatIf, user: int, item: int) -> str:
    """Of the bundles whose score rises, how many are truly wanted more."""
    bundles = world.dataset.bundles
    pairs = np.array([(user, bundle) for bundle in range(len(bundles))], np.int32)
    edits = EdgeEdits(add={"ui": np.array([(user, item)], np.int32)})
    gain = world.preference("ub", pairs, edits) - world.preference("ub", pairs)
    rising = [bundles.index(move.id) for move in answer.moves if move.score_after > move.score_before]
    right = sum(gain[bundle] > np.median(gain) for bundle in rising)
    return (
        f"In truth, which is known here, {right} of the {len(rising)} bundles among these whose score rises gain more "
        "than the median bundle."
    )


def _right_nodes(pairs: Pairs, left: int) -> list[int]:
    return [int(right) for right in pairs[pairs[:, 0] == left, 1]]


def _labels(nodes: Nodes, indices: Iterable[int]) -> str:
    return ", ".join(nodes.label(int(index)) for index in indices if index >= 0)
