"""clbr tune: search for a model's hyperparameters."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clbr.cli.options import On, Threads, out_option, parse_changes

if TYPE_CHECKING:
    from clbr.tuning.study import StudyRecord

EXAMPLE = "Example: clbr tune shop --model crosscbr --trials 30 --epochs 40 --workers 2 --out studies/crosscbr"
PRESET = "youshu, netease, wide (of trilevel) or a TOML file; none: the defaults. If left out: by the data's name."


def tune(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A data folder, or its URL.", show_default=False)],
    trials: Annotated[int, typer.Option(min=1, help="Number of trials, with those finished before.")],
    out: Annotated[Path, out_option("Folder for the study; new, or one to resume.")],
    model: Annotated[str, typer.Option(help="Which model.")] = "trilevel",
    paradigm: Annotated[str, typer.Option(help="clbr or casr: search the settings of the views.")] = "original",
    epochs: Annotated[int | None, typer.Option(min=1, help="Maximum number of epochs of a trial.")] = None,
    preset: Annotated[str | None, typer.Option(help=PRESET)] = None,
    change: Annotated[list[str] | None, typer.Option("--set", help="key=value: do not search this setting.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all trainings, and of the proposed settings.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Trials at the same time; they share the threads.")] = 1,
    on: On = "local",
    json: Annotated[bool, typer.Option("--json", help="Print the study's record, one JSON object.")] = False,
    threads: Threads = None,
) -> None:
    """Search for the settings of a model and its training that are best on validation. Test is never used.

    The study's best.toml is a preset for clbr train, its study.json has the cost of the search. Trials below the median
    are pruned. The same command resumes a study that was stopped.
    """
    from clbr.cli import show
    from clbr.data.folder import load
    from clbr.training.config import preset_notes
    from clbr.training.runtime import interruptible, use_threads
    from clbr.tuning.search import search
    from clbr.tuning.study import BEST

    use_threads(threads)
    changes = parse_changes(change or []) | ({"epochs": epochs} if epochs else {})
    for note in preset_notes(model, preset, load(data).name, paradigm):
        typer.echo(note, err=True)
    with interruptible("finishing this epoch") as should_stop, show.searching() as on_record:
        options: dict[str, Any] = {"preset": preset, "changes": changes, "seed": seed, "paradigm": paradigm}
        options |= {"workers": workers, "on": on}
        record = search(out, data, model, trials, on_record=on_record, should_stop=should_stop, **options)
    if json:
        typer.echo(record.model_dump_json())
    else:
        show.study(f"{out}: {record.model} on {record.data}", record)
        if should_stop():
            typer.echo("resume: the same command again")
        elif record.best is not None:
            typer.echo(_next_command(data, record, out / BEST))
    if should_stop():
        raise typer.Exit(130)


def _next_command(data: str, record: "StudyRecord", preset: Path) -> str:
    from clbr.files import local_folder

    strategy = "" if record.paradigm == "original" else f" --paradigm {record.paradigm}"
    settings = f"--model {record.model}{strategy} --seed {record.seed} --preset {preset}"
    return f"next: clbr train {local_folder(data, 'data')} {settings} --out RUN"
