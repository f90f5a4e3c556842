"""Training strategies: which losses they minimise, which views they use, how they are prepared."""

from dataclasses import replace
from functools import partial
from math import exp
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

import clbr
from clbr import InputError, World
from clbr.counterfactual.config import CASRConfig, ViewsConfig
from clbr.counterfactual.constraint import adaptive
from clbr.counterfactual.strategy import CASR, CLBR, STRATEGIES, Original, Preparation, find_strategy
from clbr.counterfactual.views import read_views
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.models.base import Encoder
from clbr.models.embeddings import Batch, Embeddings, Triples
from clbr.models.registry import make_model
from clbr.rng import torch_generator
from clbr.training.batches import draw_nodes, view_batches
from clbr.training.config import TrainConfig
from clbr.training.loop import make_optimizer, train
from conftest import make_dataset

GRAPH_MODELS = ["rgcn", "bundlenet", "bgcn", "crosscbr", "lightgcn"]
BATCHES = partial(view_batches, 2048, 1)


def setting(model: str, tiny: World) -> tuple[Encoder, BundleGraph, Batch]:
    encoder = make_model(model, {}, tiny.dataset, torch_generator(0, "init"))
    assert isinstance(encoder, Encoder)
    pairs = torch.from_numpy(tiny.dataset.train[:40].astype(np.int64))
    triples = Triples(pairs[:, 0], pairs[:, 1], (pairs[:, 1:] + 1) % len(tiny.dataset.bundles))
    items = torch.from_numpy(tiny.dataset.ui[:40].astype(np.int64))
    return (
        encoder,
        BundleGraph.of(tiny.dataset),
        Batch(triples, Triples(items[:, 0], items[:, 1], (items[:, 1:] + 1) % 9)),
    )


def one_edit(tiny: World) -> EdgeEdits:
    return EdgeEdits(drop={"ub": tiny.dataset.train[:5], "ui": tiny.dataset.ui[:5], "bi": tiny.dataset.bi[:5]})


@pytest.mark.parametrize("model", GRAPH_MODELS)
def test_losses_are_the_task_on_both_graphs_and_the_constraint(model: str, tiny: World) -> None:
    encoder, graph, batch = setting(model, tiny)
    changes = {"omega_u": 0.3, "omega_b": 0.7, "view_weight": 0.5, "lambda_u": 2.0, "nodes": 0}
    strategy = CLBR(ViewsConfig.make(changes), [one_edit(tiny)], 0, BATCHES)
    for name in type(encoder.config).model_fields:
        if name.endswith("dropout"):  # noise would hide what is compared
            object.__setattr__(encoder.config, name, 0.0)
    found = strategy.epoch_losses(encoder, graph, 1, torch_generator(0, "noise"))(batch)
    graphs = (encoder.batch_graph(g, batch) for g in (graph, one_edit(tiny).apply(graph)))
    factual, view = (encoder.encode(g) for g in graphs)
    expected = encoder.task_losses(factual, batch)
    expected |= {f"view {name}": 0.5 * term for name, term in encoder.task_losses(view, batch).items()}
    users, bundles = batch.ub.users.unique(), batch.ub.positives.unique()
    sides = [(normalize(x.joined("users")[users]), normalize(x.joined("bundles")[bundles])) for x in (view, factual)]
    expected["constraint users"] = 0.3 * adaptive(sides[0][0], sides[1][0], 2.0)
    expected["constraint bundles"] = 0.7 * adaptive(sides[0][1], sides[1][1], 1.0)
    assert list(found) == list(expected)
    for name, term in expected.items():
        assert found[name].item() == pytest.approx(term.item(), rel=1e-4), name


def test_the_contrastive_constraint_is_the_log_of_adaptives_two_parts(tiny: World) -> None:
    encoder, graph, batch = setting("lightgcn", tiny)
    views = ViewsConfig(omega_u=0.3, omega_b=0.7, nodes=0, constraint="contrastive", tau=0.2)
    strategy = CLBR(views, [one_edit(tiny)], 0, BATCHES)
    found = strategy.epoch_losses(encoder, graph, 1, torch_generator(0, "noise"))(batch)
    factual, view = encoder.encode(graph), encoder.encode(one_edit(tiny).apply(graph))
    for name, weight, side, nodes in (
        ("users", 0.3, "users", batch.ub.users),
        ("bundles", 0.7, "bundles", batch.ub.positives),
    ):
        here, there = (normalize(getattr(x.levels["bundle"], side)[nodes.unique()]) for x in (factual, view))
        alike = (here @ there.T / 0.2).exp()
        expected = -(alike.diagonal() / alike.sum(1)).log().mean()
        assert found[f"constraint {name}"].item() == pytest.approx(weight * expected.item(), rel=1e-4)


def test_a_view_without_edits_is_the_factual_graph_and_has_the_smallest_distance(tiny: World) -> None:
    encoder, graph, batch = setting("rgcn", tiny)
    strategy = CLBR(ViewsConfig(constraint="constant", hinge=False), [EdgeEdits()], 0, BATCHES)
    losses = strategy.epoch_losses(encoder, graph, 1, torch_generator(0, "noise"))(batch)
    assert losses["view bpr"].item() == pytest.approx(losses["bpr"].item())
    assert losses["constraint users"].item() == pytest.approx(-0.1 * exp(1), rel=1e-5)
    assert strategy.view_graph(graph, 1).ub is graph.ub


@pytest.mark.parametrize(
    ("views", "rate", "advice"),
    [
        ({"tau": 0.005}, 0.001, "only the constraint is not finite: try a larger tau than 0.005"),
        ({"tau": 0.005, "constraint": "constant"}, 0.001, "try a larger tau than 0.005"),
        ({}, 1e30, "; try a lower learning_rate"),
    ],
    ids=str,
)
def test_a_loss_that_is_not_finite_names_a_remedy(
    views: dict[str, object], rate: float, advice: str, tiny: World
) -> None:
    encoder, _, _ = setting("lightgcn", tiny)
    settings = TrainConfig(epochs=2, learning_rate=rate)
    strategy = CLBR(ViewsConfig.make(views), [one_edit(tiny)], 0, BATCHES)
    with pytest.raises(InputError, match=f"{advice}$"):
        list(train(encoder, make_optimizer(encoder, settings), tiny.dataset, settings, 0, strategy=strategy))


def test_the_constraint_warms_up(tiny: World) -> None:
    encoder, graph, batch = setting("rgcn", tiny)
    strategy = CLBR(ViewsConfig(warm_up=4), [one_edit(tiny)], 0, BATCHES)
    terms = [
        strategy.epoch_losses(encoder, graph, epoch, torch_generator(0, "noise"))(batch)["constraint users"].item()
        for epoch in (1, 4)
    ]
    assert terms[0] == pytest.approx(terms[1] / 4)


def test_the_task_on_the_view_may_use_the_views_own_positives(tiny: World) -> None:
    encoder, graph, batch = setting("lightgcn", tiny)
    batch = replace(batch, random=next(draw_nodes(5, graph, np.random.default_rng(0))))
    fresh = EdgeEdits(drop={"ub": tiny.dataset.train[:-1]})  # one pair is left
    views = ViewsConfig(view_positives=True, constraint="none")
    seen: list[Batch] = []
    task = type(encoder).task_losses
    encoder.task_losses = lambda e, b: seen.append(b) or task(encoder, e, b)  # type: ignore[method-assign,func-returns-value]
    CLBR(views, [fresh], 0, BATCHES).epoch_losses(encoder, graph, 1, torch_generator(0, "noise"))(batch)
    assert [len(b.ub.users) for b in seen] == [40, 1]
    assert batch.random is not None and seen[1].random is batch.random
    assert [seen[1].ub.users.item(), seen[1].ub.positives.item()] == tiny.dataset.train[-1].tolist()


def test_a_view_that_leaves_no_negatives_raises() -> None:
    """Three users, four bundles: in the view every user has all of them."""
    small = make_dataset()
    encoder = make_model("lightgcn", {}, small, torch_generator(0, "init"))
    missing = np.argwhere(np.bincount(small.train @ [4, 1], minlength=12).reshape(3, 4) == 0)
    views = ViewsConfig(view_positives=True, constraint="none")
    full = CLBR(views, [EdgeEdits(add={"ub": missing})], 0, BATCHES)
    with pytest.raises(
        InputError, match="epoch 1: in its view every user with a bundle has all bundles.*; lower ratio_ub"
    ):
        full.epoch_losses(encoder, BundleGraph.of(small), 1, torch_generator(0, "noise"))


def test_every_epoch_uses_one_of_the_views_and_all_are_used(tiny: World) -> None:
    graph = BundleGraph.of(tiny.dataset)
    strategy = CLBR(ViewsConfig(), [one_edit(tiny) for _ in range(3)], 0, BATCHES)
    used = {id(strategy.view_graph(graph, epoch)) for epoch in range(1, 30)}
    assert used == {id(view) for view in strategy.graphs.values()}
    assert len(strategy.graphs) == 3


def test_original_has_the_models_own_losses(tiny: World) -> None:
    encoder, graph, batch = setting("bgcn", tiny)
    found = Original().epoch_losses(encoder, graph, 1, torch_generator(0, "noise"))(batch)
    assert found["bpr"].item() == encoder.losses(graph, batch, torch_generator(0, "noise"))["bpr"].item()


def prepare(
    strategy: type[CLBR], config: ViewsConfig, folder: Path, tiny: World, embeddings: Embeddings | None
) -> tuple[CLBR | None, int]:
    """The strategy that is ready to train, and how often it asked for the selection model."""
    asked: list[bool] = []
    preparation = Preparation(folder, tiny.dataset, ("ub", "bi"), 0, BATCHES, lambda: asked.append(True) or embeddings)
    return strategy.prepare(config, preparation), len(asked)


@pytest.fixture(scope="module")
def embeddings(tiny: World) -> Embeddings:
    encoder, graph, _ = setting("lightgcn", tiny)
    with torch.no_grad():
        level = encoder.encode(graph).levels["bundle"]
    items = torch.randn(len(tiny.dataset.items), level.users.shape[1], generator=torch.Generator().manual_seed(0))
    return Embeddings({"bundle": type(level)(level.users, level.bundles, items)})


def test_views_are_drawn_once_and_read_again(tiny: World, tmp_path: Path, embeddings: Embeddings) -> None:
    first, asked = prepare(CLBR, ViewsConfig(), tmp_path, tiny, embeddings)
    assert first is not None and first.sampler is None and (len(first.views), asked) == (4, 1)
    assert not any(view.touches("ui") for view in first.views)  # the model does not use user-item pairs
    assert all(view.touches("ub") and view.touches("bi") for view in first.views)
    again, asked = prepare(CLBR, ViewsConfig(), tmp_path, tiny, None)
    assert again is not None and asked == 0
    for one, other in zip(first.views, again.views, strict=True):
        assert all(np.array_equal(one.add[r], other.add[r]) for r in ("ub", "bi"))


def test_a_run_that_redraws_needs_its_selection_model_each_time(
    tiny: World, tmp_path: Path, embeddings: Embeddings
) -> None:
    for _ in range(2):
        strategy, asked = prepare(CLBR, ViewsConfig(redraw=True), tmp_path, tiny, embeddings)
        assert strategy is not None and strategy.sampler is not None and asked == 1


def test_a_preparation_that_was_stopped_writes_no_views(tiny: World, tmp_path: Path) -> None:
    assert prepare(CLBR, ViewsConfig(), tmp_path, tiny, None) == (None, 1)
    assert not list(tmp_path.iterdir())


def test_random_views_need_no_selection_model(tiny: World, tmp_path: Path) -> None:
    for name, config in (("drops", {"sampler": "dropout"}), ("random", {"sampler": "stochastic", "additions": 0.5})):
        (tmp_path / name).mkdir()
        strategy, asked = prepare(CLBR, ViewsConfig.make(config), tmp_path / name, tiny, None)
        assert strategy is not None and asked == 0


def test_casr_adds_user_bundle_pairs_only(tiny: World, tmp_path: Path, embeddings: Embeddings) -> None:
    strategy, _ = prepare(CASR, CASRConfig(), tmp_path, tiny, embeddings)
    assert isinstance(strategy, CASR)
    views, _ = read_views(tmp_path)
    for view in views:
        assert len(view.add["ub"]) == len(tiny.dataset.train) // 10 and not len(view.drop["ub"])
        assert not view.touches("ui") and not view.touches("bi")


def test_strategies_are_found_by_name_and_their_search_spaces_are_of_their_settings() -> None:
    assert list(STRATEGIES) == ["original", "clbr", "casr"]
    with pytest.raises(InputError, match=r"unknown paradigm 'clrb', did you mean 'clbr'\?"):
        find_strategy("clrb")
    assert (Original.config_class, Original.search_space) == (None, {})
    for strategy in (CLBR, CASR):
        assert strategy.config_class is not None
        for key, values in strategy.search_space.items():
            for value in values:
                strategy.config_class.make({key: value})


@pytest.mark.parametrize(
    ("constraint", "ineffective"),
    [
        ("adaptive", set()),
        ("constant", {"lambda_u", "lambda_b"}),
        ("contrastive", {"lambda_u", "lambda_b"}),
        ("none", {"constraint", "omega_u", "omega_b", "lambda_u", "lambda_b", "tau", "warm_up"}),
    ],
)
def test_settings_without_effect_under_a_constraint_change_no_loss(
    constraint: str, ineffective: set[str], tiny: World
) -> None:
    encoder, graph, batch = setting("lightgcn", tiny)
    settings = {"constraint": constraint, "omega_u": 0.5, "omega_b": 0.5, "view_weight": 0.5, "hinge": False}
    config = ViewsConfig.make(settings)
    assert set(CLBR.ineffective(config)) == ineffective

    def losses(config: ViewsConfig) -> dict[str, float]:
        strategy = CLBR(config, [one_edit(tiny)], 0, BATCHES)
        found = strategy.epoch_losses(encoder, graph, 1, torch_generator(0, "noise"))(batch)
        return {name: term.item() for name, term in found.items()}

    others = {"omega_u": 0.1, "omega_b": 0.1, "lambda_u": 3.0, "lambda_b": 3.0, "tau": 0.3, "warm_up": 5}
    for key, value in others.items():
        same = losses(ViewsConfig.make(settings | {key: value})) == losses(config)
        assert same is (key in ineffective), key


def test_views_are_trained_with_the_softmax_objective_too(tiny: World) -> None:
    """With the view's own choices as positives, their users' other choices are no negatives."""
    seen: list[dict[str, float]] = []
    clbr.fit(
        tiny.dataset,
        "trilevel",
        paradigm="clbr",
        view_positives=True,
        epochs=1,
        progress=False,
        callbacks=lambda epoch, counters: seen.append(epoch.losses),
    )
    assert {"softmax", "contrast", "view softmax", "constraint users"} <= set(seen[0])
    assert all(np.isfinite(list(seen[0].values())))
