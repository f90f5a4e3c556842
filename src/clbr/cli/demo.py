"""clbr demo: the whole tool in a minute, on a small simulated shop."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clbr.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clbr.evaluation.protocol import Evaluation
    from clbr.simulation.world import World

SEEDS = 3
SETTINGS: dict[str, Any] = {"epochs": 30}
NEXT = """
What to type next
  clbr data simulate --like tiny --out shop     keep this shop as a data folder
  clbr data describe shop                       its numbers
  clbr baselines shop                           what a model has to beat on it
  clbr train shop --model bgcn --paradigm clbr --out runs/bgcn
  clbr views runs/bgcn                          what its views changed
  clbr export runs/bgcn --out artifact          a recommender to ask
  clbr whatif artifact --user 17 --add-item 3   a list with another history
  clbr find artifact mouse                      customers, items and bundles by name
  clbr serve artifact                           the same on a page, and for programs
  clbr data import --help                       the same with three tables of your own

Or see it on a page: clbr demo --serve"""


def demo(
    serve: Annotated[bool, typer.Option("--serve", help="Go straight to the page.")] = False,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="With --serve: the port; 0: any free one.", show_default="8000"),
    ] = None,
) -> None:
    """See it work: a small simulated shop, the baselines, and a model with and without counterfactual views.

    Takes about half a minute; writes nothing. With --serve a model is trained, in seconds, and its page opened.
    """
    if serve:
        _serve_page(8000 if port is None else port)
        return
    if port is not None:
        raise InputError("--port is for the page: add --serve")
    from clbr.cli import show
    from clbr.cli.story import customer_story
    from clbr.data.describe import describe
    from clbr.evaluation.baselines import tune_baselines
    from clbr.evaluation.protocol import evaluate
    from clbr.models.registry import baseline_scorer
    from clbr.simulation.generate import simulate

    typer.echo("A small simulated shop: customers, items, and bundles of items. Because it is simulated, the truth is")
    typer.echo("known: what each customer likes, whether it was shown or not.\n")
    world = simulate("tiny")
    show.describe([describe(world.dataset)])

    typer.echo("")
    tuned = tune_baselines(world.dataset).settings
    scorers = {name: baseline_scorer(name, world.dataset, settings) for name, settings in tuned.items()}
    results = {name: evaluate(scorer, world.dataset, split="test", ks=(5, 20)) for name, scorer in scorers.items()}
    users = len(next(iter(results.values())).users)
    show.evaluations(
        f"Baselines: who finds the bundles that {users} customers chose? (test, percent)", results, (5, 20)
    )

    typer.echo("\n" + customer_story(world, scorers))
    typer.echo("\nNow a graph model, TriLevel, trained without and with counterfactual views, in which some histories")
    typer.echo("and some bundles are different. The same model, the same number of epochs.\n")
    _compare_strategies(world)
    typer.echo(NEXT)


def _compare_strategies(world: "World") -> None:
    """Train with and without views for a few seeds, compare, show what the views changed; then ask a what-if."""
    from clbr.cli import show
    from clbr.cli.story import update_story, whatif_story
    from clbr.counterfactual.views import read_views, summarise
    from clbr.evaluation.baselines import best_baseline
    from clbr.evaluation.significance import compare
    from clbr.graph.graph import BundleGraph
    from clbr.inference.fit import fit

    dataset = world.dataset
    found: dict[str, list[Evaluation]] = {"original": [], "clbr": []}
    with TemporaryDirectory() as space:
        runs = [(paradigm, seed) for seed in range(SEEDS) for paradigm in found]
        with show.progress("training", len(runs)) as on_progress:
            for done, (paradigm, seed) in enumerate(runs, start=1):
                selection = Path(space) / f"original-{seed}" if paradigm == "clbr" else None
                trained = fit(
                    dataset,
                    paradigm=paradigm,
                    seed=seed,
                    out=Path(space) / f"{paradigm}-{seed}",
                    selection=selection,
                    progress=False,
                    **SETTINGS,
                )
                found[paradigm].append(trained.evaluate("test", ks=(5, 20), baseline=False))
                if (paradigm, seed) == ("clbr", 0):
                    recommender = trained
                on_progress(done)
        edits, records = read_views(Path(space) / "clbr-0")
    rows = []
    for row in compare(found, ["recall@5", "ndcg@5", "recall@20", "ndcg@20"]):
        verdict = "more than chance" if row.p < 0.05 else "may be chance"
        means = [f"{100 * mean:.2f}" for mean in (row.reference_mean, row.mean)]
        rows.append([row.metric, *means, f"{100 * row.difference:+.2f}", f"{row.p:.2f}, {verdict}"])
    columns = ["", "original", "with views", "difference", "p, over customers and seeds"]
    show.table(f"With and without counterfactual views (test, percent, mean of {SEEDS} seeds)", columns, rows)
    best = best_baseline(dataset, split="test", ks=(5, 20))
    typer.echo(best.verdict("The model without views", _mean_over_seeds(found["original"])))
    typer.echo("")
    show.views("What the views changed (seed 0)", summarise(BundleGraph.of(dataset), edits), records)
    typer.echo("\n" + whatif_story(recommender, world))
    typer.echo("\n" + update_story(recommender))


def _mean_over_seeds(results: "Sequence[Evaluation]") -> dict[str, float]:
    return {name: sum(one.means[name] for one in results) / len(results) for name in results[0].means}


def _serve_page(port: int) -> None:
    """Train a model, save it and serve its page."""
    from clbr.cli import show
    from clbr.cli.serve import run
    from clbr.errors import require
    from clbr.inference.fit import fit
    from clbr.service.words import Words
    from clbr.simulation.generate import simulate

    require("fastapi", "serve")  # before seconds of training
    with TemporaryDirectory() as space:
        with show.progress("training a model on a small simulated shop", None):
            recommender = fit(simulate("tiny").dataset, progress=False, **SETTINGS)
            artifact = recommender.save(Path(space) / "artifact")
        run(artifact, port=port, words=Words.parse("customer,bundle,item"), log="error", browse=True)
