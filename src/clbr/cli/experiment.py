"""clbr experiment: run specifications, and report what they gave."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clbr.cli.options import ctrl_c
from clbr.cli.train import Threads
from clbr.errors import InputError, found_in

if TYPE_CHECKING:
    from clbr.data.dataset import BundleDataset
    from clbr.experiments.cells import VariantCell
    from clbr.experiments.spec import Spec

app = typer.Typer(
    help="Run specifications of models, arms and seeds; report what they gave.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Specs = Annotated[list[Path], typer.Argument(metavar="SPEC", help="Specifications, as in experiments/.")]
Data = Annotated[Path, typer.Option("--data", help="A data folder.", show_default=False)]
Out = Annotated[Path | None, typer.Option("--out", help="Folder of the cells; cells/NAME if left out.")]
Seeds = Annotated[int | None, typer.Option(min=1, help="Instead of the specification's number.")]
Models = Annotated[str, typer.Option("--models", help="These only, separated by commas.")]
Arms = Annotated[str, typer.Option("--arms", help="These only, separated by commas.")]
Where = Annotated[list[str] | None, typer.Option("--where", help="key=value,value: of what varies these only.")]


@dataclass(frozen=True)
class Asked:
    """Specifications, the part of them that is wanted, the data and the place of the cells."""

    specs: list[Path]
    data: Path
    out: Path | None
    seeds: int | None
    models: str
    arms: str
    where: list[str] | None

    def plan(self) -> "tuple[BundleDataset, Path, list[tuple[Spec, list[VariantCell]]]]":
        """The data, where the cells lie, and the specifications, each with its cells that are wanted."""
        from clbr.data.folder import load
        from clbr.experiments.cells import expand, select
        from clbr.experiments.spec import read_spec

        specs = [read_spec(path) for path in self.specs]
        if self.seeds:
            specs = [spec.model_copy(update={"seeds": self.seeds}) for spec in specs]
        dataset = load(self.data)
        each = []
        for path, spec in zip(self.specs, specs, strict=True):
            with found_in(path):
                each.append(expand(spec, str(self.data.resolve()), dataset.fingerprint, dataset.name))
        every = [one for placed in each for one in placed]
        wanted = set(map(id, select(every, _names(self.models), _names(self.arms), _values(self.where or []))))
        parts = [[one for one in placed if id(one) in wanted] for placed in each]
        return dataset, self.out or Path("cells") / dataset.name, list(zip(specs, parts, strict=True))

    def typed(self, command: str, *more: str) -> str:
        """The command that asks another thing of the same."""
        options = ("data", "out", "seeds", "models", "arms")
        given = [word for name in options if (value := getattr(self, name)) for word in (f"--{name}", str(value))]
        chosen = [word for one in self.where or [] for word in ("--where", one)]
        return f"clbr experiment {command} {shlex.join([*map(str, self.specs), *given, *chosen, *more])}"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _values(texts: list[str]) -> dict[str, list[Any]]:
    from clbr.training.config import parse_changes

    wanted: dict[str, list[Any]] = {}
    for text in texts:
        key, _, values = (part.strip() for part in text.partition("="))
        each = [value.strip() for value in values.split(",")]
        if not (key and all(each)):
            raise InputError(f"--where {text}: expected key=value,value, for instance share=0.2,1")
        wanted.setdefault(key, []).extend(parse_changes([f"{key}={value}"])[key] for value in each)
    return wanted


@app.command(epilog="Example: clbr experiment run experiments/overall.toml --data Youshu --seeds 3 --workers 2")
def run(
    specs: Specs,
    data: Data,
    out: Out = None,
    seeds: Seeds = None,
    workers: Annotated[int, typer.Option(min=1, help="Cells at once; they share the threads.")] = 1,
    models: Models = "",
    arms: Arms = "",
    where: Where = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and how long they may take.")] = False,
    threads: Threads = None,
) -> None:
    """Run the cells of specifications that are not done yet. Can be stopped and started at any moment.

    A cell is a training: a model, a way to train, settings, a seed. A finished one is never run again, whichever
    specification asks for it; a half-run one goes on where it was; one that fails is kept with its error, and tried
    again by the same command. Of several specifications the first seeds come first.
    """
    from clbr.cli import show, show_cells
    from clbr.experiments.runner import Local, pending
    from clbr.experiments.runner import run as run_cells
    from clbr.experiments.store import Store
    from clbr.training.config import ineffective_edits
    from clbr.training.runtime import use_threads

    use_threads(threads)
    asked = Asked(specs, data, out, seeds, models, arms, where)
    dataset, folder, plans = asked.plan()
    placed = sorted((one for _, part in plans for one in part), key=lambda one: one.cell.config.seed)
    title = " · ".join(spec.title for spec, _ in plans)
    store, local = Store(folder), Local(workers)
    store.begun(dataset)
    cells = pending(store, placed)
    for idle in dict.fromkeys(idle for cell in placed for idle in ineffective_edits(cell.cell.config)):
        typer.echo(f"warning: {idle}", err=True)
    if dry_run:
        from clbr.experiments.estimate import estimate

        use_threads(local.threads)  # as many as each worker has
        with show.progress("timing a few steps of each model", len(cells)) as timed:
            seconds = estimate(store, placed, cells, dataset, timed)
        show_cells.plan(title, placed, cells, seconds, workers)
        return
    told = show_cells.running(title, placed, cells)
    with ctrl_c("finishing these epochs, then saving") as stopped, told as heard:
        outcome = run_cells(folder, dataset, placed, local, heard, stopped)
    typer.echo(f"{folder}: {outcome.done} of {outcome.of} cells done")
    if stopped():
        typer.echo("go on: the same command again")
        raise typer.Exit(130)
    if outcome.failed:
        key, error = next(iter(outcome.failed.items()))
        raise InputError(f"{len(outcome.failed)} of {outcome.of} cells failed, for instance {key}: {error}")
    typer.echo(f"next: {asked.typed('report')}")


@app.command(epilog="Example: clbr experiment report experiments/overall.toml --data Youshu --seeds 3")
def report(
    specs: Specs,
    data: Data,
    out: Out = None,
    seeds: Seeds = None,
    models: Models = "",
    arms: Arms = "",
    where: Where = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder of the report; CELLS/reports/SPEC if left out.")
    ] = None,
) -> None:
    """Tell what a specification gave so far: tables here, and a page, Markdown, CSV, LaTeX and figures in a folder.

    Cells that were not run or failed are shown as such. The same cells always make the same files. Of several
    specifications each has its report, once a cell of it is done.
    """
    from clbr.cli import show, show_cells
    from clbr.experiments.report.page import Report
    from clbr.experiments.report.results import Results
    from clbr.experiments.report.tables import measured
    from clbr.experiments.store import Store

    asked = Asked(specs, data, out, seeds, models, arms, where)
    dataset, folder, plans = asked.plan()
    places = [to or folder / "reports" / path.stem for path in specs]
    if twice := [place for place in places if places.count(place) > 1]:
        raise InputError(f"{twice[0]}: a folder is for one report; report one specification after the other")
    if not (folder / "about.json").exists():
        raise InputError(f"{folder}: no cells there, so there is nothing to report; first: {asked.typed('run')}")
    store = Store(folder).open(dataset)
    commands = [asked.typed("run"), asked.typed("report", *(("--to", str(to)) if to else ()))]
    idle, refused = [], []
    for path, place, (spec, placed) in zip(specs, places, plans, strict=True):
        try:
            if len(specs) > 1 and not any(store.is_done(one.cell) for one in placed):
                idle.append(f"{path}: no cell is done, so there is nothing to report")
                continue
            results = Results(spec, dataset, placed, store)
            with show.progress(f"drawing {path.stem}", None) as heard:
                made = Report(results, commands, heard)
            files = made.write(place, path.stem)
        except InputError as error:  # the others are made all the same
            refused.append(f"{path}: {error}")
            continue
        for grid in (measured(results, made.comparisons, "with a star"), *made.grids[1:], made.cost):
            show_cells.grid(grid)
        typer.echo("\n".join(str(file) for file in files))
    if refused or len(idle) == len(specs):
        raise InputError("; ".join(refused + idle))
    for told in idle:
        typer.echo(told, err=True)
