"""What a trained run shows of the paper's theory: curves of the lemmas, noise of the views, hidden edges."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from math import isfinite, nan
from pathlib import Path
from typing import Any

import torch

from clbr.counterfactual.config import ViewsConfig
from clbr.counterfactual.noise import Kind, Noise, PassRates, hide, noise, pass_rates
from clbr.counterfactual.samplers import Heuristic
from clbr.counterfactual.strategy import make_sampler
from clbr.counterfactual.views import read_run_views
from clbr.data.describe import FORMATS, STYLES
from clbr.data.folder import ORIGIN
from clbr.data.pairs import Relation
from clbr.errors import InputError, require
from clbr.files import write_atomic
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.models.base import Encoder
from clbr.models.registry import find_model, make_model
from clbr.rng import generator, torch_generator
from clbr.simulation.generate import SimulateConfig, draw
from clbr.simulation.parameters import world_config
from clbr.simulation.world import World
from clbr.training.config import RunConfig
from clbr.training.loop import make_optimizer, train
from clbr.training.run_folder import best_epoch, read_config, read_dataset, read_metrics, read_origin

HIDDEN_SHARE = 0.1
"""Share of a relation's edges that `hold_out` hides."""
MEASURES = {
    "alignment": "alignment",
    "uniformity": "uniformity",
    "conditional entropy": "conditional entropy (nats)",
    "entropy": "entropy (nats)",
}
"""Label of each measure in the figure of the curves."""


@dataclass(frozen=True)
class Curves:
    """Measures of a run over its epochs: one value per measured epoch by name, None where it is not finite."""

    epochs: list[int]
    values: dict[str, list[float | None]]
    best_epoch: int

    @property
    def milestones(self) -> list[int]:
        """Positions of the first measured epoch, the one nearest to the best epoch, and the last; without repeats."""
        positions = range(len(self.epochs))
        nearest = min(positions, key=lambda position: abs(self.epochs[position] - self.best_epoch))
        return sorted({0, nearest, len(positions) - 1})


def read_run(folder: Path, data: Path | None = None) -> tuple[RunConfig, ViewsConfig, list[EdgeEdits]]:
    """Read the config, the settings of the views and the views of a run.

    `data` is the data folder if it was moved. Raises `InputError` if the run has no views, or if `data` is not the data
    set that it was trained on.
    """
    config = read_config(folder)
    views, _ = read_run_views(folder, config.views is not None)
    if data is not None:
        read_dataset(folder, config, data)  # raises an error for another data set
        config = config.model_copy(update={"data": str(data)})
    assert config.views is not None
    return config, config.views, views


def read_curves(folder: Path, config: RunConfig) -> Curves | None:
    """Read the curves of a run. None if nothing was measured."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in read_metrics(folder)]
    measured = [line for line in lines if line.get("measures")]
    if not measured:
        return None
    names = dict.fromkeys(name for line in measured for name in line["measures"])
    values = {name: [_finite(line["measures"].get(name)) for line in measured] for name in names}
    best = best_epoch(folder, config) or lines[-1]
    return Curves([line["number"] for line in measured], values, best["number"])


def _finite(value: float | None) -> float | None:
    """Return the value, or None if it is not finite (early versions wrote such values)."""
    return value if value is not None and isfinite(value) else None


def find_world(folder: Path, config: RunConfig, given: SimulateConfig | None = None) -> World | None:
    """Simulate the world of a run's data again: the given world, or the one that the data folder was written from.

    None if the data were not simulated. Raises `InputError` if the run was trained on the data of another world.
    """
    wanted = given or _origin(config)
    if wanted is None:
        return None
    world = draw(world_config(wanted.like, wanted.scale, wanted.variant), wanted.seed)
    if world.dataset.fingerprint != read_origin(folder).fingerprint:
        settings = f"like {wanted.like}, scale {wanted.scale:g}, variant {wanted.variant}, seed {wanted.seed}"
        raise InputError(
            f"{folder}: was not trained on the world {settings}; give the settings of its world",
            *("like", "scale", "variant", "world_seed"),
        )
    return world


def _origin(config: RunConfig) -> SimulateConfig | None:
    """Return the settings that a run's data folder was simulated with. None if it was not simulated."""
    path = Path(config.data) / ORIGIN
    if not config.data or not path.exists():
        return None
    simulated = re.search(r"^like\s*=", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    return SimulateConfig.from_toml(path) if simulated else None


def measure_noise(world: World, views: list[EdgeEdits], seed: int) -> dict[Relation, dict[Kind, Noise]]:
    """Measure the noise of a run's views against the true preferences of its world."""
    return noise(world, BundleGraph.of(world.dataset), views, generator(seed, "noise"))


def hold_out(
    folder: Path, config: RunConfig, views: ViewsConfig, epochs: int, on_epoch: Callable[[int], None]
) -> dict[Relation, PassRates]:
    """Hide edges, train a model without them, and measure how often the sampler's addition rule accepts them.

    A share of each relation that the run edits is hidden, of all relations at once. The model is the run's own, trained
    for `epochs` epochs with the original strategy; `on_epoch(number)` is called after each epoch. Raises `InputError`
    if the run's views are not by the heuristic sampler, or edit no relation that the model uses.
    """
    if views.sampler != "heuristic":
        raise InputError(
            f"{folder}: hidden edges test the addition rule of the heuristic sampler, but this run's views are by the "
            f"{views.sampler} sampler"
        )
    relations = [relation for relation in views.ratios if relation in find_model(config.model).relations]
    if not relations:
        raise InputError(f"{folder}: its views edit no relation that {config.model} uses, so no addition can be tested")
    dataset = read_dataset(folder, config)
    reduced, hidden = hide(dataset, relations, HIDDEN_SHARE, generator(config.seed, "hidden edges"))
    model = make_model(config.model, config.settings, reduced, torch_generator(config.seed, "init"))
    assert isinstance(model, Encoder)
    settings = config.train.model_copy(update={"epochs": epochs, "evaluate_every": epochs})
    for epoch in train(model, make_optimizer(model, settings), reduced, settings, config.seed):
        on_epoch(epoch.number)
    graph = BundleGraph.of(reduced)
    with torch.no_grad():
        sampler = make_sampler(views, graph, model.encode(graph), config.seed)
    assert isinstance(sampler, Heuristic)
    return {r: pass_rates(sampler, r, hidden[r], generator(config.seed, "pass rates", r)) for r in relations}


def plot_curves(curves: Curves, path: Path) -> None:
    """Plot each measure over the epochs, users and bundles in one panel, and mark the best epoch.

    Values that are not finite leave a gap. Raises `InputError` if the name of `path` ends in no known format.
    """
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: expected a name that ends in {', '.join(FORMATS)}", "plot")
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.4), layout="constrained")
    for axes, (measure, label) in zip(figure.subplots(2, 2, sharex=True).flat, MEASURES.items(), strict=True):
        _plot_measure(axes, curves, measure, label)
    for axes in figure.axes[2:]:
        axes.set_xlabel("epoch", fontsize=9)
    figure.align_ylabels()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=9)
    picture = BytesIO()
    figure.savefig(picture, format=path.suffix[1:], dpi=150)
    write_atomic(path, picture.getvalue())


def _plot_measure(axes: Any, curves: Curves, measure: str, label: str) -> None:
    """Plot one measure of users and of bundles."""
    from matplotlib.ticker import MaxNLocator

    for (colour, line), side, marker in zip(STYLES, ("users", "bundles"), "os", strict=False):
        values = curves.values.get(f"{measure} {side}", [None] * len(curves.epochs))
        points = [nan if value is None else value for value in values]
        axes.plot(curves.epochs, points, line, color=colour, marker=marker, markersize=3.5, linewidth=1.4, label=side)
    axes.axvline(curves.best_epoch, color="0.75", linewidth=0.8, zorder=0, label="best epoch on validation")
    axes.set_ylabel(label, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.5)
