"""Tables and progress bars on the terminal."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from clbr.counterfactual.samplers import Record
    from clbr.counterfactual.views import Extreme, RelationSummary
    from clbr.data.dataset import BundleDataset
    from clbr.data.describe import Description
    from clbr.evaluation.protocol import Evaluation
    from clbr.tuning.study import StudyRecord

UNEDITED = "The views are the factual graph: nothing was edited."
REDRAWN = "This run draws a new view for every epoch; the views shown are drawn by the same sampler."
NAMES = {"recall": "R", "ndcg": "NDCG", "hit": "hit", "mrr": "MRR", "map": "MAP", "coverage": "coverage"}


class OnProgress(Protocol):
    """Updates a progress bar."""

    def __call__(self, done: int, of: int | None = ...) -> None:
        """Set how much is done and, if given, the total."""


def console() -> Console:
    """Return the terminal. Text is printed without markup; piped output is not cut to a width."""
    out = Console(highlight=False, markup=False, emoji=False)
    return out if out.is_terminal else Console(width=1000, highlight=False, markup=False, emoji=False)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1: "1,204 users"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> None:
    """Print a table. The first `names` columns are aligned left, the others (numbers) right."""
    drawn = Table(box=None, pad_edge=False, header_style="dim")
    for index, column in enumerate(columns):
        drawn.add_column(column, justify="right" if index >= names else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    console().print(title, style="bold")
    console().print(drawn)


def _progress(*columns: ProgressColumn) -> Progress:
    """Return a bar on stderr, which is shown only if stderr is a terminal."""
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


@contextmanager
def progress(label: str, total: int | None) -> Iterator[OnProgress]:
    """Show a progress bar during the block; yields the function that updates it. `total` None: not known yet."""
    with _progress(TextColumn(label), BarColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task(label, total=total)

        def on_progress(done: int, of: int | None = total) -> None:
            bar.update(task, completed=done, total=of)

        yield on_progress


def describe(descriptions: Sequence["Description"]) -> None:
    """Print the statistics of data sets, one column each."""
    from clbr.data.describe import COUNTS, HELD_OUT

    first = descriptions[0]
    rows = [[count.replace("_", "-"), *(f"{d.count(count):,}" for d in descriptions)] for count in COUNTS]
    rows += [[f"  {part}", *(f"{d.split[part]:,}" for d in descriptions)] for part in first.split]
    table("Counts", ["", *(d.name for d in descriptions)], rows)

    rows = []
    for relation in first.relations:
        left, right = relation.split("_")
        densities = [f"{d.relations[relation].density:.3%}" for d in descriptions]
        rows.append([f"{relation.replace('_', '-')}: density", *densities])
        for side, of, per in (("left", right, left), ("right", left, right)):
            cells = [getattr(d.relations[relation], side) for d in descriptions]
            degrees = [f"{c.median:g}, {c.p90:g}, {c.max:,}" for c in cells]
            rows.append([f"  {of}s per {per}: median, 90th percentile, maximum", *degrees])
    table("\nDensity and degrees", ["", *(d.name for d in descriptions)], rows)
    rows = [[kind, *(f"{d.cold[kind]:,}" for d in descriptions)] for kind in first.cold]
    table("\nCold-start nodes", ["", *(d.name for d in descriptions)], rows)
    rows = [[label, *(f"{getattr(d.held_out, share):.1%}" for d in descriptions)] for share, label in HELD_OUT.items()]
    table("\nShares of validation and test pairs", ["", *(d.name for d in descriptions)], rows)
    for d in descriptions:
        for finding in d.warnings:
            options = ", ".join(f"--{argument.replace('_', '-')}" for argument in finding.arguments)
            hint = f" (clbr data import, {options})" if options else ""
            console().print(f"\n{d.name}, warning: {finding.message}{hint}.", style="yellow")
        for file, rows_merged in d.merged.items():
            if rows_merged:
                console().print(f"\n{d.name}: {rows_merged:,} repeated rows of {file} were merged")
        if d.published:
            console().print(f"\n{d.name}, beside {d.published.source}: {d.published.note}.")
            for count, (found, stated) in d.published.differences.items():
                console().print(f"  {count.replace('_', '-')}: {found:,} here, {stated:,} published")


def evaluations(title: str, results: "Mapping[str, Evaluation | dict[str, float]]", ks: Sequence[int]) -> None:
    """Print metrics in percent (popularity: mean number of training users), one column for each model."""
    rows = []
    for k in ks:
        for name, short in NAMES.items():
            rows.append([f"{short}@{k}", *(f"{100 * result[f'{name}@{k}']:.2f}" for result in results.values())])
        rows.append([f"popularity@{k}", *(f"{result[f'popularity@{k}']:.1f}" for result in results.values())])
    table(title, ["", *results], rows)


def views(title: str, lines: Sequence["RelationSummary"], records: Sequence["Record"]) -> None:
    """Print what views change, one column for each relation, and a warning for rules that pass most pairs."""
    from clbr.counterfactual.views import LENIENT, mean_pass_rates
    from clbr.graph.edits import RELATION_NAMES

    if not lines:
        console().print(title, style="bold")
        console().print(UNEDITED)
        return
    rows = [
        ["edges", *(f"{line.edges:,}" for line in lines)],
        ["added", *(f"{line.added:,.0f}" for line in lines)],
        [
            "  to users (bundles) without edges",
            *(f"{line.additions_to_isolated:.1%}" if line.added else "-" for line in lines),
        ],
        ["dropped", *(f"{line.dropped:,.0f}" for line in lines)],
        ["nodes whose degree changes", *(f"{line.nodes:.1%}" for line in lines)],
        ["  by, on average", *(f"{line.change:.2f}" for line in lines)],
        ["  at most, in any view", *(f"{line.largest:,}" for line in lines)],
        ["nodes left without an edge", *(f"{line.newly_isolated:,.0f}" for line in lines)],
        ["nodes that get their first edge", *(f"{line.newly_connected:,.0f}" for line in lines)],
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
                text = f"{RELATION_NAMES[relation]}, {kind}: {rate:.0%} of the scored pairs passed"
                console().print(f"\n{text}, more than half: the rule hardly selects; set {setting} nearer to 1.")


def extremes(dataset: "BundleDataset", edits: Sequence["Extreme"], scored_by: str) -> None:
    """Print edits of extreme relevance, with names if there are any. `scored_by` is the model that scored them."""
    nodes = {"u": dataset.users, "b": dataset.bundles, "i": dataset.items}
    for added, title in ((True, "Added, of the highest relevance"), (False, "Dropped, of the lowest relevance")):
        rows = []
        for edit in edits:
            if edit.added == added:
                left, right = (nodes[letter] for letter in edit.relation)
                pair = f"{left.kind} {left.label(edit.left)}  -  {right.kind} {right.label(edit.right)}"
                rows.append([pair, f"{edit.relevance:.3f}"])
        if rows:
            table(f"\n{title} to {scored_by}", ["", "relevance"], rows)


@contextmanager
def searching() -> Iterator[Callable[["StudyRecord"], None]]:
    """Show the progress of a search during the block; yields the function that updates it with the study's record."""
    with _progress(TextColumn("{task.description}"), TimeRemainingColumn()) as bar:
        task = bar.add_task("reading", total=None)

        def on_record(record: "StudyRecord") -> None:
            text = f"{record.model}: {record.finished} of {record.trials} trials, {record.pruned} pruned"
            best = "" if record.best is None else f", best {record.metric} {100 * record.best:.2f}"
            bar.update(task, description=text + best, completed=record.finished, total=record.trials)

        yield on_record


def study(title: str, record: "StudyRecord") -> None:
    """Print the cost of a search and its best settings."""
    rows = [
        ["trials", f"{record.finished:,} of {record.trials:,}"],
        ["  pruned", f"{record.pruned:,}"],
        ["  failed", f"{record.failed:,}"],
        ["epochs", f"{record.epochs:,}"],
        ["seconds", f"{record.seconds:,.1f}"],
    ]
    if record.best is not None:
        rows.append([f"best {record.metric} on validation, percent", f"{100 * record.best:.2f}"])
        rows += [[f"  {key}", str(value)] for key, value in record.best_settings.items()]
    table(title, ["", ""], rows)
