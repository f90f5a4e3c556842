"""Commands that train with views and show them."""

import json
from pathlib import Path

import pytest

from clbr import World, save
from typed import Run, assert_refused


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    return save(tiny.dataset, tmp_path_factory.mktemp("data") / "shop")


def test_views_of_a_run_are_shown_with_names(run: Run, shop: Path, tiny: World) -> None:
    options = ("--paradigm", "clbr", "--epochs", "2", "--set", "ratio_ub=0.05", "--out", "runs/first")
    code, out, err = run("train", shop, "--model", "crosscbr", *options)
    assert (code, err) == (0, "note: the best epoch was the last; more than 2 may be better (--epochs)\n")
    code, out, err = run("views", "runs/first")
    assert (code, err) == (0, "")
    assert "4 views of tiny" in out
    assert "nodes left without an edge" in out
    assert "to users (bundles) without edges" in out and "more than half" not in out
    assert "Added, of the highest relevance to its selection model" in out
    best = out.split("Added, of the highest relevance")[1].splitlines()
    assert any(f"bundle {name}" in line for line in best for name in tiny.dataset.bundles.names or ())
    code, out, _ = run("views", "runs/first", "--json", "--pairs", "1")
    found = json.loads(out)
    assert [line["relation"] for line in found["relations"]] == ["ub", "ui", "bi"]
    assert found["relations"][0]["added"] + found["relations"][0]["dropped"] == 2915 * 5 // 100
    assert len(found["extremes"]) <= 6


def test_json_lines_are_the_runs_own_epochs_not_those_of_its_selection_model(run: Run, shop: Path) -> None:
    options = ("--paradigm", "clbr", "--epochs", "2", "--json", "--set", "ratio_ui=0", "--set", "ratio_bi=0")
    code, out, _ = run("train", shop, "--model", "lightgcn", *options, "--out", "runs/lines")
    assert code == 0
    assert out == Path("runs/lines/metrics.jsonl").read_text()


def test_a_relation_that_the_model_does_not_use_gives_a_warning(run: Run, shop: Path) -> None:
    options = ("--paradigm", "clbr", "--epochs", "1", "--set", "ratio_bi=0", "--out", "runs/light")
    code, _, err = run("train", shop, "--model", "lightgcn", *options)
    assert code == 0
    assert err.splitlines() == [
        "warning: lightgcn does not use user-item pairs: editing them has no effect (ratio_ui is taken as 0)"
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["sampler=dropout"], "the dropout sampler scores no pairs"),
        (
            ["sampler=stochastic", "additions=0.5"],
            "the stochastic sampler with a given share of additions scores no pairs",
        ),
        (["ratio_ub=0", "ratio_ui=0", "ratio_bi=0"], "these views edit nothing"),
        (["ratio_ub=0"], "these views edit nothing"),  # lightgcn uses no other relation
    ],
    ids=str,
)
def test_a_selection_run_that_no_sampler_would_use_is_an_error(
    run: Run, shop: Path, tmp_path: Path, words: list[str], why: str
) -> None:
    run("train", shop, "--model", "lightgcn", "--epochs", "1", "--out", "plain")
    changes = [part for word in words for part in ("--set", word)]
    command = ["train", str(shop), "--model", "lightgcn", "--paradigm", "clbr", *changes, "--selection", "plain"]
    command += ["--epochs", "1"]
    message = f"error: plain: a selection model is not needed, because {why}; leave it out (--selection)"
    assert_refused(run, tmp_path, [*command, "--out", "x"], message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "bprmf", "--paradigm", "clbr"], "bprmf computes no embeddings from a graph"),
        (["--model", "dam", "--paradigm", "casr"], "dam computes no embeddings from a graph"),
        (["--model", "bgcn", "--paradigm", "clrb"], "unknown paradigm 'clrb'"),
        (["--model", "bgcn", "--paradigm", "clbr", "--set", "ratio_ub=1.5"], "ratio_ub = 1.5"),
        (["--model", "bgcn", "--set", "ratio_ub=0.1"], "choose the paradigm clbr (--paradigm)"),
        (["--model", "bgcn", "--paradigm", "clbr", "--selection", "nowhere"], "no run there"),
        (["--model", "bgcn", "--paradigm", "casr", "--set", "sampler=heuristic"], "casr has its own sampler"),
        (
            ["--model", "bgcn", "--paradigm", "casr", "--set", "constraint=adaptive"],
            "for others choose the paradigm clbr",
        ),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(words: list[str], message: str, run: Run, shop: Path) -> None:
    code, out, err = run("train", shop, *words, "--out", "runs/x")
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1
    assert message in err
    assert not Path("runs").exists()


def test_views_without_edits_are_reported_as_the_factual_graph(run: Run, shop: Path) -> None:
    options = [word for relation in ("ub", "ui", "bi") for word in ("--set", f"ratio_{relation}=0")]
    run("train", shop, "--model", "lightgcn", "--paradigm", "clbr", "--epochs", "1", *options, "--out", "runs/none")
    code, out, err = run("views", "runs/none")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "runs/none: 4 views of tiny",
        "The views are the factual graph: nothing was edited.",
    ]
    assert json.loads(run("views", "runs/none", "--json")[1])["relations"] == []
    code, out, err = run("theory", "runs/none", "--like", "tiny")
    assert (code, err) == (0, "")
    assert "alignment users" in out and "The views are the factual graph: nothing was edited." in out.splitlines()
    assert "eta" not in out


def test_a_rule_that_accepts_most_pairs_is_reported(run: Run, shop: Path) -> None:
    options = (
        "--paradigm",
        "clbr",
        "--epochs",
        "1",
        "--set",
        "lower=1000",
        "--set",
        "ratio_bi=0",
        "--set",
        "ratio_ui=0",
    )
    run("train", shop, "--model", "lightgcn", *options, "--out", "runs/lax")
    code, out, err = run("views", "runs/lax")
    assert (code, err) == (0, "")
    (warning,) = [line for line in out.splitlines() if "more than half" in line]
    assert warning.startswith("user-bundle, drops: ") and warning.endswith("set lower nearer to 1.")


def test_settings_that_give_too_few_edits_leave_the_run_folder_free(run: Run, shop: Path) -> None:
    options = ("train", shop, "--model", "lightgcn", "--paradigm", "casr", "--epochs", "1", "--out", "runs/x")
    code, out, err = run(*options, "--set", "ratio_ub=0.9", "--set", "confident=0.001")
    assert (code, out) == (2, "")
    assert "lower ratio_ub, or set confident higher" in err and err.count("\n") == 1
    assert run(*options)[0] == 0
    assert run("views", "runs/x")[0] == 0


def test_views_of_a_run_without_a_best_epoch_are_shown_without_extreme_edits(run: Run, shop: Path) -> None:
    options = ("--paradigm", "clbr", "--set", "sampler=dropout", "--epochs", "1")
    run("train", shop, "--model", "crosscbr", *options, "--out", "runs/lost")
    assert "Dropped, of the lowest relevance to the trained model" in run("views", "runs/lost")[1]
    Path("runs/lost/best/model.safetensors").unlink()
    assert run("views", "runs/lost", "--pairs", "0")[0] == 0
    code, out, err = run("views", "runs/lost")
    assert (code, out) == (2, "") and "so it has no best epoch; train it further" in err


def test_showing_the_views_of_a_run_without_views_is_an_error(run: Run, shop: Path) -> None:
    run("train", shop, "--model", "bprmf", "--epochs", "1", "--out", "runs/plain")
    code, _, err = run("views", "runs/plain")
    assert code == 2
    assert "was trained without views; train a run with the paradigm clbr or casr" in err
