from pathlib import Path

import numpy as np
import pytest
import torch

from clbr import BundleDataset, InputError, World
from clbr.models.registry import make_model
from clbr.rng import torch_generator
from clbr.training.config import TrainConfig
from clbr.training.loop import Epoch, make_optimizer, train
from conftest import make_dataset


def epochs(dataset: BundleDataset, model: str, settings: TrainConfig) -> list[Epoch]:
    trained = make_model(model, {}, dataset, torch_generator(0, "init"))
    return list(train(trained, make_optimizer(trained, settings), dataset, settings, seed=0))


def test_the_learning_rate_decays_by_its_factor(tiny: World) -> None:
    settings = TrainConfig(epochs=5, learning_rate=0.01, decay=0.5, decay_every=2, evaluate_every=9)
    model = make_model("bprmf", {}, tiny.dataset, torch_generator(0, "init"))
    optimizer = make_optimizer(model, settings)
    rates = [optimizer.param_groups[0]["lr"] for _ in train(model, optimizer, tiny.dataset, settings, seed=0)]
    assert rates == [0.01, 0.01, 0.005, 0.005, 0.0025]


def test_validation_is_evaluated_every_so_many_epochs_and_after_the_last(tiny: World) -> None:
    settings = TrainConfig(epochs=5, evaluate_every=2, metric="ndcg@7")
    found = epochs(tiny.dataset, "bprmf", settings)
    assert [bool(epoch.validation) for epoch in found] == [False, True, False, True, True]
    assert {"ndcg@7", "recall@20", "recall@40"} <= set(found[1].validation)


def test_each_step_is_reported_with_the_number_of_steps(tiny: World) -> None:
    settings, calls = TrainConfig(epochs=1, batch_size=1024), list[tuple[int, int]]()
    model = make_model("bprmf", {}, tiny.dataset, torch_generator(0, "init"))
    optimizer = make_optimizer(model, settings)
    list(train(model, optimizer, tiny.dataset, settings, seed=0, on_step=lambda *step: calls.append(step)))
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_a_loss_that_is_not_finite_stops_with_step_and_settings(tiny: World) -> None:
    message = r"the loss is (nan|inf) at epoch \d, step \d: dim=64.*learning_rate=1e\+30.*; try a lower learning_rate$"
    with pytest.raises(InputError, match=message):
        epochs(tiny.dataset, "lightgcn", TrainConfig(epochs=3, learning_rate=1e30))


def test_gradients_longer_than_clip_are_scaled_down(tiny: World, monkeypatch: pytest.MonkeyPatch) -> None:
    norms: list[float] = []
    step = torch.optim.Adam.step

    def record(optimizer: torch.optim.Adam, *given: object) -> object:
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        norms.append(torch.cat([gradient.flatten() for gradient in gradients]).norm().item())
        return step(optimizer, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.optim.Adam, "step", record)
    epochs(tiny.dataset, "bprmf", TrainConfig(epochs=1, clip=1e-3))
    assert norms and max(norms) <= 1e-3 * 1.001


def test_if_every_user_has_all_items_only_bundles_are_learned(tmp_path: Path) -> None:
    dataset = make_dataset(ui=np.array([[user, item] for user in range(3) for item in range(5)]))
    (epoch,) = epochs(dataset, "dam", TrainConfig(epochs=1))
    assert np.isfinite(list(epoch.losses.values())).all()


def test_if_every_user_has_all_bundles_there_is_nothing_to_learn() -> None:
    everything = np.array([[user, bundle] for user in range(2) for bundle in range(4)])
    dataset = make_dataset(train=everything, validation=np.array([[2, 0]]), test=np.array([[2, 1]]))
    with pytest.raises(InputError, match="small: every user with a bundle has all bundles, so there are no negatives"):
        epochs(dataset, "bprmf", TrainConfig(epochs=1))
