from collections.abc import Callable

import numpy as np
import pytest
import torch

from clbr import EASE, BundleDataset, EASEConfig, Popularity, World, evaluate
from clbr.config import Config
from clbr.evaluation.floors import FLOORS
from clbr.models.base import Recommender
from conftest import make_dataset


def test_popularity_scores_by_training_users(small: BundleDataset) -> None:
    assert Popularity.fit(small).scores(torch.tensor([2, 0])).tolist() == [[1, 3, 1, 0]] * 2


def test_ease_solves_its_own_problem() -> None:
    """At the optimum the gradient X'(X - XW) - l2 W vanishes off the diagonal, and the diagonal is zero."""
    dataset = make_dataset()
    model = EASE.fit(dataset, EASEConfig(l2=0.7, contents=0.5))
    history, contents = np.zeros((3, 4)), np.zeros((4, 5))
    history[tuple(dataset.train.T)] = 1
    contents[tuple(dataset.bi.T)] = 1
    rows = np.concatenate([history, 0.5 * contents.T])
    weights = model.weights.double().numpy()
    gradient = rows.T @ (rows - rows @ weights) - 0.7 * weights
    np.testing.assert_allclose(gradient[~np.eye(4, dtype=bool)], 0, atol=1e-5)
    assert (np.diag(weights) == 0).all()
    np.testing.assert_allclose(model.scores(torch.tensor([2, 0])).numpy(), (history @ weights)[[2, 0]], atol=1e-6)


@pytest.mark.parametrize("name", list(FLOORS))
def test_a_floor_never_looks_at_tune_or_test_pairs(name: str, tiny: World) -> None:
    floor, config = FLOORS[name]
    dataset = tiny.dataset
    blind = BundleDataset(
        dataset.name, dataset.users, dataset.bundles, dataset.items, dataset.train, dataset.test[:1], dataset.test[1:2],
        dataset.ui, dataset.bi,
    )  # fmt: skip
    users = torch.arange(600)
    assert torch.equal(floor.fit(dataset, config).scores(users), floor.fit(blind, config).scores(users))


@pytest.mark.parametrize("name", list(FLOORS))
def test_a_floor_gives_a_float_for_every_user_and_bundle(name: str, tiny: World) -> None:
    floor, config = FLOORS[name]
    scores = floor.fit(tiny.dataset, config).scores(torch.tensor([5, 5, 599]))
    assert scores.shape == (3, 150)
    assert scores.dtype == torch.float32
    assert torch.equal(scores[0], scores[1])


def test_ease_beats_popularity_where_tastes_were_planted(tiny: World) -> None:
    results = [
        evaluate(f.fit(tiny.dataset, c), tiny.dataset, split="validation")["recall@20"] for f, c in FLOORS.values()
    ]
    assert results[1] > 1.4 * results[0]
    assert results[2] > 1.4 * results[0]


@pytest.mark.parametrize(
    ("floor", "config", "expected"),
    [
        (Popularity, None, [20.32, 11.40, 28.64, 13.60]),
        (EASE, EASEConfig(l2=500), [25.67, 15.65, 35.31, 18.30]),
        (EASE, EASEConfig(l2=200, contents=0.3), [25.82, 15.78, 34.60, 18.25]),
    ],
)
def test_on_youshu_the_floors_give_the_known_figures(
    real: Callable[[str], BundleDataset], floor: type[Recommender], config: Config | None, expected: list[float]
) -> None:
    dataset = real("Youshu")
    result = evaluate(floor.fit(dataset, config), dataset, split="test")
    found = [100 * result[metric] for metric in ("recall@20", "ndcg@20", "recall@40", "ndcg@40")]
    assert found == pytest.approx(expected, abs=0.05)
