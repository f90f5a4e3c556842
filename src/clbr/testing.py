"""Contract tests for models of one's own: subclass `ModelContract` in a test file and run pytest.

    import clbr.testing

    class TestMyModel(clbr.testing.ModelContract):
        model = MyModel

The data sets are built here: nothing but clbr and pytest is needed.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, get_args

import numpy as np
import torch
from torch import Tensor

from clbr.data.dataset import BundleDataset, Nodes
from clbr.data.pairs import Ids, Pairs, Relation
from clbr.evaluation.protocol import evaluate
from clbr.graph.graph import BundleGraph
from clbr.models.base import ClosedForm, Encoder, Model
from clbr.models.embeddings import SIDES, Batch, Embeddings
from clbr.models.registry import baseline_scorer
from clbr.rng import generator, torch_generator
from clbr.simulation.generate import simulate
from clbr.training.batches import Positives, draw_nodes
from clbr.training.config import TrainConfig
from clbr.training.loop import Epoch, make_optimizer, train
from clbr.training.run_folder import read_model, write_model

Kind = Literal["users", "bundles", "items"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class ModelContract:
    """Tests that every model must pass. A subclass sets `model`, and further attributes where the defaults do not fit.

    A test that does not apply to the kind of model (an `Encoder`, a `ClosedForm`, another `Model`) is skipped.
    """

    model: ClassVar[type[Model]]
    """The class under test."""
    settings: ClassVar[dict[str, Any]] = {}
    """Its settings in all tests; those that are left out have their defaults."""
    train_settings: ClassVar[dict[str, Any]] = {}
    """Training settings of the test against popularity, in place of 20 epochs, batches of 256 and a rate of 0.01."""
    beats_popularity: ClassVar[float | None] = 1.0
    """Recall@20 on validation must exceed that of popularity times this factor; None does not compare them."""
    extreme_settings: ClassVar[list[dict[str, Any]]] = []
    """Settings at the limits of what is allowed. Training with each of them must not give NaN."""

    def test_it_gives_a_finite_score_to_every_user_and_bundle(self) -> None:
        """Scores are an (n, bundles) float32 tensor without gradient."""
        dataset = tiny()
        scores = _scores(self._build(dataset), dataset)
        assert scores.shape == (len(dataset.users), len(dataset.bundles)), f"shape {tuple(scores.shape)}"
        assert scores.dtype == torch.float32, f"scores are {scores.dtype}, expected float32"
        assert scores.isfinite().all(), "some scores are not finite"
        assert not scores.requires_grad, "compute the scores without gradient (torch.no_grad)"

    def test_equal_seeds_give_equal_weights_and_different_seeds_do_not(self) -> None:
        """Everything random comes from the generators that are passed in."""
        weights = []
        for seed in (0, 0, 1):
            model = self._build(tiny(), seed)
            _train(model, tiny(), seed, epochs=2, evaluate_every=9, batch_size=1024)
            weights.append(torch.cat([parameter.flatten() for parameter in model.parameters()]))
        assert torch.equal(weights[0], weights[1]), "two trainings with the same seed differ: draw from the generator"
        if not issubclass(self.model, ClosedForm):
            assert not torch.equal(weights[0], weights[2]), "trainings with different seeds are equal"

    def test_a_saved_and_loaded_model_gives_equal_scores(self, tmp_path: Path) -> None:
        """All that scores depend on, apart from settings and graph, is in the state dict."""
        dataset, path = tiny(), tmp_path / "model.safetensors"
        model, other = self._build(dataset, 0), self._build(dataset, 1)
        if isinstance(model, ClosedForm):
            model.solve(dataset)
        write_model(path, model)
        assert not torch.equal(_scores(model, dataset), _scores(other, dataset)), "the weights do not affect the scores"
        read_model(path, other)
        assert torch.equal(_scores(model, dataset), _scores(other, dataset)), "the loaded model scores differently"

    def test_relabelling_nodes_permutes_the_scores(self) -> None:
        """The numbers of users, bundles and items have no meaning."""
        dataset = tiny()
        for side, kind in enumerate(KINDS):
            model, other = self._build(dataset), self._build(dataset, 1)
            new = np.random.default_rng(0).permutation(len(getattr(dataset, kind))).astype(np.int32)
            index = torch.from_numpy(new).long()  # node i becomes node index[i]
            relabelled = _relabelled(dataset, kind, new)
            if isinstance(model, ClosedForm) and isinstance(other, ClosedForm):
                model.solve(dataset)
                other.solve(relabelled)
            else:
                other.load_state_dict(self._permuted(model, dataset, kind, index))
            expected = _scores(model, dataset)
            if kind != "items":
                expected = torch.empty_like(expected).index_copy_(side, index, expected)
            equal = torch.allclose(_scores(other, relabelled), expected, rtol=1e-4, atol=1e-4)
            assert equal, f"the scores depend on how {kind} are numbered"

    def test_one_more_user_and_bundle_change_no_score(self) -> None:
        """An exported model has a user and a bundle without edges, with zeros as weights, for unseen ones."""
        dataset = tiny()
        users, bundles, items = _sizes(dataset)
        more = _resized(dataset, users + 1, bundles + 1, items)
        model, wide = self._build(dataset), self._build(more)
        if isinstance(model, ClosedForm):
            model.solve(dataset)
        state = model.state_dict()
        for name, parameter in wide.state_dict().items():
            padded = torch.zeros_like(parameter)
            padded[tuple(slice(size) for size in state[name].shape)] = state[name]
            state[name] = padded
        wide.load_state_dict(state)
        scores = _scores(wide, more)
        assert scores.isfinite().all(), "the scores of the new user or bundle are not finite"
        equal = torch.allclose(scores[:users, :bundles], _scores(model, dataset), rtol=1e-4, atol=1e-4)
        assert equal, "a user and a bundle without edges change the scores of others"

    def test_an_edge_in_another_component_changes_no_embedding(self) -> None:
        """Two components of the graph: edges added to the second one do not change the first one."""
        one, other = self._encode(_chain(broken=True), _chain([11, 9], broken=True))
        for name, level in one.levels.items():
            for kind in KINDS:
                mine, theirs = level.side(kind), other.levels[name].side(kind)
                if mine is not None and theirs is not None:
                    assert torch.equal(mine[:6], theirs[:6]), f"{kind} of level {name} depend on unconnected edges"
        if self.model.relations:
            changed = [not torch.equal(one.levels[name].users, other.levels[name].users) for name in one.levels]
            assert any(changed), "new edges change no user embedding, although `relations` is not empty"

    def test_an_edge_further_away_than_the_layers_changes_no_embedding(self) -> None:
        """A chain of users, bundles and items, one layer: edges added at one end do not change the other end."""
        if not self.model.relations or "layers" not in self.model.config_class.model_fields:
            _skip("the model reads no relation, or has no setting `layers`")
        one, other = (found.joined("users") for found in self._encode(_chain(), _chain([11, 9]), layers=1))
        assert torch.equal(one[:6], other[:6]), "one layer reaches further than the neighbours of neighbours"
        assert not torch.equal(one[11], other[11]), "an edge does not change the embedding of its own user"

    def test_a_change_of_an_own_vector_is_the_change_of_its_levels(self) -> None:
        """For a model with `own_vectors`: what is added to a user's row is added to the user on these levels."""
        model, graph = self._build(_chain()), BundleGraph.of(_chain())
        if not isinstance(model, Encoder) or (own := model.own_vectors()) is None:
            _skip("the model has no own vectors")
        with torch.no_grad():
            before, _, after = model.encode(graph).levels, own.table[0].add_(1), model.encode(graph).levels
        apart = [after[name].users[0] - before[name].users[0] - 1 for name in own.levels]
        assert torch.stack(apart).abs().max() < 1e-5, f"not a term on each of the levels {own.levels}"

    def test_training_lowers_the_loss_and_beats_popularity(self) -> None:
        """On simulated data in which users have tastes."""
        if issubclass(self.model, ClosedForm) and self.beats_popularity is None:
            _skip("a closed-form model has no loss, and beats_popularity is None")
        training = {"epochs": 20, "batch_size": 256, "learning_rate": 0.01} | self.train_settings
        model = self._build(tiny())
        epochs = _train(model, tiny(), **training)
        if not isinstance(model, ClosedForm):
            first, last = (sum(epoch.losses.values()) for epoch in (epochs[0], epochs[-1]))
            assert last < 0.9 * first, f"the loss fell from {first:.4f} to {last:.4f} only: expected 10 % at least"
        if self.beats_popularity is not None:
            baseline = evaluate(baseline_scorer("popularity", tiny()), tiny(), split="validation")["recall@20"]
            found, expected = epochs[-1].validation["recall@20"], self.beats_popularity * baseline
            assert found > expected, f"recall@20 is {found:.4f}: expected more than {expected:.4f}"

    def test_extreme_settings_give_no_nan(self) -> None:
        """Losses and scores stay finite for each of `extreme_settings`."""
        if not self.extreme_settings:
            _skip("no extreme_settings are given")
        for settings in self.extreme_settings:
            model = self._build(tiny(), **settings)
            epochs = _train(model, tiny(), epochs=2, learning_rate=0.1, evaluate_every=9, clip=1.0)
            assert _finite(epochs), f"{settings}: the loss is not finite"
            assert _scores(model, tiny()).isfinite().all(), f"{settings}: some scores are not finite"

    def test_nodes_without_edges_get_finite_scores(self) -> None:
        """User 12, bundle 12 and item 12 are in no pair."""
        dataset = _resized(_chain(), 13, 13, 13)
        model = self._build(dataset)
        assert _finite(_train(model, dataset, epochs=3, batch_size=2)), "the loss is not finite"
        assert _scores(model, dataset).isfinite().all(), "some scores are not finite"

    def test_validation_and_test_pairs_are_not_used(self) -> None:
        """A model trained on data with other validation and test pairs gives the same scores."""
        dataset, scores = tiny(), []
        other = replace(dataset, validation=dataset.test[:1], test=dataset.test[1:2])
        for data in (dataset, other):
            model = self._build(data)
            _train(model, data, epochs=1, evaluate_every=9)
            scores.append(_scores(model, data))
        assert torch.equal(*scores), "the scores depend on validation or test pairs"

    def test_every_trainable_parameter_gets_a_gradient(self) -> None:
        """No parameter is left out of the loss."""
        dataset = tiny()
        graph, rng, model = BundleGraph.of(dataset), generator(0, "batch"), self._build(dataset)
        trainable = {name: values for name, values in model.named_parameters() if values.requires_grad}
        if isinstance(model, ClosedForm):
            assert not trainable, f"a closed-form model is not trained: {', '.join(trainable)} need requires_grad=False"
            return
        ub = next(Positives(dataset.train, graph.ub.shape).epoch(2048, 2, rng, compared=model.compared))
        ui = next(Positives(dataset.ui, graph.ui.shape).epoch(2048, 2, rng))
        batch = Batch(ub, ui, next(draw_nodes(model.random_nodes, graph, rng)))
        terms = model.losses(graph, batch, torch_generator(0, "noise"))
        torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        without = [name for name, values in trainable.items() if values.grad is None or not values.grad.any()]
        assert not without, f"no gradient reaches {', '.join(without)}"

    def test_the_search_space_holds_valid_settings(self) -> None:
        """Every value that a search may try is accepted by the settings of the model or of the training."""
        for name, values in self.model.search_space.items():
            config = TrainConfig if name in TrainConfig.model_fields else self.model.config_class
            for value in values:
                config.make({name: value}, "search_space")

    def _build(self, dataset: BundleDataset, seed: int = 0, **settings: Any) -> Model:
        """Build and initialise the model under test."""
        config = self.model.config_class.make(self.settings | settings)
        model = self.model(config, *_sizes(dataset))  # type: ignore[call-arg]
        with torch.no_grad():
            model.initialise(torch_generator(seed, "init"))
        return model

    def _encode(self, *datasets: BundleDataset, **settings: Any) -> list[Embeddings]:
        """Return the embeddings of one model on several graphs; skip the test for models that have none."""
        model = self._build(datasets[0], **settings) if issubclass(self.model, Encoder) else None
        if not isinstance(model, Encoder):
            _skip("the model is not an Encoder")
        with torch.no_grad():
            return [model.encode(BundleGraph.of(dataset)) for dataset in datasets]

    def _permuted(self, model: Model, dataset: BundleDataset, kind: Kind, index: Tensor) -> dict[str, Tensor]:
        """Permute the weights along the dimensions that grow with the number of nodes of this kind."""
        sizes = [size + (side == kind) for side, size in zip(KINDS, _sizes(dataset), strict=True)]
        larger = self._build(_resized(dataset, *sizes)).state_dict()
        state = {name: values.clone() for name, values in model.state_dict().items()}
        for name, values in state.items():
            for dim, (size, grown) in enumerate(zip(values.shape, larger[name].shape, strict=True)):
                if grown > size:
                    state[name] = torch.empty_like(values).index_copy_(dim, index, state[name])
        return state


@cache
def tiny() -> BundleDataset:
    """Return the simulated data set that most tests use: 600 users, 150 bundles."""
    return simulate("tiny").dataset


def _chain(*more: list[int], broken: bool = False) -> BundleDataset:
    """Return a chain: user, bundle and item n are linked to each other and to n + 1. `broken` cuts it in the middle."""
    nodes = np.arange(12)
    links = np.stack([nodes[:-1], nodes[1:]], 1)
    links = np.delete(links, 5, axis=0) if broken else links
    pairs = np.concatenate([np.stack([nodes, nodes], 1), links, np.reshape(more, (-1, 2)).astype(int)])
    sizes = Nodes("user", 12), Nodes("bundle", 12), Nodes("item", 12)
    return BundleDataset("chain", *sizes, pairs, np.array([[0, 5]]), np.array([[0, 7]]), pairs, pairs)


def _resized(dataset: BundleDataset, users: int, bundles: int, items: int) -> BundleDataset:
    """Return the data set with further nodes, which are in no pair."""
    return replace(dataset, users=Nodes("user", users), bundles=Nodes("bundle", bundles), items=Nodes("item", items))


def _relabelled(dataset: BundleDataset, kind: Kind, new: Ids) -> BundleDataset:
    """Return the data set in which node i of this kind is node new[i]."""

    def renamed(relation: Relation, pairs: Pairs) -> Pairs:
        sides = zip(SIDES[relation], pairs.T, strict=True)
        return np.stack([new[column] if side == kind else column for side, column in sides], 1)

    train, validation, test = (renamed("ub", dataset.pairs(split)) for split in ("train", "validation", "test"))
    ui, bi = renamed("ui", dataset.ui), renamed("bi", dataset.bi)
    return replace(dataset, train=train, validation=validation, test=test, ui=ui, bi=bi)


def _sizes(dataset: BundleDataset) -> tuple[int, int, int]:
    return len(dataset.users), len(dataset.bundles), len(dataset.items)


def _scores(model: Model, dataset: BundleDataset) -> Tensor:
    return model.scorer(BundleGraph.of(dataset)).scores(torch.arange(len(dataset.users)))


def _train(model: Model, dataset: BundleDataset, seed: int = 0, **settings: Any) -> list[Epoch]:
    config = TrainConfig.make(settings)
    return list(train(model, make_optimizer(model, config), dataset, config, seed))


def _finite(epochs: list[Epoch]) -> bool:
    return all(np.isfinite(list(epoch.losses.values())).all() for epoch in epochs)


def _skip(reason: str) -> NoReturn:
    import pytest

    pytest.skip(reason)
