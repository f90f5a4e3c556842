"""A what-if in words, on a world whose truth is known."""

import numpy as np

from clbr.data.world import World
from clbr.serve.artefact import Artefact
from clbr.serve.edits import history_edits
from clbr.serve.recommend import of_left
from clbr.serve.whatif import UserAnswer, ask_user

HAS, LACKS = "keyboard", "mouse"
PLACES = 5


def tell_what_if(artefact: Artefact, world: World) -> str:
    """Someone bought one thing and not the other that goes with it: what if she had?"""
    names = [artefact.items.label(item) for item in range(artefact.about.items)]
    has, lacks = names.index(HAS), names.index(LACKS)
    ui = artefact.graph.ui.pairs
    whose = next(
        int(user)
        for user in np.setdiff1d(ui[ui[:, 1] == has, 0], ui[ui[:, 1] == lacks, 0])
        if len(of_left(artefact.chosen, int(user)))
    )
    edits = history_edits(artefact, whose, add_items=(lacks,))
    answer = ask_user(artefact, whose, edits, PLACES)
    listed = ", ".join(artefact.bundles.label(place.bundle) for place in answer.after)
    lines = [
        f"What if? Customer {artefact.users.label(whose)} bought the {HAS} and not the {LACKS}. "
        f"Had she bought both, her first {PLACES} would be",
        f"  {listed}",
        *_moves(artefact, answer),
        _truth(artefact, world, answer, lacks),
    ]
    return "\n".join(lines)


def _moves(artefact: Artefact, answer: UserAnswer) -> list[str]:
    told = []
    for move in answer.moves:
        name = artefact.bundles.label(move.bundle)
        if move.before is None:
            told.append(f"  {name} is new there, at place {move.after}")
        elif move.after is None:
            told.append(f"  {name}, at place {move.before} before, is gone")
        elif move.before != move.after:
            told.append(f"  {name} goes from place {move.before} to {move.after}")
    return told or ["  and that is her list as it was: one thing more does not change it"]


def _truth(artefact: Artefact, world: World, answer: UserAnswer, item: int) -> str:
    """Of the bundles whose score rises, how many she truly would want more."""
    pairs = np.array([(answer.user, bundle) for bundle in range(artefact.about.bundles)], np.int32)
    edits = history_edits(artefact, answer.user, add_items=(item,))
    wanted = world.preference("ub", pairs, edits) - world.preference("ub", pairs)
    rising = [move.bundle for move in answer.moves if move.score_after > move.score_before]
    right = sum(wanted[bundle] > np.median(wanted) for bundle in rising)
    return (
        f"In truth, which is known here, {right} of the {len(rising)} bundles among these whose score rises gain more "
        "than the middle bundle does."
    )
