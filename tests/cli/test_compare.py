from pathlib import Path

import pytest

from clbr import BundleDataset, World, save
from clbr.models.base import ClosedForm
from clbr.models.registry import MODELS
from clbr.training.config import compose
from typed import Run


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
    assert out.splitlines()[1].split() == ["1/run", "2/run", "3/run"]
    code, _, err = run("compare", "1/run", "1/run", "2/run")
    assert (code, "1/run: is the same run as 1/run" in err) == (2, True)
    moved = save(tiny.dataset, tmp_path / "moved")
    run("train", moved, "--model", "bprmf", "--epochs", 1, "--set", "learning_rate=0.01", "--seed", 1, "--out", "seed")
    assert "1/run, 2 seeds" in run("compare", "1/run", "seed", "2/run")[1]


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
    assert list(kinds) == list(MODELS) and len(kinds) == 10
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
    assert compose("shop", model, preset=str(tmp_path / "listed.toml")) == compose("shop", model)
