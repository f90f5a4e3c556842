import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from clbr import BundleDataset, InputError, Nodes
from clbr.data.pairs import incidence
from clbr.graph.graph import BundleGraph
from clbr.models.embeddings import Batch, Triples
from clbr.models.multicbr import MultiCBR, MultiCBRConfig
from clbr.models.registry import make_model
from clbr.rng import torch_generator
from conftest import make_dataset


def one_of_each() -> BundleDataset:
    """One user, one bundle and one item, each linked to the two others."""
    pair, none = np.array([[0, 0]]), np.empty((0, 2), np.int32)
    return BundleDataset("one", Nodes("user", 1), Nodes("bundle", 1), Nodes("item", 1), pair, none, none, pair, pair)


def build(dataset: BundleDataset, **settings: object) -> MultiCBR:
    model = make_model("multicbr", settings, dataset, torch_generator(0, "init"))
    assert isinstance(model, MultiCBR)
    return model


def test_layers_and_graphs_are_added_with_their_weights() -> None:
    """On a single edge A swaps the two vectors, so each layer is the unit vector of one of them."""
    layers = {"ub_layers": (0.5, 0.3, 0.2), "ui_layers": (0.4, 0.6), "bi_layers": (1.0, 0.0)}
    model = build(one_of_each(), dim=2, ub_weight=0.5, ui_weight=0.2, bi_weight=0.3, **layers)
    with torch.no_grad():
        model.users.copy_(torch.tensor([[3.0, 4.0]]))
        model.bundles.copy_(torch.tensor([[0.0, 2.0]]))
        model.items.copy_(torch.tensor([[5.0, 0.0]]))
        fused = model.encode(BundleGraph.of(one_of_each())).levels["fused"]
    # user-bundle: user 0.5 (3, 4) + 0.3 (0, 1) + 0.2 (0.6, 0.8), bundle 0.5 (0, 2) + 0.3 (0.6, 0.8) + 0.2 (0, 1)
    # user-item:   user 0.4 (3, 4) + 0.6 (1, 0), item 0.4 (5, 0) + 0.6 (0.6, 0.8), which is also the bundle
    # bundle-item: bundle (0, 2), item (5, 0), which is also the user
    ub, ui, bi = ((1.62, 2.46), (0.18, 1.44)), ((1.8, 1.6), (2.36, 0.48)), ((0.0, 2.0), (5.0, 0.0))

    def added(*parts: tuple[tuple[float, float], float]) -> Tensor:
        return torch.stack([torch.tensor(vector) * weight for vector, weight in parts]).sum(0)[None]

    torch.testing.assert_close(fused.users, added((ub[0], 0.5), (ui[0], 0.2), (bi[1], 0.3)))
    torch.testing.assert_close(fused.bundles, added((ub[1], 0.5), (ui[1], 0.2), (bi[0], 0.3)))
    torch.testing.assert_close(fused.items, added((ui[1], 0.2), (bi[1], 0.3)))


def test_the_embeddings_equal_those_of_dense_matrices() -> None:
    dataset = make_dataset()
    model = build(dataset, dim=3)
    matrices = incidence(dataset.train, 3, 4), incidence(dataset.ui, 3, 5), incidence(dataset.bi, 4, 5)
    ub_edges, ui_edges, bi_edges = (torch.from_numpy(matrix.toarray()).float() for matrix in matrices)

    def propagate(a: Tensor, left: Tensor, right: Tensor, weights: tuple[float, ...]) -> tuple[Tensor, Tensor]:
        scaled = a / a.sum(1, keepdim=True).sqrt().clamp(min=1e-9) / a.sum(0).sqrt().clamp(min=1e-9)
        sums = [weights[0] * left, weights[0] * right]
        for weight in weights[1:]:
            left, right = scaled @ right, scaled.T @ left
            sums = [sums[0] + weight * normalize(left), sums[1] + weight * normalize(right)]
        return sums[0], sums[1]

    with torch.no_grad():
        ub = propagate(ub_edges, model.users, model.bundles, (0.7, 0.2, 0.1))
        ui = propagate(ui_edges, model.users, model.items, (0.6, 0.2, 0.2))
        bi = propagate(bi_edges, model.bundles, model.items, (0.6, 0.1, 0.3))
        contents = bi_edges / bi_edges.sum(1, keepdim=True) @ ui[1]
        history = ui_edges / ui_edges.sum(1, keepdim=True) @ bi[1]
        fused = model.encode(BundleGraph.of(dataset)).levels["fused"]
    torch.testing.assert_close(fused.users, 0.35 * ub[0] + 0.15 * ui[0] + 0.5 * history)
    torch.testing.assert_close(fused.bundles, 0.35 * ub[1] + 0.15 * contents + 0.5 * bi[0])


def test_the_contrast_is_of_the_fused_vectors_with_themselves_and_counts_duplicates() -> None:
    """Users 0 and 1 are orthogonal, user 0 occurs twice; all positives are the same bundle, so its term is ln 3."""
    model = build(make_dataset(), dim=2, temperature=0.5, contrastive_weight=0.1)
    with torch.no_grad():
        embeddings = model.encode(BundleGraph.of(make_dataset()))
        embeddings.levels["fused"].users[:2] = torch.tensor([[2.0, 0.0], [0.0, 7.0]])
    triples = Triples(torch.tensor([0, 1, 0]), torch.tensor([1, 1, 1]), torch.tensor([[3], [0], [2]]))
    e = math.exp(1 / 0.5)
    users = (2 * math.log((2 * e + 1) / e) + math.log((e + 2) / e)) / 3
    expected = 0.1 * (users + math.log(3)) / 2
    losses = model.task_losses(embeddings, Batch(triples))
    assert losses["contrast"].item() == pytest.approx(expected, rel=1e-5)
    assert set(losses) == {"bpr", "contrast"}
    without = build(make_dataset(), dim=2, contrastive_weight=0.0)
    assert set(without.task_losses(embeddings, Batch(triples))) == {"bpr"}


def test_noise_is_drawn_in_training_only() -> None:
    graph, model = BundleGraph.of(make_dataset()), build(make_dataset())
    silent = build(make_dataset(), ub_noise=0.0, ui_noise=0.0, bi_noise=0.0)
    with torch.no_grad():
        clean = model.encode(graph).joined("users")
        noisy = [model.encode(graph, torch_generator(seed, "noise")).joined("users") for seed in (0, 0, 1)]
        assert torch.equal(silent.encode(graph, torch_generator(0, "noise")).joined("users"), clean)
    assert torch.equal(noisy[0], noisy[1])
    assert not torch.equal(noisy[0], noisy[2])
    assert not torch.equal(noisy[0], clean)


@pytest.mark.parametrize("wrong", [{"ub_layers": [1.0]}, {"ui_layers": [0.5, -0.1]}, {"bi_weight": -1.0}])
def test_weights_are_not_negative_and_of_one_layer_at_least(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        MultiCBRConfig.make(wrong)
