import numpy as np
import torch

from clbr import EdgeEdits, World
from clbr.graph.graph import BundleGraph, Edges
from clbr.graph.operators import Product
from clbr.models.layers import directed_edge_dropout
from clbr.rng import torch_generator
from conftest import make_dataset


def dense(operator: object, width: int) -> torch.Tensor:
    return operator @ torch.eye(width)  # type: ignore[operator]


def test_the_graph_holds_training_pairs_and_never_validation_or_test_pairs() -> None:
    dataset = make_dataset()
    assert BundleGraph.of(dataset).ub.pairs.tolist() == dataset.train.tolist()


def test_normalised_operators_equal_the_values_computed_by_hand() -> None:
    """Users 0, 1, 2 have bundles {0, 1}, {1}, {1, 2}; bundle 3 has no user."""
    ub = BundleGraph.of(make_dataset()).ub
    assert dense(ub.mean, 4).tolist() == [[0.5, 0.5, 0, 0], [0, 1, 0, 0], [0, 0.5, 0.5, 0]]
    third = 1 / 3
    expected = [[1, 0, 0], [third, third, third], [0, 0, 1], [0, 0, 0]]
    torch.testing.assert_close(dense(ub.back_mean, 3), torch.tensor(expected))
    half, sixth = 0.5**0.5, (1 / 6) ** 0.5
    expected = [[half, sixth, 0, 0], [0, third**0.5, 0, 0], [0, sixth, half, 0]]
    torch.testing.assert_close(dense(ub.symmetric, 4), torch.tensor(expected))
    torch.testing.assert_close(dense(ub.back_symmetric, 3), torch.tensor(expected).T)


def test_an_edited_graph_equals_a_new_one_and_shares_the_unchanged_relations(tiny: World) -> None:
    graph = BundleGraph.of(tiny.dataset)
    cached = graph.ui.symmetric
    dropped = tiny.dataset.bi[::7]
    edits = EdgeEdits(
        drop={"bi": dropped}, add={"ub": [[int(u), int(b)] for u, b in missing_pairs(tiny.dataset.train, 5)]}
    )
    edited = graph.edit(edits)
    assert edited.ui is graph.ui
    assert edited.ui.symmetric is cached
    assert len(edited.bi.pairs) == len(graph.bi.pairs) - len(dropped)
    fresh = Edges(edits.apply_to("bi", tiny.dataset.bi, (150, 240)), (150, 240))
    x = torch.randn(240, 3)
    assert torch.equal(edited.bi.mean @ x, fresh.mean @ x)
    assert len(edited.ub.pairs) == len(graph.ub.pairs) + 5
    assert len(graph.ub.pairs) == len(tiny.dataset.train)


def test_cached_operators_of_unchanged_relations_are_shared(tiny: World) -> None:
    graph = BundleGraph.of(tiny.dataset)
    item = graph.keep("item", lambda g: g.ui.symmetric, "ui")
    both = graph.keep("both", lambda g: Product(g.ub.mean, g.bi.mean), "ub", "bi")
    edited = graph.edit(EdgeEdits(drop={"bi": tiny.dataset.bi[:1]}))
    assert edited.keep("item", lambda g: g.ui.mean, "ui") is item
    assert edited.keep("both", lambda g: Product(g.ub.mean, g.bi.mean), "ub", "bi") is not both
    assert graph.keep("both", lambda g: Product(g.ub.mean, g.bi.mean), "ub", "bi") is both


def missing_pairs(pairs: np.ndarray, count: int) -> list[tuple[int, int]]:
    existing = {tuple(pair) for pair in pairs.tolist()}
    return [(u, b) for u in range(20) for b in range(20) if (u, b) not in existing][:count]


def test_edges_without_some_pairs_act_like_the_remaining_edges(tiny: World) -> None:
    ub = BundleGraph.of(tiny.dataset).ub
    removed = torch.from_numpy(tiny.dataset.train[::3].astype(np.int64))
    no_edge = torch.tensor([missing_pairs(tiny.dataset.train, 1)[0]])
    wanted = torch.cat([removed, no_edge])
    rest = np.delete(tiny.dataset.train, np.s_[::3], axis=0)
    x = torch.randn(150, 4)
    torch.testing.assert_close(ub.without(wanted[:, 0], wanted[:, 1]).mean @ x, Edges(rest, ub.shape).mean @ x)


def test_edge_dropout_drops_each_direction_independently_and_normalises_the_rest(tiny: World) -> None:
    edges = BundleGraph.of(tiny.dataset).ui
    dropped = directed_edge_dropout(edges, 0.25, torch_generator(0, "x"))
    forward, back = dense(dropped.symmetric, 240), dense(dropped.back_symmetric, 600)
    share_forward, share_back = (forward > 0).sum() / len(edges.pairs), (back > 0).sum() / len(edges.pairs)
    assert abs(share_forward - 0.75) < 0.02
    assert abs(share_back - 0.75) < 0.02
    both = ((forward > 0) & (back.T > 0)).sum() / len(edges.pairs)
    assert abs(both - 0.75**2) < 0.02
    left = (forward > 0).sum(1, keepdim=True).clamp(min=1)
    right = (forward > 0).sum(0, keepdim=True).clamp(min=1)
    torch.testing.assert_close(forward, (forward > 0) / (left * right) ** 0.5)
