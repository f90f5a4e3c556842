"""The trainable models by name. A new one is one file and one line here."""

from typing import Any

import torch

from clbr.config import nearest
from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.models.base import Model
from clbr.models.bgcn import BGCN
from clbr.models.bprmf import BPRMF
from clbr.models.bundlenet import BundleNet
from clbr.models.crosscbr import CrossCBR
from clbr.models.dam import DAM
from clbr.models.lightgcn import LightGCN
from clbr.models.rgcn import RGCN

MODELS: dict[str, type[Model]] = {
    "bprmf": BPRMF,
    "lightgcn": LightGCN,
    "dam": DAM,
    "rgcn": RGCN,
    "bundlenet": BundleNet,
    "bgcn": BGCN,
    "crosscbr": CrossCBR,
}


def register(name: str, model: type[Model]) -> None:
    """Make a model of one's own known by a name, to `fit`, `compose` and all that takes a model's name."""
    if name in MODELS and MODELS[name] is not model:
        raise InputError(f"there is a model '{name}' already; choose another name")
    MODELS[name] = model


def find_model(name: str) -> type[Model]:
    """A model's class by its name."""
    if name not in MODELS:
        raise InputError(f"unknown model '{name}', {nearest(name, list(MODELS))}")
    return MODELS[name]


def build_model(name: str, settings: dict[str, Any], users: int, bundles: int, items: int) -> Model:
    """A model for so many nodes, its parameters not yet drawn."""
    kind = find_model(name)
    model: Model = kind(kind.settings.make(settings, f"settings of {name}"), users, bundles, items)  # type: ignore[call-arg]
    return model


def make_model(
    name: str, settings: dict[str, Any], dataset: BundleDataset, generator: torch.Generator | None = None
) -> Model:
    """A model for a data set, with its parameters drawn if there is a generator to draw from."""
    kind = find_model(name)
    model = build_model(name, settings, len(dataset.users), len(dataset.bundles), len(dataset.items))
    for relation, what in (("ui", "user-item"), ("bi", "bundle-item")):
        needed = relation in kind.relations or (relation == "ui" and model.learns_items)
        if needed and not len(getattr(dataset, relation)):
            raise InputError(f"{dataset.name} has no {what} pairs, and {name} cannot do without them")
    if generator is not None:
        with torch.no_grad():
            model.initialise(generator)
    return model
