import os
import subprocess
import sys
from pathlib import Path

import pytest

from clbr.errors import InputError
from clbr.files import atomic_folder, write_atomic, write_synced
from conftest import small_disk


def is_ours(folder: Path) -> bool:
    return all(path.suffix == ".txt" and path.is_file() for path in folder.iterdir())


def fill(out: Path, text: bytes = b"new", force: bool = False) -> None:
    with atomic_folder(out, force, is_ours) as folder:
        write_synced(folder / "a.txt", text)


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    fill(tmp_path / "deep" / "out")
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["out"]
    assert (tmp_path / "deep" / "out" / "a.txt").read_bytes() == b"new"


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    fill(tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").exists()


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "out", False, is_ours) as folder:
        write_synced(folder / "a.txt", b"half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_full_folder_is_refused_and_kept(tmp_path: Path) -> None:
    fill(tmp_path / "out", b"old")
    with pytest.raises(InputError, match="is not empty"):
        fill(tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"old"


def test_force_replaces_a_folder_of_the_same_kind(tmp_path: Path) -> None:
    fill(tmp_path / "out", b"old")
    (tmp_path / "out" / "b.txt").write_bytes(b"old")
    fill(tmp_path / "out", force=True)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["a.txt"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_force_never_replaces_anything_else(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_bytes(b"years of work")
    with pytest.raises(InputError, match="holds other things"):
        fill(tmp_path / "out", force=True)
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(InputError, match="there is a file of this name"):
        fill(tmp_path / "file", force=True)
    assert (tmp_path / "out" / "thesis.tex").read_bytes() == b"years of work"


def test_what_someone_else_wrote_meanwhile_is_kept(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not empty"), atomic_folder(tmp_path / "out", False, is_ours) as folder:
        write_synced(folder / "a.txt", b"new")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "b.txt").write_bytes(b"theirs")
    assert (tmp_path / "out" / "b.txt").read_bytes() == b"theirs"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    fill(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a.txt").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "real"]


def test_the_folder_one_stands_in_may_be_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    fill(Path())
    assert (tmp_path / "here" / "a.txt").exists()


def test_what_a_killed_process_left_is_swept_away_and_what_it_set_aside_put_back(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / f".out.partial-{dead.pid}-abc").mkdir()
    aside = tmp_path / f".out.partial-{dead.pid}-xyz-old"
    aside.mkdir()
    (aside / "a.txt").write_bytes(b"old")
    mine = tmp_path / f".out.partial-{os.getpid()}-abc"
    mine.mkdir()
    with pytest.raises(InputError, match="is not empty"):
        fill(tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([mine.name, "out"])


def test_a_disk_that_fills_up_is_one_message_and_leaves_what_was_there(tmp_path: Path) -> None:
    fill(tmp_path / "out", b"old")
    with small_disk(1024), pytest.raises(InputError, match=r"out: cannot be written \(.+\); nothing was changed"):
        fill(tmp_path / "out", b"x" * 5000, force=True)
    with small_disk(1024), pytest.raises(InputError, match="nothing was changed"):
        write_atomic(tmp_path / "out" / "a.txt", b"x" * 5000)
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
