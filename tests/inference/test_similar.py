from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from clbr import InputError, Recommender, World, load_recommender


def test_the_nearest_come_first_by_cosine(recommender: Recommender) -> None:
    vectors = recommender.artifact.embeddings.joined("bundles")[:150]
    cosines = torch.cosine_similarity(vectors, vectors[5:6])
    cosines[5] = -2
    answer = recommender.similar_bundles(5, k=4)
    assert [int(one.id) for one in answer.similar] == cosines.argsort(descending=True)[:4].tolist()
    assert [one.rank for one in answer.similar] == [1, 2, 3, 4]
    assert answer.similar[0].score == pytest.approx(float(cosines.max()), abs=1e-5)


def test_similar_items_share_their_theme_more_often_than_by_chance(recommender: Recommender, tiny: World) -> None:
    hits = [
        tiny.item_theme[int(one.id)] == tiny.item_theme[item]
        for item in range(0, 240, 8)
        for one in recommender.similar_items(item, k=3).similar
    ]
    assert sum(hits) / len(hits) > 0.4  # 12 themes: by chance 0.08


def test_models_without_such_vectors_say_so(artifact_of: Callable[[str], Path]) -> None:
    assert load_recommender(artifact_of("bprmf")).similar_bundles(3, k=2).similar
    with pytest.raises(InputError, match="bprmf has no item vectors"):
        load_recommender(artifact_of("bprmf")).similar_items(3)
    with pytest.raises(InputError, match="popularity has no bundle vectors"):
        load_recommender(artifact_of("popularity")).similar_bundles(3)


def test_k_is_limited_to_the_others(recommender: Recommender) -> None:
    assert len(recommender.similar_bundles(3, k=500).similar) == 149
    with pytest.raises(InputError, match="k = 0: expected a whole number, at least 1"):
        recommender.similar_bundles(3, k=0)
