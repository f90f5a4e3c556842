"""The settings of a run: which model on which data, and how it is trained."""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from clbr.config import Config, nearest
from clbr.errors import InputError
from clbr.models.registry import find_model


class TrainConfig(Config):
    """How a model is trained."""

    epochs: int = Field(100, ge=1, description="at most this many")
    batch: int = Field(2048, ge=1, description="choices in a step")
    negatives: int = Field(1, ge=1, description="bundles not chosen, for each choice")
    rate: float = Field(1e-3, gt=0, description="Adam's learning rate")
    decay: float = Field(1.0, gt=0, le=1, description="factor on the rate after every decay_every epochs; 1: none")
    decay_every: int = Field(1, ge=1, description="epochs from one decay to the next")
    weight_decay: float = Field(0.0, ge=0, description="L2 on all parameters, as Adam applies it")
    clip: float | None = Field(None, gt=0, description="longest gradient; longer ones are cut")
    evaluate_every: int = Field(1, ge=1, description="epochs from one look at tune to the next")
    patience: int = Field(20, ge=1, description="looks at tune without a better one before training stops")
    metric: str = Field("recall@20", pattern=r"^(recall|ndcg|hit|mrr|map)@[1-9]\d*$", description="chosen on, on tune")
    hard_from: int | None = Field(None, ge=1, description="epoch from which negatives are hard (a second stage)")
    hard_history: float = Field(0.4, ge=0, le=1, description="share of negatives that hold much of what the user has")
    hard_contents: float = Field(0.4, ge=0, le=1, description="share of negatives that resemble the bundle chosen")
    hardest: float = Field(0.3, gt=0, le=1, description="share of all bundles that counts as hard")

    @model_validator(mode="after")
    def _shares_of_one(self) -> Self:
        if self.hard_history + self.hard_contents > 1:
            raise ValueError("hard_history and hard_contents are shares: together 1 at most")
        return self


class Preset(Config):
    """Settings of a model and of its training that go together, in one file."""

    settings: dict[str, Any] = Field(default_factory=dict)
    train: dict[str, Any] = Field(default_factory=dict)


class RunConfig(Config):
    """All that makes a run what it is."""

    data: str = Field(description="the data folder")
    model: str = Field(description="the model's name")
    seed: int = Field(0, ge=0, description="decides everything that is drawn")
    settings: dict[str, Any] = Field(default_factory=dict, description="the model's settings")
    train: TrainConfig = Field(description="how it is trained")


def compose(
    data: str, model: str, *, preset: str | None = None, changes: dict[str, Any] | None = None, seed: int = 0
) -> RunConfig:
    """The settings of a run: defaults, then the preset, then changes by name, of the model or of the training."""
    known = find_model(model).settings
    base = find_preset(model, preset) if preset else Preset()
    settings, train = dict(base.settings), dict(base.train)
    for key, value in (changes or {}).items():
        if key in TrainConfig.model_fields:
            train[key] = value
        elif key in known.model_fields:
            settings[key] = value
        else:
            hint = nearest(key, [*known.model_fields, *TrainConfig.model_fields])
            raise InputError(f"unknown setting '{key}' of {model}, {hint}")
    whole = known.make(settings, f"settings of {model}").model_dump(mode="json")
    trained = TrainConfig.make(train, "training").model_dump(mode="json", exclude_none=True)
    return RunConfig.make({"data": data, "model": model, "seed": seed, "settings": whole, "train": trained})


def find_preset(model: str, name: str) -> Preset:
    """A preset by its name ("youshu"), or of a file that ends in .toml."""
    if name.endswith(".toml"):
        return Preset.from_toml(Path(name))
    shelf = {path.name.removesuffix(".toml"): path for path in files("clbr.presets").iterdir()}
    mine = [key.removeprefix(f"{model}-") for key in shelf if key.startswith(f"{model}-")]
    if name not in mine:
        raise InputError(f"no preset '{name}' for {model}, {nearest(name, mine)}; or give a file that ends in .toml")
    return Preset.make(tomllib.loads(shelf[f"{model}-{name}"].read_text()), f"preset {name}")


def parse_changes(texts: list[str]) -> dict[str, Any]:
    """key=value texts; a value is TOML where it can be, else text."""
    changes = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise InputError(f"--set {text}: expected key=value, for instance rate=0.002")
        try:
            changes[key.strip()] = tomllib.loads(f"x = {value}")["x"]
        except tomllib.TOMLDecodeError:
            changes[key.strip()] = value.strip()
    return changes
