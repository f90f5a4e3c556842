"""Live display of a training on stderr, for the command line and for Python."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from clbr.training.config import RunConfig
from clbr.training.loop import Epoch, selecting_pairs, selecting_value
from clbr.training.run import Callbacks, Counters

LINE_SECONDS = 3.0
"""Time between two lines in a file or a pipe."""


class TrainingDisplay:
    """Lines that change during a training: epoch, validation, best, seconds, time left; the losses below."""

    def __init__(self, bar: Progress, prints_lines: bool = False) -> None:
        self.bar, self.prints_lines = bar, prints_lines
        self.task = bar.add_task("", total=None)
        self.metric, self.epochs = "", 0
        self.summary, self.losses = "", ""  # of the last epoch
        self.model = ""  # prefix: empty, or that the selection model is trained
        self.before: int | None = None  # epochs before those displayed, known after the first epoch
        self.done = 0
        self.printed = monotonic()  # when the last line was printed, or this was made

    def begin(self, config: RunConfig) -> None:
        """Set what is trained."""
        self.metric, self.epochs = config.train.metric, config.train.epochs
        self.summary = f"{config.model},"
        self.bar.update(self.task, total=self.epochs, description=config.model)

    def on_step(self, step: int, steps: int) -> None:
        """Show the progress within an epoch."""
        text = f"{self.summary} step {step}/{steps}{self.losses}"
        self.bar.update(self.task, completed=self.done + step / steps, description=text)
        self._print_line(f"{self.summary} step {step}/{steps}".strip())

    def on_wait(self, folder: Path) -> None:
        """Show that another process trains the selection model."""
        self.bar.update(self.task, description=f"waiting for another process, which trains {folder.name}")

    def on_selection_epoch(self, epoch: Epoch, counters: Counters) -> None:
        """Show the result of an epoch of the selection model."""
        self._show_epoch(epoch, counters, "selection model, ")

    def on_epoch(self, epoch: Epoch, counters: Counters) -> None:
        """Show the result of an epoch."""
        self._show_epoch(epoch, counters, "")

    def callbacks(
        self,
        should_stop: Callable[[], bool] = lambda: False,
        on_epoch: Callable[[Epoch, Counters], None] = lambda epoch, counters: None,
    ) -> Callbacks:
        """Return the callbacks of a run that update this display; `on_epoch` is called before it shows an epoch."""

        def show_epoch(epoch: Epoch, counters: Counters) -> None:
            on_epoch(epoch, counters)
            self.on_epoch(epoch, counters)

        return Callbacks(show_epoch, self.on_selection_epoch, self.on_step, should_stop, self.on_wait)

    def _show_epoch(self, epoch: Epoch, counters: Counters, model: str) -> None:
        if model != self.model:
            self.model, self.before = model, None
        pairs = selecting_pairs(epoch.validation, self.metric)
        value = f"{100 * selecting_value(epoch.validation, self.metric):.2f}" if epoch.validation else ""
        validation = f"validation{f' ({pairs})' if pairs else ''} {value}, " if value else ""
        best = f"best {100 * counters.best:.2f} at {counters.best_epoch}, " if counters.best_epoch else ""
        losses = ", ".join(f"{name} {value:.4f}" for name, value in _summed(epoch.losses).items())
        self.summary = f"{model}epoch {epoch.number}: {validation}{best}{epoch.seconds:.1f} s per epoch,"
        self.losses = f"\n  losses: {losses}" if losses else ""
        self.before = epoch.number - 1 if self.before is None else self.before
        self.done = epoch.number - self.before  # earlier epochs of a resumed run took no time here
        text = self.summary + self.losses
        self.bar.update(self.task, completed=self.done, total=self.epochs - self.before, description=text)
        self._print_line(self.summary.rstrip(","))

    def _print_line(self, text: str) -> None:
        """Print a line every few seconds where nothing can be redrawn: in a file or a pipe."""
        now = monotonic()
        if self.prints_lines and now - self.printed >= LINE_SECONDS:
            self.printed = now
            self.bar.console.print(text, highlight=False, soft_wrap=True)


def _summed(losses: Mapping[str, float]) -> dict[str, float]:
    """Sum the terms of a loss into those that a line has room for: task, view and constraint."""
    sums: dict[str, float] = {}
    for name, value in losses.items():
        group = name.split()[0] if name.startswith(("view ", "constraint ")) else "task"
        sums[group] = sums.get(group, 0.0) + value
    return sums


@contextmanager
def training_display(enabled: bool | None = None) -> Iterator[TrainingDisplay]:
    """Show a live display on stderr during the block. `enabled` None: only if stderr is a terminal.

    If it is enabled and stderr is a file or a pipe, a line is printed every few seconds.
    """
    enabled = sys.stderr.isatty() if enabled is None else enabled
    columns: list[ProgressColumn] = [TextColumn("{task.description}"), TimeRemainingColumn()]
    console = Console(stderr=True)
    live = console.is_terminal or console.is_jupyter
    with Progress(*columns, console=console, transient=True, disable=not (enabled and live)) as bar:
        yield TrainingDisplay(bar, prints_lines=enabled and not live)
