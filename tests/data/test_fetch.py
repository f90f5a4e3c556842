import io
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from clbr import InputError, load, save
from clbr.data import fetch
from clbr.data.fetch import get
from conftest import make_dataset

Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A real web server on this machine: give it bytes, get their address."""
    files_by_path: dict[str, tuple[bytes, int]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in files_by_path:
                self.send_error(404)
                return
            content, stated = files_by_path[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(stated))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def put(content: bytes, name: str = "archive", stated: int | None = None) -> str:
        files_by_path[f"/{name}"] = (content, len(content) if stated is None else stated)
        return f"http://127.0.0.1:{server.server_port}/{name}"

    yield put
    server.shutdown()
    server.server_close()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    folder = save(make_dataset(), tmp_path / "source" / "small")
    return {f"sets/small/{path.name}": path.read_bytes() for path in folder.iterdir()}


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(files: dict[str, bytes], mode: str = "w:gz", links: dict[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return buffer.getvalue()


def fails(tmp_path: Path, url: str, message: str, **settings: str) -> None:
    """The fetch fails with this message and writes nothing, inside the target folder or outside."""
    target = tmp_path / "deep" / "out"
    with pytest.raises(InputError, match=message):
        get("small", url, target, **settings)  # type: ignore[arg-type]
    assert not target.exists()
    assert list((tmp_path / "deep").glob("*")) == []
    assert list((tmp_path / "deep").glob(".*")) == []
    assert not (tmp_path / "evil.txt").exists()


@pytest.mark.parametrize("pack", [zipped, tarred, lambda f: tarred(f, "w"), lambda f: tarred(f, "w:xz")])
def test_an_archive_becomes_a_data_folder(
    tmp_path: Path, serve: Serve, files: dict[str, bytes], pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    content = pack({**files, "sets/readme.md": b"hello", "sets/other/other_data_size.txt": b"1 1 1"})
    calls: list[tuple[int, int | None]] = []
    dataset = get(
        "small",
        serve(content),
        tmp_path / "out",
        checksum=sha256(content).hexdigest().upper(),
        on_progress=lambda done, total: calls.append((done, total)),
    )
    assert repr(load(tmp_path / "out")) == repr(dataset) == repr(make_dataset())
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(Path(name).name for name in files)
    assert calls[-1] == (len(content), len(content))


def test_members_whose_path_starts_with_a_dot_are_found(tmp_path: Path, serve: Serve, files: dict[str, bytes]) -> None:
    """As `tar czf archive.tgz .` names them."""
    dotted = {f"./{Path(name).name}": content for name, content in files.items()}
    get("small", serve(tarred(dotted)), tmp_path / "out")
    assert load(tmp_path / "out").name == "small"


def test_the_case_of_the_name_is_ignored_and_its_published_counts_are_checked(
    tmp_path: Path, serve: Serve, files: dict[str, bytes]
) -> None:
    lower = {name.replace("small_", "youshu_"): content for name, content in files.items()}
    with pytest.raises(InputError, match="but Youshu was published with"):
        get("Youshu", serve(zipped(lower)), tmp_path / "out")


@pytest.mark.parametrize("kind", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED, "w:xz", "w:bz2", "w:gz"])
def test_an_archive_with_flipped_bytes_is_an_error_or_complete(
    tmp_path: Path, serve: Serve, files: dict[str, bytes], kind: object
) -> None:
    if isinstance(kind, str):
        content = tarred(files, kind)
    else:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", kind) as archive:  # type: ignore[call-overload]
            for name, text in files.items():
                archive.writestr(name, text)
        content = buffer.getvalue()
    for place in range(10, len(content), max(1, len(content) // 40)):
        flipped = bytearray(content)
        flipped[place] ^= 0xFF
        try:
            get("small", serve(bytes(flipped)), tmp_path / f"out{place}")
        except InputError as error:
            assert "\n" not in str(error)
            assert not (tmp_path / f"out{place}").exists()


def test_an_incomplete_download_fails(tmp_path: Path, serve: Serve, files: dict[str, bytes]) -> None:
    content = zipped(files)
    fails(tmp_path, serve(content[:-50], stated=len(content)), "ended after .* bytes|cannot be fetched")


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_a_truncated_archive_is_an_error(
    tmp_path: Path, serve: Serve, files: dict[str, bytes], pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    content = pack(files)
    for keep in (0, 10, len(content) // 2, len(content) - 30):
        fails(tmp_path, serve(content[:keep]), "not a complete zip or tar archive|expected one file|no such file")


def test_another_checksum_fails(tmp_path: Path, serve: Serve, files: dict[str, bytes]) -> None:
    fails(tmp_path, serve(zipped(files)), "its SHA-256 is [0-9a-f]{64}, expected 00", checksum="00")


@pytest.mark.parametrize(
    "path", ["../../evil.txt", "/tmp/evil.txt", "sets/small/../../../evil.txt", "..\\evil.txt", "C:/evil.txt"]
)
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_an_archive_that_leads_out_of_its_folder_is_an_error(
    tmp_path: Path, serve: Serve, files: dict[str, bytes], pack: Callable[[dict[str, bytes]], bytes], path: str
) -> None:
    fails(tmp_path, serve(pack({**files, path: b"gotcha"})), "unsafe archive: the path")


def test_an_archive_with_a_link_fails(tmp_path: Path, serve: Serve, files: dict[str, bytes]) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    del files["sets/small/user_item.txt"]
    content = tarred(files, links={"sets/small/user_item.txt": str(tmp_path / "secret.txt")})
    fails(tmp_path, serve(content), "unsafe archive: 'sets/small/user_item.txt' is not a plain file")
    buffer = io.BytesIO(zipped(files))
    with zipfile.ZipFile(buffer, "a") as archive:
        entry = zipfile.ZipInfo("sets/small/user_item.txt")
        entry.external_attr = 0o120777 << 16
        archive.writestr(entry, str(tmp_path / "secret.txt"))
    fails(tmp_path, serve(buffer.getvalue()), "is not a plain file")


def test_an_archive_that_unpacks_to_too_many_bytes_is_an_error(
    tmp_path: Path, serve: Serve, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "MAX_UNPACKED", 1 << 20)
    files["sets/small/user_item.txt"] = b"0\t0\n" * (1 << 19)
    fails(tmp_path, serve(zipped(files)), "unpacks to more than")


def test_an_invalid_data_set_is_an_error_with_its_own_file_names(
    tmp_path: Path, serve: Serve, files: dict[str, bytes]
) -> None:
    files["sets/small/user_item.txt"] = b"0\t99\n"
    fails(tmp_path, serve(zipped(files)), r"archive: user_item.txt, line 1: item id 99 is beyond")


def test_an_archive_without_the_data_set_lists_those_it_has(
    tmp_path: Path, serve: Serve, files: dict[str, bytes]
) -> None:
    other = {name.replace("small_", "Other_"): content for name, content in files.items()}
    fails(tmp_path, serve(zipped(other)), "expected one file small_data_size.txt in it; data sets found: Other")


def test_counts_unlike_the_published_ones_are_fails(tmp_path: Path, serve: Serve, files: dict[str, bytes]) -> None:
    renamed = {name.replace("small_", "Youshu_"): content for name, content in files.items()}
    with pytest.raises(InputError, match="3 users, but Youshu was published with 8,039"):
        get("Youshu", serve(zipped(renamed)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:9/none", "cannot be fetched"),
        ("ftp://127.0.0.1/x", "expected an address that starts with"),
        ("nonsense", "expected an address that starts with"),
        ("http://[::1", "cannot be fetched"),
        ("http://127.0.0.1:99999/x", "cannot be fetched"),
        ("file:///no/such/file.zip", "cannot be fetched"),
    ],
)
def test_an_address_without_an_answer_is_one_message(tmp_path: Path, url: str, message: str) -> None:
    fails(tmp_path, url, message)


def test_a_missing_page_is_one_message(tmp_path: Path, serve: Serve) -> None:
    fails(tmp_path, serve(b"x") + "-not", "cannot be fetched .*404")


def test_a_folder_that_is_not_empty_is_kept(tmp_path: Path, serve: Serve, files: dict[str, bytes]) -> None:
    save(make_dataset(name="mine"), tmp_path / "out")
    with pytest.raises(InputError, match="is not empty"):
        get("small", serve(zipped(files)), tmp_path / "out")
    assert load(tmp_path / "out").name == "mine"
    get("small", serve(zipped(files)), tmp_path / "out", force=True)
    assert load(tmp_path / "out").name == "small"


def test_youshu_itself_is_accepted_though_it_has_fewer_pairs_than_published(
    tmp_path: Path, serve: Serve, real: Callable[[str], object]
) -> None:
    real("Youshu")
    from conftest import SHARED

    content = zipped({f"Youshu/{path.name}": path.read_bytes() for path in (SHARED / "Youshu").iterdir()})
    assert len(get("Youshu", serve(content), tmp_path / "out").train) == 34_416
