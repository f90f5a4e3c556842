"""The limits: their defaults, requests beyond them, and what the docs say."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from clbr.service.limits import DEFAULT, Limits, applied
from clbr.service.schemas import ExplainRequest, RecommendRequest
from conftest import ROOT
from docs_helpers import blocks
from service_helpers import assert_error, make_client


def test_a_number_that_is_left_out_is_the_usual_one_or_the_limit() -> None:
    assert (ExplainRequest(user="1", bundle="2").k, ExplainRequest(user="1", bundle="2").budget) == (20, 100)
    with applied(Limits(k=7, budget=50)):
        asked = ExplainRequest(user="1", bundle="2")
        assert (asked.k, asked.budget) == (7, 50)
    with applied(Limits(k=5000)):
        assert ExplainRequest(user="1", bundle="2").k == 20


def test_numbers_lists_and_texts_are_limited() -> None:
    with applied(Limits(k=7, edits=2, text=3)):
        assert RecommendRequest(likes_items=["a", "bcd"], k=7).likes_items == ["a", "bcd"]
        for wrong, message in (
            ({"k": 8}, "Expected at most 7"),
            ({"likes_items": ["a", "b", "c"]}, "Expected at most 2 entries"),
            ({"user": "abcd"}, "Expected at most 3 characters"),
            ({"user": ""}, "at least 1 character"),
            ({"k": 0}, "greater than or equal to 1"),
        ):
            with pytest.raises(ValidationError, match=message):
                RecommendRequest(**wrong)


def test_two_services_in_one_process_have_limits_of_their_own(artifact_of: Callable[[str], Path]) -> None:
    folder = artifact_of("crosscbr")
    with make_client(folder, Limits(batch_users=1, batch_rows=5)) as small, make_client(folder) as usual:
        two = {"users": ["3", "17"], "k": 3}
        assert_error(small.post("/v1/recommend/batch", json=two), 422, "users: Expected at most 1 entries")
        assert_error(small.post("/v1/recommend/batch", json={"users": ["3"], "k": 6}), 422, "at most 5 rows")
        assert usual.post("/v1/recommend/batch", json=two).status_code == 200
        assert small.get("/v1/about").json()["limits"]["batch_users"] == 1
        assert usual.get("/v1/about").json()["limits"] == DEFAULT.model_dump()


def test_a_list_is_never_longer_than_there_are_bundles(artifact_of: Callable[[str], Path]) -> None:
    with make_client(artifact_of("crosscbr"), Limits(k=5000)) as client:
        about = client.get("/v1/about").json()
    assert about["limits"]["k"] == about["bundles"] == 150


def test_the_docs_state_the_defaults() -> None:
    (block,) = blocks(ROOT / "docs" / "service.md", "toml")
    assert tomllib.loads(block.text) == DEFAULT.model_dump()
