"""A service without a server, and what its refusals look like."""

from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from clbr.service.app import ServiceConfig, make_app
from clbr.service.worker import Worker


def open_service(folder: Path, **house: Any) -> TestClient:
    return TestClient(make_app(ServiceConfig(folder, **house), Worker(folder)), base_url="http://127.0.0.1")


def refused(answer: Any, status: int, *words: str) -> None:
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert set(told) == {"error", "request", "kind", "id"} and told["request"] == answer.headers["x-request-id"]
    for word in words:
        assert word in told["error"]
