"""Commands as they are typed, and what they leave in a folder."""

from collections.abc import Callable
from pathlib import Path

Run = Callable[..., tuple[int, str, str]]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def assert_refused(run: Run, folder: Path, words: list[str], message: str) -> None:
    """The command ends in a message and exit code 2, and nothing in the folder has changed."""
    before = snapshot(folder)
    code, out, err = run(*words)
    assert code == 2
    assert message in err
    assert "Traceback" not in out + err
    assert snapshot(folder) == before
