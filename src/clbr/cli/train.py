"""clbr train and evaluate."""

import json as json_
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clbr.cli.options import EvaluatedSplit, MovedData, Threads, out_option, parse_changes, parse_ks, require_path
from clbr.errors import InputError

if TYPE_CHECKING:
    from clbr.training.config import RunConfig
    from clbr.training.distributed import Processes
    from clbr.training.loop import Epoch
    from clbr.training.run import Callbacks, Counters

EXAMPLE = "Example: clbr train shop --epochs 30 --set learning_rate=0.002 --out runs/first"
MODEL = "Which model; clbr models lists them. trilevel if left out."
PRESET = "youshu, netease, wide (of trilevel) or a TOML file; none: the defaults. If left out: by the data's name."
PROCESSES = "Processes on this machine; each holds some columns of the vectors. One if left out."


def train(
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="A data folder.", show_default=False, callback=require_path)
    ] = None,
    model: Annotated[str | None, typer.Option(help=MODEL, show_default=False)] = None,
    out: Annotated[Path | None, out_option("Folder for the run; new or empty.")] = None,
    preset: Annotated[str | None, typer.Option(help=PRESET)] = None,
    paradigm: Annotated[str | None, typer.Option(help="Training strategy: original (default), clbr or casr.")] = None,
    selection: Annotated[Path | None, typer.Option(help="A run to be the selection model; else trained.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Maximum number of epochs.")] = None,
    change: Annotated[list[str] | None, typer.Option("--set", help="key=value, of model, training or views.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Equal seeds give equal weights; 0 if left out.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume this run; DATA only if it was moved.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON line for each epoch.")] = False,
    threads: Threads = None,
    processes: Annotated[int | None, typer.Option(min=1, max=8192, help=PROCESSES)] = None,
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
) -> None:
    """Train a model; the best epoch is selected on validation. Ctrl-C saves; --resume continues to the same result."""
    from clbr.models.registry import DEFAULT_MODEL

    folder = resume or out
    with _joined(processes, folder) as group:
        threads = threads or (group.threads if group.size > 1 else None)
        if resume:
            settings = {"model": model, "out": out, "preset": preset, "epochs": epochs, "set": change, "seed": seed}
            _require_left_out(settings | {"paradigm": paradigm, "selection": selection})
            config, begin = _resume(resume, data, device, threads)
        elif data and out:
            model = model or DEFAULT_MODEL
            changes = (parse_changes(change) if change else {}) | ({"epochs": epochs} if epochs else {})
            options = {"preset": preset, "changes": changes, "seed": seed or 0, "paradigm": paradigm or "original"}
            config, begin = _start(out, data, model, options, device, threads, selection)
        else:
            raise InputError(f"expected DATA and --out, or --resume RUN. {EXAMPLE}")
        group.connect(config, device)
        counters, stopped = _train(config, begin, json)
    if group.rank == 0:
        assert folder is not None
        _print_result(folder, config, counters, stopped, data, processes, err=json)
    if stopped:
        raise typer.Exit(130)


@contextmanager
def _joined(processes: int | None, folder: Path | None) -> Iterator["Processes"]:
    """Yield the processes of a training; if one of them is lost, print that and how to resume."""
    from clbr.models.columns import ExchangeError
    from clbr.training.distributed import joined
    from clbr.training.run_folder import CONFIG

    try:
        with joined(processes) as group:
            yield group
    except ExchangeError as error:
        begun = folder is not None and (folder / CONFIG).exists()
        next_step = _resume_command(folder, processes) if begun else "train again"
        typer.echo(f"error: {error}; {next_step}", err=True)
        raise typer.Exit(1) from None


def _train(config: "RunConfig", begin: "Begin", json: bool) -> tuple["Counters", bool]:
    """Train with a live display; return the progress, and whether the training was stopped."""
    from clbr.training.display import training_display
    from clbr.training.runtime import interruptible

    def on_epoch(epoch: "Epoch", counters: "Counters") -> None:
        if json:
            typer.echo(json_.dumps(asdict(epoch)))

    with training_display(enabled=True) as display, interruptible("finishing this epoch, then saving") as should_stop:
        display.begin(config)
        counters = begin(display.callbacks(should_stop, on_epoch))
        return counters, should_stop() or not counters.finished(config.train)


def _resume_command(folder: Path | None, processes: int | None) -> str:
    program = "torchrun ... -m clbr" if "TORCHELASTIC_RUN_ID" in os.environ else "clbr"
    return f"resume: {program} train --resume {folder}" + ("" if processes is None else f" --processes {processes}")


def _print_result(
    folder: Path,
    config: "RunConfig",
    counters: "Counters",
    stopped: bool,
    data: Path | None,
    processes: int | None,
    err: bool,
) -> None:
    """Print the best value on validation, beside that of the best baseline, and what to type next."""
    from clbr.cli import show
    from clbr.evaluation.baselines import best_baseline
    from clbr.training.loop import selecting_pairs
    from clbr.training.run_folder import best_epoch, read_dataset

    metric, result = config.train.metric, "not evaluated on validation yet"
    best = best_epoch(folder, config)
    reached = best["validation"][metric] if best else 0.0
    if best:
        result = f"best {metric} on validation {100 * reached:.2f} at epoch {counters.best_epoch}"
        if pairs := selecting_pairs(best["validation"], metric):
            result += f"; the epoch was selected by {100 * counters.best:.2f} on {pairs}"
    typer.echo(f"{folder}: {config.model}, epoch {counters.epoch}, {result}", err=err)
    if stopped:
        typer.echo(_resume_command(folder, processes), err=err)
        return
    if best:
        with show.progress("computing the baselines", None):
            ks, users = [int(metric.partition("@")[2])], config.train.validation_users
            dataset = read_dataset(folder, config, data)
            baseline = best_baseline(dataset, split="validation", ks=ks, metric=metric, max_users=users)
        typer.echo("\n".join([baseline.verdict(config.model, {metric: reached}), *baseline.notes]), err=err)
    typer.echo(f"next: clbr evaluate {folder}", err=err)
    if counters.best_epoch == config.train.epochs > 1:
        typer.echo(
            f"note: the best epoch was the last; more than {counters.best_epoch} may be better (--epochs)", err=True
        )


Begin = Callable[["Callbacks"], "Counters"]


def _start(
    out: Path, data: Path, model: str, options: dict[str, Any], device: str, threads: int | None, selection: Path | None
) -> tuple["RunConfig", Begin]:
    """Return the config of a new run and the function that trains it; print what the user should know about both."""
    from clbr.data.folder import load
    from clbr.training import run
    from clbr.training.config import compose, defaults_by_data, ineffective_edits, preset_notes
    from clbr.training.runtime import use_threads

    use_threads(threads)
    dataset = load(data)
    by_data = defaults_by_data(model, dataset)
    config = compose(str(data.resolve()), model, data_name=dataset.name, by_data=by_data, **options)
    for note in preset_notes(model, options["preset"], dataset.name, config.paradigm):
        typer.echo(note, err=True)
    for warning in ineffective_edits(config):
        typer.echo(f"warning: {warning}", err=True)
    return config, lambda callbacks: run.start(out, config, dataset, callbacks, device, selection)


def _resume(folder: Path, data: Path | None, device: str, threads: int | None) -> tuple["RunConfig", Begin]:
    """Return the config of an existing run and the function that resumes it."""
    from clbr.training import run
    from clbr.training.run_folder import read_config, read_origin
    from clbr.training.runtime import use_threads

    config, origin = read_config(folder), read_origin(folder)
    use_threads(threads or (origin.threads if origin.processes == 1 else None))  # one process has all cores

    def begin(callbacks: "Callbacks") -> "Counters":
        try:
            return run.resume(folder, callbacks, device, data)
        except InputError as error:
            if "data" in error.arguments:  # an argument of this command, not an option
                raise InputError(f"{error}: clbr train DATA --resume {folder}") from None
            raise

    return config, begin


def _require_left_out(settings: Mapping[str, object]) -> None:
    """Raise `InputError` if options are given that a resumed run already has."""
    if given := [f"--{option}" for option, value in settings.items() if value not in (None, [])]:
        raise InputError(f"--resume uses the settings of the run: leave out {', '.join(given)}")


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as clbr train writes it.")],
    split: Annotated[EvaluatedSplit, typer.Option(help="Which pairs to predict.")] = "test",
    k: Annotated[str, typer.Option("--k", help="Cut-offs, separated by commas.")] = "20,40",
    mask_validation: Annotated[
        bool, typer.Option("--mask-validation", help="Exclude validation pairs from the ranking, too.")
    ] = False,
    data: MovedData = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    threads: Threads = None,
) -> None:
    """Evaluate the best epoch of a run by full ranking, beside the best baseline."""
    from clbr.cli import show
    from clbr.evaluation.baselines import best_baseline
    from clbr.training.run_folder import evaluate_run, read_config, read_dataset
    from clbr.training.runtime import use_threads

    use_threads(threads)
    ks, config = parse_ks(k), read_config(run)
    result = evaluate_run(run, split=split, ks=ks, mask_validation=mask_validation, data=data)
    dataset, metric = read_dataset(run, config, data), config.train.metric
    baseline = best_baseline(dataset, split=split, ks=ks, mask_validation=mask_validation, metric=metric)
    if json:
        typer.echo(json_.dumps(result.means | {"baseline": baseline.model_dump(mode="json")}))
    else:
        title = f"{run}, {split}, {len(result.users):,} users, percent"
        show.evaluations(title, {config.model: result, "best baseline": baseline.means}, ks)
        typer.echo("\n" + "\n".join([baseline.verdict(config.model, result.means), *baseline.notes]))
