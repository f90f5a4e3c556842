import numpy as np
import pytest
import torch

from clbr import Recommender, World
from clbr.data.pairs import neighbours
from clbr.graph.graph import BundleGraph, Edges
from clbr.inference.cold_start import COLD_BUNDLE_SHARE, fill_cold_start, nearest_warm_bundles
from clbr.models.crosscbr import CrossCBR
from clbr.models.embeddings import Embeddings, Level
from clbr.models.rgcn import RGCN
from clbr.models.trilevel import TriLevel


def graph() -> BundleGraph:
    """User 2 has items only, user 3 nothing; bundle 2 was never chosen and is most like bundle 1, bundle 3 has no contents.

    The last bundle is the unseen one, with the contents of bundle 0.
    """
    ub = Edges(np.array([[0, 0], [1, 0], [1, 1]], np.int32), (4, 5))
    ui = Edges(np.array([[0, 0], [1, 1], [2, 2]], np.int32), (4, 5))
    bi = Edges(np.array([[0, 0], [0, 1], [1, 1], [1, 2], [1, 3], [2, 2], [2, 3], [4, 0], [4, 1]], np.int32), (5, 5))
    return BundleGraph(ub, ui, bi)


def vectors() -> Embeddings:
    level = Level(torch.arange(8.0).view(4, 2), 10 + torch.arange(10.0).view(5, 2))
    return Embeddings({"item": level, "bundle": level})


def test_cold_nodes_get_the_mean_of_warm_ones_and_a_share_of_the_most_similar_bundle() -> None:
    found = fill_cold_start(CrossCBR, vectors(), graph())
    bundle, item = found.levels["bundle"], found.levels["item"]
    assert bundle.users.tolist() == [[0, 1], [2, 3], [1, 2], [1, 2]]  # the mean of users 0 and 1
    part = [pytest.approx(COLD_BUNDLE_SHARE * 12), pytest.approx(COLD_BUNDLE_SHARE * 13)]
    assert bundle.bundles.tolist() == [
        [10, 11],
        [12, 13],
        part,
        [11, 12],
        [10, 11],
    ]  # of bundle 1's; the mean; all of 0's
    assert item.users.tolist() == [[0, 1], [2, 3], [4, 5], [1, 2]]  # the mean of users 0 and 1, who have bundles
    assert item.bundles[:3].tolist() == [[10, 11], [12, 13], [14, 15]]
    assert item.bundles[4].tolist() == [18, 19]


def test_a_node_with_any_edge_is_warm_to_a_model_that_uses_all_relations() -> None:
    found = fill_cold_start(RGCN, Embeddings({"graph": vectors().levels["item"]}), graph()).levels["graph"]
    assert found.users.tolist() == [[0, 1], [2, 3], [4, 5], [1, 2]]
    assert found.bundles[:3].tolist() == [[10, 11], [12, 13], [14, 15]]


def test_a_user_with_items_is_known_to_trilevel_on_every_level() -> None:
    level = vectors().levels["item"]
    found = fill_cold_start(TriLevel, Embeddings({"bundle": level}), graph()).levels["bundle"]
    assert found.users.tolist() == [[0, 1], [2, 3], [4, 5], [1, 2]]  # user 2 has items
    without = Level(level.users * torch.tensor([[1.0], [1.0], [0.0], [1.0]]), level.bundles)
    found = fill_cold_start(TriLevel, Embeddings({"bundle": without}), graph()).levels["bundle"]
    assert found.users.tolist() == [[0, 1], [2, 3], [0, 0], [1, 2]]  # an unseen user with items has zeros here


def test_the_nearest_bundle_shares_the_rarest_items() -> None:
    cold, nearest = nearest_warm_bundles(graph(), np.array([True, True, False, False, False]))
    assert (cold.tolist(), nearest.tolist()) == ([2, 4], [1, 0])


def test_users_without_bundles_get_popular_ones_and_their_items_still_count(
    recommender: Recommender, tiny: World
) -> None:
    graph = recommender.artifact.graph
    cold = np.setdiff1d(np.arange(600), graph.ub.pairs[:, 0]).tolist()
    cold = [user for user in cold if len(neighbours(graph.ui.pairs, user))]
    lists = [[int(one.id) for one in recommender.recommend_one(user).recommended] for user in cold]
    assert len({tuple(one) for one in lists}) > 1
    popularity = tiny.dataset.popularity
    assert np.mean([popularity[one].mean() for one in lists]) > popularity.mean()
