"""clbr demo: the whole tool in a minute, on the embedded world."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from clbr.errors import InputError

if TYPE_CHECKING:
    from clbr.simulation.world import World

SEEDS, SETTINGS = 3, {"epochs": 30, "learning_rate": 0.005, "batch_size": 512}


def demo(
    serve: Annotated[bool, typer.Option("--serve", help="Go straight to the page: ask it yourself.")] = False,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="With --serve: where; 0: any that is free.", show_default="8000"),
    ] = None,
) -> None:
    """See it work: a small simulated shop, what everyone should beat, and a model with and without what-ifs.

    Takes about half a minute; writes nothing. With --serve a model is trained, in seconds, and its page opened.
    """
    if serve:
        _page(8000 if port is None else port)
        return
    if port is not None:
        raise InputError("--port is for the page: add --serve")
    from clbr.cli import show
    from clbr.cli.story import tell
    from clbr.data.describe import describe
    from clbr.evaluation.floors import FLOORS
    from clbr.evaluation.protocol import evaluate
    from clbr.simulation.generate import simulate

    typer.echo("A small shop, simulated: customers, things, and bundles of things. All of it is made up,")
    typer.echo("so the truth is known: what each customer really likes, shown to her or not.\n")
    world = simulate("tiny")
    show.describe([describe(world.dataset)])

    typer.echo("")
    floors = {name: floor.fit(world.dataset, config) for name, (floor, config) in FLOORS.items()}
    results = {name: evaluate(floor, world.dataset, split="test", ks=(5, 20)) for name, floor in floors.items()}
    users = len(next(iter(results.values())).users)
    show.evaluations(f"Who finds the bundles that {users} customers chose? (test, percent)", results, (5, 20))

    typer.echo("\n" + tell(world, floors))
    typer.echo("\nNow a graph model, CrossCBR, trained in the original way and with counterfactual views: what if some")
    typer.echo("histories and some bundles were different? The same model, the same number of epochs.\n")
    _both_ways(world)
    typer.echo(
        "\nWhat to type next\n"
        "  clbr data simulate --like tiny --out shop     keep this shop as a data folder\n"
        "  clbr data describe shop                       its numbers\n"
        "  clbr floors shop                              popularity and EASE on it\n"
        "  clbr train shop --model bgcn --paradigm clbr --out runs/bgcn\n"
        "  clbr views runs/bgcn                          what its views changed\n"
        "  clbr export runs/bgcn --out desk              a recommender to ask\n"
        "  clbr whatif desk --user 17 --add-item 3       what if she had that?\n"
        "  clbr serve desk                               the same on a page, and for programs\n"
        "  clbr data import --help                       the same with three tables of your own\n"
        "\nOr see it on a page: clbr demo --serve"
    )


def _both_ways(world: "World") -> None:
    """Train with and without views for a few seeds, compare user by user, say what the views changed; then ask."""
    from clbr.cli import show
    from clbr.cli.story import tell_what_if
    from clbr.counterfactual.views import read_views, summarise
    from clbr.evaluation.protocol import Evaluation, evaluate
    from clbr.evaluation.significance import compare
    from clbr.graph.graph import BundleGraph
    from clbr.inference.artifact import open_artifact
    from clbr.inference.export import export
    from clbr.training.config import compose
    from clbr.training.run import start
    from clbr.training.run_folder import best_recommender
    from clbr.training.runtime import use_threads

    use_threads(None)
    dataset = world.dataset
    found: dict[str, list[Evaluation]] = {"original": [], "clbr": []}
    with TemporaryDirectory() as space:
        runs = [(way, seed) for seed in range(SEEDS) for way in found]
        with show.progress("training", len(runs)) as heard:
            for done, (way, seed) in enumerate(runs, start=1):
                config = compose(dataset.name, "crosscbr", changes=SETTINGS, seed=seed, paradigm=way)
                folder, judge = Path(space) / f"{way}-{seed}", Path(space) / f"original-{seed}"
                start(folder, config, dataset, selection=judge if config.views else None)
                found[way].append(evaluate(best_recommender(folder, dataset), dataset, split="test", ks=(5, 20)))
                heard(done)
        edits, records = read_views(Path(space) / "clbr-0")
        opened = open_artifact(export(Path(space) / "clbr-0", Path(space) / "artifact", data=dataset))
        story = tell_what_if(opened, world)
    rows = []
    for row in compare(found, ["recall@5", "ndcg@5", "recall@20", "ndcg@20"]):
        sure = "more than chance" if row.p < 0.05 else "may well be chance"
        difference = f"{100 * row.difference:+.2f}"
        means = [f"{100 * mean:.2f}" for mean in (row.baseline_mean, row.mean)]
        rows.append([row.metric, *means, difference, f"{row.p:.2f}, {sure}"])
    columns = ["", "original", "with views", "difference", "p, over customers and seeds"]
    show.table(f"With and without what-ifs (test, percent, mean of {SEEDS} seeds)", columns, rows)
    typer.echo("")
    show.views("What the views changed (seed 0)", summarise(BundleGraph.of(dataset), edits), records)
    typer.echo("\n" + story)


def _page(port: int) -> None:
    """The page on a model that was trained for it."""
    from clbr.cli import show
    from clbr.cli.serve import run
    from clbr.errors import require
    from clbr.inference.export import export
    from clbr.service.words import Words
    from clbr.simulation.generate import simulate
    from clbr.training.config import compose
    from clbr.training.run import start
    from clbr.training.runtime import use_threads

    require("fastapi", "serve")  # before seconds of training
    use_threads(None)
    dataset = simulate("tiny").dataset
    with TemporaryDirectory() as space:
        with show.progress("training CrossCBR on a small simulated shop", None):
            config = compose(dataset.name, "crosscbr", changes=SETTINGS)
            start(Path(space) / "run", config, dataset)
            desk = export(Path(space) / "run", Path(space) / "desk", data=dataset)
        run(desk, port=port, words=Words.parse("customer,bundle,thing"), log="error", browse=True)
