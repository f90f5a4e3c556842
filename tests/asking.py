"""A service without a server, and what its refusals look like."""

from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from clbr.service.app import House, make_app
from clbr.service.worker import Desk


def open_house(folder: Path, **house: Any) -> TestClient:
    return TestClient(make_app(House(folder, **house), Desk(folder)), base_url="http://127.0.0.1")


def refused(answer: Any, status: int, *words: str) -> None:
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert set(told) == {"error", "request", "kind", "id"} and told["request"] == answer.headers["x-request-id"]
    for word in words:
        assert word in told["error"]
