"""clbr floors: what any model has to beat."""

import json
from pathlib import Path
from typing import Annotated

import typer

from clbr.cli.options import EvaluatedSplit, parse_ks


def floors(
    data: Annotated[Path, typer.Argument(help="A data folder.")],
    split: Annotated[EvaluatedSplit, typer.Option(help="Which pairs to find.")] = "test",
    k: Annotated[str, typer.Option("--k", help="Cut-offs, separated by commas.")] = "20,40",
    mask_validation: Annotated[bool, typer.Option(help="Leave validation pairs out of the ranking, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Rank by popularity and by EASE (closed form): the floors that a trained model has to beat.

    Full ranking over all bundles; training pairs are left out; of equal scores the lower bundle id comes first.
    """
    from clbr.cli import show
    from clbr.data.describe import describe
    from clbr.data.folder import load
    from clbr.evaluation.floors import FLOORS
    from clbr.evaluation.protocol import evaluate

    ks = parse_ks(k)
    dataset = load(data)
    if len(dataset.bundles) > 10_000:
        typer.echo(f"EASE solves for {len(dataset.bundles):,} x {len(dataset.bundles):,} weights: minutes", err=True)
    results = {}
    with show.progress("ranking", len(FLOORS)) as hear:
        for done, (name, (floor, config)) in enumerate(FLOORS.items(), start=1):
            results[name] = evaluate(
                floor.fit(dataset, config), dataset, split=split, ks=ks, mask_validation=mask_validation
            )
            hear(done)
    if as_json:
        typer.echo(json.dumps({name: result.means for name, result in results.items()}))
    else:
        users = len(next(iter(results.values())).users)
        show.evaluations(f"{dataset.name}, {split}, {users:,} users, percent", results, ks)
        published = describe(dataset).published
        if published and not published.agrees:
            typer.echo(f"\n{dataset.name}, beside {published.source}: {published.note}")
