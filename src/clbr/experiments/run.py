"""Running a specification: of its cells those that are not done, and what judges their pairs."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.experiments.cells import Cell, Placed, with_judges
from clbr.experiments.schedule import News, Scheduler
from clbr.experiments.store import Store
from clbr.experiments.work import fail
from clbr.train.run import is_trained, locked


@dataclass(frozen=True)
class Outcome:
    """How many cells are done now, and what went wrong with the others."""

    done: int
    of: int
    failed: dict[str, str]


def pending(store: Store, placed: Sequence[Placed]) -> list[Cell]:
    """The cells to run, each once, after its judge. A judge that is done but has lost its weights runs again."""
    wanted = [one.cell for one in placed if not store.is_done(one.cell)]
    needed = {cell.judge.key for cell in wanted if cell.judge}
    return [
        cell
        for cell in with_judges(wanted)
        if not store.is_done(cell) or (cell.key in needed and not _can_judge(store.run(cell)))
    ]


def _can_judge(folder: Path) -> bool:
    with suppress(InputError):  # what is damaged is told by the cell itself, once it is run
        return is_trained(folder)
    return False


def run(
    folder: Path,
    dataset: BundleDataset,
    placed: Sequence[Placed],
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
