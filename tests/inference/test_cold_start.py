import numpy as np
import pytest
import torch

from clbr import World
from clbr.graph.graph import BundleGraph, Edges
from clbr.inference.artifact import Artifact
from clbr.inference.cold_start import TRUST, filled, twins
from clbr.inference.recommend import of_left, recommend
from clbr.models.base import Embeddings, Level
from clbr.models.crosscbr import CrossCBR
from clbr.models.rgcn import RGCN


def graph() -> BundleGraph:
    """User 2 has items only, user 3 nothing; bundle 2 was never chosen and is most like bundle 1, bundle 3 is bare.

    The last bundle is the spare one, with the contents of bundle 0.
    """
    ub = Edges(np.array([[0, 0], [1, 0], [1, 1]], np.int32), (4, 5))
    ui = Edges(np.array([[0, 0], [1, 1], [2, 2]], np.int32), (4, 5))
    bi = Edges(np.array([[0, 0], [0, 1], [1, 1], [1, 2], [1, 3], [2, 2], [2, 3], [4, 0], [4, 1]], np.int32), (5, 5))
    return BundleGraph(ub, ui, bi)


def vectors() -> Embeddings:
    level = Level(torch.arange(8.0).view(4, 2), 10 + torch.arange(10.0).view(5, 2))
    return Embeddings({"item": level, "bundle": level})


def test_blanks_are_given_the_mean_of_the_known_and_the_vector_of_the_most_alike() -> None:
    found = filled(CrossCBR, vectors(), graph())
    bundle, item = found.levels["bundle"], found.levels["item"]
    assert bundle.users.tolist() == [[0, 1], [2, 3], [1, 2], [1, 2]]  # the mean of users 0 and 1
    part = [pytest.approx(TRUST * 12), pytest.approx(TRUST * 13)]
    assert bundle.bundles.tolist() == [
        [10, 11],
        [12, 13],
        part,
        [11, 12],
        [10, 11],
    ]  # of bundle 1's; the mean; all of 0's
    assert item.users.tolist() == [[0, 1], [2, 3], [4, 5], [2, 3]]  # the mean of users 0, 1 and 2
    assert item.bundles[:3].tolist() == [[10, 11], [12, 13], [14, 15]]
    assert item.bundles[4].tolist() == [18, 19]


def test_who_has_any_edge_is_no_blank_to_a_model_that_looks_at_all() -> None:
    found = filled(RGCN, Embeddings({"graph": vectors().levels["item"]}), graph()).levels["graph"]
    assert found.users.tolist() == [[0, 1], [2, 3], [4, 5], [2, 3]]
    assert found.bundles[:3].tolist() == [[10, 11], [12, 13], [14, 15]]


def test_twins_share_the_rarest_items() -> None:
    blank, twin = twins(graph(), np.array([True, True, False, False, False]))
    assert (blank.tolist(), twin.tolist()) == ([2, 4], [1, 0])


def test_those_without_a_choice_get_what_people_like_and_their_items_still_count(
    artifact: Artifact, tiny: World
) -> None:
    cold = np.setdiff1d(np.arange(600), artifact.chosen[:, 0])
    cold = [user for user in cold.tolist() if len(of_left(artifact.graph.ui.pairs, user))]
    lists = [[place.bundle for place in recommend(artifact, user, 20)] for user in cold]
    assert len({tuple(one) for one in lists}) > 1
    popularity = tiny.dataset.popularity
    assert np.mean([popularity[one].mean() for one in lists]) > popularity.mean()
