import numpy as np
import pytest

from clbr import InputError, Recommender
from clbr.data.pairs import neighbours
from clbr.evaluation.ranking import rank
from clbr.inference.whatif import factual_state
from clbr.models.base import VectorScorer


def contents(recommender: Recommender, bundle: int) -> list[int]:
    return neighbours(recommender.artifact.graph.bi.pairs, bundle).tolist()


@pytest.mark.parametrize("k", [1, 5, 20])
def test_the_audience_are_the_users_whose_list_has_the_bundle(recommender: Recommender, k: int) -> None:
    state = factual_state(recommender.artifact)
    scorer = VectorScorer(state.users, state.bundles[:-1])
    lists = rank(scorer, np.arange(600), k, exclude=recommender.artifact.graph.ub.pairs)
    for bundle in (0, 17, 149):
        assert state.audience(bundle, k).tolist() == np.flatnonzero((lists == bundle).any(axis=1)).tolist()


def test_who_enters_who_leaves_and_from_which_segment(recommender: Recommender) -> None:
    inside = contents(recommender, 12)
    outside = np.setdiff1d(np.arange(240), inside)[: len(inside) - 1].tolist()
    swap = list(zip(inside[1:], outside, strict=True))
    answer = recommender.audience(12, swap=swap, k=20, max_users=None)
    state = factual_state(recommender.artifact)
    before = {str(user) for user in state.audience(12, 20)}
    after = before - {user.id for user in answer.left} | {user.id for user in answer.entered}
    assert (answer.before, answer.after) == (len(before), len(after))
    assert {user.id for user in answer.left} <= before and not before & {user.id for user in answer.entered}
    assert answer.entered_count + answer.left_count > 0
    assert sum(segment.before for segment in answer.segments.values()) == answer.before
    assert sum(segment.after for segment in answer.segments.values()) == answer.after
    assert sum(segment.users for segment in answer.segments.values()) == answer.users == 600
    same = recommender.audience(12, add_items=outside, drop_items=inside[1:], k=20, max_users=None)
    assert same.to_json() == answer.to_json()


def test_at_most_so_many_users_are_listed_and_all_are_counted(recommender: Recommender) -> None:
    inside = contents(recommender, 12)
    every = recommender.audience(12, drop_items=inside, max_users=None)
    few = recommender.audience(12, drop_items=inside, max_users=2)
    assert len(every.left) == every.left_count == few.left_count > 2
    assert few.left == every.left[:2]


def test_an_unseen_bundle_ranks_well_for_users_who_chose_its_copy(recommender: Recommender) -> None:
    chosen = recommender.artifact.graph.ub.pairs
    medians = []
    for bundle in np.unique(chosen[:, 1])[:20]:
        answer = recommender.new_bundle_audience(contents(recommender, int(bundle)), k=150)
        assert [user.rank for user in answer.best] == sorted(user.rank for user in answer.best)
        ranks = {int(user.id): user.rank for user in answer.best}
        medians.append(np.median([ranks.get(int(user), 150) for user in chosen[chosen[:, 1] == bundle, 0]]))
    assert np.mean(medians) < 120  # by chance, few of its users are among the 150 of 600 with the best ranks: 150
    with pytest.raises(InputError, match="an unseen bundle needs items"):
        recommender.new_bundle_audience([])


def test_the_audience_of_an_unseen_bundle_is_listed_by_rank_up_to_a_limit(recommender: Recommender) -> None:
    everyone = recommender.new_bundle_audience([3, 7], k=10, max_users=None)
    ranks = [user.rank for user in everyone.members]
    assert len(ranks) == everyone.audience > 12
    assert ranks == sorted(ranks) and max(ranks) <= 10
    assert everyone.best == everyone.members[:10]
    few = recommender.new_bundle_audience([3, 7], k=10, max_users=12)
    assert (few.members, few.audience) == (everyone.members[:12], everyone.audience)
    assert len(recommender.new_bundle_audience([3, 7], k=150).members) == 50  # the default
    with pytest.raises(InputError, match="max_users"):
        recommender.new_bundle_audience([3, 7], max_users=-1)


def test_items_that_a_bundle_holds_cannot_be_added(recommender: Recommender) -> None:
    inside = contents(recommender, 5)[0]
    with pytest.raises(InputError, match=f"bundle 5 has item {inside} already"):
        recommender.audience(5, add_items=[inside])
    with pytest.raises(InputError, match="item 3 is added twice"):
        recommender.new_bundle_audience([3, 3])
