"""How an experiment's cells look on the terminal."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from clbr.cli.show import console, table

if TYPE_CHECKING:
    from clbr.experiments.cells import Cell, VariantCell
    from clbr.experiments.report.grid import Grid
    from clbr.experiments.runner import News


def label(one: "VariantCell") -> str:
    """A cell in words."""
    point = "".join(f", {key} {value}" for key, value in one.point.items())
    return f"{one.model}, {one.arm}{point}, seed {one.cell.config.seed}"


def labels(placed: Sequence["VariantCell"], cells: Sequence["Cell"]) -> dict[str, str]:
    """Every cell in words, by its key; those that only judge pairs for others, too."""
    told = {cell.key: f"{cell.config.model}, to judge pairs, seed {cell.config.seed}" for cell in cells}
    return told | {one.cell.key: label(one) for one in reversed(placed)}


def duration(seconds: float | None) -> str:
    """In words, roughly."""
    if seconds is None:
        return "not known"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def plan(
    title: str, placed: Sequence["VariantCell"], cells: Sequence["Cell"], seconds: dict[str, float | None], workers: int
) -> None:
    """What there is to run, and how long it may take."""
    from clbr.experiments.estimate import whole

    told = labels(placed, cells)
    table(title, ["to run", "about"], [[told[cell.key], duration(seconds[cell.key])] for cell in cells])
    distinct = len({one.cell.key for one in placed})
    done = distinct - len({one.cell.key for one in placed} & {cell.key for cell in cells})
    known = [value for value in seconds.values() if value is not None]
    unknown = f", and {len(cells) - len(known)} not known" if len(known) < len(cells) else ""
    at_once = f", {workers} at once" if workers > 1 else ""
    counted = f"{distinct} cells, {done} done; {len(cells)} to run{at_once}"
    print(f"{counted}: about {duration(whole(known, workers))}{unknown}, less where training stops early")


@contextmanager
def running(title: str, placed: Sequence["VariantCell"], cells: Sequence["Cell"]) -> Iterator[Callable[["News"], None]]:
    """Live bars on stderr, for the whole and for each cell at work; without a terminal a line for each cell's end."""
    parts = [TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()]
    total, told = len(cells), labels(placed, cells)
    live = sys.stderr.isatty()
    with Progress(*parts, console=Console(stderr=True), transient=True, disable=not live) as bar:
        whole = bar.add_task(f"{title}: 0 of {total}", total=total)
        tasks: dict[str, TaskID] = {}
        ended = 0

        def hear(news: "News") -> None:
            nonlocal ended
            key, name = news.cell.key, told[news.cell.key]
            best = "" if news.best is None else f", best on validation {100 * news.best:.2f}"
            if news.state == "running":
                if key not in tasks:
                    tasks[key] = bar.add_task(name, total=news.cell.config.train.epochs)
                bar.update(tasks[key], description=f"  {name}{best}", completed=news.epoch)
                return
            if key in tasks:
                bar.remove_task(tasks.pop(key))
            ended += 1
            bar.update(whole, completed=ended, description=f"{title}: {ended} of {total}")
            error = f": {news.error}" if news.error else ""
            bar.console.print(f"{name}: {news.state}{error}", markup=False, highlight=False, soft_wrap=True)

        yield hear


def grid(told: "Grid") -> None:
    """A table of a report; what is bold elsewhere has a star here, which is seen in a pipe, too."""
    rows = [[f"{cell.text} *" if cell.bold else cell.text for cell in row] for row in told.rows]
    table(told.title, told.columns, rows, told.names)
    for line in (told.caption, *told.notes):
        console().print(line, style="dim", soft_wrap=True)
    print()
