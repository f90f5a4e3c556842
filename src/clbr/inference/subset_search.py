"""Searches for a small subset of candidates that passes a test. Every subset that is returned has passed it."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

Candidate = TypeVar("Candidate")


class Subset(NamedTuple, Generic[Candidate]):
    """The subset found, or None; and whether the search was ended before it had found one or tried all candidates."""

    chosen: list[Candidate] | None
    ended: bool


def smallest_subset(
    candidates: Sequence[Candidate],
    passes: Callable[[list[Candidate]], bool],
    may_try: Callable[[list[Candidate]], bool],
) -> Subset[Candidate]:
    """A small subset that passes, from candidates ordered by promise; `may_try` is asked about each before it is tried.

    First the shortest prefix that passes, by doubling and bisection. Then each member is left out if the rest still
    passes, the least promising first.
    """
    too_few, enough = 0, min(1, len(candidates))
    while True:
        if too_few == len(candidates):
            return Subset(None, ended=False)
        prefix = list(candidates[:enough])
        if not may_try(prefix):
            return Subset(None, ended=True)
        if passes(prefix):
            break
        too_few, enough = enough, min(2 * enough, len(candidates))
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        prefix = list(candidates[:middle])
        if not may_try(prefix):
            break
        too_few, enough = (too_few, middle) if passes(prefix) else (middle, enough)
    chosen = list(candidates[:enough])
    for candidate in reversed(chosen.copy()):
        fewer = [one for one in chosen if one is not candidate]
        if fewer and may_try(fewer) and passes(fewer):
            chosen = fewer
    return Subset(chosen, ended=False)


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
