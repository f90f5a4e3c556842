"""Output that is there whole or not at all."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clbr.errors import InputError

PARTIAL = ".partial-"


@contextmanager
def atomic_folder(out: Path, force: bool, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """A fresh folder to fill, which takes the name `out` only once the block has ended well.

    An `out` that holds something is refused, or with `force` replaced if `is_ours` knows it for a whole folder of the
    same kind: a mistyped path never costs anyone anything else.
    """
    shown, out = out, out.resolve()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _sweep(out)
        require_free(out, force, is_ours)
        partial = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}{PARTIAL}{os.getpid()}-"))
    except OSError as error:
        raise InputError(f"{shown}: cannot be written ({error.strerror})") from None
    try:
        yield partial
        partial.chmod(0o777 & ~_umask())  # mkdtemp makes it private
        require_free(out, force, is_ours)  # someone may have written there meanwhile
        _swap_in(partial, out)
    except OSError as error:
        raise InputError(f"{shown}: cannot be written ({error.strerror}); nothing was changed") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def require_free(out: Path, force: bool, is_ours: Callable[[Path], bool]) -> None:
    """Refuse a place that is taken, unless by a folder that `force` may replace."""
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"{out}: there is a file of this name; choose another --out")
    if not any(out.iterdir()):
        return
    if not force:
        raise InputError(f"{out}: is not empty; choose another folder, or --force to replace a folder of this kind")
    if not is_ours(out):
        raise InputError(f"{out}: holds other things, which --force does not replace; choose an empty folder")


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that its name never stands for half of it; one that was there is replaced."""
    partial = path.with_name(f".{path.name}{PARTIAL}{os.getpid()}")
    try:
        write_synced(partial, content)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise InputError(f"{path}: cannot be written ({error.strerror}); nothing was changed") from None


def read_bytes(path: Path) -> bytes:
    """A file's content, or the reason why there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def is_partial(path: Path) -> bool:
    """Whether it is what `write_atomic` leaves when its process is killed."""
    return path.name.startswith(".") and PARTIAL in path.name


def remove_partial_files(folder: Path) -> None:
    """Remove what `write_atomic` left in a folder when its process was killed; the folder must be held."""
    for partial in folder.rglob(f".*{PARTIAL}*"):
        partial.unlink(missing_ok=True)


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and see it onto the disk, so that a full disk is noticed here and not later."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def split_tensors(content: bytes) -> tuple[str | None, bytes]:
    """Of a safetensors file the checksum that its header states, if it does, and what follows the header."""
    end = 8 + int.from_bytes(content[:8], "little")
    stated: str | None = json.loads(content[8:end]).get("__metadata__", {}).get("sha256")
    return stated, content[end:]


def _swap_in(partial: Path, out: Path) -> None:
    if not out.exists() or not any(out.iterdir()):
        partial.rename(out)  # also over an empty folder
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
