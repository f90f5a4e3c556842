"""Random requests to every route, valid and invalid: no 5xx, no answer outside the schema."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from clbr.service.app import make_app
from clbr.service.pages import ServiceConfig
from clbr.service.worker import Worker

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
HOST = {"host": "127.0.0.1"}


@pytest.fixture  # one for each test: Schemathesis ends the application after it, and the worker with it
def operations(artifact_of: Callable[[str], Path]) -> Iterator[list[schemathesis.APIOperation]]:
    folder = artifact_of("crosscbr")
    worker = Worker(folder)
    schema = schemathesis.openapi.from_asgi("/openapi.json", make_app(ServiceConfig(folder), worker), headers=HOST)
    yield [found.ok() for found in schema.get_all_operations()]
    worker.close()


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

        send()
        tested.append(operation.path)
    assert len(tested) > 9
    assert {"/api/whatif", "/api/audience", "/api/audience/new", "/api/similar"} <= set(tested)
