import json
from pathlib import Path
from typing import Literal

import pytest

from clbr import BundleDataset, World, save
from clbr.evaluation.baselines import best_baseline, tune_baselines
from clbr.evaluation.protocol import labelled
from clbr.models.base import ClosedForm
from clbr.models.registry import MODELS
from clbr.training.config import compose
from typed import Run

SPLITS: tuple[Literal["validation", "test"], ...] = ("validation", "test")


@pytest.fixture
def shop(tmp_path: Path, tiny: World) -> Path:
    return save(tiny.dataset, tmp_path / "shop")


def test_runs_of_one_model_are_labelled_by_their_folders(run: Run, shop: Path, tmp_path: Path, tiny: World) -> None:
    for rate in (1, 2, 3):
        run(
            "train",
            shop,
            "--model",
            "bprmf",
            "--epochs",
            1,
            "--set",
            f"learning_rate=0.0{rate}",
            "--out",
            f"{rate}/run",
        )
    code, out, _ = run("compare", "1/run", "2/run", "3/run", "--split", "validation")
    assert code == 0
    assert out.splitlines()[1].split() == ["1/run", "2/run", "3/run", "best", "baseline"]
    code, _, err = run("compare", "1/run", "1/run", "2/run")
    assert (code, "1/run: is the same run as 1/run" in err) == (2, True)
    moved = save(tiny.dataset, tmp_path / "moved")
    run("train", moved, "--model", "bprmf", "--epochs", 1, "--set", "learning_rate=0.01", "--seed", 1, "--out", "seed")
    assert "1/run, 2 seeds" in run("compare", "1/run", "seed", "2/run")[1]


def test_the_best_baseline_stands_beside_a_model_wherever_it_is_measured(run: Run, shop: Path, tiny: World) -> None:
    best = {split: best_baseline(tiny.dataset, split=split) for split in SPLITS}
    note = "The baseline and its settings were chosen on validation by recall@20."
    code, out, _ = run("train", shop, "--model", "bprmf", "--epochs", 1, "--out", "weak")
    assert code == 0
    weak = f"bprmf is below the best baseline, {best['validation'].label}: recall@20"
    reached = f"against {100 * best['validation'].means['recall@20']:.2f} percent."
    assert next(line for line in out.splitlines() if line.startswith(weak)).endswith(reached)
    assert note in out.splitlines()
    assert best["validation"].name == "neighbours"
    chosen = [f"--set={key}={value}" for key, value in best["validation"].settings.items()]
    code, out, _ = run("train", shop, "--model", "neighbours", *chosen, "--out", "strong")
    assert code == 0 and "is below" not in out and "Best baseline: neighbours (" in out
    assert "is below" in run("train", shop, "--model", "bprmf", "--epochs", 1, "--json", "--out", "quiet")[2]

    figure = f"{100 * best['test'].means['ndcg@20']:.2f}"
    code, out, _ = run("evaluate", "weak")
    assert (code, out.splitlines()[1].split()) == (0, ["bprmf", "best", "baseline"])
    assert [line.split()[-1] for line in out.splitlines() if line.startswith("NDCG@20")] == [figure]
    assert "bprmf is below the best baseline" in out and note in out
    found = json.loads(run("evaluate", "weak", "--json")[1])
    assert found["baseline"] == best["test"].model_dump(mode="json") and found["recall@20"] > 0

    code, out, _ = run("compare", "weak", "strong")
    assert code == 0 and "strong" not in out
    assert [line.split()[-1] for line in out.splitlines() if line.startswith("ndcg@20")] == [figure]
    assert f"Best baseline: {best['test'].label}." in out
    assert "bprmf is below the best baseline" in out and "neighbours is below" not in out


def test_baselines_are_shown_with_their_settings_and_the_best_one(run: Run, shop: Path, tiny: World) -> None:
    tuned = tune_baselines(tiny.dataset)
    code, out, _ = run("baselines", shop)
    assert code == 0
    for name, settings in tuned.settings.items():
        assert labelled(name, settings) in out
    assert f"Best on validation: {tuned.best}." in out
    found = json.loads(run("baselines", shop, "--json")[1])
    assert {name: values["settings"] for name, values in found.items()} == tuned.settings


def test_runs_on_different_data_are_not_compared(run: Run, shop: Path, tmp_path: Path, tiny: World) -> None:
    parts = {
        name: getattr(tiny.dataset, name) for name in ("users", "bundles", "items", "train", "validation", "test", "bi")
    }
    other = save(BundleDataset(name="other", ui=tiny.dataset.ui[1:], **parts), tmp_path / "other")
    run("train", shop, "--model", "bprmf", "--epochs", 1, "--out", "one")
    run("train", other, "--model", "lightgcn", "--epochs", 1, "--out", "two")
    code, _, err = run("compare", "one", "two")
    assert (code, "the runs are on different data" in err) == (2, True)


def test_models_are_listed_with_their_sizes(run: Run, shop: Path) -> None:
    kinds = {line.split()[0]: line for line in run("models")[1].splitlines()[2:]}
    assert list(kinds) == list(MODELS)
    for model, kind in {
        "popularity": "closed form",
        "ease": "closed form",
        "dam": "network",
        "bgcn": "vectors",
    }.items():
        assert kind in kinds[model]
    out = run("models", shop)[1]
    assert f"{(600 + 150) * 64:,}" in out
    assert f"{150 * 150:,}" in out


@pytest.mark.parametrize("model", MODELS)
def test_a_models_settings_are_listed_as_a_preset_that_changes_nothing(run: Run, tmp_path: Path, model: str) -> None:
    code, out, _ = run("models", "--settings", model)
    assert code == 0
    assert ("# Adam's learning rate" in out) is not issubclass(MODELS[model], ClosedForm)
    (tmp_path / "listed.toml").write_text(out)
    by_data = (
        {} if issubclass(MODELS[model], ClosedForm) else {"batch_size": 8192} | MODELS[model].defaults_for(350_000)
    )
    for options in ({}, {"by_data": by_data}):  # what follows from the data is a comment
        listed = compose("shop", model, preset=str(tmp_path / "listed.toml"), **options)
        assert listed == compose("shop", model, **options)
