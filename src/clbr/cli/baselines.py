"""clbr baselines: what any model has to beat."""

import json
from pathlib import Path
from typing import Annotated

import typer

from clbr.cli.options import EvaluatedSplit, parse_ks


def baselines(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A data folder.")],
    split: Annotated[EvaluatedSplit, typer.Option(help="The pairs to find.")] = "test",
    k: Annotated[str, typer.Option("--k", help="Cut-offs, separated by commas.")] = "20,40",
    mask_validation: Annotated[
        bool, typer.Option("--mask-validation", help="Leave validation pairs out of the ranking, too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Evaluate the baselines that a trained model has to beat: popularity, content overlap, neighbours and EASE.

    Their settings are chosen on validation. Full ranking over all bundles; training pairs are left out; of equal scores
    the lower bundle id comes first.
    """
    from clbr.cli import show
    from clbr.data.describe import compare_published
    from clbr.data.folder import load
    from clbr.evaluation.baselines import METRIC, evaluate_baselines, leak_notes
    from clbr.evaluation.protocol import labelled
    from clbr.models.registry import BASELINES

    ks = parse_ks(k)
    dataset = load(data)
    with show.progress("choosing settings and ranking", len(BASELINES)) as on_progress:
        results, tuned = evaluate_baselines(
            dataset, split=split, ks=ks, mask_validation=mask_validation, on_progress=on_progress
        )
    notes = [*leak_notes(dataset), *tuned.notes(dataset, METRIC)]
    if as_json:
        found = {name: {"settings": tuned.settings[name], **result.means} for name, result in results.items()}
        typer.echo(json.dumps(found))
        typer.echo("\n".join(notes), err=True)
        return
    users = len(next(iter(results.values())).users)
    columns = {labelled(name, tuned.settings[name]): result for name, result in results.items()}
    show.evaluations(f"{dataset.name}, {split}, {users:,} users, percent", columns, ks)
    best = [f"Best on validation: {tuned.best}."] if tuned.values else []
    typer.echo("\n" + "\n".join([*best, *notes]))
    published = compare_published(dataset)
    if published and not published.agrees:
        typer.echo(f"\n{dataset.name}, beside {published.source}: {published.note}")
