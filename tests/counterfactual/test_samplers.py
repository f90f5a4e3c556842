"""What every sampler guarantees, and what each sampler selects."""

from collections.abc import Callable
from dataclasses import replace
from math import floor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clbr import World
from clbr.counterfactual import samplers
from clbr.counterfactual.candidates import AcceptedPairs, CandidatePairs, EditCollector
from clbr.counterfactual.samplers import Casr, EdgeDropout, Heuristic, Sampler, ScoredSampler, Stochastic
from clbr.data.pairs import Pairs, Relation, sorted_pairs
from clbr.errors import InputError
from clbr.graph import kernels
from clbr.graph.edits import RELATIONS
from clbr.graph.graph import BundleGraph, Edges
from clbr.models.embeddings import Embeddings, Level

RATIOS: dict[Relation, float] = {"ub": 0.2, "ui": 0.1, "bi": 0.3}
HALF: dict[Relation, float] = {"ub": 0.5, "ui": 0.5, "bi": 0.5}
KINDS: dict[str, Callable[[BundleGraph, Embeddings], Sampler]] = {
    "stochastic": lambda graph, _: Stochastic(graph, HALF),
    "dropout": lambda graph, _: EdgeDropout(graph),
    "heuristic": lambda graph, embeddings: Heuristic(graph, embeddings, batch=16),
    "literal": lambda graph, embeddings: Heuristic(graph, embeddings, batch=16, literal=True),
    "casr": lambda graph, embeddings: Casr(graph, embeddings, batch=16, confident=0.5),
}


def random_graph(seed: int) -> BundleGraph:
    rng = np.random.default_rng(seed)
    users, bundles, items = (int(x) for x in rng.integers(6, 30, 3))

    def edges(rows: int, columns: int) -> Edges:
        some = rng.choice(rows * columns, max(1, rows * columns // 5), replace=False)
        return Edges(sorted_pairs(np.stack(np.divmod(some, columns), 1).astype(np.int32)), (rows, columns))

    return BundleGraph(edges(users, bundles), edges(users, items), edges(bundles, items))


def random_vectors(graph: BundleGraph, seed: int) -> Embeddings:
    draw = torch.Generator().manual_seed(seed)
    sizes = (graph.users, graph.bundles, graph.items)
    item, bundle = ([torch.randn(size, 4, generator=draw) for size in sizes] for _ in range(2))
    return Embeddings({"item": Level(*item), "bundle": Level(*bundle[:2])})


def codes(pairs: Pairs, edges: Edges) -> list[int]:
    return (pairs[:, 0].astype(np.int64) * edges.shape[1] + pairs[:, 1]).tolist()


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 50), share=st.floats(0, 0.4), unedited=st.sampled_from(RELATIONS))
def test_every_sampler_draws_exactly_the_requested_number_of_valid_distinct_edits(
    kind: str, seed: int, share: float, unedited: Relation
) -> None:
    graph = random_graph(seed)
    sampler = KINDS[kind](graph, random_vectors(graph, seed))
    one, other = (relation for relation in RELATIONS if relation != unedited)
    ratios: dict[Relation, float] = {"ub": share} if kind == "casr" else {one: share, other: share / 2}
    edits, record = sampler.draw(ratios, np.random.default_rng(seed))
    again, _ = KINDS[kind](graph, random_vectors(graph, seed)).draw(ratios, np.random.default_rng(seed))
    for relation, ratio in ratios.items():
        edges = graph.edges(relation)
        before = set(codes(edges.pairs, edges))
        none = np.empty((0, 2), np.int32)
        added, dropped = (codes(side.get(relation, none), edges) for side in (edits.add, edits.drop))
        assert len(added) + len(dropped) == floor(round(ratio * len(before), 6))
        assert len(set(added)) == len(added) and len(set(dropped)) == len(dropped)
        assert not before & set(added)
        assert set(dropped) <= before
        assert record.get(relation, {"added": 0})["added"] == len(added)
        for side, other in ((edits.add, again.add), (edits.drop, again.drop)):
            assert side.get(relation, none).tolist() == other.get(relation, none).tolist()
    view = edits.apply(graph)
    for relation in RELATIONS:
        assert edits.touches(relation) == bool(
            floor(round(ratios.get(relation, 0) * len(graph.edges(relation).pairs), 6))
        )
        assert edits.touches(relation) or view.edges(relation) is graph.edges(relation)


@pytest.mark.parametrize("kind", ["heuristic", "literal", "casr"])
@given(seed=st.integers(0, 50), share=st.floats(0.5, 0.99))
def test_the_number_of_edits_is_reached_exactly_or_an_error_is_raised_in_bounded_time(
    kind: str, seed: int, share: float
) -> None:
    graph = random_graph(seed)
    sampler, evaluated = KINDS[kind](graph, random_vectors(graph, seed)), 0
    assert isinstance(sampler, ScoredSampler)
    evaluate, count = sampler.evaluate_candidates, floor(round(share * len(graph.ub.pairs), 6))

    def counting(relation: Relation, batches: int, rng: np.random.Generator) -> tuple[AcceptedPairs, AcceptedPairs]:
        nonlocal evaluated
        evaluated += batches
        return evaluate(relation, batches, rng)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samplers, "MAX_PAIRS_WITHOUT_EDIT", 1 << 12)
        patch.setattr(sampler, "evaluate_candidates", counting)
        try:
            edits, _ = sampler.draw({"ub": share}, np.random.default_rng(seed))
        except InputError as error:
            assert "too few pairs pass" in str(error)
        else:
            assert sum(len(side["ub"]) for side in (edits.add, edits.drop)) == count
    assert evaluated <= samplers.MAX_BATCHES_PER_EDIT * count + (1 << 12) // 16 + samplers.ROUND_PAIRS // 16 + 1


def test_samplers_never_use_a_validation_or_test_pair(tiny: World) -> None:
    train_only = replace(tiny.dataset, validation=tiny.dataset.validation[:0], test=tiny.dataset.test[:0])
    for make in KINDS.values():
        drawn = []
        for dataset in (tiny.dataset, train_only):
            graph = BundleGraph.of(dataset)
            drawn.append(make(graph, random_vectors(graph, 0)).draw({"ub": 0.1}, np.random.default_rng(0))[0])
        for side in ("add", "drop"):
            one, other = (getattr(edits, side)["ub"].tolist() for edits in drawn)
            assert one == other


def test_different_seeds_give_different_edits(tiny: World) -> None:
    graph = BundleGraph.of(tiny.dataset)
    sampler = Heuristic(graph, random_vectors(graph, 0))
    one, other = (sampler.draw(RATIOS, np.random.default_rng(seed))[0] for seed in (0, 1))
    assert one.add["ub"].tolist() != other.add["ub"].tolist()


@pytest.mark.parametrize("ratio", [-0.1, 1.0, float("nan")])
def test_a_ratio_out_of_range_is_an_error(ratio: float) -> None:
    with pytest.raises(InputError, match="ratio of ub = .*: expected at least 0 and less than 1"):
        EdgeDropout(random_graph(0)).draw({"ub": ratio}, np.random.default_rng(0))


def scored(values: list[list[float]], edges: list[tuple[int, int]]) -> tuple[BundleGraph, Embeddings]:
    """A graph, and vectors that give its user-bundle pairs these scores."""
    table = torch.tensor(values)
    ub = Edges(sorted_pairs(np.array(edges, np.int32)), (table.shape[0], table.shape[1]))
    nothing = np.empty((0, 2), np.int32)
    graph = BundleGraph(ub, Edges(nothing, (len(table), 1)), Edges(nothing, (table.shape[1], 1)))
    return graph, Embeddings({"only": Level(table, torch.eye(table.shape[1]))})


def test_the_heuristic_adds_near_the_best_and_drops_near_the_worst() -> None:
    """Unconnected scores 10, 9, 7, 1: only above 0.8 * 10. Edges 5, 2.3, 2: only up to 1.2 * 2."""
    graph, vectors = scored([[10, 9, 7, 1], [5, 2.3, 2, 5]], [(1, 0), (1, 1), (1, 2), (1, 3)])
    sampler = Heuristic(graph, vectors, batch=64)
    edits, record = sampler.draw({"ub": 0.99}, np.random.default_rng(0))
    edited = {tuple(x) for x in edits.add["ub"].tolist()} | {tuple(x) for x in edits.drop["ub"].tolist()}
    assert edited <= {(0, 0), (0, 1), (1, 1), (1, 2)} and len(edited) == 3
    assert record["ub"]["pass rate of additions"] == pytest.approx(0.5, abs=0.05)  # two of the four unconnected
    assert record["ub"]["pass rate of drops"] == pytest.approx(0.5, abs=0.05)


def test_pass_rates_are_shares_of_the_candidates() -> None:
    """Three of four pairs are edges and all scores are equal: the unconnected pair always passes, literal or not."""
    graph, vectors = scored([[1.0, 1.0], [1.0, 1.0]], [(0, 0), (0, 1), (1, 0)])
    for literal in (False, True):
        _, record = Heuristic(graph, vectors, 64, literal=literal).draw({"ub": 0.4}, np.random.default_rng(0))
        assert record["ub"]["pass rate of additions"] == record["ub"]["pass rate of drops"] == 1
    _, record = Casr(graph, vectors, 64, confident=1.0).draw({"ub": 0.4}, np.random.default_rng(0))
    assert "pass rate of additions" in record["ub"] and "pass rate of drops" not in record["ub"]


def test_thresholds_are_tight_for_negative_scores_too() -> None:
    sampler = Heuristic(*scored([[1.0]], [(0, 0)]))
    assert sampler.addition_threshold(np.array([10, -10], np.float32)).tolist() == pytest.approx([8, -12])
    assert sampler.drop_threshold(np.array([10, -10], np.float32)).tolist() == pytest.approx([12, -8])


@pytest.mark.parametrize("kind", ["heuristic", "literal", "casr"])
def test_a_sampler_that_cannot_find_enough_edits_stops_with_an_error(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pair scores far above all others and one edge far below: at most two edits can be found."""
    monkeypatch.setattr(samplers, "MAX_PAIRS_WITHOUT_EDIT", 1 << 14)
    values = [[1.0, 1.0, 1.0, 1000.0], [9.0, 9.0, 1.0, 9.0]]
    graph, vectors = scored(values, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)])
    if kind != "casr":
        vectors.levels["only"].users[0, :3] = 9.0
    with pytest.raises(InputError, match=r"ub: too few pairs pass in batches of 64 .* gave \d of 6 edits"):
        sampler = (
            Casr(graph, vectors, 64) if kind == "casr" else Heuristic(graph, vectors, 64, literal=kind == "literal")
        )
        sampler.draw({"ub": 0.9}, np.random.default_rng(0))


def test_more_additions_than_unconnected_pairs_are_an_error() -> None:
    graph, _ = scored([[0.0, 0.0]], [(0, 0), (0, 1)])
    with pytest.raises(InputError, match="ub: 1 pairs to add, but only 0 are unconnected"):
        Stochastic(graph, {"ub": 1.0}).draw({"ub": 0.5}, np.random.default_rng(0))


def test_casr_edits_user_bundle_pairs_only() -> None:
    graph = random_graph(0)
    with pytest.raises(InputError, match="ui: casr edits user-bundle pairs only"):
        Casr(graph, random_vectors(graph, 0)).draw({"ui": 0.1}, np.random.default_rng(0))


def test_casr_adds_only_pairs_within_the_top_share_of_the_user() -> None:
    graph = random_graph(3)
    vectors = random_vectors(graph, 3)
    edits, _ = Casr(graph, vectors, batch=16, confident=0.25).draw({"ub": 0.1}, np.random.default_rng(0))
    scores = vectors.joined("users") @ vectors.joined("bundles").T
    for user, bundle in edits.add["ub"]:
        above = int((scores[user] > scores[user, bundle]).sum())
        assert above < max(1, round(0.25 * graph.bundles))


def test_a_relation_that_the_selection_model_has_no_vectors_for_is_an_error() -> None:
    graph = random_graph(0)
    vectors = Embeddings({"only": Level(torch.randn(graph.users, 2), torch.randn(graph.bundles, 2))})
    with pytest.raises(InputError, match="ui: the selection model cannot score these pairs; set ratio_ui to 0"):
        Heuristic(graph, vectors).draw({"ui": 0.1}, np.random.default_rng(0))


def test_unconnected_pairs_are_all_equally_likely() -> None:
    graph = random_graph(1)
    pairs, rng, seen = CandidatePairs(graph, "ub"), np.random.default_rng(0), np.zeros(graph.users * graph.bundles)
    for _ in range(2000):
        seen[pairs.draw_unconnected(5, rng)] += 1
    assert not seen[pairs.edges].any()
    rest = np.delete(seen, pairs.edges)
    assert rest.min() > 0 and rest.std() == pytest.approx(np.sqrt(rest.mean()), rel=0.25)  # as for random counts


def test_unconnected_pairs_of_a_node_are_all_equally_likely() -> None:
    edges = Edges(np.array([[0, 1], [1, 0], [1, 1], [1, 3]], np.int32), (3, 4))
    pairs = CandidatePairs(BundleGraph(edges, edges, edges), "ub")
    drawn = pairs.draw_unconnected_of(np.repeat([0, 1, 2], 3000), np.random.default_rng(0))
    seen = np.bincount(drawn, minlength=12).reshape(3, 4)
    unconnected = np.array([[1, 0, 1, 1], [0, 0, 1, 0], [1, 1, 1, 1]])
    np.testing.assert_allclose(seen, unconnected * 3000 / unconnected.sum(1, keepdims=True), atol=120)


def test_casr_compares_with_bundles_that_the_user_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(3)
    sampler, compared = Casr(graph, random_vectors(graph, 3), batch=64, confident=1.0), []
    score = sampler.pair_scores
    monkeypatch.setattr(
        sampler, "pair_scores", lambda relation, pairs: compared.append(pairs) or score(relation, pairs)
    )
    sampler.evaluate_candidates("ub", 20, np.random.default_rng(0))
    owned = set(codes(graph.ub.pairs, graph.ub))
    assert len(compared[0]) > 500 and not owned & set(codes(compared[0], graph.ub))


def test_pairs_in_batches_are_all_equally_likely_and_have_the_right_scores() -> None:
    graph = random_graph(2)
    vectors = random_vectors(graph, 2)
    sampler, seen = Heuristic(graph, vectors, batch=16), np.zeros(graph.users * graph.bundles)
    scores = (vectors.joined("users") @ vectors.joined("bundles").T).flatten().numpy()
    for seed in range(50):
        drawn, found, are_edges = sampler.draw_batches("ub", 64, np.random.default_rng(seed))
        np.testing.assert_allclose(found, scores[drawn], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(are_edges, np.isin(drawn, sampler.candidates["ub"].edges))
        seen += np.bincount(drawn.ravel(), minlength=len(seen))
    by_user = seen.reshape(graph.users, graph.bundles).sum(1)
    assert by_user.max() / by_user.min() < 1.6
    assert seen.min() > 0


def test_pair_scores_without_compiled_kernels_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(2)
    sampler = Heuristic(graph, random_vectors(graph, 2))
    compiled = sampler.pair_scores("ub", graph.ub.pairs)
    monkeypatch.setattr(kernels, "available", False)
    np.testing.assert_allclose(compiled, sampler.pair_scores("ub", graph.ub.pairs), rtol=1e-5, atol=1e-5)


def accepted(*batches: list[int]) -> AcceptedPairs:
    """Codes that were accepted in successive batches."""
    sizes = [len(batch) for batch in batches]
    return AcceptedPairs(np.concatenate(batches).astype(np.int64), np.repeat(np.arange(len(batches)), sizes), 10)


def test_the_collector_takes_new_pairs_batch_by_batch_with_additions_before_drops() -> None:
    collector, rng = EditCollector(4), np.random.default_rng(0)
    collector.collect(accepted([1], [1, 2]), accepted([7], [8, 9]), rng)
    assert collector.complete and collector.size == 4
    found = collector.result(batch_size=5)
    assert sorted(found.add) == [1, 2]
    assert 7 in found.drop and len(set(found.drop) & {8, 9}) == 1  # a random one of the last batch
    assert found.record == {"batch": 5, "pass rate of additions": 0.3, "pass rate of drops": 0.3}


def test_the_collector_never_takes_a_pair_twice() -> None:
    collector, rng = EditCollector(3), np.random.default_rng(0)
    for _ in range(2):
        collector.collect(accepted([1, 2]), AcceptedPairs.none(), rng)
    assert collector.size == 2 and not collector.complete
    assert "pass rate of drops" not in collector.result(2).record
