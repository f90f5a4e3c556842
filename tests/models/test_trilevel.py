import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from clbr import World
from clbr.graph.graph import BundleGraph, Edges
from clbr.models.base import Batch, Embeddings, Triples
from clbr.models.trilevel import TriLevel, TriLevelConfig
from clbr.training.batches import Positives


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


def test_a_cold_bundle_has_no_own_vector_and_gets_factors_and_an_offset() -> None:
    """Bundle 1 has no user. On the contents level it gets the direction of item 1, (1, 0)."""
    made, generator = model(cold_bundles=0.1), torch.Generator()
    with torch.no_grad():
        made.cold_factors[:] = torch.tensor([math.log(2), math.log(3)])
        made.cold_offset[:] = 0.05
        made.calibration[:] = torch.tensor([4.0, 4.0])
    warm, levels = model().encode(graph()).levels, made.encode(graph()).levels
    close(levels["item"].bundles, [[2.0, 0.5], [6.0, 0.0]])
    close(levels["bundle"].bundles, [[1.0, 2.0], [0.0, 0.0]])
    close(levels["contents"].bundles, [[0.9045, 2.4264], [3.0, 0.0]])
    close(levels["cold"].bundles, [[0.0], [0.5 + 4.0]])
    close(levels["cold"].users, [[1.0]])
    close(made.encode(graph(), generator).levels["cold"].bundles, [[0.0], [0.5]])  # training is not calibrated
    for name in ("item", "bundle"):
        torch.testing.assert_close(levels[name].users, warm[name].users)


def test_an_epoch_makes_some_bundles_cold_and_their_choices_teach_the_factors(tiny: World) -> None:
    dataset, noise = tiny.dataset, torch.Generator().manual_seed(0)
    made = TriLevel(TriLevelConfig.make({"cold_bundles": 0.2}), 600, 150, 240)
    made.initialise(noise)
    factual = BundleGraph.of(dataset)
    dropped = made.epoch_graph(factual, noise)
    cold = np.bincount(dropped.ub.pairs[:, 1], minlength=150) == 0
    assert 10 < (cold & (np.bincount(dataset.train[:, 1], minlength=150) > 0)).sum() < 60
    batch = Batch(next(Positives(dataset.train, (600, 150)).epoch(512, 1, np.random.default_rng(0), compared=150)))
    sum(made.losses(dropped, batch, noise).values()).backward()  # type: ignore[union-attr]
    assert made.cold_factors.grad is not None and bool((made.cold_factors.grad != 0).all())
    assert made.cold_offset.grad is not None and bool((made.cold_offset.grad != 0).all())
    assert not made.bundles.grad[torch.from_numpy(cold)].any()  # type: ignore[index]


def test_calibration_gives_cold_bundles_their_share_of_validation(tiny: World) -> None:
    """The bundles of most validation pairs lose their training pairs: they are cold, and must come first."""
    popular = np.argsort(-np.bincount(tiny.dataset.validation[:, 1], minlength=150))[:50]
    train = tiny.dataset.train[~np.isin(tiny.dataset.train[:, 1], popular)]
    dataset = replace(tiny.dataset, train=train)
    made = TriLevel(TriLevelConfig.make({"cold_bundles": 0.1}), 600, 150, 240)
    made.initialise(torch.Generator().manual_seed(0))
    factual = BundleGraph.of(dataset)
    made.calibrate(factual, dataset)
    assert len(set(made.calibration.tolist())) == 1 and made.calibration[0] > 0
    scores = made.scorer(factual).scores(torch.arange(600))
    first = scores.argmax(1).numpy()
    assert np.isin(first, popular).mean() > np.isin(dataset.validation[:, 1], popular).mean() / 2
    before = made.calibration.clone()
    made.calibrate(factual, dataset)  # not on top of what is there
    assert torch.equal(made.calibration, before)
