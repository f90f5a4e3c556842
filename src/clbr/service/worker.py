"""The worker: the recommender that answers now, the thread that computes, and the swap to a new artifact."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch

from clbr.errors import InputError
from clbr.graph.edits import EdgeEdits
from clbr.inference.artifact import open_artifact
from clbr.inference.recommender import Recommender
from clbr.inference.whatif import edited_state, factual_state
from clbr.service import limits
from clbr.service.request_error import RequestError
from clbr.training.runtime import release_memory

T = TypeVar("T")
POLL_SECONDS = 1.0
"""Interval at which the artifact's folder is checked."""
log = logging.getLogger("clbr.service")


class Worker:
    """Answers with one recommender at a time; requests that need computing queue for one thread.

    One thread, because the compiled kernels use all cores already.
    """

    def __init__(self, folder: Path, answer_seconds: float = limits.ANSWER_SECONDS) -> None:
        self.folder, self.answer_seconds = folder, answer_seconds
        self.signature = self._signature()
        self.current = open_for_service(folder)
        warm_up(self.current)
        self.thread = ThreadPoolExecutor(1, "worker")
        self.waiting = 0
        self.swaps: dict[str, int] = {"swapped": 0, "rejected": 0}
        self.swapping = asyncio.Lock()

    async def compute(self, answer: Callable[[], T]) -> T:
        """Compute an answer; an error if too many requests wait, or if it takes too long.

        A request that is given up while it waits is never started.
        """
        if self.waiting >= limits.QUEUE:
            raise RequestError(429, f"{self.waiting} requests are waiting already: try again in a moment")
        job = self._submit(answer)
        try:
            async with asyncio.timeout(self.answer_seconds):
                return await asyncio.shield(asyncio.wrap_future(job))
        except TimeoutError:
            late = f"no answer within {self.answer_seconds:g} seconds"
            if job.cancel():
                raise RequestError(429, f"{late}: other requests came first; try again in a moment") from None
            raise RequestError(429, f"{late}: ask for fewer edits, a shorter list or less budget") from None
        finally:
            job.cancel()

    def _submit(self, answer: Callable[[], T]) -> Future[T]:
        loop = asyncio.get_running_loop()
        self.waiting += 1
        job = self.thread.submit(answer)
        job.add_done_callback(lambda _: loop.call_soon_threadsafe(self._finished))
        return job

    def _finished(self) -> None:
        self.waiting -= 1

    async def reload(self) -> tuple[str, str]:
        """Swap to the artifact that is in the folder now; a faulty one is rejected and the old one goes on."""
        async with self.swapping:
            before, self.signature = artifact_id(self.current), self._signature()
            try:
                coming = await asyncio.to_thread(open_for_service, self.folder)  # the queue goes on meanwhile
                await asyncio.wrap_future(self._submit(lambda: warm_up(coming)))
                self.current = coming
            except Exception as error:  # whatever is wrong with it, the old one goes on
                self.swaps["rejected"] += 1
                reason = str(error) if isinstance(error, InputError | OSError) else f"cannot be used ({error!r})"
                log.error("artifact rejected", extra={"fields": {"reason": reason, "artifact": before}})
                raise RequestError(409, f"{reason}; {before} goes on answering") from None
            await asyncio.wrap_future(self._submit(release_memory))  # an artifact and its vectors form a cycle
            self.swaps["swapped"] += 1
            after = artifact_id(self.current)
            log.info("artifact swapped", extra={"fields": {"before": before, "artifact": after}})
            return before, after

    async def watch(self) -> None:
        """Reload when the folder changes: another link target, or other files."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if (found := self._signature()) and found != self.signature:
                try:
                    await self.reload()
                except RequestError:
                    continue  # it is in the log; the next change is tried again

    def _signature(self) -> list[tuple[str, int, int]]:
        """The folder's real path and its files, with sizes and times."""
        try:
            files = [(str(path), path.stat()) for path in sorted(self.folder.resolve().iterdir())]
        except (OSError, RuntimeError):
            return []
        return [(path, stat.st_size, stat.st_mtime_ns) for path, stat in files]

    def close(self) -> None:
        """Let the running computation end; drop those that wait."""
        self.thread.shutdown(wait=False, cancel_futures=True)


def artifact_id(recommender: Recommender) -> str:
    """A short checksum that names the artifact."""
    return recommender.artifact.checksum[:12]


def open_for_service(folder: Path) -> Recommender:
    """Read and verify all of an artifact; its files may change or go afterwards."""
    recommender = Recommender(open_artifact(folder.resolve(), mapped=False))
    artifact = recommender.artifact
    _ = artifact.card, artifact.scorer, artifact.model  # read and verified now
    for catalogue in recommender.directory.catalogues.values():
        catalogue.find("a", 1)
    return recommender


def warm_up(recommender: Recommender) -> None:
    """Compute once what later requests reuse; an error if what-if and the stored vectors disagree."""
    artifact = recommender.artifact
    if not artifact.supports_whatif:
        return
    stored, computed = factual_state(artifact), edited_state(artifact, EdgeEdits())
    pairs = ((stored.users, computed.users), (stored.bundles, computed.bundles))
    if not all(torch.allclose(one, other, atol=1e-3) for one, other in pairs):
        raise InputError(
            f"{artifact.folder}: was made by clbr {artifact.about.version}, whose vectors are not those that this "
            "version computes; export it again"
        )
