import json
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from clbr import World, save
from clbr.training import runtime
from clbr.training.config import compose
from clbr.training.run import start
from clbr.training.run_folder import read_config
from conftest import make_dataset
from typed import Run, assert_refused, snapshot


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


def test_the_default_model_is_trained_and_a_best_epoch_that_is_the_last_is_said(run: Run, shop: Path) -> None:
    code, out, err = run("train", shop, "--epochs", 2, "--out", "run")
    assert (code, "run: trilevel, epoch 2, best recall@20" in out, "at epoch 2" in out) == (0, True, True)
    assert "note: the best epoch was the last; more than 2 may be better (--epochs)" in err
    code, _, err = run("train", shop, "--model", "popularity", "--out", "other")
    assert (code, "note:" in err) == (0, False)


def test_a_run_without_a_best_epoch_is_not_evaluated(run: Run, shop: Path, tmp_path: Path) -> None:
    run("train", shop, "--model", "bprmf", "--epochs", 1, "--out", "run")
    (tmp_path / "run" / "best" / "model.safetensors").unlink()
    code, _, err = run("evaluate", "run")
    assert (code, "run: was not evaluated on validation yet" in err) == (2, True)


def test_json_prints_a_line_for_each_epoch(run: Run, shop: Path) -> None:
    code, out, _ = run("train", shop, "--model", "bprmf", "--epochs", 3, "--out", "run", "--json")
    assert code == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["number"] for line in lines] == [1, 2, 3]
    assert "recall@20" in lines[0]["validation"]


def test_a_finished_run_resumed_from_the_command_line_does_not_change(run: Run, shop: Path, tmp_path: Path) -> None:
    run("train", shop, "--model", "bprmf", "--epochs", 2, "--out", "run")
    before = snapshot(tmp_path / "run")
    assert run("train", "--resume", "run")[0] == 0
    assert snapshot(tmp_path / "run") == before


@pytest.mark.parametrize(
    "words", [["--set", "learning_rate=1"], ["--seed", 0], ["--epochs", 9], ["--model", "bgcn"], ["--preset", "youshu"]]
)
def test_resuming_with_settings_or_other_data_is_an_error(
    run: Run, shop: Path, tmp_path: Path, words: list[object]
) -> None:
    run("train", shop, "--model", "bprmf", "--epochs", 2, "--out", "run")
    other = save(make_dataset(), tmp_path / "other")
    before = snapshot(tmp_path)
    code, _, err = run("train", "--resume", "run", *words)
    assert (code, f"leave out {words[0]}" in err) == (2, True)
    code, _, err = run("train", other, "--resume", "run")
    assert (code, "is not the data set that run was trained on" in err) == (2, True)
    assert snapshot(tmp_path) == before


def test_resuming_uses_as_many_threads_as_the_run_was_started_with(
    run: Run, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("train", shop, "--model", "bprmf", "--epochs", 2, "--out", "run")
    path = tmp_path / "run" / "environment.json"
    path.write_text(re.sub(r'"threads": \d+', '"threads": 3', path.read_text()))
    used: list[int | None] = []
    monkeypatch.setattr(runtime, "use_threads", used.append)
    run("train", "--resume", "run")
    run("train", "--resume", "run", "--threads", 1)
    path.write_text(path.read_text().replace('"processes": 1', '"processes": 4'))
    run("train", "--resume", "run")  # 3 were those of one process of four: one process has all cores
    assert used == [3, 1, None]


def test_no_best_epoch_is_printed_before_the_first_evaluation(
    run: Run, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "interruptible", lambda message: nullcontext(lambda: True))  # Ctrl-C at once
    words = ("train", shop, "--model", "bprmf", "--epochs", 4, "--set", "evaluate_every=3", "--out")
    code, out, _ = run(*words, "run")
    assert code == 130
    assert "run: bprmf, epoch 1, not evaluated on validation yet\nresume: clbr train --resume run" in out
    _, out, err = run(*words, "other", "--json")
    assert len(out.splitlines()) == 1
    assert "resume: clbr train --resume other" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train"], "expected DATA and --out, or --resume RUN"),
        (["train", "shop", "--model", "bgnc", "--out", "x"], "did you mean 'bgcn'?"),
        (["train", "shop", "--model", "bgcn", "--preset", "yoshu", "--out", "x"], "no preset 'yoshu' for bgcn"),
        (
            ["train", "shop", "--model", "bgcn", "--set", "learning_rat=1", "--out", "x"],
            "did you mean 'learning_rate'?",
        ),
        (["train", "shop", "--model", "bgcn", "--set", "rate", "--out", "x"], "expected key=value"),
        (["train", "shop", "--model", "bgcn", "--set", "learning_rate=-1", "--out", "x"], "learning_rate = -1"),
        (["train", "shop", "--model", "bgcn", "--set", "layers=two", "--out", "x"], "layers"),
        (["train", "shop", "--model", "bgcn", "--set", "metric=recall@9999999", "--out", "x"], "metric"),
        (["train", "shop", "--model", "bgcn", "--set", "dim=9999999999", "--out", "x"], "dim"),
        (["train", "shop", "--model", "bgcn", "--threads", "99999", "--out", "x"], "1024"),
        (["train", "shop", "--model", "bgcn", "--out", "shop"], "resume the run in it (--out, --resume)"),
        (["train", "shop", "--model", "bgcn", "--set", "omega_u=1", "--out", "x"], "the paradigm clbr (--paradigm)"),
        (["train", "shop", "--model", "ease", "--epochs", "3", "--out", "x"], "ease is computed in closed form"),
        (["train", "shop", "--model", "ease", "--paradigm", "clbr", "--out", "x"], "ease computes no embeddings"),
        (["train", "shop", "--model", "bgcn", "--out", "shop/user_item.txt"], "there is a file of this name"),
        (["train", "none", "--model", "bgcn", "--out", "x"], "no such folder"),
        (["train", "--resume", "shop"], "no run there"),
        (["evaluate", "shop"], "no run there"),
        (["evaluate", "none"], "no run there"),
        (["compare", "run"], "expected two different runs or more"),
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


@pytest.mark.parametrize("message", ["DefaultCPUAllocator: can't allocate memory", "CUDA out of memory"])
def test_torch_short_of_memory_is_one_message(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    def start(*given: object) -> None:
        raise RuntimeError(message)

    monkeypatch.setattr("clbr.training.run.start", start)
    code, _, err = run("train", shop, "--model", "bgcn", "--out", "x")
    assert (code, "error: not enough memory" in err) == (2, True)


def test_evaluating_on_other_data_or_without_weights_is_an_error(run: Run, tmp_path: Path, tiny: World) -> None:
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
    gone = f"error: run: its data set is no longer at {data}; give the data folder (--data)"
    for command in commands[:3]:
        assert_refused(run, tmp_path, command, gone)
    assert f"{data} does not exist any more (give its new path with --data)" in run("theory", "run")[1]
    for command in commands:
        assert run(*command, "--data", "moved") == (0, before[tuple(command)], "")
        assert_refused(
            run, tmp_path, [*command, "--data", "other"], "other: is not the data set that run was trained on"
        )
        assert_refused(run, tmp_path, [*command, "--data", "nowhere"], "nowhere: no such folder")
    assert_refused(run, tmp_path, ["export", "run", "--out", "made"], gone)
    assert run("export", "run", "--out", "made", "--data", "moved")[0] == 0
    assert_refused(
        run,
        tmp_path,
        ["train", "--resume", "run"],
        f"no longer at {data}; give the data folder: clbr train DATA --resume run",
    )


def test_a_run_without_a_data_folder_is_evaluated_on_a_given_one(run: Run, shop: Path, tiny: World) -> None:
    start(Path("run"), compose("", "bprmf", changes={"epochs": 1}), tiny.dataset)
    code, _, err = run("evaluate", "run")
    assert (code, "run: it has no record of a data folder; give the data folder (--data)" in err) == (2, True)
    assert run("evaluate", "run", "--data", shop)[0] == 0


def test_a_closed_form_model_is_trained_evaluated_compared_and_resumed(run: Run, shop: Path, tmp_path: Path) -> None:
    code, out, err = run("train", shop, "--model", "ease", "--set", "l2=200.0", "--seed", 3, "--out", "ease")
    assert (code, "ease: ease, epoch 1, best recall@20 on validation" in out) == (0, True), err
    assert run("train", shop, "--model", "popularity", "--out", "popular")[0] == 0
    before = snapshot(tmp_path / "ease")
    assert run("train", "--resume", "ease")[0] == 0
    assert snapshot(tmp_path / "ease") == before
    ease, popular = (json.loads(run("evaluate", name, "--json")[1])["recall@20"] for name in ("ease", "popular"))
    assert ease > popular
    code, out, _ = run("compare", "popular", "ease")
    assert (code, out.splitlines()[1].split()) == (0, ["popularity", "ease", "best", "baseline"])


def test_a_whole_number_is_a_valid_l2_on_the_command_line(run: Run, shop: Path) -> None:
    assert run("train", shop, "--model", "ease", "--set", "l2=200", "--out", "ease")[0] == 0


def test_the_preset_that_is_used_is_printed_to_stderr(run: Run, tmp_path: Path, tiny: World) -> None:
    data = save(replace(tiny.dataset, name="youshu-like-x0.1"), tmp_path / "like")
    words = (
        "train",
        data,
        "--model",
        "bgcn",
        "--paradigm",
        "clbr",
        "--epochs",
        1,
        "--set",
        "sampler=dropout",
        "--json",
    )
    note = "preset youshu-clbr-contrastive, chosen by the name of the data set, youshu-like-x0.1"
    constraint = "preset youshu-clbr-contrastive: its constraint is 'contrastive', not the paper's 'adaptive'"
    code, out, err = run(*words, "--out", "automatic")
    assert (code, err.splitlines()[:2]) == (0, [note, constraint])
    assert [json.loads(line)["number"] for line in out.splitlines()] == [1]
    code, _, err = run(*words, "--preset", "youshu-clbr-contrastive", "--out", "named")
    assert (code, err.splitlines()[:2]) == (0, ["preset youshu-clbr-contrastive", constraint])
    assert read_config(tmp_path / "automatic") == read_config(tmp_path / "named")
    code, _, err = run(*words, "--preset", "none", "--out", "defaults")
    assert code == 0 and "preset" not in err
    views = read_config(tmp_path / "defaults").views
    assert views is not None and views.constraint == "adaptive"
