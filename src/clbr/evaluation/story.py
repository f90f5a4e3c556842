"""One customer's recommendations in words, beside what she truly wants."""

from collections.abc import Iterable, Mapping

import numpy as np

from clbr.data.dataset import Nodes
from clbr.data.pairs import Pairs
from clbr.data.world import World
from clbr.evaluation.ranking import rank
from clbr.models.interface import Recommender


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
