"""Run the cells of a specification: which are pending, in which processes, and what came of them."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Literal, Protocol

import torch

from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.experiments.cells import Cell, VariantCell, with_selection_cells
from clbr.experiments.store import Store
from clbr.experiments.work import fail, work
from clbr.training.loop import Epoch
from clbr.training.run import Callbacks, Counters, is_trained, locked
from clbr.training.runtime import start_deaf, use_threads

LOOK_SECONDS = 0.3


@dataclass(frozen=True)
class News:
    """What is heard of a cell: begun, an epoch further, or ended."""

    cell: Cell
    state: Literal["running", "done", "stopped", "failed"]
    epoch: int = 0
    best: float | None = None
    error: str = ""


class Scheduler(Protocol):
    """Runs cells, each after the one it needs."""

    def run(self, folder: Path, cells: Sequence[Cell], heard: Callable[[News], None], stop: Callable[[], bool]) -> None:
        """Run the cells into the store in `folder`; asked to stop, leave them so that they can be gone on with."""


class Local:
    """So many processes at once on this machine, which share its threads evenly."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise InputError(f"--workers {workers}: expected 1 or more")
        self.workers = workers
        self.threads = max(1, torch.get_num_threads() // workers)

    def run(self, folder: Path, cells: Sequence[Cell], heard: Callable[[News], None], stop: Callable[[], bool]) -> None:
        """A process for each cell: what it holds ends with it, and what kills it kills no other."""
        context = get_context("spawn")
        halt = context.Event()
        waiting, running, lost = list(cells), list[_Running](), dict[str, str]()
        try:
            while waiting or running:
                if stop():
                    halt.set()
                    waiting.clear()
                while len(running) < self.workers and (cell := _next(waiting, running, lost, heard)):
                    ours, theirs = context.Pipe(duplex=False)
                    asked = (folder, cell, theirs, halt, self.threads, os.getpid())
                    process = context.Process(target=_run, args=asked, daemon=True)
                    start_deaf(process)
                    theirs.close()  # so that its end is heard
                    running.append(_Running(cell, process, ours, News(cell, "running")))
                    heard(running[-1].last)
                wait([one.pipe for one in running], LOOK_SECONDS)
                ended = [one for one in running if one.listen(heard)]
                running = [one for one in running if one not in ended]
                lost |= {one.cell.key: one.last.error for one in ended if one.last.state != "done"}
        except KeyboardInterrupt:  # at once: what is lost is done again
            for one in running:
                one.process.terminate()
            raise
        finally:
            halt.set()
            for one in running:
                one.process.join()


@dataclass
class _Running:
    """A cell at work, and the last that was heard of it."""

    cell: Cell
    process: BaseProcess
    pipe: "Connection[None, News]"
    last: News

    def listen(self, heard: Callable[[News], None]) -> bool:
        """Pass on what it says; whether it has ended."""
        try:
            while self.pipe.poll():
                self.last = self.pipe.recv()
                heard(self.last)
        except EOFError:
            self.process.join()
            if self.last.state == "running":
                self.last = News(self.cell, "failed", error=f"its process ended early ({self.process.exitcode})")
                heard(self.last)
            return True
        return False


def _next(
    waiting: list[Cell], running: list[_Running], lost: dict[str, str], heard: Callable[[News], None]
) -> Cell | None:
    """Take the first cell whose judge is not still to come; those whose judge is lost, and why, are given up."""
    to_come = {cell.key for cell in waiting} | {one.cell.key for one in running}
    for cell in list(waiting):
        judge = cell.judge.key if cell.judge else None
        if judge in to_come:
            continue
        waiting.remove(cell)
        if judge not in lost:
            return cell
        lost[cell.key] = f"{judge}, which was to judge its pairs, failed: {lost[judge]}"
        heard(News(cell, "failed", error=lost[cell.key]))
    return None


def _run(folder: Path, cell: Cell, pipe: "Connection[News, None]", halt: Event, threads: int, parent: int) -> None:
    """A process's life; it ends with its parent, too."""
    use_threads(threads)

    def tell(news: News) -> None:
        with suppress(BrokenPipeError):  # nobody listens where the parent was killed
            pipe.send(news)

    def told(epoch: Epoch, counters: Counters) -> None:
        tell(News(cell, "running", epoch.number, counters.best if counters.best_epoch else None))

    hooks = Callbacks(epoch=told, stop=lambda: halt.is_set() or os.getppid() != parent)
    try:
        tell(News(cell, "done" if work(Store(folder), cell, hooks) else "stopped"))
    except Exception as error:  # whatever it is, it is this cell's affair, and the others go on
        why = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        tell(News(cell, "failed", error=why))


@dataclass(frozen=True)
class Outcome:
    """How many cells are done now, and what went wrong with the others."""

    done: int
    of: int
    failed: dict[str, str]


def pending(store: Store, placed: Sequence[VariantCell]) -> list[Cell]:
    """The cells to run, each once, after its judge. A judge that is done but has lost its weights runs again."""
    wanted = [one.cell for one in placed if not store.is_done(one.cell)]
    needed = {cell.judge.key for cell in wanted if cell.judge}
    return [
        cell
        for cell in with_selection_cells(wanted)
        if not store.is_done(cell) or (cell.key in needed and not _can_judge(store.run(cell)))
    ]


def _can_judge(folder: Path) -> bool:
    with suppress(InputError):  # what is damaged is told by the cell itself, once it is run
        return is_trained(folder)
    return False


def run(
    folder: Path,
    dataset: BundleDataset,
    placed: Sequence[VariantCell],
    scheduler: Scheduler,
    heard: Callable[[News], None] = lambda news: None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run what is not done yet; a cell that fails is kept with its error, and the rest go on."""
    store = Store(folder).open(dataset)
    with locked(folder):
        cells, broken = pending(store, placed), dict[str, str]()

        def hear(news: News) -> None:
            if news.state == "failed" and not store.is_done(news.cell):  # a judge that was done stays so
                broken[news.cell.key] = news.error
                with suppress(InputError):  # a full disk keeps nothing, not even that; the rest go on all the same
                    fail(store, news.cell, news.error)
            heard(news)

        scheduler.run(folder, cells, hear, stop)
        wanted = {one.cell.key: store.read(one.cell) for one in placed}
    failed = {key: record.error for key, record in wanted.items() if record and record.state == "failed"}
    failed |= {key: error for key, error in broken.items() if key in wanted}
    done = [key for key, record in wanted.items() if record and record.state == "done"]
    return Outcome(len(done), len(wanted), failed)
