"""A picture of the degree distributions of one data set, or of several beside each other."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np

from clbr.data.dataset import BundleDataset
from clbr.data.describe import relation_sides
from clbr.errors import InputError, require
from clbr.files import write_whole

FORMATS = (".png", ".svg", ".pdf")
STYLES = (("#1b4f72", "-"), ("#c0561a", "--"), ("#2e7d4f", "-."), ("#7d3c98", ":"))
SIDES = (
    ("user_bundle", 0, "bundles of a user", "users"),
    ("user_bundle", 1, "users of a bundle", "bundles"),
    ("user_item", 0, "items of a user", "users"),
    ("user_item", 1, "users of an item", "items"),
    ("bundle_item", 0, "items of a bundle", "bundles"),
    ("bundle_item", 1, "bundles of an item", "items"),
)


def plot_degrees(datasets: Sequence[BundleDataset], path: Path) -> None:
    """Draw, for each side of each relation, the share of nodes with at least so many partners."""
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: expected a name that ends in {', '.join(FORMATS)}")
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.6), layout="constrained")
    relations = [relation_sides(dataset) for dataset in datasets]
    for axes, (relation, side, unit, nodes) in zip(figure.subplots(2, 3).T.flat, SIDES, strict=True):
        for (colour, line), dataset, sides in zip(STYLES * len(datasets), datasets, relations, strict=False):
            pairs, *sizes = sides[relation]
            degrees = np.bincount(pairs[:, side], minlength=sizes[side])
            at_least = np.cumsum(np.bincount(degrees)[::-1])[::-1] / sizes[side]
            axes.step(
                range(1, len(at_least)),
                at_least[1:],
                line,
                where="pre",
                color=colour,
                label=dataset.name.replace("$", r"\$"),
            )
        axes.set(xscale="log", yscale="log")
        axes.set_xlabel(f"{unit}, at least", fontsize=9)
        axes.set_ylabel(f"share of {nodes}", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_major_formatter(lambda value, position: f"{value:,.0f}")
        axes.yaxis.set_major_formatter(lambda value, position: f"{100 * value:g} %")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.5)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=9)
    picture = BytesIO()
    figure.savefig(picture, format=path.suffix[1:], dpi=150)
    write_whole(path, picture.getvalue())
