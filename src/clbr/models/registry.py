"""Models by name, and the baselines: a built-in model is one file and one line here, one's own needs `register`."""

import os
import re
from importlib import import_module
from typing import Any, NamedTuple, get_args

import torch

from clbr.config import Config, nearest
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Relation
from clbr.errors import InputError
from clbr.graph.graph import BundleGraph
from clbr.models.base import ClosedForm, Encoder, Model, ModelConfig, Scorer, SearchSpace
from clbr.models.bgcn import BGCN
from clbr.models.bprmf import BPRMF
from clbr.models.bundlegt import BundleGT
from clbr.models.bundlenet import BundleNet
from clbr.models.crosscbr import CrossCBR
from clbr.models.dam import DAM
from clbr.models.ease import EASE
from clbr.models.lightgcn import LightGCN
from clbr.models.multicbr import MultiCBR
from clbr.models.neighbours import Neighbours
from clbr.models.overlap import Overlap
from clbr.models.popularity import Popularity
from clbr.models.rgcn import RGCN
from clbr.models.trilevel import TriLevel

MODELS: dict[str, type[Model]] = {
    "popularity": Popularity,
    "overlap": Overlap,
    "neighbours": Neighbours,
    "ease": EASE,
    "bprmf": BPRMF,
    "lightgcn": LightGCN,
    "dam": DAM,
    "rgcn": RGCN,
    "bundlenet": BundleNet,
    "bgcn": BGCN,
    "crosscbr": CrossCBR,
    "bundlegt": BundleGT,
    "multicbr": MultiCBR,
    "trilevel": TriLevel,
}

DEFAULT_MODEL = "trilevel"
"""The model that is trained if none is named."""

OWN_MODELS = "CLBR_MODELS"


class Baseline(NamedTuple):
    """A simple recommender that a trained model should beat."""

    model: str
    settings: dict[str, Any]
    """Where the search begins, and what is used where there are no validation pairs to search on."""
    grid: SearchSpace
    """Values of the settings that are tried on validation, in ascending order."""


BASELINES: dict[str, Baseline] = {
    "popularity": Baseline("popularity", {}, {}),
    "content overlap": Baseline(
        "overlap", {"length": 0.5, "history": 0.3}, {"length": [0.0, 0.5, 1.0], "history": [0.0, 0.3, 1.0]}
    ),
    "neighbours": Baseline(
        "neighbours",
        {"penalty": 0.2, "items": 1.0},
        {"penalty": [0.0, 0.1, 0.2, 0.3, 0.5, 0.7], "items": [0.0, 0.3, 1.0, 3.0]},
    ),
    "EASE": Baseline("ease", {"l2": 500.0}, {"l2": [5.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0]}),
    "EASE with contents": Baseline(
        "ease",
        {"l2": 200.0, "contents": 0.3},
        {"l2": [5.0, 40.0, 200.0, 1000.0, 5000.0], "contents": [0.1, 0.3, 1.0, 3.0]},
    ),
}
"""The baselines by the name they are reported under."""


def register(name: str, model: type[Model]) -> None:
    """Add a model of one's own, for this process. Every function that takes a model's name then accepts it.

    Raises an `InputError` if the name is taken or not made of a-z, 0-9, - and _, or if the class is not a `Model` that
    sets `config_class` and `relations`.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise InputError(
            f"model name {name!r}: expected lower case letters, digits, - or _, the first a letter or a digit"
        )
    if not isinstance(model, type) or not issubclass(model, Model):
        raise InputError(f"model '{name}': expected a subclass of clbr.models.base.Model, found {model!r}")
    config_class = getattr(model, "config_class", None)
    base = Config if issubclass(model, ClosedForm) else ModelConfig
    if not isinstance(config_class, type) or not issubclass(config_class, base):
        raise InputError(
            f"model '{name}': expected {model.__name__}.config_class to be {base.__name__} or a subclass of it, "
            f"found {config_class!r}"
        )
    relations = getattr(model, "relations", None)
    if not isinstance(relations, tuple) or not set(relations) <= set(get_args(Relation)):
        raise InputError(
            f"model '{name}': expected {model.__name__}.relations to be the relations of the graph that its scores "
            f"depend on, a tuple of {', '.join(map(repr, get_args(Relation)))}, found {relations!r}"
        )
    if MODELS.get(name, model) is not model:
        raise InputError(f"the model name '{name}' is taken by {MODELS[name].__name__}; choose another name")
    MODELS[name] = model


def find_model(name: str) -> type[Model]:
    """Return the class of a model by its name, or raise an `InputError` with a hint.

    An unknown name imports the modules that the environment variable CLBR_MODELS lists, separated by commas: they
    register models of one's own. So the command line and its worker processes know them, too.
    """
    if name not in MODELS:
        for module in filter(None, os.environ.get(OWN_MODELS, "").split(",")):
            try:
                import_module(module.strip())
            except ImportError as error:
                raise InputError(f"{OWN_MODELS}: cannot import '{module}' ({error})") from None
    if name not in MODELS:
        own = f"; {OWN_MODELS}=MODULE imports models of your own"
        raise InputError(f"unknown model '{name}', {nearest(str(name), list(MODELS))}{own}", "model")
    return MODELS[name]


def build_model(name: str, settings: dict[str, Any], users: int, bundles: int, items: int) -> Model:
    """Build a model for these numbers of nodes. Its parameters are not initialised."""
    kind = find_model(name)
    model: Model = kind(kind.config_class.make(settings, f"settings of {name}"), users, bundles, items)  # type: ignore[call-arg]
    if isinstance(model, Encoder) and model.calibrates:
        model.add_calibration(bundles, items)
    return model


def make_model(
    name: str, settings: dict[str, Any], dataset: BundleDataset, generator: torch.Generator | None = None
) -> Model:
    """Build a model for a data set and, given a generator, initialise its parameters.

    Raises an `InputError` if the model needs user-item or bundle-item pairs and the data set has none.
    """
    kind = find_model(name)
    model = build_model(name, settings, len(dataset.users), len(dataset.bundles), len(dataset.items))
    for relation, what in (("ui", "user-item"), ("bi", "bundle-item")):
        needed = relation in kind.relations or (relation == "ui" and model.learns_items)
        if needed and not len(getattr(dataset, relation)):
            raise InputError(f"{dataset.name} has no {what} pairs, which {name} needs; choose another model", "model")
    if generator is not None:
        with torch.no_grad():
            model.initialise(generator)
    return model


def baseline_scorer(name: str, dataset: BundleDataset, settings: dict[str, Any] | None = None) -> Scorer:
    """Compute a baseline of `BASELINES` from the training pairs of a data set; without settings, at its fixed ones."""
    if name not in BASELINES:
        raise InputError(f"unknown baseline '{name}', {nearest(name, list(BASELINES))}")
    model = make_model(BASELINES[name].model, BASELINES[name].settings if settings is None else settings, dataset)
    assert isinstance(model, ClosedForm)
    model.solve(dataset)
    return model.scorer(BundleGraph.of(dataset))
