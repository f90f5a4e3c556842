"""The process pool: tasks run at the same time, fail alone, stop when asked, and end with their parent."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from clbr import InputError
from clbr.training.processes import ProcessPool, Task, TaskResult
from pool_tasks import crash, die, double, meet, never_stop, raise_input_error, stop_at_first_message, wait_for


def run(
    workers: int, *tasks: Task, should_stop: Callable[[], bool] = lambda: False
) -> tuple[list[TaskResult], list[Any]]:
    """Run tasks; their results in the tasks' order, and all messages."""
    waiting, results, messages = list(tasks), dict[int, TaskResult](), list[Any]()
    ProcessPool(workers).run(
        lambda: waiting.pop(0) if waiting else None,
        lambda task, result: results.update({tasks.index(task): result}),
        lambda task, message: messages.append(message),
        should_stop,
    )
    return [results[number] for number in sorted(results)], messages


def test_every_task_runs_in_another_process_and_returns_its_value() -> None:
    results, messages = run(2, *(Task(double, (number,)) for number in range(3)))
    assert results == [TaskResult(0), TaskResult(2), TaskResult(4)]
    assert sorted(messages) == ["got 0", "got 1", "got 2"]


def test_workers_run_at_the_same_time_and_share_the_threads(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        results, _ = run(2, Task(meet, (tmp_path, "a", "b")), Task(meet, (tmp_path, "b", "a")))
    finally:
        torch.set_num_threads(before)
    assert [result.value for result in results] == [2, 2]


def test_a_task_that_fails_or_is_killed_fails_alone() -> None:
    results, _ = run(2, Task(raise_input_error), Task(die), Task(crash), Task(double, (1,)))
    errors = ["the settings are wrong", "its process ended early (exit code -9)", "ZeroDivisionError: by zero", ""]
    assert [result.error for result in results] == errors
    assert results[3].value == 2


def test_a_task_that_is_not_ready_is_asked_for_again_when_another_has_ended() -> None:
    ended: list[Task] = []
    first, second = Task(double, (1,)), Task(double, (2,))
    waiting = [first, second]

    def next_task() -> Task | None:
        ready = waiting and (waiting[0] is first or first in ended)
        return waiting.pop(0) if ready else None

    ProcessPool(2).run(next_task, lambda task, result: ended.append(task))
    assert ended == [first, second]


def test_asked_to_stop_the_running_tasks_finish_and_no_other_starts(tmp_path: Path) -> None:
    assert stop_at_first_message(ProcessPool(1), tmp_path) == [TaskResult("stopped")]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_interrupt_ends_the_running_tasks_at_once(tmp_path: Path) -> None:
    processes: list[int] = []

    def interrupt(task: Task, process: int) -> None:
        processes.append(process)
        raise KeyboardInterrupt

    waiting = [Task(never_stop, (tmp_path / "a",))]
    with pytest.raises(KeyboardInterrupt):
        ProcessPool(1).run(lambda: waiting.pop() if waiting else None, lambda task, result: None, interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(processes[0], 0)
    assert not (tmp_path / "a").exists()


def test_tasks_end_with_their_parent(tmp_path: Path) -> None:
    script = tmp_path / "start.py"
    script.write_text(
        "import os, sys\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(__file__).parent.parent)!r})\n"
        "from clbr.training.processes import ProcessPool, Task\n"
        "from pool_tasks import run_until_stopped\n"
        "if __name__ == '__main__':\n"
        f"    tasks = [Task(run_until_stopped, (Path({str(tmp_path / 'saved')!r}),))]\n"
        "    print_it = lambda task, process: print(process, flush=True)\n"
        "    ProcessPool(1).run(lambda: tasks.pop() if tasks else None, lambda task, result: None, print_it)\n"
    )
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert int(parent.stdout.readline()) > 0
    parent.kill()
    parent.communicate()
    wait_for((tmp_path / "saved").exists)


def test_a_process_of_the_pool_ignores_ctrl_c_even_while_it_starts(tmp_path: Path) -> None:
    """In a process of its own: the first process that one starts is started in another manner than those after it."""
    script = tmp_path / "start.py"
    script.write_text(
        "import os, signal\n"
        "from multiprocessing import get_context\n"
        "from clbr.training.processes import start_ignoring_interrupts\n"
        "if __name__ == '__main__':\n"
        "    process = get_context('spawn').Process(target=os.getpid)\n"
        "    start_ignoring_interrupts(process)\n"
        "    os.kill(process.pid, signal.SIGINT)  # it is still importing\n"
        "    process.join()\n"
        "    hears = signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())\n"
        "    print(process.exitcode, hears)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "0 True\n"


def test_a_pool_without_workers_is_an_error() -> None:
    with pytest.raises(InputError, match="workers 0: expected 1 or more") as error:
        ProcessPool(0)
    assert error.value.arguments == ("workers",)
