import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import clbr
from clbr import InputError, Recommender, World
from clbr.data.dataset import Nodes
from clbr.inference import lists
from clbr.inference.artifact import Artifact
from clbr.inference.lists import recommend_frame, write_lists
from conftest import small_disk


@pytest.fixture(scope="module")
def named(tiny: World) -> Recommender:
    """The tiny world with text ids; the first 300 users have names, some with commas and quotes."""
    data = tiny.dataset
    names = tuple(f'"N", {u}' if u < 300 else None for u in range(600))
    changed = {
        "users": Nodes("user", 600, tuple(f"u{u}" for u in range(600)), names),
        "bundles": Nodes("bundle", 150, tuple(f"b{b}" for b in range(150)), data.bundles.names),
    }
    from dataclasses import replace

    return clbr.fit(replace(data, **changed), "bprmf", epochs=1, progress=False)


def read(path: Path) -> pl.DataFrame:
    return pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)


@pytest.mark.parametrize("name", ["lists.parquet", "lists.csv"])
@pytest.mark.parametrize("rows", [500_000, 1000])
def test_a_file_holds_the_frame_of_everyone(
    named: Recommender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, rows: int
) -> None:
    """Also if it is written in several pieces."""
    monkeypatch.setattr(lists, "ROWS", rows)
    monkeypatch.setattr("clbr.evaluation.ranking.BLOCK_SCORES", 150 * 70)  # blocks of 70 users
    done: list[int] = []
    assert write_lists(named.artifact, tmp_path / name, 7, on_progress=done.append) == 600 * 7
    assert done == [*range(70, 600, 70), 600]
    frame = read(tmp_path / name)
    assert frame.columns == ["user", "user_name", "bundle", "name", "rank", "score"]
    assert frame.drop("score").equals(named.recommend(k=7).drop("score"))
    assert frame["score"].to_list() == pytest.approx(named.recommend(k=7)["score"].to_list())
    assert frame.row(0)[:2] == ("u0", '"N", 0') and frame.row(-1)[1] is None
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_takes_the_filters_of_a_list(recommender: Recommender, tmp_path: Path) -> None:
    """As `recommend_one` does, for each user."""
    filters = {"allow": [*range(100)], "deny": [5, 7, 120], "keep_chosen": True}
    users = np.array([3, 17, 40])
    write_lists(recommender.artifact, tmp_path / "x.parquet", 6, users, **filters)  # type: ignore[arg-type]
    frame = pl.read_parquet(tmp_path / "x.parquet")
    for user in users.tolist():
        one = recommender.recommend_one(user, k=6, **filters).recommended  # type: ignore[arg-type]
        assert frame.filter(pl.col("user") == user)["bundle"].to_list() == [int(bundle.id) for bundle in one]
    assert write_lists(recommender.artifact, tmp_path / "x.parquet", 6, users, allow=[1, 2], keep_chosen=True) == 6


def test_some_users_in_their_order_and_whole_number_ids(recommender: Recommender, tmp_path: Path) -> None:
    users = np.array([17, 3])
    assert write_lists(recommender.artifact, tmp_path / "some.parquet", 2, users) == 4
    frame = pl.read_parquet(tmp_path / "some.parquet")
    assert frame.columns == ["user", "bundle", "name", "rank", "score"]  # users have no names
    assert frame["user"].to_list() == [17, 17, 3, 3]
    assert frame["rank"].to_list() == [1, 2, 1, 2]
    expected = [int(one.id) for user in (17, 3) for one in recommender.recommend_one(user, k=2).recommended]
    assert frame["bundle"].to_list() == expected


def test_frames_of_both_kinds_hold_the_same(named: Recommender) -> None:
    one = recommend_frame(named.artifact, np.array([5, 400]), 3, "polars")
    other = recommend_frame(named.artifact, np.array([5, 400]), 3, "pandas")
    assert isinstance(other, pd.DataFrame)
    assert other["bundle"].tolist() == one["bundle"].to_list() and other["rank"].tolist() == [1, 2, 3] * 2
    assert recommend_frame(named.artifact, np.array([], np.int64), 3, "polars").schema == one.schema


def test_a_user_who_has_chosen_all_has_no_rows(artifact: Artifact, tmp_path: Path) -> None:
    """And of the others no chosen bundle is listed."""
    write_lists(artifact, tmp_path / "all.parquet", 150)
    listed = pl.read_parquet(tmp_path / "all.parquet").group_by("user").len().sort("user")["len"].to_list()
    chosen = np.bincount(artifact.graph.ub.pairs[:, 0], minlength=600)
    assert listed == (150 - chosen).tolist()


@pytest.mark.parametrize("name", ["lists.xlsx", "lists"])
def test_another_kind_of_file_is_an_error(artifact: Artifact, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="expected a name that ends in .parquet or .csv"):
        write_lists(artifact, tmp_path / name)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="is a folder, expected the name of a file"):
        write_lists(artifact, tmp_path / "folder.csv")


@pytest.mark.parametrize("name", ["lists.parquet", "lists.csv"])
def test_a_full_disk_leaves_the_old_file(artifact: Artifact, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with small_disk(2000), pytest.raises(InputError, match="cannot be written"):
        write_lists(artifact, tmp_path / name)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


KILLED = """
import os, signal, sys
from pathlib import Path
from clbr.inference import lists
from clbr.inference.artifact import open_artifact
lists.ROWS = 100
def die(done):
    os.kill(os.getpid(), signal.SIGKILL)
import clbr.evaluation.ranking as ranking
ranking.BLOCK_SCORES = 150 * 70
stop = lambda done: die(done) if done > 300 else None
lists.write_lists(open_artifact(Path(sys.argv[1])), Path(sys.argv[2]), on_progress=stop)
"""


def test_after_a_kill_there_is_no_half_file_and_the_next_call_clears_up(artifact: Artifact, tmp_path: Path) -> None:
    out = tmp_path / "lists.csv"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(artifact.folder), str(out)], env=os.environ, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not out.exists() and len(list(tmp_path.iterdir())) == 1
    write_lists(artifact, out)
    assert [path.name for path in tmp_path.iterdir()] == ["lists.csv"]
