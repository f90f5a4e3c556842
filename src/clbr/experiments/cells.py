"""Cells: what a specification comes to, one training each. Equal cells of different specifications are one."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from clbr.config import nearest
from clbr.errors import InputError, found_in
from clbr.experiments.spec import SHARE, Point, Spec
from clbr.models.registry import find_model
from clbr.training.config import RunConfig, compose
from clbr.training.presets import data_preset


@dataclass(frozen=True)
class Cell:
    """One training: settings and seed on a share of the training pairs of a data set."""

    config: RunConfig
    share: float
    fingerprint: str

    @cached_property
    def key(self) -> str:
        """A name that tells it from every other cell, and is the same wherever it stands.

        Made of what is not as by default: a setting that the package learns later does not rename old cells.
        """
        config = self.config
        told: dict[str, Any] = config.model_dump(mode="json", exclude={"data", "settings"}, exclude_defaults=True)
        settings = find_model(config.model).settings.make(config.settings)
        told |= {"settings": settings.model_dump(mode="json", exclude_defaults=True)}
        told |= {"share": self.share, "fingerprint": self.fingerprint}
        known = sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
        return f"{self.config.model}-{self.config.paradigm}-{self.config.seed}-{known[:12]}"

    @property
    def judge(self) -> "Cell | None":
        """The cell of the original way that judges this one's pairs, if any does."""
        views = self.config.views
        if views is None or not views.within(find_model(self.config.model).relations).needs_selection:
            return None
        plain = self.config.model_copy(update={"paradigm": "original", "views": None})
        return Cell(plain, self.share, self.fingerprint)


@dataclass(frozen=True)
class VariantCell:
    """A cell at its place in a specification."""

    cell: Cell
    arm: str
    point: Point

    @property
    def model(self) -> str:
        """The model's name."""
        return self.cell.config.model


def expand(spec: Spec, data: str, fingerprint: str, name: str) -> list[VariantCell]:
    """Every cell of a specification on a data set, seed by seed: the first seeds of all come first."""
    placed = []
    for seed in range(spec.seeds):
        for model in spec.models:
            preset = spec.preset or data_preset(model, name)
            for arm_name, arm in spec.arms.items():
                if model not in (arm.models or spec.models):
                    continue
                for point in arm.points():
                    changes = arm.settings | _spread(point)
                    share = changes.pop(SHARE, 1.0)
                    with found_in(f"arm {arm_name}"):
                        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
                            raise InputError(f"share {share}: expected a number above 0, 1 at most")
                        config = compose(data, model, preset=preset, changes=changes, seed=seed, paradigm=arm.paradigm)
                    placed.append(VariantCell(Cell(config, float(share), fingerprint), arm_name, point))
    return placed


def _spread(point: Point) -> dict[str, Any]:
    """A key of a point may name several settings: a+b."""
    return {key: value for keys, value in point.items() for key in keys.split("+")}


def select(
    placed: Sequence[VariantCell], models: Sequence[str], arms: Sequence[str], where: dict[str, list[Any]]
) -> list[VariantCell]:
    """Of the cells those of these models and arms, and whose points have one of these values; empty: no matter."""
    for what, wanted, known in (
        ("model", models, {one.model for one in placed}),
        ("arm", arms, {one.arm for one in placed}),
        ("varied setting", list(where), {key for one in placed for key in one.point}),
    ):
        for name in wanted:
            if name not in known:
                raise InputError(f"the specification has no {what} '{name}', {nearest(name, sorted(known))}")
    for key, values in where.items():
        there = list(dict.fromkeys(str(one.point[key]) for one in placed if key in one.point))
        for value in values:
            if not any(one.point.get(key) == value for one in placed if key in one.point):
                raise InputError(f"--where {key}={value}: no such value; {key} varies over {', '.join(there)}")

    def wanted_point(point: Point) -> bool:
        return all(point[key] in values for key, values in where.items() if key in point)

    found = [
        one
        for one in placed
        if (not models or one.model in models) and (not arms or one.arm in arms) and wanted_point(one.point)
    ]
    if not found:
        raise InputError("nothing of the specification is left: no cell is of these models, arms and values")
    return found


def with_selection_cells(cells: Sequence[Cell]) -> Iterator[Cell]:
    """The cells, each once, and before a cell with views the one that judges its pairs."""
    seen: set[str] = set()
    for cell in cells:
        for one in (cell.judge, cell):
            if one is not None and one.key not in seen:
                seen.add(one.key)
                yield one
