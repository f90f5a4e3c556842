"""The nodes of a simulated world: themes, tastes and styles, degrees, and what is shown to whom."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clbr.data.pairs import Relation
from clbr.rng import generator
from clbr.simulation.parameters import LEVELS, RelationConfig, Side, WorldConfig
from clbr.simulation.world import STYLE_DIM, Exposure, Vectors

SIDES: dict[Relation, tuple[str, str]] = {
    "ub": ("users", "bundles"),
    "ui": ("users", "items"),
    "bi": ("bundles", "items"),
}
ROWS = 65_536
"""Items whose vectors are drawn at once; limits the memory. It has no effect on the numbers drawn."""


@dataclass(frozen=True, eq=False)
class WorldNodes:
    """What the nodes of a world are like, before any choice. Everything here grows with the nodes, not the pairs."""

    themes: Vectors  # (themes, d), unit length
    interest: NDArray[np.float64]  # (users, themes), rows sum to 1
    item_theme: NDArray[np.int64]
    bundle_theme: NDArray[np.int64]
    items: Vectors  # (items, d), unit length
    tastes: Vectors  # (users, d)
    user_style: Vectors  # (users, STYLE_DIM), unit length
    bundle_style: Vectors  # (bundles, STYLE_DIM), unit length
    picks: dict[Relation, NDArray[np.int64]]
    """The degrees of the left nodes."""
    appeal: dict[Relation, NDArray[np.float32]]
    shown: dict[Relation, Exposure]


def draw_nodes(config: WorldConfig, seed: int) -> WorldNodes:
    """Draw the nodes of a world."""
    rng = generator(seed, "world", "nodes")
    themes = _unit(rng.standard_normal((config.themes, config.dimension)))
    interest = rng.dirichlet(np.full(config.themes, config.breadth), config.users)
    item_theme = rng.integers(config.themes, size=config.items)
    bundle_theme = rng.integers(config.themes, size=config.bundles)
    items = np.empty((config.items, config.dimension), np.float32)
    for start in range(0, config.items, ROWS):
        theme = item_theme[start : start + ROWS]
        offsets = rng.standard_normal((len(theme), config.dimension)) * (config.spread / config.dimension**0.5)
        items[start : start + ROWS] = _unit(themes[theme] + offsets)
    user_style = _unit(rng.standard_normal((config.users, STYLE_DIM)))
    bundle_style = _unit(rng.standard_normal((config.bundles, STYLE_DIM)))
    picks, appeal, shown = _draw_exposure(rng, config, interest, bundle_theme, item_theme)
    return WorldNodes(
        themes=themes,
        interest=interest,
        item_theme=item_theme,
        bundle_theme=bundle_theme,
        items=items,
        tastes=(interest @ themes).astype(np.float32),
        user_style=user_style,
        bundle_style=bundle_style,
        picks=picks,
        appeal=appeal,
        shown=shown,
    )


def _draw_exposure(
    rng: np.random.Generator,
    config: WorldConfig,
    interest: NDArray[np.float64],
    bundle_theme: NDArray[np.int64],
    item_theme: NDArray[np.int64],
) -> tuple[dict[Relation, NDArray[np.int64]], dict[Relation, NDArray[np.float32]], dict[Relation, Exposure]]:
    """For each relation: the degrees of the left nodes, the appeal of the right nodes, and the exposure."""
    prominence = {side: rng.standard_normal(getattr(config, side)) for side in ("users", "bundles", "items")}
    picks: dict[Relation, NDArray[np.int64]] = {}
    appeal: dict[Relation, NDArray[np.float32]] = {}
    shown: dict[Relation, Exposure] = {}
    for name, (left, right) in SIDES.items():
        relation: RelationConfig = getattr(config, name)
        picks[name] = _degrees(rng, relation.left, relation.edges, prominence[left], getattr(config, right) // 2)
        wanted = _degrees(rng, relation.right, relation.edges, prominence[right], getattr(config, left))
        # The first edge of a right node is guaranteed; popularity decides on the others.
        popularity = np.maximum(wanted - 0.9, 0.0) ** (relation.steep / 2)
        appeal[name] = np.log(np.maximum(popularity, 0.1)).astype(np.float32)
        shown[name] = Exposure(
            popularity=popularity / popularity.sum(),
            theme=bundle_theme if name == "ub" else item_theme,
            interest=np.eye(config.themes) if name == "bi" else interest,
            profile=bundle_theme if name == "bi" else np.arange(config.users),
            draws=np.where(picks[name] > 0, config.shown * picks[name] + 16, 0),
            targeted=relation.targeted,
        )
    return picks, appeal, shown


def _degrees(
    rng: np.random.Generator, side: Side, edges: int, prominence: NDArray[np.float64], cap: int
) -> NDArray[np.int64]:
    """A degree for each node by the side's distribution; the part above the minimum is scaled to `edges` in all."""
    nodes = len(prominence)
    rank = np.argsort(np.argsort(side.tie * prominence + (1 - side.tie**2) ** 0.5 * rng.standard_normal(nodes)))
    level = ((rank + 0.5) / nodes - side.none) / (1 - side.none)
    wanted = np.where(level > 0, np.interp(level, LEVELS, np.log(side.quantiles)), -np.inf)
    wanted = np.minimum(np.exp(wanted), cap)
    least = min(side.quantiles[0], cap)
    connected = wanted > 0
    for _ in range(20):  # the cap lowers the sum; repeated scaling corrects it
        excess = wanted[connected] - least
        factor = (edges - least * connected.sum()) / max(excess.sum(), 1e-9)
        wanted[connected] = np.minimum(least + np.maximum(factor, 0) * excess, cap)
    degrees = np.floor(wanted).astype(np.int64)
    missing = min(max(edges - int(degrees.sum()), 0), nodes)
    free = np.argsort(-(wanted - degrees) * (degrees < cap) * connected, kind="stable")[:missing]
    degrees[free] += degrees[free] < cap
    return degrees


def _unit(vectors: NDArray[np.float64]) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)
