"""Store: a folder with the records of cells, all of one data set."""

import json
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, Self, get_args
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from clbr.config import Config
from clbr.counterfactual.config import ViewsConfig
from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.evaluation.metrics import HEADLINE
from clbr.experiments.cells import Cell
from clbr.experiments.noise import NO_NOISE, Noise
from clbr.files import read_bytes, write_atomic
from clbr.training.config import RunConfig, TrainConfig

LAYOUT = 2
"""Version of the folder's layout and of the records' fields. A folder with another layout is an error."""
OPTIONAL_SETTINGS = frozenset(
    name
    for settings in (RunConfig, TrainConfig, ViewsConfig)
    for name, field in settings.model_fields.items()
    if NoneType in get_args(field.annotation)
)
"""Settings that may be None. TOML leaves them out then; any other missing setting was added to the package later."""
DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, NotImplementedError, RuntimeError, BadZipFile, zlib.error)
"""The errors that reading a damaged .npz file can raise."""


class Curve(Config):
    """A training, epoch by epoch."""

    epochs: list[int]
    validation: list[float | None] = Field(description="the metric that selects the epoch; None if not evaluated")
    losses: dict[str, list[float]]


class Record(Config):
    """The result of a cell."""

    key: str
    state: Literal["done", "failed"]
    config: RunConfig
    share: float
    noise: Noise = NO_NOISE
    error: str = ""
    best_epoch: int = 0
    epochs: int = 0
    validation: dict[str, float] = Field(default_factory=dict, description="metrics at the best epoch")
    test: dict[str, float] = Field(default_factory=dict, description="metrics at the best epoch")
    seconds: float = Field(0.0, description="of its training, without that of its selection model, another cell")
    memory: float = Field(0.0, description="peak memory of its process, in MiB")
    curve: Curve | None = None
    environment: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_metrics(self) -> Self:
        if self.state == "done" and (missing := [name for name in HEADLINE if name not in self.test]):
            raise ValueError(f"state is done, but test lacks {', '.join(missing)}")
        return self


class PerUser(NamedTuple):
    """A cell's results on test, by user and by pair."""

    metrics: dict[str, NDArray[np.float64]]
    found: NDArray[np.bool_]
    """For each test pair, whether its bundle is among the user's first 20."""


def read_record(path: Path) -> tuple[Record, dict[str, Any]]:
    """Read a record, and its settings as they are in the file, without the defaults of today."""
    content = read_bytes(path)
    try:
        return Record.model_validate_json(content), json.loads(content)["config"]
    except ValidationError as error:
        faults = "; ".join(Record.explain(error))
        if any(fault["type"] == "extra_forbidden" for fault in error.errors()):
            raise InputError(
                f"{path}: made by another version ({faults}); use that version, or choose another folder", "out"
            ) from None
        raise InputError(f"{path}: is damaged ({faults}); delete it to run the cell again") from None


def changed_setting(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return the first setting whose value differs, as "name value, not value"; "" if none differs.

    Settings that `there` does not have are ignored: they were added later.
    """
    for key, value in here.items():
        if key == "data" or (key not in there and key not in OPTIONAL_SETTINGS):
            continue
        other = there.get(key)
        if isinstance(value, dict) and isinstance(other, dict):
            if changed := changed_setting(other, value):
                return changed
        elif other != value:
            return f"{key} {other}, not {value}"
    return ""


def read_arrays(path: Path, remedy: str) -> dict[str, NDArray[Any]]:
    """Read the arrays of an .npz file. Raises `InputError` with the remedy if it is missing or damaged."""
    try:
        with np.load(BytesIO(read_bytes(path)), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except DAMAGE:
        raise InputError(f"{path}: is missing or damaged; {remedy}") from None


class Store:
    """A folder of cells, all of one data set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, dataset: BundleDataset) -> "Store":
        """Create the folder, or check that it is of this data set and layout."""
        if self.is_started(dataset):
            return self
        _make_folder(self.folder)
        about = {"layout": LAYOUT, "data": {"name": dataset.name, "fingerprint": dataset.fingerprint}}
        write_atomic(self.folder / "about.json", (json.dumps(about, indent=2) + "\n").encode())
        return self

    def is_started(self, dataset: BundleDataset) -> bool:
        """Return whether the folder is a store of this data set; False if it is new or empty. Writes nothing.

        Raises `InputError` if it holds anything else.
        """
        path = self.folder / "about.json"
        if path.exists():
            self._check_about(path, dataset)
            return True
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder}: there is a file of this name; choose another folder", "out")
        if self.folder.exists() and any(not entry.name.startswith(".") for entry in self.folder.iterdir()):
            raise InputError(f"{self.folder}: holds other things than cells; choose another folder", "out")
        return False

    def _check_about(self, path: Path, dataset: BundleDataset) -> None:
        try:
            about = json.loads(read_bytes(path))
            layout, name, fingerprint = about["layout"], about["data"]["name"], about["data"]["fingerprint"]
        except (ValueError, TypeError, KeyError):
            raise InputError(f"{path}: is damaged; restore it, or choose another folder", "out") from None
        if layout != LAYOUT:
            versions = f"layout {layout}, this version reads layout {LAYOUT}"
            raise InputError(f"{self.folder}: made by another version ({versions}); choose another folder", "out")
        if fingerprint != dataset.fingerprint:
            found = f"holds cells of {name}, and {dataset.name} is other data"
            raise InputError(f"{self.folder}: {found}; choose another folder", "out")

    def run_folder(self, cell: Cell) -> Path:
        """Return the folder of a cell's run."""
        return self.folder / "runs" / cell.key

    def record_path(self, cell: Cell) -> Path:
        """Return the file of a cell's record."""
        return self.folder / "cells" / f"{cell.key}.json"

    def coordinates_path(self, key: str) -> Path:
        """Return the file with the coordinates of a cell's embeddings in a figure."""
        return self.folder / "embeddings" / f"{key}.npz"

    def read(self, cell: Cell) -> Record | None:
        """Read the record of a cell; None if it has none, or if it failed with other settings than today's.

        Raises `InputError` if a cell that is done has other settings, because a default has changed since.
        """
        path = self.record_path(cell)
        if not path.exists():
            return None
        record, settings = read_record(path)
        changed = changed_setting(settings, cell.config.model_dump(mode="json"))
        if changed and record.state == "done":
            remedy = f"delete it and {self.run_folder(cell)} to run the cell again, or choose another folder"
            raise InputError(f"{path}: made by another version, with {changed}; {remedy}", "out")
        return None if changed else record

    def failed_with_other_settings(self, cell: Cell) -> bool:
        """Return whether a cell failed with other settings than today's."""
        return self.record_path(cell).exists() and self.read(cell) is None

    def is_done(self, cell: Cell) -> bool:
        """Return whether a cell has its results."""
        record = self.read(cell)
        return record is not None and record.state == "done"

    def write(self, record: Record, per_user: PerUser | None = None) -> None:
        """Write a record. Its results by user are written first, so that no record is without them."""
        _make_folder(self.folder / "cells")
        self.coordinates_path(record.key).unlink(missing_ok=True)
        path = self.folder / "cells" / f"{record.key}.json"
        if per_user is not None:
            content = BytesIO()
            arrays: Mapping[str, NDArray[Any]] = {k: v.astype(np.float32) for k, v in per_user.metrics.items()}
            np.savez_compressed(content, found=np.packbits(per_user.found), **arrays)  # type: ignore[arg-type]
            write_atomic(path.with_suffix(".npz"), content.getvalue())
        write_atomic(path, (record.model_dump_json() + "\n").encode())

    def write_failure(self, cell: Cell, error: str) -> None:
        """Write the record of a cell that failed, with its error."""
        config = cell.config.model_copy(update={"data": ""})
        self.write(Record(key=cell.key, state="failed", config=config, share=cell.share, noise=cell.noise, error=error))

    def read_per_user(self, cell: Cell) -> PerUser:
        """Read a cell's results on test, by user and by pair."""
        path = self.record_path(cell).with_suffix(".npz")
        remedy = f"delete {path.stem}.json to run the cell again"
        arrays = read_arrays(path, remedy)
        if missing := [name for name in ("found", *HEADLINE) if name not in arrays]:
            raise InputError(f"{path}: lacks {', '.join(missing)}; {remedy}")
        found = np.unpackbits(arrays["found"]).astype(bool)
        return PerUser({name: arrays[name].astype(np.float64) for name in HEADLINE}, found)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})", "out") from None
