"""Figures of a report: a metric along varied settings, surfaces of two settings, training curves."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from clbr.experiments.report.comparisons import Comparisons, explain_marks
from clbr.experiments.report.drawing import (
    Drawn,
    add_legend,
    draw_line,
    is_log,
    line_styles,
    new_figure,
    plain_text,
    positions,
    set_log_axis,
    set_style,
    sort_key,
    to_svg,
)
from clbr.experiments.report.grid import Grid, Text, plain_rows
from clbr.experiments.report.results import Group, Results, format_value
from clbr.experiments.report.tables import DASH, by_group, describe_test, error_bars, percent, short

LINE_PANELS = 3
"""Panels in a row of the lines figure, at most."""
CURVE_PANELS = 4
"""Panels in a row of the training curves, at most."""


def lines(results: Results) -> Drawn | None:
    """Draw a metric along each varied setting; a panel for each model, metric and setting, the reference dotted."""
    keys: dict[str, list[str]] = {}
    for model, key in dict.fromkeys((group.model, next(iter(group.point))) for group in results.done if group.point):
        keys.setdefault(model, []).append(key)
    if not keys:
        return None
    spec, most = results.spec, max(map(len, keys.values()))
    columns = min(LINE_PANELS, most)
    blocks, rows = list(product(keys, spec.metrics)), -(-most // columns)
    figure = new_figure(rows * len(blocks), columns)
    panels = figure.subplots(rows * len(blocks), columns, squeeze=False, sharey=False)
    for axes in panels.flat:
        axes.set_visible(False)
    drawn = []
    styles = line_styles(group.line_label(next(iter(group.point))) for group in results.done if group.point)
    for (model, metric), block in zip(blocks, panels.reshape(len(blocks), -1), strict=True):
        used = block[: len(keys[model])]
        groups = [group for group in results.done if group.model == model]
        for axes, key in zip(used, keys[model], strict=True):
            _line_panel(axes, groups, spec.reference_variant, key, metric, styles)
        for axes in used[::columns]:
            axes.set_ylabel(plain_text(f"{model}, {short(metric)} (%)"), fontsize=8)
        _share_y_range(used, columns)
        drawn.extend(used)
    figure.align_ylabels()
    add_legend(figure, drawn)
    caption = f"{describe_test(results)}.{error_bars(results.done)} Dotted: {spec.reference_variant}."
    grid = by_group(f"{spec.title}: varied settings", caption, results.done, spec.metrics)
    return Drawn("lines", to_svg(figure, "lines"), grid)


def _line_panel(
    axes: Any, groups: Sequence[Group], reference: str, key: str, metric: str, styles: dict[str, dict[str, Any]]
) -> None:
    """Draw the lines of one model along one setting."""
    axes.set_visible(True)
    series: dict[str, list[Group]] = {}
    for group in groups:
        if group.point and next(iter(group.point)) == key:
            series.setdefault(group.line_label(key), []).append(group)
    values = sorted({group.point[key] for members in series.values() for group in members}, key=sort_key)
    at, are_numbers = positions(values)
    for label, members in series.items():
        members.sort(key=lambda group: sort_key(group.point[key]))
        x = [at[values.index(group.point[key])] for group in members]
        means, sds = [group.mean(metric) for group in members], [group.sd(metric) for group in members]
        draw_line(axes, x, means, sds, label=plain_text(label), **styles[label])
    for group in groups:
        if group.variant == reference and not group.point:
            dotted = {"color": "black", "linestyle": ":", "linewidth": 1.2}
            axes.axhline(100 * group.mean(metric), label=plain_text(reference), **dotted)
    if are_numbers and is_log(at):
        set_log_axis(axes)
    elif not are_numbers:
        axes.set_xticks(at, [plain_text(str(value)) for value in values])
    axes.set_xlabel(plain_text(key.replace("+", " and ")), fontsize=8)
    set_style(axes)


def _share_y_range(panels: Sequence[Any], columns: int) -> None:
    """Give the panels of one metric the same y range, with numbers on the first panel of each row only."""
    low, high = min(axes.get_ylim()[0] for axes in panels), max(axes.get_ylim()[1] for axes in panels)
    for index, axes in enumerate(panels):
        axes.set_ylim(low, high)
        axes.tick_params(labelleft=index % columns == 0)


def surface(results: Results, comparisons: Comparisons) -> Drawn | None:
    """Draw heat maps of two varied settings, with their numbers; a map for each model, variant and metric."""
    series: dict[tuple[str, str, tuple[str, ...]], list[int]] = {}
    for number, group in enumerate(results.groups):
        if len(group.point) == 2:
            series.setdefault((group.model, group.variant, tuple(group.point)), []).append(number)
    series = {key: numbers for key, numbers in series.items() if any(results.groups[n].records for n in numbers)}
    if not series:
        return None
    spec = results.spec
    figure = new_figure(len(series), len(spec.metrics), (3.6, 3.0))
    panels = figure.subplots(len(series), len(spec.metrics), squeeze=False)
    for row, ((model, variant, keys), numbers) in zip(panels, series.items(), strict=True):
        for axes, metric in zip(row, spec.metrics, strict=True):
            groups = [results.groups[number] for number in numbers]
            compared = [comparisons.get((number, metric)) for number in numbers]
            bold = [one is not None and one.is_significant for one in compared]
            _heat_map(axes, groups, bold, metric, keys)
            axes.set_title(plain_text(f"{model}, {variant}: {short(metric)} (%)"), fontsize=8)
    grid = _surface_grid(results, [number for numbers in series.values() for number in numbers], comparisons)
    return Drawn("surface", to_svg(figure, "surface"), grid)


def _heat_map(axes: Any, groups: Sequence[Group], bold: Sequence[bool], metric: str, keys: Sequence[str]) -> None:
    """Draw one heat map; missing values have a dash, the highest value has a frame."""
    down, along = keys
    ys = sorted({group.point[down] for group in groups}, key=sort_key)
    xs = sorted({group.point[along] for group in groups}, key=sort_key)
    table = [[float("nan")] * len(xs) for _ in ys]
    for group in groups:
        if group.records:
            table[ys.index(group.point[down])][xs.index(group.point[along])] = 100 * group.mean(metric)
    measured = [value for row in table for value in row if value == value]
    low, high = min(measured), max(measured)
    spread = (high - low) or 1.0
    # Without the lightest and darkest greys no field looks empty, and black numbers are readable everywhere.
    axes.imshow(table, cmap="Greys", vmin=low - 0.25 * spread, vmax=high + spread, origin="lower", aspect="auto")
    for group, is_bold in zip(groups, bold, strict=True):
        x, y = xs.index(group.point[along]), ys.index(group.point[down])
        value = table[y][x]
        text = f"{value:.2f}" if value == value else DASH
        axes.text(x, y, text, ha="center", va="center", fontsize=7.5, fontweight="bold" if is_bold else "normal")
        if value == high:
            frame = {"fill": False, "edgecolor": "black", "linewidth": 1.4}
            axes.add_patch(_rectangle(x - 0.47, y - 0.47, 0.94, 0.94, frame))
    axes.set_xticks(range(len(xs)), [plain_text(format_value(value)) for value in xs])
    axes.set_yticks(range(len(ys)), [plain_text(format_value(value)) for value in ys])
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
            cells.append(Text(text, bool(one and one.is_significant)))
        rows.append([Text(group.label), Text(str(len(group.records))), *cells])
    references = [group for group in results.done if group.variant == spec.reference_variant]
    reference_values = "; ".join(
        f"{group.label}: " + ", ".join(f"{short(metric)} {percent(group.mean(metric))}" for metric in spec.metrics)
        for group in references
    )
    marks = explain_marks(comparisons, spec.reference_label, "Bold")
    caption = f"{describe_test(results)}. Framed: the highest value. {reference_values}. {marks}".strip()
    columns = ["", "seeds", *(f"{short(metric)} (%)" for metric in spec.metrics)]
    return Grid(f"{spec.title}: two varied settings", caption, columns, rows)


def curves(results: Results) -> Drawn | None:
    """Draw the metric that selects the epoch, by epoch; a panel for each group, a line for each seed."""
    groups = [group for group in results.done if any(record.curve for record in group.records.values())]
    if not groups:
        return None
    columns = min(CURVE_PANELS, len(groups))
    rows = -(-len(groups) // columns)
    figure = new_figure(rows, columns, (1.9, 1.5))
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels[len(groups) :]:
        axes.set_visible(False)
    numbers = []
    for index, (axes, group) in enumerate(zip(panels, groups, strict=False)):
        numbers += _curve_panel(axes, group)
        if index % columns == 0:
            axes.set_ylabel(f"{short(_selection_metric(group))} on validation (%)", fontsize=7)
        if index + columns >= len(groups):
            axes.set_xlabel("epoch", fontsize=7)
    setup = f"{results.dataset.name}, validation, {results.seeds}"
    caption = f"{setup}. A line for each seed; dots: the selected epoch."
    headers = ["", "epochs", "best epoch", "best on validation (%)"]
    return Drawn("curves", to_svg(figure, "curves"), Grid("Training curves", caption, headers, plain_rows(numbers)))


def _curve_panel(axes: Any, group: Group) -> list[list[str]]:
    """Draw the curves of a group; return a row of the figure's table for each seed."""
    rows = []
    for seed, record in group.records.items():
        if record.curve is None:
            continue
        epochs = zip(record.curve.epochs, record.curve.validation, strict=True)
        curve = [(epoch, 100 * value) for epoch, value in epochs if value is not None]
        grey = f"{0.15 + 0.55 * (seed % 10) / 10:.2f}"
        axes.plot(*zip(*curve, strict=True), color=grey, linewidth=0.6)
        best = dict(curve).get(record.best_epoch)
        if best is not None:
            axes.plot([record.best_epoch], [best], "o", color="black", markersize=2.2)
        rows.append([f"{group.label}, seed {seed}", str(record.epochs), str(record.best_epoch), f"{best or 0:.2f}"])
    axes.set_title(plain_text(group.panel_title), fontsize=6.5)
    set_style(axes)
    axes.tick_params(labelsize=6)
    return rows


def _selection_metric(group: Group) -> str:
    return next(iter(group.records.values())).config.train.metric
