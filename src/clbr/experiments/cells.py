"""Cells: the trainings of a specification. Equal cells of different specifications are the same cell."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from clbr.config import Config, nearest
from clbr.counterfactual.config import ViewsConfig
from clbr.data.dataset import BundleDataset
from clbr.errors import InputError, found_in
from clbr.experiments.noise import NO_NOISE, Noise
from clbr.experiments.spec import SHARE, Point, Spec, Variant
from clbr.models.base import ClosedForm
from clbr.models.registry import find_model
from clbr.training.config import RunConfig, TrainConfig, compose, defaults_by_data


@dataclass(frozen=True)
class Cell:
    """One training: settings and seed, on a share of the training pairs of a data set, perhaps with noise."""

    config: RunConfig
    share: float
    fingerprint: str
    noise: Noise = NO_NOISE

    @cached_property
    def key(self) -> str:
        """A name that depends on the values of all settings, the seed, the share, noise and data, and on nothing else.

        Values that equal the default are left out of the hash, so that a setting added to the package later does not
        rename older cells.
        """
        config = self.config
        model = find_model(config.model).config_class
        content = {
            "model": config.model,
            "paradigm": config.paradigm,
            "seed": config.seed,
            "settings": _non_defaults(model.make(config.settings), model),
            "train": _non_defaults(config.train, TrainConfig),
            "views": _non_defaults(config.views, ViewsConfig) if config.views else None,
            "share": self.share,
            "fingerprint": self.fingerprint,
        }
        if self.noise.rates:
            content["noise"] = self.noise.model_dump(mode="json")
        digest = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return f"{config.model}-{config.paradigm}-{config.seed}-{digest[:12]}"

    @cached_property
    def selection_cell(self) -> "Cell | None":
        """The cell that trains the selection model for this one's views; None if no selection model is needed."""
        views = self.config.views
        if views is None or not views.within(find_model(self.config.model).relations).needs_selection:
            return None
        original = self.config.model_copy(update={"paradigm": "original", "views": None})
        return Cell(original, self.share, self.fingerprint, self.noise)


def _non_defaults(config: Config, base: type[Config]) -> dict[str, Any]:
    """Return the values that differ from the defaults of `base`; a subclass with other defaults gives the same."""
    defaults = base().model_dump(mode="json")
    values = config.model_dump(mode="json")
    return {name: value for name, value in values.items() if name not in defaults or value != defaults[name]}


@dataclass(frozen=True)
class VariantCell:
    """A cell as part of a specification: its variant, and its values of the varied settings."""

    cell: Cell
    variant: str
    point: Point

    @property
    def model(self) -> str:
        """The model's name."""
        return self.cell.config.model


def expand(
    spec: Spec, data: str, fingerprint: str, data_name: str, dataset: BundleDataset | None = None
) -> list[VariantCell]:
    """Return every cell of a specification on a data set (its folder, checksum and name), by seed.

    With `dataset`, the defaults that depend on the data are used.
    """
    cells = []
    for seed in range(spec.seeds):
        for model in spec.models:
            for name, variant in spec.variants.items():
                if model not in (variant.models or spec.models):
                    continue
                for point in variant.points():
                    with found_in(f"variant {name}"):
                        changes, share, noise = _changes(model, variant, point)
                        config = compose(
                            data,
                            model,
                            preset=spec.preset_of(model, variant),
                            data_name=data_name,
                            by_data=None if dataset is None else defaults_by_data(model, dataset),
                            changes=changes,
                            seed=seed,
                            paradigm=variant.paradigm,
                        )
                    cells.append(VariantCell(Cell(config, share, fingerprint, noise), name, point))
    return cells


def _changes(model: str, variant: Variant, point: Point) -> tuple[dict[str, Any], float, Noise]:
    """Return the settings of a variant at a point, its share of the training pairs, and its noise.

    A closed-form model has no training, so that of the training settings only the metric applies to it.
    """
    varied = {name: value for key, value in point.items() for name in key.split("+")}
    changes = variant.settings | varied
    share = changes.pop(SHARE, 1.0)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise InputError(f"share {share}: expected a number above 0 and at most 1")
    noise = Noise.make({key: changes.pop(key) for key in Noise.model_fields if key in changes}, "noise")
    if issubclass(find_model(model), ClosedForm):
        changes = {
            key: value for key, value in changes.items() if key not in TrainConfig.model_fields or key == "metric"
        }
    return changes, float(share), noise


def select(
    cells: Sequence[VariantCell], models: Sequence[str], variants: Sequence[str], where: dict[str, list[Any]]
) -> list[VariantCell]:
    """Return the cells of these models and variants whose points have these values; an empty filter takes all.

    A variant that varies none of the keys is kept whole. Of one that does, only points with such a key are kept.
    """
    for what, wanted, known in (
        ("model", models, {one.model for one in cells}),
        ("variant", variants, {one.variant for one in cells}),
        ("varied setting", list(where), {key for one in cells for key in one.point}),
    ):
        for name in wanted:
            if name not in known:
                raise InputError(f"the specification has no {what} '{name}', {nearest(name, sorted(known))}")
    for key, values in where.items():
        varied = [one.point[key] for one in cells if key in one.point]
        for value in values:
            if value not in varied:
                known_values = ", ".join(dict.fromkeys(map(str, varied)))
                raise InputError(f"{key}={value}: no cell has this value; {key} varies over {known_values}", "where")

    varying = {one.variant for one in cells if where.keys() & one.point.keys()}

    def is_selected(one: VariantCell) -> bool:
        keys = where.keys() & one.point.keys()
        fits_point = all(one.point[key] in where[key] for key in keys) and (bool(keys) or one.variant not in varying)
        return (not models or one.model in models) and (not variants or one.variant in variants) and fits_point

    selected = [one for one in cells if is_selected(one)]
    if not selected:
        raise InputError(
            "no cell of the specification has these models, variants and values", "models", "variants", "where"
        )
    return selected


def with_selection_cells(cells: Sequence[Cell]) -> Iterator[Cell]:
    """Yield the cells, each once, and before a cell with views the cell of its selection model."""
    seen: set[str] = set()
    for cell in cells:
        for one in (cell.selection_cell, cell):
            if one is not None and one.key not in seen:
                seen.add(one.key)
                yield one
