"""What a run says beforehand and meanwhile: the cells, how long they take, how many have ended."""

import re
from pathlib import Path

import pytest
import torch
from rich.progress import Progress, TaskID

from clbr import World
from clbr.cli.show_cells import running
from clbr.experiments.cells import Cell
from clbr.experiments.estimate import _seconds_an_epoch, whole
from clbr.experiments.runner import News, pending
from invented import SMALL, cells, fill, spec
from typed import Run, snapshot


@pytest.mark.parametrize("there", [True, False])
def test_a_dry_run_lists_the_cells_and_writes_nothing(run: Run, shop: Path, tmp_path: Path, there: bool) -> None:
    (tmp_path / "s.toml").write_text(SMALL)
    if there:
        (tmp_path / "cells" / "tiny").mkdir(parents=True)
    before = snapshot(tmp_path)
    code, out, _ = run("experiment", "run", "s.toml", "--data", shop, "--dry-run")
    assert code == 0
    assert "bprmf, sparse, seed 0" in out
    assert "3 cells, 0 done; 3 to run" in out
    assert snapshot(tmp_path) == before


def test_several_specifications_are_one_run_in_which_first_seeds_come_first(
    run: Run, shop: Path, tmp_path: Path
) -> None:
    """A cell that both ask for is there once."""
    (tmp_path / "s.toml").write_text(SMALL.replace("seeds = 1", "seeds = 2"))
    arm = 'title = "Other"\nmodels = ["bprmf"]\nseeds = 2\n[arms.%s]\nsettings = { epochs = 3, share = %s }\n'
    (tmp_path / "other.toml").write_text(arm % ("half", 0.5))
    (tmp_path / "third.toml").write_text(arm % ("most", 0.9))
    code, out, _ = run("experiment", "run", "s.toml", "other.toml", "third.toml", "--data", shop, "--dry-run")
    assert code == 0
    assert "Small · Other · Other" in out
    assert "8 cells, 0 done; 8 to run" in out
    told = re.findall(r"bprmf, (\w+), seed (\d)", out)
    assert told == [(arm, seed) for seed in "01" for arm in ("original", "broken", "sparse", "most")]


def test_of_several_specifications_the_wrong_one_is_named(run: Run, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SMALL)
    (tmp_path / "t.toml").write_text(SMALL.replace("share = 0.5", "rtae = 0.5"))
    code, _, err = run("experiment", "run", "s.toml", "t.toml", "--data", shop, "--dry-run")
    assert code == 2
    assert err.startswith("error: t.toml: arm sparse: ") and len(err.splitlines()) == 1


def test_edits_without_effect_are_warned_of_once(run: Run, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'title = "Idle"\nmodels = ["lightgcn"]\nseeds = 2\n[arms.clbr]\nparadigm = "clbr"\nsettings = { ratio_bi = 0.0 }\n'
    )
    code, _, err = run("experiment", "run", "s.toml", "--data", shop, "--dry-run")
    assert code == 0
    assert err.splitlines() == [
        "warning: lightgcn does not look at user-item pairs: editing them is without effect (ratio_ui is taken as 0)"
    ]


def test_a_dry_run_tells_what_it_cannot_know_and_times_with_the_threads_of_a_worker(
    run: Run, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arm that diverges at once stands first."""
    head, original, broken, sparse = re.split(r"(?=\[arms)", SMALL)
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
    arms = {"other": {"settings": {"learning_rate": 0.5}}, "clbr": {"paradigm": "clbr"}}
    placed = cells(spec(seeds=1, arms=arms), tiny.dataset)
    store = fill(tmp_path / "c", tiny.dataset, placed, lambda one: 0.3 if one.arm == "other" else None)
    to_run = pending(store, placed)
    with running("T", placed, to_run) as heard:
        for cell in to_run:
            heard(News(cell, "done"))
    assert bars == [("T: 0 of 2", 2), ("T: 1 of 2", None), ("T: 2 of 2", None)]
