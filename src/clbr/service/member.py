"""A worker process: answers at the shared address, and swaps its artifact when its supervisor says so.

Messages of the supervisor:
    prepare FOLDER          open this artifact, and answer `prepared` or `failed REASON`
    commit, abort           answer with the prepared artifact from now on, or drop it
    reloaded BEFORE AFTER, rejected REASON      the result of the reload that was asked for
    count RESULT            count a swap or a rejection in the metrics
Messages to the supervisor: started FOLDER, prepared, failed REASON, reload.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socket
from typing import Any

from clbr.errors import InputError
from clbr.inference.recommender import Recommender
from clbr.service.app import make_app
from clbr.service.limits import Limits
from clbr.service.pages import ServiceConfig
from clbr.service.request_error import RequestError
from clbr.service.server import Level, configure_logs, make_server
from clbr.service.worker import Worker, open_for_service
from clbr.training.runtime import release_memory, use_threads

Message = tuple[str, ...]
PUBLISH_SECONDS = 1.0
"""Interval at which the state is shown in the metrics, for scrapes that another process answers."""


@dataclass(frozen=True)
class Member:
    """What every worker process is started with."""

    config: ServiceConfig
    listener: socket
    log: Level
    threads: int


class MemberWorker(Worker):
    """The worker of one process of several. It maps the files of its artifact, so that all processes share them."""

    def __init__(
        self, folder: Path, limits: Limits, pipe: "Connection[Message, Message]", replaces: bool = False
    ) -> None:
        super().__init__(folder, limits)
        self.pipe, self.replaces = pipe, replaces
        self.loaded = asyncio.Event()
        self.coming: Recommender | None = None
        self.reloading: asyncio.Future[tuple[str | None, str]] | None = None

    def open(self, folder: Path) -> Recommender:
        """Open an artifact whose files do not change: they are the supervisor's own copies."""
        return open_for_service(folder, mapped=True)

    async def may_listen(self) -> None:
        """A process that replaces another one listens once it can answer; until then the others take all requests."""
        if self.replaces:
            await self.loaded.wait()

    async def watch(self) -> None:
        """Load the first artifact, then do what the supervisor says until it has gone."""
        try:
            self.serving = await self.prepare(self.folder)
        except InputError as error:
            self._send("failed", str(error))
            _stop_process()
            return
        finally:
            self.loaded.set()
        await self._release()
        self._send("started", str(self.folder))
        arrived = asyncio.Event()
        asyncio.get_running_loop().add_reader(self.pipe.fileno(), arrived.set)
        while True:
            self.publish()
            with suppress(TimeoutError):
                async with asyncio.timeout(PUBLISH_SECONDS):
                    await arrived.wait()
            arrived.clear()
            try:
                while self.pipe.poll():
                    await self._follow(*self.pipe.recv())
            except (EOFError, OSError):  # the supervisor was killed
                asyncio.get_running_loop().remove_reader(self.pipe.fileno())
                _stop_process()
                return

    async def _follow(self, what: str, *values: str) -> None:
        """Do what a message says."""
        match what, values:
            case "prepare", (folder,):
                try:
                    self.coming = await self.prepare(Path(folder))
                    self._send("prepared")
                except InputError as error:
                    self._send("failed", str(error))
            case "commit", ():
                if self.coming is None:  # it could not be prepared: start again with the artifact of the others
                    _stop_process()
                    return
                self.serving, self.coming = self.coming, None
                await self._release()
            case "abort", ():
                self.coming = None
                await self._release()
            case "count", (result,):
                self.metrics.swaps.labels(result).inc()
            case "reloaded", (before, after):
                self._end_reload((before, after))
            case "rejected", (reason,):
                self._end_reload(RequestError(409, reason))

    async def reload(self) -> tuple[str | None, str]:
        """Ask the supervisor to swap all processes to the artifact that is in the folder now."""
        if self.reloading is None:
            self.reloading = asyncio.get_running_loop().create_future()
            self._send("reload")
        return await asyncio.shield(self.reloading)

    def _end_reload(self, result: tuple[str, str] | RequestError) -> None:
        if self.reloading is not None and not self.reloading.done():
            if isinstance(result, RequestError):
                self.reloading.set_exception(result)
            else:
                self.reloading.set_result(result)
        self.reloading = None

    async def _release(self) -> None:
        """Return the memory of an artifact that has gone: it and its vectors form a cycle."""
        await asyncio.wrap_future(self._submit(release_memory))

    def _send(self, *message: str) -> None:
        with suppress(BrokenPipeError, OSError):  # the supervisor was killed: `watch` ends
            self.pipe.send(message)


def _stop_process() -> None:
    """Stop after the running requests."""
    os.kill(os.getpid(), signal.SIGTERM)


def run_member(member: Member, folder: Path, pipe: "Connection[Any, Any]", replaces: bool) -> None:
    """Answer until a signal to stop; the main function of a worker process, which may replace one that ended."""
    use_threads(member.threads)
    configure_logs(member.log)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # after the graceful stop, exit with 0
    worker = MemberWorker(folder, member.config.limits, pipe, replaces)
    server = make_server(make_app(member.config, worker), "", 0, member.config.limits)
    server.run(sockets=[member.listener])
