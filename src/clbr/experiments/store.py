"""What cells came to: small records that are kept for good, beside the runs that made them.

about.json            whose cells these are: the data set and the layout of this folder
cells/KEY.json        a cell's settings, metrics, curve, cost and environment, or its error
cells/KEY.npz         its metrics user by user, and which test pairs were found
embeddings/KEY.npz    where t-SNE puts its vectors, if a report has drawn them
runs/KEY/             its run, with weights; may be thrown away once the record is there
data/                 data sets with fewer training pairs, where a cell asks for them
"""

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clbr.data.dataset import BundleDataset
from clbr.data.read import read_bytes
from clbr.errors import InputError
from clbr.evaluation.metrics import HEADLINE
from clbr.experiments.cells import Cell
from clbr.experiments.records import PerUser, Record, departure, read_arrays, read_record
from clbr.files import write_whole

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
        write_whole(self.folder / "about.json", (json.dumps(about, indent=2) + "\n").encode())
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
            write_whole(path.with_suffix(".npz"), content.getvalue())
        write_whole(path, (record.model_dump_json() + "\n").encode())

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
