"""clbr export, recommend, whatif and explain."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from clbr.cli.options import MovedData
from clbr.cli.train import Threads
from clbr.errors import InputError, found_in

if TYPE_CHECKING:
    from clbr.inference.artifact import Artifact

ArtifactFolder = Annotated[Path, typer.Argument(metavar="ARTIFACT", help="A folder that clbr export made.")]
Top = Annotated[int, typer.Option("--top", min=1, help="How long the list is.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Items = Annotated[list[str] | None, typer.Option(help="An item's id; as often as you like.")]
Bundles = Annotated[list[str] | None, typer.Option(help="A bundle's id; as often as you like.")]


def export(
    run: Annotated[Path, typer.Argument(help="A run that clbr train made.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the artifact; new or empty.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an artifact that is there.")] = False,
    data: MovedData = None,
    threads: Threads = None,
) -> None:
    """Make an artifact of a run: a folder that recommends and answers what-if, without the run and the data set."""
    from clbr.cli import show
    from clbr.inference.export import export as make
    from clbr.training.runtime import use_threads

    use_threads(threads)
    with show.progress("exporting", None):
        make(run, out, force=force, data=data)
    typer.echo((out / "card.md").read_text())
    typer.echo(f"next: clbr recommend {out} --user ID")


def recommend(
    artifact: ArtifactFolder,
    user: Annotated[str | None, typer.Option(help="A user's id.")] = None,
    top: Top = 20,
    likes_item: Items = None,
    likes_bundle: Bundles = None,
    new_bundle_of: Items = None,
    all_: Annotated[bool, typer.Option("--all", help="Every user, to --out.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="With --all: a Parquet file.")] = None,
    allow: Annotated[Path | None, typer.Option(help="A file of bundle ids, a line each: only these.")] = None,
    deny: Annotated[Path | None, typer.Option(help="A file of bundle ids, a line each: none of these.")] = None,
    keep_chosen: Annotated[bool, typer.Option("--keep-chosen", help="List what she has chosen, too.")] = False,
    diversity: Annotated[float, typer.Option(help="0: by score; up to 1: bundles that share less.")] = 0.0,
    json: Json = False,
    threads: Threads = None,
) -> None:
    """The best bundles for a user; for someone never seen, from what she likes; or for everyone, to a file.

    With --new-bundle-of, the other way round: the users whose lists a bundle of these items would stand highest in.
    """
    from clbr.cli import show_answers
    from clbr.inference.artifact import open_artifact
    from clbr.inference.recommend import best, require_k
    from clbr.inference.recommend import recommend as list_for
    from clbr.inference.unseen import new_bundle, newcomer
    from clbr.training.runtime import use_threads

    use_threads(threads)
    opened = open_artifact(artifact)
    given = {"--allow": allow, "--deny": deny, "--diversity": diversity, "--keep-chosen": keep_chosen}
    if sum((user is not None, all_, bool(likes_item or likes_bundle), bool(new_bundle_of))) != 1:
        raise InputError(
            "expected one of --user ID, --all, --new-bundle-of ITEM, or likes: --likes-item, --likes-bundle"
        )
    if new_bundle_of:
        _refuse("--new-bundle-of", given | {"--out": out})
        require_k(opened, top)
        things = [opened.items.index(item) for item in new_bundle_of]
        show_answers.readers(opened, new_bundle(opened, things).places(opened.unseen_bundle), top, json)
    elif all_:
        _refuse("--all", given | {"--json": json})
        _everyone(opened, out, top)
    else:
        _refuse("a list on the terminal", {"--out": out})
        limits: dict[str, Any] = {"allow": _bundles_of(opened, allow), "deny": _bundles_of(opened, deny) or ()}
        limits |= {"diversity": diversity}
        if user is not None:
            number = opened.users.index(user)
            whose = f"user {opened.users.label(number)}"
            found = list_for(opened, number, top, keep_chosen=keep_chosen, **limits)
        else:
            items = [opened.items.index(item) for item in likes_item or ()]
            bundles = [opened.bundles.index(bundle) for bundle in likes_bundle or ()]
            scores = newcomer(opened, items, bundles).scores(opened.unseen_user)
            whose = "someone never seen"
            found = best(opened, scores, top, chosen=() if keep_chosen else bundles, **limits)
        show_answers.recommended(opened, user, whose, found, diversity, json)


def _everyone(opened: "Artifact", out: Path | None, top: int) -> None:
    """Every user's list, to a file."""
    from clbr.cli import show
    from clbr.inference.recommend import recommend_all

    if out is None or out.suffix != ".parquet":
        raise InputError("--all: expected --out with a name that ends in .parquet")
    with show.progress("ranking", opened.about.users) as heard:
        rows = recommend_all(opened, out, top, heard)
    typer.echo(f"{out}: {rows:,} rows, {opened.about.users:,} users")


def _refuse(what: str, options: dict[str, Any]) -> None:
    """Refuse options that would be without effect."""
    if given := [name for name, value in options.items() if value]:
        raise InputError(f"{what} does not take {given[0]}; leave it out")


def _bundles_of(opened: "Artifact", path: Path | None) -> list[int] | None:
    """The bundles that a file lists."""
    if path is None:
        return None
    from clbr.files import read_bytes

    # utf-8-sig: spreadsheets put a mark before the first line
    lines = [line.strip() for line in read_bytes(path).decode("utf-8-sig", "replace").splitlines()]
    with found_in(path):
        return [opened.bundles.index(line) for line in lines if line]


class OneSwap(TyperCommand):
    """A command whose --swap is given once at most: of several, all but the last would be lost without a word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Look before it is parsed."""
        if sum(word == "--swap" or word.startswith("--swap=") for word in args) > 1:
            raise InputError("--swap is there more than once; give one, and the others as --drop-item and --add-item")
        return super().parse_args(ctx, args)


def whatif(
    artifact: ArtifactFolder,
    user: Annotated[str | None, typer.Option(help="Whose list; edits are of her history.")] = None,
    bundle: Annotated[str | None, typer.Option(help="Whose audience; edits are of its contents.")] = None,
    add_item: Items = None,
    drop_item: Items = None,
    add_bundle: Bundles = None,
    drop_bundle: Bundles = None,
    swap: Annotated[tuple[str, str] | None, typer.Option(help="OLD NEW: of a bundle's items.")] = None,
    edits_file: Annotated[Path | None, typer.Option("--edits", help="A JSON file of edits of any relation.")] = None,
    top: Top = 20,
    json: Json = False,
    threads: Threads = None,
) -> None:
    """What would change if a user's history, or a bundle's contents, were different?

    For a user her list before and after; for a bundle its audience, those who have it in their first --top. Exact for
    the trained parameters, which stay as they are. A file of edits holds pairs of ids by relation (ub, ui, bi):
    {"add": {"ui": [["17", "3"]]}, "drop": {"bi": [["5", "8"]]}}
    """
    from clbr.cli import show_answers
    from clbr.inference.artifact import open_artifact
    from clbr.inference.edit_requests import contents_edits, history_edits, read_edits
    from clbr.inference.whatif import ask_bundle, ask_user, idle
    from clbr.training.runtime import use_threads

    use_threads(threads)
    opened = open_artifact(artifact)
    opened.require_whatif()
    if (user is None) == (bundle is None):
        raise InputError("expected --user ID or --bundle ID, one of them")
    added, dropped = (tuple(opened.items.index(item) for item in items or ()) for items in (add_item, drop_item))
    if swap:
        added, dropped = (*added, opened.items.index(swap[1])), (*dropped, opened.items.index(swap[0]))
    if user is not None:
        if swap:
            raise InputError("--swap is of a bundle's items; for a user give --drop-item and --add-item")
        plus, minus = (tuple(opened.bundles.index(b) for b in given or ()) for given in (add_bundle, drop_bundle))
        whose = opened.users.index(user)
        edits = history_edits(opened, whose, add_items=added, drop_items=dropped, add_bundles=plus, drop_bundles=minus)
    else:
        if add_bundle or drop_bundle:
            raise InputError("a bundle holds items: give --add-item, --drop-item or --swap")
        assert bundle is not None
        whose = opened.bundles.index(bundle)
        edits = contents_edits(opened, whose, add_items=added, drop_items=dropped)
    if edits_file is not None:
        if any(edits.touches(relation) for relation in ("ub", "ui", "bi")):
            raise InputError("--edits holds all edits: leave out --add-item and the like")
        edits = read_edits(opened, edits_file)
    if not any(edits.touches(relation) for relation in ("ub", "ui", "bi")):
        raise InputError(
            "nothing is edited: give --add-item, --drop-item, --add-bundle, --drop-bundle, --swap, --edits"
        )
    for warning in idle(opened, edits):
        typer.echo(f"warning: {warning}", err=True)
    if user is not None:
        show_answers.user_answer(opened, ask_user(opened, whose, edits, top), top, json)
    else:
        show_answers.bundle_answer(opened, ask_bundle(opened, whose, edits, top), json)


def explain(
    artifact: ArtifactFolder,
    user: Annotated[str, typer.Option(help="Whose list.", show_default=False)],
    bundle: Annotated[str, typer.Option(help="Which bundle.", show_default=False)],
    top: Top = 20,
    swaps: Annotated[bool, typer.Option("--swaps", help="Change the bundle's contents, not her history.")] = False,
    budget: Annotated[int, typer.Option(min=1, help="Sets of edits that are tried at most.")] = 100,
    json: Json = False,
    threads: Threads = None,
) -> None:
    """Why is a bundle in a user's list? If it is not: what would it take?

    The smallest part of her history without which it would not be there, or the smallest additions to it (with --swaps:
    swaps in the bundle) that bring it there. Every answer was seen to hold.
    """
    from clbr.cli import show, show_answers
    from clbr.inference.artifact import open_artifact
    from clbr.inference.explain import rank_of, what_it_takes, why
    from clbr.inference.whatif import factual
    from clbr.training.runtime import use_threads

    use_threads(threads)
    opened = open_artifact(artifact)
    who, what = opened.users.index(user), opened.bundles.index(bundle)
    with show.progress("looking for the smallest edits", None):
        if rank_of(factual(opened), who, what) <= top and not swaps:
            answer = why(opened, who, what, top, budget=budget)
        else:
            answer = what_it_takes(opened, who, what, top, of="contents" if swaps else "history", budget=budget)
    show_answers.explanation(opened, answer, json)
