"""A figure of settings that vary by themselves: a metric against each."""

from collections.abc import Sequence
from typing import Any

from clbr.experiments.drawing import (
    STYLES,
    Drawn,
    in_order,
    is_log,
    legend,
    log_axis,
    new_figure,
    plain_text,
    positions,
    tidy,
    to_svg,
)
from clbr.experiments.results import Group, Results
from clbr.experiments.tables import bars, by_group, short, standing

WIDE = 3
"""Panels beside each other."""


def lines(results: Results) -> Drawn | None:
    """A metric against each varied setting by itself, a row of panels for each metric; the base arm dotted."""
    keys = list(dict.fromkeys(next(iter(group.point)) for group in results.done if group.point))
    if not keys:
        return None
    spec, wide = results.spec, min(WIDE, len(keys))
    high = -(-len(keys) // wide)
    figure = new_figure(high * len(spec.metrics), wide)
    panels = figure.subplots(high * len(spec.metrics), wide, squeeze=False, sharey=False)
    for axes in panels.flat:
        axes.set_visible(False)
    drawn = []
    for row, metric in enumerate(spec.metrics):
        for number, key in enumerate(keys):
            axes = panels[row * high + number // wide, number % wide]
            _line_panel(axes, results, key, metric)
            if number % wide == 0:
                axes.set_ylabel(f"{short(metric)} (%)", fontsize=8)
            drawn.append(axes)
    for row in range(high * len(spec.metrics)):
        _same_heights([axes for axes in panels[row] if axes.get_visible()])
    figure.align_ylabels()
    legend(figure, drawn)
    caption = f"{standing(results)}.{bars(results.done)} Dotted: {spec.base}."
    grid = by_group(f"{spec.title}: what varies", caption, results.done, spec.metrics)
    return Drawn("lines", to_svg(figure, "lines"), grid)


def _line_panel(axes: Any, results: Results, key: str, metric: str) -> None:
    axes.set_visible(True)
    series: dict[str, list[Group]] = {}
    for group in results.done:
        if group.point and next(iter(group.point)) == key:
            series.setdefault(f"{group.model}, {group.line(key)}", []).append(group)
    values = sorted({group.point[key] for groups in series.values() for group in groups}, key=in_order)
    places, numeric = positions(values)
    for (label, groups), (grey, dash, marker) in zip(series.items(), STYLES * len(series), strict=False):
        groups.sort(key=lambda group: in_order(group.point[key]))
        x = [places[values.index(group.point[key])] for group in groups]
        y = [100 * group.mean(metric) for group in groups]
        sds = [100 * (group.sd(metric) or 0) for group in groups]
        style = {"color": grey, "linestyle": dash, "marker": marker, "markersize": 3.2, "linewidth": 1.1}
        axes.errorbar(x, y, sds if any(sds) else None, capsize=1.8, elinewidth=0.7, label=plain_text(label), **style)
    bases = [group for group in results.done if group.arm == results.spec.base and not group.point]
    for group, (grey, _, _) in zip(bases, STYLES * len(bases), strict=False):
        label = plain_text(f"{group.model}, {group.arm}")
        axes.axhline(100 * group.mean(metric), color=grey, linestyle=":", linewidth=1.2, label=label)
    if numeric and is_log(places):
        log_axis(axes)
    elif not numeric:
        axes.set_xticks(places, [plain_text(str(value)) for value in values])
    axes.set_xlabel(plain_text(key.replace("+", " and ")), fontsize=8)
    tidy(axes)


def _same_heights(row: Sequence[Any]) -> None:
    """Panels of a row have one scale, so that they can be compared by eye."""
    low, high = min(axes.get_ylim()[0] for axes in row), max(axes.get_ylim()[1] for axes in row)
    for axes in row:
        axes.set_ylim(low, high)
    for axes in row[1:]:
        axes.tick_params(labelleft=False)
