"""Tasks that the tests of the process pool run. A module of its own, so that a new process can import it."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import torch

from clbr.errors import InputError
from clbr.training.processes import Engine, Task, TaskLink, TaskResult


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def double(link: TaskLink, number: int) -> int:
    link.send(f"got {number}")
    return 2 * number


def meet(link: TaskLink, folder: Path, mine: str, other: str) -> int:
    """Return only once the other task has started."""
    (folder / mine).touch()
    wait_for((folder / other).exists)
    return torch.get_num_threads()


def raise_input_error(link: TaskLink) -> None:
    raise InputError("the settings are wrong")


def crash(link: TaskLink) -> None:
    raise ZeroDivisionError("by zero")


def die(link: TaskLink) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_until_stopped(link: TaskLink, path: Path) -> str:
    link.send(os.getpid())
    wait_for(link.should_stop)
    path.write_text("saved")
    return "stopped"


def stop_at_first_message(engine: Engine, folder: Path) -> list[TaskResult]:
    """Run two tasks one after the other, asked to stop when the first one is running; the results."""
    messages: list[int] = []
    waiting, results = [Task(run_until_stopped, (folder / name,)) for name in "ab"], list[TaskResult]()
    engine.run(
        lambda: waiting.pop(0),
        lambda task, result: results.append(result),
        lambda task, message: messages.append(message),
        lambda: bool(messages),
    )
    return results


def never_stop(link: TaskLink, path: Path) -> None:
    link.send(os.getpid())
    time.sleep(600)
    path.write_text("saved")


def die_once(link: TaskLink, path: Path) -> str:
    """Killed at the first try, after a message."""
    link.send(os.getpid())
    if not path.exists():
        path.touch()
        time.sleep(0.5)  # until the message was taken
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def read_environment(link: TaskLink, *names: str) -> tuple[list[str | None], int]:
    return [os.environ.get(name) for name in names], torch.get_num_threads()
