from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clbr import InputError
from clbr.inference.artifact import Artifact
from clbr.inference.explain import Explanation, rank_of, rival_of, what_it_takes, why
from clbr.inference.recommend import of_left
from clbr.inference.smallest import smallest
from clbr.inference.whatif import edited, factual


@given(st.integers(1, 40), st.sets(st.integers(0, 39), min_size=1, max_size=5), st.integers(1, 200))
def test_what_is_found_does_it_and_nothing_of_it_can_be_spared(count: int, needed: set[int], budget: int) -> None:
    tried: list[int] = []

    def does_it(things: Sequence[int]) -> bool:
        tried.append(1)
        return needed <= set(things)

    found = smallest(range(count), does_it, budget)
    assert found.tried == len(tried) <= budget
    if found.chosen is not None:
        assert needed <= set(found.chosen)
    elif budget >= 100:
        assert max(needed) >= count
    if budget >= 100 and max(needed) < count:
        assert found.chosen is not None and set(found.chosen) == needed


def test_nothing_to_try_is_nothing_found() -> None:
    assert smallest([], lambda things: True, 10) == (None, 0)


def explained(artifact: Artifact, users: int, k: int = 10) -> list[Explanation]:
    found = []
    for user in range(0, 600, 600 // users):
        ranking = factual(artifact).ranking(user, 60)
        found.append(why(artifact, user, ranking[k // 2].bundle, k))
        found.append(what_it_takes(artifact, user, ranking[k + 5].bundle, k))
        found.append(what_it_takes(artifact, user, ranking[k + 5].bundle, k, of="contents"))
    return found


def test_the_rival_stands_at_the_edge_of_the_list(artifact: Artifact) -> None:
    ranking = [place.bundle for place in factual(artifact).ranking(3, 60)]
    for place, rival in ((4, 11), (10, 11), (11, 10), (30, 10)):  # among the first 10 the next, else the tenth
        assert rival_of(factual(artifact), 3, ranking[place - 1], 10) == ranking[rival - 1]


def test_every_answer_holds(artifact: Artifact) -> None:
    answers = explained(artifact, 8)
    assert sum(answer.edits is not None for answer in answers) > len(answers) // 2
    for answer in answers:
        assert rank_of(factual(artifact), answer.user, answer.bundle) == answer.place
        if answer.edits is None:
            continue
        after = rank_of(edited(artifact, answer.edits), answer.user, answer.bundle)
        assert after == answer.rank_after
        assert (after > answer.k) if answer.question == "why" else (after <= answer.k)


def test_answers_are_as_small_as_an_exhaustive_search_finds_most_of_the_time(artifact: Artifact) -> None:
    """No smaller set does it, seen by trying all: for histories of a few things, in most cases."""
    least = []
    for user in range(40):
        items, bundles = of_left(artifact.graph.ui.pairs, user), of_left(artifact.chosen, user)
        if not 3 <= len(items) + len(bundles) <= 18 or len(least) >= 6:
            continue
        answer = why(artifact, user, factual(artifact).ranking(user, 10)[6].bundle, 10)
        if answer.edits is None or len(answer.things) > 3:
            continue
        history = [("ui", int(i)) for i in items] + [("ub", int(b)) for b in bundles]
        smaller = [set_ for size in range(1, len(answer.things)) for set_ in combinations(history, size)]
        least.append(not any(_takes_out(artifact, answer, set_) for set_ in smaller))
    assert len(least) >= 3
    assert np.mean(least) >= 0.5


def _takes_out(artifact: Artifact, answer: Explanation, things: Sequence[tuple[str, int]]) -> bool:
    from clbr import EdgeEdits

    drop = {r: np.array([(answer.user, n) for q, n in things if q == r], np.int32) for r in {r for r, _ in things}}
    return rank_of(edited(artifact, EdgeEdits(drop=drop)), answer.user, answer.bundle) > answer.k  # type: ignore[arg-type]


def test_within_a_budget_or_not_at_all(artifact: Artifact) -> None:
    ranking = factual(artifact).ranking(3, 150)
    answer = what_it_takes(artifact, 3, ranking[-1].bundle, 1, budget=1)
    assert answer.tried == 1
    if answer.edits is None:
        assert answer.things == [] and answer.rank_after is None


def test_questions_that_do_not_arise_are_refused(artifact: Artifact) -> None:
    ranking = factual(artifact).ranking(3, 60)
    with pytest.raises(InputError, match="is at place 41 of user 3's list, not among the first 20: ask what it would"):
        why(artifact, 3, ranking[40].bundle)
    with pytest.raises(InputError, match="is at place 1 of user 3's list already; ask why"):
        what_it_takes(artifact, 3, ranking[0].bundle)
    user, bundle = (int(node) for node in artifact.chosen[0])
    with pytest.raises(InputError, match=f"user {user} has chosen bundle {bundle}"):
        why(artifact, user, bundle)
