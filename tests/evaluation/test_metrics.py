from math import log2

import numpy as np
import pytest

from clbr.evaluation.metrics import average_popularity, average_precision, coverage, hit_rate, mrr, ndcg, recall

# Three users, four ranks. The first has two relevant bundles, at ranks 1 and 3; the second has five, one of them at
# rank 4; the third has one, which is not in the list.
HITS = np.array([[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], bool)
RELEVANT = np.array([2, 5, 1])


@pytest.mark.parametrize(
    ("metric", "k", "expected"),
    [
        (recall, 4, [2 / 2, 1 / 5, 0]),
        (recall, 2, [1 / 2, 0, 0]),
        (ndcg, 4, [(1 + 1 / log2(4)) / (1 + 1 / log2(3)), (1 / log2(5)) / (1 + 1 / log2(3) + 1 / 2 + 1 / log2(5)), 0]),
        (ndcg, 1, [1, 0, 0]),
        (hit_rate, 4, [1, 1, 0]),
        (hit_rate, 3, [1, 0, 0]),
        (mrr, 4, [1, 1 / 4, 0]),
        (mrr, 3, [1, 0, 0]),
        (average_precision, 4, [(1 + 2 / 3) / 2, (1 / 4) / 4, 0]),
        (average_precision, 1, [1, 0, 0]),
    ],
)
def test_values_worked_out_by_hand(metric: object, k: int, expected: list[float]) -> None:
    assert metric(HITS, RELEVANT, k).tolist() == pytest.approx(expected)  # type: ignore[operator]


def test_a_perfect_ranking_has_value_one_in_all_metrics_also_for_a_k_above_its_length() -> None:
    hits = np.array([[1, 1, 0, 0]], bool)
    for metric in (recall, ndcg, hit_rate, mrr, average_precision):
        assert metric(hits, np.array([2]), 4).tolist() == pytest.approx([1.0])


def test_popularity_and_coverage_use_only_what_was_recommended() -> None:
    ranking = np.array([[2, 0, -1], [2, 1, 0]])
    popularity = np.array([10, 4, 1, 99])
    assert average_popularity(ranking, popularity, 2).tolist() == [5.5, 2.5]
    assert average_popularity(ranking, popularity, 3).tolist() == [5.5, 5.0]
    assert coverage(ranking, 4, 1) == 1 / 4
    assert coverage(ranking, 4, 3) == 3 / 4
