import os
import subprocess
import sys
from pathlib import Path

import pytest

from clbr.errors import InputError
from clbr.files import atomic_folder, lock, read_bytes, remove_partial_files, write_atomic, write_synced
from conftest import small_disk


def is_ours(folder: Path) -> bool:
    return all(path.suffix == ".txt" and path.is_file() for path in folder.iterdir())


def fill(out: Path, text: bytes = b"new", force: bool = False) -> None:
    with atomic_folder(out, force, is_ours) as folder:
        write_synced(folder / "a.txt", text)


def test_a_folder_gets_its_name_when_it_is_complete(tmp_path: Path) -> None:
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


def test_a_folder_with_content_raises_and_is_kept(tmp_path: Path) -> None:
    fill(tmp_path / "out", b"old")
    with pytest.raises(
        InputError, match="out: is not empty; choose another folder, or replace it with force"
    ) as caught:
        fill(tmp_path / "out")
    assert caught.value.arguments == ("out", "force")
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


def test_what_another_process_wrote_meanwhile_is_kept(tmp_path: Path) -> None:
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


def test_the_current_folder_may_be_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    fill(Path())
    assert (tmp_path / "here" / "a.txt").exists()


def test_what_a_killed_process_left_is_removed_and_the_folder_it_was_replacing_restored(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / f".out.partial-{dead.pid}-abc").mkdir()
    replaced = tmp_path / f".out.partial-{dead.pid}-xyz-old"
    replaced.mkdir()
    (replaced / "a.txt").write_bytes(b"old")
    mine = tmp_path / f".out.partial-{os.getpid()}-abc"
    mine.mkdir()
    with pytest.raises(InputError, match="is not empty"):
        fill(tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([mine.name, "out"])


def test_a_full_disk_is_one_message_and_leaves_what_was_there(tmp_path: Path) -> None:
    fill(tmp_path / "out", b"old")
    with small_disk(1024), pytest.raises(InputError, match=r"out: cannot be written \(.+\); nothing was changed"):
        fill(tmp_path / "out", b"x" * 5000, force=True)
    with small_disk(1024), pytest.raises(InputError, match="nothing was changed"):
        write_atomic(tmp_path / "out" / "a.txt", b"x" * 5000)
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_file_that_is_missing_or_unreadable_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none: no such file"):
        read_bytes(tmp_path / "none")
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)"):
        read_bytes(tmp_path)


def test_partial_files_are_removed_and_others_kept(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    left = tmp_path / "inner" / ".a.txt.partial-123"
    left.touch()
    write_atomic(tmp_path / "inner" / "a.txt", b"new")
    remove_partial_files(tmp_path)
    assert [path.name for path in (tmp_path / "inner").iterdir()] == ["a.txt"]


def test_a_locked_folder_raises_and_is_free_afterwards(tmp_path: Path) -> None:
    with lock(tmp_path) as locked:
        assert locked
        with pytest.raises(InputError, match="is in use by another process; wait for it or stop it"), lock(tmp_path):
            pass
    with lock(tmp_path) as locked:
        assert locked


def test_waiting_for_a_lock_is_reported_and_can_be_stopped(tmp_path: Path) -> None:
    waits: list[Path] = []
    with lock(tmp_path), lock(tmp_path, waits.append, lambda: len(waits) == 2) as locked:
        assert not locked
    assert waits == [tmp_path, tmp_path]
    with lock(tmp_path, waits.append) as locked:
        assert locked
    assert len(waits) == 2


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from clbr.files import lock\n"
        "with lock(Path(sys.argv[1])): print('locked', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "locked\n"
        with pytest.raises(InputError, match="is in use by another process"), lock(tmp_path):
            pass
        process.kill()
    with lock(tmp_path) as locked:
        assert locked
