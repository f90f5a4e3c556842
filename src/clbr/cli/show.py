"""How things look on the terminal."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from clbr.counterfactual.samplers import Record as Record_
    from clbr.counterfactual.views import Extreme, RelationSummary
    from clbr.data.dataset import BundleDataset
    from clbr.data.describe import Description
    from clbr.evaluation.protocol import Evaluation
    from clbr.training.config import RunConfig
    from clbr.training.loop import Epoch
    from clbr.training.run import Counters
    from clbr.tuning.study import Record

UNEDITED = "The views are the factual graph: nothing was edited."
REDRAWN = "This run draws a new view every epoch; these are drawn in the same way."
NAMES = {"recall": "R", "ndcg": "NDCG", "hit": "hit", "mrr": "MRR", "map": "MAP", "coverage": "coverage"}


class Hear(Protocol):
    """Told how much is done and, if that has become known, of how much."""

    def __call__(self, done: int, of: int | None = ...) -> None:
        """Update what people see."""


def console() -> Console:
    """The terminal. Names are shown as they are, never as markup; what is piped is never cut to a width."""
    out = Console(highlight=False, markup=False, emoji=False)
    return out if out.is_terminal else Console(width=1000, highlight=False, markup=False, emoji=False)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> None:
    """Print a table: the first columns name things, the others are numbers."""
    drawn = Table(box=None, pad_edge=False, header_style="dim")
    for index, column in enumerate(columns):
        drawn.add_column(column, justify="right" if index >= names else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    console().print(title, style="bold")
    console().print(drawn)


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Hear]:
    """A bar on stderr, for people only; gives a function that hears what is done, and of how much."""
    from rich.progress import BarColumn

    parts: list[ProgressColumn] = [TextColumn(what), BarColumn(), TimeRemainingColumn()]
    with Progress(*parts, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=total)

        def hear(done: int, of: int | None = total) -> None:
            bar.update(task, completed=done, total=of)

        yield hear


def describe(descriptions: Sequence["Description"]) -> None:
    """Table 1 and more, a column for each data set."""
    from clbr.data.describe import COUNTS

    first = descriptions[0]
    rows = [[what.replace("_", "-"), *(f"{d.count(what):,}" for d in descriptions)] for what in COUNTS]
    rows += [[f"  {part}", *(f"{d.split[part]:,}" for d in descriptions)] for part in first.split]
    table("Counts", ["", *(d.name for d in descriptions)], rows)

    rows = []
    for relation in first.relations:
        left, right = relation.split("_")
        densities = [f"{d.relations[relation].density:.3%}" for d in descriptions]
        rows.append([f"{relation.replace('_', '-')}: share of all pairs", *densities])
        for side, of, per in (("left", right, left), ("right", left, right)):
            cells = [getattr(d.relations[relation], side) for d in descriptions]
            degrees = [f"{c.median:g}, {c.p90:g}, {c.max:,}" for c in cells]
            rows.append([f"  {of}s per {per}: median, 90 %, most", *degrees])
    table("\nHow full, how even", ["", *(d.name for d in descriptions)], rows)
    rows = [[what, *(f"{d.cold[what]:,}" for d in descriptions)] for what in first.cold]
    table("\nCold", ["", *(d.name for d in descriptions)], rows)
    for d in descriptions:
        for file, rows_merged in d.merged.items():
            if rows_merged:
                console().print(f"\n{d.name}: {rows_merged:,} repeated rows of {file} were merged")
        if d.published:
            console().print(f"\n{d.name}, beside {d.published.source}: {d.published.note}.")
            for what, (found, stated) in d.published.differences.items():
                console().print(f"  {what.replace('_', '-')}: {found:,} here, {stated:,} published")


def evaluations(title: str, results: dict[str, "Evaluation"], ks: Sequence[int]) -> None:
    """Metrics in percent (popularity: training users), a row for each, a column for each recommender."""
    rows = []
    for k in ks:
        for name, short in NAMES.items():
            rows.append([f"{short}@{k}", *(f"{100 * result[f'{name}@{k}']:.2f}" for result in results.values())])
        rows.append([f"popularity@{k}", *(f"{result[f'popularity@{k}']:.1f}" for result in results.values())])
    table(title, ["", *results], rows)


def views(title: str, lines: Sequence["RelationSummary"], records: Sequence["Record_"]) -> None:
    """What views did, a column for each relation; means over the views. A rule that passes most pairs is told of."""
    from clbr.counterfactual.views import LENIENT, mean_pass_rates
    from clbr.graph.edits import RELATION_NAMES

    if not lines:
        console().print(title, style="bold")
        console().print(UNEDITED)
        return
    rows = [
        ["edges", *(f"{line.edges:,}" for line in lines)],
        ["added", *(f"{line.added:,.0f}" for line in lines)],
        ["  to users (bundles) without an edge", *(f"{line.to_bare:.1%}" if line.added else "-" for line in lines)],
        ["dropped", *(f"{line.dropped:,.0f}" for line in lines)],
        ["nodes whose degree changed", *(f"{line.nodes:.1%}" for line in lines)],
        ["  by, on average", *(f"{line.change:.2f}" for line in lines)],
        ["  at most, in any view", *(f"{line.largest:,}" for line in lines)],
        ["nodes left without an edge", *(f"{line.bared:,.0f}" for line in lines)],
        ["nodes that got a first edge", *(f"{line.reached:,.0f}" for line in lines)],
        ["edits shared by two views", *(f"{line.shared:.1%}" for line in lines)],
    ]
    passed = {"additions": mean_pass_rates(records, "additions"), "drops": mean_pass_rates(records, "drops")}
    for kind, rates in passed.items():
        if rates:
            cells = [f"{rates[line.relation]:.2%}" if line.relation in rates else "-" for line in lines]
            rows.append([f"pass rate of {kind}", *cells])
    table(title, ["mean over the views", *(RELATION_NAMES[line.relation] for line in lines)], rows)
    for kind, setting in (("additions", "upper"), ("drops", "lower")):
        for relation, rate in passed[kind].items():
            if rate > LENIENT:
                what = f"{RELATION_NAMES[relation]}, {kind}: {rate:.0%} of the pairs judged passed, more than half"
                console().print(f"\n{what}: too many for the rule to be a choice; set {setting} nearer to 1.")


def extremes(dataset: "BundleDataset", found: Sequence["Extreme"], judge: str) -> None:
    """Edits that stand out to a model, by name where there are names."""
    nodes = {"u": dataset.users, "b": dataset.bundles, "i": dataset.items}
    for added, title in ((True, "Added, of the highest relevance"), (False, "Dropped, of the lowest relevance")):
        rows = []
        for edit in found:
            if edit.added == added:
                left, right = (nodes[letter] for letter in edit.relation)
                what = f"{left.kind} {left.label(edit.left)}  -  {right.kind} {right.label(edit.right)}"
                rows.append([what, f"{edit.relevance:.3f}"])
        if rows:
            table(f"\n{title} to {judge}", ["", "relevance"], rows)


class Training:
    """The live lines of a training: epoch, validation, best, seconds an epoch, time left; losses below."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self.task = bar.add_task("", total=None)
        self.metric, self.told, self.losses, self.of, self.total = "", "", "", "", 0
        self.begun: int | None = None  # the epoch after which we look on, known once an epoch has ended
        self.done = 0

    def begin(self, config: "RunConfig") -> None:
        """Say what is trained."""
        self.metric, self.total = config.train.metric, config.train.epochs
        self.bar.update(self.task, total=self.total, description=config.model)

    def step(self, step: int, steps: int) -> None:
        """Move within the epoch."""
        told = f"{self.told} step {step}/{steps}{self.losses}"
        self.bar.update(self.task, completed=self.done + step / steps, description=told)

    def wait(self, folder: "Path") -> None:
        """Tell that another process trains the model that will judge pairs."""
        self.bar.update(self.task, description=f"another process trains {folder.name}; waiting for it")

    def selection_epoch(self, epoch: "Epoch", counters: "Counters") -> None:
        """Tell the outcome of an epoch of the model that will judge pairs."""
        self.epoch(epoch, counters, "selection model, ")

    def epoch(self, epoch: "Epoch", counters: "Counters", of: str = "") -> None:
        """Tell the epoch's outcome."""
        if of != self.of:
            self.of, self.begun = of, None
        validation = f"validation {100 * epoch.validation[self.metric]:.2f}, " if epoch.validation else ""
        best = f"best {100 * counters.best:.2f} at {counters.best_epoch}, " if counters.best_epoch else ""
        losses = ", ".join(f"{name} {value:.4f}" for name, value in _shares(epoch.losses).items())
        self.told = f"{of}epoch {epoch.number}: {validation}{best}{epoch.seconds:.1f} s an epoch,"
        self.losses = f"\n  losses: {losses}"
        self.begun = epoch.number - 1 if self.begun is None else self.begun
        self.done = epoch.number - self.begun  # a resumed run's earlier epochs took none of our time
        self.bar.update(
            self.task, completed=self.done, total=self.total - self.begun, description=self.told + self.losses
        )


def _shares(losses: Mapping[str, float]) -> dict[str, float]:
    """The terms of a loss, summed up to those that a line has room for: task, view and constraint."""
    sums: dict[str, float] = {}
    for name, value in losses.items():
        what = name.split()[0] if name.startswith(("view ", "constraint ")) else "task"
        sums[what] = sums.get(what, 0.0) + value
    return sums


@contextmanager
def training() -> Iterator[Training]:
    """A live display on stderr, for people only."""
    parts: list[ProgressColumn] = [TextColumn("{task.description}"), TimeRemainingColumn()]
    with Progress(*parts, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        yield Training(bar)


@contextmanager
def searching() -> Iterator[Callable[["Record"], None]]:
    """A live line on stderr, for people only; gives a function that hears a study's record."""
    parts: list[ProgressColumn] = [TextColumn("{task.description}"), TimeRemainingColumn()]
    with Progress(*parts, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("reading", total=None)

        def hear(record: "Record") -> None:
            told = f"{record.model}: {record.done} of {record.asked} trials, {record.pruned} pruned"
            best = "" if record.best is None else f", best {record.metric} {100 * record.best:.2f}"
            bar.update(task, description=told + best, completed=record.done, total=record.asked)

        yield hear


def study(title: str, record: "Record") -> None:
    """What a search cost, and what it found."""
    rows = [["trials", f"{record.done:,} of {record.asked:,}"], ["  pruned", f"{record.pruned:,}"]]
    rows += [
        ["  failed", f"{record.failed:,}"],
        ["epochs", f"{record.epochs:,}"],
        ["seconds", f"{record.seconds:,.1f}"],
    ]
    if record.best is not None:
        rows.append([f"best {record.metric} on validation, percent", f"{100 * record.best:.2f}"])
        rows += [[f"  {key}", str(value)] for key, value in record.best_settings.items()]
    table(title, ["", ""], rows)
