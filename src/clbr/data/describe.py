"""Statistics of a data set: counts, degrees, cold-start nodes, warnings, published counts, user segments, plots."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from clbr.data.checks import Finding, HeldOut, check, measure_held_out
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
HELD_OUT = {
    "covered_share": "user has every item of the bundle",
    "first_share": "bundle in the first 20 by the user's items",
    "chance_share": "  the same by chance",
    "unseen_bundles_share": "bundle not in train",
    "unseen_users_share": "user not in train",
}
"""The shares of held-out pairs that are shown, and their labels."""


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
    held_out: HeldOut
    warnings: tuple[Finding, ...]
    """What is probably wrong with the data set."""
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
    held_out = measure_held_out(dataset)
    return Description(
        dataset.name,
        **sizes,
        relations=relations,
        split={"train": len(dataset.train), "validation": len(dataset.validation), "test": len(dataset.test)},
        cold=_count_cold(dataset),
        merged=dict(dataset.merged),
        held_out=held_out,
        warnings=check(dataset, held_out),
        published=compare_published(dataset),
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


def compare_published(dataset: BundleDataset) -> Comparison | None:
    """The differences to the published counts; None if none are published under this name."""
    name = dataset.name
    original = PARTIAL.get(name, name)
    if original not in PUBLISHED:
        return None
    published = PUBLISHED[original]
    counts = {"users": len(dataset.users), "bundles": len(dataset.bundles), "items": len(dataset.items)}
    counts |= {relation: len(pairs) for relation, (pairs, *_) in relation_sides(dataset).items()}
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


def plot(datasets: Sequence[BundleDataset], descriptions: Sequence[Description], path: Path) -> None:
    """Plot degree distributions (the share of nodes with at least a given degree) and shares of held-out pairs."""
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: expected a name that ends in {', '.join(FORMATS)}", "plot")
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    bars_height = 0.9 + 0.6 * len(datasets)
    figure = Figure(figsize=(10, 5.6 + bars_height), layout="constrained")
    upper, lower = cast(Any, figure.subfigures(2, 1, height_ratios=(5.6, bars_height)))
    relations = [relation_sides(dataset) for dataset in datasets]
    for axes, (relation, side, unit, nodes) in zip(upper.subplots(2, 3).T.flat, SIDES, strict=True):
        for (colour, line), found, sides in zip(STYLES * len(datasets), descriptions, relations, strict=False):
            pairs, *sizes = sides[relation]
            degrees = np.bincount(pairs[:, side], minlength=sizes[side])
            at_least = np.cumsum(np.bincount(degrees)[::-1])[::-1] / sizes[side]
            axes.step(range(1, len(at_least)), at_least[1:], line, where="pre", color=colour, label=_label(found))
        _style_axes(axes, f"{unit}, at least", f"share of {nodes}")
    _plot_held_out(lower.subplots(), descriptions)
    handles, labels = upper.axes[0].get_legend_handles_labels()
    upper.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=9)
    picture = BytesIO()
    figure.savefig(picture, format=path.suffix[1:], dpi=150)
    write_atomic(path, picture.getvalue())


def _label(description: Description) -> str:
    """The name of a data set and the number of its warnings, for a legend."""
    count = len(description.warnings)
    warned = f" ({count} warning{'s' * (count > 1)})" if count else ""
    return description.name.replace("$", r"\$") + warned


def _plot_held_out(axes: "Axes", descriptions: Sequence[Description]) -> None:
    """Bars of the shares in `HELD_OUT`, one group for each share."""
    height = 0.8 / len(descriptions)
    for number, ((colour, _), found) in enumerate(zip(STYLES * len(descriptions), descriptions, strict=False)):
        rows = np.arange(len(HELD_OUT)) + (number - (len(descriptions) - 1) / 2) * height
        shares = [getattr(found.held_out, share) for share in HELD_OUT]
        bars = axes.barh(rows, shares, height * 0.9, color=colour)
        axes.bar_label(bars, [f"{share:.1%}" for share in shares], padding=3, fontsize=7)
    axes.set_yticks(range(len(HELD_OUT)), HELD_OUT.values(), fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.06)
    axes.xaxis.set_major_formatter(lambda value, position: f"{value:.0%}")
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel("share of validation and test pairs", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _style_axes(axes: "Axes", x_label: str, y_label: str) -> None:
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel(x_label, fontsize=9)
    axes.set_ylabel(y_label, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_formatter(lambda value, position: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, position: f"{100 * value:g} %")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.5)
