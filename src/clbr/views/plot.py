"""A picture of the curves that the paper's lemmas speak of."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from math import nan
from pathlib import Path

from clbr.data.plot import FORMATS, STYLES
from clbr.errors import InputError, require
from clbr.files import write_whole

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
        axes.axvline(best_epoch, color="0.75", linewidth=0.8, zorder=0, label="best epoch on tune")
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
    write_whole(path, picture.getvalue())
