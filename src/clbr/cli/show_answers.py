"""How answers look on the terminal, and as JSON."""

import json
from typing import TYPE_CHECKING, Any

import typer

from clbr.cli.show import table
from clbr.inference.caveat import CAVEAT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from clbr.data.dataset import Nodes
    from clbr.inference.artifact import Artifact
    from clbr.inference.explain import Explanation
    from clbr.inference.recommend import Place
    from clbr.inference.whatif import BundleAnswer, UserAnswer

SHOWN = 10
SAME = 1e-6
"""Scores nearer than this differ by rounding alone."""


def named(nodes: "Nodes", number: int) -> dict[str, Any]:
    """A node for machines."""
    return {"id": nodes.id(number), "name": nodes.label(number)}


def label(nodes: "Nodes", number: int) -> str:
    """A node for people: its name and, as one has to type it to ask on, its id."""
    name, id = nodes.label(number), nodes.id(number)
    return name if name == id else f"{name} ({id})"


def recommended(
    artifact: "Artifact", user: str | None, whose: str, found: "list[Place]", diversity: float, as_json: bool
) -> None:
    """A list, and what its diversity costs."""
    bundles = artifact.bundles
    if as_json:
        listed = [named(bundles, place.bundle) | {"score": place.score} for place in found]
        typer.echo(json.dumps({"user": user, "recommended": listed}, ensure_ascii=False))
        return
    if not found:
        typer.echo(f"For {whose} no bundle is left: all are chosen, denied or not on the list of what is allowed.")
        return
    rows = [[bundles.label(place.bundle), bundles.id(place.bundle), f"{place.score:.3f}"] for place in found]
    table(f"For {whose}", ["", "id", "score"], rows)
    if diversity and artifact.about.diversity:
        known = {float(share): cost["recall@20"] for share, cost in artifact.about.diversity.items()}
        near = min(known, key=lambda share: abs(share - diversity))
        costs = f"diversity {near:g} finds {100 * known[near]:.2f} % of what users chose, none {100 * known[0.0]:.2f} %"
        typer.echo(f"On validation, {costs}.")


def user_answer(artifact: "Artifact", answer: "UserAnswer", k: int, as_json: bool) -> None:
    """A user's list after the edits, beside where each bundle stood."""
    bundles = artifact.bundles
    if as_json:
        moves = [
            named(bundles, move.bundle)
            | {"before": move.before, "after": move.after}
            | {"score_before": move.score_before, "score_after": move.score_after}
            for move in answer.moves
        ]
        told = {"user": artifact.users.id(answer.user), "top": k, "moves": moves, "note": CAVEAT}
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    rows = []
    for move in answer.moves:
        places = [str(place) if place else "-" for place in (move.before, move.after)]
        scores = [f"{move.score_before:.3f}", f"{move.score_after:.3f}"]
        rows.append([label(bundles, move.bundle), *places, _arrow(move.before, move.after), *scores])
    title = f"For user {artifact.users.label(answer.user)}, first {k}"
    table(title, ["", "before", "after", "", "score before", "after"], rows)
    if all(abs(move.score_after - move.score_before) < SAME for move in answer.moves):
        typer.echo("Her list and its scores stay as they are: the edits are without effect on it.")
    elif [place.bundle for place in answer.before] == [place.bundle for place in answer.after]:
        typer.echo("Her list stays as it is: the edits move scores, but no bundle past another.")
    typer.echo(CAVEAT)


def readers(artifact: "Artifact", places: "NDArray[np.int64]", k: int, as_json: bool) -> None:
    """The users in whose lists a new bundle would stand highest, and how many have it in their first k."""
    order = places.argsort(kind="stable")[:k]
    inside = int((places <= k).sum())
    if as_json:
        users = [named(artifact.users, int(user)) | {"place": int(places[user])} for user in order]
        typer.echo(json.dumps({"top": k, "audience": inside, "users": users}, ensure_ascii=False))
        return
    rows = [[artifact.users.label(int(user)), f"{places[user]:,}"] for user in order]
    table(
        f"A new bundle: in the first {k} of {inside:,} of {artifact.about.users:,} users; highest of",
        ["user", "place"],
        rows,
    )


def _arrow(before: int | None, after: int | None) -> str:
    if before is None:
        return "new"
    if after is None:
        return "gone"
    return "" if after == before else f"up {before - after}" if after < before else f"down {after - before}"


def bundle_answer(artifact: "Artifact", answer: "BundleAnswer", as_json: bool) -> None:
    """A bundle's audience before and after, by segment, and who enters and leaves."""
    users = artifact.users
    if as_json:
        told = {
            "bundle": artifact.bundles.id(answer.bundle),
            "top": answer.k,
            "before": len(answer.before),
            "after": len(answer.after),
            "segments": {
                name: {"users": c.users, "before": c.before, "after": c.after} for name, c in answer.segments.items()
            },
            "entered": [users.id(int(user)) for user in answer.entered],
            "left": [users.id(int(user)) for user in answer.left],
            "note": CAVEAT,
        }
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    rows = [
        [
            "all",
            f"{artifact.about.users:,}",
            f"{len(answer.before):,}",
            f"{len(answer.after):,}",
            f"{len(answer.after) - len(answer.before):+,}",
        ]
    ]
    for name, change in answer.segments.items():
        rows.append(
            [name, f"{change.users:,}", f"{change.before:,}", f"{change.after:,}", f"{change.after - change.before:+,}"]
        )
    title = f"Users who have {artifact.bundles.label(answer.bundle)} in their first {answer.k}"
    table(title, ["", "users", "before", "after", "change"], rows)
    for what, who in (("enter", answer.entered), ("leave", answer.left)):
        if len(who):
            shown = ", ".join(users.label(int(user)) for user in who[:SHOWN])
            typer.echo(f"{len(who):,} {what}: {shown}{' ...' if len(who) > SHOWN else ''}")
    if not len(answer.entered) and not len(answer.left):
        typer.echo("Its audience stays as it is: nobody's list gains or loses it.")
    typer.echo(CAVEAT)


def _not_found(answer: "Explanation") -> str:
    if not answer.tried:
        return "Nothing can be changed: " + (
            "the bundle has no items to swap." if answer.question == "contents" else "she has nothing that could be."
        )
    tried = f"{answer.tried} sets of edits were tried"
    if answer.out_of_budget:
        return f"Nothing was found within the budget ({tried}); try --budget."
    most = "even all of her history taken away leaves it there" if answer.question == "why" else "none brings it there"
    return f"Nothing was found: {tried}, and {most}."


def explanation(artifact: "Artifact", answer: "Explanation", as_json: bool) -> None:
    """What of a history holds a bundle in a list, or what would bring it there."""
    kinds = {"ui": artifact.items, "ub": artifact.bundles}
    things = [(kinds[thing.relation], thing.node) for thing in answer.things]
    if as_json:
        told = {
            "question": answer.question,
            "user": artifact.users.id(answer.user),
            "bundle": artifact.bundles.id(answer.bundle),
            "top": answer.k,
            "place": answer.place,
            "found": answer.edits is not None,
            "out_of_budget": answer.out_of_budget,
            "rank_after": answer.rank_after,
            "tried": answer.tried,
            "note": CAVEAT,
            "things": [{"kind": nodes.kind} | named(nodes, node) for nodes, node in things],
            "swaps": [
                {"old": named(artifact.items, swap.old), "new": named(artifact.items, swap.new)}
                for swap in answer.swaps
            ],
        }
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    who, what = artifact.users.label(answer.user), artifact.bundles.label(answer.bundle)
    typer.echo(f"{what} is at place {answer.place:,} of user {who}'s list.")
    if answer.edits is None:
        typer.echo(_not_found(answer))
        return
    words = {
        "why": "It is there because of these; without them it would be",
        "history": "It would take these, added to her history, to bring it",
        "contents": "It would take these swaps in it to bring it",
    }
    typer.echo(f"{words[answer.question]} at place {answer.rank_after:,}:")
    for nodes, node in things:
        typer.echo(f"  {nodes.kind} {label(nodes, node)}")
    for swap in answer.swaps:
        typer.echo(f"  {label(artifact.items, swap.new)} for {label(artifact.items, swap.old)}")
    typer.echo(f"Seen to hold; {answer.tried} sets of edits were tried. {CAVEAT}")
