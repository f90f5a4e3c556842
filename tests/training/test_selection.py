"""Runs with counterfactual views: their selection model, and that they resume to the same bits."""

import json
from pathlib import Path

import numpy as np
import pytest

from clbr import InputError, World, save, simulate
from clbr.counterfactual.views import read_views
from clbr.files import lock
from clbr.training import run as runs
from clbr.training.config import RunConfig, compose
from clbr.training.run_folder import BEST, SELECTION_SETTINGS, copy_selection

GRAPH_MODELS = ["rgcn", "bundlenet", "bgcn", "crosscbr", "lightgcn"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    return save(tiny.dataset, tmp_path_factory.mktemp("data") / "shop")


def config(shop: Path, model: str = "crosscbr", paradigm: str = "clbr", **changes: object) -> RunConfig:
    return compose(str(shop), model, changes={"epochs": 3, "learning_rate": 0.01} | changes, paradigm=paradigm)


@pytest.mark.parametrize("model", GRAPH_MODELS)
def test_every_graph_model_trains_with_views(model: str, shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "run", config(shop, model), tiny.dataset)
    first, *_, last = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert {"bpr", "view bpr", "constraint users", "constraint bundles"} <= set(last["losses"])
    assert first["measures"] and np.isfinite(list(first["measures"].values())).all()
    assert not last["measures"]
    views, records = read_views(tmp_path / "run")
    assert len(views) == len(records) == 4
    assert set(records[0]) == ({"ub"} if model == "lightgcn" else {"ub", "ui", "bi"})


@pytest.mark.parametrize(
    "changes",
    [{}, {"redraw": True}, {"sampler": "stochastic", "view_positives": True}, {"paradigm": "casr"}, {"nodes": 8}],
    ids=str,
)
def test_a_run_with_views_resumes_to_the_same_bits(
    changes: dict[str, object], shop: Path, tmp_path: Path, tiny: World
) -> None:
    settings = config(shop, **changes)  # type: ignore[arg-type]
    runs.start(tmp_path / "straight" / "run", settings, tiny.dataset)
    broken = tmp_path / "broken" / "run"
    stops = iter([True, False, True])  # within the selection model, and again within the run
    callbacks = runs.Callbacks(should_stop=lambda: next(stops, False))
    runs.start(broken, settings, tiny.dataset, callbacks)
    for _ in range(3):
        runs.resume(broken, callbacks)
    for name in ("best/model.safetensors", "views.safetensors"):
        assert (tmp_path / "straight" / "run" / name).read_bytes() == (broken / name).read_bytes()


def test_views_without_edits_need_no_selection_model(shop: Path, tmp_path: Path, tiny: World) -> None:
    """The control: the same computation, on the factual graph alone."""
    nothing = {"ratio_ub": 0.0, "ratio_ui": 0.0, "ratio_bi": 0.0, "constraint": "none"}
    runs.start(tmp_path / "run", config(shop, **nothing), tiny.dataset)
    assert not list(tmp_path.glob("selection-*"))
    views, _ = read_views(tmp_path / "run")
    assert not any(view.touches(relation) for view in views for relation in ("ub", "ui", "bi"))


def test_the_selection_model_is_trained_once_and_shared(shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "one", config(shop), tiny.dataset)
    (selection,) = tmp_path.glob("selection-crosscbr-*")
    before = (selection / "metrics.jsonl").stat().st_mtime_ns
    runs.start(tmp_path / "two", config(shop, omega_u=0.5), tiny.dataset)
    assert (selection / "metrics.jsonl").stat().st_mtime_ns == before
    assert len(list(tmp_path.glob("selection-*"))) == 1
    runs.start(tmp_path / "three", config(shop, learning_rate=0.02), tiny.dataset)
    assert len(list(tmp_path.glob("selection-*"))) == 2
    assert json.loads((tmp_path / "one" / "selection.json").read_text())["run"] == selection.name


def test_a_run_stopped_while_waiting_for_the_selection_model_can_be_resumed(
    shop: Path, tmp_path: Path, tiny: World
) -> None:
    runs.start(tmp_path / "one", config(shop), tiny.dataset)
    (selection,) = tmp_path.glob("selection-crosscbr-*")
    waits: list[Path] = []
    with lock(selection):
        callbacks = runs.Callbacks(should_stop=lambda: bool(waits), on_wait=waits.append)
        assert runs.start(tmp_path / "two", config(shop, omega_u=0.5), tiny.dataset, callbacks).epoch == 0
    assert waits == [selection]
    assert runs.resume(tmp_path / "two").epoch == 3


def test_a_given_selection_run_is_used_and_a_wrong_one_raises(shop: Path, tmp_path: Path, tiny: World) -> None:
    runs.start(tmp_path / "plain", config(shop, paradigm="original"), tiny.dataset)
    runs.start(tmp_path / "other", config(shop, "lightgcn", paradigm="original"), tiny.dataset)
    runs.start(tmp_path / "run", config(shop), tiny.dataset, selection=tmp_path / "plain")
    assert not list(tmp_path.glob("selection-*"))
    with pytest.raises(InputError, match="other: is a run of lightgcn, expected one of crosscbr"):
        runs.start(tmp_path / "bad", config(shop), tiny.dataset, selection=tmp_path / "other")
    elsewhere = simulate("tiny", seed=5).dataset
    with pytest.raises(InputError, match="plain: was trained on other data"):
        runs.start(tmp_path / "bad", config(shop), elsewhere, selection=tmp_path / "plain")
    with pytest.raises(
        InputError, match="plain: a selection model is for counterfactual views.*; choose the paradigm clbr"
    ):
        plain = config(shop, paradigm="original")
        runs.start(tmp_path / "bad", plain, tiny.dataset, selection=tmp_path / "plain")
    with pytest.raises(InputError, match="no run there"):
        runs.start(tmp_path / "bad", config(shop), tiny.dataset, selection=tmp_path / "nowhere")
    runs.start(
        tmp_path / "half", config(shop, paradigm="original"), tiny.dataset, runs.Callbacks(should_stop=lambda: True)
    )
    with pytest.raises(InputError, match="half: its training is not finished; resume it first"):
        runs.start(tmp_path / "bad", config(shop), tiny.dataset, selection=tmp_path / "half")
    assert not (tmp_path / "bad").exists()


def test_a_selection_run_with_damaged_weights_raises_before_anything_is_written(
    shop: Path, tmp_path: Path, tiny: World
) -> None:
    runs.start(tmp_path / "plain", config(shop, paradigm="original"), tiny.dataset)
    (tmp_path / "plain" / BEST).write_bytes(b"nonsense")
    with pytest.raises(InputError, match="plain/best/model.safetensors: not the weights of this model"):
        runs.start(tmp_path / "run", config(shop), tiny.dataset, selection=tmp_path / "plain")
    assert not (tmp_path / "run").exists()


def test_the_selection_model_that_a_killed_start_left_is_not_used(shop: Path, tmp_path: Path, tiny: World) -> None:
    """Killed after a given selection model was copied, and started again without one."""
    runs.start(tmp_path / "clean" / "run", config(shop, "lightgcn"), tiny.dataset)
    runs.start(tmp_path / "plain", config(shop, "lightgcn", paradigm="original", learning_rate=0.5), tiny.dataset)
    (tmp_path / "again" / "run").mkdir(parents=True)
    copy_selection(tmp_path / "plain", tmp_path / "again" / "run")
    runs.start(tmp_path / "again" / "run", config(shop, "lightgcn"), tiny.dataset)
    one, other = ((tmp_path / name / "run" / "views.safetensors").read_bytes() for name in ("clean", "again"))
    assert one == other


@pytest.mark.parametrize("damage", ["missing", "{", "[]", '{"model": "lightgcn", "settings": 3}'])
def test_a_run_that_lost_its_selection_model_is_not_resumed_with_another(
    damage: str, shop: Path, tmp_path: Path, tiny: World
) -> None:
    epochs: list[int] = []
    callbacks = runs.Callbacks(
        on_epoch=lambda epoch, counters: epochs.append(epoch.number), should_stop=lambda: len(epochs) == 1
    )
    runs.start(tmp_path / "run", config(shop, "lightgcn", redraw=True), tiny.dataset, callbacks)
    about = tmp_path / "run" / SELECTION_SETTINGS
    about.unlink() if damage == "missing" else about.write_text(damage)
    with pytest.raises(InputError, match=r"run/selection.json: (no such file|is damaged); restore it, or train again"):
        runs.resume(tmp_path / "run")


@pytest.mark.parametrize("changes", [{}, {"sampler": "stochastic"}, {"ratio_ui": 0.1}, {"redraw": True}], ids=str)
def test_views_that_edit_nothing_have_the_factual_losses(
    changes: dict[str, object], shop: Path, tmp_path: Path, tiny: World
) -> None:
    """LightGCN does not use user-item pairs, so that ratio edits nothing either."""
    none = {"ratio_ub": 0.0, "ratio_ui": 0.0, "ratio_bi": 0.0}
    runs.start(tmp_path / "run", config(shop, "lightgcn", **none | changes), tiny.dataset)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    losses = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])["losses"]
    assert losses["view bpr"] == pytest.approx(losses["bpr"])
    views, _ = read_views(tmp_path / "run")
    assert not any(view.touches(relation) for view in views for relation in ("ub", "ui", "bi"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sampler": "dropout"}, "the dropout sampler scores no pairs"),
        ({"sampler": "stochastic", "additions": 0.5}, "the stochastic sampler with a given share of additions scores"),
        ({"ratio_ub": 0.0, "ratio_ui": 0.0, "ratio_bi": 0.0}, "these views edit nothing"),
    ],
    ids=str,
)
def test_a_selection_run_that_would_not_be_used_raises(
    changes: dict[str, object], reason: str, shop: Path, tmp_path: Path, tiny: World
) -> None:
    runs.start(tmp_path / "plain", config(shop, "lightgcn", paradigm="original", epochs=1), tiny.dataset)
    with pytest.raises(InputError, match=f"plain: a selection model is not needed, because {reason}.*leave it out"):
        given = config(shop, "lightgcn", **changes)  # type: ignore[arg-type]
        runs.start(tmp_path / "run", given, tiny.dataset, selection=tmp_path / "plain")
    assert not (tmp_path / "run").exists()
