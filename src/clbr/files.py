"""Output that is there whole or not at all."""

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from clbr.errors import InputError

PARTIAL = ".partial-"


@contextmanager
def whole_folder(out: Path, force: bool, ours: Collection[str]) -> Iterator[Path]:
    """A fresh folder to fill, which takes the name `out` only once the block has ended well.

    An `out` that holds something is refused, or with `force` replaced, if every file in it matches
    one of the patterns `ours`: a mistyped path never costs anyone a file of another kind.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _sweep(out)
        _refuse_occupied(out, force, ours)
        partial = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}{PARTIAL}{os.getpid()}-"))
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror})") from None
    try:
        yield partial
        partial.chmod(0o755)  # mkdtemp makes it private
        _refuse_occupied(out, force, ours)  # someone may have written there meanwhile
        _swap_in(partial, out)
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}); nothing was changed") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that its name never stands for half of it; one that was there is replaced."""
    partial = path.with_name(f".{path.name}{PARTIAL}{os.getpid()}")
    try:
        write_synced(partial, content)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written ({error.strerror}); nothing was changed") from None


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and see it onto the disk, so that a full disk is noticed here and not later."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _refuse_occupied(out: Path, force: bool, ours: Collection[str]) -> None:
    if not (out.exists() or out.is_symlink()):
        return
    if not out.is_dir():
        raise InputError(f"{out}: there is a file of this name; choose another --out")
    strangers = [p.name for p in out.iterdir() if not any(fnmatch(p.name, pattern) for pattern in ours)]
    if strangers:
        raise InputError(f"{out}: holds other things ('{min(strangers)}' for one); choose an empty folder")
    if not force and any(out.iterdir()):
        raise InputError(f"{out}: is not empty; choose another folder, or --force to replace it")


def _swap_in(partial: Path, out: Path) -> None:
    if not out.exists():
        partial.rename(out)
        return
    aside = partial.with_name(partial.name + "-old")
    out.rename(aside)
    try:
        partial.rename(out)
    except OSError:
        aside.rename(out)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _sweep(out: Path) -> None:
    """Remove what an earlier, killed process left of the same folder; put back what it had set aside."""
    left_over = re.compile(re.escape(f".{out.name}{PARTIAL}") + r"(\d+)-\w+(-old)?")
    for path in out.parent.iterdir():
        left = left_over.fullmatch(path.name)
        if not left or _alive(int(left[1])):
            continue
        if left[2] and not out.exists():
            path.rename(out)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True
