"""What vectors look like: t-SNE of users, bundles and items, arm by arm, before and after propagation."""

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from clbr.data.dataset import BundleDataset
from clbr.errors import InputError, require
from clbr.experiments.cells import Cell
from clbr.experiments.report.drawing import Drawn, dots, new_figure, plain_text, to_svg
from clbr.experiments.report.grid import Grid, plain
from clbr.experiments.report.results import Group, Results
from clbr.experiments.store import Store, read_arrays
from clbr.experiments.work import thinned
from clbr.files import write_atomic
from clbr.graph.graph import BundleGraph
from clbr.models.base import Embeddings, Encoder
from clbr.models.registry import make_model
from clbr.rng import generator
from clbr.training.checkpoint import read_model
from clbr.training.run_folder import BEST

Kind = Literal["users", "bundles", "items"]
KINDS: tuple[Kind, ...] = ("users", "bundles", "items")
STAGES = ("initial", "propagated")
MOST = 2000
"""Nodes of a kind that are drawn."""
PERPLEXITY = 30.0
Points = NDArray[np.float32]
SQUARE = np.array([-1.0, 1.0])


def embeddings(results: Results, heard: Callable[[int, int], None] = lambda done, of: None) -> list[Drawn]:
    """A figure for each model: kinds of nodes downwards, arms and stages across. Coordinates are kept in the store."""
    series: dict[str, list[tuple[Group, Cell]]] = {}
    for group in results.done:
        seed = min(group.records)
        cell = next(one.cell for one in group.placed if one.cell.config.seed == seed)
        series.setdefault(group.model, []).append((group, cell))
    maps: dict[str, dict[str, Points]] = {}
    for arms in series.values():
        for group, cell in arms:
            heard(len(maps), sum(map(len, series.values())))
            maps[group.label] = coordinates(results, cell)
    return [_draw(results, model, arms, maps) for model, arms in series.items()]


def coordinates(results: Results, cell: Cell) -> dict[str, Points]:
    """The (n, 2) places of "users initial" and so on: as kept, or from the cell's weights."""
    path = results.store.drawn(cell.key)
    if path.exists():
        return read_arrays(path, "delete it to have it computed again")
    require("openTSNE", "report")
    places = {name: _embed(vectors) for name, vectors in _vectors(results, cell)}
    path.parent.mkdir(exist_ok=True)
    content = BytesIO()
    np.savez_compressed(content, **places)  # type: ignore[arg-type]
    write_atomic(path, content.getvalue())
    return places


def _vectors(results: Results, cell: Cell) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """By kind and stage, of the same nodes each time: the trained table, and what the model makes of it."""
    dataset = thinned(results.dataset, cell.share)
    model = _trained(results.store, cell, dataset)
    with torch.no_grad():
        propagated = model.encode(BundleGraph.of(dataset))
    for kind in KINDS:
        table, whole = getattr(model, kind, None), _joined(propagated, kind)
        if table is None or whole is None:
            continue
        nodes = np.sort(generator(0, f"drawn {kind}").permutation(len(table))[:MOST])
        for stage, vectors in zip(STAGES, (table, whole), strict=True):
            yield f"{kind} {stage}", vectors.detach().cpu().numpy()[nodes]


def _trained(store: Store, cell: Cell, dataset: BundleDataset) -> Encoder:
    model = make_model(cell.config.model, cell.config.settings, dataset)
    if not isinstance(model, Encoder):
        raise InputError(f"{cell.config.model} makes no vectors of a graph, and the figure shows such vectors")
    weights = store.run(cell) / BEST
    if not weights.exists():
        again = f"delete {store.folder / 'cells' / cell.key}.json and run the specification again"
        raise InputError(f"{weights}: the weights were deleted, and the figure needs them; {again}")
    read_model(weights, model)
    return model


def _joined(vectors: Embeddings, kind: Kind) -> torch.Tensor | None:
    """The levels' vectors side by side, of the levels that have this kind."""
    sides = [side for level in vectors.levels.values() if (side := level.side(kind)) is not None]
    return torch.cat(sides, dim=1) if sides else None


def _embed(vectors: NDArray[np.float32]) -> Points:
    """t-SNE to two dimensions; one thread and a fixed seed, so that it comes out the same again."""
    if len(vectors) < 4:
        raise InputError(f"{len(vectors)} nodes are too few for t-SNE: expected 4 or more")
    tsne = require("openTSNE", "report").TSNE(
        perplexity=min(PERPLEXITY, (len(vectors) - 1) / 3),
        neighbors="exact",
        negative_gradient_method="bh",
        n_jobs=1,
        random_state=0,
    )
    return np.asarray(tsne.fit(vectors), dtype=np.float32)


def _draw(results: Results, model: str, arms: list[tuple[Group, Cell]], maps: dict[str, dict[str, Points]]) -> Drawn:
    kinds = [kind for kind in KINDS if f"{kind} {STAGES[0]}" in maps[arms[0][0].label]]
    columns = [(group, stage) for group, _ in arms for stage in STAGES]
    figure = new_figure(len(kinds), len(columns), (1.7, 1.7))
    panels = figure.subplots(len(kinds), len(columns), squeeze=False)
    for row, kind in zip(panels, kinds, strict=True):
        for axes, (group, stage) in zip(row, columns, strict=True):
            places = maps[group.label][f"{kind} {stage}"]
            middle, half = (places.max(axis=0) + places.min(axis=0)) / 2, np.ptp(places, axis=0).max() * 0.53
            dots(axes, places, width=np.sqrt(np.clip(2400 / len(places), 1.2, 5)))
            axes.set(xlim=middle[0] + half * SQUARE, ylim=middle[1] + half * SQUARE, xticks=[], yticks=[], aspect=1)
            axes.spines[:].set_linewidth(0.4)
        row[0].set_ylabel(kind, fontsize=8)
    for axes, (group, stage) in zip(panels[0], columns, strict=True):
        axes.set_title(plain_text(f"{group.label.removeprefix(model + ', ')}\n{stage}"), fontsize=8)
    rows = []
    for group, _ in arms:
        for kind in kinds:
            spreads = [_neighbourhood(maps[group.label][f"{kind} {stage}"]) for stage in STAGES]
            count = len(maps[group.label][f"{kind} {STAGES[0]}"])
            rows.append([f"{group.label}, {kind}", f"{count:,}", *(f"{spread:.3f}" for spread in spreads)])
    seeds = sorted({cell.config.seed for _, cell in arms})
    caption = (
        f"{results.dataset.name}, {model}, seed {', '.join(map(str, seeds))} of {results.seeds}. t-SNE (openTSNE,"
        f" perplexity {PERPLEXITY:g}, seed 0) of at most {MOST:,} nodes of a kind; axes have no unit. Initial: the"
        " trained node table; propagated: what the model makes of it on the training graph. In the table: the median"
        " distance to the nearest other node, as a share of the panel's width; the smaller, the more clustered."
    )
    grid = Grid(f"Vectors of {model}", caption, ["", "nodes", *STAGES], plain(rows))
    name = f"embeddings-{model}"
    return Drawn(name, to_svg(figure, name), grid)


def _neighbourhood(places: Points) -> float:
    """The median distance to the nearest other, as a share of the width."""
    from scipy.spatial import cKDTree

    nearest = np.asarray(cKDTree(places).query(places, k=2)[0])[:, 1]
    return float(np.median(nearest) / (places.max(axis=0) - places.min(axis=0)).max())
