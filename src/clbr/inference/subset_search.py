"""Searches for a small subset of candidates that passes a test. Every subset that is returned has passed it."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

Candidate = TypeVar("Candidate")


class Subset(NamedTuple, Generic[Candidate]):
    """The subset found, or None; and how many subsets were tried."""

    chosen: list[Candidate] | None
    tried: int


def smallest_subset(
    candidates: Sequence[Candidate], passes: Callable[[list[Candidate]], bool], budget: int
) -> Subset[Candidate]:
    """A small subset that passes, from candidates ordered by promise; at most `budget` subsets are tried.

    First the shortest prefix that passes, by doubling and bisection. Then each member is left out if the rest still
    passes, the least promising first.
    """
    tried = 0

    def test(subset: list[Candidate]) -> bool:
        nonlocal tried
        tried += 1
        return passes(subset)

    chosen: list[Candidate] | None = None
    too_few, enough = 0, 1
    while chosen is None and too_few < len(candidates) and tried < budget:
        if test(list(candidates[:enough])):
            chosen = list(candidates[:enough])
        else:
            too_few, enough = enough, min(2 * enough, len(candidates))
    if chosen is None:
        return Subset(None, tried)
    while len(chosen) - too_few > 1 and tried < budget:
        middle = (too_few + len(chosen)) // 2
        if test(list(candidates[:middle])):
            chosen = list(candidates[:middle])
        else:
            too_few = middle
    for candidate in reversed(chosen.copy()):
        if len(chosen) > 1 and tried < budget:
            fewer = [one for one in chosen if one is not candidate]
            if test(fewer):
                chosen = fewer
    return Subset(chosen, tried)


def greedy_subset(
    pool: Sequence[Candidate], value: Callable[[list[Candidate]], int], passes: Callable[[int], bool], largest: int
) -> list[Candidate] | None:
    """A subset of at most `largest` members whose value passes, or None; small values are good.

    Each step adds the candidate that gives the smallest value together with those already chosen. The half of the
    others that helps less is left out of the next step, so that at most 2 * len(pool) - 1 subsets are tried.
    """
    chosen: list[Candidate] = []
    while pool and len(chosen) < largest:
        ordered = sorted(pool, key=lambda one: value([*chosen, one]))
        chosen.append(ordered[0])
        if passes(value(chosen)):
            return chosen
        pool = ordered[1 : 1 + max(1, len(ordered) // 2)]
    return None
