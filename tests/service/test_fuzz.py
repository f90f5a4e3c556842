"""Random requests to every route, valid and invalid: no 5xx, no answer outside the schema."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from service_helpers import assert_error, make_client

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
HOST = {"host": "127.0.0.1"}


@pytest.fixture  # one for each test: Schemathesis ends the application after it, and the worker with it
def operations(artifact_of: Callable[[str], Path]) -> Iterator[list[schemathesis.APIOperation]]:
    with make_client(artifact_of("crosscbr")) as client:
        schema = schemathesis.openapi.from_asgi("/openapi.json", client.app, headers=HOST)
        yield [found.ok() for found in schema.get_all_operations()]


@pytest.mark.parametrize("mode", list(GenerationMode), ids=str)
def test_no_request_breaks_the_service(operations: list[schemathesis.APIOperation], mode: GenerationMode) -> None:
    tested = []
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and not operation.body and not operation.query:
            continue  # it has no input that could be invalid

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=30, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
        def send(case: schemathesis.Case) -> None:
            case.headers = {**(case.headers or {}), **HOST}
            answer = case.call()
            # A body over the limit is rejected for its size, whatever else is wrong with it.
            wrong = [] if answer.status_code == 413 else [negative_data_rejection]
            case.validate_response(answer, checks=[*CHECKS, *wrong])
            assert answer.status_code == 200 or set(answer.json()) == {"error", "request", "kind", "id"}

        send()
        tested.append(operation.path)
    assert len(tested) > 9
    assert {"/v1/whatif", "/v1/audience", "/v1/audience/new", "/v1/similar", "/v1/previews"} <= set(tested)


PATHS = ["/v1/recommend", "/v1/recommend/batch", "/v1/whatif", "/v1/audience", "/v1/audience/new", "/v1/explain"]
PATHS += ["/v1/previews"]
PATHS += ["/v1/suggest", "/v1/similar", "/v1/find", "/v1/user", "/v1/bundle", "/v1/item", "/v1/report", "/v1/about"]
PATHS += [
    "/v1",
    "/v1/",
    "/api/about",
    "/live",
    "/ready",
    "/metrics",
    "/",
    "/page/main.js",
    "/report/x",
    "/openapi.json",
]
KEYS = st.sampled_from(["user", "users", "bundle", "items", "add_items", "swap", "edits", "k", "budget", "of", "id"])
KEYS |= st.sampled_from(["bundles", "max_users"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["17", "5"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def client(artifact_of: Callable[[str], Path]) -> Iterator[TestClient]:
    with make_client(artifact_of("crosscbr")) as client:
        yield client


@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"]),
    path=st.sampled_from(PATHS) | st.text(max_size=20).map(lambda text: f"/v1/{quote(text)}"),
    query=st.dictionaries(KEYS | st.text(max_size=5), st.text(max_size=8) | st.integers(), max_size=3),
    body=st.binary(max_size=50) | st.dictionaries(KEYS, VALUES, max_size=4).map(lambda body: json.dumps(body).encode()),
    headers=st.dictionaries(
        st.sampled_from(["content-type", "accept", "origin", "x-request-id", "content-length", "if-none-match"]),
        st.sampled_from(["application/json", "text/plain", "http://127.0.0.1", "0", "99999999999", "\x7f", "a b"]),
        max_size=3,
    ),
)
@settings(max_examples=300, suppress_health_check=list(HealthCheck), database=None)
def test_whatever_is_sent_the_answer_is_one_of_the_service(
    client: TestClient, method: str, path: str, query: dict[str, str], body: bytes, headers: dict[str, str]
) -> None:
    answer = client.request(method, path, params=query, content=body, headers=headers)
    assert answer.status_code < 500, answer.text
    if method == "HEAD":
        assert not answer.content
    elif answer.status_code not in (200, 304):
        assert_error(answer, answer.status_code)
