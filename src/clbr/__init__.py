"""Bundle recommendation with counterfactual learning.

import clbr

dataset = clbr.load("Youshu")                # a folder; or clbr.simulate("tiny").dataset
floor = clbr.EASE.fit(dataset)
print(clbr.evaluate(floor, dataset, split="validation"))
"""

import os
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clbr.data.dataset import BundleDataset, Nodes
    from clbr.data.describe import describe
    from clbr.data.folder import load, save
    from clbr.data.split import SplitConfig
    from clbr.data.tables import import_tables
    from clbr.errors import InputError
    from clbr.evaluation.protocol import Evaluation, evaluate
    from clbr.evaluation.ranking import rank
    from clbr.graph.edits import EdgeEdits
    from clbr.inference.artifact import Artifact, open_artifact
    from clbr.inference.export import export
    from clbr.models.base import Recommender
    from clbr.models.ease import EASE, EASEConfig
    from clbr.models.popularity import Popularity
    from clbr.models.registry import register
    from clbr.simulation.generate import simulate
    from clbr.simulation.world import World
    from clbr.training.fit import Trained, fit

__version__ = version("clbr")

# Threads that wait for each other must sleep, not spin: beside another busy process, spinning ones are many times
# slower. It has to be said before torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# A public name is imported when it is first used: `clbr --help` need not wait for torch.
_HOMES = {
    "BundleDataset": "data.dataset",
    "Nodes": "data.dataset",
    "describe": "data.describe",
    "load": "data.folder",
    "simulate": "simulation.generate",
    "SplitConfig": "data.split",
    "import_tables": "data.tables",
    "World": "simulation.world",
    "save": "data.folder",
    "InputError": "errors",
    "Evaluation": "evaluation.protocol",
    "evaluate": "evaluation.protocol",
    "rank": "evaluation.ranking",
    "EASE": "models.ease",
    "EASEConfig": "models.ease",
    "Recommender": "models.base",
    "Popularity": "models.popularity",
    "register": "models.registry",
    "Artifact": "inference.artifact",
    "open_artifact": "inference.artifact",
    "export": "inference.export",
    "Trained": "training.fit",
    "fit": "training.fit",
    "EdgeEdits": "graph.edits",
}

__all__ = [
    "EASE",
    "Artifact",
    "BundleDataset",
    "EASEConfig",
    "EdgeEdits",
    "Evaluation",
    "InputError",
    "Nodes",
    "Popularity",
    "Recommender",
    "SplitConfig",
    "Trained",
    "World",
    "__version__",
    "describe",
    "evaluate",
    "export",
    "fit",
    "import_tables",
    "load",
    "open_artifact",
    "rank",
    "register",
    "save",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'clbr' has no attribute '{name}'")
    return getattr(import_module(f"clbr.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
