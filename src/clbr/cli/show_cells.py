"""Tables and progress bars of an experiment on the terminal."""

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
    from clbr.experiments.runner import CellEvent


def label(one: "VariantCell") -> str:
    """Return a cell as text: model, variant, point and seed."""
    point = "".join(f", {key} {value}" for key, value in one.point.items())
    return f"{one.model}, {one.variant}{point}, seed {one.cell.config.seed}"


def labels(experiment: Sequence["VariantCell"], cells: Sequence["Cell"]) -> dict[str, str]:
    """Return the text of every cell by key; `cells` may have selection models that are not in the experiment."""
    selection = {cell.key: f"{cell.config.model}, selection model, seed {cell.config.seed}" for cell in cells}
    return selection | {one.cell.key: label(one) for one in reversed(experiment)}


def duration(seconds: float | None) -> str:
    """Return a rounded time as text."""
    if seconds is None:
        return "not known"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def plan(
    title: str,
    experiment: Sequence["VariantCell"],
    cells: Sequence["Cell"],
    seconds: dict[str, float | None],
    workers: int,
) -> None:
    """Print the cells to run and how long they may take."""
    from clbr.experiments.estimate import total_seconds

    keys = {one.cell.key for one in experiment}
    if not cells:
        print(f"{title}: all {len(keys)} cells are done; nothing to run")
        return
    names = labels(experiment, cells)
    table(title, ["to run", "about"], [[names[cell.key], duration(seconds[cell.key])] for cell in cells])
    done = len(keys - {cell.key for cell in cells})
    known = [value for value in seconds.values() if value is not None]
    unknown = f", and {len(cells) - len(known)} not known" if len(known) < len(cells) else ""
    at_once = f", {workers} at the same time" if workers > 1 else ""
    counts = f"{len(keys)} cells, {done} done; {len(cells)} to run{at_once}"
    print(f"{counts}: about {duration(total_seconds(known, workers))}{unknown}, less if training stops early")


@contextmanager
def running(
    title: str, experiment: Sequence["VariantCell"], cells: Sequence["Cell"]
) -> Iterator[Callable[["CellEvent"], None]]:
    """Show bars on stderr for all cells and for each running one; without a terminal, a line for each ended cell."""
    columns = [TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()]
    total, names = len(cells), labels(experiment, cells)
    is_terminal = sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not is_terminal) as bar:
        all_cells = bar.add_task(f"{title}: 0 of {total}", total=total)
        tasks: dict[str, TaskID] = {}
        ended = 0

        def on_event(event: "CellEvent") -> None:
            nonlocal ended
            key, name = event.cell.key, names[event.cell.key]
            best = "" if event.best is None else f", best on validation {100 * event.best:.2f}"
            if event.state == "running":
                if key not in tasks:
                    tasks[key] = bar.add_task(name, total=event.cell.config.train.epochs)
                bar.update(tasks[key], description=f"  {name}{best}", completed=event.epoch)
                return
            if key in tasks:
                bar.remove_task(tasks.pop(key))
            ended += 1
            bar.update(all_cells, completed=ended, description=f"{title}: {ended} of {total}")
            error = f": {event.error}" if event.error else ""
            bar.console.print(f"{name}: {event.state}{error}", markup=False, highlight=False, soft_wrap=True)

        yield on_event


def grid(shown: "Grid") -> None:
    """Print a table of a report. Bold cells have a star, which a pipe keeps."""
    rows = [[f"{cell.text} *" if cell.bold else cell.text for cell in row] for row in shown.rows]
    table(shown.title, shown.columns, rows, shown.name_columns)
    for line in (shown.caption, *shown.notes):
        console().print(line, style="dim", soft_wrap=True)
    print()
