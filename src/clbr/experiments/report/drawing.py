"""How figures of a report look: print, readable in grey, the same bytes every time."""

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
"""Of lines: grey, dash, marker. Told apart by the latter two."""
PANEL = (2.5, 1.95)
"""Inches; three panels fill a printed page's width."""
LOG_FROM = 20
"""Axes are logarithmic where values span more than this factor."""


@dataclass(frozen=True)
class Drawn:
    """A figure, and its numbers as a table."""

    name: str
    svg: str
    grid: Grid


def styles(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    """How the line of each label looks, the same in every panel."""
    names = list(dict.fromkeys(labels))
    looks = zip(names, STYLES * len(names), strict=False)
    return {name: {"color": grey, "linestyle": dash, "marker": marker} for name, (grey, dash, marker) in looks}


def with_bars(axes: Any, x: Sequence[float], means: Sequence[float], sds: Sequence[float | None], **style: Any) -> None:
    """A line in percent, with bars of a standard deviation where there is one."""
    y, bars = [100 * value for value in means], [100 * (sd or 0) for sd in sds]
    axes.errorbar(x, y, bars if any(bars) else None, markersize=3, linewidth=1.0, capsize=1.5, elinewidth=0.7, **style)


def new_figure(rows: int, columns: int, panel: tuple[float, float] = PANEL) -> Any:
    """An empty figure of so many panels; needs matplotlib."""
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    return Figure(figsize=(panel[0] * columns, panel[1] * rows + 0.35), layout="constrained")


def tidy(axes: Any) -> None:
    """Small type, no box, a faint grid."""
    axes.tick_params(labelsize=7, length=2.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.4)


def plain_text(text: str) -> str:
    """A name as it is: matplotlib would take dollars for mathematics."""
    return text.replace("$", r"\$")


def legend(figure: Any, axes: Sequence[Any]) -> None:
    """One legend above all panels, each entry once."""
    known: dict[str, Any] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            known.setdefault(label, handle)
    columns = min(len(known), 4)
    figure.legend(known.values(), known, loc="outside upper center", ncols=columns, frameon=False, fontsize=8)


def positions(values: Sequence[Any]) -> tuple[list[float], bool]:
    """Where values stand on an axis: as numbers, or one after another; and whether they are numbers."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return [float(value) for value in values], True
    return [float(index) for index in range(len(values))], False


def in_order(value: Any) -> tuple[bool, Any]:
    """Numbers by size, before everything else by name."""
    is_number = isinstance(value, int | float)
    return (not is_number, value if is_number else str(value))


def is_log(values: Sequence[float]) -> bool:
    """Whether an axis of these values is to be logarithmic."""
    return min(values) > 0 and max(values) / min(values) > LOG_FROM


def log_axis(axes: Any) -> None:
    """A logarithmic x axis with plain numbers, two to a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))


def dots(axes: Any, places: NDArray[np.floating], width: float) -> None:
    """Points as strokes without length, all in one path: a quarter of what a scatter of thousands takes as SVG."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    strokes = Path(np.repeat(places, 2, axis=0), np.tile([Path.MOVETO, Path.LINETO], len(places)))
    strokes.should_simplify = False  # or they are left out
    axes.add_patch(PathPatch(strokes, fill=False, edgecolor="#444444", linewidth=width, capstyle="round"))


def to_svg(figure: Any, name: str) -> str:
    """The figure as SVG without a date; its ids begin with its name, so that many can stand on one page."""
    import matplotlib

    out = StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", out.getvalue())
    # Strokes to a hundredth of a point.
    svg = re.sub(r"\b[ML] [-\d.]+ [-\d.]+", lambda line: re.sub(r"(\.\d\d)\d+", r"\1", line[0]), svg)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)
