import math
from itertools import combinations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from clbr.graph.graph import BundleGraph, Edges
from clbr.models.embeddings import Batch, Embeddings, NodeSample, Triples
from clbr.models.trilevel import TriLevel, TriLevelConfig


def graph() -> BundleGraph:
    """One user, two bundles, two items: the user chose bundle 0 and item 0; bundle 0 has both items, bundle 1 item 1."""
    ub, ui = np.array([[0, 0]], np.int32), np.array([[0, 0]], np.int32)
    bi = np.array([[0, 0], [0, 1], [1, 1]], np.int32)
    return BundleGraph(Edges(ub, (1, 2)), Edges(ui, (1, 2)), Edges(bi, (2, 2)))


def model(**settings: object) -> TriLevel:
    made = TriLevel(TriLevelConfig.make({"dim": 2} | settings), 1, 2, 2)
    with torch.no_grad():
        made.users[:] = torch.tensor([[1.0, 0.0]])
        made.bundles[:] = torch.tensor([[0.0, 2.0], [1.0, 1.0]])
        made.items[:] = torch.tensor([[0.0, 1.0], [3.0, 0.0]])
    return made


def close(found: Tensor, expected: list[list[float]]) -> None:
    torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-4)


def test_each_level_is_as_computed_by_hand() -> None:
    levels = model().encode(graph()).levels
    assert list(levels) == ["item", "bundle", "contents"]
    # user-item: the user gets item 0's direction (0, 1), item 0 the user's (1, 0); item 1 has no user
    close(levels["item"].users, [[1.0, 1.0]])
    close(levels["item"].items, [[1.0, 1.0], [3.0, 0.0]])  # type: ignore[arg-type]
    close(levels["item"].bundles, [[2.0, 0.5], [3.0, 0.0]])  # the means of their items
    # user-bundle: the user gets bundle 0's direction (0, 1), bundle 0 the user's (1, 0); bundle 1 has no user
    close(levels["bundle"].users, [[1.0, 1.0]])
    close(levels["bundle"].bundles, [[1.0, 2.0], [1.0, 1.0]])
    assert levels["bundle"].items is None
    # bundle-item: bundle 0 gets (0, 1) / sqrt(2) + (3, 0) / 2 = (1.5, 0.7071), of length 1.6583
    close(levels["contents"].bundles, [[0.9045, 2.4264], [2.0, 1.0]])
    # item 0 gets bundle 0's direction; item 1 (0, 2) / 2 + (1, 1) / sqrt(2) = (0.7071, 1.7071), of length 1.8478
    close(levels["contents"].items, [[0.0, 2.0], [3.3827, 0.9239]])  # type: ignore[arg-type]
    close(levels["contents"].users, [[0.0, 2.0]])  # the mean of the user's items


def test_without_vectors_of_their_own_users_are_what_they_chose() -> None:
    made = model(user_vectors="none")
    levels = made.encode(graph()).levels
    close(levels["item"].users, [[0.0, 1.0]])  # item 0's direction
    close(levels["item"].items, [[0.0, 1.0], [3.0, 0.0]])  # type: ignore[arg-type]
    close(levels["bundle"].users, [[0.0, 1.0]])  # bundle 0's direction
    close(levels["bundle"].bundles, [[0.0, 2.0], [1.0, 1.0]])
    close(levels["contents"].users, [[0.0, 2.0]])  # as ever: the mean of the user's items
    assert made.own_vectors() is None


def test_only_users_with_bundles_have_vectors_of_their_own_if_so_set() -> None:
    made = model(user_vectors="choosers")
    every = model().encode(graph()).levels
    for name, level in made.encode(graph()).levels.items():
        for side in ("users", "bundles"):
            assert torch.equal(getattr(level, side), getattr(every[name], side))  # the user has chosen bundle 0
    cold = graph().replaced(ub=Edges(np.empty((0, 2), np.int32), (1, 2)))
    levels = made.encode(cold).levels
    close(levels["item"].users, [[0.0, 1.0]])  # item 0's direction alone
    close(levels["item"].items, [[0.0, 1.0], [3.0, 0.0]])  # type: ignore[arg-type]
    close(levels["bundle"].users, [[0.0, 0.0]])


def test_the_contents_level_can_be_left_out() -> None:
    assert list(model(contents_level=False).encode(graph()).levels) == ["item", "bundle"]


def test_early_fusion_multiplies_the_sums_over_the_levels() -> None:
    late, early = (model(fusion=fusion).encode(graph()) for fusion in ("late", "early"))
    users, bundles = (sum(getattr(level, side) for level in late.levels.values()) for side in ("users", "bundles"))
    assert isinstance(users, Tensor) and isinstance(bundles, Tensor)
    torch.testing.assert_close(_scores(early), users @ bundles.T)
    assert not torch.allclose(_scores(late), _scores(early))


def test_a_second_layer_is_added() -> None:
    levels = model(layers=2).encode(graph()).levels
    close(levels["bundle"].users, [[2.0, 1.0]])  # A^2 x0 of the user is the user's own direction
    close(levels["bundle"].bundles, [[1.0, 3.0], [1.0, 1.0]])


def test_the_contrast_is_the_mean_over_each_two_levels() -> None:
    one = model(contrastive_weight=2.0, temperature=0.5)
    users, positives = torch.tensor([0, 0]), torch.tensor([0, 1])
    batch = Batch(Triples(users, positives, users.new_empty(2, 0), torch.tensor([[0, 0]])))
    embeddings = one.encode(graph())
    unit = [normalize(level.bundles) for level in embeddings.levels.values()]
    terms = [cross_entropy(a @ b.T / 0.5, torch.arange(2)) for a, b in combinations(unit, 2)]
    # Users: two rows of the same node, so that each softmax is over two equal terms.
    expected = 2.0 * (math.log(2) + torch.stack(terms).mean()) / 2
    losses = one.task_losses(embeddings, batch)
    torch.testing.assert_close(losses["contrast"], expected)
    assert list(model(contrastive_weight=0.0).task_losses(embeddings, batch)) == ["softmax"]


def test_random_nodes_join_the_contrast_and_each_node_counts_once() -> None:
    one = model(contrastive_weight=2.0, temperature=0.5, contrasted_nodes=5)
    users, positives = torch.tensor([0, 0]), torch.tensor([0, 0])
    sample = NodeSample(torch.tensor([0]), torch.tensor([1, 0]))
    batch = Batch(Triples(users, positives, users.new_empty(2, 0), torch.tensor([[0, 0]])), random=sample)
    embeddings = one.encode(graph())
    unit = [normalize(level.bundles) for level in embeddings.levels.values()]
    terms = [cross_entropy(a @ b.T / 0.5, torch.arange(2)) for a, b in combinations(unit, 2)]
    expected = 2.0 * (0 + torch.stack(terms).mean()) / 2  # one user: no negatives
    torch.testing.assert_close(one.task_losses(embeddings, batch)["contrast"], expected)
    assert (one.random_nodes, model().random_nodes) == (5, 0)
    assert model(contrasted_nodes=5, contrastive_weight=0.0).random_nodes == 0


def test_edges_are_dropped_in_each_relation_and_only_in_training() -> None:
    pairs = np.stack(np.meshgrid(np.arange(20), np.arange(20), indexing="ij"), -1).reshape(-1, 2).astype(np.int32)
    full = BundleGraph(*(Edges(pairs, (20, 20)) for _ in range(3)))
    dropped = TriLevel(TriLevelConfig(edge_dropout=0.4), 20, 20, 20).epoch_graph(full, torch.Generator().manual_seed(0))
    for relation in ("ub", "ui", "bi"):
        weights = dropped.edges(relation).weights  # type: ignore[arg-type]
        assert weights is not None and 0.5 < weights.mean() < 0.7
    same = TriLevel(TriLevelConfig(edge_dropout=0.0), 20, 20, 20).epoch_graph(full, torch.Generator().manual_seed(0))
    assert all(same.edges(relation) is full.edges(relation) for relation in ("ub", "ui", "bi"))  # type: ignore[arg-type]


def _scores(embeddings: Embeddings) -> Tensor:
    return embeddings.joined("users") @ embeddings.joined("bundles").T
