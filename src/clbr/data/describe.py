"""Statistics of a data set: counts, degrees, cold-start nodes, published counts, user segments, degree plots."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs
from clbr.data.sources import PARTIAL, PUBLISHED
from clbr.errors import InputError, require
from clbr.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COUNTS = ("users", "bundles", "items", "user_bundle", "user_item", "bundle_item")
"""The counts of the paper's Table 1: nodes, then pairs."""
Segment = Literal["heavy", "light", "cold"]
SEGMENTS: tuple[Segment, ...] = ("heavy", "light", "cold")
FORMATS = (".png", ".svg", ".pdf")
STYLES = (("#1b4f72", "-"), ("#c0561a", "--"), ("#2e7d4f", "-."), ("#7d3c98", ":"))
"""Colour and line of each curve in a plot."""
SIDES = (
    ("user_bundle", 0, "bundles of a user", "users"),
    ("user_bundle", 1, "users of a bundle", "bundles"),
    ("user_item", 0, "items of a user", "users"),
    ("user_item", 1, "users of an item", "items"),
    ("bundle_item", 0, "items of a bundle", "bundles"),
    ("bundle_item", 1, "bundles of an item", "items"),
)
"""The six degree plots: relation, side, label of the degree, label of the nodes."""


@dataclass(frozen=True)
class Degrees:
    """Degrees of the nodes on one side of a relation, nodes of degree 0 included."""

    median: float
    p90: float
    max: int


@dataclass(frozen=True)
class RelationStatistics:
    """One relation: the number of pairs, its density, and the degrees of both sides."""

    pairs: int
    density: float
    left: Degrees
    right: Degrees


@dataclass(frozen=True)
class Comparison:
    """The counts of a data set beside the published ones."""

    source: str
    agrees: bool
    differences: dict[str, tuple[int, int]]
    """Counts that differ: the one found and the published one."""
    note: str


@dataclass(frozen=True)
class Description:
    """Statistics of a data set, the counts of the paper's Table 1 among them."""

    name: str
    users: int
    bundles: int
    items: int
    relations: dict[str, RelationStatistics]
    split: dict[str, int]
    cold: dict[str, int]
    merged: dict[str, int]
    published: Comparison | None

    def count(self, what: str) -> int:
        """One of the counts in `COUNTS`."""
        return self.relations[what].pairs if what in self.relations else int(getattr(self, what))

    def to_json(self) -> str:
        """All statistics as one line of JSON."""
        return json.dumps(asdict(self))


def describe(dataset: BundleDataset) -> Description:
    """Compute the statistics of a data set."""
    relations = {name: _statistics(*sides) for name, sides in relation_sides(dataset).items()}
    sizes = {"users": len(dataset.users), "bundles": len(dataset.bundles), "items": len(dataset.items)}
    counts = sizes | {name: relation.pairs for name, relation in relations.items()}
    return Description(
        dataset.name,
        **sizes,
        relations=relations,
        split={"train": len(dataset.train), "validation": len(dataset.validation), "test": len(dataset.test)},
        cold=_count_cold(dataset),
        merged=dict(dataset.merged),
        published=_compare(dataset.name, counts),
    )


def relation_sides(dataset: BundleDataset) -> dict[str, tuple[Pairs, int, int]]:
    """The pairs of each relation and the sizes of its two sides; user-bundle includes all splits."""
    users, bundles, items = len(dataset.users), len(dataset.bundles), len(dataset.items)
    chosen = np.concatenate([dataset.train, dataset.validation, dataset.test])
    return {
        "user_bundle": (chosen, users, bundles),
        "user_item": (dataset.ui, users, items),
        "bundle_item": (dataset.bi, bundles, items),
    }


def _statistics(pairs: Pairs, lefts: int, rights: int) -> RelationStatistics:
    sides = []
    for side, nodes in enumerate((lefts, rights)):
        degrees = np.bincount(pairs[:, side], minlength=nodes)
        median, p90 = np.quantile(degrees, [0.5, 0.9])
        sides.append(Degrees(float(median), float(p90), int(degrees.max())))
    return RelationStatistics(len(pairs), len(pairs) / (lefts * rights), *sides)


def _count_cold(dataset: BundleDataset) -> dict[str, int]:
    """How many users and bundles have no edge in training, by relation."""
    users, bundles = len(dataset.users), len(dataset.bundles)
    without_bundle = np.bincount(dataset.train[:, 0], minlength=users) == 0
    without_item = np.bincount(dataset.ui[:, 0], minlength=users) == 0
    cold = {
        "users without a training bundle": without_bundle,
        "users without an item": without_item,
        "users without either": without_bundle & without_item,
        "bundles without a training user": np.bincount(dataset.train[:, 1], minlength=bundles) == 0,
        "bundles without an item": np.bincount(dataset.bi[:, 0], minlength=bundles) == 0,
    }
    return {what: int(nodes.sum()) for what, nodes in cold.items()}


def _compare(name: str, counts: dict[str, int]) -> Comparison | None:
    """The differences to the published counts; None if none are published under this name."""
    original = PARTIAL.get(name, name)
    if original not in PUBLISHED:
        return None
    published = PUBLISHED[original]
    both = {what: (counts[what], int(getattr(published, what))) for what in COUNTS}
    differences = {what: (found, stated) for what, (found, stated) in both.items() if found != stated}
    if name in PARTIAL:
        note = f"a part of {original}: its results are not comparable with published ones"
    elif not differences:
        note = "all counts agree"
    elif all(0 < found < stated for found, stated in differences.values()) and not set(differences) & set(COUNTS[:3]):
        note = (
            "fewer pairs than published: a pair counts once here, while published counts include repeated "
            "ones; the public files of Youshu and NetEase are known to hold fewer distinct user-bundle pairs"
        )
    else:
        note = "not the published data set, or not all of it: results are not comparable with published ones"
    return Comparison(published.source, not differences, differences, note)


def segment_users(chosen: Pairs, users: int) -> NDArray[np.int64]:
    """For each user the position of the segment in SEGMENTS.

    A cold user has no bundle. A light user has at most the median number of bundles of the users who have some, a
    heavy user has more.
    """
    degrees = np.bincount(chosen[:, 0], minlength=users)
    middle = np.median(degrees[degrees > 0]) if degrees.any() else 0
    return np.select([degrees == 0, degrees <= middle], [2, 1], 0)


def plot_degrees(datasets: Sequence[BundleDataset], path: Path) -> None:
    """Plot the degree distributions of each relation: the share of nodes with at least a given degree."""
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: expected a name that ends in {', '.join(FORMATS)}", "plot")
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.6), layout="constrained")
    relations = [relation_sides(dataset) for dataset in datasets]
    for axes, (relation, side, unit, nodes) in zip(figure.subplots(2, 3).T.flat, SIDES, strict=True):
        for (colour, line), dataset, sides in zip(STYLES * len(datasets), datasets, relations, strict=False):
            pairs, *sizes = sides[relation]
            degrees = np.bincount(pairs[:, side], minlength=sizes[side])
            at_least = np.cumsum(np.bincount(degrees)[::-1])[::-1] / sizes[side]
            label = dataset.name.replace("$", r"\$")
            axes.step(range(1, len(at_least)), at_least[1:], line, where="pre", color=colour, label=label)
        _style_axes(axes, f"{unit}, at least", f"share of {nodes}")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=9)
    picture = BytesIO()
    figure.savefig(picture, format=path.suffix[1:], dpi=150)
    write_atomic(path, picture.getvalue())


def _style_axes(axes: "Axes", x_label: str, y_label: str) -> None:
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel(x_label, fontsize=9)
    axes.set_ylabel(y_label, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_formatter(lambda value, position: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, position: f"{100 * value:g} %")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.5)
