"""Agreement with retraining: the correction finds a known correlation, however noisy the retrainings are."""

import numpy as np
import pytest

from clbr import InputError
from clbr.evaluation.agreement import Agreement, measure_agreement

USERS, BUNDLES, SEEDS = 60, 400, 4


def simulated(truth: float, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Answers that correlate `truth` with what retraining changes on average, and retrainings with noise of this size."""
    rng = np.random.default_rng(seed)
    average = rng.normal(size=(USERS, BUNDLES))
    other = rng.normal(size=(USERS, BUNDLES))
    answer = truth * average + (1 - truth**2) ** 0.5 * other
    retrained = average + noise * rng.normal(size=(SEEDS, USERS, BUNDLES))
    return np.repeat(answer[None], SEEDS, 0), retrained


def measured(answers: np.ndarray, retrained: np.ndarray) -> Agreement:
    """The agreement of answers and retrainings of the same seeds."""
    return measure_agreement(answers, range(len(answers)), retrained, range(len(retrained)))


@pytest.mark.parametrize("truth", [0.0, 0.4, 0.8])
@pytest.mark.parametrize("noise", [0.5, 3.0])
def test_the_corrected_correlation_is_the_true_one(truth: float, noise: float) -> None:
    found = measured(*simulated(truth, noise))
    assert found.corrected == pytest.approx(truth, abs=0.05)  # of ranks: 0.79 for 0.8
    assert found.between == pytest.approx(1 / (1 + noise**2), abs=0.03)
    assert found.plain == pytest.approx(truth / (1 + noise**2) ** 0.5, abs=0.03)
    assert (found.users, found.seeds) == (USERS, SEEDS)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(20):
        found = measured(*(part[:, :20, :60] for part in simulated(0.5, 2.0, seed)))
        assert found.low is not None and found.high is not None
        held += found.low <= 0.5 <= found.high
    assert held >= 16


def test_chance_that_answer_and_retraining_of_a_seed_share_does_not_count() -> None:
    """The answer of a seed is the noise of that seed's retraining and nothing else."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(SEEDS, USERS, BUNDLES))
    retrained = rng.normal(size=(USERS, BUNDLES)) + noise
    seeds = np.arange(SEEDS)
    found, biased = (measure_agreement(noise, of, retrained, seeds).corrected for of in (seeds, seeds + SEEDS))
    assert found is not None and abs(found) < 0.03
    assert biased is not None and biased > 0.1


def test_by_hand() -> None:
    """One user, three bundles: rank correlations 1 and 0.5 with the answers, 0.5 between the retrainings."""
    answers = np.array([[[1.0, 2.0, 3.0]], [[1.0, 2.0, 3.0]]])
    retrained = np.array([[[10.0, 20.0, 30.0]], [[20.0, 10.0, 30.0]]])  # 1 and 0.5 with (1, 2, 3); 0.5 with each other
    found = measured(answers, retrained)
    assert found.plain == pytest.approx((0.5 + 1.0) / 2)
    assert found.between == pytest.approx(0.5)
    assert found.corrected == pytest.approx(0.75 / 0.5**0.5)


def test_answers_and_retrainings_are_matched_by_their_seeds() -> None:
    """The answer of seed 7 is compared with the retraining of seed 4 alone, that of seed 1 with both."""
    answers = np.array([[[1.0, 2.0, 3.0]], [[3.0, 2.0, 1.0]]])
    retrained = np.array([[[10.0, 20.0, 30.0]], [[20.0, 10.0, 30.0]]])
    found = measure_agreement(answers, [7, 1], retrained, [4, 7])
    assert found.plain == pytest.approx((1.0 - 1.0 - 0.5) / 3)
    assert (found.between, found.seeds) == (pytest.approx(0.5), 2)


def test_one_retraining_is_not_enough_and_equal_changes_give_no_number() -> None:
    with pytest.raises(InputError, match="two seeds"):
        measured(np.zeros((1, 2, 3)), np.zeros((1, 2, 3)))
    found = measured(np.zeros((2, 2, 3)), np.zeros((2, 2, 3)))
    assert (found.plain, found.corrected, found.low) == (0, None, None)
    assert "do not agree with each other" in str(found)


def test_one_answer_whose_seed_was_retrained_too_has_an_interval() -> None:
    """Some draws of the bootstrap do not contain its seed; it does not count in them."""
    answers, retrained = simulated(0.8, 0.5)
    found = measure_agreement(answers[:1], [0], retrained, range(SEEDS))
    assert found.low is not None and found.corrected is not None and found.high is not None
    assert 0.75 < found.low < found.corrected < found.high < 0.82
