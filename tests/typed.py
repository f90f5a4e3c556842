"""Commands as they are typed, and what they leave in a folder."""

from collections.abc import Callable
from pathlib import Path

Run = Callable[..., tuple[int, str, str]]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
