"""What a trained run shows of the paper's theory: curves, noise on a simulated world, hidden edges."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
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
from clbr.training.loop import make_optimiser, train
from clbr.training.run_folder import best_epoch, read_config, read_dataset, read_metrics, read_origin

SHARE = 0.1
"""Of a relation's edges, hidden."""


@dataclass(frozen=True)
class Curves:
    """What was measured as a run learned: values by name, one for each of the epochs looked at; None: not finite."""

    epochs: list[int]
    values: dict[str, list[float | None]]
    best_epoch: int

    @property
    def moments(self) -> list[int]:
        """Positions of the first epoch looked at, the one nearest to the best, and the last; each once."""
        places = range(len(self.epochs))
        nearest = min(places, key=lambda place: abs(self.epochs[place] - self.best_epoch))
        return sorted({0, nearest, len(places) - 1})


def read_run(folder: Path, data: Path | None = None) -> tuple[RunConfig, ViewsConfig, list[EdgeEdits]]:
    """The settings and the views of a run; one without views is refused. `data` is where its data set lies now."""
    config = read_config(folder)
    edits, _ = read_run_views(folder, config.views is not None)
    if data is not None:
        read_dataset(folder, config, data)  # refuse another
        config = config.model_copy(update={"data": str(data)})
    assert config.views is not None
    return config, config.views, edits


def read_curves(folder: Path, config: RunConfig) -> Curves | None:
    """The curves of a run; None if nothing was measured."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in read_metrics(folder)]
    looked = [line for line in lines if line.get("measures")]
    if not looked:
        return None
    names = dict.fromkeys(name for line in looked for name in line["measures"])
    values = {name: [_finite(line["measures"].get(name)) for line in looked] for name in names}
    best = best_epoch(folder, config) or lines[-1]
    return Curves([line["number"] for line in looked], values, best["number"])


def _finite(value: float | None) -> float | None:
    """Runs of before this was looked after may hold others."""
    return value if value is not None and isfinite(value) else None


def find_world(folder: Path, config: RunConfig, given: SimulateConfig | None = None) -> World | None:
    """The world that a run's data were simulated from: a given one, or the one that the data folder tells of.

    None if the data were not simulated; refused if the world's data are not those that the run was trained on.
    """
    wanted = given or _origin(config)
    if wanted is None:
        return None
    world = draw(world_config(wanted.like, wanted.scale, wanted.variant), wanted.seed)
    if world.dataset.fingerprint != read_origin(folder).fingerprint:
        about = f"like {wanted.like}, scale {wanted.scale:g}, variant {wanted.variant}, seed {wanted.seed}"
        raise InputError(f"{folder}: was not trained on the world {about}; say which with --like and --world-seed")
    return world


def _origin(config: RunConfig) -> SimulateConfig | None:
    """How a run's data folder was simulated, if it was."""
    path = Path(config.data) / ORIGIN
    if not config.data or not path.exists():
        return None
    simulated = re.search(r"^like\s*=", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    return SimulateConfig.from_toml(path) if simulated else None


def noise_of_run(world: World, views: list[EdgeEdits], seed: int) -> dict[Relation, dict[Kind, Noise]]:
    """The noise of a run's views against the truth of its world."""
    return noise(world, BundleGraph.of(world.dataset), views, generator(seed, "noise"))


def hold_out(
    folder: Path, config: RunConfig, views: ViewsConfig, epochs: int, progress: Callable[[int], None]
) -> dict[Relation, PassRates]:
    """Pass rates of edges that a model trained for some epochs in the original way has not seen, by relation.

    A share of each relation that the run edits is hidden, of all of them at once.
    """
    if views.sampler != "heuristic":
        raise InputError(
            f"{folder}: hidden edges test the heuristic sampler's rule of addition, and this run's views are by the "
            f"{views.sampler} sampler"
        )
    relations = [relation for relation in views.ratios if relation in find_model(config.model).relations]
    if not relations:
        raise InputError(f"{folder}: its views edit nothing that {config.model} looks at, so no addition can be tested")
    dataset = read_dataset(folder, config)
    reduced, hidden = hide(dataset, relations, SHARE, generator(config.seed, "hidden edges"))
    model = make_model(config.model, config.settings, reduced, torch_generator(config.seed, "init"))
    assert isinstance(model, Encoder)
    settings = config.train.model_copy(update={"epochs": epochs, "evaluate_every": epochs})
    for epoch in train(model, make_optimiser(model, settings), reduced, settings, config.seed):
        progress(epoch.number)
    graph = BundleGraph.of(reduced)
    with torch.no_grad():
        sampler = make_sampler(views, graph, model.encode(graph), config.seed)
    assert isinstance(sampler, Heuristic)
    return {r: pass_rates(sampler, r, hidden[r], generator(config.seed, "pass rates", r)) for r in relations}


UNITS = {
    "alignment": "alignment",
    "uniformity": "uniformity",
    "conditional entropy": "conditional entropy (nats)",
    "entropy": "entropy (nats)",
}


def plot_curves(
    epochs: Sequence[int], values: Mapping[str, Sequence[float | None]], best_epoch: int, path: Path
) -> None:
    """Draw each measure over the epochs, users and bundles in one panel; a thin line marks the best epoch.

    Where there is no value, the curve has a gap.
    """
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: expected a name that ends in {', '.join(FORMATS)}")
    require("matplotlib", "plot")
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 5.4), layout="constrained")
    for axes, (measure, label) in zip(figure.subplots(2, 2, sharex=True).flat, UNITS.items(), strict=True):
        for (colour, line), side, marker in zip(STYLES, ("users", "bundles"), "os", strict=False):
            known = values.get(f"{measure} {side}", [None] * len(epochs))
            curve = [nan if value is None else value for value in known]
            axes.plot(epochs, curve, line, color=colour, marker=marker, markersize=3.5, linewidth=1.4, label=side)
        axes.axvline(best_epoch, color="0.75", linewidth=0.8, zorder=0, label="best epoch on validation")
        axes.set_ylabel(label, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.5)
    for axes in figure.axes[2:]:
        axes.set_xlabel("epoch", fontsize=9)
    figure.align_ylabels()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=9)
    picture = BytesIO()
    figure.savefig(picture, format=path.suffix[1:], dpi=150)
    write_atomic(path, picture.getvalue())
