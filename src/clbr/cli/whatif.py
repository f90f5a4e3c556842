"""clbr whatif, audience, explain and suggest."""

import json as json_
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from clbr.cli.options import Threads
from clbr.cli.recommend import ArtifactFolder, Bundles, Items, Json, K, open_recommender
from clbr.errors import InputError, found_in

if TYPE_CHECKING:
    from clbr.inference.recommender import Recommender

EditsFile = Annotated[Path | None, typer.Option("--edits", help="A JSON file of edits of any relation.")]
Swaps = Annotated[
    list[str] | None, typer.Option("--swap", metavar="OLD=NEW", help="Replace an item by another; may be repeated.")
]


def whatif(
    artifact: ArtifactFolder,
    user: Annotated[str, typer.Option(help="A user's id or name.", show_default=False)],
    add_item: Items = None,
    drop_item: Items = None,
    add_bundle: Bundles = None,
    drop_bundle: Bundles = None,
    edits: EditsFile = None,
    k: K = 20,
    json: Json = False,
    threads: Threads = None,
) -> None:
    """A user's list if the user's history were different.

    Predicted, not retrained. A file of edits holds pairs of ids or names by relation
    (ub, ui, bi): {"add": {"ui": [["17", "3"]]}, "drop": {"bi": [["5", "8"]]}}
    """
    from clbr.cli import show_answers

    recommender = open_recommender(artifact, threads)
    recommender.artifact.require_whatif()
    recommender.artifact.users.index(user)
    with _edits_of(edits) as read:
        answer = recommender.whatif(
            user,
            add_items=add_item or (),
            drop_items=drop_item or (),
            add_bundles=add_bundle or (),
            drop_bundles=drop_bundle or (),
            edits=read,
            k=k,
        )
    if json:
        typer.echo(answer.to_json())
    else:
        show_answers.whatif(answer)


def audience(
    artifact: ArtifactFolder,
    bundle: Annotated[str | None, typer.Option(help="A bundle's id or name.")] = None,
    add_item: Items = None,
    drop_item: Items = None,
    swap: Swaps = None,
    edits: EditsFile = None,
    item: Annotated[
        list[str] | None, typer.Option(help="Instead of --bundle: an item of an unseen bundle; may be repeated.")
    ] = None,
    k: K = 20,
    max_users: Annotated[
        int, typer.Option(min=0, help="Users who enter or leave (of an unseen bundle: who get it), listed at most.")
    ] = 50,
    json: Json = False,
    threads: Threads = None,
) -> None:
    """The users who have a bundle among their first --k, before and after edits of its contents.

    With --item, the users in whose lists an unseen bundle of these items would rank best.
    """
    from clbr.cli import show_answers

    recommender = open_recommender(artifact, threads)
    recommender.artifact.require_whatif()
    if (bundle is None) == (not item):
        raise InputError("expected --bundle ID, or the items of an unseen bundle with --item: one of the two")
    if bundle is None:
        if add_item or drop_item or swap or edits:
            raise InputError("an unseen bundle has only its items: give them all with --item")
        new = recommender.new_bundle_audience(item or [], k=k, max_users=max_users)
        typer.echo(new.to_json()) if json else show_answers.new_bundle_audience(new)
        return
    recommender.artifact.bundles.index(bundle)
    with _edits_of(edits) as read:
        answer = recommender.audience(
            bundle,
            add_items=add_item or (),
            drop_items=drop_item or (),
            swap=[_parse_swap(recommender, text) for text in swap or ()],
            edits=read,
            k=k,
            max_users=max_users,
        )
    if json:
        typer.echo(answer.to_json())
    else:
        show_answers.audience(answer)


def explain(
    artifact: ArtifactFolder,
    user: Annotated[str, typer.Option(help="A user's id or name.", show_default=False)],
    bundle: Annotated[str, typer.Option(help="A bundle's id or name.", show_default=False)],
    k: K = 20,
    of: Annotated[
        Literal["history", "contents"], typer.Option(help="What may be edited to bring it there: the user's or its.")
    ] = "history",
    budget: Annotated[int, typer.Option(min=1, help="Sets of edits that are tried at most.")] = 100,
    json: Json = False,
    threads: Threads = None,
) -> None:
    """Why is a bundle in a user's list? If it is not: what would bring it there?

    The smallest part of the history without which it would not be there, or the smallest additions to the history (with
    --of contents: swaps in the bundle) that bring it there. Every answer is verified by a what-if.
    """
    from clbr.cli import show, show_answers

    recommender = open_recommender(artifact, threads)
    with show.progress("searching for the smallest edits", None):
        answer = recommender.explain(user, bundle, of=of, k=k, budget=budget)
    if json:
        typer.echo(answer.to_json())
    else:
        show_answers.explanation(answer)


def suggest(
    artifact: ArtifactFolder,
    bundle: Annotated[str, typer.Option(help="A bundle's id or name.", show_default=False)],
    add_item: Items = None,
    drop_item: Items = None,
    k: K = 20,
    count: Annotated[int, typer.Option(min=1, max=8, help="Swaps that are listed at most.")] = 5,
    json: Json = False,
    threads: Threads = None,
) -> None:
    """The swaps of an item that would gain a bundle the most users, each by itself, on top of given edits."""
    from clbr.cli import show, show_answers

    recommender = open_recommender(artifact, threads)
    with show.progress("trying swaps", None):
        answer = recommender.suggest(bundle, add_items=add_item or (), drop_items=drop_item or (), k=k, count=count)
    if json:
        typer.echo(answer.to_json())
    else:
        show_answers.suggestions(answer)


def _parse_swap(recommender: "Recommender", text: str) -> tuple[str, str]:
    """OLD=NEW; where ids hold a =, it is split where both sides are items."""
    items = recommender.artifact.items
    places = [place for place, letter in enumerate(text) if letter == "=" and 0 < place < len(text) - 1]
    if not places:
        raise InputError(f"--swap {text}: expected OLD=NEW, two item ids")
    both = [
        place for place in places if items.find(text[:place]) is not None and items.find(text[place + 1 :]) is not None
    ]
    place = (both or places)[0]
    return text[:place], text[place + 1 :]


@contextmanager
def _edits_of(path: Path | None) -> Iterator[Any]:
    """The content of a file of edits, None without one; errors name the file."""
    if path is None:
        yield None
        return
    from clbr.files import read_bytes

    content = read_bytes(path)
    with found_in(path):
        try:
            read = json_.loads(content)
        except (ValueError, RecursionError):
            raise InputError("not a file of edits (not JSON)") from None
        yield read
