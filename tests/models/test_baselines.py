from collections.abc import Callable

import numpy as np
import pytest
import torch

from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.evaluation.protocol import evaluate
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.models.base import ClosedForm
from clbr.models.ease import EASE, EASEConfig
from clbr.models.registry import BASELINES, baseline_scorer, make_model
from clbr.simulation.world import World
from clbr.training.config import TrainConfig
from clbr.training.loop import make_optimizer, train
from conftest import make_dataset


def solved_ease(dataset: BundleDataset, **settings: float) -> EASE:
    model = make_model("ease", dict(settings), dataset)
    assert isinstance(model, EASE)
    model.solve(dataset)
    return model


def test_popularity_scores_by_training_users(small: BundleDataset) -> None:
    assert baseline_scorer("popularity", small).scores(torch.tensor([2, 0])).tolist() == [[1, 3, 1, 0]] * 2


def solved_scores(name: str, dataset: BundleDataset, **settings: float) -> list[list[float]]:
    model = make_model(name, dict(settings), dataset)
    assert isinstance(model, ClosedForm)
    model.solve(dataset)
    return model.scorer(BundleGraph.of(dataset)).scores(torch.tensor([0, 1, 2])).tolist()


def test_overlap_is_the_weighted_share_of_items_that_a_user_has(small: BundleDataset) -> None:
    """idf^2 is q = ln(2)^2 for item 1, in two of four bundles, and 4 q for the others, so the bundles' lengths are 5 q,
    q, 4 q and 8 q. With history 0.5 user 0 has items 0, 1, 4 with 1.5, 1, 1; user 1 has item 1 with 1.5; user 2 has
    items 1, 2 with 0.5, 1.5.
    """
    found = solved_scores("overlap", small, length=1.0, history=0.5)
    expected = [[7 / 5, 1, 0, 4 / 8], [1.5 / 5, 1.5, 0, 0], [0.5 / 5, 0.5, 6 / 4, 0]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    q = np.log(2) ** 2
    found = solved_scores("overlap", small, length=0.5, history=0.5)
    lengths = np.sqrt(q * np.array([5, 1, 4, 8]))
    np.testing.assert_allclose(found[0], q * np.array([7, 1, 0, 4]) / lengths, rtol=1e-6)
    found = solved_scores("overlap", small, length=0.0, history=0.0)
    np.testing.assert_allclose(found, q * np.array([[4, 0, 0, 4], [1, 1, 0, 0], [0, 0, 4, 0]]), rtol=1e-6)


def test_neighbours_add_the_cosines_of_bundles_and_items(small: BundleDataset) -> None:
    """Bundles 0 to 3 have 1, 3, 1, 0 users, every item one or none; c is the cosine of a single user in common."""
    c = 1 / np.sqrt(3)
    found = solved_scores("neighbours", small, penalty=0.5, items=2.0)
    expected = [[1 + c + 4, c + 1 + 4 * c, c, 0], [c, 1 + 2 * c, c, 0], [c, 1 + c + 2 * c, c + 1 + 2, 0]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    found = solved_scores("neighbours", small, penalty=0.0, items=2.0)  # shares of the users of what the user has
    np.testing.assert_allclose(found[1], [1 / 3, 1 + 2, 1 / 3, 0], rtol=1e-6)
    found = solved_scores("neighbours", small, penalty=0.0, items=0.0)
    np.testing.assert_allclose(found[1], [1 / 3, 1, 1 / 3, 0], rtol=1e-6)


def test_ease_trials_with_shared_matrices_give_the_scores_of_single_solutions(tiny: World) -> None:
    trial, users = EASE.trials(tiny.dataset), torch.arange(600)
    for settings in ({"l2": 50.0, "contents": 0.0}, {"l2": 200.0, "contents": 0.5}, {"l2": 50.0, "contents": 0.0}):
        single = solved_ease(tiny.dataset, **settings).scorer(BundleGraph.of(tiny.dataset)).scores(users)
        torch.testing.assert_close(trial(EASEConfig(**settings)).scores(users), single, rtol=1e-4, atol=1e-5)


def test_ease_solves_its_own_problem() -> None:
    """At the optimum the gradient X'(X - XW) - l2 W vanishes off the diagonal, and the diagonal is zero."""
    dataset = make_dataset()
    model = solved_ease(dataset, l2=0.7, contents=0.5)
    history, contents = np.zeros((3, 4)), np.zeros((4, 5))
    history[tuple(dataset.train.T)] = 1
    contents[tuple(dataset.bi.T)] = 1
    rows = np.concatenate([history, 0.5 * contents.T])
    weights = model.weights.double().numpy()
    gradient = rows.T @ (rows - rows @ weights) - 0.7 * weights
    np.testing.assert_allclose(gradient[~np.eye(4, dtype=bool)], 0, atol=1e-5)
    assert (np.diag(weights) == 0).all()
    scores = model.scorer(BundleGraph.of(dataset)).scores(torch.tensor([2, 0]))
    np.testing.assert_allclose(scores.numpy(), (history @ weights)[[2, 0]], atol=1e-6)


def test_ease_scores_the_history_that_the_graph_holds(small: BundleDataset) -> None:
    """User 1 has bundle 1; with bundle 2 added the weights from bundle 2 are added to all scores."""
    model, user = solved_ease(small, l2=0.7), torch.tensor([1])
    graph = BundleGraph.of(small)
    edited = graph.edit(EdgeEdits(add={"ub": np.array([[1, 2]])}))
    before, after = (model.scorer(found).scores(user)[0] for found in (graph, edited))
    torch.testing.assert_close(before, model.weights[1])
    torch.testing.assert_close(after, model.weights[1] + model.weights[2])


def test_ease_needs_memory_for_the_square_of_the_bundles() -> None:
    with pytest.raises(InputError, match=r"EASE: 10,000,000 bundles need 372529 GiB of memory"):
        EASE(EASEConfig(), 1, 10_000_000, 1)


def test_ease_with_too_small_a_penalty_says_so() -> None:
    """Two bundles with the same user: X'X has rank 1, and in float32 1 + l2 is 1."""
    dataset = make_dataset(train=np.array([[0, 0], [0, 1]]))
    with pytest.raises(InputError, match=r"EASE: l2 = 1e-12 is too small for small: .*; raise l2"):
        solved_ease(dataset, l2=1e-12)


@pytest.mark.parametrize("name", list(BASELINES))
def test_a_baseline_never_uses_validation_or_test_pairs(name: str, tiny: World) -> None:
    dataset = tiny.dataset
    blind = BundleDataset(
        dataset.name, dataset.users, dataset.bundles, dataset.items, dataset.train, dataset.test[:1], dataset.test[1:2],
        dataset.ui, dataset.bi,
    )  # fmt: skip
    users = torch.arange(600)
    assert torch.equal(baseline_scorer(name, dataset).scores(users), baseline_scorer(name, blind).scores(users))


@pytest.mark.parametrize("name", list(BASELINES))
def test_a_baseline_gives_a_float_for_every_user_and_bundle(name: str, tiny: World) -> None:
    scores = baseline_scorer(name, tiny.dataset).scores(torch.tensor([5, 5, 599]))
    assert scores.shape == (3, 150)
    assert scores.dtype == torch.float32
    assert torch.equal(scores[0], scores[1])


@pytest.mark.parametrize("name", list(BASELINES))
def test_training_a_baseline_by_name_gives_the_scores_of_the_baseline(name: str, tiny: World) -> None:
    dataset, config, users = tiny.dataset, TrainConfig(epochs=3), torch.arange(600)
    model = make_model(BASELINES[name].model, BASELINES[name].settings, dataset)
    list(train(model, make_optimizer(model, config), dataset, config, seed=0))
    scores = model.scorer(BundleGraph.of(dataset)).scores(users)
    assert torch.equal(scores, baseline_scorer(name, dataset).scores(users))


def test_an_unknown_baseline_is_rejected_with_a_hint(small: BundleDataset) -> None:
    with pytest.raises(
        InputError,
        match="unknown baseline 'ease', known: EASE, EASE with contents, content overlap, neighbours, popularity",
    ):
        baseline_scorer("ease", small)


def test_every_baseline_beats_popularity_where_tastes_were_planted(tiny: World) -> None:
    found = {
        name: evaluate(baseline_scorer(name, tiny.dataset), tiny.dataset, split="validation")["recall@20"]
        for name in BASELINES
    }
    factors = {"content overlap": 1.3, "neighbours": 1.6, "EASE": 1.4, "EASE with contents": 1.4}
    for name, factor in factors.items():
        assert found[name] > factor * found["popularity"], name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("popularity", [20.32, 11.40, 28.61, 13.60]),
        ("content overlap", [8.46, 4.19, 12.84, 5.38]),
        ("neighbours", [26.58, 15.63, 36.33, 18.28]),
        ("EASE", [25.67, 15.65, 35.31, 18.30]),
        ("EASE with contents", [25.82, 15.78, 34.60, 18.25]),
    ],
)
def test_on_youshu_the_baselines_give_the_known_figures(
    real: Callable[[str], BundleDataset], name: str, expected: list[float]
) -> None:
    dataset = real("Youshu")
    result = evaluate(baseline_scorer(name, dataset), dataset, split="test")
    found = [100 * result[metric] for metric in ("recall@20", "ndcg@20", "recall@40", "ndcg@40")]
    assert found == pytest.approx(expected, rel=0, abs=0.005)
