"""The selection model of a run: its weights and settings are copied into the run folder, and read from there."""

import json
from pathlib import Path

import torch

from clbr.data.dataset import BundleDataset
from clbr.files import read_bytes, write_atomic
from clbr.graph.graph import BundleGraph
from clbr.models.base import Embeddings, Encoder, Model
from clbr.models.registry import make_model
from clbr.training.run_folder import BEST, best_model, damaged, read_config, read_model

SELECTION, SELECTION_SETTINGS = "selection.safetensors", "selection.json"


def copy_selection(selection: Path, folder: Path) -> None:
    """Copy the best weights of a run into another run's folder, as its selection model. The settings come last."""
    config = read_config(selection)
    write_atomic(folder / SELECTION, (selection / BEST).read_bytes())
    about = {"run": selection.name, "model": config.model, "seed": config.seed, "settings": config.settings}
    write_atomic(folder / SELECTION_SETTINGS, json.dumps(about, indent=2).encode())


def selection_embeddings(folder: Path, dataset: BundleDataset) -> Embeddings:
    """Return the embeddings of a run's selection model on the training graph."""
    path = folder / SELECTION_SETTINGS
    try:
        about = json.loads(read_bytes(path))
        name, settings = str(about["model"]), dict(about["settings"])
    except (ValueError, TypeError, KeyError):
        raise damaged(path) from None
    model = make_model(name, settings, dataset)
    read_model(folder / SELECTION, model)
    return _embeddings(model, dataset)


def view_embeddings(folder: Path, dataset: BundleDataset) -> Embeddings:
    """Return the embeddings that score the pairs of a run's views: of its selection model, else of its own model."""
    if (folder / SELECTION_SETTINGS).exists():
        return selection_embeddings(folder, dataset)
    return _embeddings(best_model(folder, dataset), dataset)


def _embeddings(model: Model, dataset: BundleDataset) -> Embeddings:
    assert isinstance(model, Encoder)
    with torch.no_grad():
        return model.encode(BundleGraph.of(dataset))
