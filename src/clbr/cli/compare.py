"""clbr compare and models."""

import json
from pathlib import Path
from typing import Annotated

import typer

from clbr.cli.options import EvaluatedSplit, MovedData, parse_ks
from clbr.cli.train import Threads
from clbr.errors import InputError


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two runs or more on the same data; the first is the baseline.")],
    split: Annotated[EvaluatedSplit, typer.Option(help="Which pairs to find.")] = "test",
    k: Annotated[str, typer.Option("--k", help="Cut-offs, separated by commas.")] = "20,40",
    data: MovedData = None,
    threads: Threads = None,
) -> None:
    """Compare runs over users and seeds. Runs that differ in their seed alone count as one contender."""
    from clbr.cli import show
    from clbr.evaluation.significance import ONE_SEED
    from clbr.evaluation.significance import compare as test
    from clbr.training.run_folder import evaluate_run, group_runs
    from clbr.training.runtime import use_threads

    use_threads(threads)
    ks = parse_ks(k)
    groups = group_runs(runs)
    if len(groups) < 2:
        raise InputError(f"expected two contenders or more, found {len(groups)}: {', '.join(groups)}")
    results = {
        name: [evaluate_run(run, split=split, ks=ks, data=data) for run in folders] for name, folders in groups.items()
    }
    metrics = [f"{name}@{cut}" for cut in ks for name in ("recall", "ndcg")]
    found = {(row.contender, row.metric): row for row in test(results, metrics)}
    baseline, *contenders = results
    rows = []
    for metric in metrics:
        base = next(found[name, metric].baseline_mean for name in contenders)
        cells = [f"{100 * base:.2f}"]
        for name in contenders:
            row = found[name, metric]
            cells.append(f"{100 * row.mean:.2f} ({100 * row.difference:+.2f}, p {row.p:.2g})")
        rows.append([metric, *cells])
    show.table(f"{split}, percent (difference to the first, corrected p)", ["", baseline, *contenders], rows)
    if any(row.one_seed for row in found.values()):
        typer.echo(f"p user by user where either has {ONE_SEED}")


def models(
    data: Annotated[Path | None, typer.Argument(help="A data folder, to see sizes for.", show_default=False)] = None,
    settings: Annotated[str | None, typer.Option(help="A model: what --set can change, as a preset file.")] = None,
) -> None:
    """List the models: what they look at, where they are from and, for a data set, how large they are."""
    from clbr.cli import show
    from clbr.data.folder import load
    from clbr.models.base import Encoder
    from clbr.models.registry import MODELS, find_model, make_model
    from clbr.training.config import TrainConfig

    if settings:
        for title, known in (("settings", find_model(settings).settings), ("train", TrainConfig)):
            typer.echo(f"[{title}]")
            for key, field in known.model_fields.items():
                line = f"# {key} =" if field.default is None else f"{key} = {json.dumps(field.default)}"
                typer.echo(f"{line:<28}  # {field.description}")
        return
    dataset = load(data) if data else None
    rows = []
    for name, kind in MODELS.items():
        cells = [name, " ".join(kind.relations) or "-", "yes" if issubclass(kind, Encoder) else "no", kind.citation]
        if dataset:
            count = sum(parameter.numel() for parameter in make_model(name, {}, dataset).parameters())
            cells += [f"{count:,}", f"{4 * 4 * count / 2**20:.0f} MiB"]  # weights, gradient, two moments
        rows.append(cells)
    sizes = ["parameters", "to train"] if dataset else []
    show.table("Models", ["", "looks at", "vectors", "from", *sizes], rows)
