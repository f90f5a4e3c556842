import numpy as np
import pytest

from clbr import InputError
from clbr.evaluation.protocol import Evaluation
from clbr.evaluation.significance import compare, holm


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


def test_two_copies_of_the_same_model_are_told_apart_at_about_the_stated_level() -> None:
    """Four contenders that differ from the baseline by seed noise alone: a family is wrong 5 % of the time at most."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(400):
        taste = rng.random(300)  # users differ, models do not
        groups = {f"m{m}": [result((rng.random(300) < taste).astype(float)) for _ in range(3)] for m in range(5)}
        wrong += any(row.p < 0.05 for row in compare(groups, ["recall@20"]))
    assert 0.01 < wrong / 400 < 0.08


def test_a_known_difference_is_found_with_its_sign() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(2000)
    groups = {"base": [result(base)], "better": [result(base + 0.02 + 0.1 * rng.standard_normal(2000))],
              "worse": [result(base - 0.02 + 0.1 * rng.standard_normal(2000))]}  # fmt: skip
    better, worse = compare(groups, ["recall@20"])
    assert better.p < 0.001
    assert worse.p < 0.001
    assert better.difference == pytest.approx(0.02, abs=0.01)
    assert worse.difference == pytest.approx(-0.02, abs=0.01)


def test_the_same_values_do_not_differ_and_other_users_cannot_be_compared() -> None:
    values = np.random.default_rng(0).random(50)
    assert compare({"a": [result(values)], "b": [result(values)]}, ["recall@20"])[0].p == 1.0
    with pytest.raises(InputError, match="not evaluated on the same users"):
        compare({"a": [result(values)], "b": [result(values[:40])]}, ["recall@20"])
