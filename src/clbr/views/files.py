"""A set of views on disk: the pairs in safetensors, how they were found in JSON."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

from clbr.data.read import read_bytes
from clbr.errors import InputError
from clbr.files import split_tensors, write_whole
from clbr.views.edits import RELATIONS, EdgeEdits
from clbr.views.samplers import Record

PAIRS, RECORDS = "views.safetensors", "views.json"


def write_views(folder: Path, views: list[EdgeEdits], records: list[Record]) -> None:
    """The records first: where the pairs are, both are. The pairs' header holds the checksum of the two."""
    told = json.dumps(records, indent=2).encode()
    write_whole(folder / RECORDS, told)
    none = np.empty((0, 2), np.int32)
    tensors = {
        f"{index}.{relation}.{kind}": np.ascontiguousarray(getattr(edits, kind).get(relation, none))
        for index, edits in enumerate(views)
        for relation in RELATIONS
        for kind in ("add", "drop")
    }
    write_whole(folder / PAIRS, save(tensors, {"sha256": _checksum(split_tensors(save(tensors))[1], told)}))


def read_run_views(folder: Path, expected: bool) -> tuple[list[EdgeEdits], list[Record]]:
    """The views of a run that is to have some."""
    if not expected:
        raise InputError(f"{folder}: was trained without views; make some with clbr train ... --paradigm clbr")
    if not (folder / PAIRS).exists():
        raise InputError(f"{folder}: has no views yet; first: clbr train --resume {folder}")
    return read_views(folder)


def read_views(folder: Path) -> tuple[list[EdgeEdits], list[Record]]:
    """The views of a run and their records."""
    try:
        content, told = read_bytes(folder / PAIRS), read_bytes(folder / RECORDS)
        stated, values = split_tensors(content)
        if stated not in (None, _checksum(values, told)):
            raise ValueError(f"it and {RECORDS} have another checksum than when they were written")
        tensors, records = load(content), json.loads(told)
        views = [
            EdgeEdits(*({r: tensors[f"{index}.{r}.{kind}"] for r in RELATIONS} for kind in ("add", "drop")))
            for index in range(len(records))
        ]
    except InputError:
        raise
    except Exception as error:  # safetensors and json raise many kinds; all mean the same here
        raise InputError(f"{folder / PAIRS}: not a set of views ({str(error).splitlines()[0]})") from None
    return views, records


def _checksum(values: bytes, told: bytes) -> str:
    return sha256(values + told).hexdigest()
