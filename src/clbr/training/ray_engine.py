"""Ray engine: runs independent tasks on a Ray cluster, each in a process of its own; and the choice of an engine."""

import os
import pickle
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import torch

from clbr.errors import InputError
from clbr.files import is_url, write_atomic
from clbr.training.processes import POLL_SECONDS, Engine, ProcessPool, Task, TaskResult, check_workers, run_task
from clbr.training.ray_cluster import HERE, LOCAL, Surroundings, check_nodes, connected, find_ray, short_reason
from clbr.training.runtime import use_threads

TRIES = 10
"""How often a task is started if its worker is lost each time, as on nodes that may be taken away."""
MARKER = ".shared"
"""File that is in the output folder while tasks run: a worker that does not see it would write to another folder."""


@contextmanager
def make_engine(on: str, workers: int) -> Iterator[Engine]:
    """Yield the engine for "local" (processes), "ray" (Ray on this machine) or the address of a Ray cluster."""
    check_workers(workers)
    if on == LOCAL:
        yield ProcessPool(workers)
        return
    with connected(on, workers):
        yield RayEngine(workers, 1 if on == HERE else None)


def check_folders(engine: Engine, out: Path, data: Sequence[str]) -> None:
    """Raise an `InputError` unless the workers of an engine on Ray see the output folder and the data folders."""
    if isinstance(engine, RayEngine):
        engine.check_folders(out, data)


@dataclass(frozen=True)
class Marker:
    """A file in the output folder, and its content."""

    path: Path
    content: str

    def fault(self) -> str:
        """What is wrong if this process does not see the file."""
        try:
            seen = self.path.read_text() == self.content
        except OSError:
            seen = False
        return "" if seen else f"does not see {self.path.parent}; expected a folder that all nodes share"


class RayEngine:
    """Runs at most `workers` tasks at the same time on Ray; each has this process's threads divided by `workers`.

    A task whose worker is lost is given to another one, at most `TRIES` times. A task reserves `cpus` CPUs of Ray; as
    many as it has threads if None.
    """

    def __init__(self, workers: int, cpus: int | None = None) -> None:
        check_workers(workers)
        self.workers = workers
        self.threads = max(1, torch.get_num_threads() // workers)
        self.cpus = cpus or self.threads
        self.marker: Marker | None = None
        self.ray = find_ray()

    def check_folders(self, out: Path, data: Sequence[str]) -> None:
        """Raise an `InputError` unless every node sees the output folder and the data folders of this machine."""
        out = out.absolute()
        self.marker = Marker(out / MARKER, secrets.token_hex(8))
        write_atomic(self.marker.path, self.marker.content.encode())
        listings = {folder: _listing(Path(folder)) for folder in data if not is_url(folder)}
        try:
            check_nodes(_fault_of_folders, self.marker, listings, cpus=self.cpus)
        except InputError:
            self.marker.path.unlink(missing_ok=True)
            raise

    def run(
        self,
        next_task: Callable[[], Task | None],
        on_end: Callable[[Task, TaskResult], None],
        on_message: Callable[[Task, Any], None] = lambda task, message: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Run tasks as `Engine.run` states. A KeyboardInterrupt ends all workers at once."""
        running: list[_Attempt] = []
        stopping = False
        try:
            while True:
                stopping = stopping or should_stop()
                while not stopping and len(running) < self.workers and (task := next_task()):
                    running.append(self._start(task))
                if not running:
                    return
                self.ray.wait([one.result for one in running], timeout=POLL_SECONDS)
                for one in list(running):
                    one.poll(stopping, on_message)
                    if not one.has_ended():
                        continue
                    result = one.receive(on_message)
                    running.remove(one)
                    if result is None and one.tries < TRIES and not stopping:
                        running.append(self._start(one.task, one.tries + 1))
                    else:
                        on_end(one.task, result or TaskResult(error=one.lost()))
        except KeyboardInterrupt:
            for one in running:
                self.ray.kill(one.worker)
            raise
        finally:
            self._end(running)

    def _start(self, task: Task, tries: int = 1) -> "_Attempt":
        options = {"num_cpus": self.cpus, "max_concurrency": 2, "max_restarts": 0, "max_task_retries": 0}
        worker = self.ray.remote(**options)(_Worker).remote()
        payload = self.ray.cloudpickle.dumps(task)
        result = worker.run.remote(payload, self.threads, Surroundings.here(), self.marker)
        return _Attempt(self.ray, task, tries, worker, result, worker.take.remote(False))

    def _end(self, running: "list[_Attempt]") -> None:
        """Ask the tasks that still run to finish, and wait for them."""
        for one in running:
            one.worker.take.remote(True)
        if running:
            self.ray.wait([one.result for one in running], num_returns=len(running))
        for one in running:
            self.ray.kill(one.worker)
        if self.marker:
            self.marker.path.unlink(missing_ok=True)


@dataclass
class _Attempt:
    """A task that was started, its worker, and the answers of it that are awaited."""

    ray: Any
    task: Task
    tries: int
    worker: Any
    result: Any
    messages: Any
    reason: str = ""

    def poll(self, stopping: bool, on_message: Callable[[Task, Any], None]) -> None:
        """Pass on the messages that have arrived, and ask for the next ones."""
        if self.ray.wait([self.messages], timeout=0)[0]:
            self._pass_on(on_message)
            self.messages = self.worker.take.remote(stopping)

    def has_ended(self) -> bool:
        return bool(self.ray.wait([self.result], timeout=0)[0])

    def receive(self, on_message: Callable[[Task, Any], None]) -> TaskResult | None:
        """The result of an ended task, after its last messages; None if its worker was lost."""
        self._pass_on(on_message)
        result: TaskResult | None = None
        try:
            result, rest = self.ray.get(self.result)
            for message in rest:
                on_message(self.task, message)
        except self.ray.exceptions.RayTaskError as error:  # a result that cannot be pickled, for instance
            result = TaskResult(error=short_reason(error))
        except self.ray.exceptions.RayError as error:
            self.reason = short_reason(error)
        self.ray.kill(self.worker)  # it may still live, on a node that was cut off
        return result

    def lost(self) -> str:
        """The error of a task whose workers were lost."""
        return f"its worker was lost {self.tries} time{'s' * (self.tries > 1)}, the last time: {self.reason}"

    def _pass_on(self, on_message: Callable[[Task, Any], None]) -> None:
        with suppress(self.ray.exceptions.RayError):  # the worker was lost; its result says so
            for message in self.ray.get(self.messages):
                on_message(self.task, message)


class _Worker:
    """A process of the cluster that runs one task. It is the task's link: messages are kept until they are taken."""

    def __init__(self) -> None:
        self.messages: SimpleQueue[Any] = SimpleQueue()
        self.stopping = False

    def run(
        self, payload: bytes, threads: int, surroundings: Surroundings, marker: Marker | None
    ) -> tuple[TaskResult, list[Any]]:
        """Run a task; return its result, and the messages that were not taken."""
        if marker and (fault := marker.fault()):
            return TaskResult(error=f"node {os.uname().nodename} {fault}"), []
        surroundings.apply()  # before the task's modules are imported
        use_threads(threads)
        result = run_task(lambda: pickle.loads(payload), self)
        return result, self.take(False)

    def take(self, stop: bool) -> list[Any]:
        """Return the messages since the last call; with `stop`, ask the task to finish."""
        self.stopping = self.stopping or stop
        taken: list[Any] = []
        with suppress(Empty):  # another thread may take them at the same time
            while True:
                taken.append(self.messages.get_nowait())
        return taken

    def send(self, message: Any) -> None:
        self.messages.put(message)

    def should_stop(self) -> bool:
        return self.stopping


def _listing(folder: Path) -> list[tuple[str, int]]:
    """Names and sizes of the files in a folder; none if it is not there."""
    if not folder.is_dir():
        return []
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted((path.relative_to(folder).as_posix(), path.stat().st_size) for path in files)


def _fault_of_folders(marker: Marker, listings: dict[str, list[tuple[str, int]]]) -> str:
    """What is wrong if this process does not see the folders as they were when they were listed."""
    if fault := marker.fault():
        return fault
    for folder, listing in listings.items():
        if _listing(Path(folder)) != listing:
            return f"does not see the data of {folder}; expected a folder that all nodes share, or a URL"
    return ""
