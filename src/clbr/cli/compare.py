"""clbr compare and models."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clbr.cli.options import EvaluatedSplit, MovedData, Threads, parse_ks
from clbr.errors import InputError

if TYPE_CHECKING:
    from clbr.data.dataset import BundleDataset
    from clbr.evaluation.protocol import Evaluation
    from clbr.models.base import Model


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Two runs or more on the same data; the first is the reference.")
    ],
    split: Annotated[EvaluatedSplit, typer.Option(help="Which pairs to predict.")] = "test",
    k: Annotated[str, typer.Option("--k", help="Cut-offs, separated by commas.")] = "20,40",
    data: MovedData = None,
    threads: Threads = None,
) -> None:
    """Compare runs over users and seeds, beside the best baseline. Runs that differ only in their seed are averaged."""
    from clbr.cli import show
    from clbr.evaluation.baselines import best_baseline
    from clbr.evaluation.significance import ONE_SEED
    from clbr.evaluation.significance import compare as test
    from clbr.training.run_folder import evaluate_run, group_runs, read_config, read_dataset
    from clbr.training.runtime import use_threads

    use_threads(threads)
    ks = parse_ks(k)
    groups = group_runs(runs)
    if len(groups) < 2:
        raise InputError(f"expected two different runs or more, found {len(groups)}: {', '.join(groups)}")
    results = {
        name: [evaluate_run(run, split=split, ks=ks, data=data) for run in folders] for name, folders in groups.items()
    }
    first = runs[0]
    config = read_config(first)
    dataset = read_dataset(first, config, data)
    baseline = best_baseline(dataset, split=split, ks=ks, metric=config.train.metric)
    metrics = [f"{name}@{cut}" for cut in ks for name in ("recall", "ndcg")]
    comparisons = {(row.contender, row.metric): row for row in test(results, metrics)}
    _, *contenders = results
    rows = []
    for metric in metrics:
        cells = [f"{100 * comparisons[contenders[0], metric].reference_mean:.2f}"]
        for name in contenders:
            row = comparisons[name, metric]
            cells.append(f"{100 * row.mean:.2f} ({100 * row.difference:+.2f}, p {row.p:.2g})")
        rows.append([metric, *cells, f"{100 * baseline.means[metric]:.2f}"])
    columns = ["", *results, "best baseline"]
    show.table(f"{split}, percent (difference to the first, corrected p)", columns, rows)
    if any(row.one_seed for row in comparisons.values()):
        typer.echo(f"p user by user where either has {ONE_SEED}")
    means = {name: _mean_over_seeds(found, metrics) for name, found in results.items()}
    below = [name for name in means if baseline.is_above(means[name])]
    verdicts = [baseline.verdict(name, means[name]) for name in below]
    typer.echo("\n".join([f"Best baseline: {baseline.label}.", *verdicts, *baseline.notes]))


def _mean_over_seeds(results: "list[Evaluation]", metrics: list[str]) -> dict[str, float]:
    return {metric: sum(result[metric] for result in results) / len(results) for metric in metrics}


def models(
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="A data folder, to list sizes for.", show_default=False)
    ] = None,
    settings: Annotated[str | None, typer.Option(help="List the settings of this model, as a preset file.")] = None,
) -> None:
    """List the models: their kind, the relations they use, their paper and, for a data set, their size."""
    from clbr.cli import show
    from clbr.data.folder import load
    from clbr.models.registry import MODELS

    if settings:
        _list_settings(settings)
        return
    dataset = load(data) if data else None
    rows = []
    for name, model in MODELS.items():
        cells = [name, _kind(model), " ".join(model.relations) or "-", model.citation or "-"]
        rows.append(cells + (_sizes(name, dataset) if dataset else []))
    sizes = ["parameters", "memory to train"] if dataset else []
    show.table("Models", ["", "kind", "relations", "paper", *sizes], rows, names=4)


def _list_settings(name: str) -> None:
    """Print the settings that --set can change, as a preset file with the default values; data decide on some."""
    from clbr.counterfactual.config import ViewsConfig
    from clbr.models.base import ClosedForm, Encoder
    from clbr.models.registry import find_model
    from clbr.training.config import TrainConfig, settings_by_data

    model = find_model(name)
    parts = {"settings": model.config_class} | ({} if issubclass(model, ClosedForm) else {"train": TrainConfig})
    if issubclass(model, Encoder) and model.relations:
        parts |= {"views": ViewsConfig}  # with a training strategy that has views
    by_data = settings_by_data(model)
    for title, config in parts.items():
        typer.echo(f"[{title}]")
        for key, field in config.model_fields.items():
            default = model.train_defaults.get(key, field.default) if title == "train" else field.default
            value = "" if default is None else f" {json.dumps(default)}"
            line = f"{'# ' if default is None or key in by_data else ''}{key} ={value}"
            typer.echo(f"{line:<28}  # {field.description}")


def _kind(model: "type[Model]") -> str:
    from clbr.models.base import ClosedForm, Encoder

    if issubclass(model, ClosedForm):
        return "closed form"
    return "vectors" if issubclass(model, Encoder) else "network"


def _sizes(name: str, dataset: "BundleDataset") -> list[str]:
    """Return the number of a model's parameters, and the memory for them, their gradients and Adam's two moments."""
    from clbr.models.base import ClosedForm
    from clbr.models.registry import build_model

    model = build_model(name, {}, len(dataset.users), len(dataset.bundles), len(dataset.items))
    count = sum(parameter.numel() for parameter in model.parameters())
    return [f"{count:,}", "-" if isinstance(model, ClosedForm) else f"{4 * 4 * count / 2**20:.0f} MiB"]
