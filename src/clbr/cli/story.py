"""The demo's stories: one customer's recommendations and a what-if, beside the known truth."""

from collections.abc import Iterable, Mapping

import numpy as np

from clbr.data.dataset import Nodes
from clbr.data.pairs import Pairs
from clbr.evaluation.ranking import rank
from clbr.inference.artifact import Artifact
from clbr.inference.edit_requests import history_edits
from clbr.inference.recommend import of_left
from clbr.inference.whatif import UserAnswer, ask_user
from clbr.models.base import Recommender
from clbr.simulation.world import World


def tell(world: World, recommenders: Mapping[str, Recommender], places: int = 4) -> str:
    """The story of one user: what she has, what each recommender offers, what she chose and would choose."""
    dataset = world.dataset
    user = _someone_with_a_taste(world)
    chose = _of(dataset.test, user)
    lines = [
        ("has bought", _list(dataset.items, _of(dataset.ui, user)[:places]) + ", ..."),
        ("has the bundles", _list(dataset.bundles, _of(dataset.train, user)[:places])),
    ]
    for name, recommender in recommenders.items():
        offered = rank(recommender, np.array([user]), places, exclude=dataset.train)[0]
        found = sum(bundle in chose for bundle in offered)
        lines.append((f"is offered by {name}", f"{_list(dataset.bundles, offered)} ({found} of {places} right)"))
    truth = world.choices(np.array([user]), places)[0]
    lines += [
        ("chose in the test", _list(dataset.bundles, chose)),
        ("would choose next", f"{_list(dataset.bundles, truth)} (the truth, were she shown everything)"),
    ]
    width = max(len(what) for what, _ in lines)
    return "\n".join([f"Customer {dataset.users.label(user)}", *(f"  {what:{width}}  {told}" for what, told in lines)])


def _someone_with_a_taste(world: World) -> int:
    """Of the users with three test pairs or more, the one with the clearest taste."""
    tested = np.bincount(world.dataset.test[:, 0], minlength=len(world.dataset.users)) >= 3
    return int(np.where(tested, world.shown["ub"].interest.max(axis=1), -1).argmax())


def _of(pairs: Pairs, left: int) -> list[int]:
    return [int(right) for right in pairs[pairs[:, 0] == left, 1]]


def _list(nodes: Nodes, indices: Iterable[int]) -> str:
    return ", ".join(nodes.label(int(index)) for index in indices if index >= 0)


HAS, LACKS = "keyboard", "mouse"
PLACES = 5


def tell_what_if(artifact: Artifact, world: World) -> str:
    """Someone bought one thing and not the other that goes with it: what if she had?"""
    names = [artifact.items.label(item) for item in range(artifact.about.items)]
    has, lacks = names.index(HAS), names.index(LACKS)
    ui = artifact.graph.ui.pairs
    whose = next(
        int(user)
        for user in np.setdiff1d(ui[ui[:, 1] == has, 0], ui[ui[:, 1] == lacks, 0])
        if len(of_left(artifact.chosen, int(user)))
    )
    edits = history_edits(artifact, whose, add_items=(lacks,))
    answer = ask_user(artifact, whose, edits, PLACES)
    listed = ", ".join(artifact.bundles.label(place.bundle) for place in answer.after)
    lines = [
        f"What if? Customer {artifact.users.label(whose)} bought the {HAS} and not the {LACKS}. "
        f"Had she bought both, her first {PLACES} would be",
        f"  {listed}",
        *_moves(artifact, answer),
        _truth(artifact, world, answer, lacks),
    ]
    return "\n".join(lines)


def _moves(artifact: Artifact, answer: UserAnswer) -> list[str]:
    told = []
    for move in answer.moves:
        name = artifact.bundles.label(move.bundle)
        if move.before is None:
            told.append(f"  {name} is new there, at place {move.after}")
        elif move.after is None:
            told.append(f"  {name}, at place {move.before} before, is gone")
        elif move.before != move.after:
            told.append(f"  {name} goes from place {move.before} to {move.after}")
    return told or ["  and that is her list as it was: one thing more does not change it"]


def _truth(artifact: Artifact, world: World, answer: UserAnswer, item: int) -> str:
    """Of the bundles whose score rises, how many she truly would want more."""
    pairs = np.array([(answer.user, bundle) for bundle in range(artifact.about.bundles)], np.int32)
    edits = history_edits(artifact, answer.user, add_items=(item,))
    wanted = world.preference("ub", pairs, edits) - world.preference("ub", pairs)
    rising = [move.bundle for move in answer.moves if move.score_after > move.score_before]
    right = sum(wanted[bundle] > np.median(wanted) for bundle in rising)
    return (
        f"In truth, which is known here, {right} of the {len(rising)} bundles among these whose score rises gain more "
        "than the middle bundle does."
    )
