from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from clbr import InputError
from clbr.data.describe import SEGMENTS, segment_users
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.recommend import best, chosen_by, of_left, recommend, recommend_all, shared_contents
from clbr.inference.unseen import new_bundle, newcomer


def listed(artifact: Artifact, user: int, **options: object) -> list[int]:
    return [place.bundle for place in recommend(artifact, user, **options)]  # type: ignore[arg-type]


def test_the_best_come_first_and_what_was_chosen_is_left_out(artifact: Artifact) -> None:
    user = int(artifact.chosen[0, 0])
    scores = artifact.recommender.scores(torch.tensor([user]))[0, :-1]
    free = np.setdiff1d(np.arange(150), chosen_by(artifact, user))
    expected = free[np.argsort(-scores[free].numpy(), kind="stable")][:10]
    assert listed(artifact, user, k=10) == expected.tolist()
    everything = listed(artifact, user, k=150, keep_chosen=True)
    assert sorted(everything) == list(range(150))  # the spare bundle is never listed


def test_allow_and_deny_lists(artifact: Artifact) -> None:
    first = listed(artifact, 5, k=10)
    assert listed(artifact, 5, k=10, allow=first[3:5]) == first[3:5]
    assert listed(artifact, 5, k=5, deny=first[:2]) == first[2:7]
    for diversity in (0.0, 0.5):  # nothing left is an empty list, however it is made
        assert listed(artifact, 5, k=5, allow=[], diversity=diversity) == []


def test_diversity_trades_score_for_less_shared_contents(artifact: Artifact) -> None:
    def shared(diversity: float) -> float:
        lists = [listed(artifact, user, k=10, diversity=diversity) for user in range(30)]
        return float(np.mean([np.triu(shared_contents(artifact, np.array(one)), 1).sum() for one in lists]))

    assert shared(0.7) < shared(0.3) < shared(0.0)
    assert listed(artifact, 3, k=10, diversity=0.7)[0] == listed(artifact, 3, k=10)[0]  # the best stays the first
    with pytest.raises(InputError, match="diversity 2"):
        recommend(artifact, 0, diversity=2)


def test_shared_contents_worked_out_by_hand(artifact: Artifact) -> None:
    one, other = (set(of_left(artifact.graph.bi.pairs, bundle).tolist()) for bundle in (4, 9))
    found = shared_contents(artifact, np.array([4, 9]))
    assert found[0, 1] == pytest.approx(len(one & other) / len(one | other))
    assert found[0, 0] == 1


def test_everyone_to_a_file(artifact: Artifact, tmp_path: Path) -> None:
    rows = recommend_all(artifact, tmp_path / "recs.parquet", 7)
    frame = pl.read_parquet(tmp_path / "recs.parquet")
    assert len(frame) == rows == 600 * 7
    mine = frame.filter(pl.col("user") == 17).sort("place")
    assert mine["place"].to_list() == list(range(1, 8))
    assert [artifact.bundles.index(str(b)) for b in mine["bundle"]] == listed(artifact, 17, k=7)


def test_a_list_longer_than_there_are_bundles_is_refused(artifact: Artifact) -> None:
    with pytest.raises(InputError, match="top 151: expected 1 to 150"):
        recommend(artifact, 0, 151)


@pytest.mark.parametrize("user", [-1, 600, 10**6])
def test_the_spare_user_and_those_beyond_are_nobody(artifact: Artifact, user: int) -> None:
    with pytest.raises(InputError, match=f"user {user}: expected a number from 0 to 599"):
        recommend(artifact, user)


def test_someone_never_seen_is_recommended_what_she_likes(artifact: Artifact) -> None:
    """Of the bundles that hold much of what she likes more are in her list than in a list by popularity."""
    hits, by_popularity = [], []
    popular = torch.bincount(torch.from_numpy(artifact.chosen[:, 1].astype(np.int64)), minlength=151).float()
    for bundle in range(0, 150, 6):
        items = of_left(artifact.graph.bi.pairs, bundle).tolist()
        state = newcomer(artifact, items=items)
        found = best(artifact, state.scores(artifact.unseen_user), 20)
        hits.append(bundle in [place.bundle for place in found])
        by_popularity.append(bundle in [place.bundle for place in best(artifact, popular, 20)])
    assert np.mean(hits) > np.mean(by_popularity) + 0.1
    with pytest.raises(InputError, match="nothing is known"):
        newcomer(artifact)


def test_a_bundle_never_seen_stands_near_its_twin(artifact: Artifact) -> None:
    """A copy of a bundle's contents is placed like the bundle's own contents place it, better than by chance."""
    places = [
        np.median(
            new_bundle(artifact, of_left(artifact.graph.bi.pairs, bundle).tolist()).places(150)[
                artifact.chosen[artifact.chosen[:, 1] == bundle, 0]
            ]
        )
        for bundle in np.unique(artifact.chosen[:, 1])[:20]
    ]
    assert np.mean(places) < 65  # of 150; by chance 75
    with pytest.raises(InputError, match="contents are needed"):
        new_bundle(artifact, [])


def test_segments_worked_out_by_hand() -> None:
    chosen = np.array([[0, 0], [1, 0], [1, 1], [1, 2], [2, 0], [2, 1]], np.int32)
    assert [SEGMENTS[number] for number in segment_users(chosen, 4)] == ["light", "heavy", "light", "cold"]


@pytest.mark.parametrize("model", ["bprmf", "dam"])
def test_a_model_without_a_graph_recommends_but_knows_no_newcomers(
    model: str, artifact_of: Callable[[str], Path]
) -> None:
    opened = open_artifact(artifact_of(model))
    assert len(recommend(opened, 3, 10)) == 10
    with pytest.raises(InputError, match=f"{model} does not look at a graph"):
        newcomer(opened, items=[1])
