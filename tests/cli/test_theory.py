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
def place(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    """A folder with runs: on a simulated data folder that says so, on one that does not, and without views."""
    place = tmp_path_factory.mktemp("theory")
    told = save(tiny.dataset, place / "told", origin=SimulateConfig().to_toml())
    untold = save(tiny.dataset, place / "untold", origin='[split]\nmethod = "random"\n')
    changes = {"epochs": 2, "learning_rate": 0.01, "measure_every": 1, "sampler_batch": 32}
    clbr = compose(str(told), "lightgcn", paradigm="clbr", changes=changes)
    runs.start(place / "run", clbr, tiny.dataset)
    runs.start(place / "untold-run", clbr.model_copy(update={"data": str(untold)}), tiny.dataset)
    runs.start(place / "plain", compose(str(told), "lightgcn", changes={"epochs": 1}), tiny.dataset)
    chance = {"epochs": 1, "sampler": "stochastic", "additions": 0.5, "measure_every": 0}
    runs.start(place / "chance", compose(str(told), "lightgcn", paradigm="clbr", changes=chance), tiny.dataset)
    return place


def test_a_run_on_a_world_shows_curves_noise_and_the_bound(run: Run, place: Path) -> None:
    code, out, err = run("theory", place / "run")
    assert code == 0, err
    assert "epoch 1  " in out and "epoch 2" in out
    for line in ("alignment users", "conditional entropy bundles", "user-bundle, additions", "Theorem 1", "Theorem 2"):
        assert line in out
    assert "user-item" not in out  # lightgcn does not look at it


def test_json_has_the_same_numbers_for_machines(run: Run, place: Path) -> None:
    code, out, err = run("theory", place / "run", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["curves"]["epochs"] == [1, 2]
    noise = found["noise"]["ub"]["all"]
    assert noise["edits"] == sum(found["noise"]["ub"][kind]["edits"] for kind in ("additions", "drops"))
    assert noise["low"] < noise["eta"] < noise["high"]
    expected = (1 - 2 * noise["eta"]) ** -2 if noise["eta"] < 0.5 else None
    assert found["bound_factor"]["ub"] == expected
    assert found["hold_out"] is None
    assert json.loads(run("theory", place / "run", "--json")[1]) == found


def test_measures_that_are_not_finite_are_neither_written_nor_in_the_way(run: Run, place: Path, tmp_path: Path) -> None:
    changes = {"epochs": 2, "measure_every": 1, "tau": 0.001, "constraint": "none", "sampler": "dropout"}
    config = compose(str(place / "told"), "lightgcn", paradigm="clbr", changes=changes)
    runs.start(tmp_path / "hot", config, load(place / "told"))
    path = tmp_path / "hot" / "metrics.jsonl"
    assert "alignment" not in path.read_text() and "entropy users" in path.read_text()
    code, out, err = run("theory", "hot")
    assert (code, "entropy users" in out, "alignment" in out) == (0, True, False), err
    first, second = path.read_text().splitlines()  # as written before: not JSON, strictly speaking
    path.write_text(first.replace('"measures": {', '"measures": {"alignment users": -Infinity, ') + f"\n{second}\n")
    found = json.loads(run("theory", "hot", "--json")[1])
    assert found["curves"]["values"]["alignment users"] == [None, None]
    assert "alignment users  " in run("theory", "hot")[1]
    pytest.importorskip("matplotlib")
    assert run("theory", "hot", "--plot", "curves.png")[0] == 0


def test_where_nothing_was_measured_it_says_so(run: Run, place: Path) -> None:
    code, out, _ = run("theory", place / "chance")
    assert code == 0
    assert "nothing was measured as it learned" in out


def test_from_a_half_on_theorem_1_says_nothing(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upside_down = World.preference
    monkeypatch.setattr(World, "preference", lambda world, *asked: -upside_down(world, *asked))
    assert "is not below 0.5, and there Theorem 1 says nothing" in run("theory", place / "run")[1]


def test_a_folder_that_does_not_say_its_world_can_be_told_and_a_wrong_world_is_refused(run: Run, place: Path) -> None:
    out = run("theory", place / "untold-run")[1]
    assert "the data folder tells of none" in out and "--hold-out" in out
    assert "user-bundle, additions" in run("theory", place / "untold-run", "--like", "tiny")[1]
    code, _, err = run("theory", place / "untold-run", "--world-seed", 3)
    assert code == 2
    assert "was not trained on the world like tiny, scale 1, variant plain, seed 3" in err


def test_hidden_edges_are_told_of_on_real_data(run: Run, place: Path) -> None:
    before = snapshot(place)
    code, out, err = run("theory", place / "untold-run", "--hold-out", "--epochs", 2, "--json")
    assert code == 0, err
    rates = json.loads(out)["hold_out"]["ub"]
    assert rates["hidden"]["judged"] == 291  # a tenth of 2,915 training pairs
    assert rates["ratio"] > 1
    told = run("theory", place / "untold-run", "--hold-out", "--epochs", 1)[1]
    assert "other unconnected pairs" in told and "What can be measured" not in told
    code, out, err = run("theory", place / "untold-run", "--epochs", 2)
    assert (code, out) == (2, "") and "add --hold-out, or leave it out" in err
    assert snapshot(place) == before


def test_the_curves_are_drawn(run: Run, place: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    code, out, err = run("theory", place / "run", "--plot", "curves.png")
    assert code == 0, err
    assert "Curves drawn to curves.png" in out
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plain"], "plain: was trained without views; make some with clbr train ... --paradigm clbr"),
        (["told"], "no run there"),
        (["chance", "--plot", "x.png"], "nothing was measured, so there is nothing to draw"),
        (["run", "--plot", "x.bmp"], "expected a name that ends in .png"),
        (["chance", "--hold-out"], "this run's views are by the stochastic sampler"),
        (["run", "--scale", "-1"], "scale = -1.0"),
        (["run", "--like", "tiny", "--variant", "denser"], "was not trained on the world"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(run: Run, place: Path, words: list[str], message: str) -> None:
    code, out, err = run("theory", place / words[0], *words[1:])
    assert code == 2
    assert message in err
    assert err.count("\n") == 1 and "Traceback" not in out + err


def test_a_run_that_was_stopped_before_its_views_is_told_to_go_on(run: Run, place: Path, tmp_path: Path) -> None:
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "config.toml").write_bytes((place / "run" / "config.toml").read_bytes())
    code, _, err = run("theory", "early")
    assert code == 2
    assert "early: has no views yet; first: clbr train --resume early" in err


@pytest.mark.parametrize("name", ["metrics.jsonl", "environment.json", "views.json"])
def test_a_damaged_run_is_one_message_and_exit_code_2(run: Run, place: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(place / "run", tmp_path / "hurt")
    (tmp_path / "hurt" / name).write_text("{")
    code, out, err = run("theory", "hurt")
    assert (code, out) == (2, "")
    assert err.startswith("error: hurt/") and err.count("\n") == 1


def test_of_the_epochs_looked_at_the_one_nearest_to_the_best_is_shown() -> None:
    assert Curves([1, 10, 20, 30], {}, best_epoch=17).moments == [0, 2, 3]
    assert Curves([1, 10], {}, best_epoch=40).moments == [0, 1]
    assert Curves([1], {}, best_epoch=1).moments == [0]
