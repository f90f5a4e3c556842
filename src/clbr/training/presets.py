"""Presets: known good settings of a model on a data set."""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field

from clbr.config import Config, nearest
from clbr.errors import InputError


class Preset(Config):
    """Settings of a model, of its training and of its views that go together, in one file."""

    settings: dict[str, Any] = Field(default_factory=dict)
    train: dict[str, Any] = Field(default_factory=dict)
    views: dict[str, Any] = Field(default_factory=dict, description="for the paradigm clbr, or casr if its sampler is")
    """Settings of the model and of training, too, where they differ with views."""


def find_preset(model: str, name: str) -> Preset:
    """A preset by its name ("youshu"), or of a file that ends in .toml."""
    if name.endswith(".toml"):
        return Preset.from_toml(Path(name))
    shelf = {path.name.removesuffix(".toml"): path for path in files("clbr.presets").iterdir()}
    mine = [key.removeprefix(f"{model}-") for key in shelf if key.startswith(f"{model}-")]
    if name not in mine:
        raise InputError(f"no preset '{name}' for {model}, {nearest(name, mine)}; or give a file that ends in .toml")
    return Preset.make(tomllib.loads(shelf[f"{model}-{name}"].read_text()), f"preset {name}")


def data_preset(model: str, name: str) -> str | None:
    """The preset of a model for a data set, if the package has one; parts and likenesses of it take it, too."""
    known = {path.name.removesuffix(".toml") for path in files("clbr.presets").iterdir()}
    wanted = name.lower().partition("-like")[0].removesuffix("partial")
    return wanted if f"{model}-{wanted}" in known else None
