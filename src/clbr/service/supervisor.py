"""The supervisor: starts worker processes on one port, restarts one that ends, swaps the artifact in all of them.

A swap has two phases. The supervisor copies the artifact to a folder of its own, and every process opens and tries the
copy while the old artifact answers. Only if all of them could, all are switched. A process that starts, whenever it
does, opens the copy that was switched to last. Processes map the copy's files: memory holds their vectors once.
"""

import logging
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from prometheus_client.multiprocess import mark_process_dead

from clbr.errors import InputError
from clbr.inference.artifact import ABOUT, About, open_artifact
from clbr.inference.index import INDEX, INDEX_ABOUT
from clbr.service.member import Member, Message, run_member
from clbr.service.metrics import SHARED
from clbr.service.server import GRACE_SECONDS
from clbr.service.worker import POLL_SECONDS, folder_signature
from clbr.training.processes import start_ignoring_interrupts

PREPARE_SECONDS = 300.0
"""Time in which a process has to open a new artifact; one that takes longer is restarted."""
RESTART_SECONDS = 1.0
"""Least time between two starts of a process."""
STOP_SECONDS = GRACE_SECONDS + 5.0
"""Time in which the processes have to end after the signal to stop; then they are killed."""
log = logging.getLogger("clbr.service")


@dataclass
class Process:
    """A worker process and what it has said."""

    process: BaseProcess
    pipe: "Connection[Message, Message]"
    begun: float = field(default_factory=monotonic)
    started: bool = False
    ended: bool = False
    prepared: bool = False
    reason: str = ""
    """Why it could not open an artifact."""

    def send(self, *message: str) -> None:
        """Send a message, unless it has ended."""
        with suppress(BrokenPipeError, OSError):
            self.pipe.send(message)


@dataclass(frozen=True)
class Version:
    """A copy of an artifact."""

    folder: Path
    id: str
    about: About


class Supervisor:
    """Worker processes that answer at one address."""

    def __init__(self, member: Member, workers: int) -> None:
        self.member, self.workers = member, workers
        self.processes: list[Process] = []
        self.asking: list[Process] = []  # those that want a reload
        self.signals: list[int] = []
        self.copies = 0

    def run(self, on_start: Callable[[About], None]) -> None:
        """Answer until a signal to stop; `on_start` is called once all processes answer."""
        with TemporaryDirectory(prefix="clbr-serve-") as space, self._stop_signals():
            self.space = Path(space)
            (self.space / "metrics").mkdir()
            os.environ[SHARED] = str(self.space / "metrics")  # inherited by the processes
            try:
                self.current = self._copy()
                self.processes = [self._start() for _ in range(self.workers)]
                self._await_start()
                if not self.signals:
                    on_start(self.current.about)
                while not self.signals:
                    self._receive()
                    self._restart()
                    found = folder_signature(self.member.config.artifact)
                    if self.asking or (found and found != self.signature):
                        self._swap()
            finally:
                self._stop()
        if signal.SIGINT in self.signals:
            raise KeyboardInterrupt

    def _start(self, replaces: bool = False) -> Process:
        """Start a process with the current artifact."""
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        arguments = (self.member, self.current.folder, theirs, replaces)
        process = context.Process(target=run_member, args=arguments, daemon=True)
        start_ignoring_interrupts(process)  # Ctrl-C reaches all processes of a terminal
        theirs.close()  # so that the end of the process is the end of the pipe
        return Process(process, ours)

    def _await_start(self) -> None:
        """Wait until all processes answer; an error if one cannot."""
        while not self.signals and not all(one.started for one in self.processes):
            self._receive()
            for one in self.processes:
                if one.reason:
                    raise InputError(one.reason)
                if one.ended:
                    raise InputError(f"a worker process ended while it started ({_cause(one)})")

    def _receive(self) -> None:
        """Take the messages that arrive within a second."""
        living = {one.pipe: one for one in self.processes if not one.ended}
        for pipe in wait([*living, self.wake], POLL_SECONDS):
            if (one := living.get(pipe)) is None:  # type: ignore[call-overload]
                continue
            try:
                self._take(one, *one.pipe.recv())
            except (EOFError, OSError):  # an OSError: it was killed while it sent something
                one.ended = True

    def _take(self, one: Process, what: str, *values: str) -> None:
        """Note what a process says."""
        match what, values:
            case "started", (folder,):
                one.started = True
                if folder != str(self.current.folder):  # swapped meanwhile
                    one.send("prepare", str(self.current.folder))
                    one.send("commit")
            case "prepared", ():
                one.prepared = True
            case "failed", (reason,):
                copy = str(self.space / str(self.copies))
                one.reason = reason.replace(copy, str(self.member.config.artifact))
            case "reload", ():
                self.asking.append(one)

    def _restart(self) -> None:
        """Start processes again that have ended."""
        for number, one in enumerate(self.processes):
            if not one.ended or monotonic() < one.begun + RESTART_SECONDS:
                continue
            cause = _cause(one)
            mark_process_dead(one.process.pid, os.environ[SHARED])  # type: ignore[no-untyped-call]
            self.processes[number] = self._start(replaces=True)
            fields = {"process": one.process.pid, "cause": cause, "new": self.processes[number].process.pid}
            log.error("worker process ended and was started again", extra={"fields": fields})

    def _swap(self) -> None:
        """Switch all processes to the artifact that is in the folder now, or none of them."""
        before, asking, self.asking = self.current, self.asking, []
        try:
            coming = self._copy()
            self._prepare(coming)
        except InputError as error:
            log.error("artifact rejected", extra={"fields": {"reason": str(error), "artifact": before.id}})
            self._count("rejected")
            for one in asking:
                one.send("rejected", f"{error}; {before.id} goes on answering")
            return
        self.current = coming
        for one in self.processes:
            if one.started and not one.prepared:  # it started while the others prepared
                one.send("prepare", str(coming.folder))
            if one.started:
                one.send("commit")
        log.info("artifact swapped", extra={"fields": {"before": before.id, "artifact": coming.id}})
        self._count("swapped")
        for one in asking:
            one.send("reloaded", before.id, coming.id)
        shutil.rmtree(before.folder, ignore_errors=True)  # what is mapped stays until nobody uses it

    def _prepare(self, coming: Version) -> None:
        """Let all processes open an artifact; an error if one cannot."""
        asked = [one for one in self.processes if one.started and not one.ended]
        for one in self.processes:
            one.prepared, one.reason = False, ""
        for one in asked:
            one.send("prepare", str(coming.folder))
        deadline = monotonic() + PREPARE_SECONDS
        while any(not (one.prepared or one.reason or one.ended) for one in asked) and not self.signals:
            self._receive()
            if monotonic() > deadline:
                for one in asked:
                    if not (one.prepared or one.reason):
                        one.process.kill()  # it starts again with the artifact that all others have then
        if reason := next((one.reason for one in asked if one.reason), ""):
            for one in asked:
                one.send("abort")
            shutil.rmtree(coming.folder, ignore_errors=True)
            raise InputError(reason)

    def _count(self, result: str) -> None:
        """Let one process count a swap."""
        if living := [one for one in self.processes if one.started and not one.ended]:
            living[0].send("count", result)

    def _copy(self) -> Version:
        """Copy the artifact that is in the folder now: its files may change or go while the copy is used."""
        folder = self.member.config.artifact
        self.signature = folder_signature(folder)
        artifact = open_artifact(folder.resolve())
        self.copies += 1
        copy = self.space / str(self.copies)
        try:
            copy.mkdir()
            for name in (ABOUT, *artifact.about.files, INDEX, INDEX_ABOUT):
                if (artifact.folder / name).exists() or name in artifact.about.files:
                    shutil.copyfile(artifact.folder / name, copy / name)
        except OSError as error:
            shutil.rmtree(copy, ignore_errors=True)
            raise InputError(f"{error.filename or folder}: cannot be copied ({error.strerror})") from None
        return Version(copy, artifact.checksum[:12], artifact.about)

    @contextmanager
    def _stop_signals(self) -> Iterator[None]:
        """Note SIGINT and SIGTERM; the second one kills the processes at once."""
        self.wake, awaken = os.pipe()

        def note(number: int, frame: object) -> None:
            self.signals.append(number)
            os.write(awaken, b".")  # ends the wait for messages
            if len(self.signals) > 1:
                for one in self.processes:
                    one.process.kill()

        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self.wake)
            os.close(awaken)

    def _stop(self) -> None:
        """Let the processes end after their running requests; kill those that do not."""
        deadline = monotonic() + STOP_SECONDS
        for one in self.processes:
            one.process.terminate()
        for one in self.processes:
            one.process.join(max(0.0, deadline - monotonic()))
            one.process.kill()
            one.process.join()


def _cause(one: Process) -> str:
    """How a process ended."""
    one.process.join(STOP_SECONDS)
    code = one.process.exitcode
    return f"killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
