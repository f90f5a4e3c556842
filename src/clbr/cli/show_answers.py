"""How answers look on the terminal."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from clbr.cli.show import counted, table

if TYPE_CHECKING:
    from clbr.inference import answers
    from clbr.inference.answers import Node
    from clbr.inference.find import BundleDetails, BundlePreview, ItemDetails, SearchResults, UserDetails

CAVEAT = "Predicted, not retrained: clbr show ARTIFACT has the caveat."
"""The full caveat is in the model card and in the answer's JSON."""
SHOWN_USERS = 10
SHOWN_NODES = 50
SAME_SCORE = 1e-6
"""Scores that differ by less differ by rounding alone."""


def label(node: "Node") -> str:
    """A node's name and, to ask further, its id."""
    return f"{node.name} ({node.id})" if node.name else node.id


def recommendations(
    answer: "answers.Recommendations", diversity: float, costs: Mapping[str, Mapping[str, float]]
) -> None:
    """A list, and what its diversity costs."""
    whose = f"user {answer.user.label}" if answer.user else "an unseen user"
    if not answer.recommended:
        typer.echo(f"For {whose} no bundle is left: all are chosen, denied or not among the allowed ones.")
        return
    rows = [[str(one.rank), one.label, one.id, f"{one.score:.3f}"] for one in answer.recommended]
    table(f"For {whose}", ["rank", "bundle", "id", "score"], rows, names=3)
    if diversity and costs:
        known = {float(value): cost["recall@20"] for value, cost in costs.items()}
        near = min(known, key=lambda value: abs(value - diversity))
        found = f"recall@20 is {100 * known[near]:.2f} % with diversity {near:g}, {100 * known[0.0]:.2f} % without"
        typer.echo(f"On validation, {found}.")


def similar(answer: "answers.Similar") -> None:
    """The nearest bundles or items."""
    rows = [[str(one.rank), one.label, one.id, f"{one.score:.3f}"] for one in answer.similar]
    table(f"Similar to {answer.kind} {label(answer.node)}", ["rank", answer.kind, "id", "cosine"], rows, names=3)


def whatif(answer: "answers.WhatIf") -> None:
    """A user's list after the edits, beside the ranks before."""
    rows = []
    for move in answer.moves:
        ranks = [str(rank) if rank else "-" for rank in (move.rank_before, move.rank_after)]
        scores = [f"{move.score_before:.3f}", f"{move.score_after:.3f}"]
        rows.append([label(move), *ranks, _change(move.rank_before, move.rank_after), *scores])
    columns = ["", "rank before", "after", "", "score before", "after"]
    table(f"For user {answer.user.label}, first {answer.k}", columns, rows)
    if all(abs(move.score_after - move.score_before) < SAME_SCORE for move in answer.moves):
        typer.echo("The list and its scores stay as they are: the edits have no effect on it.")
    elif [one.id for one in answer.before] == [one.id for one in answer.after]:
        typer.echo("The list stays as it is: the edits change scores, but no rank.")
    _end(answer.warnings)


def _change(before: int | None, after: int | None) -> str:
    if before is None:
        return "new"
    if after is None:
        return "gone"
    return "" if after == before else f"up {before - after}" if after < before else f"down {after - before}"


def audience(answer: "answers.Audience") -> None:
    """A bundle's audience before and after, by segment, and who enters and leaves."""
    rows = [_audience_row("all", answer.users, answer.before, answer.after)]
    rows += [_audience_row(name, one.users, one.before, one.after) for name, one in answer.segments.items()]
    title = f"Users who have {answer.bundle.label} in their first {answer.k}"
    table(title, ["", "users", "before", "after", "change"], rows)
    for what, count, users in (
        ("enter", answer.entered_count, answer.entered),
        ("leave", answer.left_count, answer.left),
    ):
        if count:
            shown = ", ".join(user.label for user in users[:SHOWN_USERS])
            typer.echo(f"{count:,} {what}: {shown}{' ...' if count > SHOWN_USERS else ''}")
    if not answer.entered_count and not answer.left_count:
        typer.echo("The audience stays as it is: no list gains or loses the bundle.")
    _end(answer.warnings)


def _audience_row(name: str, users: int, before: int, after: int) -> list[str]:
    return [name, f"{users:,}", f"{before:,}", f"{after:,}", f"{after - before:+,}"]


def new_bundle_audience(answer: "answers.NewBundleAudience") -> None:
    """The users in whose lists an unseen bundle ranks best."""
    rows = [[user.label, f"{user.rank:,}"] for user in answer.members or answer.best]
    title = f"An unseen bundle: in the first {answer.k} of {answer.audience:,} of {answer.users:,} users; best ranks"
    if not answer.members:
        title += ", of users who do not get it"
    table(title, ["user", "rank"], rows)
    typer.echo(CAVEAT)


def explanation(answer: "answers.Explanation") -> None:
    """Which part of a history keeps a bundle in a list, or what would bring it there."""
    typer.echo(f"{answer.bundle.label} has rank {answer.rank:,} in user {answer.user.label}'s list.")
    if answer.out_of_reach:
        _out_of_reach(answer)
        return
    if not answer.found:
        typer.echo(_not_found(answer))
        return
    lead = {
        "why": "It is there because of these; without them its rank would be",
        "history": "These, added to the history, would bring it to rank",
        "contents": "These swaps in it would bring it to rank",
    }
    typer.echo(f"{lead[answer.question]} {answer.rank_after:,}:")
    for one in answer.evidence:
        typer.echo(f"  {one.kind} {label(one)}")
    for swap in answer.swaps:
        typer.echo(f"  {label(swap.new)} for {label(swap.old)}")
    typer.echo(f"Verified; sets of edits that were tried: {answer.tried}.")
    typer.echo(CAVEAT)


def _out_of_reach(answer: "answers.Explanation") -> None:
    """How near a few edits come to what needs more than a handful of them."""
    found = f" It would take {len(answer.evidence) or len(answer.swaps)} changes." if answer.found else ""
    typer.echo(f"It is out of reach: no handful of changes that was tried brings it in.{found}")
    if not answer.nearest:
        return
    rows = []
    for one in answer.nearest:
        edits = [*map(label, one.evidence), *(f"{label(swap.new)} for {label(swap.old)}" for swap in one.swaps)]
        rows.append([", ".join(edits), f"{one.edits:,}", f"{one.rank:,}"])
    table(f"How near a few come (now rank {answer.rank:,})", ["which", "changes", "rank"], rows)
    typer.echo(CAVEAT)


def _not_found(answer: "answers.Explanation") -> str:
    if not answer.tried:
        return "Nothing can be edited: " + (
            "the bundle has no items to swap." if answer.question == "contents" else "the history is empty."
        )
    tried = f"sets of edits that were tried: {answer.tried}"
    if answer.out_of_budget:
        return f"Nothing was found within the budget ({tried}); try a larger --budget."
    most = "the whole history removed leaves it there" if answer.question == "why" else "none brings it there"
    return f"Nothing was found: {tried}, and {most}."


def suggestions(answer: "answers.Suggestions") -> None:
    """The swaps that gain the most users."""
    if not answer.swaps:
        typer.echo(f"{answer.bundle.label} has {answer.audience:,} users; no swap was found that gains more.")
        return
    rows = [[label(one.new), label(one.old), f"{one.audience:,}", f"{one.gain:+,}"] for one in answer.swaps]
    title = f"Swaps for {answer.bundle.label}, which {answer.audience:,} users have in their first {answer.k}"
    table(title, ["put in", "for", "users", "gain"], rows, names=2)
    typer.echo(CAVEAT)


def _end(warnings: list[str]) -> None:
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(CAVEAT)


def found(results: "SearchResults", previews: Sequence["BundlePreview"]) -> None:
    """The nodes of a kind that a search found; bundles with the first of their items."""
    kind = results.kind
    size = {"user": "choices", "bundle": "items", "item": "bundles"}[kind]
    rows = [[one.label, one.id, f"{one.size:,}"] for one in results.found]
    for row, preview in zip(rows, previews, strict=False):
        more = ", ..." if preview.size > len(preview.items) else ""
        row.append(", ".join(one.label for one in preview.items) + more)
    first = f", the first {len(rows):,}" if len(rows) < results.total else ""
    columns = [kind, "id", size, *(["contents"] if previews else [])]
    table(f"{counted(results.total, kind)}{first}", columns, rows, names=len(columns))


def user(answer: "UserDetails") -> None:
    """A user's history."""
    typer.echo(f"User {label(answer)}, segment: {answer.segment}")
    _nodes("bundle", len(answer.bundles), answer.bundles)
    _nodes("item", len(answer.items), answer.items)


def bundle(answer: "BundleDetails") -> None:
    """A bundle's contents, and how many chose it."""
    typer.echo(f"Bundle {label(answer)}, chosen by {counted(answer.chosen_by, 'user')}")
    _nodes("item", len(answer.items), answer.items)


def item(answer: "ItemDetails") -> None:
    """The bundles that hold an item, and how many have it."""
    typer.echo(f"Item {label(answer)}, chosen by {counted(answer.users, 'user')}")
    _nodes("bundle", answer.bundles, answer.held_by)


def _nodes(kind: str, total: int, nodes: Sequence["Node"]) -> None:
    """A table of nodes, or of the first of many."""
    shown = nodes[:SHOWN_NODES]
    first = f", the first {len(shown):,}" if len(shown) < total else ""
    table(f"\n{counted(total, kind)}{first}", [kind, "id"] if nodes else [], [[one.label, one.id] for one in shown], 2)
