"""What the cells of a specification came to, put together: the seeds of one model, arm and point are a group."""

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
    """The cells that differ in their seed alone, and the records of those that were run."""

    model: str
    arm: str
    point: Point
    placed: tuple[VariantCell, ...]
    records: dict[int, Record]
    """Of the cells that are done, by seed."""
    failed: dict[int, str]
    """Why the others failed, by seed."""

    @property
    def share(self) -> float:
        """Of the training pairs."""
        return self.placed[0].cell.share

    @property
    def label(self) -> str:
        """In words."""
        return ", ".join([self.model, self.arm, *(f"{key} {told(value)}" for key, value in self.point.items())])

    def line(self, along: str) -> str:
        """In words, without the model, what a line is called that is drawn along one of the varied settings."""
        return ", ".join([self.arm, *(f"{key} {told(value)}" for key, value in self.point.items() if key != along)])

    def values(self, metric: str) -> list[float]:
        """Of each seed that is done, on test."""
        return [record.test[metric] for record in self.records.values()]

    def mean(self, metric: str) -> float:
        """Over seeds."""
        return mean(self.values(metric))

    def sd(self, metric: str) -> float | None:
        """Over seeds, of which it takes two."""
        return stdev(self.values(metric)) if len(self.records) > 1 else None


def told(value: object) -> str:
    """A varied value as people write it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


class Results:
    """All groups of a specification on a data set, in its order."""

    def __init__(self, spec: Spec, dataset: BundleDataset, placed: Sequence[VariantCell], store: Store) -> None:
        self.spec, self.dataset, self.store = spec, dataset, store
        self.groups = _groups(placed, store)
        self._kept: dict[str, PerUser] = {}
        if not self.done:
            failed = [why for group in self.groups for why in group.failed.values()]
            instance = f"; {len(failed)} failed, for instance: {failed[0]}" if failed else ""
            raise InputError(f"{store.folder}: nothing to report, none of the {len(placed)} cells is done{instance}")

    @cached_property
    def done(self) -> list[Group]:
        """The groups with a seed that is done."""
        return [group for group in self.groups if group.records]

    @property
    def records(self) -> dict[str, Record]:
        """Of every cell that is done, once, though it may stand at several points."""
        return {record.key: record for group in self.done for record in group.records.values()}

    @property
    def judges(self) -> dict[str, Record]:
        """Of the cells that judged pairs for these, and are not among them."""
        asked = [one.cell.judge for group in self.done for one in group.placed if one.cell.config.seed in group.records]
        shown, found = self.records, (self.store.read(cell) for cell in asked if cell)
        return {record.key: record for record in found if record and record.key not in shown}

    def base(self, group: Group) -> Group | None:
        """What a group is tested against: the base arm of its model at the same point, or at its only one."""
        if group.arm == self.spec.base:
            return None
        mine = {SHARE: group.share} | group.point
        agree = [
            other
            for other in self.done
            if (other.model, other.arm) == (group.model, self.spec.base)
            and all(key in mine and mine[key] == value for key, value in other.point.items())
        ]
        return max(agree, key=lambda other: len(other.point), default=None)

    def per_user(self, group: Group, seed: int) -> PerUser:
        """A cell's test; read once."""
        cell = next(one.cell for one in group.placed if one.cell.config.seed == seed)
        if cell.key not in self._kept:
            kept = self.store.per_user(cell)
            users, pairs = len(np.unique(self.dataset.test[:, 0])), len(self.dataset.test)
            if len(kept.found) < pairs or any(len(values) != users for values in kept.metrics.values()):
                raise InputError(f"{cell.key}.npz: is not of these users; delete {cell.key}.json to run the cell again")
            # Bits are kept by the byte: the last one may be padded.
            self._kept[cell.key] = PerUser(kept.metrics, kept.found[:pairs])
        return self._kept[cell.key]

    @property
    def seeds(self) -> str:
        """How many seeds stand behind a figure, in words."""
        counts = [len(group.records) for group in self.done]
        most = f"{max(counts)} seed{'s' if max(counts) > 1 else ''}"
        return most if min(counts) == max(counts) else f"{min(counts)} to {most}"


def common_seeds(one: Group, other: Group) -> list[int]:
    """The seeds that both have done."""
    return sorted(set(one.records) & set(other.records))


def _groups(placed: Sequence[VariantCell], store: Store) -> list[Group]:
    together: dict[tuple[str, str, str], list[VariantCell]] = {}
    for one in placed:
        together.setdefault((one.model, one.arm, repr(one.point)), []).append(one)
    groups = []
    for same in together.values():
        records, failed = {}, {}
        for one in same:
            record = store.read(one.cell)
            if record and record.state == "done":
                records[one.cell.config.seed] = record
            elif record:
                failed[one.cell.config.seed] = record.error
        first = same[0]
        groups.append(Group(first.model, first.arm, first.point, tuple(same), records, failed))
    return groups
