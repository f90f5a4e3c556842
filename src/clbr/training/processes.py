"""Process pool: runs independent tasks, each in a process of its own on this machine."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from typing import Any, Literal, Protocol

import torch

from clbr.errors import InputError
from clbr.training.runtime import use_threads

POLL_SECONDS = 0.3
"""Time between two checks of `should_stop`."""

Packet = tuple[Literal["message", "result"], Any]


@dataclass(frozen=True)
class Task:
    """A call to make in another process: `function(link, *arguments)`. Both must be picklable."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class TaskResult:
    """How a task ended: the value that its function returned, or the error."""

    value: Any = None
    error: str = ""


class TaskLink(Protocol):
    """A running task's connection to the process that started it."""

    def send(self, message: Any) -> None:
        """Send a picklable message, which `on_message` receives."""

    def should_stop(self) -> bool:
        """Whether the task is asked to finish early."""


class Engine(Protocol):
    """Runs tasks. `ProcessPool` is the engine of one machine, `RayEngine` that of a cluster; see `make_engine`."""

    def run(
        self,
        next_task: Callable[[], Task | None],
        on_end: Callable[[Task, TaskResult], None],
        on_message: Callable[[Task, Any], None] = ...,
        should_stop: Callable[[], bool] = ...,
    ) -> None:
        """Run the tasks that `next_task` returns until it returns None while no task is running.

        None means that no task is ready: it is asked again after each `on_end`. Once `should_stop` returns True, no
        task is started any more, and the running ones are asked to finish.
        """


def check_workers(workers: int) -> None:
    """Raise an `InputError` unless there is at least one worker."""
    if workers < 1:
        raise InputError(f"workers {workers}: expected 1 or more", "workers")


class ProcessPool:
    """Runs at most `workers` tasks at the same time; they share this process's threads evenly.

    A process that is killed fails its own task only. All processes end with their parent.
    """

    def __init__(self, workers: int) -> None:
        check_workers(workers)
        self.workers = workers
        self.threads = max(1, torch.get_num_threads() // workers)

    def run(
        self,
        next_task: Callable[[], Task | None],
        on_end: Callable[[Task, TaskResult], None],
        on_message: Callable[[Task, Any], None] = lambda task, message: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Run tasks as `Engine.run` states. A KeyboardInterrupt terminates all processes at once."""
        stop = get_context("spawn").Event()
        running: list[_Running] = []
        try:
            while True:
                if should_stop():
                    stop.set()
                while not stop.is_set() and len(running) < self.workers and (task := next_task()):
                    running.append(self._start(task, stop))
                if not running:
                    return
                wait([one.pipe for one in running], POLL_SECONDS)
                for one in list(running):
                    if one.receive(on_message):
                        running.remove(one)
                        on_end(one.task, one.final_result())
        except KeyboardInterrupt:
            for one in running:
                one.process.terminate()
            raise
        finally:
            stop.set()
            for one in running:
                one.process.join()

    def _start(self, task: Task, stop: Event) -> "_Running":
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        arguments = (task, theirs, stop, self.threads, os.getpid())
        process = context.Process(target=_run_task, args=arguments, daemon=True)
        start_ignoring_interrupts(process)
        theirs.close()  # the child's end is then the only one, and its exit is seen as the end of the pipe
        return _Running(task, process, ours)


def start_ignoring_interrupts(process: BaseProcess) -> None:
    """Start a process that ignores Ctrl-C from its first moment on: the parent decides what an interrupt means."""
    resource_tracker.ensure_running()  # started with the first process otherwise, which unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited by the new process
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass
class _Running:
    """A task that was started, and its process."""

    task: Task
    process: BaseProcess
    pipe: "Connection[Any, Packet]"
    result: TaskResult | None = None

    def receive(self, on_message: Callable[[Task, Any], None]) -> bool:
        """Pass on the messages that have arrived; return whether the process has ended."""
        while self.pipe.poll():
            try:
                kind, content = self.pipe.recv()
            except (EOFError, OSError):  # an OSError: the process was killed while it sent something
                self.process.join()
                self.pipe.close()
                return True
            if kind == "result":
                self.result = content
            else:
                on_message(self.task, content)
        return False

    def final_result(self) -> TaskResult:
        """The result of an ended process; an error if it sent none."""
        return self.result or TaskResult(error=f"its process ended early (exit code {self.process.exitcode})")


class _PipeLink:
    """The link of a task in a process of the pool."""

    def __init__(self, pipe: "Connection[Packet, Any]", stop: Event, parent: int) -> None:
        self.pipe, self.stop, self.parent = pipe, stop, parent

    def send(self, message: Any) -> None:
        self._put(("message", message))

    def send_result(self, result: TaskResult) -> None:
        self._put(("result", result))

    def should_stop(self) -> bool:
        return self.stop.is_set() or os.getppid() != self.parent

    def _put(self, packet: Packet) -> None:
        with suppress(BrokenPipeError):  # the parent was killed
            self.pipe.send(packet)


def _run_task(task: Task, pipe: "Connection[Packet, Any]", stop: Event, threads: int, parent: int) -> None:
    """Run a task in its own process."""
    use_threads(threads)
    link = _PipeLink(pipe, stop, parent)
    link.send_result(run_task(lambda: task, link))


def run_task(find_task: Callable[[], Task], link: TaskLink) -> TaskResult:
    """Run a task in this process. Any error concerns this task only, and is its result."""
    try:
        task = find_task()
        return TaskResult(task.function(link, *task.arguments))
    except Exception as error:
        return TaskResult(error=str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}")
