"""Figures of a report: metrics along varied settings, surfaces of two settings, training curves."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from clbr.experiments.report.comparisons import Comparisons, explain_marks
from clbr.experiments.report.drawing import (
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
from clbr.experiments.report.grid import Grid, Text, plain
from clbr.experiments.report.results import Group, Results, told
from clbr.experiments.report.tables import DASH, bars, by_group, percent, short, standing

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


def surface(results: Results, comparisons: Comparisons) -> Drawn | None:
    """Heat maps of two settings that vary together, the numbers written in; a map for each series and metric."""
    series: dict[tuple[str, str, tuple[str, ...]], list[int]] = {}
    for number, group in enumerate(results.groups):
        if len(group.point) == 2:
            series.setdefault((group.model, group.arm, tuple(group.point)), []).append(number)
    series = {key: numbers for key, numbers in series.items() if any(results.groups[n].records for n in numbers)}
    if not series:
        return None
    spec = results.spec
    figure = new_figure(len(series), len(spec.metrics), (3.6, 3.0))
    panels = figure.subplots(len(series), len(spec.metrics), squeeze=False)
    for row, ((model, arm, keys), numbers) in zip(panels, series.items(), strict=True):
        for axes, metric in zip(row, spec.metrics, strict=True):
            groups = [results.groups[number] for number in numbers]
            bold = [(number, metric) in comparisons and comparisons[number, metric].holds for number in numbers]
            _map(axes, groups, bold, metric, keys)
            axes.set_title(plain_text(f"{model}, {arm}: {short(metric)} (%)"), fontsize=8)
    grid = _surface_grid(results, [number for numbers in series.values() for number in numbers], comparisons)
    return Drawn("surface", to_svg(figure, "surface"), grid)


def _map(axes: Any, groups: Sequence[Group], bold: Sequence[bool], metric: str, keys: Sequence[str]) -> None:
    down, along = keys
    ys = sorted({group.point[down] for group in groups}, key=in_order)
    xs = sorted({group.point[along] for group in groups}, key=in_order)
    table = [[float("nan")] * len(xs) for _ in ys]
    for group in groups:
        if group.records:
            table[ys.index(group.point[down])][xs.index(group.point[along])] = 100 * group.mean(metric)
    there = [value for row in table for value in row if value == value]
    low, high = min(there), max(there)
    spread = (high - low) or 1.0
    # Both ends of the greys are left out: no field looks empty, and black numbers can be read everywhere.
    axes.imshow(table, cmap="Greys", vmin=low - 0.25 * spread, vmax=high + spread, origin="lower", aspect="auto")
    for group, heavy in zip(groups, bold, strict=True):
        x, y = xs.index(group.point[along]), ys.index(group.point[down])
        value = table[y][x]
        text = f"{value:.2f}" if value == value else DASH
        axes.text(x, y, text, ha="center", va="center", fontsize=7.5, fontweight="bold" if heavy else "normal")
        if value == high:
            frame = {"fill": False, "edgecolor": "black", "linewidth": 1.4}
            axes.add_patch(_rectangle(x - 0.47, y - 0.47, 0.94, 0.94, frame))
    axes.set_xticks(range(len(xs)), [plain_text(told(value)) for value in xs])
    axes.set_yticks(range(len(ys)), [plain_text(told(value)) for value in ys])
    axes.set_xlabel(plain_text(along), fontsize=8)
    axes.set_ylabel(plain_text(down), fontsize=8)
    axes.tick_params(labelsize=7, length=0)
    axes.spines[:].set_visible(False)


def _rectangle(x: float, y: float, width: float, height: float, style: dict[str, Any]) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, **style)


def _surface_grid(results: Results, numbers: Sequence[int], comparisons: Comparisons) -> Grid:
    spec, rows = results.spec, []
    for number in numbers:
        group, cells = results.groups[number], []
        for metric in spec.metrics:
            one = comparisons.get((number, metric))
            text = percent(group.mean(metric), group.sd(metric)) if group.records else DASH
            cells.append(Text(text, bool(one and one.holds)))
        rows.append([Text(group.label), Text(str(len(group.records))), *cells])
    bases = [group for group in results.done if group.arm == spec.base]
    stated = "; ".join(
        f"{group.label}: " + ", ".join(f"{short(m)} {percent(group.mean(m))}" for m in spec.metrics) for group in bases
    )
    marks = explain_marks(comparisons, spec.base, "in bold")
    caption = f"{standing(results)}. Framed: the highest. {stated}. {marks}".strip()
    columns = ["", "seeds", *(f"{short(metric)} (%)" for metric in spec.metrics)]
    return Grid(f"{spec.title}: two settings together", caption, columns, rows)


WIDE = 4
"""Panels beside each other."""


def curves(results: Results) -> Drawn | None:
    """The metric that epochs are chosen on, by epoch: a panel for each group, a line for each seed."""
    groups = [group for group in results.done if any(record.curve for record in group.records.values())]
    if not groups:
        return None
    wide = min(WIDE, len(groups))
    high = -(-len(groups) // wide)
    figure = new_figure(high, wide, (1.9, 1.5))
    panels = list(figure.subplots(high, wide, squeeze=False).flat)
    for axes in panels[len(groups) :]:
        axes.set_visible(False)
    rows = []
    for number, (axes, group) in enumerate(zip(panels, groups, strict=False)):
        for seed, record in group.records.items():
            if record.curve is None:
                continue
            looks = [
                (e, 100 * v) for e, v in zip(record.curve.epochs, record.curve.validation, strict=True) if v is not None
            ]
            grey = f"{0.15 + 0.55 * (seed % 10) / 10:.2f}"
            axes.plot(*zip(*looks, strict=True), color=grey, linewidth=0.6)
            best = dict(looks).get(record.best_epoch)
            if best is not None:
                axes.plot([record.best_epoch], [best], "o", color="black", markersize=2.2)
            rows.append([f"{group.label}, seed {seed}", str(record.epochs), str(record.best_epoch), f"{best or 0:.2f}"])
        axes.set_title(plain_text("\n".join(_two_lines(group))), fontsize=6.5)
        if number % wide == 0:
            axes.set_ylabel(f"{short(_metric(group))} on validation (%)", fontsize=7)
        if number + wide >= len(groups):
            axes.set_xlabel("epoch", fontsize=7)
        tidy(axes)
        axes.tick_params(labelsize=6)
    caption = (
        f"{results.dataset.name}, validation, {results.seeds}. A line for each seed; dots: the epoch that was chosen."
    )
    columns = ["", "epochs", "best epoch", "best on validation (%)"]
    return Drawn("curves", to_svg(figure, "curves"), Grid("Training curves", caption, columns, plain(rows)))


def _two_lines(group: Group) -> list[str]:
    point = ", ".join(f"{key} {told(value)}" for key, value in group.point.items())
    return [f"{group.model}, {group.arm}", *([point] if point else [])]


def _metric(group: Group) -> str:
    return next(iter(group.records.values())).config.train.metric
