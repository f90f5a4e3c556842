import json
import re
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import pytest

from clbr import BundleDataset, World, fit, save
from clbr.models.registry import MODELS
from clbr.training import runtime as environment
from clbr.training.config import compose
from conftest import make_dataset
from typed import Run, assert_refused, snapshot

train_command = import_module("clbr.cli.train")


@pytest.fixture
def shop(tmp_path: Path, tiny: World) -> Path:
    return save(tiny.dataset, tmp_path / "shop")


def test_train_evaluate_and_compare_as_one_types_them(run: Run, shop: Path, tmp_path: Path) -> None:
    for model, seed in (("lightgcn", 0), ("lightgcn", 1), ("crosscbr", 0)):
        code, out, err = run(
            "train",
            shop,
            "--model",
            model,
            "--epochs",
            3,
            "--set",
            "learning_rate=0.01",
            "--seed",
            seed,
            "--out",
            f"{model}-{seed}",
        )
        assert code == 0, err
        assert f"next: clbr evaluate {model}-{seed}" in out
    code, out, _ = run("evaluate", "crosscbr-0", "--k", "5", "--json")
    assert code == 0
    assert 0 < json.loads(out)["recall@5"] < 1
    assert "NDCG@20" in run("evaluate", "crosscbr-0")[1]
    code, out, _ = run("compare", "lightgcn-0", "lightgcn-1", "crosscbr-0")
    assert code == 0
    assert "lightgcn, 2 seeds" in out
    assert "p " in out
    assert "p user by user where either has one seed: these trained models, nothing about others" in out


def test_every_contender_of_a_comparison_is_told_apart(run: Run, shop: Path, tmp_path: Path, tiny: World) -> None:
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


def test_a_run_without_a_best_epoch_is_not_evaluated(run: Run, shop: Path, tmp_path: Path) -> None:
    run("train", shop, "--model", "bprmf", "--epochs", 1, "--out", "run")
    (tmp_path / "run" / "best" / "model.safetensors").unlink()
    code, _, err = run("evaluate", "run")
    assert (code, "run: has not been looked at on validation yet" in err) == (2, True)


def test_json_tells_an_epoch_a_line(run: Run, shop: Path) -> None:
    code, out, _ = run("train", shop, "--model", "bprmf", "--epochs", 3, "--out", "run", "--json")
    assert code == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["number"] for line in lines] == [1, 2, 3]
    assert "recall@20" in lines[0]["validation"]


def test_a_finished_run_resumed_from_the_command_line_stays(run: Run, shop: Path, tmp_path: Path) -> None:
    run("train", shop, "--model", "bprmf", "--epochs", 2, "--out", "run")
    before = snapshot(tmp_path / "run")
    assert run("train", "--resume", "run")[0] == 0
    assert snapshot(tmp_path / "run") == before


@pytest.mark.parametrize(
    "words", [["--set", "learning_rate=1"], ["--seed", 0], ["--epochs", 9], ["--model", "bgcn"], ["--preset", "youshu"]]
)
def test_resuming_refuses_settings_and_other_data(run: Run, shop: Path, tmp_path: Path, words: list[object]) -> None:
    run("train", shop, "--model", "bprmf", "--epochs", 2, "--out", "run")
    other = save(make_dataset(), tmp_path / "other")
    before = snapshot(tmp_path)
    code, _, err = run("train", "--resume", "run", *words)
    assert (code, f"leave out {words[0]}" in err) == (2, True)
    code, _, err = run("train", other, "--resume", "run")
    assert (code, "is not the data set that run was trained on" in err) == (2, True)
    assert snapshot(tmp_path) == before


def test_resuming_uses_as_many_threads_as_the_run_began_with(
    run: Run, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("train", shop, "--model", "bprmf", "--epochs", 2, "--out", "run")
    told = tmp_path / "run" / "environment.json"
    told.write_text(re.sub(r'"threads": \d+', '"threads": 3', told.read_text()))
    asked: list[int | None] = []
    monkeypatch.setattr(environment, "use_threads", asked.append)
    run("train", "--resume", "run")
    run("train", "--resume", "run", "--threads", 1)
    assert asked == [3, 1]


def test_before_the_first_look_at_tune_no_best_is_told(
    run: Run, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_command, "ctrl_c", lambda first: nullcontext(lambda: True))  # Ctrl-C at once
    words = ("train", shop, "--model", "bprmf", "--epochs", 4, "--set", "evaluate_every=3", "--out")
    code, out, _ = run(*words, "run")
    assert (code, "run: bprmf, epoch 1, validation not looked at yet\ngo on: clbr train --resume run" in out) == (
        130,
        True,
    )
    _, out, err = run(*words, "other", "--json")
    assert len(out.splitlines()) == 1
    assert "go on: clbr train --resume other" in err


def test_models_are_listed_with_their_sizes(run: Run, shop: Path) -> None:
    assert "crosscbr" in run("models")[1]
    out = run("models", shop)[1]
    assert f"{(600 + 150) * 64:,}" in out


@pytest.mark.parametrize("model", MODELS)
def test_a_models_settings_are_listed_as_a_preset_that_changes_nothing(run: Run, tmp_path: Path, model: str) -> None:
    code, out, _ = run("models", "--settings", model)
    assert code == 0
    assert "# Adam's learning rate" in out
    (tmp_path / "listed.toml").write_text(out)
    assert compose("shop", model, preset=str(tmp_path / "listed.toml")) == compose("shop", model)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train"], "expected DATA, --model and --out, or --resume RUN"),
        (["train", "shop", "--model", "bgnc", "--out", "x"], "did you mean 'bgcn'?"),
        (["train", "shop", "--model", "bgcn", "--preset", "yoshu", "--out", "x"], "no preset 'yoshu' for bgcn"),
        (["train", "shop", "--model", "bgcn", "--set", "ratee=1", "--out", "x"], "did you mean 'rate'?"),
        (["train", "shop", "--model", "bgcn", "--set", "rate", "--out", "x"], "expected key=value"),
        (["train", "shop", "--model", "bgcn", "--set", "learning_rate=-1", "--out", "x"], "learning_rate = -1"),
        (["train", "shop", "--model", "bgcn", "--set", "layers=two", "--out", "x"], "layers"),
        (["train", "shop", "--model", "bgcn", "--set", "metric=recall@9999999", "--out", "x"], "metric"),
        (["train", "shop", "--model", "bgcn", "--set", "dimension=9999999999", "--out", "x"], "dimension"),
        (["train", "shop", "--model", "bgcn", "--threads", "99999", "--out", "x"], "1024"),
        (["train", "shop", "--model", "bgcn", "--out", "shop"], "is not empty"),
        (["train", "shop", "--model", "bgcn", "--out", "shop/user_item.txt"], "there is a file of this name"),
        (["train", "none", "--model", "bgcn", "--out", "x"], "no such folder"),
        (["train", "--resume", "shop"], "no run there"),
        (["evaluate", "shop"], "no run there"),
        (["evaluate", "none"], "no run there"),
        (["compare", "run"], "expected two contenders or more"),
        (["models", "none"], "no such folder"),
        (["models", "--settings", "bgnc"], "did you mean 'bgcn'?"),
    ],
)
def test_bad_input_is_one_message_exit_code_2_and_no_change(
    run: Run,
    shop: Path,
    tmp_path: Path,
    words: list[str],
    message: str,
) -> None:
    if words[0] == "compare":
        run("train", shop, "--model", "bprmf", "--epochs", 1, "--out", "run")
    assert_refused(run, tmp_path, words, message)


@pytest.mark.parametrize("told", ["DefaultCPUAllocator: can't allocate memory", "CUDA out of memory"])
def test_torch_short_of_memory_is_one_message(run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    def start(*given: object) -> None:
        raise RuntimeError(told)

    monkeypatch.setattr("clbr.training.run.start", start)
    code, _, err = run("train", shop, "--model", "bgcn", "--out", "x")
    assert (code, "error: not enough memory" in err) == (2, True)


def test_evaluating_on_other_data_or_without_weights_is_refused(run: Run, tmp_path: Path, tiny: World) -> None:
    data = save(tiny.dataset, tmp_path / "data")
    run("train", data, "--model", "bprmf", "--epochs", 1, "--out", "run")
    weights = tmp_path / "run" / "best" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    code, _, err = run("evaluate", "run")
    assert code == 2
    assert "not the weights of this model" in err
    save(make_dataset(), data, force=True)
    code, _, err = run("evaluate", "run")
    assert code == 2
    assert "is not the data set" in err


def test_runs_are_read_where_their_data_were_moved_to(run: Run, tmp_path: Path, tiny: World) -> None:
    data = save(tiny.dataset, tmp_path / "data")
    save(make_dataset(), tmp_path / "other")
    words = ("--epochs", 1, "--set", "sampler=dropout", "--set", "ratio_ui=0", "--set", "ratio_bi=0")
    run("train", data, "--model", "lightgcn", "--paradigm", "clbr", *words, "--out", "run")
    run("train", data, "--model", "bprmf", "--epochs", 1, "--out", "plain")
    commands = (["evaluate", "run"], ["compare", "run", "plain"], ["views", "run"], ["theory", "run"])
    before = {tuple(command): run(*command)[1] for command in commands}
    data.rename(tmp_path / "moved")
    gone = f"error: run: its data set is no longer at {data}; say where with --data PATH"
    for command in commands[:3]:
        assert_refused(run, tmp_path, command, gone)
    assert f"{data} is no longer there (say where it lies with --data)" in run("theory", "run")[1]
    for command in commands:
        assert run(*command, "--data", "moved") == (0, before[tuple(command)], "")
        assert_refused(
            run, tmp_path, [*command, "--data", "other"], "other: is not the data set that run was trained on"
        )
        assert_refused(run, tmp_path, [*command, "--data", "nowhere"], "nowhere: no such folder")
    assert_refused(run, tmp_path, ["export", "run", "--out", "made"], gone)
    assert run("export", "run", "--out", "made", "--data", "moved")[0] == 0
    assert_refused(run, tmp_path, ["train", "--resume", "run"], "to go on with it: clbr train PATH --resume run")


def test_a_run_from_python_is_told_where_its_data_lie(run: Run, shop: Path, tiny: World) -> None:
    fit(tiny.dataset, "bprmf", epochs=1, out="run")
    code, _, err = run("evaluate", "run")
    assert (code, "run: it does not know where its data set lies; say where with --data PATH" in err) == (2, True)
    assert run("evaluate", "run", "--data", shop)[0] == 0


@pytest.mark.parametrize("preset", ["youshu", "netease"])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_a_preset_for_both_data_sets_of_the_paper(model: str, preset: str) -> None:
    assert compose("shop", model, preset=preset).model == model


@pytest.mark.parametrize("preset", [p.stem for p in (Path(__file__).parents[2] / "src/clbr/presets").glob("*.toml")])
def test_every_preset_is_made_of_known_settings(preset: str) -> None:
    model, name = preset.split("-")
    assert compose("shop", model, preset=name).model == model
