"""Run the cells of an experiment: which ones are pending, in which order, and how each of them ended."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.experiments.cell_run import run_cell
from clbr.experiments.cells import Cell, VariantCell, with_selection_cells
from clbr.experiments.store import Store
from clbr.files import lock
from clbr.training.loop import Epoch
from clbr.training.processes import Engine, Task, TaskLink, TaskResult
from clbr.training.ray_engine import check_folders
from clbr.training.run import Callbacks, Counters, is_trained


@dataclass(frozen=True)
class CellEvent:
    """A change of a cell: it started, finished an epoch, or ended."""

    cell: Cell
    state: Literal["running", "done", "stopped", "failed"]
    epoch: int = 0
    best: float | None = None
    """The best value so far of the metric on validation."""
    error: str = ""


OnEvent = Callable[[CellEvent], None]


@dataclass(frozen=True)
class RunSummary:
    """The number of cells that are done, out of `total`, and the errors of the failed ones by key."""

    done: int
    total: int
    failed: dict[str, str]


def run_cells(
    folder: Path,
    dataset: BundleDataset,
    cells: Sequence[VariantCell],
    engine: Engine,
    on_event: OnEvent = lambda event: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> RunSummary:
    """Run the cells that are not done yet, into the store in `folder`.

    A cell that fails is recorded with its error, and the others continue. `engine` is `ProcessPool(workers)`, or
    one that `make_engine` yields.
    """
    store = Store(folder).open(dataset)
    with lock(folder):
        queue = CellQueue(store, pending(store, cells), on_event)
        if queue.waiting:
            check_folders(engine, folder, sorted({cell.config.data for cell in queue.waiting}))
        engine.run(queue.next_task, queue.on_end, queue.on_message, should_stop)
        records = {one.cell.key: store.read(one.cell) for one in cells}
    failed = {key: record.error for key, record in records.items() if record and record.state == "failed"}
    failed |= {key: error for key, error in queue.failed.items() if key in records}
    done = [key for key, record in records.items() if record and record.state == "done"]
    return RunSummary(len(done), len(records), failed)


def pending(store: Store, cells: Sequence[VariantCell]) -> list[Cell]:
    """Return the cells to run, each once, and each after the cell of its selection model.

    A selection model that is done but has lost its weights is trained again.
    """
    missing = [one.cell for one in cells if not store.is_done(one.cell)]
    needed = {cell.selection_cell.key for cell in missing if cell.selection_cell}
    return [
        cell
        for cell in with_selection_cells(missing)
        if not store.is_done(cell) or (cell.key in needed and not _has_weights(store.run_folder(cell)))
    ]


def _has_weights(run: Path) -> bool:
    with suppress(InputError):  # a damaged run raises the error again when its cell is run
        return is_trained(run)
    return False


class CellQueue:
    """The cells to run, in order. A cell is ready once the cell of its selection model has ended."""

    def __init__(self, store: Store, cells: Sequence[Cell], on_event: OnEvent) -> None:
        self.store, self.on_event = store, on_event
        self.waiting = list(cells)
        self.unfinished = {cell.key for cell in cells}
        self.errors: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        """Errors of the cells that have no results."""

    def next_task(self) -> Task | None:
        """Take the first cell that is ready; None if there is none. Cells whose selection model failed fail, too."""
        for cell in list(self.waiting):
            selection = cell.selection_cell.key if cell.selection_cell else None
            if selection in self.unfinished:
                continue
            self.waiting.remove(cell)
            if selection in self.errors:
                self._fail(cell, f"its selection model {selection} failed: {self.errors[selection]}")
                continue
            self.on_event(CellEvent(cell, "running"))
            return Task(run_cell_task, (self.store.folder.absolute(), cell))  # a worker may have another directory
        return None

    def on_message(self, task: Task, event: CellEvent) -> None:
        """Pass on an event that a running cell has sent."""
        self.on_event(event)

    def on_end(self, task: Task, result: TaskResult) -> None:
        """Note how a cell has ended: its task returned whether it is done, or failed with an error."""
        _, cell = task.arguments
        if result.error:
            self._fail(cell, result.error)
        elif result.value:
            self.unfinished.discard(cell.key)
            self.on_event(CellEvent(cell, "done"))
        else:
            self.on_event(CellEvent(cell, "stopped"))

    def _fail(self, cell: Cell, error: str) -> None:
        self.unfinished.discard(cell.key)
        self.errors[cell.key] = error
        if not self.store.is_done(cell):  # a selection model that was done keeps its record
            self.failed[cell.key] = error
            with suppress(InputError):  # nothing can be written to a full disk; the other cells continue
                self.store.write_failure(cell, error)
        self.on_event(CellEvent(cell, "failed", error=error))


def run_cell_task(link: TaskLink, folder: Path, cell: Cell) -> bool:
    """Run a cell into the store in `folder`, with a `CellEvent` sent after each epoch. Return whether it is done."""

    def on_epoch(epoch: Epoch, counters: Counters) -> None:
        link.send(CellEvent(cell, "running", epoch.number, counters.best if counters.best_epoch else None))

    return run_cell(Store(folder), cell, Callbacks(on_epoch=on_epoch, should_stop=link.should_stop))
