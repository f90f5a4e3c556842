"""Options that several commands share."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from clbr.errors import InputError

EvaluatedSplit = Literal["validation", "test"]
MovedData = Annotated[
    Path | None, typer.Option("--data", help="Where the data folder lies now, if it was moved.", show_default=False)
]


def parse_ks(text: str) -> list[int]:
    """ "20,40" -> [20, 40]."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"0*[1-9][0-9]{0,5}", part, re.ASCII) for part in parts):
        raise InputError(f"--k {text[:60]}: expected whole numbers from 1 to 999999, for instance 20,40")
    return sorted({int(part) for part in parts})


@contextmanager
def ctrl_c(first: str) -> Iterator[Callable[[], bool]]:
    """Within, the first Ctrl-C says `first` and is only noted, the second stops at once; gives whether it was noted."""
    noted: list[bool] = []

    def interrupt(number: int, frame: object) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(True)
        typer.echo(f"\n{first} (again Ctrl-C: stop at once)", err=True)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, before)
