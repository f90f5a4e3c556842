"""Stores of cells with invented results, to test reports without training."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from clbr import BundleDataset, Nodes
from clbr.evaluation.metrics import HEADLINE
from clbr.experiments.cells import Cell, VariantCell, expand
from clbr.experiments.spec import Spec
from clbr.experiments.store import Curve, PerUser, Record, Store

ENVIRONMENT = {
    "versions": {"clbr": "0.1.0", "torch": "2.13.0"},
    "threads": 1,
    "device": "cpu",
    "machine": {"system": "Linux", "processor": "x86_64", "cores": 2},
    "revision": "abc123",
    "data": {"name": "any", "fingerprint": "any"},
}
SMALL = """
title = "Small"
models = ["bprmf"]
seeds = 1
[variants.original]
settings = { epochs = 40, patience = 40 }
[variants.broken]
settings = { epochs = 3, learning_rate = 1e30 }
[variants.sparse]
settings = { epochs = 3, share = 0.5 }
"""
"""A specification of one cell that takes some seconds, one that fails and one that is fast."""


def spec(**changes: Any) -> Spec:
    """A specification of two variants of LightGCN with three seeds."""
    variants = {"original": {}, "clbr": {"paradigm": "clbr"}}
    return Spec.make({"title": "Invented", "models": ["lightgcn"], "seeds": 3, "variants": variants} | changes)


def cells(plan: Spec, dataset: BundleDataset) -> list[VariantCell]:
    return expand(plan, "nowhere", dataset.fingerprint, dataset.name)


def done(cell: Cell, dataset: BundleDataset, level: float, spread: float = 0.05) -> tuple[Record, PerUser]:
    """The record of a cell with every user's metrics near a level; seeds and cells differ at random."""
    rng = np.random.default_rng(crc32(cell.key.encode()))
    users = len(np.unique(dataset.test[:, 0]))
    metrics = {name: np.clip(level + spread * rng.standard_normal(users), 0, 1) for name in HEADLINE}
    validation = [level * part for part in (0.5, 0.9, 1.0, 0.95)]
    record = Record(
        key=cell.key,
        state="done",
        config=cell.config.model_copy(update={"data": ""}),
        share=cell.share,
        best_epoch=3,
        epochs=4,
        validation={"recall@20": level},
        test={name: float(values.mean()) for name, values in metrics.items()},
        seconds=12.5,
        memory=300.0,
        curve=Curve(epochs=[1, 2, 3, 4], validation=[*validation], losses={"bpr": [0.7, 0.5, 0.4, 0.35]}),
        environment=ENVIRONMENT,
    )
    return record, PerUser(metrics, rng.random(len(dataset.test)) < level)


def fill(
    folder: Path,
    dataset: BundleDataset,
    variant_cells: Sequence[VariantCell],
    level: Callable[[VariantCell], float | str | None],
) -> Store:
    """A store of these cells: done at a level, failed with a message, or not run (None)."""
    store = Store(folder).open(dataset)
    for one in variant_cells:
        value = level(one)
        if isinstance(value, str):
            store.write_failure(one.cell, value)
        elif value is not None:
            store.write(*done(one.cell, dataset, value))
    return store


def named_youshu(dataset: BundleDataset) -> BundleDataset:
    """A data set's pairs, with the name of Youshu and as many nodes."""
    nodes = Nodes("user", 8039), Nodes("bundle", 4771), Nodes("item", 32770)
    return BundleDataset("Youshu", *nodes, dataset.train, dataset.validation, dataset.test, dataset.ui, dataset.bi)
