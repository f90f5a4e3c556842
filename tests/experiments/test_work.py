"""One cell: gone on with to the same end, and never with settings or weights that are not its own."""

import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from clbr import InputError, World
from clbr.evaluation.protocol import Evaluation, evaluate
from clbr.experiments.cells import VariantCell, expand
from clbr.experiments.store import Store
from clbr.experiments.work import fail, work
from clbr.training.run import Callbacks, locked
from clbr.training.run_folder import BEST
from invented import spec


def test_a_cell_waits_for_what_still_runs_in_its_folder(tiny: World, shop: Path, tmp_path: Path) -> None:
    """As after a kill: the cell's old process is still at its epoch when the experiment is begun again."""
    plan = spec(models=["bprmf"], arms={"original": {"settings": {"epochs": 1}}}, seeds=1)
    (placed,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny")
    store = Store(tmp_path / "c").open(tiny.dataset)
    folder = store.run(placed.cell)
    folder.mkdir(parents=True)
    worker = Thread(target=work, args=(store, placed.cell, Callbacks()))
    with locked(folder):
        worker.start()
        worker.join(1.0)
        assert worker.is_alive()
        assert not store.is_done(placed.cell)
    worker.join(60)
    assert store.is_done(placed.cell)


@pytest.fixture
def half(tiny: World, shop: Path, tmp_path: Path) -> tuple[Store, VariantCell]:
    """A store, and a cell that was stopped after its first epoch of three."""
    plan = spec(models=["bprmf"], arms={"original": {"settings": {"epochs": 3}}}, seeds=1)
    (placed,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny")
    store = Store(tmp_path / "c").open(tiny.dataset)
    assert not work(store, placed.cell, Callbacks(stop=lambda: True))
    return store, placed


def test_a_half_run_cell_is_not_gone_on_with_once_a_default_has_changed(
    half: tuple[Store, VariantCell], tiny: World, shop: Path, changed_default: Callable[[str, object], None]
) -> None:
    store, before = half
    changed_default("rate", 0.5)
    plan = spec(models=["bprmf"], arms={"original": {"settings": {"epochs": 3}}}, seeds=1)
    (placed,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny")
    assert placed.cell.key == before.cell.key
    for _ in range(2):  # kept as a failure, it is still refused
        with pytest.raises(InputError, match=f"{placed.cell.key}: .* with rate 0.001, not 0.5: .*; remove that folder"):
            work(store, placed.cell, Callbacks())
        fail(store, placed.cell, "refused")
    fail(store, before.cell, "it diverged")  # what failed with the old default is simply run again
    assert work(store, placed.cell, Callbacks())
    assert store.is_done(placed.cell)


@pytest.mark.parametrize("ended", [True, False])
def test_a_run_that_lost_its_best_weights_is_trained_anew(half: tuple[Store, VariantCell], ended: bool) -> None:
    store, placed = half
    best = store.run(placed.cell) / BEST
    if ended:
        assert work(store, placed.cell, Callbacks())
        kept = best.read_bytes()
    shutil.rmtree(best.parent)
    assert work(store, placed.cell, Callbacks())
    assert store.is_done(placed.cell)
    assert not ended or best.read_bytes() == kept


def test_withheld_training_pairs_are_no_candidates_on_tune_and_on_test(
    tiny: World, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begun and gone on with: nobody is ever offered what she has in the whole data set."""
    offered: dict[str, int] = {"validation": 0, "test": 0}
    has = set(map(tuple, tiny.dataset.train.tolist()))

    def watched(*args: object, **options: object) -> Evaluation:
        result = evaluate(*args, **options)  # type: ignore[arg-type]
        offered[result.split] += 1
        users = np.repeat(result.users, result.ranking.shape[1])
        assert not has & set(zip(users.tolist(), result.ranking.ravel().tolist(), strict=True))
        return result

    for place in ("clbr.training.loop.evaluate", "clbr.experiments.work.evaluate"):
        monkeypatch.setattr(place, watched)
    plan = spec(models=["bprmf"], arms={"original": {"settings": {"epochs": 2, "share": 0.5}}}, seeds=1)
    (placed,) = expand(plan, str(shop), tiny.dataset.fingerprint, "tiny")
    store = Store(tmp_path / "c").open(tiny.dataset)
    assert not work(store, placed.cell, Callbacks(stop=lambda: True))
    assert work(store, placed.cell, Callbacks())
    assert offered == {"validation": 2, "test": 1}
