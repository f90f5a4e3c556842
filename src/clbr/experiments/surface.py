"""A figure of two settings that vary together: a map with its numbers written in."""

from collections.abc import Sequence
from typing import Any

from clbr.experiments.comparisons import Comparisons, explain_marks
from clbr.experiments.drawing import Drawn, in_order, new_figure, plain_text, to_svg
from clbr.experiments.grid import Grid, Text
from clbr.experiments.results import Group, Results, told
from clbr.experiments.tables import DASH, percent, short, standing


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
