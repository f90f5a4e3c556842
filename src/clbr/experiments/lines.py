"""A figure of settings that vary by themselves: a metric against each."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from clbr.experiments.drawing import (
    Drawn,
    in_order,
    is_log,
    legend,
    log_axis,
    new_figure,
    plain_text,
    positions,
    styles,
    tidy,
    to_svg,
    with_bars,
)
from clbr.experiments.results import Group, Results
from clbr.experiments.tables import bars, by_group, short, standing

WIDE = 3
"""Panels beside each other."""


def lines(results: Results) -> Drawn | None:
    """A metric against each varied setting by itself, for each model and metric in panels; the base arm dotted."""
    keys: dict[str, list[str]] = {}
    for model, key in dict.fromkeys((group.model, next(iter(group.point))) for group in results.done if group.point):
        keys.setdefault(model, []).append(key)
    if not keys:
        return None
    spec, most = results.spec, max(map(len, keys.values()))
    wide = min(WIDE, most)
    blocks, high = list(product(keys, spec.metrics)), -(-most // wide)
    figure = new_figure(high * len(blocks), wide)
    panels = figure.subplots(high * len(blocks), wide, squeeze=False, sharey=False)
    for axes in panels.flat:
        axes.set_visible(False)
    drawn, looks = [], styles(group.line(next(iter(group.point))) for group in results.done if group.point)
    for (model, metric), block in zip(blocks, panels.reshape(len(blocks), -1), strict=True):
        mine = block[: len(keys[model])]
        for axes, key in zip(mine, keys[model], strict=True):
            _line_panel(axes, [group for group in results.done if group.model == model], spec.base, key, metric, looks)
        for axes in mine[::wide]:
            axes.set_ylabel(plain_text(f"{model}, {short(metric)} (%)"), fontsize=8)
        _same_heights(mine, wide)
        drawn.extend(mine)
    figure.align_ylabels()
    legend(figure, drawn)
    caption = f"{standing(results)}.{bars(results.done)} Dotted: {spec.base}."
    grid = by_group(f"{spec.title}: what varies", caption, results.done, spec.metrics)
    return Drawn("lines", to_svg(figure, "lines"), grid)


def _line_panel(
    axes: Any, groups: Sequence[Group], base: str, key: str, metric: str, looks: dict[str, dict[str, Any]]
) -> None:
    """One model's lines along one setting."""
    axes.set_visible(True)
    series: dict[str, list[Group]] = {}
    for group in groups:
        if group.point and next(iter(group.point)) == key:
            series.setdefault(group.line(key), []).append(group)
    values = sorted({group.point[key] for groups in series.values() for group in groups}, key=in_order)
    places, numeric = positions(values)
    for label, mine in series.items():
        mine.sort(key=lambda group: in_order(group.point[key]))
        x = [places[values.index(group.point[key])] for group in mine]
        means, sds = [group.mean(metric) for group in mine], [group.sd(metric) for group in mine]
        with_bars(axes, x, means, sds, label=plain_text(label), **looks[label])
    for group in groups:
        if group.arm == base and not group.point:
            dotted = {"color": "black", "linestyle": ":", "linewidth": 1.2}
            axes.axhline(100 * group.mean(metric), label=plain_text(base), **dotted)
    if numeric and is_log(places):
        log_axis(axes)
    elif not numeric:
        axes.set_xticks(places, [plain_text(str(value)) for value in values])
    axes.set_xlabel(plain_text(key.replace("+", " and ")), fontsize=8)
    tidy(axes)


def _same_heights(panels: Sequence[Any], wide: int) -> None:
    """Panels of one metric have one scale, so that they can be compared by eye."""
    low, high = min(axes.get_ylim()[0] for axes in panels), max(axes.get_ylim()[1] for axes in panels)
    for place, axes in enumerate(panels):
        axes.set_ylim(low, high)
        axes.tick_params(labelleft=place % wide == 0)
