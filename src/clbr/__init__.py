"""Bundle recommendation with counterfactual learning.

import clbr

data = clbr.BundleDataset.from_frames(user_bundle, user_item, bundle_item)   # pandas or polars
recommender = clbr.fit(data)
recommender.recommend(["u17", "u3"], k=10)
recommender.whatif(user="u17", drop_items=["i3"])
"""

import os
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clbr.data.checks import DataWarning
    from clbr.data.dataset import BundleDataset, Nodes
    from clbr.data.describe import describe
    from clbr.data.folder import load, save
    from clbr.data.split import SplitConfig
    from clbr.data.tables import import_tables
    from clbr.errors import InputError
    from clbr.evaluation.protocol import Evaluation, evaluate
    from clbr.evaluation.significance import compare
    from clbr.graph.edits import EdgeEdits
    from clbr.graph.graph import BundleGraph
    from clbr.inference.export import export
    from clbr.inference.fit import fit
    from clbr.inference.recommender import Recommender, load_recommender
    from clbr.models.base import Encoder, Model, ModelConfig, Scorer
    from clbr.models.embeddings import Embeddings, Level
    from clbr.models.registry import register
    from clbr.simulation.generate import simulate
    from clbr.simulation.world import World

__version__ = version("clbr")

# Waiting OpenMP threads must sleep instead of spinning: beside another busy process, spinning is many times slower.
# Large tensors get huge pages: a large graph reads rows at random, and each read from a small page looks up an address
# first. Both have to be set before torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

# A public name is imported when it is first used, so that `clbr --help` does not load torch.
_MODULES = {
    "BundleDataset": "data.dataset",
    "BundleGraph": "graph.graph",
    "DataWarning": "data.checks",
    "EdgeEdits": "graph.edits",
    "Embeddings": "models.embeddings",
    "Encoder": "models.base",
    "Evaluation": "evaluation.protocol",
    "InputError": "errors",
    "Level": "models.embeddings",
    "Model": "models.base",
    "ModelConfig": "models.base",
    "Nodes": "data.dataset",
    "Recommender": "inference.recommender",
    "Scorer": "models.base",
    "SplitConfig": "data.split",
    "World": "simulation.world",
    "compare": "evaluation.significance",
    "describe": "data.describe",
    "evaluate": "evaluation.protocol",
    "export": "inference.export",
    "fit": "inference.fit",
    "import_tables": "data.tables",
    "load": "data.folder",
    "load_recommender": "inference.recommender",
    "register": "models.registry",
    "save": "data.folder",
    "simulate": "simulation.generate",
}

__all__ = [
    "BundleDataset",
    "BundleGraph",
    "DataWarning",
    "EdgeEdits",
    "Embeddings",
    "Encoder",
    "Evaluation",
    "InputError",
    "Level",
    "Model",
    "ModelConfig",
    "Nodes",
    "Recommender",
    "Scorer",
    "SplitConfig",
    "World",
    "__version__",
    "compare",
    "describe",
    "evaluate",
    "export",
    "fit",
    "import_tables",
    "load",
    "load_recommender",
    "register",
    "save",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name == "testing":
        return import_module("clbr.testing")
    if name not in _MODULES:
        raise AttributeError(f"module 'clbr' has no attribute '{name}'")
    return getattr(import_module(f"clbr.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
