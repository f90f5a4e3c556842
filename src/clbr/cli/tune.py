"""clbr tune: search for a model's settings."""

from pathlib import Path
from typing import Annotated

import typer

from clbr.cli.options import ctrl_c
from clbr.cli.train import Threads

EXAMPLE = "Example: clbr tune shop --model crosscbr --trials 30 --epochs 40 --workers 2 --out studies/crosscbr"


def tune(
    data: Annotated[Path, typer.Argument(help="A data folder.", show_default=False)],
    model: Annotated[str, typer.Option(help="Which model.", show_default=False)],
    trials: Annotated[int, typer.Option(min=1, help="Settings to try, those done before included.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the study; new, or one to go on with.")],
    paradigm: Annotated[str, typer.Option(help="clbr or casr: search the views' settings instead.")] = "original",
    epochs: Annotated[int | None, typer.Option(min=1, help="At most this many a trial.")] = None,
    preset: Annotated[str | None, typer.Option(help="Set out from here: youshu, netease, or a TOML file.")] = None,
    change: Annotated[list[str] | None, typer.Option("--set", help="key=value: hold this fast.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of every trial's training, and of what is tried.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes at work; they share the threads.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="The study's record, one JSON object.")] = False,
    threads: Threads = None,
) -> None:
    """Search for the settings of a model and its training that do best on validation; test is never looked at.

    The study's best.toml is a preset for clbr train, its study.json says what the search cost. Hopeless trials are
    pruned. The same command goes on with a study that was stopped.
    """
    from clbr.cli import show
    from clbr.training.config import parse_changes
    from clbr.training.runtime import use_threads
    from clbr.tuning.search import search
    from clbr.tuning.study import BEST

    use_threads(threads)
    changes = parse_changes(change or []) | ({"epochs": epochs} if epochs else {})
    with ctrl_c("finishing this epoch") as stopped, show.searching() as heard:
        record = search(
            out,
            data,
            model,
            trials,
            preset=preset,
            changes=changes,
            seed=seed,
            workers=workers,
            paradigm=paradigm,
            heard=heard,
            stop=stopped,
        )
    if json:
        typer.echo(record.model_dump_json())
    else:
        show.study(f"{out}: {record.model} on {record.data}", record)
        if stopped():
            typer.echo("go on: the same command again")
        elif record.best is not None:
            way = "" if paradigm == "original" else f"--paradigm {paradigm} "
            typer.echo(f"next: clbr train {data} --model {model} {way}--seed {seed} --preset {out / BEST} --out RUN")
    if stopped():
        raise typer.Exit(130)
