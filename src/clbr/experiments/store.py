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
from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.evaluation.metrics import HEADLINE
from clbr.experiments.cells import Cell
from clbr.files import read_bytes, write_atomic
from clbr.training.config import RunConfig

ONCE_LEFT_OUT = ("views", "clip", "hard_from", "additions", "threshold", "nodes")
"""Older records leave these out where they are None. Whatever else is missing is a setting that came later."""
DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, NotImplementedError, RuntimeError, BadZipFile, zlib.error)
"""How arrays can fail to be read: each part of a file has its own way to be broken."""


class Curve(Config):
    """A training, epoch by epoch."""

    epochs: list[int]
    validation: list[float | None] = Field(description="the metric that epochs are chosen on; None where not looked at")
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
    validation: dict[str, float] = Field(default_factory=dict, description="at the best epoch")
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


LAYOUT = 1
"""Of the folder; another one is refused."""


class Store:
    """A folder of cells, all of one data set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, dataset: BundleDataset) -> "Store":
        """Begin the folder, or see that it is of this data set and layout."""
        if self.begun(dataset):
            return self
        _make(self.folder)
        about = {"layout": LAYOUT, "data": {"name": dataset.name, "fingerprint": dataset.fingerprint}}
        write_atomic(self.folder / "about.json", (json.dumps(about, indent=2) + "\n").encode())
        return self

    def begun(self, dataset: BundleDataset) -> bool:
        """Whether the folder holds cells of this data set yet; refused if it holds anything else. Writes nothing."""
        path = self.folder / "about.json"
        if path.exists():
            self._refuse_other(path, dataset)
            return True
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder}: there is a file of this name; choose another --out")
        if self.folder.exists() and any(not entry.name.startswith(".") for entry in self.folder.iterdir()):
            raise InputError(f"{self.folder}: holds other things than cells; choose another --out")
        return False

    def _refuse_other(self, path: Path, dataset: BundleDataset) -> None:
        try:
            about = json.loads(read_bytes(path))
            layout, name, fingerprint = about["layout"], about["data"]["name"], about["data"]["fingerprint"]
        except (ValueError, TypeError, KeyError):
            raise InputError(f"{path}: is damaged; put it back, or choose another --out") from None
        if layout != LAYOUT:
            raise InputError(f"{self.folder}: was made by another version (layout {layout}, not {LAYOUT})")
        if fingerprint != dataset.fingerprint:
            raise InputError(f"{self.folder}: holds cells of {name}, and {dataset.name} is other data")

    def run(self, cell: Cell) -> Path:
        """Where a cell's run lies."""
        return self.folder / "runs" / cell.key

    def drawn(self, key: str) -> Path:
        """Where the places of a cell's vectors lie in a figure."""
        return self.folder / "embeddings" / f"{key}.npz"

    def read(self, cell: Cell) -> Record | None:
        """The record of a cell; None if it has none, or failed when a default was another one."""
        path = self.folder / "cells" / f"{cell.key}.json"
        if not path.exists():
            return None
        record, settings = read_record(path)
        apart = departure(settings, cell.config.model_dump(mode="json"))
        if apart and record.state == "done":
            anew = f"delete it and {self.run(cell)} to run the cell again, or choose another --out"
            raise InputError(f"{path}: was made by another version, with {apart}; {anew}")
        return None if apart else record

    def failed_otherwise(self, cell: Cell) -> bool:
        """Whether a cell failed when its settings were others than those asked for now."""
        return (self.folder / "cells" / f"{cell.key}.json").exists() and self.read(cell) is None

    def is_done(self, cell: Cell) -> bool:
        """Whether a cell need not be run."""
        record = self.read(cell)
        return record is not None and record.state == "done"

    def write(self, record: Record, tested: PerUser | None = None) -> None:
        """Keep a record; what it says user by user first, so that no record is without it."""
        _make(self.folder / "cells")
        self.drawn(record.key).unlink(missing_ok=True)
        path = self.folder / "cells" / f"{record.key}.json"
        if tested is not None:
            content = BytesIO()
            arrays: Mapping[str, NDArray[Any]] = {k: v.astype(np.float32) for k, v in tested.metrics.items()}
            np.savez_compressed(content, found=np.packbits(tested.found), **arrays)  # type: ignore[arg-type]
            write_atomic(path.with_suffix(".npz"), content.getvalue())
        write_atomic(path, (record.model_dump_json() + "\n").encode())

    def per_user(self, cell: Cell) -> PerUser:
        """A cell's test, user by user."""
        path = self.folder / "cells" / f"{cell.key}.npz"
        remedy = f"delete {path.stem}.json to run the cell again"
        arrays = read_arrays(path, remedy)
        if missing := [name for name in ("found", *HEADLINE) if name not in arrays]:
            raise InputError(f"{path}: lacks {', '.join(missing)}; {remedy}")
        found = np.unpackbits(arrays["found"]).astype(bool)
        return PerUser({name: arrays[name].astype(np.float64) for name in HEADLINE}, found)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
