"""The models by name. A new one is one file and one line here."""

from clbr.config import Config, nearest
from clbr.errors import InputError
from clbr.models.ease import EASE, EASEConfig
from clbr.models.interface import Recommender
from clbr.models.popularity import Popularity, PopularityConfig

MODELS: dict[str, tuple[type[Recommender], type[Config]]] = {
    "popularity": (Popularity, PopularityConfig),
    "ease": (EASE, EASEConfig),
}


def model(name: str) -> tuple[type[Recommender], type[Config]]:
    """A model's class and the class of its settings."""
    if name not in MODELS:
        raise InputError(f"unknown model '{name}', {nearest(name, list(MODELS))}")
    return MODELS[name]
