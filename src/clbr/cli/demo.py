"""clbr demo: the whole tool in a minute, on the embedded world."""

import typer


def demo() -> None:
    """See it work: a small simulated shop, its numbers, and what everyone should beat. Writes nothing."""
    from clbr.cli import show
    from clbr.data.describe import describe
    from clbr.data.simulate import simulate
    from clbr.evaluation.floors import FLOORS
    from clbr.evaluation.protocol import evaluate
    from clbr.evaluation.story import tell

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
    typer.echo(
        "\nWhat to type next\n"
        "  clbr data simulate --like tiny --out shop     keep this shop as a data folder\n"
        "  clbr data describe shop                       its numbers\n"
        "  clbr floors shop                              popularity and EASE on it\n"
        "  clbr data import --help                       the same with three tables of your own"
    )
