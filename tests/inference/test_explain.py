from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clbr import EdgeEdits, InputError, Recommender, load_recommender
from clbr.data.pairs import neighbours
from clbr.inference.answers import Explanation
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.edit_search import HANDFUL, Case, HistoryEdge
from clbr.inference.explain import by_influence, explain, rival_of
from clbr.inference.subset_search import greedy_subset, smallest_subset
from clbr.inference.whatif import State, edited_state, factual_state


@given(st.integers(1, 40), st.sets(st.integers(0, 39), min_size=1, max_size=5), st.integers(1, 200))
def test_a_subset_that_is_found_passes_and_none_of_it_can_be_left_out(
    count: int, needed: set[int], budget: int
) -> None:
    tried: list[list[int]] = []

    def passes(subset: list[int]) -> bool:
        tried.append(subset)
        return needed <= set(subset)

    found = smallest_subset(range(count), passes, lambda subset: len(tried) < budget)
    assert len(tried) <= budget
    assert found.ended == (found.chosen is None and [*range(count)] not in tried)
    if found.chosen is not None:
        assert needed <= set(found.chosen)
    elif budget >= 100:
        assert max(needed) >= count
    if budget >= 100 and max(needed) < count:
        assert found.chosen is not None and set(found.chosen) == needed


def test_no_candidates_no_subset() -> None:
    assert smallest_subset([], lambda subset: True, lambda subset: True) == (None, False)


def test_a_search_goes_on_with_the_subsets_that_may_still_be_tried() -> None:
    """Those whose answers are known cost nothing: of four, the first two pass; nothing smaller may be tried."""
    known = ([1], [1, 2])
    found = smallest_subset([1, 2, 3, 4], lambda subset: len(subset) >= 2, lambda subset: subset in known)
    assert found == ([1, 2], False)
    assert smallest_subset([1, 2, 3, 4], lambda subset: len(subset) > 2, lambda subset: subset in known) == (None, True)


def test_the_greedy_search_chooses_what_helps_most_together_with_what_is_chosen() -> None:
    """1 helps most alone, 2 and 3 only together with 1, 4 never: 9, 8, 8, 10 alone; 7, 6 with 1; 0 all three."""
    values = {(1,): 5, (2,): 8, (3,): 8, (4,): 10, (1, 2): 4, (1, 3): 3, (1, 2, 3): 0}
    tried: list[tuple[int, ...]] = []

    def value(subset: list[int]) -> int:
        tried.append(tuple(sorted(subset)))
        return values[tried[-1]]

    assert greedy_subset([4, 3, 2, 1], value, lambda value: value == 0, 3) == [1, 3, 2]
    assert (1, 4) not in tried  # of the other three, the one that helped least
    assert greedy_subset([4, 3, 2, 1], value, lambda value: value == 0, 2) is None
    assert greedy_subset([4], value, lambda value: value == 0, 5) is None and greedy_subset([], value, bool, 5) is None


@given(st.integers(0, 40), st.integers(1, 6))
def test_the_greedy_search_tries_at_most_twice_as_many_subsets_as_there_are_candidates(count: int, size: int) -> None:
    tried: set[tuple[int, ...]] = set()

    def value(subset: list[int]) -> int:
        tried.add(tuple(subset))
        return 1

    assert greedy_subset(range(count), value, lambda value: value == 0, size) is None
    assert len(tried) <= max(0, 2 * count - 1)


def edits_of(answer: Explanation) -> EdgeEdits:
    user, bundle = int(answer.user.id), int(answer.bundle.id)
    if answer.question == "contents":
        add, drop = ([(bundle, int(getattr(swap, side).id)) for swap in answer.swaps] for side in ("new", "old"))
        return EdgeEdits(add={"bi": np.array(add)}, drop={"bi": np.array(drop)})
    relations = {"item": "ui", "bundle": "ub"}
    pairs: dict[str, list[tuple[int, int]]] = {}
    for one in answer.evidence:
        pairs.setdefault(relations[one.kind], []).append((user, int(one.id)))
    side = {relation: np.array(found) for relation, found in pairs.items()}
    return EdgeEdits(drop=side) if answer.question == "why" else EdgeEdits(add=side)  # type: ignore[arg-type]


def explained(recommender: Recommender, users: int, k: int = 10) -> list[Explanation]:
    found = []
    for user in range(0, 600, 600 // users):
        ranking = factual_state(recommender.artifact).ranking(user, 60)
        found.append(recommender.explain(user, ranking[k // 2], k=k))
        found.append(recommender.explain(user, ranking[k + 5], k=k))
        found.append(recommender.explain(user, ranking[k + 5], k=k, of="contents"))
    return found


def test_the_rival_is_at_the_edge_of_the_list(recommender: Recommender) -> None:
    state = factual_state(recommender.artifact)
    ranking = state.ranking(3, 60)
    for rank, rival in ((4, 11), (10, 11), (11, 10), (30, 10)):  # among the first 10 the next one, else the tenth
        assert rival_of(state, 3, ranking[rank - 1], 10) == ranking[rival - 1]


@pytest.mark.parametrize("model", ["crosscbr", "trilevel"])
def test_every_answer_holds(artifact_of: Callable[[str], Path], model: str) -> None:
    recommender = load_recommender(artifact_of(model))
    answers = explained(recommender, 8)
    assert {answer.question for answer in answers} == {"why", "history", "contents"}
    assert sum(answer.found for answer in answers) > len(answers) // 2
    for answer in answers:
        user, bundle = int(answer.user.id), int(answer.bundle.id)
        assert factual_state(recommender.artifact).rank(user, bundle) == answer.rank
        if answer.found:
            after = edited_state(recommender.artifact, edits_of(answer)).rank(user, bundle)
            assert after == answer.rank_after
            assert (after > answer.k) if answer.question == "why" else (after <= answer.k)


def removed(edits: EdgeEdits) -> int:
    return sum(len(pairs) for pairs in edits.drop.values())


def added(edits: EdgeEdits) -> int:
    return sum(len(pairs) for pairs in edits.add.values())


def long_history(artifact: Artifact) -> int:
    degrees = (artifact.graph.ub.left_degrees + artifact.graph.ui.left_degrees)[:-1]
    return int(torch.nonzero((degrees > 8) & (artifact.graph.ub.left_degrees[:-1] > 0))[0])


@pytest.mark.parametrize(
    "fast",
    [
        pytest.param(lambda edits: 5 + removed(edits), id="one seems to be enough"),
        pytest.param(lambda edits: 5 + 40 * (removed(edits) > 0), id="one seems to be far more than enough"),
        pytest.param(lambda edits: 1, id="none seems to be enough"),
    ],
)
def test_if_a_what_if_disagrees_the_search_goes_on(
    artifact_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, fast: Callable[[EdgeEdits], int]
) -> None:
    """By a what-if three entries are needed, and by the fast ranks another number."""
    artifact = open_artifact(artifact_of("trilevel"))
    monkeypatch.setattr(Case, "fast_rank", lambda case, edits: fast(edits))
    monkeypatch.setattr(Case, "rank_after", lambda case, edits: 3 + removed(edits))
    user = long_history(artifact)
    answer = explain(artifact, user, factual_state(artifact).ranking(user, 1)[0], k=5)
    assert answer.found and not answer.out_of_budget
    assert (len(answer.evidence), answer.rank_after) == (3, 6)


def test_nothing_is_found_only_if_a_what_if_without_the_whole_history_says_so(
    artifact_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = open_artifact(artifact_of("trilevel"))
    user, asked = long_history(artifact), []

    def rank_after(case: Case, edits: EdgeEdits) -> int:
        asked.append(removed(edits))
        return 1

    monkeypatch.setattr(Case, "fast_rank", lambda case, edits: 1)
    monkeypatch.setattr(Case, "rank_after", rank_after)
    answer = explain(artifact, user, factual_state(artifact).ranking(user, 1)[0], k=5)
    assert not answer.found and not answer.out_of_budget
    pairs = (artifact.graph.ub.pairs, artifact.graph.ui.pairs)
    assert asked == [sum(len(neighbours(one, user)) for one in pairs)]


def test_additions_that_a_what_if_does_not_confirm_are_not_the_answer(
    artifact_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the fast ranks one addition is enough, by a what-if four are."""
    artifact = open_artifact(artifact_of("trilevel"))
    monkeypatch.setattr(Case, "fast_rank", lambda case, edits: max(1, 6 - added(edits)))
    monkeypatch.setattr(Case, "rank_after", lambda case, edits: 9 - added(edits))
    user = long_history(artifact)
    answer = explain(artifact, user, factual_state(artifact).ranking(user, 30)[-1], k=5)
    assert answer.found and (len(answer.evidence), answer.rank_after) == (4, 5)


@pytest.mark.parametrize("budget", [1, 2, 5, 10, 20])
def test_a_search_that_is_out_of_budget_has_used_it(artifact_of: Callable[[str], Path], budget: int) -> None:
    artifact = open_artifact(artifact_of("trilevel"))
    for user in range(0, 600, 40):
        ranking = factual_state(artifact).ranking(user, 40)
        for bundle in (ranking[2], ranking[30]):
            answer = explain(artifact, user, bundle, k=10, budget=budget)
            assert answer.tried >= budget or not answer.out_of_budget


def test_answers_are_as_small_as_an_exhaustive_search_finds_most_of_the_time(recommender: Recommender) -> None:
    """For short histories, in most cases no smaller set passes: all of them are tried."""
    artifact, smallest = recommender.artifact, []
    for user in range(40):
        items, bundles = neighbours(artifact.graph.ui.pairs, user), neighbours(artifact.graph.ub.pairs, user)
        if not 3 <= len(items) + len(bundles) <= 18 or len(smallest) >= 6:
            continue
        answer = recommender.explain(user, factual_state(artifact).ranking(user, 10)[6], k=10)
        if not answer.found or len(answer.evidence) > 3:
            continue
        history = [("ui", int(item)) for item in items] + [("ub", int(bundle)) for bundle in bundles]
        smaller = [subset for size in range(1, len(answer.evidence)) for subset in combinations(history, size)]
        smallest.append(not any(takes_out(recommender, answer, subset) for subset in smaller))
    assert len(smallest) >= 3
    assert np.mean(smallest) >= 0.5


def takes_out(recommender: Recommender, answer: Explanation, subset: Sequence[tuple[str, int]]) -> bool:
    user, bundle = int(answer.user.id), int(answer.bundle.id)
    drop = {r: np.array([(user, node) for q, node in subset if q == r], np.int32) for r in {r for r, _ in subset}}
    edits = EdgeEdits(drop=drop)  # type: ignore[arg-type]
    return edited_state(recommender.artifact, edits).rank(user, bundle) > answer.k


def test_the_budget_limits_the_search(recommender: Recommender) -> None:
    last = factual_state(recommender.artifact).ranking(3, 150)[-1]
    answer = recommender.explain(3, last, k=1, budget=1)
    assert answer.tried == 1
    assert answer.out_of_budget and not answer.found
    assert answer.evidence == [] and answer.rank_after is None


def test_a_bundle_out_of_reach_says_how_near_a_handful_of_edits_comes(recommender: Recommender) -> None:
    state, far = factual_state(recommender.artifact), []
    for bundle in state.ranking(3, 150)[60::8]:
        for of in ("history", "contents"):
            answer = recommender.explain(3, bundle, k=2, of=of)  # type: ignore[arg-type]
            edits = len(answer.evidence) + len(answer.swaps)
            assert answer.out_of_reach == (edits == 0 or edits > HANDFUL)
            assert answer.found == (edits > 0) == (answer.rank_after is not None)
            if answer.out_of_reach:
                far.append(answer)
            else:
                assert answer.nearest == []
    assert {answer.question for answer in far} == {"history", "contents"} and any(one.nearest for one in far)
    for answer in far:
        sizes, ranks = [one.edits for one in answer.nearest], [one.rank for one in answer.nearest]
        assert sizes == sorted(set(sizes)) and set(sizes) <= {1, 2, 3, 4, 5}
        assert ranks == sorted(set(ranks), reverse=True) and all(answer.k < rank < answer.rank for rank in ranks)
        for one in answer.nearest:
            assert len(one.evidence) + len(one.swaps) == one.edits
            edits_like = answer.model_copy(update={"evidence": one.evidence, "swaps": one.swaps})
            assert edited_state(recommender.artifact, edits_of(edits_like)).rank(3, int(answer.bundle.id)) == one.rank


def test_a_handful_is_found_where_every_prefix_of_the_order_fails(recommender: Recommender) -> None:
    """The order has the additions that bring the bundle in, each after a harmful one, and harmful ones after them."""
    artifact, sizes = recommender.artifact, []
    for bundle in factual_state(artifact).ranking(3, 60)[20:40]:
        helpful = explain(artifact, 3, bundle, k=10)
        if not helpful.found or len(helpful.evidence) > 2:
            continue
        good = [HistoryEdge("ui" if one.kind == "item" else "ub", int(one.id)) for one in helpful.evidence]
        sizes.append(len(good))

        def mixed(
            state: State, user: int, bundle: int, k: int, candidates: Sequence[HistoryEdge], good: Any = good
        ) -> list[HistoryEdge]:
            bad = by_influence(state, user, bundle, k, candidates)[:-100:-1]
            return [edge for pair in zip(bad, good, strict=False) for edge in pair] + bad[len(good) :]

        answer = explain(artifact, 3, bundle, k=10, order=mixed)
        assert answer.found and not answer.out_of_reach and answer.nearest == []
        assert 0 < len(answer.evidence) <= HANDFUL
        assert edited_state(artifact, edits_of(answer)).rank(3, bundle) == answer.rank_after <= 10  # type: ignore[operator]
    assert {1, 2} == set(sizes)


def test_why_is_never_out_of_reach_and_a_small_budget_proves_nothing(recommender: Recommender) -> None:
    ranking = factual_state(recommender.artifact).ranking(3, 150)
    why = recommender.explain(3, ranking[0], k=5)
    assert not why.out_of_reach and why.nearest == []
    short = recommender.explain(3, ranking[-1], k=1, budget=4)
    assert short.out_of_budget and not short.out_of_reach
    assert short.tried == 4 and {one.edits for one in short.nearest} <= {1, 2, 3, 4}


def test_questions_that_do_not_arise_are_errors(recommender: Recommender) -> None:
    ranking = factual_state(recommender.artifact).ranking(3, 60)
    with pytest.raises(InputError, match="has rank 1 in user 3's list already; ask why"):
        recommender.explain(3, ranking[0], of="contents")
    user, bundle = (int(node) for node in recommender.artifact.graph.ub.pairs[0])
    with pytest.raises(InputError, match=f"user {user} has chosen bundle {bundle}"):
        recommender.explain(user, bundle)
