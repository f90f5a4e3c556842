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
    """Evaluate popularity and EASE, the baselines that a trained model has to beat.

    Full ranking over all bundles; training pairs are left out; of equal scores the lower bundle id comes first.
    """
    from clbr.cli import show
    from clbr.data.describe import describe
    from clbr.data.folder import load
    from clbr.evaluation.baselines import EASE_BUNDLES, evaluate_baselines
    from clbr.models.registry import BASELINES

    ks = parse_ks(k)
    dataset = load(data)
    if len(dataset.bundles) > EASE_BUNDLES:
        typer.echo(f"EASE solves for {len(dataset.bundles):,} x {len(dataset.bundles):,} weights: minutes", err=True)
    with show.progress("ranking", len(BASELINES)) as on_progress:
        results = evaluate_baselines(
            dataset, split=split, ks=ks, mask_validation=mask_validation, on_progress=on_progress
        )
    if as_json:
        typer.echo(json.dumps({name: result.means for name, result in results.items()}))
        return
    users = len(next(iter(results.values())).users)
    show.evaluations(f"{dataset.name}, {split}, {users:,} users, percent", results, ks)
    published = describe(dataset).published
    if published and not published.agrees:
        typer.echo(f"\n{dataset.name}, beside {published.source}: {published.note}")
