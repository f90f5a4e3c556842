"""The lists of many users: as a frame, or as a file that is written block by block."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from clbr.data.dataset import Nodes
from clbr.data.frames import make_frame
from clbr.data.pairs import Pairs
from clbr.errors import InputError
from clbr.evaluation.ranking import ranked_blocks
from clbr.files import atomic_file
from clbr.inference.artifact import Artifact
from clbr.inference.recommend import KnownScorer
from clbr.inference.stopping import check_stop
from clbr.inference.whatif import list_length

ROWS = 500_000
"""Rows that are held at once, and one block more."""


def recommend_frame(artifact: Artifact, users: NDArray[np.int64], k: int, backend: str) -> Any:
    """The lists of users as a frame: user, user_name, bundle, name, rank, score; names only if the data has them."""
    blocks = _frames(artifact, users, list_length(artifact, k), KnownScorer(artifact), artifact.graph.ub.pairs)
    frame = pl.concat(blocks)
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
) -> int:
    """Write the lists of users (None: all) to a Parquet or CSV file, atomically; gives the number of rows.

    Columns are those of `recommend_frame`. Chosen bundles are left out unless `keep_chosen`. Only bundles of `allow`
    (None: all) that are not in `deny` are listed. `on_progress(done)` is called after each block of users.
    """
    suffix = out.suffix.lower()
    if suffix not in (".parquet", ".csv"):
        raise InputError(f"{out}: expected a name that ends in .parquet or .csv", "out")
    wanted = np.arange(artifact.about.users) if users is None else users
    hidden = torch.full((artifact.about.bundles,), allow is not None)
    hidden[list(allow or ())] = False
    hidden[list(deny)] = True
    exclude = artifact.graph.ub.pairs[:0] if keep_chosen else artifact.graph.ub.pairs
    scorer = KnownScorer(artifact, hidden if hidden.any() else None)
    frames = _frames(artifact, wanted, list_length(artifact, k), scorer, exclude, on_progress)
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


def _frames(
    artifact: Artifact,
    users: NDArray[np.int64],
    k: int,
    scorer: KnownScorer,
    exclude: Pairs,
    on_progress: Callable[[int], None] = lambda users: None,
) -> Iterator[pl.DataFrame]:
    """The lists in frames of about `ROWS` rows; at least one frame, which may be empty."""
    blocks = ranked_blocks(scorer, users, k, exclude=exclude, on_progress=on_progress)
    user_columns = node_columns(artifact.users, "user", "user_name")
    bundle_columns = node_columns(artifact.bundles, "bundle", "name")
    pieces = [pl.concat([user_columns[:0], bundle_columns[:0]], how="horizontal").with_columns(**_numbers([], []))]
    done = held = 0
    for ranking, scores in blocks:
        check_stop()
        row, position = np.nonzero(ranking >= 0)
        nodes = [user_columns[users[done + row]], bundle_columns[ranking[row, position]]]
        numbers = _numbers(position + 1, scores[row, position])
        pieces.append(pl.concat(nodes, how="horizontal").with_columns(**numbers))
        done += len(ranking)
        held += len(row)
        if held >= ROWS:
            yield pl.concat(pieces)
            pieces, held = [pieces[0]], 0
    if held or not done:
        yield pl.concat(pieces)


def _numbers(ranks: Any, scores: Any) -> dict[str, pl.Series]:
    return {"rank": pl.Series(ranks, dtype=pl.Int64), "score": pl.Series(scores, dtype=pl.Float64)}


def node_columns(nodes: Nodes, id: str, name: str) -> pl.DataFrame:
    """All nodes: the column of their ids, and that of their names if there are any."""
    columns = {id: nodes.id_series}
    if nodes.names is not None:
        columns[name] = pl.Series(nodes.names, dtype=pl.String)
    return pl.DataFrame(columns)
