"""The smallest set that does it: guided by an order, every set that is given was seen to do it."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

Thing = TypeVar("Thing")


class Found(NamedTuple, Generic[Thing]):
    """A set that does it, None if none was found within the budget; and how many sets were tried."""

    chosen: list[Thing] | None
    tried: int


def smallest(candidates: Sequence[Thing], does_it: Callable[[list[Thing]], bool], budget: int) -> Found[Thing]:
    """A small set of the candidates that does it, which come in the order of how much they promise.

    First the shortest beginning of the list that does it, by doubling and then halving; then what is not needed of it
    is left out, the least promising first. At most `budget` sets are tried.
    """
    tried = 0

    def works(things: list[Thing]) -> bool:
        nonlocal tried
        tried += 1
        return does_it(things)

    chosen: list[Thing] | None = None
    too_few, enough = 0, 1
    while chosen is None and too_few < len(candidates) and tried < budget:
        if works(list(candidates[:enough])):
            chosen = list(candidates[:enough])
        else:
            too_few, enough = enough, min(2 * enough, len(candidates))
    if chosen is None:
        return Found(None, tried)
    while len(chosen) - too_few > 1 and tried < budget:
        middle = (too_few + len(chosen)) // 2
        if works(list(candidates[:middle])):
            chosen = list(candidates[:middle])
        else:
            too_few = middle
    for thing in reversed(chosen.copy()):
        if len(chosen) > 1 and tried < budget:
            fewer = [one for one in chosen if one is not thing]
            if works(fewer):
                chosen = fewer
    return Found(chosen, tried)
