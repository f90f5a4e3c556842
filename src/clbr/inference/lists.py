"""The lists of many users: as a frame, or as a file that is written block by block."""

from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from clbr.data.dataset import Nodes
from clbr.data.frames import make_frame
from clbr.errors import InputError
from clbr.evaluation import ranking
from clbr.files import atomic_file
from clbr.inference.artifact import Artifact
from clbr.inference.index import BLOCK as INDEX_BLOCK
from clbr.inference.recommend import list_blocks
from clbr.inference.stopping import check_stop
from clbr.inference.whatif import list_length

ROWS = 500_000
"""Rows that are held at once, and one block more."""


class Lists:
    """The lists of an artifact's users, as frames: user, user_name, bundle, name, rank, score; names only if there are.

    A list has k bundles. Chosen bundles are left out unless `keep_chosen`. Only bundles of `allow` (None: all) that are
    not in `deny` are listed.
    """

    def __init__(
        self,
        artifact: Artifact,
        k: int,
        *,
        allow: Collection[int] | None = None,
        deny: Collection[int] = (),
        keep_chosen: bool = False,
    ) -> None:
        self.artifact, self.k = artifact, list_length(artifact, k)
        self.filters: dict[str, Any] = {"allow": allow, "deny": deny, "keep_chosen": keep_chosen}

    @cached_property
    def columns(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The columns of all users, and those of all bundles."""
        nodes = self.artifact.users, self.artifact.bundles
        return node_columns(nodes[0], "user", "user_name"), node_columns(nodes[1], "bundle", "name")

    @property
    def empty(self) -> pl.DataFrame:
        """A frame without rows."""
        return pl.concat([nodes[:0] for nodes in self.columns], how="horizontal").with_columns(**_numbers([], []))

    @property
    def block(self) -> int:
        """Number of users who are scored at once. Scores may differ in their last digits with another number."""
        index = self.artifact.index
        if index is not None and self.filters["allow"] is None and index.answers(self.k):
            return INDEX_BLOCK
        return max(1, ranking.BLOCK_SCORES // self.artifact.about.bundles)

    def blocks(
        self, users: NDArray[np.int64], on_progress: Callable[[int], None] = lambda users: None
    ) -> Iterator[pl.DataFrame]:
        """Yield the lists, block by block."""
        user_columns, bundle_columns = self.columns
        options = self.filters | {"block": self.block, "on_progress": on_progress}
        done = 0
        for found, scores in list_blocks(self.artifact, users, self.k, **options):
            check_stop()
            row, position = np.nonzero(found >= 0)
            nodes = [user_columns[users[done + row]], bundle_columns[found[row, position]]]
            numbers = _numbers(position + 1, scores[row, position])
            yield pl.concat(nodes, how="horizontal").with_columns(**numbers)
            done += len(found)


Blocks = Callable[[Lists, NDArray[np.int64], Callable[[int], None]], Iterator[pl.DataFrame]]


def recommend_frame(artifact: Artifact, users: NDArray[np.int64], k: int, backend: str) -> Any:
    """The lists of users as one frame."""
    lists = Lists(artifact, k)
    frame = pl.concat([lists.empty, *lists.blocks(users)])
    if backend == "polars":
        return frame
    columns: dict[str, Any] = {one.name: one.to_list() if one.dtype == pl.String else one.to_numpy() for one in frame}
    return make_frame(columns, backend)


def write_lists(
    artifact: Artifact,
    out: Path,
    k: int = 20,
    users: NDArray[np.int64] | None = None,
    *,
    allow: Collection[int] | None = None,
    deny: Collection[int] = (),
    keep_chosen: bool = False,
    on_progress: Callable[[int], None] = lambda users: None,
    blocks: Blocks = Lists.blocks,
) -> int:
    """Write the lists of users (None: all) to a Parquet or CSV file, atomically; gives the number of rows.

    Columns and filters are those of `Lists`. `on_progress(done)` is called after each block of users. `blocks` computes
    the lists: in this process, or elsewhere, as `blocks_on_ray` does.
    """
    suffix = out.suffix.lower()
    if suffix not in (".parquet", ".csv"):
        raise InputError(f"{out}: expected a name that ends in .parquet or .csv", "out")
    wanted = np.arange(artifact.about.users) if users is None else users
    lists = Lists(artifact, k, allow=allow, deny=deny, keep_chosen=keep_chosen)
    frames = _grouped(lists.empty, blocks(lists, wanted, on_progress))
    with atomic_file(out) as partial:
        try:
            return _write_csv(frames, partial) if suffix == ".csv" else _write_parquet(frames, partial)
        except pl.exceptions.PolarsError as error:
            raise InputError(f"{out}: cannot be written ({error}); nothing was changed", "out") from None


def _write_csv(frames: Iterator[pl.DataFrame], path: Path) -> int:
    rows = 0
    with path.open("wb") as file:
        for number, frame in enumerate(frames):
            frame.write_csv(file, include_header=number == 0)
            rows += len(frame)
    return rows


def _write_parquet(frames: Iterator[pl.DataFrame], path: Path) -> int:
    """Each frame to a file of its own, then all to one: a Parquet file cannot be appended to."""
    rows, parts = 0, []
    for number, frame in enumerate(frames):
        parts.append(path.with_name(f"{number}.part"))
        frame.write_parquet(parts[-1], compression="lz4")  # read again at once
        rows += len(frame)
    pl.scan_parquet(parts).sink_parquet(path)
    return rows


def _grouped(empty: pl.DataFrame, blocks: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The blocks in frames of about `ROWS` rows; at least one frame, which may be empty."""
    pieces, held = [empty], 0
    for block in blocks:
        pieces.append(block)
        held += len(block)
        if held >= ROWS:
            yield pl.concat(pieces)
            pieces, held = [], 0
    if pieces:
        yield pl.concat(pieces)


def _numbers(ranks: Any, scores: Any) -> dict[str, pl.Series]:
    return {"rank": pl.Series(ranks, dtype=pl.Int64), "score": pl.Series(scores, dtype=pl.Float64)}


def node_columns(nodes: Nodes, id: str, name: str) -> pl.DataFrame:
    """All nodes: the column of their ids, and that of their names if there are any."""
    columns = {id: nodes.id_series}
    if nodes.names is not None:
        columns[name] = pl.Series(nodes.names, dtype=pl.String)
    return pl.DataFrame(columns)
