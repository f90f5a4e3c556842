"""What a run prints before and while it runs: the cells, how long they take, how many have ended."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.progress import Progress, TaskID

from clbr import World, save
from clbr.cli.show_cells import running
from clbr.experiments.cells import Cell
from clbr.experiments.estimate import _seconds_per_epoch, total_seconds
from clbr.experiments.runner import CellEvent, pending
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


def test_several_specifications_are_one_run_with_the_first_seeds_first(run: Run, shop: Path, tmp_path: Path) -> None:
    """A cell of two specifications is run once."""
    (tmp_path / "s.toml").write_text(SMALL.replace("seeds = 1", "seeds = 2"))
    variant = 'title = "Other"\nmodels = ["bprmf"]\nseeds = 2\n[variants.%s]\nsettings = { epochs = 3, share = %s }\n'
    (tmp_path / "other.toml").write_text(variant % ("half", 0.5))
    (tmp_path / "third.toml").write_text(variant % ("most", 0.9))
    code, out, _ = run("experiment", "run", "s.toml", "other.toml", "third.toml", "--data", shop, "--dry-run")
    assert code == 0
    assert "Small · Other · Other" in out
    assert "8 cells, 0 done; 8 to run" in out
    listed = re.findall(r"bprmf, (\w+), seed (\d)", out)
    assert listed == [(variant, seed) for seed in "01" for variant in ("original", "broken", "sparse", "most")]


def test_an_error_names_the_specification_that_it_is_in(run: Run, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SMALL)
    (tmp_path / "t.toml").write_text(SMALL.replace("share = 0.5", "rtae = 0.5"))
    code, _, err = run("experiment", "run", "s.toml", "t.toml", "--data", shop, "--dry-run")
    assert code == 2
    assert err.startswith("error: t.toml: variant sparse: ") and len(err.splitlines()) == 1


def test_edits_without_effect_give_one_warning(run: Run, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'title = "Idle"\nmodels = ["lightgcn"]\nseeds = 2\n[variants.clbr]\nparadigm = "clbr"\nsettings = { ratio_bi = 0.0 }\n'
    )
    code, _, err = run("experiment", "run", "s.toml", "--data", shop, "--dry-run")
    assert code == 0
    assert err.splitlines() == [
        "warning: lightgcn does not use user-item pairs: editing them has no effect (ratio_ui is taken as 0)"
    ]


def test_the_presets_and_their_constraints_are_printed_once(run: Run, tiny: World, tmp_path: Path) -> None:
    data = save(replace(tiny.dataset, name="Youshu"), tmp_path / "Youshu")
    text = (
        'title = "T"\nmodels = ["bprmf", "bgcn"]\nseeds = 2\n[variants.original]\n[variants.clbr]\nparadigm = "clbr"\n'
    )
    (tmp_path / "s.toml").write_text(text + 'models = ["bgcn"]\n')
    code, _, err = run("experiment", "run", "s.toml", "--data", data, "--dry-run")
    assert code == 0
    presets = [line for line in err.splitlines() if "preset" in line]
    assert len(presets) == len(set(presets)) == 5  # of bgcn with views: its name, its constraint, and what is beyond
    for model in ("bprmf", "bgcn"):
        assert f"{model}: preset youshu, chosen by the name of the data set, Youshu" in presets
    assert sum("its constraint is 'contrastive', not the paper's 'adaptive'" in line for line in presets) == 1
    (tmp_path / "s.toml").write_text('preset = "none"\n' + text)
    assert "preset" not in run("experiment", "run", "s.toml", "--data", data, "--dry-run", "--models", "bprmf")[2]


def test_a_dry_run_says_what_it_cannot_estimate_and_times_with_the_threads_of_a_worker(
    run: Run, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variant that diverges at once is the first."""
    head, original, broken, sparse = re.split(r"(?=\[variants)", SMALL)
    (tmp_path / "s.toml").write_text(head + broken + original + sparse)
    threads: list[int] = []

    def timed(cell: Cell, dataset: object) -> float:
        threads.append(torch.get_num_threads())
        return _seconds_per_epoch(cell, dataset)  # type: ignore[arg-type]

    monkeypatch.setattr("clbr.experiments.estimate._seconds_per_epoch", timed)
    words = ("experiment", "run", "s.toml", "--data", shop, "--dry-run")
    code, out, _ = run(*words, "--threads", 2, "--workers", 2)
    assert code == 0
    assert re.search(r"bprmf, broken, seed 0 +not known", out)
    assert re.search(r"bprmf, sparse, seed 0 +\d+ s", out)
    assert ", and 1 not known" in out
    assert threads == [1, 1]  # the second cell of the model is timed instead of the first


def test_all_cells_take_at_least_as_long_as_the_longest() -> None:
    assert total_seconds([10.0, 10.0, 20.0], 2) == 20.0
    assert total_seconds([10.0] * 6, 2) == 30.0
    assert total_seconds([30.0, 1.0], 8) == 30.0
    assert total_seconds([], 2) == 0.0


def test_progress_counts_the_cells_to_run_with_their_selection_models(
    tiny: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[tuple[str, float | None]] = []

    class Recorded(Progress):
        def add_task(self, description: str, *args: object, total: float | None = None, **more: object) -> TaskID:
            bars.append((description, total))
            return super().add_task(description, total=total)

        def update(self, task_id: TaskID, *, description: str = "", **more: object) -> None:  # type: ignore[override]
            bars.append((description, None))

    monkeypatch.setattr("clbr.cli.show_cells.Progress", Recorded)
    variants = {"other": {"settings": {"learning_rate": 0.5}}, "clbr": {"paradigm": "clbr"}}
    variant_cells = cells(spec(seeds=1, variants=variants), tiny.dataset)
    store = fill(tmp_path / "c", tiny.dataset, variant_cells, lambda one: 0.3 if one.variant == "other" else None)
    to_run = pending(store, variant_cells)
    with running("T", variant_cells, to_run) as on_event:
        for cell in to_run:
            on_event(CellEvent(cell, "done"))
    assert bars == [("T: 0 of 2", 2), ("T: 1 of 2", None), ("T: 2 of 2", None)]
