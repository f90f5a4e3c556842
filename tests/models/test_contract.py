"""What every trainable model promises; a new one is tested by being in the registry."""

from pathlib import Path

import numpy as np
import pytest
import torch

from clbr import BundleDataset, Nodes, Popularity, World, evaluate
from clbr.graph.graph import BundleGraph
from clbr.models.base import Batch, Encoder, Model
from clbr.models.registry import MODELS, make_model
from clbr.rng import generator, torch_generator
from clbr.training.batches import Choices
from clbr.training.checkpoint import read_model, write_model
from clbr.training.config import TrainConfig
from clbr.training.loop import make_optimiser, train
from conftest import make_dataset

ENCODERS = [name for name, kind in MODELS.items() if issubclass(kind, Encoder)]
EVERY = pytest.mark.parametrize("name", list(MODELS))

# On the tiny world, after twenty epochs: settings, and by how much recall@20 on validation must beat popularity's.
LEARNS: dict[str, tuple[dict[str, object], dict[str, object], float]] = {
    "bprmf": ({}, {"learning_rate": 0.02, "weight_decay": 0.001}, 1.2),
    "lightgcn": ({}, {"learning_rate": 0.02}, 1.3),
    "dam": ({"hidden_dropout": 0.1}, {"learning_rate": 0.01, "evaluate_every": 20}, 1.1),
    "rgcn": ({"message_dropout": 0.3}, {"learning_rate": 0.01, "weight_decay": 0.0001}, 1.1),
    "bundlenet": ({}, {"learning_rate": 0.01}, 1.2),
    "bgcn": ({}, {"learning_rate": 0.01}, 1.3),
    "crosscbr": ({}, {"learning_rate": 0.01}, 1.4),
}
EXTREME = {
    "bprmf": [{"dim": 1}],
    "lightgcn": [{"dim": 1, "layers": 6}],
    "dam": [{"dim": 1, "hidden_dropout": 0.9}, {"init": "normal", "dim": 128}],
    "rgcn": [{"layers": 5, "message_dropout": 0.9}, {"bases": 2}],
    "bundlenet": [{"layers": 4, "message_dropout": 0.9}, {"item_task": 0.0, "hide_choices": False}],
    "bgcn": [{"layers": 4, "message_dropout": 0.9}, {"l2": 1.0}],
    "crosscbr": [
        {"temperature": 0.01, "contrastive_weight": 10.0, "layers": 4},
        {"augmentation": "messages", "item_dropout": 0.9},
        {"augmentation": "none"},
        {"bundle_dropout": 0.99, "item_dropout": 0.99, "contents_dropout": 0.99},
    ],
}


def fresh(name: str, dataset: BundleDataset, seed: int = 0, **settings: object) -> Model:
    return make_model(name, settings, dataset, torch_generator(seed, "init"))


def a_batch(dataset: BundleDataset, size: int = 64) -> Batch:
    graph, rng = BundleGraph.of(dataset), generator(0, "batch")
    ub = next(Choices(dataset.train, graph.ub.shape).epoch(size, 2, rng))
    return Batch(ub, next(Choices(dataset.ui, graph.ui.shape).epoch(size, 2, rng)))


def all_scores(model: Model, dataset: BundleDataset) -> torch.Tensor:
    return model.recommender(BundleGraph.of(dataset)).scores(torch.arange(len(dataset.users)))


@EVERY
def test_it_gives_a_score_to_every_user_and_bundle(name: str, tiny: World) -> None:
    scores = model_scores = all_scores(fresh(name, tiny.dataset), tiny.dataset)
    assert scores.shape == (600, 150)
    assert scores.dtype == torch.float32
    assert model_scores.isfinite().all()
    assert not scores.requires_grad


@EVERY
def test_equal_seeds_give_equal_weights_and_others_do_not(name: str, tiny: World) -> None:
    config = TrainConfig(epochs=2, evaluate_every=9, batch_size=1024)
    weights = []
    for seed in (0, 0, 1):
        model = fresh(name, tiny.dataset, seed)
        list(train(model, make_optimiser(model, config), tiny.dataset, config, seed))
        weights.append(torch.cat([p.flatten() for p in model.parameters()]))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@EVERY
def test_saved_and_loaded_it_gives_equal_scores(name: str, tiny: World, tmp_path: Path) -> None:
    model, other = fresh(name, tiny.dataset, 0), fresh(name, tiny.dataset, 1)
    write_model(tmp_path / "model.safetensors", model)
    assert not torch.equal(all_scores(model, tiny.dataset), all_scores(other, tiny.dataset))
    read_model(tmp_path / "model.safetensors", other)
    assert torch.equal(all_scores(model, tiny.dataset), all_scores(other, tiny.dataset))


@EVERY
@pytest.mark.parametrize("kind", ["users", "bundles", "items"])
def test_relabelling_nodes_permutes_the_scores_and_nothing_else(name: str, kind: str, tiny: World) -> None:
    dataset, model, relabelled = tiny.dataset, fresh(name, tiny.dataset), fresh(name, tiny.dataset, 1)
    size = len(getattr(dataset, kind))
    new = np.random.default_rng(0).permutation(size).astype(np.int32)  # node i is called new[i] now
    sides = {"train": ("users", "bundles"), "validation": ("users", "bundles"), "test": ("users", "bundles"),
             "ui": ("users", "items"), "bi": ("bundles", "items")}  # fmt: skip
    parts = {}
    for part, nodes in sides.items():
        pairs = getattr(dataset, part).copy()
        for column, side in enumerate(nodes):
            if side == kind:
                pairs[:, column] = new[pairs[:, column]]
        parts[part] = pairs
    other = BundleDataset("relabelled", dataset.users, dataset.bundles, dataset.items, **parts)
    tables = {"users": ["users"], "bundles": ["bundles"], "items": ["items", "attention"]}[kind]
    state = {k: v.clone() for k, v in model.state_dict().items()}
    for table in tables:
        if table in state:
            state[table][torch.from_numpy(new).long()] = model.state_dict()[table]
    relabelled.load_state_dict(state)
    expected = all_scores(model, dataset)
    if kind != "items":
        moved = torch.empty_like(expected)
        index = torch.from_numpy(new).long()
        if kind == "users":
            moved[index] = expected
        else:
            moved[:, index] = expected
        expected = moved
    torch.testing.assert_close(all_scores(relabelled, other), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ENCODERS)
def test_an_edge_outside_a_nodes_receptive_field_does_not_move_its_vector(name: str) -> None:
    """Two islands: an edge more on one changes nothing on the other."""
    island = make_dataset()
    double = {part: np.concatenate([getattr(island, part), getattr(island, part) + np.array(shift)])
              for part, shift in {"train": (3, 4), "validation": (3, 4), "test": (3, 4), "ui": (3, 5), "bi": (4, 5)}.items()}  # fmt: skip
    nodes = {"users": Nodes("user", 6), "bundles": Nodes("bundle", 8), "items": Nodes("item", 10)}
    before = make_dataset(**nodes, **double)
    after = make_dataset(**nodes, **(double | {"ui": np.concatenate([double["ui"], [[4, 7]]]),
                                               "train": np.concatenate([double["train"], [[5, 7]]]),
                                               "bi": np.concatenate([double["bi"], [[6, 9]]])}))  # fmt: skip
    model = fresh(name, before)
    assert isinstance(model, Encoder)
    with torch.no_grad():
        one, other = (model.encode(BundleGraph.of(dataset)) for dataset in (before, after))
    for level in one.levels:
        for kind, size in (("users", 3), ("bundles", 4), ("items", 5)):
            mine, theirs = one.levels[level].side(kind), other.levels[level].side(kind)  # type: ignore[arg-type]
            if mine is not None and theirs is not None:
                assert torch.equal(mine[:size], theirs[:size])
    if MODELS[name].relations:
        changed = [not torch.equal(one.levels[level].users, other.levels[level].users) for level in one.levels]
        assert any(changed), "the island that was edited must have moved"


@pytest.mark.parametrize("name", [name for name in ENCODERS if MODELS[name].relations])
def test_an_edge_more_rounds_away_than_there_are_layers_does_not_move_a_vector(name: str) -> None:
    """A chain: user, bundle and item n are tied to each other and to those of n + 1; an edge more at its far end."""
    ends = np.arange(12)
    diagonal = np.stack([ends, ends], 1)
    chain = np.concatenate([diagonal, np.stack([ends[:-1], ends[1:]], 1)])
    nodes = {"users": Nodes("user", 12), "bundles": Nodes("bundle", 12), "items": Nodes("item", 12)}
    parts = {"train": chain, "validation": np.array([[0, 5]]), "test": np.array([[0, 6]]), "ui": chain, "bi": chain}
    model = fresh(name, make_dataset(**nodes, **parts), layers=1)
    assert isinstance(model, Encoder)
    more = {part: np.concatenate([chain, [[11, 9]]]) for part in ("train", "ui", "bi")}
    with torch.no_grad():
        one, other = (
            model.encode(BundleGraph.of(make_dataset(**nodes, **(parts | new)))).joined("users") for new in ({}, more)
        )
    assert torch.equal(one[:6], other[:6])
    assert not torch.equal(one[11], other[11])


@EVERY
def test_it_beats_popularity_where_tastes_were_planted_and_its_loss_falls(name: str, tiny: World) -> None:
    settings, training, margin = LEARNS[name]
    config = TrainConfig.make(training | {"epochs": 20, "batch_size": 256})
    model = fresh(name, tiny.dataset, **settings)
    told = list(train(model, make_optimiser(model, config), tiny.dataset, config, seed=0))
    floor = evaluate(Popularity.fit(tiny.dataset), tiny.dataset, split="validation")["recall@20"]
    assert told[-1].validation["recall@20"] > margin * floor
    assert sum(told[-1].losses.values()) < 0.9 * sum(told[0].losses.values())


@pytest.mark.parametrize(("name", "settings"), [(name, s) for name, many in EXTREME.items() for s in many])
def test_no_nan_at_extreme_settings(name: str, settings: dict[str, object], tiny: World) -> None:
    config = TrainConfig(epochs=2, learning_rate=0.1, evaluate_every=9, clip=1.0)
    model = fresh(name, tiny.dataset, **settings)
    for epoch in train(model, make_optimiser(model, config), tiny.dataset, config, seed=0):
        assert np.isfinite(list(epoch.losses.values())).all()
    assert all_scores(model, tiny.dataset).isfinite().all()


@EVERY
def test_nodes_without_any_edge_are_no_obstacle(name: str) -> None:
    """User 3, bundle 4 and item 5 are in no pair at all."""
    dataset = make_dataset(users=Nodes("user", 4), bundles=Nodes("bundle", 5), items=Nodes("item", 6))
    config = TrainConfig(epochs=3, batch_size=2, evaluate_every=1)
    model = fresh(name, dataset)
    told = list(train(model, make_optimiser(model, config), dataset, config, seed=0))
    assert all(np.isfinite(list(epoch.losses.values())).all() for epoch in told)
    assert all_scores(model, dataset).isfinite().all()


@EVERY
def test_it_never_looks_at_tune_or_test_pairs(name: str, tiny: World) -> None:
    dataset, config = tiny.dataset, TrainConfig(epochs=1, evaluate_every=9)
    blind = BundleDataset(
        dataset.name, dataset.users, dataset.bundles, dataset.items, dataset.train, dataset.test[:1], dataset.test[1:2],
        dataset.ui, dataset.bi,
    )  # fmt: skip
    scores = []
    for data in (dataset, blind):
        model = fresh(name, data)
        list(train(model, make_optimiser(model, config), data, config, seed=0))
        scores.append(all_scores(model, data))
    assert torch.equal(*scores)


@EVERY
def test_every_parameter_gets_a_gradient(name: str, tiny: World) -> None:
    model, graph = fresh(name, tiny.dataset), BundleGraph.of(tiny.dataset)
    terms = model.losses(graph, a_batch(tiny.dataset, 2048), torch_generator(0, "noise"))
    sum(terms.values()).backward()  # type: ignore[union-attr]
    for parameter, values in model.named_parameters():
        assert values.grad is not None, parameter
        assert values.grad.abs().sum() > 0, parameter
