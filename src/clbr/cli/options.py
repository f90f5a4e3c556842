"""Options that several commands share."""

import re
from typing import Literal

from clbr.errors import InputError

EvaluatedSplit = Literal["tune", "test"]


def parse_ks(text: str) -> list[int]:
    """ "20,40" -> [20, 40]."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"0*[1-9][0-9]{0,5}", part, re.ASCII) for part in parts):
        raise InputError(f"--k {text[:60]}: expected whole numbers from 1 to 999999, for instance 20,40")
    return sorted({int(part) for part in parts})
