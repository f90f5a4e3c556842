"""Parameters of the simulated worlds. They were fitted to data before any model was compared on them, and are fixed.

Sizes and edge counts are the published ones. Degree distributions and co-occurrences were measured on the public
files. For NetEase only a partial copy was at hand, with fewer item edges: only the shape of its degree distributions
is used. `docs/worlds.md` shows the fit.
"""

from typing import Literal

from pydantic import Field

from clbr.config import Config
from clbr.errors import InputError

LEVELS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
"""Quantile levels of the degree distributions below."""

MAX_EDGES = 400_000_000
"""The largest allowed number of pairs in a world."""

VARIANTS: dict[str, dict[str, float]] = {
    "plain": {},
    "sparser": {"density": 0.5},
    "denser": {"density": 2.0},
    "noisier": {"noise": 2.0},
}
"""Factors of each variant: of the number of user-bundle edges, and of the noise in choices."""


class Side(Config):
    """The degree distribution of one side of a relation."""

    none: float = Field(ge=0, lt=1, description="share of nodes without any edge")
    quantiles: tuple[int, ...] = Field(description="degrees of the other nodes, at LEVELS")
    tie: float = Field(0.0, ge=0, le=1, description="correlation of a node's degree with its general prominence")


class RelationConfig(Config):
    """How the left nodes of a relation (user, user, bundle) choose right nodes."""

    edges: int = Field(gt=0)
    left: Side
    right: Side
    taste: float = Field(ge=0, description="weight of the match of taste and theme, relative to the noise")
    targeted: float = Field(ge=0, le=1, description="share of the exposure that follows the left node's themes")
    steep: float = Field(ge=0, description="power that turns degrees into popularity and appeal, half each")


class WorldConfig(Config):
    """A world: its sizes, its three relations, and the parameters of choices."""

    name: str
    users: int = Field(gt=0)
    bundles: int = Field(gt=0)
    items: int = Field(gt=0)
    themes: int = Field(gt=0, description="number of themes; a user likes a few, an item or bundle has one")
    ub: RelationConfig
    ui: RelationConfig
    bi: RelationConfig
    dimension: int = Field(16, gt=0, description="dimension of taste and theme vectors")
    breadth: float = Field(0.15, gt=0, description="Dirichlet parameter of a user's mixture of themes")
    spread: float = Field(0.6, ge=0, description="distance of items from their theme")
    shown: int = Field(8, gt=1, description="candidates that are drawn for each choice")
    drift: float = Field(0.5, ge=0, description="weight of a user's items in the user's taste in bundles")
    style: float = Field(2.0, ge=0, description="weight of a bundle's style, which its items do not determine")
    noise: float = Field(1.0, gt=0, description="scale of the noise in choices")


YOUSHU = WorldConfig(
    name="youshu-like",
    users=8_039,
    bundles=4_771,
    items=32_770,
    themes=24,
    ub=RelationConfig(
        edges=51_377,
        left=Side(none=0.632, quantiles=(3, 3, 3, 3, 5, 9, 20, 41, 62, 100, 100, 100), tie=0.58),
        right=Side(none=0.008, quantiles=(1, 1, 1, 1, 1, 2, 7, 20, 43, 149, 428, 644), tie=0.67),
        taste=3.2,
        targeted=0.5,
        steep=1.8,
    ),
    ui=RelationConfig(
        edges=138_515,
        left=Side(none=0.004, quantiles=(1, 1, 1, 1, 3, 13, 34, 38, 39, 39, 39, 39), tie=0.58),
        right=Side(none=0.358, quantiles=(1, 1, 1, 1, 1, 2, 4, 13, 26, 85, 253, 778), tie=0.7),
        taste=6.4,
        targeted=0.5,
        steep=1.3,
    ),
    bi=RelationConfig(
        edges=176_667,
        left=Side(none=0.0, quantiles=(5, 5, 6, 8, 13, 24, 49, 91, 120, 149, 150, 150), tie=0.67),
        right=Side(none=0.143, quantiles=(1, 1, 1, 1, 1, 2, 5, 13, 25, 79, 211, 394), tie=0.7),
        taste=3.9,
        targeted=0.1,
        steep=1.3,
    ),
)

NETEASE = WorldConfig(
    name="netease-like",
    users=18_528,
    bundles=22_864,
    items=123_628,
    themes=64,
    ub=RelationConfig(
        edges=302_303,
        left=Side(none=0.001, quantiles=(3, 4, 6, 7, 9, 11, 17, 27, 40, 92, 329, 942)),
        right=Side(none=0.066, quantiles=(1, 1, 1, 1, 3, 6, 15, 33, 51, 120, 279, 567)),
        taste=3.4,
        targeted=0.5,
        steep=1.3,
    ),
    ui=RelationConfig(
        edges=1_128_065,
        left=Side(none=0.0, quantiles=(3, 4, 6, 9, 17, 28, 36, 41, 44, 48, 52, 57)),
        right=Side(none=0.484, quantiles=(1, 1, 1, 1, 1, 2, 6, 16, 29, 90, 272, 1282), tie=0.7),
        taste=9.0,
        targeted=0.9,
        steep=1.13,
    ),
    bi=RelationConfig(
        edges=1_778_838,
        left=Side(none=0.0, quantiles=(1, 2, 3, 4, 7, 14, 32, 71, 113, 245, 437, 940)),
        right=Side(none=0.107, quantiles=(1, 1, 1, 1, 2, 3, 5, 14, 22, 59, 181, 750), tie=0.7),
        taste=3.2,
        targeted=0.5,
        steep=1.35,
    ),
)

TINY = WorldConfig(
    name="tiny",
    users=600,
    bundles=150,
    items=240,
    themes=12,
    style=0.5,
    ub=RelationConfig(
        edges=4_200,
        left=Side(none=0.2, quantiles=(3, 3, 3, 3, 4, 7, 11, 16, 20, 28, 30, 30), tie=0.5),
        right=Side(none=0.0, quantiles=(1, 1, 2, 3, 6, 14, 33, 72, 110, 180, 200, 220), tie=0.3),
        taste=6.0,
        targeted=0.5,
        steep=1.3,
    ),
    ui=RelationConfig(
        edges=9_000,
        left=Side(none=0.02, quantiles=(3, 3, 4, 5, 8, 13, 20, 28, 34, 40, 40, 40), tie=0.5),
        right=Side(none=0.0, quantiles=(1, 2, 3, 5, 10, 22, 48, 92, 130, 200, 240, 240), tie=0.7),
        taste=4.0,
        targeted=0.5,
        steep=1.3,
    ),
    bi=RelationConfig(
        edges=900,
        left=Side(none=0.0, quantiles=(3, 3, 3, 3, 4, 6, 8, 9, 10, 12, 12, 12), tie=0.3),
        right=Side(none=0.1, quantiles=(1, 1, 1, 1, 2, 3, 5, 8, 11, 16, 18, 18), tie=0.7),
        taste=6.0,
        targeted=0.5,
        steep=1.3,
    ),
)

WORLDS = {"youshu": YOUSHU, "netease": NETEASE, "tiny": TINY}
Variant = Literal["plain", "sparser", "denser", "noisier"]


def world_config(like: str, scale: float = 1.0, variant: str = "plain") -> WorldConfig:
    """The parameters of a world, at a multiple of its size, in one of its variants."""
    base, change = WORLDS[like], VARIANTS[variant]
    edges = round(scale * (base.ub.edges + base.ui.edges + base.bi.edges))
    if not 0 < edges <= MAX_EDGES:
        raise InputError(
            f"scale {scale:g}: {edges:,} pairs, expected between 1 and {MAX_EDGES:,}; try 0.1 to 100", "scale"
        )

    def scaled(relation: RelationConfig, density: float = 1.0) -> RelationConfig:
        return relation.model_copy(update={"edges": max(1, round(relation.edges * scale * density))})

    sizes = {side: max(2, round(getattr(base, side) * scale)) for side in ("users", "bundles", "items")}
    name = base.name + (f"-{variant}" if variant != "plain" else "") + (f"-x{scale:g}" if scale != 1 else "")
    return base.model_copy(
        update=sizes
        | {"name": name, "noise": base.noise * change.get("noise", 1.0)}
        | {"ub": scaled(base.ub, change.get("density", 1.0)), "ui": scaled(base.ui), "bi": scaled(base.bi)}
    )
