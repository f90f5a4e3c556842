import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clbr.errors import InputError
from clbr.evaluation import ranking as ranking_module
from clbr.evaluation.ranking import rank, top
from conftest import Fixed

NOTHING = np.empty((0, 2), np.int32)


def slow_top(scores: list[float], k: int) -> list[int]:
    """The documented order in plain python: higher scores first, lower columns among equal ones; no -inf."""
    order = sorted(range(len(scores)), key=lambda column: (-scores[column], column))
    best = [column if scores[column] != -np.inf else -1 for column in order[:k]]
    return best + [-1] * (k - len(best))


# Few distinct values, so that there are many ties, also at rank k.
TABLES = st.integers(1, 9).flatmap(
    lambda columns: st.lists(
        st.lists(st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 2.0, 2.5]), min_size=columns, max_size=columns),
        min_size=1,
        max_size=6,
    )
)


@given(TABLES, st.integers(1, 9))
def test_top_has_the_documented_order_for_all_ties(table: list[list[float]], k: int) -> None:
    k = min(k, len(table[0]))
    assert top(torch.tensor(table), k).tolist() == [slow_top(row, k) for row in table]


@given(TABLES, st.integers(1, 12), st.integers(1, 7), st.data())
def test_ranking_is_the_same_for_every_block_size_and_excludes_what_it_should(
    table: list[list[float]], k: int, block: int, data: st.DataObject
) -> None:
    shape = (len(table), len(table[0]))
    exclude = sorted(data.draw(st.sets(st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1)))))
    users = np.array(data.draw(st.lists(st.integers(0, shape[0] - 1), unique=True, min_size=1)))
    scorer = Fixed(torch.tensor(table))
    pairs = np.array(exclude, np.int32).reshape(-1, 2)
    ranking = rank(scorer, users, k, exclude=pairs, block=block)
    expected = [[-np.inf if (u, b) in exclude else table[u][b] for b in range(shape[1])] for u in users]
    assert ranking.tolist() == [slow_top(row, min(k, shape[1])) for row in expected]
    assert ranking.tolist() == rank(scorer, users, k, exclude=pairs).tolist()


def test_ranking_does_not_change_the_scores_of_the_scorer() -> None:
    scorer = Fixed(torch.ones(2, 3))
    rank(scorer, np.array([0, 1]), 2, exclude=np.array([[0, 0]], np.int32))
    assert scorer.table.tolist() == torch.ones(2, 3).tolist()


def test_progress_is_reported_after_each_block() -> None:
    done: list[int] = []
    rank(Fixed(torch.ones(5, 3)), np.arange(5), 1, exclude=NOTHING, block=2, on_progress=done.append)
    assert done == [2, 4, 5]


def test_a_block_has_no_more_scores_than_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class Counting(Fixed):
        def scores(self, users: torch.Tensor) -> torch.Tensor:
            sizes.append(len(users) * self.table.shape[1])
            return super().scores(users)

    monkeypatch.setattr(ranking_module, "BLOCK_SCORES", 12)
    rank(Counting(torch.ones(50, 3)), np.arange(50), 1, exclude=NOTHING)
    assert max(sizes) == 12


def test_unsorted_pairs_to_exclude_are_rejected() -> None:
    with pytest.raises(InputError, match="must be sorted"):
        rank(Fixed(torch.ones(2, 3)), np.array([0]), 1, exclude=np.array([[1, 0], [0, 0]], np.int32))


def test_scores_that_are_nan_and_k_below_one_are_rejected() -> None:
    with pytest.raises(InputError, match="not numbers"):
        rank(Fixed(torch.full((1, 3), torch.nan)), np.array([0]), 2, exclude=NOTHING)
    with pytest.raises(InputError, match="k = 0: expected at least 1"):
        rank(Fixed(torch.ones(1, 3)), np.array([0]), 0, exclude=NOTHING)
