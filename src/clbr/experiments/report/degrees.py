"""Figures on sparsity: metrics by the share of training pairs, and gains over the reference by node degree."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clbr.experiments.cell_run import FOUND_AT, training_data
from clbr.experiments.report.drawing import (
    Drawn,
    add_legend,
    draw_line,
    line_styles,
    new_figure,
    plain_text,
    set_style,
    to_svg,
)
from clbr.experiments.report.grid import Grid, plain_rows
from clbr.experiments.report.results import Group, Results, common_seeds
from clbr.experiments.report.tables import by_group, describe_test, error_bars, percent, short
from clbr.experiments.spec import SHARE

CLASS_STARTS = (0, 1, 2, 4, 8, 16, 32, 64)
"""The lowest degree of each class; the last class has no highest degree."""
MIN_NODES = 20
"""Classes with fewer nodes are not drawn."""


@dataclass(frozen=True)
class Gain:
    """The gain of a group over its reference in a class of degrees, for each seed."""

    group: Group
    degree_class: int
    nodes: int
    values: tuple[float, ...]

    @property
    def sd(self) -> float | None:
        """Standard deviation over seeds; None with one seed."""
        return stdev(self.values) if len(self.values) > 1 else None


def class_name(degree_class: int) -> str:
    """Return the degrees of a class as text: "2-3"."""
    low = CLASS_STARTS[degree_class]
    if degree_class + 1 == len(CLASS_STARTS):
        return f"{low}+"
    high = CLASS_STARTS[degree_class + 1] - 1
    return f"{low}" if low == high else f"{low}-{high}"


def degrees(results: Results) -> list[Drawn]:
    """Draw up to three figures: metrics by share, gains by the users' degree, gains by the bundles' degree."""
    metric = results.spec.metrics[0]
    test = results.dataset.test
    users = np.unique(test[:, 0])

    def by_user(group: Group, seed: int) -> NDArray[np.float64]:
        return results.per_user(group, seed).metrics[metric]

    def by_pair(group: Group, seed: int) -> NDArray[np.float64]:
        return results.per_user(group, seed).found.astype(np.float64)

    name, found = short(metric), f"test pairs found in the first {FOUND_AT}"
    sides = (
        ("users", 0, users, by_user, f"gain in {name} (points)", name, "bundles of a user in training"),
        ("bundles", 1, test[:, 1], by_pair, "gain in pairs found (points)", found, "users of a bundle in training"),
    )
    drawn = [one for one in [_by_share(results)] if one]
    for kind, side, nodes, values, label, measure, degree in sides:
        gains = list(_gains(results, side, nodes, values))
        if gains:
            drawn.append(_by_degree(results, gains, f"degrees-{kind}", label, measure, degree))
    return drawn


def _by_share(results: Results) -> Drawn | None:
    """Draw the metrics by share, a panel for each model and metric; None if the share does not vary."""
    groups = [group for group in results.done if SHARE in group.point]
    if not groups:
        return None
    models, metrics = list(dict.fromkeys(group.model for group in groups)), results.spec.metrics
    figure = new_figure(len(models), len(metrics), (1.95, 1.8))
    panels = figure.subplots(len(models), len(metrics), squeeze=False)
    styles = line_styles(group.line_label(SHARE) for group in groups)
    for row, model in zip(panels, models, strict=True):
        lines: dict[str, list[Group]] = {}
        for group in sorted(groups, key=lambda group: group.share):
            if group.model == model:
                lines.setdefault(group.line_label(SHARE), []).append(group)
        for axes, metric in zip(row, metrics, strict=True):
            for label in styles:
                if members := lines.get(label):
                    x, means, sds = zip(*((100 * g.share, g.mean(metric), g.sd(metric)) for g in members), strict=True)
                    draw_line(axes, x, means, sds, label=plain_text(label), **styles[label])
            axes.set_title(plain_text(f"{model}, {short(metric)} (%)"), fontsize=8)
            set_style(axes)
    for axes in panels[-1]:
        axes.set_xlabel("training pairs used (%)", fontsize=8)
    add_legend(figure, panels.flat)
    caption = f"{describe_test(results)}.{error_bars(groups)}"
    grid = by_group("By the share of training pairs", caption, groups, metrics)
    return Drawn("shares", to_svg(figure, "shares"), grid)


def _gains(
    results: Results, side: int, nodes: NDArray[Any], values: Callable[[Group, int], NDArray[np.float64]]
) -> Iterator[Gain]:
    """Yield the gains of every group that has a reference, by class of degree in the pairs that it was trained on."""
    size = len(results.dataset.users if side == 0 else results.dataset.bundles)
    for group in results.done:
        reference = results.reference(group)
        if reference is None or not (seeds := common_seeds(group, reference)):
            continue
        trained = training_data(results.dataset, group.cells[0].cell).train[:, side]
        classes = np.searchsorted(CLASS_STARTS, np.bincount(trained, minlength=size)[nodes], side="right") - 1
        differences = [values(group, seed) - values(reference, seed) for seed in seeds]
        for degree_class in np.unique(classes):
            members = classes == degree_class
            by_seed = tuple(float(one[members].mean()) for one in differences)
            yield Gain(group, int(degree_class), int(members.sum()), by_seed)


def _by_degree(results: Results, gains: Sequence[Gain], name: str, label: str, measure: str, degree: str) -> Drawn:
    """Draw gains by degree, a panel for each share and variant; classes of few nodes are in the table only."""
    rows = list(dict.fromkeys((gain.group.model, gain.group.line_label(SHARE)) for gain in gains))
    shares = sorted({gain.group.share for gain in gains})
    shown = [gain for gain in gains if gain.nodes >= MIN_NODES]
    classes = sorted({gain.degree_class for gain in shown})
    figure = new_figure(len(rows), len(shares), (max(1.5, 3 / len(shares)), 1.75))
    panels = figure.subplots(len(rows), len(shares), squeeze=False, sharey="row", sharex=True)
    for row, (model, line) in zip(panels, rows, strict=True):
        for axes, share in zip(row, shares, strict=True):
            wanted = (model, line, share)
            mine = [g for g in shown if (g.group.model, g.group.line_label(SHARE), g.group.share) == wanted]
            x, means = [classes.index(gain.degree_class) for gain in mine], [mean(gain.values) for gain in mine]
            axes.axhline(0, color="black", linestyle=":", linewidth=0.9)
            draw_line(axes, x, means, [gain.sd for gain in mine], color="#222222", marker="o")
            axes.set_title(plain_text(f"{model}, {line}, {100 * share:g} %"), fontsize=7.5)
            axes.set_xticks(range(len(classes)), [class_name(one) for one in classes], rotation=60)
            set_style(axes)
            axes.tick_params(labelsize=6.5)
        row[0].set_ylabel(label, fontsize=7.5)
    figure.supxlabel(degree, fontsize=8)
    counted = "users" if name.endswith("users") else "test pairs"
    caption = (
        f"{describe_test(results)}. Gain over {results.spec.reference_label} in percentage points of {measure}, by"
        f" share of the training pairs. Degrees are counted in the pairs used.{error_bars(results.done)} Classes with"
        f" fewer than {MIN_NODES} {counted} are in the table only. Single classes are not tested."
    )
    cells = [
        [gain.group.label, class_name(gain.degree_class), f"{gain.nodes:,}", str(len(gain.values)), _points(gain)]
        for gain in gains
    ]
    columns = ["", degree, counted, "seeds", "gain (points)"]
    return Drawn(name, to_svg(figure, name), Grid(f"Gain by {degree}", caption, columns, plain_rows(cells)))


def _points(gain: Gain) -> str:
    return percent(mean(gain.values), gain.sd, signed=True)
