"""Long computations stop between two blocks."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from clbr import Recommender
from clbr.inference import recommend, whatif
from clbr.inference.artifact import open_artifact
from clbr.inference.stopping import StoppedError, check_stop, stoppable

BATCH = [str(user) for user in range(2 * recommend.BATCH_BLOCK + 1)]  # three blocks
LONG = {
    "recommend, unseen user": (1, lambda one: one.recommend_one(likes_items=["3"])),
    "recommend, batch": (3, lambda one: one.recommend_batch(BATCH)),
    "recommend, frame": (1, lambda one: one.recommend(BATCH)),
    "whatif": (1, lambda one: one.whatif("17")),
    "audience": (1 + 1, lambda one: one.audience("5")),  # the edited graph; the ranks for all users
    "audience, unseen bundle": (1 + 1, lambda one: one.new_bundle_audience(["3", "7"])),
    "suggest": (1 + 8 * 2, lambda one: one.suggest("5")),  # all users' margins; eight swaps, each as an audience
}
"""How often each question asks whether to stop, on data of one block of users."""


def count_checks(question: Callable[[], Any], stop_at: int = 0) -> int:
    """How often a computation asks whether to stop; it is stopped the `stop_at`-th time."""
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        return asked == stop_at

    with stoppable(should_stop), pytest.raises(StoppedError) if stop_at else nullcontext():
        question()
    return asked


@pytest.mark.parametrize("name", LONG)
def test_a_long_question_can_be_stopped_before_each_block(recommender: Recommender, name: str) -> None:
    checks, ask = LONG[name]
    ask(recommender)  # the ranks on the training graph are computed once
    assert count_checks(lambda: ask(recommender)) == checks
    for number in range(1, checks + 1):
        assert count_checks(lambda: ask(recommender), stop_at=number) == number


def test_a_stopped_question_leaves_nothing_incomplete_behind(recommender: Recommender) -> None:
    for number in (1, 2):  # before the ranks on the training graph, and after them
        assert count_checks(lambda: recommender.audience("5"), stop_at=number) == number
    fresh = Recommender(open_artifact(recommender.artifact.folder))
    assert recommender.audience("5") == fresh.audience("5")


def test_an_explanation_can_be_stopped_before_each_set_of_edits(recommender: Recommender) -> None:
    bundle = recommender.recommend_one("17", k=60).recommended[-1].id
    answer = recommender.explain("17", bundle, k=5)
    checks = answer.tried
    assert checks > 2 and count_checks(lambda: recommender.explain("17", bundle, k=5)) == checks
    assert count_checks(lambda: recommender.explain("17", bundle, k=5), stop_at=checks) == checks


def test_all_users_are_ranked_block_by_block(recommender: Recommender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatif, "BLOCK", 100)
    blocks = -(-recommender.artifact.about.users // 100)
    assert blocks > 2 and count_checks(lambda: recommender.new_bundle_audience(["3"])) == 1 + blocks


def test_without_a_request_to_stop_nothing_stops() -> None:
    check_stop()
    with stoppable(lambda: True), pytest.raises(StoppedError, match="before its end"):
        check_stop()
    check_stop()
