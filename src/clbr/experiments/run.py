"""Running a specification: of its cells those that are not done, and what judges their pairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clbr.data.dataset import BundleDataset
from clbr.experiments.cells import Cell, Placed, with_judges
from clbr.experiments.schedule import News, Scheduler
from clbr.experiments.store import Store
from clbr.experiments.work import fail
from clbr.train.folder import BEST
from clbr.train.run import locked


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
        if not store.is_done(cell) or (cell.key in needed and not (store.run(cell) / BEST).exists())
    ]


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
        cells = pending(store, placed)

        def hear(news: News) -> None:
            if news.state == "failed" and not store.is_done(news.cell):  # a judge that was done stays so
                fail(store, news.cell, news.error)
            heard(news)

        scheduler.run(folder, cells, hear, stop)
        wanted = {one.cell.key: store.read(one.cell) for one in placed}
    failed = {key: record.error for key, record in wanted.items() if record and record.state == "failed"}
    done = [key for key, record in wanted.items() if record and record.state == "done"]
    return Outcome(len(done), len(wanted), failed)
