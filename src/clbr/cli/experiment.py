"""clbr experiment: run specifications and report their results."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clbr.cli.options import On, Threads, out_option, parse_changes, require_path
from clbr.errors import InputError, found_in
from clbr.files import is_url, portable

if TYPE_CHECKING:
    from clbr.data.dataset import BundleDataset
    from clbr.experiments.cells import Cell, VariantCell
    from clbr.experiments.report.page import Report
    from clbr.experiments.spec import Spec
    from clbr.experiments.store import Store

app = typer.Typer(
    help="Run specifications of models, variants and seeds; report their results.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Specs = Annotated[list[Path], typer.Argument(metavar="SPEC", help="Specifications, as in experiments/.")]
Data = Annotated[str, typer.Option("--data", metavar="PATH", help="A data folder, or its URL.", show_default=False)]
Out = Annotated[Path | None, out_option("Folder of the cells; cells/NAME if left out.")]
Seeds = Annotated[int | None, typer.Option(min=1, help="Instead of the specification's number.")]
Models = Annotated[str, typer.Option("--models", help="Only these, separated by commas.")]
Variants = Annotated[str, typer.Option("--variants", help="Only these, separated by commas.")]
Where = Annotated[list[str] | None, typer.Option("--where", help="key=value,value: only these of a varied setting.")]


@dataclass(frozen=True)
class Plan:
    """The data set, the folder of the cells, and the specifications, each with its selected cells."""

    dataset: "BundleDataset"
    folder: Path
    parts: list[tuple["Spec", list["VariantCell"]]]

    @property
    def title(self) -> str:
        """The titles of all specifications."""
        return " · ".join(spec.title for spec, _ in self.parts)

    def cells(self) -> list["VariantCell"]:
        """Return the cells of all specifications, ordered by seed."""
        return sorted((one for _, part in self.parts for one in part), key=lambda one: one.cell.config.seed)


@dataclass(frozen=True)
class Options:
    """The options that `run` and `report` share."""

    specs: list[Path]
    data: str
    out: Path | None
    seeds: int | None
    models: str
    variants: str
    where: list[str] | None

    def plan(self) -> Plan:
        """Read the specifications and the data, and select the cells."""
        from clbr.data.folder import load
        from clbr.experiments.cells import expand, select
        from clbr.experiments.spec import read_spec

        specs = [read_spec(path) for path in self.specs]
        if self.seeds:
            specs = [spec.model_copy(update={"seeds": self.seeds}) for spec in specs]
        dataset = load(self.data)
        expanded = []
        for path, spec in zip(self.specs, specs, strict=True):
            with found_in(path):
                folder = self.data if is_url(self.data) else str(Path(self.data).resolve())
                expanded.append(expand(spec, folder, dataset.fingerprint, dataset.name, dataset))
        every = [one for cells in expanded for one in cells]
        where = _parse_where(self.where or [])
        selected = set(map(id, select(every, _names(self.models), _names(self.variants), where)))
        parts = [[one for one in cells if id(one) in selected] for cells in expanded]
        return Plan(dataset, self.out or Path("cells") / dataset.name, list(zip(specs, parts, strict=True)))

    def command(self, name: str, to: Path | None = None, written: Callable[[Path], str] = str) -> str:
        """Return the command line of `run` or `report` with these options; `written` gives the text of a path."""
        data = self.data if is_url(self.data) else written(Path(self.data))
        options: dict[str, object] = {"data": data, "out": written(self.out) if self.out else None}
        options |= {"seeds": self.seeds, "models": self.models, "variants": self.variants}
        given = [word for key, value in options.items() if value for word in (f"--{key}", str(value))]
        where = [word for one in self.where or [] for word in ("--where", one)]
        last = ["--to", written(to)] if to else []
        return f"clbr experiment {name} {shlex.join([*map(written, self.specs), *given, *where, *last])}"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _parse_where(texts: list[str]) -> dict[str, list[Any]]:
    """Parse the key=value,value texts of --where."""
    where: dict[str, list[Any]] = {}
    for text in texts:
        key, _, values = (part.strip() for part in text.partition("="))
        each = [value.strip() for value in values.split(",")]
        if not (key and all(each)):
            raise InputError(f"--where {text}: expected key=value,value, for instance share=0.2,1")
        where.setdefault(key, []).extend(parse_changes([f"{key}={value}"])[key] for value in each)
    return where


@app.command(epilog="Example: clbr experiment run experiments/overall.toml --data Youshu --seeds 3 --workers 2")
def run(
    specs: Specs,
    data: Data,
    out: Out = None,
    seeds: Seeds = None,
    workers: Annotated[int, typer.Option(min=1, help="Cells at the same time; they share the threads.")] = 1,
    on: On = "local",
    models: Models = "",
    variants: Variants = "",
    where: Where = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and estimate how long they take.")] = False,
    threads: Threads = None,
) -> None:
    """Run the cells of specifications that are not done yet. It can be stopped and started again at any time.

    A cell is one training: a model, a training strategy, settings and a seed. A cell that is done is never run again,
    whichever specification contains it; an interrupted one is resumed; a failed one is recorded with its error, and
    the same command tries it again. The first seeds of all specifications are run first.
    """
    from clbr.cli import show_cells
    from clbr.experiments.runner import pending, run_cells
    from clbr.experiments.store import Store
    from clbr.training.ray_engine import make_engine
    from clbr.training.runtime import interruptible, use_threads

    use_threads(threads)
    options = Options(specs, data, out, seeds, models, variants, where)
    plan = options.plan()
    cells = plan.cells()
    store = Store(plan.folder)
    store.is_started(plan.dataset)  # raises an error if the folder holds anything else
    to_run = pending(store, cells)
    _print_notes(plan)
    if dry_run:
        _print_estimate(plan, store, to_run, workers)
        return
    display = show_cells.running(plan.title, cells, to_run)
    interrupted = interruptible("finishing these epochs, then saving")
    with make_engine(on if to_run else "local", workers) as engine, interrupted as should_stop, display as on_event:
        summary = run_cells(plan.folder, plan.dataset, cells, engine, on_event, should_stop)
    typer.echo(f"{plan.folder}: {summary.done} of {summary.total} cells done")
    if should_stop():
        typer.echo("resume: the same command again")
        raise typer.Exit(130)
    if summary.failed:
        key, error = next(iter(summary.failed.items()))
        raise InputError(f"{len(summary.failed)} of {summary.total} cells failed, for example {key}: {error}")
    typer.echo(f"next: {options.command('report')}")


def _print_estimate(plan: Plan, store: "Store", to_run: list["Cell"], workers: int) -> None:
    """Print the cells to run and how long they may take."""
    from clbr.cli import show, show_cells
    from clbr.experiments.estimate import estimate_seconds
    from clbr.training.processes import ProcessPool
    from clbr.training.runtime import use_threads

    use_threads(ProcessPool(workers).threads)  # as many as a worker has
    with show.progress("timing a few steps of each model", len(to_run)) as on_progress:
        seconds = estimate_seconds(store, plan.cells(), to_run, plan.dataset, on_progress)
    show_cells.plan(plan.title, plan.cells(), to_run, seconds, workers)


def _print_notes(plan: Plan) -> None:
    """Print the presets of the models, and warnings about edits without effect."""
    from clbr.training.config import PAPER_CONSTRAINT, ineffective_edits, preset_notes

    notes: dict[str, None] = {}
    warnings: dict[str, None] = {}
    for spec, cells in plan.parts:
        for one in cells:
            config = one.cell.config
            found = preset_notes(
                one.model, spec.preset_of(one.model, spec.variants[one.variant]), plan.dataset.name, config.paradigm
            )
            if config.views and config.views.constraint == PAPER_CONSTRAINT:  # the variant sets it
                found = found[:1]
            notes |= dict.fromkeys(f"{one.model}: {note}" for note in found)
            warnings |= dict.fromkeys(ineffective_edits(config))
    for line in (*notes, *(f"warning: {warning}" for warning in warnings)):
        typer.echo(line, err=True)


@app.command(epilog="Example: clbr experiment report experiments/overall.toml --data Youshu --seeds 3")
def report(
    specs: Specs,
    data: Data,
    out: Out = None,
    seeds: Seeds = None,
    models: Models = "",
    variants: Variants = "",
    where: Where = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Folder of the report; CELLS/reports/SPEC if left out.", callback=require_path),
    ] = None,
) -> None:
    """Report the results so far: tables here, and an HTML page, Markdown, CSV, LaTeX and figures in a folder.

    Cells that were not run or failed are shown as such. Equal cells give identical files. With several specifications,
    each one with a cell that is done has its own report.
    """
    from clbr.experiments.store import Store

    options = Options(specs, data, out, seeds, models, variants, where)
    plan = options.plan()
    folders = [to or plan.folder / "reports" / path.stem for path in specs]
    if repeated := [folder for folder in folders if folders.count(folder) > 1]:
        raise InputError(f"{repeated[0]}: two reports cannot share a folder; report one specification at a time")
    if not (plan.folder / "about.json").exists():
        raise InputError(
            f"{plan.folder}: no cells there, so there is nothing to report; first: {options.command('run')}"
        )
    store = Store(plan.folder).open(plan.dataset)
    commands = [options.command("run", written=portable), options.command("report", to, portable)]
    empty, errors, arguments = list[str](), list[str](), list[str]()
    for path, folder, (spec, cells) in zip(specs, folders, plan.parts, strict=True):
        try:
            if len(specs) > 1 and not any(store.is_done(one.cell) for one in cells):
                empty.append(f"{path}: no cell is done, so there is nothing to report")
                continue
            made = _make_report(path, spec, cells, plan.dataset, store, commands)
            files = made.write(folder, path.stem)
        except InputError as error:  # the other reports are still made
            errors.append(f"{path}: {error}")
            arguments += error.arguments
            continue
        _print_report(made)
        typer.echo("\n".join(str(file) for file in files))
    if errors or len(empty) == len(specs):
        raise InputError("; ".join(errors + empty), *dict.fromkeys(arguments))
    for line in empty:
        typer.echo(line, err=True)


def _make_report(
    path: Path,
    spec: "Spec",
    cells: list["VariantCell"],
    dataset: "BundleDataset",
    store: "Store",
    commands: list[str],
) -> "Report":
    from clbr.cli import show
    from clbr.experiments.report.page import Report
    from clbr.experiments.report.results import Results

    results = Results(spec, dataset, cells, store)
    with show.progress(f"drawing {path.stem}", None) as on_progress:
        return Report(results, commands, on_progress)


def _print_report(report: "Report") -> None:
    from clbr.cli import show_cells
    from clbr.experiments.report.tables import measured_table, pairs_table

    measured = measured_table(report.results, report.comparisons, "Star")
    pairs = pairs_table(report.results, report.pairwise, "Star")
    for grid in (measured, *report.grids[1:], *([pairs] if pairs else []), report.cost):
        show_cells.grid(grid)
