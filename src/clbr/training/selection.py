"""What judges pairs for a run: the weights and settings of its selection model, copied into its folder."""

import json
from pathlib import Path

import torch

from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.files import read_bytes, write_atomic
from clbr.graph.graph import BundleGraph
from clbr.models.base import Embeddings, Encoder, Model
from clbr.models.registry import make_model
from clbr.training.checkpoint import read_model
from clbr.training.run_folder import BEST, best_model, read_config

SELECTION, SELECTION_SETTINGS = "selection.safetensors", "selection.json"


def keep_selection(selection: Path, folder: Path) -> None:
    """Copy what judges pairs into the run, which then needs nothing else; the settings last."""
    given = read_config(selection)
    write_atomic(folder / SELECTION, (selection / BEST).read_bytes())
    about = {"run": selection.name, "model": given.model, "seed": given.seed, "settings": given.settings}
    write_atomic(folder / SELECTION_SETTINGS, json.dumps(about, indent=2).encode())


def selection_embeddings(folder: Path, dataset: BundleDataset) -> Embeddings:
    """The vectors of a run's selection model on the training graph."""
    path = folder / SELECTION_SETTINGS
    try:
        about = json.loads(read_bytes(path))
        name, settings = str(about["model"]), dict(about["settings"])
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{path}: is damaged; put it back, or train anew with another --out") from None
    model = make_model(name, settings, dataset)
    read_model(folder / SELECTION, model)
    return _vectors(model, dataset)


def view_embeddings(folder: Path, dataset: BundleDataset) -> Embeddings:
    """The vectors that tell how relevant pairs are to a run: of the model that judged its views, or of its own."""
    if (folder / SELECTION_SETTINGS).exists():
        return selection_embeddings(folder, dataset)
    return _vectors(best_model(folder, dataset), dataset)


def _vectors(model: Model, dataset: BundleDataset) -> Embeddings:
    """What a trained model makes of the training graph."""
    assert isinstance(model, Encoder)
    with torch.no_grad():
        return model.encode(BundleGraph.of(dataset))
