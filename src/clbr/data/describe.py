"""Statistics of a data set: counts, degrees, cold-start nodes, published counts, user segments, plots."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs
from clbr.data.sources import PARTIAL, PUBLISHED
from clbr.errors import InputError, require
from clbr.files import write_atomic

COUNTS = ("users", "bundles", "items", "user_bundle", "user_item", "bundle_item")


@dataclass(frozen=True)
class Degrees:
    """How many partners the nodes of one side have; nodes without any count as 0."""

    median: float
    p90: float
    max: int


@dataclass(frozen=True)
class RelationStatistics:
    """One relation: its pairs, the share of all possible pairs, and the degrees of its two sides."""

    pairs: int
    density: float
    left: Degrees
    right: Degrees


@dataclass(frozen=True)
class Comparison:
    """A data set beside the published counts of the same name."""

    source: str
    agrees: bool
    differences: dict[str, tuple[int, int]]
    note: str


@dataclass(frozen=True)
class Description:
    """The paper's Table 1 and more, for any data set."""

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
        """One of the six counts of Table 1."""
        return self.relations[what].pairs if what in self.relations else int(getattr(self, what))

    def to_json(self) -> str:
        """All of it on one line."""
        return json.dumps(asdict(self))


def describe(dataset: BundleDataset) -> Description:
    """Measure a data set."""
    relations = {name: _statistics(*sides) for name, sides in relation_sides(dataset).items()}
    train_user, train_bundle = (_degrees(dataset.train[:, side], n) for side, n in enumerate(_ub_sizes(dataset)))
    user_items = _degrees(dataset.ui[:, 0], len(dataset.users))
    bundle_items = _degrees(dataset.bi[:, 0], len(dataset.bundles))
    cold = {
        "users without a training bundle": train_user == 0,
        "users without an item": user_items == 0,
        "users without either": (train_user == 0) & (user_items == 0),
        "bundles without a training user": train_bundle == 0,
        "bundles without an item": bundle_items == 0,
    }
    description = Description(
        dataset.name,
        *_ub_sizes(dataset),
        len(dataset.items),
        relations,
        {"train": len(dataset.train), "validation": len(dataset.validation), "test": len(dataset.test)},
        {what: int(nodes.sum()) for what, nodes in cold.items()},
        dict(dataset.merged),
        None,
    )
    return Description(**{**vars(description), "published": compare(description)})


def compare(description: Description) -> Comparison | None:
    """The differences to the published counts, None if nothing is published under this name."""
    name = PARTIAL.get(description.name, description.name)
    if name not in PUBLISHED:
        return None
    published = PUBLISHED[name]
    pairs = {what: (description.count(what), int(getattr(published, what))) for what in COUNTS}
    differences = {what: both for what, both in pairs.items() if both[0] != both[1]}
    if description.name in PARTIAL:
        note = f"a part of {name}: its results are not comparable with published ones"
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


def relation_sides(dataset: BundleDataset) -> dict[str, tuple[Pairs, int, int]]:
    """Each relation with the sizes of its two sides; user-bundle with all its splits."""
    users, bundles = _ub_sizes(dataset)
    chosen = np.concatenate([dataset.train, dataset.validation, dataset.test])
    return {
        "user_bundle": (chosen, users, bundles),
        "user_item": (dataset.ui, users, len(dataset.items)),
        "bundle_item": (dataset.bi, bundles, len(dataset.items)),
    }


def _ub_sizes(dataset: BundleDataset) -> tuple[int, int]:
    return len(dataset.users), len(dataset.bundles)


def _degrees(ids: NDArray[np.int32], nodes: int) -> NDArray[np.int64]:
    return np.bincount(ids, minlength=nodes)


def _statistics(pairs: Pairs, lefts: int, rights: int) -> RelationStatistics:
    sides = []
    for side, nodes in enumerate((lefts, rights)):
        degrees = _degrees(pairs[:, side], nodes)
        median, p90 = np.quantile(degrees, [0.5, 0.9])
        sides.append(Degrees(float(median), float(p90), int(degrees.max())))
    return RelationStatistics(len(pairs), len(pairs) / (lefts * rights), *sides)


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
    write_atomic(path, picture.getvalue())


Segment = Literal["heavy", "light", "cold"]
SEGMENTS: tuple[Segment, ...] = ("heavy", "light", "cold")


def segment_users(chosen: Pairs, users: int) -> NDArray[np.int64]:
    """For each user the number of her segment in SEGMENTS.

    Cold ones have chosen no bundle, light ones at most as many as the median of those who have, heavy ones more.
    """
    degrees = np.bincount(chosen[:, 0], minlength=users)
    middle = np.median(degrees[degrees > 0]) if degrees.any() else 0
    return np.select([degrees == 0, degrees <= middle], [2, 1], 0)
