"""Options and parsers that several commands share."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from clbr.errors import InputError

EvaluatedSplit = Literal["validation", "test"]
MovedData = Annotated[Path | None, typer.Option("--data", help="The data folder, if it was moved.", show_default=False)]
Threads = Annotated[int | None, typer.Option("--threads", min=1, max=1024, help="Threads; all cores if left out.")]


def _require_place(on: str) -> str:
    """Return where tasks run; raise an `InputError` if it is neither local nor ray nor an address."""
    if on not in ("local", "ray"):
        from clbr.training.ray_cluster import parse_address

        parse_address(on)
    return on


ON = "local: processes here; ray: Ray here; HOST:PORT or ray://HOST: a Ray cluster."
On = Annotated[str, typer.Option("--on", metavar="WHERE", help=ON, callback=_require_place)]


def out_option(help: str, **options: Any) -> Any:
    """Return the option --out of a command: a path to write to."""
    return typer.Option("--out", help=help, callback=require_path, **options)


def require_path(path: Path | None) -> Path | None:
    """Return a path; raise an `InputError` if a URL was given. A `Path` has folded its two slashes into one."""
    scheme, *rest = path.parts if path and path.parts else ("",)
    if rest and re.fullmatch(r"[a-zA-Z][a-zA-Z0-9+.-]+:", scheme):
        raise InputError(f"{scheme}//{'/'.join(rest)}: expected a path on this machine or on a shared disk, not a URL")
    return path


def parse_ks(text: str) -> list[int]:
    """Parse cut-offs: "20,40" gives [20, 40], sorted and without repeats."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"0*[1-9][0-9]{0,5}", part, re.ASCII) for part in parts):
        raise InputError(f"--k {text[:60]}: expected whole numbers from 1 to 999999, for instance 20,40")
    return sorted({int(part) for part in parts})


def parse_changes(texts: list[str]) -> dict[str, Any]:
    """Parse the key=value texts of --set. A value is read as TOML if it is valid TOML, else as text."""
    changes = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise InputError(f"--set {text}: expected key=value, for instance learning_rate=0.002")
        try:
            changes[key.strip()] = tomllib.loads(f"x = {value}")["x"]
        except tomllib.TOMLDecodeError:
            changes[key.strip()] = value.strip()
    return changes
