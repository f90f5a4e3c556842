from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from clbr import InputError, Recommender, load_recommender
from clbr.data.describe import SEGMENTS, segment_users
from clbr.data.pairs import neighbours
from clbr.inference.export import add_index
from clbr.inference.recommend import best, shared_contents


def listed(recommender: Recommender, user: int, **options: object) -> list[int]:
    return [int(one.id) for one in recommender.recommend_one(user, **options).recommended]  # type: ignore[arg-type]


def contents(recommender: Recommender, bundle: int) -> list[int]:
    return neighbours(recommender.artifact.graph.bi.pairs, bundle).tolist()


def test_the_best_come_first_and_chosen_bundles_are_left_out(recommender: Recommender) -> None:
    chosen = recommender.artifact.graph.ub.pairs
    user = int(chosen[0, 0])
    scores = recommender.artifact.scorer.scores(torch.tensor([user]))[0, :-1]
    free = np.setdiff1d(np.arange(150), neighbours(chosen, user))
    expected = free[np.argsort(-scores[free].numpy(), kind="stable")][:10]
    assert listed(recommender, user, k=10) == expected.tolist()
    everything = listed(recommender, user, k=150, keep_chosen=True)
    assert sorted(everything) == list(range(150))  # the unseen bundle is never listed


def test_allowed_and_denied_bundles(recommender: Recommender) -> None:
    first = listed(recommender, 5, k=10)
    assert listed(recommender, 5, k=10, allow=first[3:5]) == first[3:5]
    assert listed(recommender, 5, k=5, deny=first[:2]) == first[2:7]
    for diversity in (0.0, 0.5):
        assert listed(recommender, 5, k=5, allow=[], diversity=diversity) == []


def test_diversity_trades_score_for_less_shared_contents(recommender: Recommender) -> None:
    def shared(diversity: float) -> float:
        lists = [listed(recommender, user, k=10, diversity=diversity) for user in range(30)]
        overlaps = [shared_contents(recommender.artifact, np.array(one)) for one in lists]
        return float(np.mean([np.triu(overlap, 1).sum() for overlap in overlaps]))

    assert shared(0.7) < shared(0.3) < shared(0.0)
    assert listed(recommender, 3, k=10, diversity=0.7)[0] == listed(recommender, 3, k=10)[0]
    with pytest.raises(InputError, match="diversity 2: expected a number from 0"):
        recommender.recommend_one(0, diversity=2)


def test_shared_contents_by_hand(recommender: Recommender) -> None:
    one, other = (set(contents(recommender, bundle)) for bundle in (4, 9))
    found = shared_contents(recommender.artifact, np.array([4, 9]))
    assert found[0, 1] == pytest.approx(len(one & other) / len(one | other))
    assert found[0, 0] == 1


def test_a_batch_holds_the_lists_of_its_users(recommender: Recommender) -> None:
    batch = recommender.recommend_batch([17, 3], k=7)
    assert [one.user.id for one in batch.lists if one.user] == ["17", "3"]
    for one, user in zip(batch.lists, (17, 3), strict=True):
        alone = recommender.recommend_one(user, k=7).recommended
        assert [bundle.id for bundle in one.recommended] == [bundle.id for bundle in alone]
        scores = [bundle.score for bundle in alone]
        assert [bundle.score for bundle in one.recommended] == pytest.approx(scores, rel=1e-5)


def test_a_list_is_never_longer_than_there_are_bundles(recommender: Recommender) -> None:
    answer = recommender.recommend_one(0, k=151, keep_chosen=True)
    assert (answer.k, len(answer.recommended)) == (150, 150)
    with pytest.raises(InputError, match="k = 0: expected a whole number, at least 1"):
        recommender.recommend_one(0, k=0)


@pytest.mark.parametrize("user", [-1, 600, 10**6])
def test_the_unseen_user_has_no_id(recommender: Recommender, user: int) -> None:
    with pytest.raises(InputError, match=f"unknown user '{user}': expected a number from 0 to 599"):
        recommender.recommend_one(user)


def test_an_unseen_user_is_recommended_what_fits_the_liked_items(recommender: Recommender) -> None:
    """Bundles that hold the liked items are listed more often than by popularity."""
    artifact, hits, by_popularity = recommender.artifact, [], []
    chosen = artifact.graph.ub.pairs[:, 1].astype(np.int64)
    popularity = torch.bincount(torch.from_numpy(chosen), minlength=151).float()
    popular = best(artifact, popularity, 20)[0]
    for bundle in range(0, 150, 6):
        answer = recommender.recommend_one(likes_items=contents(recommender, bundle))
        assert answer.user is None
        hits.append(str(bundle) in [one.id for one in answer.recommended])
        by_popularity.append(bundle in popular)
    assert np.mean(hits) > np.mean(by_popularity) + 0.1
    with pytest.raises(InputError, match="expected a user, or what an unseen user likes"):
        recommender.recommend_one()


def test_liked_bundles_are_not_recommended_again(recommender: Recommender) -> None:
    answer = recommender.recommend_one(likes_bundles=[7], k=150)
    assert len(answer.recommended) == 149 and "7" not in [one.id for one in answer.recommended]
    assert len(recommender.recommend_one(likes_bundles=[7], k=150, keep_chosen=True).recommended) == 150


def test_segments_by_hand() -> None:
    chosen = np.array([[0, 0], [1, 0], [1, 1], [1, 2], [2, 0], [2, 1]], np.int32)
    assert [SEGMENTS[number] for number in segment_users(chosen, 4)] == ["light", "heavy", "light", "cold"]


@pytest.mark.parametrize("model", ["bprmf", "dam", "popularity", "ease"])
def test_a_model_without_a_graph_recommends_but_not_to_unseen_users(
    model: str, artifact_of: Callable[[str], Path]
) -> None:
    recommender = load_recommender(artifact_of(model))
    assert len(recommender.recommend_one(3, k=10).recommended) == 10
    with pytest.raises(InputError, match=f"{model} computes no embeddings from a graph"):
        recommender.recommend_one(likes_items=[1])
    if model != "bprmf":
        with pytest.raises(InputError, match=f"{model} has no vectors"):
            add_index(artifact_of(model))
