"""Cold bundles: the calibration that makes the validation pairs most likely, and how it enters scores and training."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from scipy.special import log_softmax

import clbr
from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.evaluation.protocol import evaluate
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph, Edges
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.export import run_artifact, save_artifact
from clbr.inference.item_effects import item_effects
from clbr.inference.reencoder import Reencoder
from clbr.inference.similar import similar
from clbr.inference.update import update
from clbr.inference.whatif import edited_state
from clbr.models.base import Encoder
from clbr.models.cold import (
    COLD_LEVEL,
    FEATURES,
    MAX_LEVELS,
    NEUTRAL,
    RIDGE,
    calibrate_cold,
    calibration_users,
    cold_bundles,
    cold_share,
    features,
    fit_calibration,
    item_popularity,
)
from clbr.models.embeddings import Embeddings, Level
from clbr.models.registry import MODELS, make_model
from clbr.rng import generator, torch_generator
from clbr.training.config import compose, defaults_by_data
from clbr.training.loop import CROSS, WARM, make_optimizer, selecting_value, train
from clbr.training.run import start
from clbr.training.run_folder import best_model, best_scorer


def pairs(*found: tuple[int, int]) -> np.ndarray:
    return np.array(found, np.int32).reshape(-1, 2)


def graph_of(train: np.ndarray, sizes: list[int], users: int) -> BundleGraph:
    """Bundles with the first items, as many as `sizes` says."""
    contents = pairs(*((bundle, item) for bundle, size in enumerate(sizes) for item in range(size)))
    items = max(sizes)
    return BundleGraph(
        Edges(train, (users, len(sizes))), Edges(pairs(), (users, items)), Edges(contents, (len(sizes), items))
    )


def zeros(bundles: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda users: torch.zeros(1, len(users), bundles)


def test_the_offset_gives_cold_bundles_of_one_size_their_share_of_the_held_out_pairs() -> None:
    # User 0 has chosen bundle 0, so that bundles 1 and 2 are left of the warm ones; bundle 3 is cold. With scores of 0
    # a share of a half needs e^x / (e^x + 2) = 1/2.
    graph = graph_of(pairs((0, 0), (1, 1), (1, 2)), [1, 1, 1, 1], users=2)
    found = fit_calibration(zeros(4), np.array([0]), graph, pairs((0, 1), (0, 3)))
    assert found[0].item() == pytest.approx(math.log(2), abs=0.01) and found[1] == found[2] == 0
    assert found[3] == 1  # with scores of 0 the scale has no effect, and the ridge keeps it


def test_the_size_weight_follows_the_sizes_of_chosen_cold_bundles() -> None:
    # Bundles 1 (one item) and 2 (e items, rounded to 3) are cold: three of four cold pairs are of the larger one.
    graph = graph_of(pairs((0, 0)), [1, 1, 3], users=9)
    held_out = pairs(*((user, 2) for user in range(1, 7)), (7, 1), (8, 1))
    found = fit_calibration(zeros(3), np.arange(1, 9), graph, held_out)
    assert found[1].item() * math.log(3) == pytest.approx(math.log(3), abs=0.02)


def test_the_fit_is_a_maximum_of_the_likelihood() -> None:
    random = np.random.default_rng(0)
    users, bundles, cold = 40, 30, 12
    train = np.argwhere(random.random((users, bundles - cold)) < 0.3).astype(np.int32)
    train = np.unique(np.concatenate([train, np.stack([np.arange(18) % users, np.arange(18)], 1)]), axis=0)
    graph = graph_of(train.astype(np.int32), random.integers(1, 20, bundles).tolist(), users)
    held_out = np.stack([np.repeat(np.arange(users), 3), random.integers(0, bundles, 3 * users)], 1).astype(np.int32)
    chosen = {tuple(pair) for pair in train.tolist()}
    held_out = np.array([pair for pair in np.unique(held_out, axis=0).tolist() if tuple(pair) not in chosen], np.int32)
    levels = torch.from_numpy(random.normal(size=(2, users, bundles))).float()
    found = fit_calibration(lambda some: levels[:, some], np.arange(users), graph, held_out)
    assert found[FEATURES + 2 :].tolist() == [1.0] * (MAX_LEVELS - 2)  # levels that the model does not have
    numbers, known = found[: FEATURES + 2].double().numpy(), features(graph, item_popularity(graph)).double().numpy()

    def loss(numbers: np.ndarray) -> float:
        table = levels.double().numpy().sum(0)
        is_cold, scales = cold_bundles(graph).numpy(), numbers[FEATURES:]
        added = known @ numbers[:FEATURES]
        table[:, is_cold] = (np.tensordot(scales, levels.double().numpy(), 1) + added)[:, is_cold]
        table[train[:, 0], train[:, 1]] = -np.inf
        likelihood = log_softmax(table, axis=1)[held_out[:, 0], held_out[:, 1]].mean()
        return float(RIDGE * ((numbers - NEUTRAL[: FEATURES + 2]) ** 2).sum() - likelihood)

    assert (numbers[FEATURES:] >= 0).all()
    for place, step in enumerate(np.eye(FEATURES + 2) * 0.05):
        best = loss(numbers) - 1e-5  # the search stops at such a slope
        assert best <= loss(numbers + step)
        assert best <= loss(numbers - step) or (place >= FEATURES and numbers[place] < 0.05)
    again = fit_calibration(lambda some: levels[:, some], np.arange(users), graph, held_out, tuple(found.tolist()))
    assert torch.allclose(again, found, atol=0.02)  # one maximum, wherever the search starts


def test_the_popularity_of_an_item_is_that_of_its_warm_bundles_with_one_average_bundle_more() -> None:
    # Bundle 0 (items 0, 1) has three users, bundle 1 (item 1) one, bundle 2 (items 1, 2) is cold.
    contents = Edges(pairs((0, 0), (0, 1), (1, 1), (2, 1), (2, 2)), (3, 3))
    graph = BundleGraph(Edges(pairs((0, 0), (1, 0), (2, 0), (2, 1)), (3, 3)), Edges(pairs(), (3, 3)), contents)
    half = (math.log(4) - math.log(2)) / 2  # bundle 0 is above the average of the warm ones by this, bundle 1 below
    assert item_popularity(graph).tolist() == pytest.approx([half / 2, 0, 0], abs=1e-6)
    means = [half / 4, 0, 0]
    expected = [[1, math.log(2), means[0]], [1, 0, means[1]], [1, math.log(2), means[2]]]
    assert np.allclose(features(graph, item_popularity(graph)).numpy(), expected, atol=1e-6)


def test_the_popularity_of_a_cold_bundles_items_raises_it_where_such_bundles_are_chosen() -> None:
    # Bundles 2 and 3 are cold; 2 shares its item with a bundle of many users, 3 with one of a single user.
    contents = Edges(pairs((0, 0), (1, 1), (2, 0), (3, 1)), (4, 2))
    train = pairs(*((user, 0) for user in range(6)), (0, 1))
    graph = BundleGraph(Edges(train, (9, 4)), Edges(pairs(), (9, 2)), contents)
    held_out = pairs(*((user, 2) for user in range(1, 7)), (7, 3), (8, 3))
    found = fit_calibration(zeros(4), np.arange(1, 9), graph, held_out)
    assert found[2] > 0.5


def test_without_cold_bundles_or_held_out_pairs_nothing_is_changed() -> None:
    warm = graph_of(pairs((0, 0), (0, 1)), [1, 2], users=2)
    assert fit_calibration(zeros(2), np.array([1]), warm, pairs((1, 0))).tolist() == [*NEUTRAL]
    some = graph_of(pairs((0, 0)), [1, 2], users=2)
    assert fit_calibration(zeros(2), np.array([1]), some, pairs((0, 1))).tolist() == [*NEUTRAL]


def test_a_fit_stays_finite_where_all_held_out_pairs_are_cold() -> None:
    graph = graph_of(pairs((0, 0)), [1, 2], users=3)
    found = fit_calibration(zeros(2), np.array([1, 2]), graph, pairs((1, 1), (2, 1)))
    assert found.isfinite().all() and found[0] > 2


def test_calibrated_scores_are_scaled_and_shifted_for_cold_bundles_alone() -> None:
    graph = graph_of(pairs((0, 0)), [1, 4], users=2)
    one = Level(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [5.0]]))
    other = Level(torch.tensor([[1.0], [1.0]]), torch.tensor([[7.0], [9.0]]))
    numbers = torch.tensor([-1.0, 0.5, 2.0, 2.0, 3.0, *NEUTRAL[FEATURES + 2 :]])
    popularity = torch.tensor([0.4, 0.0, 0.0, 0.0])  # of the four items: 0.1 on average
    vectors = Embeddings({"one": one, "other": other})
    calibrated = calibrate_cold(vectors, graph, numbers, torch.tensor([0.0, 1.0]), popularity)
    scores = calibrated.joined("users") @ calibrated.joined("bundles").T
    added = -1 + 0.5 * math.log(4) + 2 * 0.1
    assert torch.allclose(scores, torch.tensor([[10.0, 10 + 27 + added], [13.0, 20 + 27 + added]]))


def test_users_are_thinned_out_evenly() -> None:
    held_out = pairs(*((user, 0) for user in range(5_000)))
    assert len(calibration_users(held_out, 10)) == 1_000 and len(calibration_users(held_out, 10**6)) == 50
    assert calibration_users(pairs((3, 0), (3, 1), (9, 0)), 10).tolist() == [3, 9]


@pytest.fixture(scope="module")
def cold_data() -> BundleDataset:
    """A world in which a fifth of the bundles lost their training pairs, to validation and test by halves."""
    data = clbr.simulate("tiny").dataset
    cold = np.random.default_rng(1).permutation(len(data.bundles))[: len(data.bundles) // 5]
    where = np.isin(data.train[:, 1], cold)
    moved, half = data.train[where], np.isin(data.train[where][:, 1], cold[::2])
    both = [np.concatenate([data.validation, moved[half]]), np.concatenate([data.test, moved[~half]])]
    return replace(data, train=data.train[~where], validation=both[0], test=both[1])


def test_it_is_the_default_where_a_tenth_of_the_validation_pairs_is_cold(cold_data: BundleDataset) -> None:
    share = cold_share(cold_data.train, cold_data.validation, "bundles")
    assert share > 0.1
    by_data = defaults_by_data("trilevel", cold_data)
    assert compose("", "trilevel", by_data=by_data).settings["calibrate_cold"]
    assert not compose("", "trilevel", by_data=by_data, changes={"calibrate_cold": False}).settings["calibrate_cold"]
    warm = defaults_by_data("trilevel", clbr.simulate("tiny").dataset)
    assert not compose("", "trilevel", by_data=warm).settings["calibrate_cold"]
    assert "calibrate_cold" not in defaults_by_data("dam", cold_data)


def test_only_choosers_have_own_vectors_where_a_tenth_of_the_validation_pairs_is_of_cold_users() -> None:
    data = clbr.simulate("tiny").dataset
    few, many = (replace(data, train=data.train[data.train[:, 0] >= users]) for users in (20, 120))
    shares = [cold_share(one.train, one.validation, "users") for one in (few, many)]
    assert 0 < shares[0] < 0.1 < shares[1]
    found = [defaults_by_data("trilevel", one)["user_vectors"] for one in (data, few, many)]
    assert found == ["all", "all", "choosers"]
    by_data = defaults_by_data("trilevel", many)
    assert compose("", "trilevel", by_data=by_data).settings["user_vectors"] == "choosers"
    assert compose("", "trilevel", by_data=by_data, changes={"user_vectors": "all"}).settings["user_vectors"] == "all"
    assert "user_vectors" not in defaults_by_data("crosscbr", many)


def test_a_calibrated_model_finds_cold_bundles_and_another_does_not(cold_data: BundleDataset, tmp_path: Path) -> None:
    found = {}
    cold = cold_data.popularity[cold_data.test[:, 1]] == 0
    for calibrate in (False, True):
        changes = {"epochs": 15, "calibrate_cold": calibrate}
        folder = tmp_path / str(calibrate)
        start(folder, compose("", "trilevel", by_data={"batch_size": 256}, changes=changes), cold_data)
        result = evaluate(best_scorer(folder, cold_data), cold_data, split="test", ks=[20])
        found[calibrate] = (result.found(cold_data.test[cold], 20).mean(), result["recall@20"])
    assert found[True][0] > found[False][0] + 0.1 and found[True][1] > found[False][1]
    # served as evaluated, since the vectors of calibrated bundles are not filled in
    model = best_model(tmp_path / "True", cold_data)
    artifact = run_artifact(tmp_path / "True", cold_data)
    users = torch.arange(20)
    plain = model.scorer(BundleGraph.of(cold_data)).scores(users)
    warm_users = torch.from_numpy(np.bincount(cold_data.train[:, 0], minlength=len(cold_data.users))[:20] > 0)
    served = artifact.scorer.scores(users)[:, : len(cold_data.bundles)]
    assert torch.allclose(plain[warm_users], served[warm_users], atol=1e-4)
    # an edit of one user's choices leaves a bundle cold for all others, in one encoding and in many
    bundle = int(np.flatnonzero(cold_data.popularity == 0)[0])
    edits = EdgeEdits(add={"ub": pairs((0, bundle))})
    graph, fast = Reencoder(artifact.model, artifact.graph).user_scores(edits, 1)
    with torch.no_grad():
        vectors = artifact.model.calibrated(artifact.model.encode(graph), graph)
    assert fast[bundle] == pytest.approx(
        float(vectors.joined("users")[1] @ vectors.joined("bundles")[bundle]), abs=1e-4
    )
    assert vectors.levels[COLD_LEVEL].bundles[bundle] == artifact.embeddings.levels[COLD_LEVEL].bundles[bundle] != 0
    # the user whose choices are edited is moved, by the same step in one encoding and in many
    _, of_user = Reencoder(artifact.model, artifact.graph).user_scores(edits, 0)
    assert torch.equal(of_user, edited_state(artifact, edits).scores(0))
    # the unseen bundle is asked about as if it were known: nothing is added to its scores
    described = EdgeEdits(add={"bi": pairs((artifact.unseen_bundle, 0), (artifact.unseen_bundle, 1))})
    state = edited_state(artifact, described)
    assert state.embeddings.levels[COLD_LEVEL].bundles[artifact.unseen_bundle] == 0
    # reopened, updated, and asked about similar bundles
    reopened = open_artifact(save_artifact(artifact, tmp_path / "out", cold_data))
    assert torch.equal(reopened.scorer.scores(users), artifact.scorer.scores(users))
    assert "scores calibrated on validation" in (tmp_path / "out" / "card.md").read_text()
    chosen = {"user_bundle": pl.DataFrame({"user": [0, 1, 2], "bundle": [bundle] * 3})}
    updated = update(artifact, chosen).artifact
    assert updated.model.cold[bundle] == 0 and updated.model.cold.sum() == artifact.model.cold.sum() - 1
    warm_ones = [
        one.id for one in similar(artifact, "bundle", bundle, k=20).similar if cold_data.popularity[int(one.id)]
    ]
    assert warm_ones  # an offset of the scores does not keep cold bundles apart
    found = [one.id for one in similar(artifact, "bundle", bundle, k=20).similar]
    artifact.model.calibration[FEATURES:] = torch.tensor([9.0, 0.0, 1.0, *NEUTRAL[FEATURES + 3 :]])
    rescaled = Artifact.of(artifact.about, artifact.model, cold_data)
    assert [one.id for one in similar(rescaled, "bundle", bundle, k=20).similar] == found


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if hasattr(model, "calibrated")])
def test_every_encoder_with_an_objective_calibrates(name: str, cold_data: BundleDataset) -> None:
    if "calibrate_cold" not in MODELS[name].config_class.model_fields:
        pytest.skip(f"{name} has no objective to choose")
    model = make_model(name, {"calibrate_cold": True}, cold_data, torch_generator(0, "model"))
    graph = BundleGraph.of(cold_data)
    before = model.scorer(graph).scores(torch.arange(5))
    model.calibrate(graph, cold_data)
    after, cold = model.scorer(graph).scores(torch.arange(5)), cold_bundles(graph)
    assert torch.equal(before[:, ~cold], after[:, ~cold]) and not torch.equal(before[:, cold], after[:, cold])
    with torch.no_grad():
        levels = len(model.encode(graph).levels)
    scales = model.calibration[FEATURES:]
    assert (scales[:levels] != 1).all() and (scales[levels:] == 1).all() and (model.calibration[:FEATURES] != 0).all()


def test_the_pairs_of_warm_bundles_select_the_epoch() -> None:
    assert selecting_value({"recall@20": 0.5, f"{WARM}recall@20": 0.3}, "recall@20") == 0.3
    assert selecting_value({"recall@20": 0.5, f"{CROSS}recall@20": 0.2}, "recall@20") == 0.2
    assert selecting_value({"recall@20": 0.5}, "recall@20") == 0.5


def test_where_all_validation_pairs_are_cold_bundles_that_were_not_fitted_to_select_the_epoch(
    cold_data: BundleDataset,
) -> None:
    only = cold_data.validation[cold_data.popularity[cold_data.validation[:, 1]] == 0]
    data = replace(cold_data, validation=only)
    config = compose("", "trilevel", changes={"epochs": 2, "calibrate_cold": True, "batch_size": 256})
    model = make_model("trilevel", config.settings, data, torch_generator(0, "model"))
    epochs = [*train(model, make_optimizer(model, config.train), data, config.train, seed=0)]
    crossed = epochs[-1].validation[f"{CROSS}recall@20"]
    assert f"{WARM}recall@20" not in epochs[-1].validation and crossed != epochs[-1].validation["recall@20"]
    # by hand: fitted to the one half, measured on the other, and the last calibration is that of all pairs
    graph, kept = BundleGraph.of(data), model.calibration.clone()
    bundles = generator(0, "halves of cold bundles").permutation(np.unique(only[:, 1]))
    halves = [replace(data, validation=only[np.isin(only[:, 1], bundles[half::2])]) for half in (0, 1)]
    values = []
    for fitted, measured in (halves, halves[::-1]):
        model.calibrate(graph, fitted)
        values.append(evaluate(model.scorer(graph), measured, split="validation", ks=[20])["recall@20"])
    assert crossed == pytest.approx(sum(values) / 2, abs=0.02)
    model.calibrate(graph, data)
    assert torch.allclose(model.calibration, kept, atol=0.1)


def test_effects_of_items_are_scaled_by_level_and_by_popularity_for_cold_bundles_alone(
    cold_data: BundleDataset,
) -> None:
    model = make_model("trilevel", {"calibrate_cold": True}, cold_data, torch_generator(0, "model"))
    assert isinstance(model, Encoder)
    graph = BundleGraph.of(cold_data)
    model.mark_cold(graph)
    model.calibration.copy_(torch.tensor([-1.0, 0.5, 2.0, 4.0, 0.0, 3.0, *NEUTRAL[FEATURES + 3 :]]))
    with torch.no_grad():
        embeddings = model.calibrated(model.encode(graph), graph)
    users, levels = torch.tensor([3, 5]), embeddings.levels
    item, contents = (levels[name].users[users] @ levels[name].items.T for name in ("item", "contents"))
    cold, warm = (int(np.flatnonzero((cold_data.popularity == 0) == is_cold)[0]) for is_cold in (True, False))
    assert torch.allclose(item_effects(model, embeddings, graph, users, warm), item + contents)
    expected = 4 * item + 3 * contents + 2 * item_popularity(graph)
    assert torch.allclose(item_effects(model, embeddings, graph, users, cold), expected, atol=1e-6)


def test_more_levels_than_a_calibration_holds_is_an_error(cold_data: BundleDataset) -> None:
    model = make_model("bprmf", {"calibrate_cold": True}, cold_data, torch_generator(0, "model"))
    assert isinstance(model, Encoder)
    encode = model.encode
    model.encode = lambda graph, generator=None: Embeddings(  # type: ignore[method-assign]
        {str(number): next(iter(encode(graph).levels.values())) for number in range(MAX_LEVELS + 1)}
    )
    with pytest.raises(InputError, match="at most 8 levels, not 9; set calibrate_cold to false"):
        model.calibrate(BundleGraph.of(cold_data), cold_data)


def test_cold_share_counts_pairs() -> None:
    train, held_out = pairs((0, 0)), pairs((0, 0), (1, 0), (1, 1), (2, 1))
    assert cold_share(train, held_out, "bundles") == 2 / 4
    assert cold_share(train, held_out, "users") == 3 / 4
    assert cold_share(train, pairs(), "bundles") == 0
