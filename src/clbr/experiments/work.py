"""One cell's work: train it, test it at its best epoch, keep its record."""

import json
import resource
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import numpy as np

from clbr.data.dataset import BundleDataset
from clbr.data.folder import load, save
from clbr.data.pairs import Pairs
from clbr.errors import InputError
from clbr.evaluation.metrics import HEADLINE
from clbr.evaluation.protocol import evaluate
from clbr.experiments.cells import Cell
from clbr.experiments.store import Curve, PerUser, Record, Store, departure
from clbr.rng import generator
from clbr.training.run import Callbacks, Counters, locked, resume, start
from clbr.training.run_folder import BEST, best_epoch, best_recommender, read_config, read_metrics

FOUND_AT = 20


def work(store: Store, cell: Cell, hooks: Callbacks) -> bool:
    """Run a cell to its end, or go on with it; whether it got there. What goes wrong is raised."""
    whole = load(cell.config.data)
    dataset = thinned(whole, cell.share)
    masked = whole.train if cell.share < 1 else None  # candidates are the same for every share
    folder = store.run(cell)
    data = _keep(store, dataset) if cell.share < 1 else Path(cell.config.data)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, hooks) as ours:  # a cell that outlives its killed experiment ends with its epoch
        if not ours:
            return False
    if (folder / "config.toml").exists() and _is_lost(store, cell):
        rmtree(folder)
    if (folder / "config.toml").exists():
        counters = resume(folder, hooks, data=data, masked=masked)
    else:
        config = cell.config.model_copy(update={"data": str(data)})
        judge = store.run(cell.judge) if cell.judge else None
        counters = start(folder, config, dataset, hooks, selection=judge, masked=masked)
    if not counters.finished(cell.config.train):
        return False
    if not store.is_done(cell):
        store.write(*_sum_up(store, cell, dataset, counters, masked))
    return True


def _is_lost(store: Store, cell: Cell) -> bool:
    """Whether a run has to be begun anew: its best weights are gone, or it failed with settings not asked for now.

    One that was stopped half way with other settings is refused: it may be wanted yet.
    """
    folder = store.run(cell)
    config = read_config(folder)
    there = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    apart = departure(there, cell.config.model_dump(mode="json"))
    if apart and not store.failed_otherwise(cell):
        anew = "remove that folder to train the cell anew"
        raise InputError(f"{folder}: was begun with other settings, with {apart}: a default has changed; {anew}")
    return bool(apart) or (best_epoch(folder, config) is not None and not (folder / BEST).exists())


def thinned(dataset: BundleDataset, share: float) -> BundleDataset:
    """The data set with a share of its training pairs; a smaller share's are among a larger one's."""
    if share == 1:
        return dataset
    keep = max(1, round(share * len(dataset.train)))
    order = generator(0, "share of training pairs").permutation(len(dataset.train))
    return replace(dataset, name=f"{dataset.name}-{share:g}", train=dataset.train[np.sort(order[:keep])])


def _keep(store: Store, dataset: BundleDataset) -> Path:
    """Where the thinned data set lies, so that a run of it can be gone on with."""
    folder = store.folder / "data" / dataset.name
    if not folder.exists():
        try:
            save(dataset, folder)
        except InputError:  # another worker was quicker
            if load(folder).fingerprint != dataset.fingerprint:
                raise
    return folder.resolve()


def _sum_up(
    store: Store, cell: Cell, dataset: BundleDataset, counters: Counters, masked: Pairs | None
) -> tuple[Record, PerUser]:
    folder = store.run(cell)
    result = evaluate(best_recommender(folder, dataset), dataset, split="test", masked=masked)
    lines = [json.loads(line) for line in read_metrics(folder)]
    metric = read_config(folder).train.metric
    curve = Curve(
        epochs=[line["number"] for line in lines],
        validation=[_short(line["validation"][metric]) if line["validation"] else None for line in lines],
        losses={name: [_short(line["losses"][name]) for line in lines] for name in lines[0]["losses"]},
    )
    best = next(line for line in lines if line["number"] == counters.best_epoch)
    record = Record(
        key=cell.key,
        state="done",
        config=cell.config.model_copy(update={"data": ""}),  # where it lies is this machine's affair
        share=cell.share,
        best_epoch=counters.best_epoch,
        epochs=counters.epoch,
        validation=best["validation"],
        test=result.means,
        seconds=round(sum(line["seconds"] for line in lines), 2),
        memory=round(peak_memory(), 1),
        curve=curve,
        environment=json.loads((folder / "environment.json").read_text()),
    )
    found = result.found(dataset.test, FOUND_AT)
    return record, PerUser({name: result.per_user[name] for name in HEADLINE}, found)


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def peak_memory() -> float:
    """The most memory that this process has held, in MiB."""
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / (2**20 if sys.platform == "darwin" else 2**10)


def fail(store: Store, cell: Cell, error: str) -> None:
    """Keep that a cell failed, and why."""
    config = cell.config.model_copy(update={"data": ""})
    store.write(Record(key=cell.key, state="failed", config=config, share=cell.share, error=error))
