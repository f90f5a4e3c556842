"""Drawing style of a report's figures: for print, readable in grey, with identical bytes for identical results."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clbr.errors import require
from clbr.experiments.report.grid import Grid

STYLES = (
    ("#111111", "-", "o"),
    ("#8a8a8a", "--", "s"),
    ("#555555", "-.", "^"),
    ("#b0b0b0", "-", "D"),
    ("#333333", (0, (1, 1)), "v"),
    ("#777777", (0, (5, 1)), "P"),
)
"""Grey, dashes and marker of each line. Dashes and markers are enough to distinguish the lines."""
PANEL = (2.5, 1.95)
"""Width and height in inches; three panels fill the width of a printed page."""
LOG_FROM = 20
"""An axis is logarithmic if the largest value is more than this many times the smallest."""


@dataclass(frozen=True)
class Drawn:
    """A figure as SVG, and its numbers as a table."""

    name: str
    svg: str
    grid: Grid


def line_styles(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the style of each label's line, the same in every panel."""
    names = list(dict.fromkeys(labels))
    styles = zip(names, STYLES * len(names), strict=False)
    return {name: {"color": grey, "linestyle": dash, "marker": marker} for name, (grey, dash, marker) in styles}


def draw_line(axes: Any, x: Sequence[float], means: Sequence[float], sds: Sequence[float | None], **style: Any) -> None:
    """Draw a line in percent, with error bars of the standard deviations that are not None."""
    y, bars = [100 * value for value in means], [100 * (sd or 0) for sd in sds]
    axes.errorbar(x, y, bars if any(bars) else None, markersize=3, linewidth=1.0, capsize=1.5, elinewidth=0.7, **style)


def new_figure(rows: int, columns: int, panel: tuple[float, float] = PANEL) -> Any:
    """Return an empty figure with room for so many panels. Needs matplotlib."""
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    return Figure(figsize=(panel[0] * columns, panel[1] * rows + 0.35), layout="constrained")


def set_style(axes: Any) -> None:
    """Set small labels, no frame and a light grid."""
    axes.tick_params(labelsize=7, length=2.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.4)


def plain_text(text: str) -> str:
    """Return a text with its dollars escaped, which matplotlib would read as mathematics."""
    return text.replace("$", r"\$")


LEGEND_WIDTH = 1.2
"""Inches of an entry in a legend."""


def add_legend(figure: Any, axes: Sequence[Any]) -> None:
    """Add one legend above all panels, with each entry once, in as many columns as the figure is wide enough for."""
    handles: dict[str, Any] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    columns = min(len(handles), 4, max(1, int(figure.get_figwidth() / LEGEND_WIDTH)))
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=columns, frameon=False, fontsize=8)


def positions(values: Sequence[Any]) -> tuple[list[float], bool]:
    """Return the positions of values on an axis (numbers as they are, else 0, 1, ...), and whether they are numbers."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return [float(value) for value in values], True
    return [float(index) for index in range(len(values))], False


def sort_key(value: Any) -> tuple[bool, Any]:
    """Return a key that sorts numbers by size, and everything else by name after them."""
    is_number = isinstance(value, int | float)
    return (not is_number, value if is_number else str(value))


def is_log(values: Sequence[float]) -> bool:
    """Return whether an axis with these values is logarithmic."""
    return min(values) > 0 and max(values) / min(values) > LOG_FROM


def set_log_axis(axes: Any) -> None:
    """Make the x axis logarithmic, with two plain numbers per decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))


def draw_points(axes: Any, points: NDArray[np.floating], width: float) -> None:
    """Draw points as strokes of length 0 in one path: a quarter of the SVG size of a scatter plot."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    strokes = Path(np.repeat(points, 2, axis=0), np.tile([Path.MOVETO, Path.LINETO], len(points)))
    strokes.should_simplify = False  # simplifying would remove them
    axes.add_patch(PathPatch(strokes, fill=False, edgecolor="#444444", linewidth=width, capstyle="round"))


def to_svg(figure: Any, name: str) -> str:
    """Return the figure as SVG without a date. Its ids start with its name, so that a page can hold several figures."""
    import matplotlib

    out = StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", out.getvalue())
    # Coordinates are cut to a hundredth of a point.
    svg = re.sub(r"\b[ML] [-\d.]+ [-\d.]+", lambda line: re.sub(r"(\.\d\d)\d+", r"\1", line[0]), svg)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)
