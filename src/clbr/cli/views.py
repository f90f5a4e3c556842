"""clbr views: what a run's counterfactual views changed."""

import json as json_
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from clbr.cli.options import MovedData

EXAMPLE = "Example: clbr views runs/first"


def views(
    run: Annotated[Path, typer.Argument(help="A run that clbr train --paradigm clbr (or casr) made.")],
    pairs: Annotated[int, typer.Option(min=0, help="So many pairs of the highest and lowest relevance.")] = 3,
    data: MovedData = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show what the views of a run changed: counts, degrees, nodes left without an edge, and the boldest edits."""
    from clbr.cli import show
    from clbr.counterfactual.views import extremes, read_run_views, summarise
    from clbr.graph.graph import BundleGraph
    from clbr.training.run_folder import read_config, read_dataset
    from clbr.training.selection import SELECTION, view_embeddings

    config = read_config(run)
    edits, records = read_run_views(run, config.views is not None)
    dataset = read_dataset(run, config, data)
    lines = summarise(BundleGraph.of(dataset), edits)
    boldest = extremes(edits, view_embeddings(run, dataset), pairs) if lines and pairs else []
    if json:
        found = {"relations": [asdict(line) for line in lines], "records": records}
        typer.echo(json_.dumps(found | {"extremes": [asdict(edit) for edit in boldest]}))
    else:
        show.views(f"{run}: {len(edits)} views of {dataset.name}", lines, records)
        show.extremes(dataset, boldest, "its judge" if (run / SELECTION).exists() else "the trained model")
        if config.views is not None and config.views.redraw:
            typer.echo(f"\n{show.REDRAWN}")
