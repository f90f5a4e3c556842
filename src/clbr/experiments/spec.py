"""Specification of an experiment: models, variants and seeds, in one TOML file."""

from collections.abc import Sequence
from itertools import product
from os.path import normpath
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from clbr.config import Config, nearest
from clbr.counterfactual.strategy import STRATEGIES
from clbr.errors import InputError, found_in
from clbr.evaluation.metrics import HEADLINE, Headline
from clbr.models.registry import find_model

SHARE = "share"
"""A setting of a variant besides those of model, training and views: the share of the training pairs that is used.

The others are those of `Noise`.
"""

Point = dict[str, Any]
"""Values of the varied settings, by name."""


class Variant(Config):
    """A training strategy with its settings: a row of an experiment."""

    paradigm: str = Field("original", description="the training strategy: original, clbr or casr")
    settings: dict[str, Any] = Field(default_factory=dict, description="of model, training or views, by name")
    vary: list[dict[str, list[Any]]] = Field(
        default_factory=list, description="tables of values: all combinations within one table; a+b sets both"
    )
    models: list[str] | None = Field(None, min_length=1, description="the models with this variant; left out: all")
    preset: str | None = Field(None, description="preset of this variant; left out: that of the specification")

    @model_validator(mode="after")
    def _check_variant(self) -> Self:
        if self.paradigm not in STRATEGIES:
            raise ValueError(f"unknown paradigm '{self.paradigm}', {nearest(self.paradigm, list(STRATEGIES))}")
        _check_distinct("models", self.models or [])
        for table in self.vary:
            if not table:
                raise ValueError("vary has an empty table: give it a setting with values, or remove it")
            for key, values in table.items():
                if not all(key.split("+")):
                    raise ValueError(f"vary has the key '{key}': expected a setting's name on each side of the +")
                if not values:
                    raise ValueError(f"vary has no values for '{key}': give at least one")
                _check_distinct(f"values of '{key}'", values)
            _check_distinct("settings in one table of vary", [name for key in table for name in key.split("+")])
        return self

    def points(self) -> list[Point]:
        """Return every combination of the varied values once; one empty point if nothing varies."""
        points: list[Point] = [] if self.vary else [{}]
        for table in self.vary:
            for values in product(*table.values()):
                point = dict(zip(table, values, strict=True))
                if point not in points:
                    points.append(point)
        return points


class Spec(Config):
    """What is compared, and how the report shows it."""

    title: str = Field(min_length=1, description="of the report")
    about: str = Field("", description="the question, in a sentence or two")
    models: list[str] = Field(min_length=1, description="names of models")
    seeds: int = Field(10, ge=1, description="number of seeds, counted from 0")
    variants: dict[str, Variant] = Field(min_length=1, description="training strategies and settings, by name")
    reference: str | None = Field(
        None, description="the variant that the others are tested against; left out: the first"
    )
    reference_model: str | None = Field(
        None, description="the model that all others are tested against; left out: each against its own reference"
    )
    pairs: bool = Field(False, description="whether every two rows of the table are tested against each other, too")
    metrics: list[Headline] = Field(
        default_factory=lambda: list(HEADLINE), min_length=1, description="metrics on test that the report shows"
    )
    figure: Literal["lines", "surface", "degrees", "embeddings"] | None = Field(
        None, description="figure of the report"
    )
    published: Literal["overall", "augmentation", "constraint"] | None = Field(
        None, description="table of the CLBR paper to compare with"
    )
    preset: str | None = Field(
        None,
        description="preset of every model, a name, none or a file ({model} stands for the model's name, a relative"
        " path starts at the specification); left out: the one for the data set, if there is one",
    )

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        _check_distinct("models", self.models)
        _check_distinct("metrics", self.metrics)
        variants = self.variants.values()
        for variant in variants:
            for model in variant.models or ():
                if model not in self.models:
                    raise ValueError(f"a variant names the model '{model}', {nearest(model, self.models)}")
        if self.reference is not None and self.reference not in self.variants:
            hint = nearest(self.reference, list(self.variants))
            raise ValueError(f"the reference '{self.reference}' is not a variant, {hint}")
        if self.reference_model is not None and self.reference_model not in self.models:
            hint = nearest(self.reference_model, self.models)
            raise ValueError(f"the reference_model '{self.reference_model}' is not one of the models, {hint}")
        if self.pairs and any(variant.vary for variant in variants):
            raise ValueError("pairs: varied settings make too many pairs of rows; remove pairs, or vary")
        if self.figure in ("lines", "surface") and not any(variant.vary for variant in variants):
            raise ValueError(f"figure '{self.figure}' shows varied settings: add vary to a variant")
        if self.figure == "surface" and not any(len(table) == 2 for variant in variants for table in variant.vary):
            raise ValueError("figure 'surface' shows two varied settings: add a table with two settings to vary")
        return self

    def preset_of(self, model: str, variant: Variant) -> str | None:
        """Return the preset of a model under a variant, as `compose` takes it."""
        preset = variant.preset or self.preset
        return preset.replace("{model}", model) if preset else None

    @property
    def reference_variant(self) -> str:
        """The variant that the others are tested against."""
        return self.reference or next(iter(self.variants))

    @property
    def reference_label(self) -> str:
        """What captions call the reference."""
        return self.reference_model or self.reference_variant


def _check_distinct(what: str, values: Sequence[Any]) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ValueError(f"{what}: {value} is listed twice; remove one")


def read_spec(path: Path) -> Spec:
    """Read a specification from its file. Raises `InputError` for unknown keys and models."""
    if path.suffix != ".toml":
        raise InputError(f"{path}: expected a specification, a file that ends in .toml")
    spec = Spec.from_toml(path)
    with found_in(path):
        for model in spec.models:
            find_model(model)
    return _with_presets_from(path.parent, spec)


def _with_presets_from(folder: Path, spec: Spec) -> Spec:
    """Return the specification with its preset files as paths that start at `folder`."""

    def located(preset: str | None) -> str | None:
        return normpath(folder / preset) if preset and preset.endswith(".toml") else preset

    variants = {
        name: variant.model_copy(update={"preset": located(variant.preset)}) for name, variant in spec.variants.items()
    }
    return spec.model_copy(update={"preset": located(spec.preset), "variants": variants})
