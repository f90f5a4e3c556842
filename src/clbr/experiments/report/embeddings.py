"""Figure of embeddings: t-SNE of users, bundles and items by variant, before and after propagation."""

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from clbr.data.dataset import BundleDataset
from clbr.errors import InputError, require
from clbr.experiments.cell_run import training_data
from clbr.experiments.cells import Cell
from clbr.experiments.report.drawing import Drawn, draw_points, new_figure, plain_text, to_svg
from clbr.experiments.report.grid import Grid, plain_rows
from clbr.experiments.report.results import Group, Results
from clbr.experiments.store import Store, read_arrays
from clbr.files import write_atomic
from clbr.graph.graph import BundleGraph
from clbr.models.base import Encoder
from clbr.models.embeddings import Embeddings
from clbr.models.registry import make_model
from clbr.rng import generator
from clbr.training.run_folder import BEST, read_model

Kind = Literal["users", "bundles", "items"]
KINDS: tuple[Kind, ...] = ("users", "bundles", "items")
STAGES = ("initial", "propagated")
MAX_NODES = 2000
"""Nodes of a kind that are drawn, at most."""
PERPLEXITY = 30.0
Points = NDArray[np.float32]
BOTH_WAYS = np.array([-1.0, 1.0])


def embeddings(results: Results, on_progress: Callable[[int, int], None] = lambda done, total: None) -> list[Drawn]:
    """Draw a figure for each model: a row for each kind of node, columns for variants and stages.

    The coordinates are written to the store, so that the figure can be drawn again without the runs.
    """
    by_model: dict[str, list[tuple[Group, Cell]]] = {}
    for group in results.done:
        seed = min(group.records)
        cell = next(one.cell for one in group.cells if one.cell.config.seed == seed)
        by_model.setdefault(group.model, []).append((group, cell))
    points: dict[str, dict[str, Points]] = {}
    for groups in by_model.values():
        for group, cell in groups:
            on_progress(len(points), sum(map(len, by_model.values())))
            points[group.label] = coordinates(results, cell)
    return [_draw(results, model, groups, points) for model, groups in by_model.items()]


def coordinates(results: Results, cell: Cell) -> dict[str, Points]:
    """Return the (n, 2) coordinates of "users initial" and so on: from the store, or computed from the weights."""
    path = results.store.coordinates_path(cell.key)
    if path.exists():
        return read_arrays(path, "delete it to compute it again")
    require("openTSNE", "report")
    points = {name: _project(vectors) for name, vectors in _vectors(results, cell)}
    path.parent.mkdir(exist_ok=True)
    content = BytesIO()
    np.savez_compressed(content, **points)  # type: ignore[arg-type]
    write_atomic(path, content.getvalue())
    return points


def _vectors(results: Results, cell: Cell) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield the vectors of each kind and stage, always of the same nodes: the node table, and the embeddings."""
    dataset = training_data(results.dataset, cell)
    model = _trained_model(results.store, cell, dataset)
    with torch.no_grad():
        propagated = model.encode(BundleGraph.of(dataset))
    for kind in KINDS:
        table, joined = getattr(model, kind, None), _joined(propagated, kind)
        if table is None or joined is None:
            continue
        nodes = np.sort(generator(0, f"drawn {kind}").permutation(len(table))[:MAX_NODES])
        for stage, vectors in zip(STAGES, (table, joined), strict=True):
            yield f"{kind} {stage}", vectors.detach().cpu().numpy()[nodes]


def _trained_model(store: Store, cell: Cell, dataset: BundleDataset) -> Encoder:
    model = make_model(cell.config.model, cell.config.settings, dataset)
    if not isinstance(model, Encoder):
        name = cell.config.model
        raise InputError(f"{name} computes no embeddings from a graph, and the figure shows them; choose another model")
    weights = store.run_folder(cell) / BEST
    if not weights.exists():
        remedy = f"delete {store.record_path(cell)} and run the specification again"
        raise InputError(f"{weights}: no such file, and the figure needs the weights; {remedy}")
    read_model(weights, model)
    return model


def _joined(propagated: Embeddings, kind: Kind) -> torch.Tensor | None:
    """Return the embeddings of all levels that have this kind of node, concatenated; None if there are none."""
    sides = [side for level in propagated.levels.values() if (side := level.side(kind)) is not None]
    return torch.cat(sides, dim=1) if sides else None


def _project(vectors: NDArray[np.float32]) -> Points:
    """Project vectors to two dimensions by t-SNE; one thread and a fixed seed make it repeatable."""
    if len(vectors) < 4:
        raise InputError(f"{len(vectors)} nodes are too few for t-SNE: expected at least 4")
    tsne = require("openTSNE", "report").TSNE(
        perplexity=min(PERPLEXITY, (len(vectors) - 1) / 3),
        neighbors="exact",
        negative_gradient_method="bh",
        n_jobs=1,
        random_state=0,
    )
    return np.asarray(tsne.fit(vectors), dtype=np.float32)


def _draw(
    results: Results, model: str, groups: list[tuple[Group, Cell]], points: dict[str, dict[str, Points]]
) -> Drawn:
    kinds = [kind for kind in KINDS if f"{kind} {STAGES[0]}" in points[groups[0][0].label]]
    columns = [(group, stage) for group, _ in groups for stage in STAGES]
    figure = new_figure(len(kinds), len(columns), (1.7, 1.7))
    panels = figure.subplots(len(kinds), len(columns), squeeze=False)
    for row, kind in zip(panels, kinds, strict=True):
        for axes, (group, stage) in zip(row, columns, strict=True):
            drawn = points[group.label][f"{kind} {stage}"]
            middle, half = (drawn.max(axis=0) + drawn.min(axis=0)) / 2, np.ptp(drawn, axis=0).max() * 0.53
            draw_points(axes, drawn, width=np.sqrt(np.clip(2400 / len(drawn), 1.2, 5)))
            limits = {"xlim": middle[0] + half * BOTH_WAYS, "ylim": middle[1] + half * BOTH_WAYS}
            axes.set(**limits, xticks=[], yticks=[], aspect=1)
            axes.spines[:].set_linewidth(0.4)
        row[0].set_ylabel(kind, fontsize=8)
    for axes, (group, stage) in zip(panels[0], columns, strict=True):
        axes.set_title(plain_text(f"{group.label.removeprefix(model + ', ')}\n{stage}"), fontsize=8)
    rows = []
    for group, _ in groups:
        for kind in kinds:
            distances = [_nearest_distance(points[group.label][f"{kind} {stage}"]) for stage in STAGES]
            count = len(points[group.label][f"{kind} {STAGES[0]}"])
            rows.append([f"{group.label}, {kind}", f"{count:,}", *(f"{distance:.3f}" for distance in distances)])
    seeds = sorted({cell.config.seed for _, cell in groups})
    caption = (
        f"{results.dataset.name}, {model}, seed {', '.join(map(str, seeds))} of {results.seeds}. t-SNE (openTSNE,"
        f" perplexity {PERPLEXITY:g}, seed 0) of at most {MAX_NODES:,} nodes of a kind; the axes have no unit. Initial:"
        " the trained node table; propagated: the model's embeddings on the training graph. In the table: the median"
        " distance to the nearest other node, as a share of the panel's width; smaller means more clustered."
    )
    grid = Grid(f"Embeddings of {model}", caption, ["", "nodes", *STAGES], plain_rows(rows))
    name = f"embeddings-{model}"
    return Drawn(name, to_svg(figure, name), grid)


def _nearest_distance(points: Points) -> float:
    """Return the median distance to the nearest other point, as a share of the width."""
    from scipy.spatial import cKDTree

    nearest = np.asarray(cKDTree(points).query(points, k=2)[0])[:, 1]
    return float(np.median(nearest) / (points.max(axis=0) - points.min(axis=0)).max())
