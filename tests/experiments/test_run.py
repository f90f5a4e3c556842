"""Running a specification: what is not done is run, whatever happened before; nothing is run twice."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from clbr import InputError, World
from clbr.data.folder import load
from clbr.experiments.cells import Cell, VariantCell, expand
from clbr.experiments.runner import Local, News, pending, run
from clbr.experiments.spec import read_spec
from clbr.experiments.store import Store
from clbr.experiments.work import work
from clbr.training.run import Callbacks
from clbr.training.run_folder import BEST
from invented import SMALL, cells, done, fill, spec
from typed import Run, snapshot

COMMAND = [sys.executable, "-c", "from clbr.cli import main; main()", "experiment", "run"]


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


def test_a_failed_cell_is_kept_with_its_error_the_rest_go_on_and_it_alone_is_tried_again(
    tiny: World, tmp_path: Path
) -> None:
    placed = cells(spec(seeds=2, arms={"original": {}, "other": {"settings": {"learning_rate": 0.5}}}), tiny.dataset)
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


def test_a_judge_without_its_run_is_trained_to_its_end_again_but_only_where_it_is_needed(
    tiny: World, shop: Path, tmp_path: Path
) -> None:
    settings = {"epochs": 3}
    arms = {"original": {"settings": settings}, "clbr": {"paradigm": "clbr", "settings": settings}}
    placed = expand(spec(seeds=1, arms=arms), str(shop), tiny.dataset.fingerprint, "tiny")
    original, clbr = (one.cell for one in placed)
    both = [original.key, clbr.key]
    store = fill(tmp_path / "c", tiny.dataset, placed, lambda one: 0.3 if one.arm == "original" else None)
    assert [cell.key for cell in pending(store, placed)] == both

    assert not work(store, original, Callbacks(stop=lambda: True))  # after an epoch
    assert (store.run(original) / BEST).exists()
    assert [cell.key for cell in pending(store, placed)] == both
    assert work(store, original, Callbacks())
    assert [cell.key for cell in pending(store, placed)] == [clbr.key]

    state = store.run(original) / "last" / "state.json"
    whole = state.read_text()
    state.write_text("?")
    assert [cell.key for cell in pending(store, placed)] == both
    state.write_text(whole)
    (store.run(original) / BEST).unlink()
    assert [cell.key for cell in pending(store, placed)] == both
    fill(tmp_path / "c", tiny.dataset, placed, lambda one: 0.3)
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


def test_why_a_judge_failed_is_told_of_what_it_was_to_judge(tiny: World, shop: Path, tmp_path: Path) -> None:
    arms = {"clbr": {"paradigm": "clbr", "settings": {"epochs": 3, "learning_rate": 1e30}}}
    (placed,) = expand(spec(seeds=1, arms=arms), str(shop), tiny.dataset.fingerprint, "tiny")
    outcome = run(tmp_path / "c", tiny.dataset, [placed], Local(1))
    assert re.match(
        r"lightgcn-original-0-\w+, which was to judge its pairs, failed: .*nan", outcome.failed[placed.cell.key]
    )


def test_where_not_even_a_failure_can_be_kept_the_rest_go_on(tiny: World, tmp_path: Path) -> None:
    """As on a full disk; here a file is in the way."""
    placed = cells(spec(seeds=1, arms={"one": {}, "other": {"settings": {"learning_rate": 0.5}}}), tiny.dataset)
    Store(tmp_path / "c").open(tiny.dataset)
    (tmp_path / "c" / "cells").write_text("in the way")
    outcome = run(tmp_path / "c", tiny.dataset, placed, Noted([one.cell.key for one in placed]))
    assert (outcome.done, outcome.of) == (0, 2)
    assert outcome.failed == {one.cell.key: "it broke" for one in placed}


def test_two_experiments_in_one_folder_take_turns(tiny: World, tmp_path: Path) -> None:
    placed = cells(spec(seeds=1), tiny.dataset)

    class Within(Noted):
        def run(self, folder: Path, *rest: object) -> None:
            with pytest.raises(InputError, match="another process"):
                run(folder, tiny.dataset, placed, Noted())

    run(tmp_path / "c", tiny.dataset, placed, Within())


def test_no_workers_are_refused() -> None:
    with pytest.raises(InputError, match="--workers 0"):
        Local(0)


def records(folder: Path, placed: Sequence[VariantCell]) -> list[dict[str, object]]:
    found = [Store(folder).read(one.cell) for one in placed]
    return [one.model_dump(exclude={"seconds", "memory", "environment"}) if one else {} for one in found]


def test_an_experiment_killed_half_way_goes_on_to_the_same_end(run: Run, shop: Path, tmp_path: Path) -> None:
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
    assert "1 of 3 cells failed, for instance bprmf-original-0-" in err.splitlines()[-1]
    assert "the loss is nan" in err.splitlines()[-1]

    dataset = load(shop)
    placed = expand(read_spec(path), str(shop), dataset.fingerprint, dataset.name)
    whole = Store(tmp_path / "whole").open(dataset)
    for one in (placed[0], placed[2]):  # in one go, in this process
        assert work(whole, one.cell, Callbacks())
    assert records(tmp_path / "killed", [placed[0], placed[2]]) == records(tmp_path / "whole", [placed[0], placed[2]])
    assert Store(tmp_path / "killed").per_user(placed[2].cell).found.any()

    before = snapshot(tmp_path / "killed")
    words += ["--arms", "original,sparse"]
    code, out, _ = run("experiment", "run", *words)
    assert (code, out.splitlines()[0]) == (0, f"{tmp_path / 'killed'}: 2 of 2 cells done")
    assert out.splitlines()[1].startswith("next: clbr experiment report ") and out.endswith(" --arms original,sparse\n")
    assert snapshot(tmp_path / "killed") == before

    code, out, _ = run("experiment", "report", *words[:5], "--to", str(tmp_path / "report"))
    assert code == 0
    assert "Failed: bprmf, broken, seed 0: the loss is nan" in out
    assert (tmp_path / "report" / "s.html").exists()


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
