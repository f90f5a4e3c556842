import json
from pathlib import Path

import numpy as np

from clbr import World
from clbr.training.batches import HardNegatives
from clbr.training.config import compose
from clbr.training.run import start


def overlap(tiny: World) -> tuple[np.ndarray, np.ndarray]:
    has, holds = np.zeros((600, 240)), np.zeros((150, 240))
    has[tuple(tiny.dataset.ui.T)] = 1
    holds[tuple(tiny.dataset.bi.T)] = 1
    return has @ holds.T, holds @ holds.T


def draws(tiny: World, history: float, contents: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    hard = HardNegatives(tiny.dataset, history, contents, hardest=0.1)
    pairs = tiny.dataset.train.astype(np.int64)
    return pairs[:, 0], pairs[:, 1], hard.draw(pairs[:, 0], pairs[:, 1], 4, np.random.default_rng(0))


def test_hard_negatives_are_never_positives(tiny: World) -> None:
    users, _, drawn = draws(tiny, 0.4, 0.4)
    known = {tuple(pair) for pair in tiny.dataset.train.tolist()}
    assert drawn.shape == (len(users), 4)
    assert not any(
        (user, bundle) in known for user, row in zip(users.tolist(), drawn.tolist(), strict=True) for bundle in row
    )


def test_hard_by_history_overlap_with_the_user_and_hard_by_contents_with_the_positive(tiny: World) -> None:
    by_user, by_bundle = overlap(tiny)
    means = {}
    for name, shares in {"uniform": (0.0, 0.0), "history": (1.0, 0.0), "contents": (0.0, 1.0)}.items():
        users, positives, drawn = draws(tiny, *shares)
        means[name] = (by_user[users[:, None], drawn].mean(), by_bundle[positives[:, None], drawn].mean())
    assert means["history"][0] > 2 * means["uniform"][0]
    assert means["contents"][1] > 3 * means["uniform"][1]


def test_a_second_stage_with_hard_negatives_trains(tiny: World, tmp_path: Path) -> None:
    losses = {}
    for name, changes in {"uniform": {}, "hard": {"hard_from": 4}}.items():
        settings = {"epochs": 8, "batch_size": 256, "learning_rate": 0.01} | changes
        counters = start(tmp_path / name, compose("", "bgcn", changes=settings), tiny.dataset)
        assert counters.best > 0.4
        lines = map(json.loads, (tmp_path / name / "metrics.jsonl").read_text().splitlines())
        losses[name] = [line["losses"]["bpr"] for line in lines]
    assert losses["hard"][:3] == losses["uniform"][:3]
    assert losses["hard"][3] > losses["uniform"][3]
