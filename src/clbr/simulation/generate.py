"""Simulate a world: in memory with its truth, or straight into a data folder, block by block."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from clbr.config import Config
from clbr.data.dataset import BundleDataset, Nodes, summarize
from clbr.data.folder import TABLES, require_room, write_folder
from clbr.data.pair_files import Format
from clbr.data.pairs import Kind, Pairs
from clbr.simulation.choices import chosen_pairs
from clbr.simulation.names import shop_names
from clbr.simulation.nodes import WorldNodes, draw_nodes
from clbr.simulation.parameters import Variant, WorldConfig, world_config
from clbr.simulation.world import World


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
    nodes = draw_nodes(config, seed)
    parts: dict[str, list[Pairs]] = {part: [] for part in TABLES}
    for part, pairs in chosen_pairs(config, seed, nodes):
        parts[part].append(pairs)
    joined = {part: _joined(parts.pop(part)) for part in TABLES}
    dataset = BundleDataset(
        config.name,
        *_name_nodes(config, nodes),
        train=joined["train"],
        validation=joined["validation"],
        test=joined["test"],
        ui=joined["ui"],
        bi=joined["bi"],
    )
    return World(
        config,
        seed,
        dataset,
        tastes=nodes.tastes,
        items=nodes.items,
        user_style=nodes.user_style,
        bundle_style=nodes.bundle_style,
        themes=nodes.themes,
        item_theme=nodes.item_theme,
        bundle_theme=nodes.bundle_theme,
        appeal=nodes.appeal,
        shown=nodes.shown,
    )


def write_world(
    config: SimulateConfig,
    out: Path,
    *,
    format: Format = "text",
    force: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """Simulate a world into a data folder. Returns a line with its sizes.

    Each block of pairs is written as soon as it is drawn, so the memory grows with the nodes, not with the pairs. The
    data are those of `simulate` with the same arguments. `on_progress(done, total)` is called with numbers of pairs.
    A disk without room for the folder raises an `InputError` before anything is drawn.
    """
    world = world_config(config.like, config.scale, config.variant)
    sizes: dict[Kind, int] = {"user": world.users, "bundle": world.bundles, "item": world.items}
    edges = {"train": world.ub.edges, "ui": world.ui.edges, "bi": world.bi.edges}
    require_room(out, sizes, edges, format)
    nodes = draw_nodes(world, config.seed)
    users, bundles, items = _name_nodes(world, nodes)
    counts = dict.fromkeys(TABLES, 0)
    with write_folder(
        out, world.name, users, bundles, items, format=format, origin=config.to_toml(), force=force
    ) as write:
        for part, pairs in chosen_pairs(world, config.seed, nodes):
            write(part, pairs)
            counts[part] += len(pairs)
            on_progress(sum(counts.values()), sum(edges.values()))
    return summarize(world.name, users, bundles, items, counts)


def _name_nodes(config: WorldConfig, nodes: WorldNodes) -> tuple[Nodes, Nodes, Nodes]:
    """The users, bundles and items; those of a tiny world have names."""
    named = config.name.startswith("tiny")
    item_names, bundle_names = shop_names(nodes.item_theme, nodes.bundle_theme) if named else (None, None)
    return (
        Nodes("user", config.users),
        Nodes("bundle", config.bundles, names=bundle_names),
        Nodes("item", config.items, names=item_names),
    )


def _joined(blocks: list[Pairs]) -> Pairs:
    """The blocks as one array that nobody else holds, so that a data set need not copy it."""
    pairs = np.concatenate(blocks)
    pairs.flags.writeable = False
    return pairs
