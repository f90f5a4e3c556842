import signal
import subprocess
import sys
import tracemalloc
from collections import namedtuple
from pathlib import Path
from time import sleep

import polars as pl
import pytest

from clbr import InputError, load, save, simulate
from clbr.data import folder as folder_module
from clbr.data import pair_files
from clbr.simulation import choices
from clbr.simulation.generate import SimulateConfig, write_world
from clbr.simulation.nodes import draw_nodes
from clbr.simulation.parameters import world_config
from typed import Run

YOUSHU = SimulateConfig(like="youshu", scale=0.1)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("config", [YOUSHU, SimulateConfig(seed=2)], ids=["youshu", "tiny"])
def test_a_world_written_in_blocks_is_the_one_in_memory_to_the_byte(tmp_path: Path, config: SimulateConfig) -> None:
    world = simulate(config.like, scale=config.scale, seed=config.seed)
    save(world.dataset, tmp_path / "whole", origin=config.to_toml())
    assert write_world(config, tmp_path / "blocks") == repr(world.dataset)
    assert files(tmp_path / "blocks") == files(tmp_path / "whole")


def test_parquet_and_text_of_a_world_are_the_same_data(tmp_path: Path) -> None:
    for form in ("text", "parquet"):
        write_world(YOUSHU, tmp_path / form, format=form)  # type: ignore[arg-type]
    assert load(tmp_path / "text").fingerprint == load(tmp_path / "parquet").fingerprint


def test_the_pieces_that_are_written_have_no_effect_on_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_world(YOUSHU, tmp_path / "whole", format="parquet")
    monkeypatch.setattr(pair_files, "PIECE", 1000)
    write_world(YOUSHU, tmp_path / "pieces", format="parquet")
    parts = sorted((tmp_path / "pieces" / "user_item").iterdir())
    assert [len(pl.read_parquet(part)) for part in parts[:-1]] == [1000] * (len(parts) - 1)
    assert len(parts) == -(-13_852 // 1000)
    assert load(tmp_path / "pieces").fingerprint == load(tmp_path / "whole").fingerprint


def test_memory_does_not_grow_with_the_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same nodes with four times the pairs: the peak of the arrays stays far below four times."""
    monkeypatch.setattr(choices, "BLOCK", 20_000)
    monkeypatch.setattr(pair_files, "PIECE", 4096)
    base = world_config("youshu", 0.1)

    def peak(factor: int) -> int:
        relations = {
            name: getattr(base, name).model_copy(update={"edges": factor * getattr(base, name).edges})
            for name in ("ub", "ui", "bi")
        }
        config = base.model_copy(update=relations)
        nodes = draw_nodes(config, 0)
        tracemalloc.start()
        pairs = sum(len(block) for _, block in choices.chosen_pairs(config, 0, nodes))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert pairs == pytest.approx(factor * 36_656, rel=0.1)
        return most

    peak(1)
    assert peak(4) < 1.5 * peak(1)


def test_a_world_that_the_disk_has_no_room_for_is_refused_before_it_is_drawn(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs of youshu x 2: 102,754 of ub, 277,030 of ui and 353,334 of bi; in Parquet eight bytes each: 5,864,944."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(folder_module.shutil, "disk_usage", lambda place: usage(10**9, 10**9, 5 * 10**6))
    command = ("data", "simulate", "--like", "youshu", "--scale", "2", "--out", "deep/world")
    code, _, err = run(*command, "--format", "parquet")
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert "deep/world: needs up to 0.00586 GB, but its disk has 0.005 GB free" in " ".join(err.split())
    assert "--scale" in err and "--out" in err


def test_room_is_the_number_of_pairs_times_the_bytes_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 users, 10 bundles: three digits, a tab, one digit and a line end are 6 bytes in text, 8 in Parquet."""
    usage = namedtuple("usage", "total used free")
    sizes, pairs = {"user": 1000, "bundle": 10, "item": 10}, {"train": 10**9}
    for form, needed in (("text", 6 * 10**9), ("parquet", 8 * 10**9)):
        monkeypatch.setattr(folder_module.shutil, "disk_usage", lambda place, needed=needed: usage(0, 0, needed))
        folder_module.require_room(tmp_path / "new" / "out", sizes, pairs, form)  # type: ignore[arg-type]
        monkeypatch.setattr(folder_module.shutil, "disk_usage", lambda place, needed=needed: usage(0, 0, needed - 1))
        with pytest.raises(InputError, match=f"needs up to {needed / 1e9:.0f} GB, but its disk has"):
            folder_module.require_room(tmp_path / "new" / "out", sizes, pairs, form)  # type: ignore[arg-type]


def test_an_error_in_the_middle_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = choices._choose

    def failing(*arguments: object):  # type: ignore[no-untyped-def]
        if arguments[2] == "ui":
            raise KeyboardInterrupt
        return blocks(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(choices, "_choose", failing)
    with pytest.raises(KeyboardInterrupt):
        write_world(YOUSHU, tmp_path / "out", format="parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_simulation_leaves_no_folder_that_looks_complete(tmp_path: Path) -> None:
    arguments = ["data", "simulate", "--like", "youshu", "--scale", "5", "--format", "parquet", "--out", "world"]
    command = f"import sys; from clbr.cli import main; sys.argv[1:] = {arguments}; main()"
    process = subprocess.Popen([sys.executable, "-c", command], cwd=tmp_path)
    while not any(tmp_path.glob(".world*/*_data_size.txt")) and process.poll() is None:
        sleep(0.05)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "world").exists()
    assert any(tmp_path.iterdir())
    write_world(YOUSHU, tmp_path / "world", format="parquet")  # removes what the killed process left
    assert [path.name for path in tmp_path.iterdir()] == ["world"]
