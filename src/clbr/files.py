"""Files and folders on disk: atomic writes, folder locks, safe reads."""

import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from time import sleep
from typing import Any

from clbr.errors import InputError, require

CACHE = "CLBR_CACHE"
"""Environment variable: the folder for copies of folders that have a URL."""
PARTIAL = ".partial-"
"""Part of the name of every file and folder that is not written completely yet."""
LOCK = ".lock"
LOCK_POLL_SECONDS = 0.2
"""Time between two attempts to get a lock that another process has."""


def as_path(value: object, name: str) -> Path:
    """An argument as a path; anything but a text or a path raises an `InputError`."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{name}: is a {type(value).__name__}, expected the path of a folder", name)
    return Path(value)


def is_url(place: object) -> bool:
    """Return whether a place is a URL (s3://bucket/shop) and not a path."""
    return isinstance(place, str) and "://" in place


def local_folder(place: object, name: str) -> Path:
    """A folder to read, as a path. That of a URL is copied to the cache on this machine, again only if it has changed.

    The cache is the folder that CLBR_CACHE names, or ~/.cache/clbr. fsspec reads the URL; a store such as S3 needs its
    own package (s3fs, gcsfs).
    """
    if not is_url(place):
        return as_path(place, name)
    fsspec = require("fsspec", "ray")
    try:
        files, root = fsspec.core.url_to_fs(place)
        found = files.find(root, detail=True)
    except Exception as error:  # the packages of stores raise errors of their own
        raise InputError(f"{place}: cannot be read ({type(error).__name__}: {error})", name) from None
    if not found or root in found:
        raise InputError(f"{place}: no such folder, or an empty one", name)
    cache = Path(os.environ.get(CACHE) or Path.home() / ".cache" / "clbr")
    copy: Path = cache / sha256(f"{place} {found}".encode()).hexdigest()[:16] / root.rstrip("/").rpartition("/")[2]
    copy.parent.mkdir(parents=True, exist_ok=True)
    with lock(copy.parent, on_wait=lambda folder: None):  # of several workers on this machine, the first one copies
        if not copy.exists():
            with atomic_folder(copy, force=False, is_ours=lambda folder: False) as partial:
                for file in found:
                    target = partial / file.removeprefix(root).lstrip("/")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    _download(files, file, target, name)
    return copy


def _download(files: Any, file: str, target: Path, name: str) -> None:
    """Copy a file of a store."""
    try:
        files.get_file(file, str(target))
    except Exception as error:  # the packages of stores raise errors of their own
        raise InputError(f"{file}: cannot be read ({type(error).__name__}: {error})", name) from None


def portable(path: Path) -> str:
    """Return a path as text for a file that others read: without the folders of this machine.

    An absolute path becomes relative to the working directory, or only its name if it lies elsewhere.
    """
    if not path.is_absolute():
        return str(path)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else path.name


@contextmanager
def atomic_folder(out: Path, force: bool, is_ours: Callable[[Path], bool], argument: str = "out") -> Iterator[Path]:
    """Yield a temporary folder to fill; it is renamed to `out` when the block ends without an error.

    Raises `InputError` if `out` is not empty. With `force` a folder is replaced, but only if `is_ours(out)` says that
    it is a folder of the same kind: a mistyped path never deletes anything else. `argument` names `out` in errors.
    """
    shown, out = out, out.resolve()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_partial_folders(out)
        require_free(out, force, is_ours, argument)
        partial = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}{PARTIAL}{os.getpid()}-"))
    except OSError as error:
        raise InputError(f"{shown}: cannot be written ({error.strerror})", argument) from None
    try:
        yield partial
        partial.chmod(0o777 & ~_umask())  # mkdtemp makes it private
        require_free(out, force, is_ours, argument)  # another process may have written there meanwhile
        _move_into_place(partial, out)
    except OSError as error:
        raise InputError(f"{shown}: cannot be written ({error.strerror}); nothing was changed", argument) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def require_free(out: Path, force: bool, is_ours: Callable[[Path], bool], argument: str = "out") -> None:
    """Raise `InputError` about `argument` if `out` is a file or a folder with content that `force` may not replace."""
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"{out}: there is a file of this name; choose another folder", argument)
    if not any(out.iterdir()):
        return
    if not force:
        raise InputError(f"{out}: is not empty; choose another folder, or replace it with force", argument, "force")
    if not is_ours(out):
        raise InputError(f"{out}: holds other things, which force does not replace; choose an empty folder", argument)


@contextmanager
def lock(
    folder: Path,
    on_wait: Callable[[Path], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[bool]:
    """Hold the lock of a folder during the block. Yields whether the lock was obtained.

    If another process has the lock: raises `InputError`, or, with `on_wait`, waits for it. `on_wait(folder)` is called
    again and again while waiting; when `should_stop()` is true, waiting ends and the block runs with False.
    """
    with (folder / LOCK).open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if on_wait is None:
                    raise InputError(f"{folder}: is in use by another process; wait for it or stop it") from None
                if should_stop():
                    yield False
                    return
                on_wait(folder)
                sleep(LOCK_POLL_SECONDS)
            else:
                yield True
                return


def write_atomic(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file under a temporary name, then rename it: `path` never holds a part of the content.

    `content` may come in parts, so that not all of it is in memory.
    """
    partial = path.with_name(f".{path.name}{PARTIAL}{os.getpid()}")
    try:
        write_synced(partial, content)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise InputError(f"{path}: cannot be written ({error.strerror}); nothing was changed") from None


@contextmanager
def atomic_file(out: Path) -> Iterator[Path]:
    """Yield a path for a file that is written piece by piece; it becomes `out` when the block ends without an error.

    The path lies in a temporary folder, which may hold other files until the block ends.
    """
    shown, out = out, out.resolve()
    if out.is_dir():
        raise InputError(f"{shown}: is a folder, expected the name of a file", "out")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_partial_folders(out)
        folder = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}{PARTIAL}{os.getpid()}-"))
    except OSError as error:
        raise InputError(f"{shown}: cannot be written ({error.strerror})", "out") from None
    try:
        yield folder / out.name
        with (folder / out.name).open("rb") as file:
            os.fsync(file.fileno())
        (folder / out.name).replace(out)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{shown}: cannot be written ({reason}); nothing was changed", "out") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_bytes(path: Path) -> bytes:
    """Return the content of a file. Raises `InputError` if it is missing or cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def is_partial(path: Path) -> bool:
    """Return whether a file is what `write_atomic` leaves when its process is killed."""
    return path.name.startswith(".") and PARTIAL in path.name


def remove_partial_files(folder: Path) -> None:
    """Remove what killed calls of `write_atomic` left in a folder. The caller must hold the folder's lock."""
    for partial in folder.rglob(f".*{PARTIAL}*"):
        partial.unlink(missing_ok=True)


def write_synced(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file and sync it to the disk, so that a full disk raises an error here and not later."""
    with path.open("wb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)
        file.flush()
        os.fsync(file.fileno())


def split_tensors(content: bytes) -> tuple[str | None, bytes]:
    """Split a safetensors file: the checksum in its header (None if there is none), and the bytes after the header."""
    end = 8 + int.from_bytes(content[:8], "little")
    stated: str | None = json.loads(content[8:end]).get("__metadata__", {}).get("sha256")
    return stated, content[end:]


def _move_into_place(partial: Path, out: Path) -> None:
    """Rename the filled folder to `out`; a folder that is there is removed only after that succeeded."""
    if not out.exists() or not any(out.iterdir()):
        partial.rename(out)  # also replaces an empty folder
        return
    old = partial.with_name(partial.name + "-old")
    out.rename(old)
    try:
        partial.rename(out)
    except OSError:
        old.rename(out)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _remove_partial_folders(out: Path) -> None:
    """Remove what a killed `atomic_folder` of the same `out` left, and restore the folder that it was replacing."""
    pattern = re.compile(re.escape(f".{out.name}{PARTIAL}") + r"(\d+)-\w+(-old)?")
    for path in out.parent.iterdir():
        match = pattern.fullmatch(path.name)
        if not match or _is_alive(int(match[1])):
            continue
        if match[2] and not out.exists():
            path.rename(out)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _is_alive(process: int) -> bool:
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
