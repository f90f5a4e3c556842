"""clbr views: what the counterfactual views of a run change."""

import json as json_
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from clbr.cli.options import MovedData

EXAMPLE = "Example: clbr views runs/first"


def views(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run that was trained with --paradigm clbr or casr.")],
    pairs: Annotated[
        int, typer.Option(min=0, help="How many additions of the highest and drops of the lowest relevance to show.")
    ] = 3,
    data: MovedData = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show what the views of a run change: numbers of edits, degrees, nodes that lose all edges, extreme edits."""
    from clbr.cli import show
    from clbr.counterfactual.views import extremes, read_run_views, summarise
    from clbr.graph.graph import BundleGraph
    from clbr.training.run_folder import SELECTION, read_config, read_dataset, view_embeddings

    config = read_config(run)
    edits, records = read_run_views(run, config.views is not None)
    dataset = read_dataset(run, config, data)
    summaries = summarise(BundleGraph.of(dataset), edits)
    extreme_edits = extremes(edits, view_embeddings(run, dataset), pairs) if summaries and pairs else []
    if json:
        found = {"relations": [asdict(summary) for summary in summaries], "records": records}
        typer.echo(json_.dumps(found | {"extremes": [asdict(edit) for edit in extreme_edits]}))
    else:
        show.views(f"{run}: {len(edits)} views of {dataset.name}", summaries, records)
        scored_by = "its selection model" if (run / SELECTION).exists() else "the trained model"
        show.extremes(dataset, extreme_edits, scored_by)
        if config.views is not None and config.views.redraw:
            typer.echo(f"\n{show.REDRAWN}")
