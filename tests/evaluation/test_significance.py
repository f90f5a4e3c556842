import numpy as np
import pytest
from scipy.stats import t

from clbr.errors import InputError
from clbr.evaluation.protocol import Evaluation
from clbr.evaluation.significance import compare, difference_p, holm, paired_p


def result(values: np.ndarray, users: int | None = None) -> Evaluation:
    return Evaluation(
        "test",
        np.arange(users or len(values)),
        {"recall@20": values},
        {"recall@20": float(values.mean())},
        np.zeros((users or len(values), 1), np.int64),
    )


def test_holm_worked_out_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def copies(rng: np.random.Generator, seeds: int, shift: float, gain: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Two models, (seeds, 300 users) each: users differ, a seed shifts all users together, then noise."""
    users = 0.3 * rng.random(300)
    first, second = (
        users + shift * rng.standard_normal((seeds, 1)) + 0.1 * rng.standard_normal((seeds, 300)) for _ in range(2)
    )
    return first + gain, second


@pytest.mark.parametrize("seeds", [3, 5])
def test_copies_of_a_model_differ_significantly_at_the_stated_level_where_seeds_shift_all_users(seeds: int) -> None:
    """1,000 repetitions: 0.05 plus or minus three standard errors. A test over users alone finds far too many."""
    rng, repetitions, wrong, by_user = np.random.default_rng(0), 1000, 0, 0
    for _ in range(repetitions):
        mine, theirs = copies(rng, seeds, shift=0.02)
        p = difference_p(mine, theirs)
        assert p is not None
        wrong += p < 0.05
        by_user += paired_p(mine.mean(axis=0), theirs.mean(axis=0)) < 0.05
    assert abs(wrong / repetitions - 0.05) < 3 * (0.05 * 0.95 / repetitions) ** 0.5
    assert by_user / repetitions > 0.4


def test_copies_differ_significantly_less_often_where_seeds_shift_nothing() -> None:
    rng = np.random.default_rng(0)
    ps = [difference_p(*copies(rng, seeds, shift=0.0)) for seeds in (3, 5, 10) for _ in range(400)]
    assert 0 < np.mean([p is not None and p < 0.05 for p in ps]) < 0.02


def test_with_two_seeds_that_shift_much_the_level_is_slightly_exceeded() -> None:
    rng = np.random.default_rng(0)
    ps = [difference_p(*copies(rng, 2, shift=0.1)) for _ in range(1000)]
    assert 0.05 < np.mean([p is not None and p < 0.05 for p in ps]) < 0.09


def test_a_difference_larger_than_the_spread_over_seeds_is_found() -> None:
    rng, found = np.random.default_rng(0), 0
    for _ in range(100):
        p = difference_p(*copies(rng, 5, shift=0.02, gain=0.08))
        found += p is not None and p < 0.05
    assert found > 90


def test_a_difference_worked_out_by_hand() -> None:
    """Users' differences 0.2 and 0.4: SE^2 0.01. Means over seeds 0.3, 0.5 and 0.1, 0.1: s^2 0.01, times 1. t = 3 /
    sqrt(2), with (0.02)^2 / (0.01^2 / 1 + 0.01^2 / 2) = 8 / 3 degrees of freedom."""
    one, other = np.array([[0.2, 0.4], [0.4, 0.6]]), np.array([[0.0, 0.2], [0.2, 0.0]])
    assert difference_p(one, other) == pytest.approx(2 * t.sf(3 / 2**0.5, 8 / 3))
    assert difference_p(one, one) == 1.0
    assert difference_p(np.full((2, 3), 0.5), np.full((2, 3), 0.25)) == 0.0
    assert difference_p(one[:1], other) is None


def test_a_known_difference_is_found_with_its_sign() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(2000)
    groups = {"base": [result(base)], "better": [result(base + 0.02 + 0.1 * rng.standard_normal(2000))],
              "worse": [result(base - 0.02 + 0.1 * rng.standard_normal(2000))]}  # fmt: skip
    better, worse = compare(groups, ["recall@20"])
    assert better.one_seed
    assert better.p < 0.001
    assert worse.p < 0.001
    assert better.difference == pytest.approx(0.02, abs=0.01)
    assert worse.difference == pytest.approx(-0.02, abs=0.01)


def test_equal_values_do_not_differ_and_different_users_are_rejected() -> None:
    values = np.random.default_rng(0).random(50)
    assert compare({"a": [result(values)], "b": [result(values)]}, ["recall@20"])[0].p == 1.0
    with pytest.raises(InputError, match="not evaluated on the same users"):
        compare({"a": [result(values)], "b": [result(values[:40])]}, ["recall@20"])


def test_several_seeds_are_tested_over_seeds_and_a_single_seed_is_marked() -> None:
    mine, theirs = copies(np.random.default_rng(0), 3, shift=0.05)
    groups = {"base": [*map(result, theirs)], "three": [*map(result, mine)], "one": [result(mine[0])]}
    three, one = compare(groups, ["recall@20"])
    assert (three.one_seed, one.one_seed) == (False, True)
    by_user = paired_p(mine[0], theirs.mean(axis=0))
    assert [three.p, one.p] == holm([difference_p(mine, theirs) or 0.0, by_user])
    assert three.mean == pytest.approx(mine.mean())
