"""The worker: the recommender that answers now, the thread that computes, and the swap to a new artifact."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TypeVar

import torch

from clbr.errors import InputError
from clbr.graph.edits import EdgeEdits
from clbr.inference.artifact import open_artifact
from clbr.inference.recommender import Recommender
from clbr.inference.stopping import StoppedError, stoppable
from clbr.inference.whatif import edited_state, factual_state
from clbr.models.base import VectorScorer
from clbr.service.limits import DEFAULT, Limits
from clbr.service.metrics import Metrics
from clbr.service.request_error import RequestError
from clbr.training.runtime import release_memory

T = TypeVar("T")
Signature = list[tuple[str, int, int]]
"""Files with their sizes and times of change."""
POLL_SECONDS = 1.0
"""Interval at which the artifact's folder is checked."""
QUICK_SIZE = 8_000_000
"""Numbers in the bundle vectors up to which a list takes a few milliseconds."""
LOADING = "the artifact is being loaded: try again in a moment"
REJECTED = "no artifact is served: the one in the folder was rejected, and the service's log says why"
STUCK = "the worker is stuck: a computation that was to stop is still running"
log = logging.getLogger("clbr.service")


def log_start(reason: str) -> None:
    """Log why the first artifact was rejected, if it was."""
    if reason:
        log.error("artifact rejected", extra={"fields": {"reason": reason}})


class Worker:
    """Answers with one recommender at a time; requests that need computing queue for one thread.

    One thread, because the compiled kernels use all cores already. `on_start` is called once the first artifact is
    loaded or rejected, with the reason for a rejection.
    """

    def __init__(self, folder: Path, limits: Limits = DEFAULT, on_start: Callable[[str], None] = log_start) -> None:
        self.folder, self.limits, self.on_start = folder, limits, on_start
        self.serving: Recommender | None = None
        self.rejected = False
        self.signature: Signature = []
        self.thread = ThreadPoolExecutor(1, "worker")
        self.closing = Event()
        self.stop_asked: float | None = None  # when the running computation was asked to stop
        self.waiting = 0
        self.metrics = Metrics()
        self.swapping = asyncio.Lock()

    @property
    def current(self) -> Recommender:
        """The recommender that answers; an error if there is none."""
        if self.serving is None:
            raise RequestError(503, self.problem)
        return self.serving

    @property
    def problem(self) -> str:
        """Why requests are not answered; empty if they are."""
        if self.serving is None:
            return REJECTED if self.rejected else LOADING
        asked = self.stop_asked
        return STUCK if asked is not None and monotonic() - asked > self.limits.stop_seconds else ""

    async def compute(self, answer: Callable[[], T]) -> T:
        """Compute an answer; an error if too many requests wait, or if it takes too long.

        A request that is given up while it waits is never started; one that is being computed is stopped.
        """
        if self.waiting >= self.limits.queue:
            raise RequestError(429, f"{self.waiting} requests are waiting already: try again in a moment")
        stop = Event()
        job = self._submit(answer, stop)
        try:
            async with asyncio.timeout(self.limits.answer_seconds):
                return await asyncio.wrap_future(job)
        except TimeoutError:
            late = f"no answer within {self.limits.answer_seconds:g} seconds"
            if job.cancel():
                raise RequestError(429, f"{late}: other requests came first; try again in a moment") from None
            raise RequestError(429, f"{late}: ask for fewer edits, a shorter list or less budget") from None
        except StoppedError:
            raise RequestError(503, "the service is stopping") from None
        finally:
            stop.set()
            if not job.done() and not job.cancel():
                self.stop_asked = monotonic()

    def _submit(self, answer: Callable[[], T], stop: Event | None = None) -> Future[T]:
        """Queue a computation that ends soon after `stop` is set."""
        loop = asyncio.get_running_loop()

        def run() -> T:
            try:
                with stoppable(lambda: self.closing.is_set() or (stop is not None and stop.is_set())):
                    return answer()
            except StoppedError:
                self.metrics.stopped.inc()
                raise

        def finished(job: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._finished, job)

        job = self.thread.submit(run)
        self.waiting += 1
        job.add_done_callback(finished)
        return job

    def _finished(self, job: Future[T]) -> None:
        self.waiting -= 1
        if not job.cancelled():  # it was the running one
            self.stop_asked = None

    async def reload(self) -> tuple[str | None, str]:
        """Swap to the artifact that is in the folder now; a faulty one is rejected and the old one goes on."""
        async with self.swapping:
            before = None if self.serving is None else artifact_id(self.serving)
            try:
                after = await self._load()
            except InputError as error:
                log.error("artifact rejected", extra={"fields": {"reason": str(error), "artifact": before}})
                goes_on = f"{before} goes on answering" if before else "nothing is served"
                raise RequestError(409, f"{error}; {goes_on}") from None
            self.metrics.swaps.labels("swapped").inc()
            log.info("artifact swapped", extra={"fields": {"before": before, "artifact": after}})
            await asyncio.wrap_future(self._submit(release_memory))  # an artifact and its vectors form a cycle
            return before, after

    async def _load(self) -> str:
        """Open the artifact that is in the folder now and answer with it; gives its id."""
        self.signature = await asyncio.to_thread(folder_signature, self.folder)
        try:
            self.serving = await self.prepare(self.folder)
        except InputError:
            self.metrics.swaps.labels("rejected").inc()
            raise
        return artifact_id(self.serving)

    async def prepare(self, folder: Path) -> Recommender:
        """Open the artifact of a folder and ask it once; whatever is wrong with it raises an `InputError`."""
        try:
            coming = await asyncio.to_thread(self.open, folder)  # the queue goes on meanwhile
            await asyncio.wrap_future(self._submit(lambda: warm_up(coming)))
        except Exception as error:
            self.rejected = True
            reason = str(error) if isinstance(error, InputError | OSError) else f"cannot be used ({error!r})"
            raise InputError(reason) from None
        return coming

    def open(self, folder: Path) -> Recommender:
        """Open an artifact whose files may change or go afterwards."""
        return open_for_service(folder)

    async def may_listen(self) -> None:
        """Return when requests may arrive: at once, so that probes are answered while the artifact is loaded."""

    def publish(self) -> None:
        """Show the present state in the metrics."""
        serving = self.serving
        artifact = None if serving is None else (artifact_id(serving), serving.artifact.about.model)
        self.metrics.show(not self.problem, self.waiting, artifact)

    async def watch(self) -> None:
        """Load the artifact, and load again when the folder changes: another link target, or other files."""
        async with self.swapping:
            try:
                await self._load()
                reason = ""
            except InputError as error:
                reason = str(error)
        self.on_start(reason)
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if (found := await asyncio.to_thread(folder_signature, self.folder)) and found != self.signature:
                with suppress(RequestError):  # it is in the log; the next change is tried again
                    await self.reload()

    def close(self) -> None:
        """Stop the running computation; drop those that wait."""
        self.closing.set()
        self.thread.shutdown(wait=False, cancel_futures=True)


def folder_signature(folder: Path) -> Signature:
    """A folder's real path and its files, with sizes and times; empty if it cannot be read."""
    try:
        files = [(str(path), path.stat()) for path in sorted(folder.resolve().iterdir())]
    except (OSError, RuntimeError):
        return []
    return [(path, stat.st_size, stat.st_mtime_ns) for path, stat in files]


def is_quick(recommender: Recommender, k: int = 1) -> bool:
    """Whether a user's list takes a few milliseconds, less than the way to the worker and back."""
    scorer, index = recommender.artifact.scorer, recommender.artifact.index
    if index is not None and index.answers(k):
        return True
    return isinstance(scorer, VectorScorer) and scorer.bundles.numel() <= QUICK_SIZE


def artifact_id(recommender: Recommender) -> str:
    """A short checksum that names the artifact."""
    return recommender.artifact.checksum[:12]


def open_for_service(folder: Path, mapped: bool = False) -> Recommender:
    """Read (or map) and verify all of an artifact; its files may go afterwards and, if it is not mapped, change."""
    recommender = Recommender(open_artifact(folder.resolve(), mapped=mapped))
    artifact = recommender.artifact
    _ = artifact.card, artifact.scorer, artifact.model, artifact.index  # read and verified now
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
