"""Several processes that work on one study. They take turns from a common counter and meet in the journal."""

import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path

import torch

from clbr.data.folder import load
from clbr.errors import InputError
from clbr.training.runtime import start_deaf, use_threads
from clbr.tuning.study import Aim, open_study
from clbr.tuning.trial import work

LOOK_SECONDS = 0.3


def work_in_processes(
    folder: Path,
    aim: Aim,
    data: Path,
    turns: Sequence[int],
    workers: int,
    stop: Callable[[], bool],
    look: Callable[[], None],
) -> None:
    """Run the trials of these turns in so many processes, which share this one's threads; `look` as they go."""
    context = get_context("spawn")
    halt, taken = context.Event(), context.Value("i", 0)
    threads = max(1, torch.get_num_threads() // workers)
    arguments = (folder, aim, data, list(turns), taken, halt, threads, os.getpid())
    processes = [context.Process(target=_work, args=arguments, daemon=True) for _ in range(workers)]
    for process in processes:
        start_deaf(process)
    try:
        while alive := [process.sentinel for process in processes if process.exitcode is None]:
            wait(alive, LOOK_SECONDS)
            if stop() or any(process.exitcode for process in processes):
                halt.set()
            look()
    finally:
        halt.set()
        for process in processes:
            process.join()
    if any(process.exitcode for process in processes):
        codes = ", ".join(str(process.exitcode) for process in processes)
        raise InputError(f"{folder}: a worker ended early (exit codes {codes}); the same command goes on")


def _work(
    folder: Path,
    aim: Aim,
    data: Path,
    turns: list[int],
    taken: "Synchronized[int]",
    halt: Event,
    threads: int,
    parent: int,
) -> None:
    """One worker's life; it ends with its parent, too."""
    use_threads(threads)

    def stop() -> bool:
        return halt.is_set() or os.getppid() != parent

    try:
        dataset, study = load(data), open_study(folder, aim)
        if dataset.fingerprint != aim.fingerprint:
            raise InputError(f"{data}: has changed since the search began")
        while not stop():
            with taken.get_lock():
                mine = turns[taken.value : taken.value + 1]
                taken.value += 1
            if not mine:
                return
            work(folder, study, aim, dataset, mine, stop)
    except (InputError, OSError) as error:
        sys.exit(f"error: {error}")
