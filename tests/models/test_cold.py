"""Cold bundles: the view without their users, and the offset that gives them their share of the held-out pairs."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from clbr.graph.graph import Edges
from clbr.models.base import Scorer
from clbr.models.cold import LIMIT, cold_bundles, fit_offset, without_some_bundles

EMPTY = np.empty((0, 2), np.int32)


class Constant(Scorer):
    """The same scores for everyone."""

    def __init__(self, *scores: float) -> None:
        self.row = torch.tensor(scores)

    def scores(self, users: Tensor) -> Tensor:
        return self.row.expand(len(users), -1).clone()


def pairs(*found: tuple[int, int]) -> np.ndarray:
    return np.array(found, np.int32).reshape(-1, 2)


def test_a_bundle_keeps_all_its_users_or_none() -> None:
    users, bundles = np.divmod(np.arange(600), 60)
    edges = Edges(np.stack([users, bundles], 1).astype(np.int32), (10, 60))
    left = without_some_bundles(edges, 0.5, torch.Generator().manual_seed(0))
    counts = np.bincount(left.pairs[:, 1], minlength=60)
    assert set(counts.tolist()) == {0, 10} and 15 < (counts == 0).sum() < 45
    assert cold_bundles(left).tolist() == (counts == 0).tolist()
    assert len(without_some_bundles(edges, 0.0, torch.Generator()).pairs) == 600


def test_weights_stay_with_their_edges() -> None:
    edges = Edges(pairs((0, 0), (0, 1), (1, 1)), (2, 2), torch.tensor([1.0, 2.0, 3.0]))
    left = without_some_bundles(edges, 0.5, torch.Generator().manual_seed(2))
    kept = [
        weight
        for weight, pair in zip([1.0, 2.0, 3.0], edges.pairs.tolist(), strict=True)
        if pair in left.pairs.tolist()
    ]
    assert left.weights is not None and left.weights.tolist() == kept


@pytest.mark.parametrize(
    ("train", "held_out", "offset"),
    [
        # three warm bundles and the cold one, all with score 0: e^x / (e^x + 3) is the share of the cold one
        (EMPTY, pairs((0, 0), (0, 3)), math.log(3)),
        (EMPTY, pairs((0, 0), (0, 1), (1, 2), (1, 3)), 0.0),
        # the user has chosen one of the warm bundles in training: e^x / (e^x + 2)
        (pairs((0, 0), (7, 1)), pairs((0, 1), (0, 3)), math.log(2)),
        # half a pair less than all: e^x / (e^x + 3) = 1.5 / 2
        (EMPTY, pairs((0, 3), (4, 3)), math.log(9)),
        (EMPTY, pairs((0, 0), (4, 1)), math.log(1)),
    ],
)
def test_the_offset_gives_cold_bundles_their_share(train: np.ndarray, held_out: np.ndarray, offset: float) -> None:
    cold = torch.tensor([False, False, False, True])
    assert fit_offset(Constant(0, 0, 0, 0), cold, train, held_out) == pytest.approx(offset, abs=1e-4)
    assert fit_offset(Constant(1, 1, 1, 0), cold, train, held_out) == pytest.approx(offset + 1, abs=1e-4)


def test_without_cold_bundles_or_held_out_pairs_there_is_no_offset() -> None:
    scorer, some = Constant(0, 0), pairs((0, 0))
    assert fit_offset(scorer, torch.tensor([False, False]), EMPTY, some) == 0
    assert fit_offset(scorer, torch.tensor([True, True]), EMPTY, some) == 0
    assert fit_offset(scorer, torch.tensor([False, True]), EMPTY, EMPTY) == 0
    assert abs(fit_offset(Constant(0, 900), torch.tensor([False, True]), EMPTY, some)) <= LIMIT
