"""Do views help more where there is less to learn from? Metrics by the share of training pairs, gains by degree."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clbr.experiments.report.drawing import Drawn, legend, new_figure, plain_text, styles, tidy, to_svg, with_bars
from clbr.experiments.report.grid import Grid, plain
from clbr.experiments.report.results import Group, Results, common_seeds
from clbr.experiments.report.tables import bars, by_group, percent, short, standing
from clbr.experiments.spec import SHARE
from clbr.experiments.work import FOUND_AT, thinned

EDGES = (0, 1, 2, 4, 8, 16, 32, 64)
"""Where classes of degrees begin; the last has no end."""
FEW = 20
"""Classes of fewer nodes are not drawn."""


@dataclass(frozen=True)
class Gain:
    """What a group has over its base in a class of nodes, seed by seed."""

    group: Group
    kind: int
    nodes: int
    values: tuple[float, ...]

    @property
    def sd(self) -> float | None:
        """Over seeds."""
        return stdev(self.values) if len(self.values) > 1 else None


def class_name(kind: int) -> str:
    """The degrees of a class, in words."""
    low = EDGES[kind]
    if kind + 1 == len(EDGES):
        return f"{low}+"
    high = EDGES[kind + 1] - 1
    return f"{low}" if low == high else f"{low}-{high}"


def degrees(results: Results) -> list[Drawn]:
    """Three figures: by share, by the users' degree, by the bundles' degree."""
    metric = results.spec.metrics[0]
    test = results.dataset.test
    users = np.unique(test[:, 0])

    def by_user(group: Group, seed: int) -> NDArray[np.float64]:
        return results.per_user(group, seed).metrics[metric]

    def by_pair(group: Group, seed: int) -> NDArray[np.float64]:
        return results.per_user(group, seed).found.astype(np.float64)

    name, found = short(metric), f"test pairs found among the first {FOUND_AT}"
    sides = (
        ("users", 0, users, by_user, f"gain in {name} (points)", name, "bundles of a user in training"),
        ("bundles", 1, test[:, 1], by_pair, "gain in pairs found (points)", found, "users of a bundle in training"),
    )
    drawn = [one for one in [_by_share(results)] if one]
    for what, side, nodes, values, label, measure, degree in sides:
        gains = list(_gains(results, side, nodes, values))
        if gains:
            drawn.append(_by_degree(results, gains, f"degrees-{what}", label, measure, degree))
    return drawn


def _by_share(results: Results) -> Drawn | None:
    groups = [group for group in results.done if "share" in group.point]
    if not groups:
        return None
    models, metrics = list(dict.fromkeys(group.model for group in groups)), results.spec.metrics
    figure = new_figure(len(models), len(metrics), (1.95, 1.8))
    panels = figure.subplots(len(models), len(metrics), squeeze=False)
    looks = styles(group.line(SHARE) for group in groups)
    for row, model in zip(panels, models, strict=True):
        arms = list(dict.fromkeys(group.line(SHARE) for group in groups if group.model == model))
        for axes, metric in zip(row, metrics, strict=True):
            for arm in arms:
                mine = sorted((g for g in groups if (g.model, g.line(SHARE)) == (model, arm)), key=lambda g: g.share)
                x, means, sds = zip(*((100 * g.share, g.mean(metric), g.sd(metric)) for g in mine), strict=True)
                with_bars(axes, x, means, sds, label=plain_text(arm), **looks[arm])
            axes.set_title(plain_text(f"{model}, {short(metric)} (%)"), fontsize=8)
            tidy(axes)
    for axes in panels[-1]:
        axes.set_xlabel("training pairs kept (%)", fontsize=8)
    legend(figure, panels.flat)
    caption = f"{standing(results)}.{bars(groups)}"
    grid = by_group("By the share of training pairs", caption, groups, metrics)
    return Drawn("shares", to_svg(figure, "shares"), grid)


def _gains(
    results: Results, side: int, nodes: NDArray[Any], values: Callable[[Group, int], NDArray[np.float64]]
) -> Iterator[Gain]:
    """For every group that has a base: by class of degree, in the pairs that it was trained on."""
    size = len(results.dataset.users if side == 0 else results.dataset.bundles)
    for group in results.done:
        base = results.base(group)
        if base is None or not (seeds := common_seeds(group, base)):
            continue
        trained = thinned(results.dataset, group.share).train[:, side]
        kinds = np.searchsorted(EDGES, np.bincount(trained, minlength=size)[nodes], side="right") - 1
        apart = [values(group, seed) - values(base, seed) for seed in seeds]
        for kind in np.unique(kinds):
            members = kinds == kind
            by_seed = tuple(float(one[members].mean()) for one in apart)
            yield Gain(group, int(kind), int(members.sum()), by_seed)


def _by_degree(results: Results, gains: Sequence[Gain], name: str, label: str, measure: str, degree: str) -> Drawn:
    """A panel for each share and contender; classes of few nodes are in the table only."""
    rows = list(dict.fromkeys((gain.group.model, gain.group.line(SHARE)) for gain in gains))
    shares = sorted({gain.group.share for gain in gains})
    shown = [gain for gain in gains if gain.nodes >= FEW]
    kinds = sorted({gain.kind for gain in shown})
    figure = new_figure(len(rows), len(shares), (max(1.5, 3 / len(shares)), 1.75))
    panels = figure.subplots(len(rows), len(shares), squeeze=False, sharey="row", sharex=True)
    for line, (model, arm) in zip(panels, rows, strict=True):
        for axes, share in zip(line, shares, strict=True):
            mine = [g for g in shown if (g.group.model, g.group.line(SHARE), g.group.share) == (model, arm, share)]
            x, means = [kinds.index(gain.kind) for gain in mine], [mean(gain.values) for gain in mine]
            axes.axhline(0, color="black", linestyle=":", linewidth=0.9)
            with_bars(axes, x, means, [gain.sd for gain in mine], color="#222222", marker="o")
            axes.set_title(plain_text(f"{model}, {arm}, {100 * share:g} %"), fontsize=7.5)
            axes.set_xticks(range(len(kinds)), [class_name(kind) for kind in kinds], rotation=60)
            tidy(axes)
            axes.tick_params(labelsize=6.5)
        line[0].set_ylabel(label, fontsize=7.5)
    figure.supxlabel(degree, fontsize=8)
    counted = "users" if name.endswith("users") else "test pairs"
    caption = (
        f"{standing(results)}. Gain over {results.spec.base}, percentage points of {measure}, by share of the training"
        f" pairs; degrees in the pairs that were kept.{bars(results.done)} Classes of fewer than {FEW}"
        f" {counted} are in the table only; single classes are not tested."
    )
    cells = [
        [gain.group.label, class_name(gain.kind), f"{gain.nodes:,}", str(len(gain.values)), _points(gain)]
        for gain in gains
    ]
    columns = ["", degree, counted, "seeds", "gain (points)"]
    return Drawn(name, to_svg(figure, name), Grid(f"Gain by {degree}", caption, columns, plain(cells)))


def _points(gain: Gain) -> str:
    return percent(mean(gain.values), gain.sd, signed=True)
