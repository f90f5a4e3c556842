"""Run one cell: train it, evaluate its best epoch on test, write its record."""

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
from clbr.experiments.noise import add_noise
from clbr.experiments.store import Curve, PerUser, Record, Store, changed_setting
from clbr.files import local_folder, lock
from clbr.rng import generator
from clbr.training.loop import selecting_value
from clbr.training.run import Callbacks, Counters, resume, start
from clbr.training.run_folder import BEST, best_epoch, best_scorer, read_config, read_metrics

FOUND_AT = 20


def run_cell(store: Store, cell: Cell, callbacks: Callbacks) -> bool:
    """Train a cell, or resume its training, and write its record. Return False if it was stopped before its end."""
    source = local_folder(cell.config.data, "data")
    full = load(source)
    store.is_started(full)  # raises an error if this worker sees other data than those of the store
    dataset = training_data(full, cell)
    changed = dataset is not full
    masked = full.train if changed else None  # so that the candidates are the same for every share and noise
    folder = store.run_folder(cell)
    data = _save_data(store, dataset) if changed else source
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder, callbacks.on_wait, callbacks.should_stop) as obtained:
        if not obtained:  # the process of a killed experiment is still in its last epoch
            return False
    if (folder / "config.toml").exists() and _must_restart(store, cell):
        rmtree(folder)
    if (folder / "config.toml").exists():
        counters = resume(folder, callbacks, data=data, masked=masked)
    else:
        config = cell.config.model_copy(update={"data": str(data)})
        selection = store.run_folder(cell.selection_cell) if cell.selection_cell else None
        counters = start(folder, config, dataset, callbacks, selection=selection, masked=masked)
    if not counters.finished(cell.config.train):
        return False
    if not store.is_done(cell):
        store.write(*_evaluate(store, cell, dataset, counters, masked))
    return True


def _must_restart(store: Store, cell: Cell) -> bool:
    """Return whether a run must start again: its best weights are missing, or it failed with other settings.

    Raises `InputError` for a run that was stopped with other settings, which is not deleted without being asked.
    """
    folder = store.run_folder(cell)
    config = read_config(folder)
    there = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    changed = changed_setting(there, cell.config.model_dump(mode="json"))
    if changed and not store.failed_with_other_settings(cell):
        why = f"was started with other settings, with {changed}, because a default has changed since"
        raise InputError(f"{folder}: {why}; remove that folder to train the cell again")
    return bool(changed) or (best_epoch(folder, config) is not None and not (folder / BEST).exists())


def training_data(dataset: BundleDataset, cell: Cell) -> BundleDataset:
    """Return the data that a cell is trained on: a share of the training pairs, with noise. Or the data set itself."""
    return add_noise(keep_share(dataset, cell.share), cell.noise)


def keep_share(dataset: BundleDataset, share: float) -> BundleDataset:
    """Return the data set with a random share of its training pairs. A smaller share is part of a larger one."""
    if share == 1:
        return dataset
    count = max(1, round(share * len(dataset.train)))
    order = generator(0, "share of training pairs").permutation(len(dataset.train))
    return replace(dataset, name=f"{dataset.name}-{share:g}", train=dataset.train[np.sort(order[:count])])


def _save_data(store: Store, dataset: BundleDataset) -> Path:
    """Save a changed data set in the store, so that its runs can be resumed; return the folder."""
    folder = store.folder / "data" / dataset.name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with lock(folder.parent, on_wait=lambda _: None):  # other workers, perhaps on other machines, save the same data
        if not folder.exists():
            save(dataset, folder)
    return folder.resolve()


def _evaluate(
    store: Store, cell: Cell, dataset: BundleDataset, counters: Counters, masked: Pairs | None
) -> tuple[Record, PerUser]:
    """Evaluate the best epoch of a trained cell on test, and put its record together."""
    folder = store.run_folder(cell)
    result = evaluate(best_scorer(folder, dataset), dataset, split="test", masked=masked)
    lines = [json.loads(line) for line in read_metrics(folder)]
    metric = read_config(folder).train.metric
    checks = [selecting_value(line["validation"], metric) if line["validation"] else None for line in lines]
    curve = Curve(
        epochs=[line["number"] for line in lines],
        validation=[None if value is None else _rounded(value) for value in checks],
        losses={name: [_rounded(line["losses"][name]) for line in lines] for name in lines[0]["losses"]},
    )
    best = next(line for line in lines if line["number"] == counters.best_epoch)
    record = Record(
        key=cell.key,
        state="done",
        config=cell.config.model_copy(update={"data": ""}),  # the path is valid on this machine only
        share=cell.share,
        noise=cell.noise,
        best_epoch=counters.best_epoch,
        epochs=counters.epoch,
        validation=best["validation"],
        test=result.means,
        seconds=round(sum(line["seconds"] for line in lines), 2),
        memory=round(_peak_memory(), 1),
        curve=curve,
        environment=json.loads((folder / "environment.json").read_text()),
    )
    found = result.found(dataset.test, FOUND_AT)
    return record, PerUser({name: result.per_user[name] for name in HEADLINE}, found)


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _peak_memory() -> float:
    """Return the peak memory of this process, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
