import json
import shutil
from pathlib import Path

import pytest

from clbr import World, load, save
from clbr.simulation.generate import SimulateConfig
from clbr.training import run as runs
from clbr.training.config import compose
from clbr.training.theory import Curves
from typed import Run, snapshot


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    """A folder with runs: on simulated data with and without their origin, with random views, and without views."""
    space = tmp_path_factory.mktemp("theory")
    simulated = save(tiny.dataset, space / "simulated", origin=SimulateConfig().to_toml())
    unknown = save(tiny.dataset, space / "unknown", origin='[split]\nmethod = "random"\n')
    changes = {"epochs": 2, "learning_rate": 0.01, "measure_every": 1, "sampler_batch": 32}
    clbr = compose(str(simulated), "lightgcn", paradigm="clbr", changes=changes)
    runs.start(space / "run", clbr, tiny.dataset)
    runs.start(space / "unknown-run", clbr.model_copy(update={"data": str(unknown)}), tiny.dataset)
    runs.start(space / "plain", compose(str(simulated), "lightgcn", changes={"epochs": 1}), tiny.dataset)
    random = {"epochs": 1, "sampler": "stochastic", "additions": 0.5, "measure_every": 0}
    runs.start(space / "random", compose(str(simulated), "lightgcn", paradigm="clbr", changes=random), tiny.dataset)
    return space


def test_a_run_on_a_world_shows_curves_noise_and_the_bound(run: Run, space: Path) -> None:
    code, out, err = run("theory", space / "run")
    assert code == 0, err
    assert "epoch 1  " in out and "epoch 2" in out
    for line in ("alignment users", "conditional entropy bundles", "user-bundle, additions", "Theorem 1", "Theorem 2"):
        assert line in out
    assert "user-item" not in out  # lightgcn does not use it


def test_json_has_all_measures(run: Run, space: Path) -> None:
    code, out, err = run("theory", space / "run", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["curves"]["epochs"] == [1, 2]
    noise = found["noise"]["ub"]["all"]
    assert noise["edits"] == sum(found["noise"]["ub"][kind]["edits"] for kind in ("additions", "drops"))
    assert noise["low"] < noise["eta"] < noise["high"]
    expected = (1 - 2 * noise["eta"]) ** -2 if noise["eta"] < 0.5 else None
    assert found["bound_factor"]["ub"] == expected
    assert found["hold_out"] is None
    assert json.loads(run("theory", space / "run", "--json")[1]) == found


def test_measures_that_are_not_finite_are_not_written_and_cause_no_error(run: Run, space: Path, tmp_path: Path) -> None:
    changes = {"epochs": 2, "measure_every": 1, "tau": 0.001, "constraint": "none", "sampler": "dropout"}
    config = compose(str(space / "simulated"), "lightgcn", paradigm="clbr", changes=changes)
    runs.start(tmp_path / "hot", config, load(space / "simulated"))
    path = tmp_path / "hot" / "metrics.jsonl"
    assert "alignment" not in path.read_text() and "entropy users" in path.read_text()
    code, out, err = run("theory", "hot")
    assert (code, "entropy users" in out, "alignment" in out) == (0, True, False), err
    first, second = path.read_text().splitlines()  # as an early version wrote it: not strictly JSON
    path.write_text(first.replace('"measures": {', '"measures": {"alignment users": -Infinity, ') + f"\n{second}\n")
    found = json.loads(run("theory", "hot", "--json")[1])
    assert found["curves"]["values"]["alignment users"] == [None, None]
    assert "alignment users  " in run("theory", "hot")[1]
    pytest.importorskip("matplotlib")
    assert run("theory", "hot", "--plot", "curves.png")[0] == 0


def test_a_run_without_measures_says_so(run: Run, space: Path) -> None:
    code, out, _ = run("theory", space / "random")
    assert code == 0
    assert "nothing was measured during training" in out


def test_an_eta_of_one_half_or_more_has_no_bound(run: Run, space: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preference = World.preference
    monkeypatch.setattr(World, "preference", lambda world, *arguments: -preference(world, *arguments))
    assert "is not below 0.5, where Theorem 1 gives no bound" in run("theory", space / "run")[1]


def test_the_world_can_be_given_and_a_wrong_world_is_an_error(run: Run, space: Path) -> None:
    out = run("theory", space / "unknown-run")[1]
    assert "the data folder does not say that it was simulated" in out and "--hold-out" in out
    assert "user-bundle, additions" in run("theory", space / "unknown-run", "--like", "tiny")[1]
    code, _, err = run("theory", space / "unknown-run", "--world-seed", 3)
    assert code == 2
    assert (
        "was not trained on the world like tiny, scale 1, variant plain, seed 3; give the settings of its world (--like, --scale, --variant, --world-seed)"
        in err
    )


def test_pass_rates_of_hidden_edges_are_measured_on_any_data(run: Run, space: Path) -> None:
    before = snapshot(space)
    code, out, err = run("theory", space / "unknown-run", "--hold-out", "--epochs", 2, "--json")
    assert code == 0, err
    rates = json.loads(out)["hold_out"]["ub"]
    assert rates["hidden"]["evaluated"] == 291  # a tenth of 2,915 training pairs
    assert rates["ratio"] > 1
    out = run("theory", space / "unknown-run", "--hold-out", "--epochs", 1)[1]
    assert "other unconnected pairs" in out and "can be measured" not in out
    code, out, err = run("theory", space / "unknown-run", "--epochs", 2)
    assert (code, out) == (2, "") and "add --hold-out, or leave out --epochs" in err
    assert snapshot(space) == before


def test_the_curves_are_plotted(run: Run, space: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    code, out, err = run("theory", space / "run", "--plot", "curves.png")
    assert code == 0, err
    assert "Curves plotted to curves.png" in out
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plain"], "plain: was trained without views; train a run with the paradigm clbr or casr"),
        (["simulated"], "no run there"),
        (["random", "--plot", "x.png"], "nothing was measured, so there is nothing to plot"),
        (["run", "--plot", "x.bmp"], "expected a name that ends in .png, .svg, .pdf (--plot)"),
        (["random", "--hold-out"], "this run's views are by the stochastic sampler"),
        (["run", "--scale", "-1"], "scale = -1.0"),
        (["run", "--like", "tiny", "--variant", "denser"], "was not trained on the world"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(run: Run, space: Path, words: list[str], message: str) -> None:
    code, out, err = run("theory", space / words[0], *words[1:])
    assert code == 2
    assert message in err
    assert err.count("\n") == 1 and "Traceback" not in out + err


def test_a_run_that_was_stopped_before_its_views_must_be_resumed(run: Run, space: Path, tmp_path: Path) -> None:
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "config.toml").write_bytes((space / "run" / "config.toml").read_bytes())
    code, _, err = run("theory", "early")
    assert code == 2
    assert "early: has no views yet, its training was stopped before; resume the training" in err


@pytest.mark.parametrize("name", ["metrics.jsonl", "environment.json", "views.json"])
def test_a_damaged_run_is_one_message_and_exit_code_2(run: Run, space: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(space / "run", tmp_path / "damaged")
    (tmp_path / "damaged" / name).write_text("{")
    code, out, err = run("theory", "damaged")
    assert (code, out) == (2, "")
    assert err.startswith("error: damaged/") and err.count("\n") == 1


def test_milestones_are_the_first_measured_epoch_the_one_nearest_to_the_best_and_the_last() -> None:
    assert Curves([1, 10, 20, 30], {}, best_epoch=17).milestones == [0, 2, 3]
    assert Curves([1, 10], {}, best_epoch=40).milestones == [0, 1]
    assert Curves([1], {}, best_epoch=1).milestones == [0]
