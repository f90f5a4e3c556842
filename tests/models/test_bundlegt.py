import math

import numpy as np
import pytest
import torch
from torch import Tensor

from clbr import BundleDataset, Nodes, World
from clbr.data.pairs import incidence
from clbr.graph.graph import BundleGraph, Edges
from clbr.models import bundlegt
from clbr.models.bundlegt import Attention, BundleGT, Sequences
from clbr.models.embeddings import Batch, Triples
from clbr.models.registry import make_model
from clbr.rng import torch_generator
from conftest import make_dataset

# Node 2 has no neighbour, node 4 has more than the limit of most tests.
PAIRS = np.array([[0, 0], [0, 2], [1, 1], [3, 0], [3, 4], [4, 0], [4, 1], [4, 3], [4, 4]], np.int32)


def build(dataset: BundleDataset, **settings: object) -> BundleGT:
    model = make_model("bundlegt", settings, dataset, torch_generator(0, "init"))
    assert isinstance(model, BundleGT)
    return model


def identity_attention(dim: int) -> Attention:
    attention = Attention(dim, learned=False)
    with torch.no_grad():
        attention.query.copy_(torch.eye(dim))
        attention.key.copy_(torch.eye(dim))
    return attention


def attended(attention: Attention, tokens: Tensor) -> Tensor:
    """The mean of the rows of softmax(x Wq (x Wk)' / sqrt(d)) x, for one sequence."""
    logits = (tokens @ attention.query) @ (tokens @ attention.key).T / tokens.shape[1] ** 0.5
    return (logits.softmax(1) @ tokens).mean(0)


def test_attention_equals_the_value_computed_by_hand() -> None:
    """Tokens 0 and c e1 with c^2 / sqrt(4) = ln 3: the rows of weights are (1/2, 1/2) and (1/4, 3/4)."""
    c = math.sqrt(2 * math.log(3))
    x = torch.tensor([[0.0] * 4, [c, 0.0, 0.0, 0.0]])
    with torch.no_grad():
        found = identity_attention(4)(Sequences(Edges(np.array([[0, 0], [0, 1]], np.int32), (1, 2)), 9), x)
    torch.testing.assert_close(found, torch.tensor([[5 / 8 * c, 0.0, 0.0, 0.0]]))


@pytest.mark.parametrize("limit", [1, 3, 9])
@pytest.mark.parametrize("block", [1, 4, 4096])
def test_blocks_of_sequences_give_the_attention_of_each(
    block: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundlegt, "BLOCK", block)
    attention, x = Attention(3, learned=True).double(), torch.randn(5, 3, dtype=torch.float64)
    with torch.no_grad():
        for matrix in attention.parameters():
            matrix.normal_()
        found = attention(Sequences(Edges(PAIRS, (5, 5)), limit), x)
        for node in range(5):
            tokens = x[torch.from_numpy(PAIRS[PAIRS[:, 0] == node, 1][:limit]).long()]
            expected = attended(attention, tokens) if len(tokens) else torch.zeros(3, dtype=torch.float64)
            torch.testing.assert_close(found[node], expected)


def test_the_gradient_of_attention_is_right() -> None:
    attention = Attention(3, learned=True).double()
    sequences = Sequences(Edges(PAIRS, (5, 5)), 3)
    inputs = [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in ((5, 3), (3, 3), (3, 3))]

    def attend(x: Tensor, query: Tensor, key: Tensor) -> Tensor:
        out: Tensor = torch.func.functional_call(attention, {"query": query, "key": key}, (sequences, x))
        return out

    assert torch.autograd.gradcheck(attend, inputs)


def test_a_layer_equals_the_sums_computed_by_hand() -> None:
    """One user u, one bundle b, one item i, all linked: attention returns its only token, A swaps two vectors."""
    pair, none = np.array([[0, 0]]), np.empty((0, 2), np.int32)
    nodes = Nodes("user", 1), Nodes("bundle", 1), Nodes("item", 1)
    dataset = BundleDataset("one", *nodes, pair, none, none, pair, pair)
    model = build(dataset, dim=2, item_layers=1, attention_layers=1, bundle_attention=0.25, user_attention=0.5)
    with torch.no_grad():
        level = model.encode(BundleGraph.of(dataset)).levels["strategy"]
        u, b, i = model.users, model.bundles, model.items
        items = u + i + b  # user-item layers 0 and 1, and the bundle
        bundles = 0.75 * i + 0.25 * items + u
        users = 0.5 * b + 0.5 * bundles + u + i
    torch.testing.assert_close(level.items, items)
    torch.testing.assert_close(level.bundles, bundles)
    torch.testing.assert_close(level.users, users)


def test_two_layers_equal_those_of_dense_matrices() -> None:
    dataset = make_dataset()
    model, graph = build(dataset, dim=3, attention_layers=2, item_layers=2), BundleGraph.of(dataset)

    def dense(edges: Edges) -> Tensor:
        a = torch.from_numpy(incidence(edges.pairs, *edges.shape).toarray()).float()
        return a / a.sum(1, keepdim=True).sqrt().clamp(min=1e-9) / a.sum(0).sqrt().clamp(min=1e-9)

    def attend(attention: torch.nn.Module, a: Tensor, x: Tensor) -> Tensor:
        assert isinstance(attention, Attention)
        rows = [attended(attention, x[row > 0]) if row.any() else x.new_zeros(3) for row in a]
        return torch.stack(rows)

    ub, ui, bi = dense(graph.ub), dense(graph.ui), dense(graph.bi)
    with torch.no_grad():
        users, bundles, items = model.users.clone(), model.bundles.clone(), model.items.clone()
        base_users = users + ui @ items + ui @ (ui.T @ users)
        base_items = items + ui.T @ users + ui.T @ (ui @ items)
        for over_items, over_bundles in zip(model.over_items, model.over_bundles, strict=True):
            chosen, choosers, content = ub @ bundles, ub.T @ users, bi @ items
            items = base_items + bi.T @ bundles
            bundles = (content + attend(over_items, bi, items)) / 2 + choosers
            users = (chosen + attend(over_bundles, ub, bundles)) / 2 + base_users
        level = model.encode(graph).levels["strategy"]
    torch.testing.assert_close(level.users, users)
    torch.testing.assert_close(level.bundles, bundles)
    torch.testing.assert_close(level.items, items)


@pytest.mark.parametrize("learned", [False, True])
def test_queries_and_keys_are_trained_only_if_asked(learned: bool, tiny: World) -> None:
    model, graph = build(tiny.dataset, learned_attention=learned), BundleGraph.of(tiny.dataset)
    triples = Triples(torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([[4], [5]]))
    sum(model.losses(graph, Batch(triples), torch_generator(0, "noise")).values()).backward()  # type: ignore[union-attr, no-untyped-call]
    with_gradient = {name for name, values in model.named_parameters() if values.grad is not None and values.grad.any()}
    tables = {"users", "bundles", "items"}
    matrices = {name for name, _ in model.named_parameters()} - tables
    assert len(matrices) == 12  # three layers, over items and over bundles, queries and keys
    assert with_gradient == (tables | matrices if learned else tables)


def test_sequences_are_computed_again_only_for_relations_that_change(tiny: World) -> None:
    graph, model = BundleGraph.of(tiny.dataset), build(tiny.dataset)
    with torch.no_grad():
        model.encode(graph)
        edited = graph.replaced(ub=Edges(graph.ub.pairs[1:], graph.ub.shape))
        model.encode(edited)

    def kept(graph: BundleGraph, name: str) -> Sequences:
        return graph.keep(name, lambda g: Sequences(g.ui, 1))

    assert kept(edited, "contents 70") is kept(graph, "contents 70")
    assert kept(edited, "history 70") is not kept(graph, "history 70")
