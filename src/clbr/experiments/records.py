"""A cell's record: what it came to, as it is read again, and whether it is still the record of what is asked for."""

import json
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from clbr.config import Config
from clbr.data.read import read_bytes
from clbr.errors import InputError
from clbr.evaluation.metrics import HEADLINE
from clbr.train.settings import RunConfig

ONCE_LEFT_OUT = ("views", "clip", "hard_from", "additions", "threshold", "nodes")
"""Older records leave these out where they are None. Whatever else is missing is a setting that came later."""
DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, NotImplementedError, RuntimeError, BadZipFile, zlib.error)
"""How arrays can fail to be read: each part of a file has its own way to be broken."""


class Curve(Config):
    """A training, epoch by epoch."""

    epochs: list[int]
    tune: list[float | None] = Field(description="the metric that epochs are chosen on; None where not looked at")
    losses: dict[str, list[float]]


class Record(Config):
    """What a cell came to."""

    key: str
    state: Literal["done", "failed"]
    config: RunConfig
    share: float
    error: str = ""
    best_epoch: int = 0
    epochs: int = 0
    tune: dict[str, float] = Field(default_factory=dict, description="at the best epoch")
    test: dict[str, float] = Field(default_factory=dict, description="at the best epoch")
    seconds: float = Field(0.0, description="of its training; its judge's, a cell of its own, left out")
    memory: float = Field(0.0, description="the most that its process held, in MiB")
    curve: Curve | None = None
    environment: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _done_has_figures(self) -> Self:
        if self.state == "done" and (missing := [name for name in HEADLINE if name not in self.test]):
            raise ValueError(f"it is done, but its test lacks {', '.join(missing)}")
        return self


class PerUser(NamedTuple):
    """A cell's test, user by user and pair by pair."""

    metrics: dict[str, NDArray[np.float64]]
    found: NDArray[np.bool_]
    """For each test pair whether its bundle is among the user's first 20."""


def read_record(path: Path) -> tuple[Record, dict[str, Any]]:
    """A record, and its settings as they stand there: no default of today fills what was left out."""
    content = read_bytes(path)
    try:
        return Record.model_validate_json(content), json.loads(content)["config"]
    except ValidationError as error:
        faults = "; ".join(Record.explain(error))
        if any(fault["type"] == "extra_forbidden" for fault in error.errors()):
            raise InputError(f"{path}: made by another version ({faults}); use that, or choose another --out") from None
        raise InputError(f"{path}: is damaged ({faults}); delete it to run the cell again") from None


def departure(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """The first setting that is another one there than here, in words; "" if all that both know agree."""
    for key, value in here.items():
        if key == "data" or (key not in there and key not in ONCE_LEFT_OUT):
            continue
        other = there.get(key)
        if isinstance(value, dict) and isinstance(other, dict):
            if apart := departure(other, value):
                return apart
        elif other != value:
            return f"{key} {other}, not {value}"
    return ""


def read_arrays(path: Path, remedy: str) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file; if it is missing or damaged, that is said with the remedy."""
    try:
        with np.load(BytesIO(read_bytes(path)), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except DAMAGE:
        raise InputError(f"{path}: is missing or damaged; {remedy}") from None
