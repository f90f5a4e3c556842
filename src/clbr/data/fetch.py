"""Fetch a public data set: download, verify, unpack safely, write atomically."""

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO
from urllib.request import urlopen

from clbr.data.dataset import BundleDataset
from clbr.data.describe import COUNTS, Description, describe
from clbr.data.folder import NODE_FILES, SIZE_SUFFIX, TABLES, is_data_folder, load
from clbr.errors import InputError
from clbr.files import atomic_folder

CHUNK = 1 << 20
MAX_UNPACKED = 4 << 30
"""The largest allowed size of the unpacked files, in bytes: a safeguard against decompression bombs."""
TOLERANCE = 0.95
"""The smallest allowed share of the published pairs. Repeated pairs count once here, so a copy may have fewer."""

BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,  # an unknown compression
    RuntimeError,  # an encrypted member
)

OnProgress = Callable[[int, int | None], None]
Reader = Callable[[], IO[bytes]]


def get(
    name: str,
    url: str,
    out: Path,
    *,
    checksum: str | None = None,
    force: bool = False,
    on_progress: OnProgress = lambda done, total: None,
) -> BundleDataset:
    """Fetch the archive (zip or tar) at `url` and write its data set `name` to the folder `out`.

    `on_progress(done, total)` is called with the bytes read so far and the total, if the server states it.

    These raise an `InputError`, and nothing is written: an incomplete download, a SHA-256 other than `checksum`, a
    member whose path leads out of the folder or that is no plain file, files that are too large, an invalid data set,
    and counts that disagree with the published ones.
    """
    with TemporaryFile() as archive, atomic_folder(out, force, is_data_folder) as folder:
        _download(url, archive, checksum, on_progress)
        with _members(archive, url) as members:
            _unpack(name, url, members, folder)
        try:
            dataset = load(folder)
        except InputError as error:
            raise InputError(f"{url}: {str(error).replace(f'{folder}/', '')}") from None
        _check_counts(describe(dataset), url)
    return dataset


def _download(url: str, archive: IO[bytes], checksum: str | None, on_progress: OnProgress) -> None:
    if not url.startswith(("http://", "https://", "file://")):
        raise InputError(f"{url}: expected an address that starts with http://, https:// or file://")
    digest, done = sha256(), 0
    try:
        with urlopen(url, timeout=60) as answer:
            stated = answer.headers.get("Content-Length")
            total = int(stated) if stated and stated.isdigit() else None
            while chunk := answer.read(CHUNK):
                archive.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                on_progress(done, total)
    except (OSError, HTTPException, ValueError) as error:
        raise InputError(f"{url}: cannot be fetched ({error})") from None
    if total is not None and done != total:
        raise InputError(f"{url}: ended after {done:,} of {total:,} bytes; try again")
    if checksum is not None and digest.hexdigest() != checksum.lower():
        raise InputError(f"{url}: its SHA-256 is {digest.hexdigest()}, expected {checksum}; do not use this file")
    archive.seek(0)


@contextmanager
def _members(archive: IO[bytes], url: str) -> Iterator[dict[str, Reader]]:
    """The plain files of an archive by path. Any other member but folders raises an `InputError`."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                plain = [info for info in zipped.infolist() if not info.is_dir()]
                links = [info.filename for info in plain if (info.external_attr >> 16) & 0o170000 == 0o120000]
                _check_paths(url, [info.filename for info in zipped.infolist()], links)
                yield {_clean(info.filename): lambda info=info: zipped.open(info) for info in plain}  # type: ignore[misc]
        else:
            archive.seek(0)
            with tarfile.open(fileobj=archive) as tarred:
                entries = tarred.getmembers()
                strange = [entry.name for entry in entries if not (entry.isfile() or entry.isdir())]
                _check_paths(url, [entry.name for entry in entries], strange)
                files = [entry for entry in entries if entry.isfile()]
                yield {_clean(entry.name): lambda entry=entry: tarred.extractfile(entry) for entry in files}  # type: ignore[misc]
    except BROKEN as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{url}: not a complete zip or tar archive ({reason})") from None


def _check_paths(url: str, names: list[str], strange: list[str]) -> None:
    for name in names:
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in name:
            raise InputError(f"{url}: unsafe archive: the path '{name}' leads out of its folder")
    if strange:
        raise InputError(f"{url}: unsafe archive: '{strange[0]}' is not a plain file")


def _unpack(name: str, url: str, members: dict[str, Reader], folder: Path) -> None:
    """Write the files of the data set under their canonical names; no other member is written."""
    sizes = [path for path in map(PurePosixPath, members) if path.name.endswith(SIZE_SUFFIX)]
    mine = [path for path in sizes if path.name.lower() == f"{name}{SIZE_SUFFIX}".lower()]
    if len(mine) != 1:
        found = ", ".join(sorted(path.name.removesuffix(SIZE_SUFFIX) for path in sizes)) or "none"
        raise InputError(f"{url}: expected one file {name}{SIZE_SUFFIX} in it; data sets found: {found}")
    left = MAX_UNPACKED
    for file in (mine[0].name, *TABLES.values(), *NODE_FILES):
        member = str(mine[0].with_name(file))
        if member in members:
            # The size file is named after `name`; its case in the archive may differ.
            path = folder / (f"{name}{SIZE_SUFFIX}" if file == mine[0].name else file)
            with members[member]() as source, path.open("wb") as target:
                while chunk := _read(source, url):
                    left -= len(chunk)
                    if left < 0:
                        raise InputError(f"{url}: unpacks to more than {MAX_UNPACKED >> 30} GiB")
                    target.write(chunk)


def _read(source: IO[bytes], url: str) -> bytes:
    """The next bytes of a member. An error here comes from the archive, not from the disk."""
    try:
        return source.read(CHUNK)
    except OSError as error:
        raise InputError(f"{url}: not a complete zip or tar archive ({error})") from None


def _clean(name: str) -> str:
    """The path without a leading ./"""
    return str(PurePosixPath(name))


def _check_counts(found: Description, url: str) -> None:
    for what, (count, stated) in (found.published.differences if found.published else {}).items():
        if what in COUNTS[:3] or not TOLERANCE * stated <= count <= stated:
            counted = f"{count:,} {what.replace('_', '-')}{' pairs' * (what not in COUNTS[:3])}"
            raise InputError(f"{url}: {counted}, but {found.name} was published with {stated:,}")
