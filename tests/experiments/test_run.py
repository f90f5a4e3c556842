"""Running a specification: what is not done is run, whatever happened before; nothing is run twice."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch
from rich.progress import Progress, TaskID

from clbr import InputError, World, save
from clbr.cli.show_cells import running
from clbr.data.read import load
from clbr.evaluation.protocol import Evaluation, evaluate
from clbr.experiments.cells import Cell, Placed, expand
from clbr.experiments.estimate import _seconds_an_epoch, whole
from clbr.experiments.run import pending, run
from clbr.experiments.schedule import Local, News
from clbr.experiments.spec import read_spec
from clbr.experiments.store import Store
from clbr.experiments.work import fail, work
from clbr.train.folder import BEST
from clbr.train.run import Hooks, locked
from invented import cells, done, fill, spec
from typed import Run, snapshot

COMMAND = [sys.executable, "-c", "from clbr.cli import main; main()", "experiment", "run"]
SPEC = """
title = "Small"
models = ["bprmf"]
seeds = 1
[arms.original]
settings = { epochs = 40, patience = 40 }
[arms.broken]
settings = { epochs = 3, rate = 1e30 }
[arms.sparse]
settings = { epochs = 3, share = 0.5 }
"""


class Noted:
    """A scheduler that runs nothing but says what it was asked for, and that it failed or was done."""

    def __init__(self, failing: Sequence[str] = ()) -> None:
        self.asked: list[Cell] = []
        self.failing = failing

    def run(self, folder: Path, cells: Sequence[Cell], heard: Callable[[News], None], stop: Callable[[], bool]) -> None:
        self.asked += cells
        for cell in cells:
            if cell.key in self.failing:
                heard(News(cell, "failed", error="it broke"))
            else:
                store = Store(folder)
                store.write(*done(cell, self.dataset, 0.3))
                heard(News(cell, "done"))

    dataset = None


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    return save(tiny.dataset, tmp_path_factory.mktemp("data") / "shop")


def test_a_failed_cell_is_kept_with_its_error_the_rest_go_on_and_it_alone_is_tried_again(
    tiny: World, tmp_path: Path
) -> None:
    placed = cells(spec(seeds=2, arms={"original": {}, "other": {"settings": {"rate": 0.5}}}), tiny.dataset)
    first = Noted([placed[1].cell.key])
    first.dataset = tiny.dataset  # type: ignore[assignment]
    outcome = run(tmp_path / "c", tiny.dataset, placed, first)
    assert (outcome.done, outcome.of, outcome.failed) == (3, 4, {placed[1].cell.key: "it broke"})
    second = Noted()
    second.dataset = tiny.dataset  # type: ignore[assignment]
    outcome = run(tmp_path / "c", tiny.dataset, placed, second)
    assert [cell.key for cell in second.asked] == [placed[1].cell.key]
    assert (outcome.done, outcome.failed) == (4, {})
    before, third = snapshot(tmp_path), Noted()
    run(tmp_path / "c", tiny.dataset, placed, third)
    assert third.asked == []
    assert snapshot(tmp_path) == before


def test_a_judge_without_its_weights_runs_again_only_where_it_is_needed(tiny: World, tmp_path: Path) -> None:
    placed = cells(spec(seeds=1), tiny.dataset)
    original, clbr = (one.cell for one in placed)
    store = fill(tmp_path / "c", tiny.dataset, placed, lambda one: 0.3 if one.arm == "original" else None)
    assert [cell.key for cell in pending(store, placed)] == [original.key, clbr.key]
    weights = store.run(original) / BEST
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"")
    assert [cell.key for cell in pending(store, placed)] == [clbr.key]
    fill(tmp_path / "c", tiny.dataset, placed, lambda one: 0.3)
    weights.unlink()
    assert pending(store, placed) == []


def test_a_judge_that_was_done_stays_so_when_it_cannot_be_run_again(tiny: World, tmp_path: Path) -> None:
    placed = cells(spec(seeds=1), tiny.dataset)
    original, clbr = (one.cell for one in placed)
    store = fill(tmp_path / "c", tiny.dataset, placed, lambda one: 0.3 if one.arm == "original" else None)
    before = store.read(original)
    heard: list[News] = []
    outcome = run(tmp_path / "c", tiny.dataset, placed, Noted([original.key, clbr.key]), heard.append)
    assert store.read(original) == before
    assert [(news.cell.key, news.state) for news in heard] == [(original.key, "failed"), (clbr.key, "failed")]
    assert (outcome.done, outcome.failed) == (1, {clbr.key: "it broke"})


def test_two_experiments_in_one_folder_take_turns(tiny: World, tmp_path: Path) -> None:
    placed = cells(spec(seeds=1), tiny.dataset)

    class Within(Noted):
        def run(self, folder: Path, *rest: object) -> None:
            with pytest.raises(InputError, match="another process"):
                run(folder, tiny.dataset, placed, Noted())

    run(tmp_path / "c", tiny.dataset, placed, Within())


def test_a_cell_waits_for_what_still_runs_in_its_folder(tiny: World, shop: Path, tmp_path: Path) -> None:
    """As after a kill: the cell's old process is still at its epoch when the experiment is begun again."""
    plan = spec(models=["bprmf"], arms={"original": {"settings": {"epochs": 1}}}, seeds=1)
    (placed,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny")
    store = Store(tmp_path / "c").open(tiny.dataset)
    folder = store.run(placed.cell)
    folder.mkdir(parents=True)
    worker = Thread(target=work, args=(store, placed.cell, Hooks()))
    with locked(folder):
        worker.start()
        worker.join(1.0)
        assert worker.is_alive()
        assert not store.is_done(placed.cell)
    worker.join(60)
    assert store.is_done(placed.cell)


@pytest.fixture
def half(tiny: World, shop: Path, tmp_path: Path) -> tuple[Store, Placed]:
    """A store, and a cell that was stopped after its first epoch of three."""
    plan = spec(models=["bprmf"], arms={"original": {"settings": {"epochs": 3}}}, seeds=1)
    (placed,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny")
    store = Store(tmp_path / "c").open(tiny.dataset)
    assert not work(store, placed.cell, Hooks(stop=lambda: True))
    return store, placed


def test_a_half_run_cell_is_not_gone_on_with_once_a_default_has_changed(
    half: tuple[Store, Placed], tiny: World, shop: Path, changed_default: Callable[[str, object], None]
) -> None:
    store, before = half
    changed_default("rate", 0.5)
    plan = spec(models=["bprmf"], arms={"original": {"settings": {"epochs": 3}}}, seeds=1)
    (placed,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny")
    assert placed.cell.key == before.cell.key
    for _ in range(2):  # kept as a failure, it is still refused
        with pytest.raises(InputError, match=f"{placed.cell.key}: .* with rate 0.001, not 0.5: .*; remove that folder"):
            work(store, placed.cell, Hooks())
        fail(store, placed.cell, "refused")
    fail(store, before.cell, "it diverged")  # what failed with the old default is simply run again
    assert work(store, placed.cell, Hooks())
    assert store.is_done(placed.cell)


@pytest.mark.parametrize("ended", [True, False])
def test_a_run_that_lost_its_best_weights_is_trained_anew(half: tuple[Store, Placed], ended: bool) -> None:
    store, placed = half
    best = store.run(placed.cell) / BEST
    if ended:
        assert work(store, placed.cell, Hooks())
        kept = best.read_bytes()
    shutil.rmtree(best.parent)
    assert work(store, placed.cell, Hooks())
    assert store.is_done(placed.cell)
    assert not ended or best.read_bytes() == kept


def test_withheld_training_pairs_are_no_candidates_on_tune_and_on_test(
    tiny: World, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begun and gone on with: nobody is ever offered what she has in the whole data set."""
    offered: dict[str, int] = {"tune": 0, "test": 0}
    has = set(map(tuple, tiny.dataset.train.tolist()))

    def watched(*args: object, **options: object) -> Evaluation:
        result = evaluate(*args, **options)  # type: ignore[arg-type]
        offered[result.split] += 1
        users = np.repeat(result.users, result.ranking.shape[1])
        assert not has & set(zip(users.tolist(), result.ranking.ravel().tolist(), strict=True))
        return result

    for place in ("clbr.train.loop.evaluate", "clbr.experiments.work.evaluate"):
        monkeypatch.setattr(place, watched)
    plan = spec(models=["bprmf"], arms={"original": {"settings": {"epochs": 2, "share": 0.5}}}, seeds=1)
    (placed,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny")
    store = Store(tmp_path / "c").open(tiny.dataset)
    assert not work(store, placed.cell, Hooks(stop=lambda: True))
    assert work(store, placed.cell, Hooks())
    assert offered == {"tune": 2, "test": 1}


def test_no_workers_are_refused() -> None:
    with pytest.raises(InputError, match="--workers 0"):
        Local(0)


def records(folder: Path, placed: Sequence[Placed]) -> list[dict[str, object]]:
    found = [Store(folder).read(one.cell) for one in placed]
    return [one.model_dump(exclude={"seconds", "memory", "environment"}) if one else {} for one in found]


def test_an_experiment_killed_half_way_goes_on_to_the_same_end(run: Run, shop: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(SPEC)
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
    assert "1 of 3 cells failed, for instance bprmf-original-0-" in err.splitlines()[-1]
    assert "the loss is nan" in err.splitlines()[-1]

    dataset = load(shop)
    placed = expand(read_spec(path), str(shop), dataset.fingerprint, dataset.name)
    whole = Store(tmp_path / "whole").open(dataset)
    for one in (placed[0], placed[2]):  # in one go, in this process
        assert work(whole, one.cell, Hooks())
    assert records(tmp_path / "killed", [placed[0], placed[2]]) == records(tmp_path / "whole", [placed[0], placed[2]])
    assert Store(tmp_path / "killed").per_user(placed[2].cell).found.any()

    before = snapshot(tmp_path / "killed")
    words += ["--arms", "original,sparse"]
    code, out, _ = run("experiment", "run", *words)
    assert (code, out.splitlines()[0]) == (0, f"{tmp_path / 'killed'}: 2 of 2 cells done")
    assert snapshot(tmp_path / "killed") == before

    code, out, _ = run("experiment", "report", *words[:5], "--to", str(tmp_path / "report"))
    assert code == 0
    assert "Failed: bprmf, broken, seed 0: the loss is nan" in out
    assert (tmp_path / "report" / "s.html").exists()


@pytest.mark.parametrize("there", [True, False])
def test_a_dry_run_lists_the_cells_and_writes_nothing(run: Run, shop: Path, tmp_path: Path, there: bool) -> None:
    (tmp_path / "s.toml").write_text(SPEC)
    if there:
        (tmp_path / "cells" / "tiny").mkdir(parents=True)
    before = snapshot(tmp_path)
    code, out, _ = run("experiment", "run", "s.toml", "--data", shop, "--dry-run")
    assert code == 0
    assert "bprmf, sparse, seed 0" in out
    assert "3 cells, 0 done; 3 to run" in out
    assert snapshot(tmp_path) == before


def test_a_dry_run_tells_what_it_cannot_know_and_times_with_the_threads_of_a_worker(
    run: Run, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arm that diverges at once stands first."""
    head, original, broken, sparse = re.split(r"(?=\[arms)", SPEC)
    (tmp_path / "s.toml").write_text(head + broken + original + sparse)
    threads: list[int] = []

    def timed(cell: Cell, dataset: object) -> float:
        threads.append(torch.get_num_threads())
        return _seconds_an_epoch(cell, dataset)  # type: ignore[arg-type]

    monkeypatch.setattr("clbr.experiments.estimate._seconds_an_epoch", timed)
    words = ("experiment", "run", "s.toml", "--data", shop, "--dry-run")
    code, out, _ = run(*words, "--threads", 2, "--workers", 2)
    assert code == 0
    assert re.search(r"bprmf, broken, seed 0 +not known", out)
    assert re.search(r"bprmf, sparse, seed 0 +\d+ s", out)
    assert ", and 1 not known" in out
    assert threads == [1, 1]  # the second cell of the model is timed in place of the first


def test_the_whole_takes_as_long_as_its_longest_cell_at_least() -> None:
    assert whole([10.0, 10.0, 20.0], 2) == 20.0
    assert whole([10.0] * 6, 2) == 30.0
    assert whole([30.0, 1.0], 8) == 30.0
    assert whole([], 2) == 0.0


def test_progress_counts_what_is_to_run_with_its_judges(
    tiny: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[tuple[str, float | None]] = []

    class Seen(Progress):
        def add_task(self, description: str, *args: object, total: float | None = None, **more: object) -> TaskID:
            bars.append((description, total))
            return super().add_task(description, total=total)

        def update(self, task_id: TaskID, *, description: str = "", **more: object) -> None:  # type: ignore[override]
            bars.append((description, None))

    monkeypatch.setattr("clbr.cli.show_cells.Progress", Seen)
    arms = {"other": {"settings": {"rate": 0.5}}, "clbr": {"paradigm": "clbr"}}
    placed = cells(spec(seeds=1, arms=arms), tiny.dataset)
    store = fill(tmp_path / "c", tiny.dataset, placed, lambda one: 0.3 if one.arm == "other" else None)
    to_run = pending(store, placed)
    with running("T", placed, to_run) as heard:
        for cell in to_run:
            heard(News(cell, "done"))
    assert bars == [("T: 0 of 2", 2), ("T: 1 of 2", None), ("T: 2 of 2", None)]


def test_a_second_ctrl_c_does_not_wait_for_an_epoch(tiny: World, shop: Path, tmp_path: Path) -> None:
    """Asked to stop, a cell ends its epoch and saves; interrupted, it leaves nothing that takes time."""
    plan = spec(models=["bprmf"], arms={"original": {"settings": {"epochs": 500}}}, seeds=1)
    (placed,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny")
    store = Store(tmp_path / "c").open(tiny.dataset)

    def interrupt(news: News) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Local(1).run(store.folder, [placed.cell], interrupt, lambda: False)
    assert not (store.run(placed.cell) / "last").exists()
