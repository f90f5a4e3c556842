"""Generate a simulated world: nodes, then exposure, then choices."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clbr.config import Config
from clbr.data.dataset import BundleDataset, Nodes
from clbr.data.pairs import Codes, Pairs, Relation, decode, distinct
from clbr.data.split import TEST, TRAIN, VALIDATION, split_random
from clbr.rng import generator
from clbr.simulation.names import shop_names
from clbr.simulation.parameters import LEVELS, RelationConfig, Side, Variant, WorldConfig, world_config
from clbr.simulation.world import STYLE_DIM, Exposure, Vectors, World, contents, pair_noise, states

SIDES: dict[Relation, tuple[str, str]] = {
    "ub": ("users", "bundles"),
    "ui": ("users", "items"),
    "bi": ("bundles", "items"),
}
BLOCK = 1_500_000
"""Candidates per block; limits the memory."""


class SimulateConfig(Config):
    """Arguments of `simulate`; written into the folder of a simulated data set."""

    like: Literal["tiny", "youshu", "netease"] = "tiny"
    scale: float = Field(1.0, gt=0, description="multiple of the world's sizes and edges")
    variant: Variant = "plain"
    seed: int = Field(0, ge=0)


def simulate(like: str = "tiny", *, scale: float = 1.0, seed: int = 0, variant: str = "plain") -> World:
    """Simulate a data set like "tiny" (a small shop with names), "youshu" or "netease", at a multiple of its size.

    Variants: plain, sparser, denser, noisier. The same arguments give the same world.
    """
    config = SimulateConfig.make({"like": like, "scale": scale, "variant": variant, "seed": seed}, "simulate")
    return draw(world_config(config.like, config.scale, config.variant), config.seed)


def draw(config: WorldConfig, seed: int) -> World:
    """Generate the world of these parameters."""
    rng = generator(seed, "world", "nodes")
    traits = _draw_traits(rng, config)
    picks, appeal, shown = _draw_exposure(rng, config, traits)

    def choose(relation: Relation, left: Vectors, right: Vectors) -> Pairs:
        return _choose(config, seed, relation, picks[relation], shown[relation], appeal[relation], left, right)

    bi = choose("bi", traits.themes[traits.bundle_theme], traits.items)
    ui = choose("ui", traits.tastes, traits.items)
    user_states = states(config, traits.tastes, traits.user_style, traits.items, ui)
    ub = choose("ub", user_states, contents(traits.bundle_style, traits.items, bi))
    labels = split_random(ub[:, 0], 0.1, 0.2, seed)
    named = config.name.startswith("tiny")
    item_names, bundle_names = shop_names(traits.item_theme, traits.bundle_theme) if named else (None, None)
    dataset = BundleDataset(
        config.name,
        Nodes("user", config.users),
        Nodes("bundle", config.bundles, names=bundle_names),
        Nodes("item", config.items, names=item_names),
        train=ub[labels == TRAIN],
        validation=ub[labels == VALIDATION],
        test=ub[labels == TEST],
        ui=ui,
        bi=bi,
    )
    return World(
        config,
        seed,
        dataset,
        tastes=traits.tastes,
        items=traits.items,
        user_style=traits.user_style,
        bundle_style=traits.bundle_style,
        themes=traits.themes,
        item_theme=traits.item_theme,
        bundle_theme=traits.bundle_theme,
        appeal=appeal,
        shown=shown,
    )


@dataclass(frozen=True, eq=False)
class _Traits:
    """What the nodes of a world are like, before any choice."""

    themes: Vectors
    interest: NDArray[np.float64]  # (users, themes), rows sum to 1
    item_theme: NDArray[np.int64]
    bundle_theme: NDArray[np.int64]
    items: Vectors
    tastes: Vectors
    user_style: Vectors
    bundle_style: Vectors


def _draw_traits(rng: np.random.Generator, config: WorldConfig) -> _Traits:
    themes = _unit(rng.standard_normal((config.themes, config.dimension)))
    interest = rng.dirichlet(np.full(config.themes, config.breadth), config.users)
    item_theme = rng.integers(config.themes, size=config.items)
    bundle_theme = rng.integers(config.themes, size=config.bundles)
    offsets = rng.standard_normal((config.items, config.dimension)) * (config.spread / config.dimension**0.5)
    return _Traits(
        themes=themes,
        interest=interest,
        item_theme=item_theme,
        bundle_theme=bundle_theme,
        items=_unit(themes[item_theme] + offsets),
        tastes=(interest @ themes).astype(np.float32),
        user_style=_unit(rng.standard_normal((config.users, STYLE_DIM))),
        bundle_style=_unit(rng.standard_normal((config.bundles, STYLE_DIM))),
    )


def _draw_exposure(
    rng: np.random.Generator, config: WorldConfig, traits: _Traits
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
            theme=traits.bundle_theme if name == "ub" else traits.item_theme,
            interest=np.eye(config.themes)[traits.bundle_theme] if name == "bi" else traits.interest,
            draws=np.where(picks[name] > 0, config.shown * picks[name] + 16, 0),
            targeted=relation.targeted,
        )
    return picks, appeal, shown


def _choose(
    config: WorldConfig,
    seed: int,
    relation: Relation,
    picks: NDArray[np.int64],
    exposure: Exposure,
    appeal: NDArray[np.float32],
    left: Vectors,
    right: Vectors,
) -> Pairs:
    """For each left node its guaranteed pairs and then its best candidates, `picks` in all, as sorted pairs."""
    rng = generator(seed, "world", "exposure", relation)
    guaranteed = _guaranteed_pairs(rng, exposure, picks)
    taste = np.float32(getattr(config, relation).taste)
    blocks = np.cumsum(exposure.draws) // BLOCK
    chosen = []
    for block in range(int(blocks[-1]) + 1):
        rows = np.flatnonzero((blocks == block) & (picks > 0))
        first = guaranteed[np.isin(guaranteed // len(right), rows)]
        codes = _candidates(rng, exposure, rows, picks[rows], first)
        pairs = decode(codes, len(right))
        utility = taste * np.einsum("nd,nd->n", left[pairs[:, 0]], right[pairs[:, 1]]) + appeal[pairs[:, 1]]
        utility += pair_noise(config, seed, relation, pairs[:, 0], pairs[:, 1])
        utility[np.searchsorted(codes, first)] = np.inf
        order = np.lexsort((-utility, pairs[:, 0]))
        best = order[_rank_within(pairs[:, 0], len(picks)) < picks[pairs[:, 0]]]
        chosen.append(np.sort(codes[best]))
    return decode(np.concatenate(chosen), len(right))


def _guaranteed_pairs(rng: np.random.Generator, exposure: Exposure, picks: NDArray[np.int64]) -> Codes:
    """One pair for each right node with popularity, so that it has an edge; as sorted codes.

    The left node is drawn by its degree and its interest in the theme. It gets no more pairs than its degree.
    """
    rights = rng.permutation(np.flatnonzero(exposure.popularity > 0))
    lefts = _draw_rows(rng, (exposure.interest * picks[:, None]).T + 1e-12, exposure.theme[rights])
    order = np.argsort(lefts, kind="stable")
    within = order[_rank_within(lefts[order], len(picks)) < picks[lefts[order]]]
    return np.sort(lefts[within] * len(exposure.popularity) + rights[within])


def _rank_within(lefts: NDArray[np.integer], nodes: int) -> NDArray[np.int64]:
    """The position of each pair among the pairs of its left node, from 0. `lefts` must be sorted."""
    counts = np.bincount(lefts, minlength=nodes)
    return np.arange(len(lefts)) - np.repeat(np.cumsum(counts) - counts, counts)


def _candidates(
    rng: np.random.Generator,
    exposure: Exposure,
    rows: NDArray[np.intp],
    picks: NDArray[np.int64],
    guaranteed: Codes,
) -> Codes:
    """The distinct pairs shown to these rows, as sorted codes. A row with too few candidates is shown all."""
    width = len(exposure.popularity)
    by_theme = np.argsort(exposure.theme, kind="stable")
    cumulative = np.concatenate([[0.0], np.cumsum(exposure.popularity[by_theme])])
    ends = np.cumsum(np.bincount(exposure.theme, minlength=exposure.interest.shape[1]))
    starts = np.concatenate([[0], ends[:-1]])

    lefts = np.repeat(rows, exposure.draws[rows])
    point = rng.random(len(lefts))
    targeted = np.flatnonzero(rng.random(len(lefts)) < exposure.targeted)
    theme = _draw_rows(rng, exposure.interest, lefts[targeted])
    low, high = cumulative[starts[theme]], cumulative[ends[theme]]
    possible = high > low  # a draw for a theme without candidates stays untargeted
    point[targeted[possible]] = (low + point[targeted] * (high - low))[possible]
    position = np.searchsorted(cumulative, point, side="right") - 1
    codes = distinct(np.concatenate([lefts * width + by_theme[np.minimum(position, width - 1)], guaranteed]))

    short = rows[np.bincount(codes // width, minlength=rows.max(initial=0) + 1)[rows] < picks]
    if len(short):
        codes = distinct(np.concatenate([codes, (short[:, None] * width + np.arange(width)).ravel()]))
    return codes


def _draw_rows(rng: np.random.Generator, weights: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """One column for each row index, drawn by the weights of that row."""
    cumulative = np.cumsum(weights, axis=1)
    cumulative /= cumulative[:, -1:]
    cumulative += np.arange(len(weights))[:, None]  # row r runs from r to r + 1, so one search serves all rows
    drawn = np.searchsorted(cumulative.ravel(), rows + rng.random(len(rows)), side="right") - rows * weights.shape[1]
    return np.asarray(np.minimum(drawn, weights.shape[1] - 1))


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
