"""The floors: simple recommenders that any model has to beat, with the settings they are reported at."""

from clbr.config import Config
from clbr.models.base import Floor
from clbr.models.ease import EASE, EASEConfig
from clbr.models.popularity import Popularity, PopularityConfig

FLOORS: dict[str, tuple[type[Floor], Config]] = {
    "popularity": (Popularity, PopularityConfig()),
    "EASE": (EASE, EASEConfig(l2=500)),
    "EASE with contents": (EASE, EASEConfig(l2=200, contents=0.3)),
}
