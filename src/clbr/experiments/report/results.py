"""Results of a specification: its cells in groups. A group is the seeds of one model, variant and point."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean, stdev

import numpy as np

from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.experiments.cells import VariantCell
from clbr.experiments.spec import SHARE, Point, Spec
from clbr.experiments.store import PerUser, Record, Store


@dataclass(frozen=True)
class Group:
    """The cells that differ in their seed only, and the records of those that were run."""

    model: str
    variant: str
    point: Point
    cells: tuple[VariantCell, ...]
    records: dict[int, Record]
    """The records of the cells that are done, by seed."""
    failed: dict[int, str]
    """The errors of the failed cells, by seed."""

    @property
    def share(self) -> float:
        """The share of the training pairs."""
        return self.cells[0].cell.share

    @property
    def label(self) -> str:
        """Model, variant and point, as text."""
        return ", ".join([self.model, self.variant, *_point_parts(self.point)])

    def line_label(self, along: str) -> str:
        """Label of the group's line in a figure along a varied setting: without the model and this setting."""
        return ", ".join([self.variant, *_point_parts({k: v for k, v in self.point.items() if k != along})])

    @property
    def panel_title(self) -> str:
        """Title of the group's panel in a figure: the point on a second line."""
        point = ", ".join(_point_parts(self.point))
        return f"{self.model}, {self.variant}" + (f"\n{point}" if point else "")

    def values(self, metric: str) -> list[float]:
        """The metric on test, for each seed that is done."""
        return [record.test[metric] for record in self.records.values()]

    def mean(self, metric: str) -> float:
        """Mean of the metric over seeds."""
        return mean(self.values(metric))

    def sd(self, metric: str) -> float | None:
        """Standard deviation of the metric over seeds; None with one seed."""
        return stdev(self.values(metric)) if len(self.records) > 1 else None


def _point_parts(point: Point) -> list[str]:
    return [f"{key} {format_value(value)}" for key, value in point.items()]


def format_value(value: object) -> str:
    """Return a varied value as text: a float without trailing zeros."""
    return f"{value:g}" if isinstance(value, float) else str(value)


class Results:
    """All groups of a specification on a data set, in the order of the specification.

    Raises `InputError` if no cell is done.
    """

    def __init__(self, spec: Spec, dataset: BundleDataset, cells: Sequence[VariantCell], store: Store) -> None:
        self.spec, self.dataset, self.store = spec, dataset, store
        self.groups = _make_groups(cells, store)
        self._per_user: dict[str, PerUser] = {}
        if not self.done:
            errors = [error for group in self.groups for error in group.failed.values()]
            example = f"; {len(errors)} failed, for example: {errors[0]}" if errors else ""
            raise InputError(f"{store.folder}: nothing to report, none of the {len(cells)} cells is done{example}")

    @cached_property
    def done(self) -> list[Group]:
        """The groups with at least one seed that is done."""
        return [group for group in self.groups if group.records]

    @property
    def records(self) -> dict[str, Record]:
        """The records of all cells that are done, by key. A cell that is in several groups is listed once."""
        return {record.key: record for group in self.done for record in group.records.values()}

    @property
    def selection_records(self) -> dict[str, Record]:
        """The records of the selection models that these cells used and that are in no group, by key."""
        cells = [
            one.cell.selection_cell
            for group in self.done
            for one in group.cells
            if one.cell.config.seed in group.records
        ]
        shown, found = self.records, (self.store.read(cell) for cell in cells if cell)
        return {record.key: record for record in found if record and record.key not in shown}

    def reference(self, group: Group) -> Group | None:
        """The group that a group is tested against: the reference variant, at the same point.

        It is of the same model, or of the specification's reference model. A reference variant in which nothing varies
        has one group for all points.
        """
        reference = (self.spec.reference_model or group.model, self.spec.reference_variant)
        if (group.model, group.variant) == reference:
            return None
        point = {SHARE: group.share} | group.point
        matching = [
            other
            for other in self.done
            if (other.model, other.variant) == reference
            and all(key in point and point[key] == value for key, value in other.point.items())
        ]
        return max(matching, key=lambda other: len(other.point), default=None)

    def per_user(self, group: Group, seed: int) -> PerUser:
        """The results on test of one cell, by user and by pair; read from disk once."""
        cell = next(one.cell for one in group.cells if one.cell.config.seed == seed)
        if cell.key not in self._per_user:
            stored = self.store.read_per_user(cell)
            users, pairs = len(np.unique(self.dataset.test[:, 0])), len(self.dataset.test)
            if len(stored.found) < pairs or any(len(values) != users for values in stored.metrics.values()):
                raise InputError(
                    f"{cell.key}.npz: has the results of other users; delete {cell.key}.json to run the cell again"
                )
            # The bits are stored in whole bytes: the last byte may be padded.
            self._per_user[cell.key] = PerUser(stored.metrics, stored.found[:pairs])
        return self._per_user[cell.key]

    @property
    def seeds(self) -> str:
        """The number of seeds per group, as text."""
        counts = [len(group.records) for group in self.done]
        most = f"{max(counts)} seed{'s' if max(counts) > 1 else ''}"
        return most if min(counts) == max(counts) else f"{min(counts)} to {most}"


def common_seeds(one: Group, other: Group) -> list[int]:
    """Return the seeds that are done in both groups."""
    return sorted(set(one.records) & set(other.records))


def _make_groups(cells: Sequence[VariantCell], store: Store) -> list[Group]:
    by_group: dict[tuple[str, str, str], list[VariantCell]] = {}
    for one in cells:
        by_group.setdefault((one.model, one.variant, repr(one.point)), []).append(one)
    groups = []
    for members in by_group.values():
        records, failed = {}, {}
        for one in members:
            record = store.read(one.cell)
            if record and record.state == "done":
                records[one.cell.config.seed] = record
            elif record:
                failed[one.cell.config.seed] = record.error
        first = members[0]
        groups.append(Group(first.model, first.variant, first.point, tuple(members), records, failed))
    return groups
