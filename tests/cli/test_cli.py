import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clbr import BundleDataset, load, save
from clbr.models.registry import BASELINES
from conftest import SHARED, make_dataset
from typed import Run, assert_refused, snapshot


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return save(make_dataset(), tmp_path / "small")


def write_tables(folder: Path) -> list[str]:
    (folder / "carts.csv").write_text("customer,cart\n" + "".join(f"c{u},k{b}\n" for u in range(4) for b in range(5)))
    (folder / "bought.csv").write_text("customer,sku\nc0,s1\nc1,s2\nc1,s2\n")
    (folder / "contents.csv").write_text("cart,sku\n" + "".join(f"k{b},s{b}\n" for b in range(5)))
    return ["--user-bundle", "carts.csv", "--user-item", "bought.csv", "--bundle-item", "contents.csv",
            "--columns", "user=customer,bundle=cart,item=sku"]  # fmt: skip


def test_help_comes_without_heavy_imports() -> None:
    script = (
        "import sys; sys.argv = ['clbr', '--help']\n"
        "from clbr.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'scipy', 'polars', 'numba', 'pydantic', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "clbr demo" in done.stdout


def test_training_and_serving_start_without_imports_that_only_some_need() -> None:
    script = (
        "import sys, clbr.training.run, clbr.service.app\n"
        "slow = {'scipy.optimize', 'scipy.stats', 'pandas', 'optuna', 'ray', 'faiss', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_command_explains_itself(run: Run) -> None:
    for words in (
        ["data"],
        ["data", "import"],
        ["data", "get"],
        ["data", "simulate"],
        ["data", "describe"],
        ["baselines"],
        ["models"],
        ["train"],
        ["evaluate"],
        ["compare"],
        ["tune"],
        ["update"],
        ["views"],
        ["theory"],
        ["export"],
        ["recommend"],
        ["similar"],
        ["find"],
        ["show"],
        ["whatif"],
        ["audience"],
        ["explain"],
        ["suggest"],
        ["serve"],
        ["experiment", "run"],
        ["experiment", "report"],
        ["demo"],
    ):
        code, out, _ = run(*words, "--help")
        assert code == 0
        assert "Usage" in out
        assert words == ["data"] or "Example: clbr" in out
    assert run("--version")[1].startswith("clbr 0.")


def test_every_command_is_tested_for_its_help() -> None:
    import typer

    from clbr.cli import app

    command = typer.main.get_command(app)
    names = set(getattr(command, "commands", {})) - {"data", "experiment"}
    text = Path(__file__).read_text()
    assert all(f'["{name}"],' in text for name in names)


def test_describe_prints_the_counts_for_people_and_for_machines(run: Run, data: Path) -> None:
    code, out, _ = run("data", "describe", data)
    assert code == 0
    assert "user-bundle" in out
    assert "users without a training bundle" in out
    code, out, _ = run("data", "describe", data, data, "--json")
    assert [json.loads(line)["users"] for line in out.splitlines()] == [3, 3]


def test_describe_draws_a_picture(run: Run, data: Path, tmp_path: Path) -> None:
    code, out, _ = run("data", "describe", data, "--plot", "degrees.png")
    assert code == 0
    assert "degrees.png" in out
    assert (tmp_path / "degrees.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "pairs"), [("Youshu", (49_351, 138_515, 176_667)), ("NetEasePartial", (302_276, 486_149, 694_918))]
)
def test_describe_prints_the_true_counts_of_real_data(
    run: Run, real: Callable[[str], BundleDataset], name: str, pairs: tuple[int, ...]
) -> None:
    real(name)
    found = json.loads(run("data", "describe", SHARED / name, "--json")[1])
    assert tuple(found["relations"][r]["pairs"] for r in ("user_bundle", "user_item", "bundle_item")) == pairs


def test_simulate_writes_a_folder_that_the_other_commands_take(run: Run, tmp_path: Path) -> None:
    assert run("data", "simulate", "--like", "tiny", "--seed", 3, "--out", "shop")[0] == 0
    assert run("data", "describe", "shop")[0] == 0
    code, out, _ = run("baselines", "shop", "--k", "5", "--json")
    assert code == 0
    assert set(json.loads(out)) == set(BASELINES)
    assert "seed = 3" in (tmp_path / "shop" / "origin.toml").read_text()
    assert load(tmp_path / "shop").items.names is not None


def test_import_makes_a_folder_of_three_tables_and_counts_what_it_merged(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("data", "import", *write_tables(tmp_path), "--out", "shop", "--split", "random", "--seed", 1)
    assert code == 0
    assert "repeated, merged" in out
    dataset = load(tmp_path / "shop")
    assert (dataset.name, len(dataset.users), len(dataset.ui)) == ("shop", 4, 2)
    assert dict(dataset.merged) == {}
    assert "user_item = 1" in (tmp_path / "shop" / "origin.toml").read_text()


def test_import_takes_names_and_says_what_it_left_out(run: Run, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("cart,name\nk0,Breakfast\nk99,Nothing\n")
    columns = write_tables(tmp_path)
    code, out, _ = run("data", "import", *columns, "--out", "shop", "--bundle-names", "names.csv")
    assert code == 0
    assert "1 names were left out: their ids are in none of the three tables" in out
    assert load(tmp_path / "shop").bundles.names == ("Breakfast", None, None, None, None)


def test_get_fetches_unpacks_and_says_what_is_published(run: Run, data: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "czf", "small.tgz", "small"], cwd=tmp_path, check=True)
    code, out, _ = run("data", "get", "small", "--url", f"file://{tmp_path}/small.tgz", "--out", "copy")
    assert code == 0
    assert "BundleDataset(small: 3 users" in out
    assert "nothing is published under the name small" in out
    assert snapshot(tmp_path / "copy") == snapshot(data)


def test_baselines_on_validation_and_with_validation_pairs_masked(run: Run, data: Path) -> None:
    means = {
        words: json.loads(run("baselines", data, "--k", "1", "--json", *words)[1])["popularity"]["recall@1"]
        for words in ((), ("--mask-validation",), ("--split", "validation"))
    }
    assert means == {(): 0.0, ("--mask-validation",): 0.75, ("--split", "validation"): 1.0}


def test_figures_of_a_set_that_is_not_the_published_one_say_so(run: Run, tmp_path: Path) -> None:
    save(make_dataset(name="Youshu"), tmp_path / "fake")
    assert "not comparable" in run("baselines", "fake", "--k", "1")[1]
    assert "not comparable" in run("data", "describe", "fake")[1]


def test_tables_fit_a_narrow_terminal_and_are_not_cut_when_piped(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = run("baselines", data, "--k", "1,2,3,4")[1]
    assert "\u2026" not in out
    assert "NDCG@4" in out


def test_names_with_brackets_are_shown_as_they_are(run: Run, data: Path, tmp_path: Path) -> None:
    columns = write_tables(tmp_path)
    (tmp_path / "carts.csv").rename(tmp_path / "carts[old].csv")
    columns[1] = "carts[old].csv"
    code, out, _ = run("data", "import", *columns, "--out", "x[/11]", "--name", "eleven")
    assert code == 0
    assert "carts[old].csv" in out
    assert "x[/11]" in out


def test_tune_prints_its_budget_and_leaves_a_preset_that_train_takes(run: Run, data: Path) -> None:
    words = [
        "tune",
        data,
        "--model",
        "bprmf",
        "--trials",
        2,
        "--epochs",
        2,
        "--set",
        "metric=ndcg@2",
        "--out",
        "study",
    ]
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    assert "2 of 2" in out
    assert "--preset study/best.toml" in out
    record = json.loads(run(*words, "--json")[1])
    assert (record["model"], record["metric"], record["trials"], record["finished"]) == ("bprmf", "ndcg@2", 2, 2)
    assert run("train", data, "--model", "bprmf", "--preset", "study/best.toml", "--out", "run", "--json")[0] == 0


def test_the_demo_fits_a_narrow_terminal_and_shows_a_customer_and_what_to_type_next(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run("demo")
    assert code == 0
    assert "\u2026" not in out
    parts = (
        "popularity",
        "is offered",
        "would choose next",
        "best baseline",
        "New data without retraining",
        "clbr data import",
    )
    for words in parts:
        assert words in out


BAD: list[tuple[list[str], str]] = [
    (["data", "describe", "none"], "no such folder"),
    (["data", "describe", "small", "--plot", "x.bmp"], "expected a name that ends in"),
    (["data", "describe", "small", "--plot", "no/folder/x.png"], "cannot be written"),
    (["data", "simulate", "--out", "small"], "is not empty"),
    (["data", "simulate", "--out", "mine", "--force"], "holds other things"),
    (["data", "simulate", "--out", "x", "--scale", "0"], "scale"),
    (["data", "simulate", "--out", "x", "--like", "yousho"], "yousho"),
    (["data", "import", "--user-bundle", "a.csv", "--user-item", "b", "--bundle-item", "c", "--out", "x"], "a.csv: no such file"),
    (["data", "import", *["--user-bundle", "mine/a.txt"] * 1, "--user-item", "b", "--bundle-item", "c", "--out", "x", "--columns", "user"], "expected role=column"),
    (["data", "import", "--user-bundle", "mine/a.txt", "--user-item", "b", "--bundle-item", "c", "--out", "x", "--validation", "0.9", "--test", "0.9"], "leave nothing to train on"),
    (["data", "get", "x", "--url", "nowhere"], "expected an address"),
    (["baselines", "small", "--k", "0"], "--k 0: expected whole numbers from 1"),
    (["baselines", "small", "--k", "ten"], "--k ten"),
    (["baselines", "small", "--k", "9" * 5000], "--k 999"),
    (["data", "simulate", "--out", "x", "--scale", "0.001"], "has no pairs for"),
    (["data", "simulate", "--out", "x", "--like", "netease", "--scale", "500"], "pairs, expected between"),
    (["data", "simulate", "--out", "table", "--force"], "holds other things"),
    (["data", "get", "x", "--url", "http://[::1"], "cannot be fetched"),
    (["baselines", "small", "--split", "train"], "train"),
    (["baselines", "none"], "no such folder"),
    (["tune", "small", "--model", "bgnc", "--trials", "2", "--out", "x"], "did you mean 'bgcn'?"),
    (["tune", "small", "--model", "bprmf", "--trials", "0", "--out", "x"], "--trials"),
    (["tune", "small", "--model", "bprmf", "--trials", "99", "--out", "x"], "trials 99: expected 1 to 60, the number of settings in the search space (--trials)"),
    (["tune", "small", "--model", "bprmf", "--trials", "2", "--out", "mine"], "holds other things"),
    (["tune", "small", "--model", "bprmf", "--trials", "2", "--out", "x", "--set", "learning_rate"], "expected key=value"),
    (["tune", "none", "--model", "bprmf", "--trials", "2", "--out", "x"], "no such folder"),
    (["baseline", "small"], "No such command"),
    (["data", "simulate"], "--out"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), BAD)
def test_bad_input_is_one_message_exit_code_2_and_no_change(
    run: Run, data: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.txt").write_text("user\tbundle\nx\ty\n")
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "users.csv").write_text("mine")
    assert_refused(run, tmp_path, words, message)


def test_a_disk_that_fills_up_is_one_message_and_leaves_what_was_there(data: Path, tmp_path: Path) -> None:
    """In a process that may write no file beyond 8 kB: the system refuses it as it does on a full disk."""
    before = snapshot(tmp_path)
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))  # noqa: E731
    command = [sys.executable, "-c", "from clbr.cli import main; main()"]
    done = subprocess.run(
        [*command, "data", "simulate", "--out", str(data), "--force"],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert snapshot(tmp_path) == before


def test_a_reader_that_goes_away_is_no_error_message(data: Path) -> None:
    command = f"{sys.executable} -c 'from clbr.cli import main; main()' data describe {data} --json | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
