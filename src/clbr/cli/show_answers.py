"""How answers look on the terminal, and as JSON."""

import json
from typing import TYPE_CHECKING, Any

import typer

from clbr.cli.show import table

if TYPE_CHECKING:
    from clbr.data.dataset import Nodes
    from clbr.serve.artefact import Artefact
    from clbr.serve.whatif import BundleAnswer, UserAnswer

FROZEN = (
    "The model's parameters stay as trained: this is what it makes of the edited data, not what training on it would."
)
SHOWN = 10


def named(nodes: "Nodes", number: int) -> dict[str, Any]:
    """A node for machines."""
    return {"id": nodes.id(number), "name": nodes.label(number)}


def user_answer(artefact: "Artefact", answer: "UserAnswer", k: int, as_json: bool) -> None:
    """A user's list after the edits, beside where each bundle stood."""
    bundles = artefact.bundles
    if as_json:
        moves = [
            named(bundles, move.bundle)
            | {"before": move.before, "after": move.after}
            | {"score before": move.score_before, "score after": move.score_after}
            for move in answer.moves
        ]
        typer.echo(json.dumps({"user": artefact.users.id(answer.user), "top": k, "moves": moves}, ensure_ascii=False))
        return
    rows = []
    for move in answer.moves:
        before, after = (str(place) if place else "-" for place in (move.before, move.after))
        rows.append(
            [
                bundles.label(move.bundle),
                before,
                after,
                _arrow(move.before, move.after),
                f"{move.score_before:.3f}",
                f"{move.score_after:.3f}",
            ]
        )
    table(
        f"For user {artefact.users.label(answer.user)}, first {k}",
        ["", "before", "after", "", "score before", "after"],
        rows,
    )
    if [place.bundle for place in answer.before] == [place.bundle for place in answer.after]:
        typer.echo("Her list stays as it is: the edits move scores, but no bundle past another.")
    typer.echo(FROZEN)


def _arrow(before: int | None, after: int | None) -> str:
    if before is None:
        return "new"
    if after is None:
        return "gone"
    return "" if after == before else f"up {before - after}" if after < before else f"down {after - before}"


def bundle_answer(artefact: "Artefact", answer: "BundleAnswer", as_json: bool) -> None:
    """A bundle's audience before and after, by segment, and who enters and leaves."""
    users = artefact.users
    if as_json:
        told = {
            "bundle": artefact.bundles.id(answer.bundle),
            "top": answer.k,
            "before": len(answer.before),
            "after": len(answer.after),
            "segments": {
                name: {"users": c.users, "before": c.before, "after": c.after} for name, c in answer.segments.items()
            },
            "entered": [users.id(int(user)) for user in answer.entered],
            "left": [users.id(int(user)) for user in answer.left],
        }
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    rows = [
        [
            "all",
            f"{artefact.about.users:,}",
            f"{len(answer.before):,}",
            f"{len(answer.after):,}",
            f"{len(answer.after) - len(answer.before):+,}",
        ]
    ]
    for name, change in answer.segments.items():
        rows.append(
            [name, f"{change.users:,}", f"{change.before:,}", f"{change.after:,}", f"{change.after - change.before:+,}"]
        )
    title = f"Users who have {artefact.bundles.label(answer.bundle)} in their first {answer.k}"
    table(title, ["", "users", "before", "after", "change"], rows)
    for what, who in (("enter", answer.entered), ("leave", answer.left)):
        if len(who):
            shown = ", ".join(users.label(int(user)) for user in who[:SHOWN])
            typer.echo(f"{len(who):,} {what}: {shown}{' ...' if len(who) > SHOWN else ''}")
    if not len(answer.entered) and not len(answer.left):
        typer.echo("Its audience stays as it is: nobody's list gains or loses it.")
    typer.echo(FROZEN)
