"""The desk: which artifact answers now, who may ask it, and when another takes its place."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from clbr.errors import InputError
from clbr.service import limits
from clbr.service.refusals import RefusedError
from clbr.service.served import Served
from clbr.training.runtime import give_back

Answer = TypeVar("Answer")
LOOK_SECONDS = 1.0
"""From one look at the artifact's folder to the next."""
log = logging.getLogger("clbr.service")


class Worker:
    """Answers by one artifact at a time; questions that need computing wait in line for one thread.

    One, because compiled kernels that run on all cores gain nothing from a second beside them.
    """

    def __init__(self, folder: Path, answer_seconds: float = limits.ANSWER_SECONDS) -> None:
        self.folder, self.answer_seconds = folder, answer_seconds
        self.seen = self._signature()
        self.now = Served.open(folder)
        self.now.warm()
        self.thread = ThreadPoolExecutor(1, "desk")
        self.waiting = 0
        self.changes: dict[str, int] = {"swapped": 0, "refused": 0}
        self.changing = asyncio.Lock()

    async def ask(self, question: Callable[[], Answer]) -> Answer:
        """Compute an answer; refused if too many wait already, or if it takes too long.

        A question that is given up, by us or by who asked, is not begun if it was still waiting.
        """
        if self.waiting >= limits.WAITING:
            raise RefusedError(429, f"{self.waiting} questions are waiting already: ask again in a moment")
        job = self._submit(question)
        try:
            async with asyncio.timeout(self.answer_seconds):
                return await asyncio.shield(asyncio.wrap_future(job))
        except TimeoutError:
            late = f"no answer within {self.answer_seconds:g} seconds"
            if job.cancel():
                raise RefusedError(429, f"{late}: others asked before; ask again in a moment") from None
            raise RefusedError(429, f"{late}: ask for fewer edits, a shorter list or less budget") from None
        finally:
            job.cancel()

    def _submit(self, question: Callable[[], Answer]) -> Future[Answer]:
        loop = asyncio.get_running_loop()
        self.waiting += 1
        job = self.thread.submit(question)
        job.add_done_callback(lambda _: loop.call_soon_threadsafe(self._finished))
        return job

    def _finished(self) -> None:
        self.waiting -= 1

    async def reload(self) -> tuple[str, str]:
        """Take what lies in the folder now; what does not hold is refused, and the old one goes on answering."""
        async with self.changing:
            before, self.seen = self.now.id, self._signature()
            try:
                coming = await asyncio.to_thread(Served.open, self.folder)  # nobody waits in line behind it
                await asyncio.wrap_future(self._submit(coming.warm))
                self.now = coming
            except Exception as error:  # whatever is wrong with it, the old one goes on
                self.changes["refused"] += 1
                why = str(error) if isinstance(error, InputError | OSError) else f"cannot be used ({error!r})"
                log.error("artifact refused", extra={"told": {"why": why, "artifact": before}})
                raise RefusedError(409, f"{why}; {before} goes on answering") from None
            await asyncio.wrap_future(self._submit(give_back))  # an artifact and its vectors hold on to each other
            self.changes["swapped"] += 1
            log.info("artifact swapped", extra={"told": {"before": before, "artifact": self.now.id}})
            return before, self.now.id

    async def watch(self) -> None:
        """Reload when the folder is another one, as when a link was changed, or holds another artifact."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if (found := self._signature()) and found != self.seen:
                try:
                    await self.reload()
                except RefusedError:
                    continue  # told in the log; the next change is looked at again

    def _signature(self) -> list[tuple[str, int, int]]:
        """What changes when there is something new: where the folder is, and its files, their sizes and times."""
        try:
            place = self.folder.resolve()
            told = [(str(path), path.stat()) for path in sorted(place.iterdir())]
        except (OSError, RuntimeError):
            return []
        return [(path, stat.st_size, stat.st_mtime_ns) for path, stat in told]

    def close(self) -> None:
        """Let what runs come to its end."""
        self.thread.shutdown(wait=False, cancel_futures=True)
