"""Options that several commands share."""

from typing import Literal

from clbr.errors import InputError

EvaluatedSplit = Literal["tune", "test"]


def parse_ks(text: str) -> list[int]:
    """ "20,40" -> [20, 40]."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise InputError(f"--k {text}: expected whole numbers from 1, separated by commas, for instance 20,40")
    return sorted({int(part) for part in parts})
