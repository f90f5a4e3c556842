"""A specification: a piece of evidence as models, arms and seeds, in one short TOML file."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from clbr.config import Config, nearest
from clbr.errors import InputError, found_in
from clbr.evaluation.metrics import HEADLINE, Headline
from clbr.models.registry import find_model
from clbr.training.config import PARADIGMS

SHARE = "share"
"""Varied like a setting: the share of the training pairs that is kept."""

Point = dict[str, Any]


class Arm(Config):
    """A way to train that is compared with others."""

    paradigm: str = Field("original", description="original, clbr or casr")
    settings: dict[str, Any] = Field(default_factory=dict, description="of model, training or views, by name")
    vary: list[dict[str, list[Any]]] = Field(
        default_factory=list, description="tables of values: all combinations within one; a+b sets both"
    )
    models: list[str] | None = Field(None, min_length=1, description="of the models those that have this arm; all")

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        if self.paradigm not in PARADIGMS:
            raise ValueError(f"unknown paradigm '{self.paradigm}', {nearest(self.paradigm, list(PARADIGMS))}")
        _refuse_twice("models", self.models or [])
        for table in self.vary:
            if not table:
                raise ValueError("an empty table in vary: give it a setting with values, or leave it out")
            for key, values in table.items():
                if not all(key.split("+")):
                    raise ValueError(f"'{key}' varies: expected the name of a setting on each side of the +")
                if not values:
                    raise ValueError(f"'{key}' varies over nothing: give it values")
                _refuse_twice(f"the values of '{key}'", values)
            _refuse_twice("settings that vary together", [name for key in table for name in key.split("+")])
        return self

    def points(self) -> list[Point]:
        """Every combination of the varied values, each once; one empty point if nothing varies."""
        points: list[Point] = [] if self.vary else [{}]
        for table in self.vary:
            for values in product(*table.values()):
                point = dict(zip(table, values, strict=True))
                if point not in points:
                    points.append(point)
        return points


class Spec(Config):
    """What is compared with what, and how it is shown."""

    title: str = Field(min_length=1, description="of the report")
    about: str = Field("", description="the question, in a sentence or two")
    models: list[str] = Field(min_length=1, description="which models")
    seeds: int = Field(10, ge=1, description="how many, counted from 0")
    arms: dict[str, Arm] = Field(min_length=1, description="ways to train, by name")
    baseline: str | None = Field(None, description="the arm that others are tested against; the first")
    metrics: list[Headline] = Field(default_factory=lambda: list(HEADLINE), min_length=1, description="shown, on test")
    figure: Literal["lines", "surface", "degrees", "embeddings"] | None = Field(None, description="what is drawn")
    published: Literal["overall", "augmentation", "constraint"] | None = Field(
        None, description="which of the paper's tables stands beside"
    )
    preset: str | None = Field(None, description="for every model; left out: the data set's, where there is one")

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        _refuse_twice("models", self.models)
        _refuse_twice("metrics", self.metrics)
        for arm in self.arms.values():
            for model in arm.models or ():
                if model not in self.models:
                    raise ValueError(f"an arm names the model '{model}', {nearest(model, self.models)}")
        if self.baseline is not None and self.baseline not in self.arms:
            raise ValueError(f"the baseline '{self.baseline}' is no arm, {nearest(self.baseline, list(self.arms))}")
        if self.figure in ("lines", "surface") and not any(arm.vary for arm in self.arms.values()):
            raise ValueError(f"figure '{self.figure}' shows what varies: give an arm something to vary")
        if self.figure == "surface" and not any(len(table) == 2 for arm in self.arms.values() for table in arm.vary):
            raise ValueError("figure 'surface' shows two settings together: give an arm a table of two to vary")
        return self

    @property
    def base(self) -> str:
        """The arm that others are tested against."""
        return self.baseline or next(iter(self.arms))


def _refuse_twice(what: str, values: Sequence[Any]) -> None:
    for place, value in enumerate(values):
        if value in values[:place]:
            raise ValueError(f"{what}: {value} is there twice; leave one out")


def read_spec(path: Path) -> Spec:
    """A specification, from its file; models and settings that are not known are refused here."""
    if path.suffix != ".toml":
        raise InputError(f"{path}: expected a specification, a file that ends in .toml")
    spec = Spec.from_toml(path)
    with found_in(path):
        for model in spec.models:
            find_model(model)
    return spec
