"""The lists of many users, computed on Ray: each worker opens the artifact once, and ranks one block after another."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from clbr.errors import InputError, require
from clbr.files import is_url
from clbr.inference.artifact import open_artifact
from clbr.inference.lists import Blocks, Lists
from clbr.training.processes import check_workers
from clbr.training.ray_cluster import CLIENT, HERE, Surroundings, check_nodes, connected, find_ray, short_reason
from clbr.training.runtime import use_threads

if TYPE_CHECKING:
    import pyarrow

PART_USERS = 4096
"""Users that a worker gets at once, about: each such part is an object of Ray."""
RESTARTS = 10
"""How often a worker that was lost is started again, and its users are ranked again. Ray Data's own limit is none."""
BLOCK = "_block"
"""Column with the number of the block, which is removed again."""


@contextmanager
def blocks_on_ray(on: str, workers: int, place: str) -> Iterator[Blocks]:
    """Yield what `write_lists` takes as `blocks`: it ranks with workers on Ray.

    `on` is "ray" or the address of a cluster. `place` is the folder or URL of the artifact, for the workers. The blocks
    of users are those of one process, so the lists are equal to its lists.
    """
    check_workers(workers)
    if on.startswith(CLIENT):
        message = f"on {on}: Ray Data, which ranks the users, does not work through a Ray client"
        raise InputError(f"{message}; run the command on a machine of the cluster, with its HOST:PORT", "on")
    require("pyarrow", "ray")
    threads = max(1, torch.get_num_threads() // workers)
    cpus = 1 if on == HERE else threads
    with connected(on, workers):

        def blocks(
            lists: Lists, users: NDArray[np.int64], on_progress: Callable[[int], None]
        ) -> Iterator[pl.DataFrame]:
            if not is_url(place):
                check_nodes(fault_of_artifact, place, lists.artifact.checksum, cpus=cpus)
            arguments = (place, lists.artifact.checksum, lists.k, lists.filters, threads, Surroundings.here())
            return _rank(arguments, users, lists.block, workers, cpus, on_progress)

        yield blocks


def fault_of_artifact(place: str, checksum: str) -> str:
    """What is wrong if this process does not see the artifact with this checksum."""
    try:
        found = open_artifact(place).checksum
    except InputError as error:
        return f"does not see the artifact ({error}); expected a folder that all nodes share, or a URL"
    return "" if found == checksum else f"sees another artifact at {place}; expected a folder that all nodes share"


def _rank(
    arguments: tuple[Any, ...],
    users: NDArray[np.int64],
    block: int,
    workers: int,
    cpus: int,
    on_progress: Callable[[int], None],
) -> Iterator[pl.DataFrame]:
    """Rank the users with Ray Data, and yield the frames of the blocks in their order."""
    import pyarrow

    ray, data = find_ray(), require("ray.data", "ray")
    if not len(users):
        return
    block *= max(1, PART_USERS // block)
    parts = [users[start : start + block] for start in range(0, len(users), block)]
    tables = [pyarrow.table({"user": part, BLOCK: np.full(len(part), number)}) for number, part in enumerate(parts)]
    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    pool = data.ActorPoolStrategy(size=min(workers, len(parts)))
    options = {"batch_size": None, "batch_format": "pyarrow", "compute": pool, "num_cpus": cpus}
    limits = {"max_restarts": RESTARTS, "max_task_retries": RESTARTS}
    with catch_warnings():  # Ray 2.60 calls arguments of actors outdated, and has no others for restarts
        simplefilter("ignore", ray.util.annotations.RayDeprecationWarning)
        ranked = data.from_arrow(tables).map_batches(_Ranker, fn_constructor_args=arguments, **options, **limits)
    try:
        for batch in ranked.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            frame = pl.DataFrame(pl.from_arrow(batch))
            yield frame.drop(BLOCK)
            if len(frame):
                on_progress(min(len(users), (int(frame[BLOCK][-1]) + 1) * block))
    except ray.exceptions.RayError as error:
        raise InputError(f"the lists could not be computed: {short_reason(error)}", "on") from None


class _Ranker:
    """A worker with an artifact."""

    def __init__(
        self,
        place: str,
        checksum: str,
        k: int,
        filters: dict[str, Any],
        threads: int,
        surroundings: Surroundings,
    ) -> None:
        surroundings.apply()
        artifact = open_artifact(place)
        if artifact.checksum != checksum:
            raise InputError(f"{place}: has changed, or is another artifact on this node")
        self.lists, self.threads = Lists(artifact, k, **filters), threads

    def __call__(self, table: "pyarrow.Table") -> "pyarrow.Table":
        """Rank a block of users."""
        use_threads(self.threads)
        users, number = table["user"].to_numpy(), table[BLOCK][0].as_py()
        frame = pl.concat([self.lists.empty, *self.lists.blocks(users)])
        return frame.with_columns(pl.lit(number).alias(BLOCK)).to_arrow()
