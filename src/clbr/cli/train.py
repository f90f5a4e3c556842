"""clbr train and evaluate."""

import json as json_
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clbr.cli.options import EvaluatedSplit, MovedData, ctrl_c, parse_ks
from clbr.errors import InputError

if TYPE_CHECKING:
    from clbr.training.loop import Epoch
    from clbr.training.run import Counters

EXAMPLE = "Example: clbr train shop --model crosscbr --epochs 30 --set learning_rate=0.002 --out runs/first"
Threads = Annotated[int | None, typer.Option("--threads", min=1, max=1024, help="Threads; all cores if left out.")]


def train(
    data: Annotated[Path | None, typer.Argument(help="A data folder.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(help="Which model; clbr models lists them.", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the run; new or empty.")] = None,
    preset: Annotated[str | None, typer.Option(help="Known good settings: youshu, netease, or a TOML file.")] = None,
    paradigm: Annotated[str | None, typer.Option(help="original (the default), clbr or casr: with views.")] = None,
    selection: Annotated[Path | None, typer.Option(help="A run of the model to judge pairs by; else trained.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="At most this many.")] = None,
    change: Annotated[list[str] | None, typer.Option("--set", help="key=value, of model, training or views.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Equal seeds give equal weights; 0 if left out.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with this run; DATA only if it was moved.")] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON line for each epoch.")] = False,
    threads: Threads = None,
    device: Annotated[str, typer.Option(help="auto (a GPU where there is one), cpu or cuda.")] = "auto",
) -> None:
    """Train a model; the epoch is chosen on validation. Ctrl-C saves, and --resume goes on to the very same end."""
    from clbr.cli import show
    from clbr.data.folder import load
    from clbr.training import run
    from clbr.training.config import compose, ineffective_edits, parse_changes
    from clbr.training.run_folder import read_config, read_origin
    from clbr.training.runtime import use_threads

    if resume:
        given = {"model": model, "out": out, "preset": preset, "epochs": epochs, "set": change, "seed": seed}
        given |= {"paradigm": paradigm, "selection": selection}
        if more := [f"--{option}" for option, value in given.items() if value not in (None, [])]:
            raise InputError(f"--resume goes on with the run's own settings: leave out {', '.join(more)}")
        config = read_config(resume)
        threads = threads or read_origin(resume).threads
    use_threads(threads)
    folder = resume or out
    if folder is None or (resume is None and (data is None or model is None)):
        raise InputError(f"expected DATA, --model and --out, or --resume RUN. {EXAMPLE}")
    with show.training() as screen, ctrl_c("finishing this epoch, then saving") as stopped:

        def heard(epoch: "Epoch", counters: "Counters") -> None:
            if json:
                typer.echo(json_.dumps(asdict(epoch)))
            screen.epoch(epoch, counters)

        hooks = run.Callbacks(heard, screen.selection_epoch, screen.step, stopped, screen.wait)
        if resume:
            screen.begin(config)
            counters = run.resume(resume, hooks, device, data)
        else:
            assert data is not None and model is not None
            changes = parse_changes(change or []) | ({"epochs": epochs} if epochs else {})
            way = paradigm or "original"
            config = compose(str(data.resolve()), model, preset=preset, changes=changes, seed=seed or 0, paradigm=way)
            for idle in ineffective_edits(config):
                typer.echo(f"warning: {idle}", err=True)
            screen.begin(config)
            counters = run.start(folder, config, load(data), hooks, device, selection)
    best = f"best {config.train.metric} on validation {100 * counters.best:.2f} at epoch {counters.best_epoch}"
    outcome = best if counters.best_epoch else "validation not looked at yet"
    again = f"go on: clbr train --resume {folder}" if stopped() else f"next: clbr evaluate {folder}"
    typer.echo(f"{folder}: {config.model}, epoch {counters.epoch}, {outcome}\n{again}", err=json)
    if stopped():
        raise typer.Exit(130)


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run that clbr train made.")],
    split: Annotated[EvaluatedSplit, typer.Option(help="Which pairs to find.")] = "test",
    k: Annotated[str, typer.Option("--k", help="Cut-offs, separated by commas.")] = "20,40",
    mask_validation: Annotated[bool, typer.Option(help="Leave validation pairs out of the ranking, too.")] = False,
    data: MovedData = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    threads: Threads = None,
) -> None:
    """Evaluate a run at its best epoch, by full ranking."""
    from clbr.cli import show
    from clbr.training.run_folder import evaluate_run, read_config
    from clbr.training.runtime import use_threads

    use_threads(threads)
    ks = parse_ks(k)
    result = evaluate_run(run, split=split, ks=ks, mask_validation=mask_validation, data=data)
    if json:
        typer.echo(json_.dumps(result.means))
    else:
        title = f"{run}, {split}, {len(result.users):,} users, percent"
        show.evaluations(title, {read_config(run).model: result}, ks)
