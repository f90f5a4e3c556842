from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clbr import World
from clbr.graph.graph import BundleGraph, Edges
from clbr.training import batches
from clbr.training.batches import Negatives, Positives, draw_nodes, view_batches

PAIRS = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1)


def array(pairs: set[tuple[int, int]]) -> np.ndarray:
    return np.array(sorted(pairs), np.int32)


@given(PAIRS)
def test_the_nth_missing_node_is_the_nth_missing_node(pairs: set[tuple[int, int]]) -> None:
    negatives = Negatives(array(pairs), (5, 7))
    for left in range(5):
        missing = [right for right in range(7) if (left, right) not in pairs]
        found = negatives.nth_missing(np.full(len(missing), left), np.arange(len(missing)))
        assert found.tolist() == missing


def test_negatives_are_never_positives_and_uniform_over_the_rest(tiny: World) -> None:
    pairs = tiny.dataset.train
    negatives = Negatives(pairs, (600, 150))
    users = np.repeat(np.arange(600), 20)
    drawn = negatives.draw(users, 10, np.random.default_rng(0))
    assert drawn.shape == (12_000, 10)
    known = {tuple(pair) for pair in pairs.tolist()}
    assert not any((user, bundle) in known for user, row in zip(users, drawn.tolist(), strict=True) for bundle in row)
    one = negatives.draw(np.full(20_000, int(pairs[0, 0])), 1, np.random.default_rng(1)).ravel()
    missing = 150 - int((pairs[:, 0] == pairs[0, 0]).sum())
    counts = np.bincount(one, minlength=150)
    assert (counts > 0).sum() == missing
    assert counts[counts > 0].std() < 2 * (20_000 / missing) ** 0.5


def test_an_epoch_holds_every_pair_once_in_another_order_each_time(tiny: World) -> None:
    positives = Positives(tiny.dataset.train, (600, 150))
    epochs = []
    for seed in (0, 0, 1):
        batches = list(positives.epoch(512, 2, np.random.default_rng(seed)))
        assert [len(batch.users) for batch in batches] == [512] * 5 + [355]
        assert batches[0].negatives.shape == (512, 2)
        epochs.append(
            [(int(u), int(b)) for batch in batches for u, b in zip(batch.users, batch.positives, strict=True)]
        )
    assert sorted(epochs[0]) == [tuple(pair) for pair in tiny.dataset.train.tolist()]
    assert epochs[0] == epochs[1]
    assert epochs[0] != epochs[2]


def test_a_user_who_has_all_bundles_is_left_out() -> None:
    pairs = np.array([[0, 0], [0, 1], [1, 0]], np.int32)
    (batch,) = Positives(pairs, (2, 2)).epoch(8, 3, np.random.default_rng(0))
    assert batch.users.tolist() == [1]
    assert batch.negatives.tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("count", [1, 4])
def test_endless_batches_continue_after_an_epoch(count: int) -> None:
    pairs = np.array([[0, 0], [1, 1]], np.int32)
    stream = Positives(pairs, (2, 3)).endless(2, count, np.random.default_rng(0))
    assert [len(next(stream).users) for _ in range(5)] == [2] * 5


def test_batches_of_a_view_are_endless_and_none_without_negatives() -> None:
    edges = Edges(np.array([[0, 0], [1, 1]], np.int32), (2, 3))
    stream = view_batches(2, 4, edges, np.random.default_rng(0))
    assert stream is not None
    assert [next(stream).negatives.shape for _ in range(3)] == [(2, 4)] * 3
    full = Edges(np.array([[0, 0], [0, 1]], np.int32), (2, 2))
    assert view_batches(2, 4, full, np.random.default_rng(0)) is None


def test_batches_can_hold_whole_users() -> None:
    pairs = np.array([[0, 1], [0, 3], [1, 2], [3, 0], [3, 1], [3, 4]], np.int32)
    positives = Positives(pairs, (4, 5))
    found = list(positives.epoch(4, 1, np.random.default_rng(0), compared=5))
    users = torch.cat([batch.users for batch in found]).tolist()
    seen = sorted(zip(users, torch.cat([batch.positives for batch in found]).tolist(), strict=True))
    assert seen == [tuple(pair) for pair in pairs.tolist()]
    assert sum(one != other for one, other in pairwise(users)) == 2  # a user's pairs are together
    for batch in found:
        assert batch.known is not None and batch.sample is None and batch.negatives.shape == (len(batch.users), 0)
        assert batch.known.tolist() == [pair for pair in pairs.tolist() if pair[0] in batch.users]
    assert next(positives.epoch(2, 1, np.random.default_rng(0))).known is None


def test_users_come_in_another_order_in_another_epoch() -> None:
    positives = Positives(np.stack([np.arange(9), np.zeros(9)], 1).astype(np.int32), (9, 2))
    orders = {
        tuple(next(positives.epoch(9, 1, np.random.default_rng(seed), compared=2)).users.tolist()) for seed in range(5)
    }
    assert len(orders) == 5


def test_bundles_to_compare_with_are_sampled_where_there_are_more() -> None:
    positives = Positives(np.array([[0, 1], [1, 2]], np.int32), (2, 50))
    samples = [batch.sample for batch in positives.epoch(1, 1, np.random.default_rng(0), compared=7)]
    assert [[len(set(part)) for part in sample.tolist()] for sample in samples if sample is not None] == [[7], [7]]
    assert all(part == sorted(part) for sample in samples if sample is not None for part in sample.tolist())


def test_a_large_batch_has_several_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "SAMPLED", 2)
    positives = Positives(np.stack([np.arange(5), np.zeros(5)], 1).astype(np.int32), (5, 50))
    (batch,) = positives.epoch(5, 1, np.random.default_rng(0), compared=7)
    assert batch.sample is not None and batch.sample.shape == (3, 7) and len({*map(tuple, batch.sample.tolist())}) == 3


def test_random_nodes_are_distinct_and_others_at_each_step(tiny: World) -> None:
    graph = BundleGraph.of(tiny.dataset)  # 600 users, 150 bundles
    drawn = draw_nodes(200, graph, np.random.default_rng(0))
    (users, bundles), second = next(drawn), next(drawn)  # type: ignore[misc]
    assert len(torch.unique(users)) == 200 and int(users.max()) < 600
    assert torch.equal(torch.unique(bundles), torch.arange(150))  # fewer than 200: all
    assert second is not None and not torch.equal(users, second.users)
    again = next(draw_nodes(200, graph, np.random.default_rng(0)))
    assert again is not None and torch.equal(users, again.users)
    assert next(draw_nodes(0, graph, np.random.default_rng(0))) is None
