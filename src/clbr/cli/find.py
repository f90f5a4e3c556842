"""clbr find and show."""

from typing import Annotated, Literal

import typer

from clbr.cli.options import Threads
from clbr.cli.recommend import ArtifactFolder, open_recommender
from clbr.errors import InputError


def find(
    artifact: ArtifactFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="An id or a name, or a part of one.")],
    kind: Annotated[Literal["user", "bundle", "item"] | None, typer.Option(help="Only these.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Of each kind, listed at most.")] = 10,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object: by kind, the number of all matches and the first of them.")
    ] = False,
    threads: Threads = None,
) -> None:
    """Find users, bundles and items by id or name.

    In this order: the exact id; ids and names that begin with the text; a word that begins with it; the others that
    contain it. Upper and lower case do not matter. Exit code 1 if nothing is found.
    """
    from clbr.cli import show_answers

    if not text.strip():
        raise InputError("the text is empty: expected an id or a name, or a part of one")
    recommender = open_recommender(artifact, threads)
    answer = recommender.find(text, kind, limit)
    matches = [results for results in answer.results if results.found]
    if json:
        typer.echo(answer.to_json())
    for number, results in enumerate([] if json else matches):
        typer.echo("\n" if number else "", nl=False)
        bundles = [one.id for one in results.found] if results.kind == "bundle" else []
        show_answers.found(results, recommender.directory.previews(bundles).bundles)
    if not matches:
        typer.echo(f"No {kind or 'user, bundle or item'} has an id or a name that contains '{text}'.", err=True)
        raise typer.Exit(1)


def show_node(
    artifact: ArtifactFolder,
    user: Annotated[str | None, typer.Option(help="A user's id or name: the history.")] = None,
    bundle: Annotated[
        str | None, typer.Option(help="A bundle's id or name: its contents, and its number of users.")
    ] = None,
    item: Annotated[str | None, typer.Option(help="An item's id or name: the bundles that hold it.")] = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="One JSON object: the node and its history, contents or bundles, or artifact.json."
        ),
    ] = False,
    threads: Threads = None,
) -> None:
    """What is known of a user, a bundle or an item; without one of them: the model card."""
    from clbr.cli import show_answers

    recommender = open_recommender(artifact, threads)
    if sum(one is not None for one in (user, bundle, item)) > 1:
        raise InputError("expected one of --user ID, --bundle ID, --item ID, or none for the model card")
    directory = recommender.directory
    if user is not None:
        who = directory.user(user)
        typer.echo(who.to_json()) if json else show_answers.user(who)
    elif bundle is not None:
        what = directory.bundle(bundle)
        typer.echo(what.to_json()) if json else show_answers.bundle(what)
    elif item is not None:
        which = directory.item(item)
        typer.echo(which.to_json()) if json else show_answers.item(which)
    else:
        typer.echo(recommender.artifact.about.model_dump_json() if json else recommender.card)
