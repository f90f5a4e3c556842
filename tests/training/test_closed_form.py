"""Closed-form models are trained, stopped, resumed and evaluated like all models, in one epoch."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from clbr import InputError, World, save
from clbr.models.registry import BASELINES, baseline_scorer
from clbr.training import run as runs
from clbr.training.config import compose
from clbr.training.run_folder import best_scorer, evaluate_run, read_metrics


@pytest.mark.parametrize("baseline", BASELINES)
def test_a_run_of_a_closed_form_model_scores_as_the_baseline(baseline: str, tmp_path: Path, tiny: World) -> None:
    model, settings, _ = BASELINES[baseline]
    data = save(tiny.dataset, tmp_path / "shop")
    counters = runs.start(tmp_path / "run", compose(str(data), model, changes=settings), tiny.dataset)
    assert (counters.epoch, counters.best_epoch) == (1, 1)
    users = torch.arange(600)
    trained = best_scorer(tmp_path / "run", tiny.dataset)
    assert torch.equal(trained.scores(users), baseline_scorer(baseline, tiny.dataset).scores(users))
    (line,) = map(json.loads, read_metrics(tmp_path / "run"))
    assert (line["number"], line["losses"], line["measures"]) == (1, {}, {})
    result = evaluate_run(tmp_path / "run", split="validation", ks=[20])
    assert result["recall@20"] == counters.best == line["validation"]["recall@20"]


def test_a_finished_run_of_ease_does_not_change_when_it_is_resumed(tmp_path: Path, tiny: World) -> None:
    data = save(tiny.dataset, tmp_path / "shop")
    stop = runs.Callbacks(should_stop=lambda: True)
    runs.start(tmp_path / "run", compose(str(data), "ease", changes={"l2": 200.0}), tiny.dataset, stop)
    before = load_file(tmp_path / "run" / "best" / "model.safetensors")
    lines = read_metrics(tmp_path / "run")
    assert runs.is_trained(tmp_path / "run")
    assert runs.resume(tmp_path / "run").epoch == 1
    after = load_file(tmp_path / "run" / "best" / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert read_metrics(tmp_path / "run") == lines


def test_the_seed_is_accepted_and_changes_nothing(tmp_path: Path, tiny: World) -> None:
    for seed in (0, 7):
        runs.start(tmp_path / str(seed), compose("", "ease", seed=seed), tiny.dataset)
    one, other = (load_file(tmp_path / seed / "best" / "model.safetensors") for seed in "07")
    assert torch.equal(one["weights"], other["weights"])


@pytest.mark.parametrize("model", ["popularity", "overlap", "neighbours", "ease"])
@pytest.mark.parametrize("changes", [{"epochs": 30}, {"learning_rate": 0.01}, {"batch_size": 512}, {"clip": 1.0}])
def test_a_training_setting_of_a_closed_form_model_raises(model: str, changes: dict[str, object]) -> None:
    (setting,) = changes
    message = f"{model} is computed in closed form and has no setting '{setting}'; leave it out"
    with pytest.raises(InputError, match=message):
        compose("shop", model, changes=changes)


def test_the_metric_and_values_that_a_closed_form_model_has_anyway_are_accepted() -> None:
    config = compose("shop", "ease", changes={"metric": "ndcg@5", "epochs": 1, "l2": 200.0})
    assert (config.train.epochs, config.train.metric, config.settings["l2"]) == (1, "ndcg@5", 200.0)
    changes = config.settings | config.train.model_dump(mode="json")
    assert compose("shop", "ease", changes=changes) == config
