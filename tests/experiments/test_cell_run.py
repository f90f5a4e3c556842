"""One cell: resumed with identical results, and never with the settings or weights of another."""

import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from clbr import InputError, World
from clbr.evaluation.protocol import Evaluation, evaluate
from clbr.experiments.cell_run import run_cell
from clbr.experiments.cells import VariantCell, expand
from clbr.experiments.store import Store
from clbr.files import lock
from clbr.training.run import Callbacks
from clbr.training.run_folder import BEST
from invented import spec


def test_a_cell_waits_for_a_process_that_still_runs_in_its_folder(tiny: World, shop: Path, tmp_path: Path) -> None:
    """As after a kill: the cell's old process is still in its epoch when the experiment is started again."""
    plan = spec(models=["bprmf"], variants={"original": {"settings": {"epochs": 1}}}, seeds=1)
    (variant_cell,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny")
    store = Store(tmp_path / "c").open(tiny.dataset)
    folder = store.run_folder(variant_cell.cell)
    folder.mkdir(parents=True)
    worker = Thread(target=run_cell, args=(store, variant_cell.cell, Callbacks()))
    with lock(folder):
        worker.start()
        worker.join(1.0)
        assert worker.is_alive()
        assert not store.is_done(variant_cell.cell)
    worker.join(60)
    assert store.is_done(variant_cell.cell)


@pytest.fixture
def stopped(tiny: World, shop: Path, tmp_path: Path) -> tuple[Store, VariantCell]:
    """A store, and a cell that was stopped after its first epoch of three."""
    plan = spec(models=["bprmf"], variants={"original": {"settings": {"epochs": 3}}}, seeds=1)
    (variant_cell,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny")
    store = Store(tmp_path / "c").open(tiny.dataset)
    assert not run_cell(store, variant_cell.cell, Callbacks(should_stop=lambda: True))
    return store, variant_cell


def test_a_stopped_cell_is_not_resumed_once_a_default_has_changed(
    stopped: tuple[Store, VariantCell], tiny: World, shop: Path, changed_default: Callable[[str, object], None]
) -> None:
    store, before = stopped
    changed_default("learning_rate", 0.5)
    plan = spec(models=["bprmf"], variants={"original": {"settings": {"epochs": 3}}}, seeds=1)
    (variant_cell,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny")
    assert variant_cell.cell.key == before.cell.key
    message = f"{variant_cell.cell.key}: .* with learning_rate 0.001, not 0.5, .*; remove that folder"
    for _ in range(2):  # recorded as a failure, it is still an error
        with pytest.raises(InputError, match=message):
            run_cell(store, variant_cell.cell, Callbacks())
        store.write_failure(variant_cell.cell, "an error")
    store.write_failure(before.cell, "it diverged")  # a cell that failed with the old default is run again
    assert run_cell(store, variant_cell.cell, Callbacks())
    assert store.is_done(variant_cell.cell)


@pytest.mark.parametrize("ended", [True, False])
def test_a_run_that_lost_its_best_weights_is_trained_again(stopped: tuple[Store, VariantCell], ended: bool) -> None:
    store, variant_cell = stopped
    best = store.run_folder(variant_cell.cell) / BEST
    if ended:
        assert run_cell(store, variant_cell.cell, Callbacks())
        weights = best.read_bytes()
    shutil.rmtree(best.parent)
    assert run_cell(store, variant_cell.cell, Callbacks())
    assert store.is_done(variant_cell.cell)
    assert not ended or best.read_bytes() == weights


def test_training_pairs_outside_the_share_are_no_candidates_on_validation_and_test(
    tiny: World, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started and resumed: no user is recommended a bundle of the full training data."""
    evaluated: dict[str, int] = {"validation": 0, "test": 0}
    known = set(map(tuple, tiny.dataset.train.tolist()))

    def checked_evaluate(*args: object, **options: object) -> Evaluation:
        result = evaluate(*args, **options)  # type: ignore[arg-type]
        evaluated[result.split] += 1
        users = np.repeat(result.users, result.ranking.shape[1])
        assert not known & set(zip(users.tolist(), result.ranking.ravel().tolist(), strict=True))
        return result

    for name in ("clbr.training.loop.evaluate", "clbr.experiments.cell_run.evaluate"):
        monkeypatch.setattr(name, checked_evaluate)
    plan = spec(models=["bprmf"], variants={"original": {"settings": {"epochs": 2, "share": 0.5}}}, seeds=1)
    (variant_cell,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny")
    store = Store(tmp_path / "c").open(tiny.dataset)
    assert not run_cell(store, variant_cell.cell, Callbacks(should_stop=lambda: True))
    assert run_cell(store, variant_cell.cell, Callbacks())
    assert evaluated == {"validation": 2, "test": 1}


def test_a_cell_with_noise_is_trained_on_changed_data_and_recorded(tiny: World, shop: Path, tmp_path: Path) -> None:
    noisy = {"settings": {"epochs": 1, "noise_ub": 0.5, "noise_bi": 0.2}}
    plan = spec(models=["lightgcn"], variants={"original": {"settings": {"epochs": 1}}, "noisy": noisy}, seeds=1)
    store = Store(tmp_path / "c").open(tiny.dataset)
    records = []
    for one in expand(plan, str(shop), tiny.dataset.fingerprint, "tiny"):
        assert run_cell(store, one.cell, Callbacks())
        records.append(store.read(one.cell))
    plain, other = records
    assert plain is not None and other is not None
    assert (plain.noise.rates, other.noise.rates) == ({}, {"ub": 0.5, "bi": 0.2})
    assert plain.test != other.test
    assert (store.folder / "data" / f"{tiny.dataset.name}-replace-ub0.5-bi0.2").exists()
