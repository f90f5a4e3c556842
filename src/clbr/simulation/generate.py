"""Drawing a simulated world: nodes, then who is shown what, then what is chosen."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clbr.config import Config
from clbr.data.dataset import BundleDataset, Nodes
from clbr.data.pairs import Codes, Pairs, Relation, decode, distinct
from clbr.data.split import SPLITS, split_random
from clbr.rng import generator
from clbr.simulation.names import name_shop
from clbr.simulation.parameters import LEVELS, Choosing, Side, Variant, WorldConfig, world_config
from clbr.simulation.world import MANNERS, Exposure, Vectors, World, contents, mood, states

SIDES: dict[Relation, tuple[str, str]] = {
    "ub": ("users", "bundles"),
    "ui": ("users", "items"),
    "bi": ("bundles", "items"),
}
BLOCK = 1_500_000
"""Candidates weighed at once: bounds memory."""


class SimulateConfig(Config):
    """Which world to draw; written beside a simulated data set."""

    like: Literal["tiny", "youshu", "netease"] = "tiny"
    scale: float = Field(1.0, gt=0, description="multiple of the world's sizes and edges")
    variant: Variant = "plain"
    seed: int = Field(0, ge=0)


def simulate(like: str = "tiny", *, scale: float = 1.0, seed: int = 0, variant: str = "plain") -> World:
    """Draw a world: "tiny" (a small shop with names), "youshu" or "netease", at a multiple of its size.

    The same arguments give the same world. Variants: plain, sparser, denser, noisier.
    """
    config = SimulateConfig.make({"like": like, "scale": scale, "variant": variant, "seed": seed}, "simulate")
    return draw(world_config(config.like, config.scale, config.variant), config.seed)


def draw(config: WorldConfig, seed: int) -> World:
    """Draw the world that the parameters describe."""
    rng = generator(seed, "world", "nodes")
    themes = _unit(rng.standard_normal((config.themes, config.dimension)))
    interest = rng.dirichlet(np.full(config.themes, config.breadth), config.users)  # (users, themes)
    item_theme = rng.integers(config.themes, size=config.items)
    bundle_theme = rng.integers(config.themes, size=config.bundles)
    strays = rng.standard_normal((config.items, config.dimension)) * (config.spread / config.dimension**0.5)
    items = _unit(themes[item_theme] + strays)
    tastes = (interest @ themes).astype(np.float32)
    user_manner = _unit(rng.standard_normal((config.users, MANNERS)))
    bundle_manner = _unit(rng.standard_normal((config.bundles, MANNERS)))

    prominence = {side: rng.standard_normal(getattr(config, side)) for side in ("users", "bundles", "items")}
    picks: dict[Relation, NDArray[np.int64]] = {}
    appeal: dict[Relation, NDArray[np.float32]] = {}
    shown: dict[Relation, Exposure] = {}
    for relation, (left, right) in SIDES.items():
        choosing: Choosing = getattr(config, relation)
        picks[relation] = _degrees(rng, choosing.left, choosing.edges, prominence[left], getattr(config, right) // 2)
        wanted = _degrees(rng, choosing.right, choosing.edges, prominence[right], getattr(config, left))
        renown = np.maximum(wanted - 0.9, 0.0) ** (choosing.steep / 2)  # the first edge is the patron's
        appeal[relation] = np.log(np.maximum(renown, 0.1)).astype(np.float32)
        shown[relation] = Exposure(
            fame=renown / renown.sum(),
            theme=bundle_theme if relation == "ub" else item_theme,
            interest=np.eye(config.themes)[bundle_theme] if relation == "bi" else interest,
            draws=np.where(picks[relation] > 0, config.shown * picks[relation] + 16, 0),
            targeted=choosing.targeted,
        )

    def choose(relation: Relation, left: Vectors, right: Vectors) -> Pairs:
        return _choose(config, seed, relation, picks[relation], shown[relation], appeal[relation], left, right)

    bi = choose("bi", themes[bundle_theme], items)
    ui = choose("ui", tastes, items)
    ub = choose("ub", states(config, tastes, user_manner, items, ui), contents(bundle_manner, items, bi))
    labels = split_random(ub[:, 0], 0.1, 0.2, seed)
    parts = {part: ub[labels == label] for label, part in enumerate(SPLITS)}
    item_names, bundle_names = name_shop(item_theme, bundle_theme) if config.name.startswith("tiny") else (None, None)
    dataset = BundleDataset(
        config.name,
        Nodes("user", config.users),
        Nodes("bundle", config.bundles, names=bundle_names),
        Nodes("item", config.items, names=item_names),
        **parts,
        ui=ui,
        bi=bi,
    )
    truth = (tastes, items, user_manner, bundle_manner, themes, item_theme, bundle_theme, appeal, shown)
    return World(config, seed, dataset, *truth)


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
    """Each left node's `picks` best among the candidates it was shown, as sorted pairs."""
    rng = generator(seed, "world", "exposure", relation)
    brought = _patronage(rng, exposure, picks)
    taste = np.float32(getattr(config, relation).taste)
    blocks = np.cumsum(exposure.draws) // BLOCK
    chosen = []
    for block in range(int(blocks[-1]) + 1):
        rows = np.flatnonzero((blocks == block) & (picks > 0))
        mine = brought[np.isin(brought // len(right), rows)]
        codes = _candidates(rng, exposure, rows, picks[rows], mine)
        pairs = decode(codes, len(right))
        utility = taste * np.einsum("nd,nd->n", left[pairs[:, 0]], right[pairs[:, 1]]) + appeal[pairs[:, 1]]
        utility += mood(config, seed, relation, pairs[:, 0], pairs[:, 1])
        utility[np.searchsorted(codes, mine)] = np.inf
        order = np.lexsort((-utility, pairs[:, 0]))
        counts = np.bincount(pairs[:, 0], minlength=len(picks))
        rank = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
        best = order[rank < picks[pairs[:, 0]]]
        chosen.append(np.sort(codes[best]))
    return decode(np.concatenate(chosen), len(right))


def _patronage(rng: np.random.Generator, exposure: Exposure, picks: NDArray[np.int64]) -> Codes:
    """Everything is there because someone brought it: for each thing one patron, who has it, as sorted codes.

    A patron is drawn by activity and interest in the thing's theme, and brings no more than she picks.
    """
    things = rng.permutation(np.flatnonzero(exposure.fame > 0))
    patrons = _draw_rows(rng, (exposure.interest * picks[:, None]).T + 1e-12, exposure.theme[things])
    order = np.argsort(patrons, kind="stable")
    counts = np.bincount(patrons, minlength=len(picks))
    turn = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = order[turn < picks[patrons[order]]]
    return np.sort(patrons[kept] * len(exposure.fame) + things[kept])


def _candidates(
    rng: np.random.Generator,
    exposure: Exposure,
    rows: NDArray[np.intp],
    picks: NDArray[np.int64],
    brought: Codes,
) -> Codes:
    """The distinct pairs shown to these rows, as sorted codes; a row short of candidates is shown everything."""
    width = len(exposure.fame)
    by_theme = np.argsort(exposure.theme, kind="stable")
    cumulative = np.concatenate([[0.0], np.cumsum(exposure.fame[by_theme])])
    ends = np.cumsum(np.bincount(exposure.theme, minlength=exposure.interest.shape[1]))
    starts = np.concatenate([[0], ends[:-1]])

    lefts = np.repeat(rows, exposure.draws[rows])
    point = rng.random(len(lefts))
    targeted = np.flatnonzero(rng.random(len(lefts)) < exposure.targeted)
    theme = _draw_rows(rng, exposure.interest, lefts[targeted])
    low, high = cumulative[starts[theme]], cumulative[ends[theme]]
    famous = high > low  # a theme whose things are never shown is skipped: the draw stays untargeted
    point[targeted[famous]] = (low + point[targeted] * (high - low))[famous]
    position = np.searchsorted(cumulative, point, side="right") - 1
    codes = distinct(np.concatenate([lefts * width + by_theme[np.minimum(position, width - 1)], brought]))

    short = rows[np.bincount(codes // width, minlength=rows.max(initial=0) + 1)[rows] < picks]
    if len(short):
        codes = distinct(np.concatenate([codes, (short[:, None] * width + np.arange(width)).ravel()]))
    return codes


def _draw_rows(rng: np.random.Generator, weights: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """One column for each row index, drawn by that row's weights."""
    ladder = np.cumsum(weights, axis=1)
    ladder /= ladder[:, -1:]
    ladder += np.arange(len(weights))[:, None]  # row r climbs from r to r + 1: one search serves all rows
    drawn = np.searchsorted(ladder.ravel(), rows + rng.random(len(rows)), side="right") - rows * weights.shape[1]
    return np.asarray(np.minimum(drawn, weights.shape[1] - 1))


def _degrees(
    rng: np.random.Generator, side: Side, edges: int, prominence: NDArray[np.float64], cap: int
) -> NDArray[np.int64]:
    """A degree for each node: the side's distribution, its excess over the minimum scaled to `edges` in all."""
    nodes = len(prominence)
    rank = np.argsort(np.argsort(side.tie * prominence + (1 - side.tie**2) ** 0.5 * rng.standard_normal(nodes)))
    level = ((rank + 0.5) / nodes - side.none) / (1 - side.none)
    wanted = np.where(level > 0, np.interp(level, LEVELS, np.log(side.quantiles)), -np.inf)
    wanted = np.minimum(np.exp(wanted), cap)
    least = min(side.quantiles[0], cap)
    connected = wanted > 0
    for _ in range(20):  # the cap bites into the sum; a few rounds make up for it
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
