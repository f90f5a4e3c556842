"""Running a specification: cells that are not done are run, whatever happened before; no cell is run twice."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from clbr import BundleDataset, InputError, World
from clbr.data.folder import load
from clbr.evaluation.protocol import evaluate
from clbr.experiments.cell_run import run_cell
from clbr.experiments.cells import VariantCell, expand
from clbr.experiments.runner import CellEvent, CellQueue, pending, run_cells
from clbr.experiments.spec import read_spec
from clbr.experiments.store import Store
from clbr.graph.graph import BundleGraph
from clbr.models.base import ClosedForm
from clbr.models.registry import make_model
from clbr.training.processes import ProcessPool, Task, TaskResult
from clbr.training.run import Callbacks
from clbr.training.run_folder import BEST
from invented import SMALL, cells, done, fill, spec
from typed import Run, snapshot

COMMAND = [sys.executable, "-c", "from clbr.cli import main; main()", "experiment", "run"]


class InventedEngine:
    """An engine that trains nothing: a task fails, or ends with an invented record."""

    def __init__(self, dataset: BundleDataset, failing: Sequence[str] = ()) -> None:
        self.dataset, self.failing = dataset, failing
        self.asked: list[str] = []

    def run(
        self,
        next_task: Callable[[], Task | None],
        on_end: Callable[[Task, TaskResult], None],
        on_message: object = None,
        should_stop: object = None,
    ) -> None:
        while task := next_task():
            folder, cell = task.arguments
            self.asked.append(cell.key)
            if cell.key in self.failing:
                on_end(task, TaskResult(error="it broke"))
            else:
                Store(folder).write(*done(cell, self.dataset, 0.3))
                on_end(task, TaskResult(True))


def test_a_failed_cell_is_recorded_the_others_continue_and_only_it_is_run_again(tiny: World, tmp_path: Path) -> None:
    variants = {"original": {}, "other": {"settings": {"learning_rate": 0.5}}}
    variant_cells = cells(spec(seeds=2, variants=variants), tiny.dataset)
    failing = variant_cells[1].cell.key
    summary = run_cells(tmp_path / "c", tiny.dataset, variant_cells, InventedEngine(tiny.dataset, [failing]))
    assert (summary.done, summary.total, summary.failed) == (3, 4, {failing: "it broke"})
    second = InventedEngine(tiny.dataset)
    summary = run_cells(tmp_path / "c", tiny.dataset, variant_cells, second)
    assert second.asked == [failing]
    assert (summary.done, summary.failed) == (4, {})
    before, third = snapshot(tmp_path), InventedEngine(tiny.dataset)
    run_cells(tmp_path / "c", tiny.dataset, variant_cells, third)
    assert third.asked == []
    assert snapshot(tmp_path) == before


def test_a_selection_model_without_its_run_is_trained_again_but_only_if_it_is_needed(
    tiny: World, shop: Path, tmp_path: Path
) -> None:
    settings = {"epochs": 3}
    variants = {"original": {"settings": settings}, "clbr": {"paradigm": "clbr", "settings": settings}}
    variant_cells = expand(spec(seeds=1, variants=variants), str(shop), tiny.dataset.fingerprint, "tiny", tiny.dataset)
    original, clbr = (one.cell for one in variant_cells)
    both = [original.key, clbr.key]
    store = fill(tmp_path / "c", tiny.dataset, variant_cells, lambda one: 0.3 if one.variant == "original" else None)
    assert [cell.key for cell in pending(store, variant_cells)] == both

    assert not run_cell(store, original, Callbacks(should_stop=lambda: True))  # after an epoch
    assert (store.run_folder(original) / BEST).exists()
    assert [cell.key for cell in pending(store, variant_cells)] == both
    assert run_cell(store, original, Callbacks())
    assert [cell.key for cell in pending(store, variant_cells)] == [clbr.key]

    state = store.run_folder(original) / "last" / "state.json"
    content = state.read_text()
    state.write_text("?")
    assert [cell.key for cell in pending(store, variant_cells)] == both
    state.write_text(content)
    (store.run_folder(original) / BEST).unlink()
    assert [cell.key for cell in pending(store, variant_cells)] == both
    fill(tmp_path / "c", tiny.dataset, variant_cells, lambda one: 0.3)
    assert pending(store, variant_cells) == []


def test_a_selection_model_that_was_done_keeps_its_record_if_it_cannot_be_run_again(
    tiny: World, tmp_path: Path
) -> None:
    variant_cells = cells(spec(seeds=1), tiny.dataset)
    original, clbr = (one.cell for one in variant_cells)
    store = fill(tmp_path / "c", tiny.dataset, variant_cells, lambda one: 0.3 if one.variant == "original" else None)
    before = store.read(original)
    events: list[CellEvent] = []
    engine = InventedEngine(tiny.dataset, [original.key])
    summary = run_cells(tmp_path / "c", tiny.dataset, variant_cells, engine, events.append)
    assert store.read(original) == before
    states = [(event.cell.key, event.state) for event in events]
    assert states == [(original.key, "running"), (original.key, "failed"), (clbr.key, "failed")]
    assert engine.asked == [original.key]
    assert (summary.done, summary.failed) == (1, {clbr.key: f"its selection model {original.key} failed: it broke"})


def test_a_cell_waits_for_its_selection_model_and_other_cells_do_not(tiny: World, tmp_path: Path) -> None:
    variants = {"clbr": {"paradigm": "clbr"}, "original": {}, "other": {"settings": {"learning_rate": 0.5}}}
    variant_cells = cells(spec(seeds=1, variants=variants), tiny.dataset)
    clbr, original, other = (one.cell for one in variant_cells)
    store = Store(tmp_path / "c").open(tiny.dataset)
    queue = CellQueue(store, pending(store, variant_cells), lambda event: None)
    first, second = queue.next_task(), queue.next_task()
    assert first is not None and second is not None
    assert [task.arguments[1].key for task in (first, second)] == [original.key, other.key]
    assert queue.next_task() is None
    queue.on_end(second, TaskResult(True))
    assert queue.next_task() is None
    queue.on_end(first, TaskResult(False))  # stopped: its weights are not final
    assert queue.next_task() is None
    queue.on_end(first, TaskResult(True))
    third = queue.next_task()
    assert third is not None and third.arguments[1].key == clbr.key


def test_a_cell_whose_selection_model_failed_says_why(tiny: World, shop: Path, tmp_path: Path) -> None:
    variants = {"clbr": {"paradigm": "clbr", "settings": {"epochs": 3, "learning_rate": 1e30}}}
    (variant_cell,) = expand(
        spec(seeds=1, variants=variants), str(shop), tiny.dataset.fingerprint, "tiny", tiny.dataset
    )
    summary = run_cells(tmp_path / "c", tiny.dataset, [variant_cell], ProcessPool(1))
    error = summary.failed[variant_cell.cell.key]
    assert re.match(r"its selection model lightgcn-original-0-\w+ failed: .*nan", error)


def test_the_other_cells_continue_even_if_a_failure_cannot_be_written(tiny: World, tmp_path: Path) -> None:
    """As on a full disk; here a file has the name of the folder."""
    variants = {"one": {}, "other": {"settings": {"learning_rate": 0.5}}}
    variant_cells = cells(spec(seeds=1, variants=variants), tiny.dataset)
    Store(tmp_path / "c").open(tiny.dataset)
    (tmp_path / "c" / "cells").write_text("a file")
    engine = InventedEngine(tiny.dataset, [one.cell.key for one in variant_cells])
    summary = run_cells(tmp_path / "c", tiny.dataset, variant_cells, engine)
    assert (summary.done, summary.total) == (0, 2)
    assert summary.failed == {one.cell.key: "it broke" for one in variant_cells}


def test_two_experiments_cannot_run_in_one_folder_at_the_same_time(tiny: World, tmp_path: Path) -> None:
    variant_cells = cells(spec(seeds=1), tiny.dataset)
    tried: list[bool] = []

    class Nested(InventedEngine):
        def run(self, *callbacks: object) -> None:  # type: ignore[override]
            with pytest.raises(InputError, match="another process"):
                run_cells(tmp_path / "c", tiny.dataset, variant_cells, InventedEngine(tiny.dataset))
            tried.append(True)

    run_cells(tmp_path / "c", tiny.dataset, variant_cells, Nested(tiny.dataset))
    assert tried


def test_models_in_closed_form_run_and_are_reported_like_any_other(run: Run, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'title = "Baselines"\nmodels = ["popularity", "ease", "bprmf"]\nseeds = 2\n[variants.original]\n'
        'settings = { epochs = 2 }\n[variants.contents]\nmodels = ["ease"]\nsettings = { contents = 0.3 }\n'
    )
    words = ["s.toml", "--data", str(shop), "--threads", "1"]
    code, out, _ = run("experiment", "run", *words, "--dry-run")
    assert code == 0 and "8 cells, 0 done; 8 to run" in out
    code, out, err = run("experiment", "run", *words)
    assert code == 0, err
    assert "8 of 8 cells done" in out
    assert "Baselines: all 8 cells are done; nothing to run" in run("experiment", "run", *words, "--dry-run")[1]

    dataset = load(shop)
    variant_cells = expand(read_spec(tmp_path / "s.toml"), str(shop), dataset.fingerprint, dataset.name, dataset)
    for model, options in (("popularity", {}), ("ease", {}), ("ease", {"contents": 0.3})):
        solved = make_model(model, options, dataset)
        assert isinstance(solved, ClosedForm)
        with torch.no_grad():
            solved.solve(dataset)
        expected = evaluate(solved.scorer(BundleGraph.of(dataset)), dataset, split="test").means
        variant = "contents" if options else "original"
        found = [
            Store(tmp_path / "cells" / "tiny").read(one.cell)
            for one in variant_cells
            if (one.model, one.variant) == (model, variant)
        ]
        assert len(found) == 2
        for record in found:
            assert record is not None
            assert (record.epochs, record.best_epoch, record.test) == (1, 1, expected)
    code, out, err = run("experiment", "report", *words[:3])
    assert (code, err) == (0, "")
    assert re.search(r"popularity +original +2 +\d", out)


def records(folder: Path, variant_cells: Sequence[VariantCell]) -> list[dict[str, object]]:
    found = [Store(folder).read(one.cell) for one in variant_cells]
    return [one.model_dump(exclude={"seconds", "memory", "environment"}) if one else {} for one in found]


def test_a_killed_experiment_is_resumed_with_identical_results(run: Run, shop: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(SMALL)
    words = [str(path), "--data", str(shop), "--out", str(tmp_path / "killed"), "--threads", "1"]
    environment = os.environ | {"CLBR_CHECKPOINT_SECONDS": "0"}
    process = subprocess.Popen([*COMMAND, *words], env=environment, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not list(tmp_path.glob("killed/runs/*/last/state.json")):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    _, err = process.communicate()
    assert "Traceback" not in err
    assert len(list(tmp_path.glob("killed/cells/*.json"))) < 3

    code, out, err = run("experiment", "run", *words)
    assert code == 2
    assert re.search(r"2 of 3 cells done", out)
    assert "1 of 3 cells failed, for example bprmf-original-0-" in err.splitlines()[-1]
    assert "the loss is nan" in err.splitlines()[-1]

    dataset = load(shop)
    variant_cells = expand(read_spec(path), str(shop), dataset.fingerprint, dataset.name, dataset)
    straight = Store(tmp_path / "straight").open(dataset)
    for one in (variant_cells[0], variant_cells[2]):  # without a break, in this process
        assert run_cell(straight, one.cell, Callbacks())
    assert records(tmp_path / "killed", [variant_cells[0], variant_cells[2]]) == records(
        tmp_path / "straight", [variant_cells[0], variant_cells[2]]
    )
    assert Store(tmp_path / "killed").read_per_user(variant_cells[2].cell).found.any()

    before = snapshot(tmp_path / "killed")
    words += ["--variants", "original,sparse"]
    code, out, _ = run("experiment", "run", *words)
    assert (code, out.splitlines()[0]) == (0, f"{tmp_path / 'killed'}: 2 of 2 cells done")
    assert out.splitlines()[1].startswith("next: clbr experiment report ") and out.endswith(
        " --variants original,sparse\n"
    )
    assert snapshot(tmp_path / "killed") == before

    code, out, _ = run("experiment", "report", *words[:5], "--to", str(tmp_path / "report"))
    assert code == 0
    assert "Failed: bprmf, broken, seed 0: the loss is nan" in out
    assert (tmp_path / "report" / "s.html").exists()


def test_a_second_ctrl_c_does_not_wait_for_an_epoch(tiny: World, shop: Path, tmp_path: Path) -> None:
    """Asked to stop, a cell finishes its epoch and saves; interrupted, it saves nothing."""
    plan = spec(models=["bprmf"], variants={"original": {"settings": {"epochs": 500}}}, seeds=1)
    (variant_cell,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny", tiny.dataset)

    def interrupt(event: CellEvent) -> None:
        if event.epoch:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_cells(tmp_path / "c", tiny.dataset, [variant_cell], ProcessPool(1), interrupt)
    folder = Store(tmp_path / "c").run_folder(variant_cell.cell)
    assert (folder / "metrics.jsonl").exists()
    assert not (folder / "last").exists()
