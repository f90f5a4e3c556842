"""Eta computed by hand on a small graph and by a slow count on a world; pass rates of hidden edges."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from clbr import BundleDataset, World
from clbr.counterfactual import noise as noise_module
from clbr.counterfactual.noise import bound_factor, hide, noise, pass_rates, wilson
from clbr.counterfactual.samplers import Heuristic, Stochastic
from clbr.data.pairs import Pairs, Relation
from clbr.errors import InputError
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph, Edges
from clbr.models.embeddings import Embeddings, Level


class Table:
    """True preferences from a table."""

    def __init__(self, values: list[list[float]]) -> None:
        self.values = np.array(values, np.float32)

    def preference(self, relation: Relation, pairs: Pairs) -> NDArray[np.float32]:
        assert relation == "ub"
        return np.asarray(self.values[pairs[:, 0], pairs[:, 1]])


def user_bundle_graph(edges: list[tuple[int, int]], shape: tuple[int, int]) -> BundleGraph:
    none = np.empty((0, 2), np.int32)
    ub = Edges(np.array(sorted(edges), np.int32).reshape(-1, 2), shape)
    return BundleGraph(ub, Edges(none, (shape[0], 1)), Edges(none, (shape[1], 1)))


TRUTH = Table([[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1], [1, 2, 3, 4, 5, 6]])
GRAPH = user_bundle_graph([(0, 0), (0, 4), (0, 5), (1, 0)], (3, 6))
# Unconnected: user 0 has 2, 3, 4 (median 3), user 1 has 5, 4, 3, 2, 1 (median 3), user 2 has 1 to 6 (median 3.5).
# Edges: user 0 has 1, 5, 6 (median 5), user 1 has 6 alone (its own median).


def test_eta_equals_the_value_computed_by_hand() -> None:
    one = EdgeEdits(add={"ub": [[0, 1], [0, 3], [2, 2]]}, drop={"ub": [[0, 5]]})  # 2 < 3, 4 > 3, 3 < 3.5; 6 > 5
    other = EdgeEdits(add={"ub": [[1, 3], [2, 3]]}, drop={"ub": [[0, 0], [1, 0]]})  # 3 = 3, 4 > 3.5; 1 < 5, 6 = 6
    found = noise(TRUTH, GRAPH, [one, other], np.random.default_rng(0))
    assert list(found) == ["ub"]
    additions, drops, both = (found["ub"][kind] for kind in ("additions", "drops", "all"))
    assert (additions.contradictions, additions.edits) == (2, 5)
    assert (drops.contradictions, drops.edits) == (1, 3)
    assert (both.contradictions, both.edits, both.eta) == (3, 8, 3 / 8)
    assert (both.low, both.high) == wilson(3, 8)
    assert drops.random_eta == 1 / 4  # of all four edges only (0, 5) is above its median
    assert both.random_eta == pytest.approx((5 * 0.5 + 3 * 0.25) / 8)


def test_a_pair_that_two_views_edit_counts_twice_but_narrows_the_interval_once() -> None:
    view = EdgeEdits(add={"ub": [[0, 1], [0, 3]]})
    twice = noise(TRUTH, GRAPH, [view, view], np.random.default_rng(0))["ub"]
    assert set(twice) == {"additions", "all"}
    assert (twice["all"].contradictions, twice["all"].edits) == (2, 4)
    assert (twice["all"].low, twice["all"].high) == wilson(1, 2)


def test_views_without_edits_have_no_noise_and_views_of_another_graph_are_an_error() -> None:
    assert noise(TRUTH, GRAPH, [EdgeEdits()], np.random.default_rng(0)) == {}
    with pytest.raises(InputError, match=r"the pair \(0, 0\) exists and cannot be added"):
        noise(TRUTH, GRAPH, [EdgeEdits(add={"ub": [[0, 0]]})], np.random.default_rng(0))


def slow_eta(world: World, graph: BundleGraph, relation: Relation, view: EdgeEdits) -> tuple[int, int]:
    """Count the additions and drops that contradict preference, one left node at a time, over all pairs."""
    edges, contradictions = graph.edges(relation), [0, 0]
    for left in range(edges.shape[0]):
        row = np.stack([np.full(edges.shape[1], left), np.arange(edges.shape[1])], 1).astype(np.int32)
        preferences = world.preference(relation, row).astype(float)
        is_edge = np.zeros(edges.shape[1], bool)
        is_edge[edges.pairs[edges.pairs[:, 0] == left, 1]] = True
        added, dropped = (side[relation][side[relation][:, 0] == left, 1] for side in (view.add, view.drop))
        if len(added):
            contradictions[0] += int((preferences[added] < np.median(preferences[~is_edge])).sum())
        if len(dropped):
            contradictions[1] += int((preferences[dropped] > np.median(preferences[is_edge])).sum())
    return contradictions[0], contradictions[1]


def test_eta_on_a_world_equals_a_slow_count(tiny: World, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = BundleGraph.of(tiny.dataset)
    ratios: dict[Relation, float] = {"ub": 0.2, "ui": 0.2, "bi": 0.2}
    view, _ = Stochastic(graph, dict.fromkeys(ratios, 0.5)).draw(ratios, np.random.default_rng(0))
    found = noise(tiny, graph, [view], np.random.default_rng(0))
    monkeypatch.setattr(noise_module, "MEDIAN_SAMPLE", 64)
    monkeypatch.setattr(noise_module, "BLOCK_PAIRS", 1000)
    sampled = noise(tiny, graph, [view], np.random.default_rng(0))
    for relation in ratios:
        added, dropped = slow_eta(tiny, graph, relation, view)
        assert found[relation]["additions"].contradictions == added
        assert found[relation]["drops"].contradictions == dropped == sampled[relation]["drops"].contradictions
        assert sampled[relation]["additions"].eta == pytest.approx(found[relation]["additions"].eta, abs=0.05)


def test_random_edits_have_the_expected_random_eta_and_the_most_preferred_additions_have_none(tiny: World) -> None:
    graph = BundleGraph.of(tiny.dataset)
    view, _ = Stochastic(graph, {"ub": 0.5}).draw({"ub": 0.9}, np.random.default_rng(1))
    for found in noise(tiny, graph, [view], np.random.default_rng(0))["ub"].values():
        assert found.low < found.random_eta < found.high
    shape = graph.ub.shape
    all_pairs = np.stack(np.divmod(np.arange(shape[0] * shape[1]), shape[1]), 1).astype(np.int32)
    preferences = tiny.preference("ub", all_pairs).reshape(shape)
    preferences[graph.ub.pairs[:, 0], graph.ub.pairs[:, 1]] = -np.inf
    best = EdgeEdits(add={"ub": np.stack([np.arange(shape[0]), preferences.argmax(1)], 1)})
    assert noise(tiny, graph, [best], np.random.default_rng(0))["ub"]["all"].eta == 0


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [(5, 10, 0.2366, 0.7634), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_wilsons_interval_equals_published_values(count: int, total: int, low: float, high: float) -> None:
    assert wilson(count, total) == pytest.approx((low, high), abs=5e-5)


def test_the_bound_factor_grows_with_eta_and_is_none_from_one_half() -> None:
    assert bound_factor(0.0) == 1
    assert bound_factor(0.25) == 4
    assert bound_factor(0.45) == pytest.approx(100)
    assert bound_factor(0.5) is None
    assert bound_factor(0.7) is None


def test_hidden_edges_are_a_share_of_the_training_pairs_and_the_others_remain(tiny: World) -> None:
    dataset = tiny.dataset
    reduced, hidden = hide(dataset, ["ub", "bi"], 0.1, np.random.default_rng(0))
    assert len(hidden["ub"]) == len(dataset.train) // 10
    together = np.concatenate([hidden["ub"], reduced.train])
    assert {tuple(pair) for pair in together.tolist()} == {tuple(pair) for pair in dataset.train.tolist()}
    assert len(hidden["bi"]) + len(reduced.bi) == len(dataset.bi)
    assert reduced.ui is not None and reduced.ui.tolist() == dataset.ui.tolist()
    assert reduced.test.tolist() == dataset.test.tolist()


def test_too_few_edges_to_hide_are_an_error(small: BundleDataset) -> None:
    with pytest.raises(InputError, match="ub: 10 % of 5 edges are 0: nothing to measure"):
        hide(small, ["ub"], 0.1, np.random.default_rng(0))


def test_vectors_that_know_the_hidden_edges_accept_all_and_random_vectors_accept_them_as_often_as_others(
    tiny: World,
) -> None:
    reduced, hidden = hide(tiny.dataset, ["ub"], 0.1, np.random.default_rng(0))
    graph = BundleGraph.of(reduced)
    users, bundles = graph.ub.shape
    table = torch.full((users, bundles), 0.1)
    table[hidden["ub"][:, 0], hidden["ub"][:, 1]] = 1.0
    knows = Heuristic(graph, Embeddings({"only": Level(table, torch.eye(bundles))}), batch=32)
    rates = pass_rates(knows, "ub", hidden["ub"], np.random.default_rng(0))
    assert rates.hidden.rate == 1 and rates.hidden.evaluated == len(hidden["ub"])
    assert rates.other.rate > 0.5  # in a batch without hidden edges all scores are equal, and all pass

    random = torch.rand(users, bundles, generator=torch.Generator().manual_seed(0))
    guesses = Heuristic(graph, Embeddings({"only": Level(random, torch.eye(bundles))}), batch=32)
    rates = pass_rates(guesses, "ub", hidden["ub"], np.random.default_rng(0))
    assert rates.hidden.low < rates.other.rate < rates.hidden.high
    assert rates.ratio == pytest.approx(rates.hidden.rate / rates.other.rate)


def test_no_other_pairs_to_compare_with_is_an_error() -> None:
    graph = user_bundle_graph([(0, 0)], (1, 2))
    sampler = Heuristic(graph, Embeddings({"only": Level(torch.ones(1, 2), torch.eye(2))}), batch=8)
    with pytest.raises(InputError, match="ub: all other pairs are edges"):
        pass_rates(sampler, "ub", np.array([[0, 1]], np.int32), np.random.default_rng(0))
