"""Helpers of the service's tests: a service in a process of its own, a client without a server, error checks."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from fastapi.testclient import TestClient

from clbr.service.app import make_app
from clbr.service.limits import DEFAULT, Limits
from clbr.service.pages import ServiceConfig
from clbr.service.worker import Worker

TOKEN = "a-token-that-nobody-guesses"


@dataclass(frozen=True)
class Service:
    """A running service."""

    address: str

    def fetch(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """An answer without the page, to compare the page with."""
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.address + path, data, {"content-type": "application/json"}), timeout=30) as answer:
            return json.load(answer)


def start_service(
    artifact: Path, *options: str, stderr: int | None = None, **environment: str
) -> subprocess.Popen[str]:
    """Start a service with the command; it needs some seconds."""
    command = [sys.executable, "-c", "from clbr.cli import main; main()", "serve", str(artifact), "--port", "0"]
    return subprocess.Popen(
        [*command, "--threads", "1", "--log", "error", *options],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=os.environ | environment,
    )


def wait_until_ready(process: subprocess.Popen[str]) -> Service:
    """Wait until the service answers."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "answers at " in line, line
    return Service(line.split("answers at ")[1].split()[0])


@contextmanager
def make_client(folder: Path, limits: Limits = DEFAULT, **config: Any) -> Iterator[TestClient]:
    """A client of the application, without a server; its artifact is loaded."""
    worker = Worker(folder, limits)
    app = make_app(ServiceConfig(folder, limits=limits, **config), worker)
    app.state.worker = worker
    with TestClient(app, base_url="http://127.0.0.1") as client:
        while client.get("/ready").status_code == 503 and not worker.rejected:
            time.sleep(0.005)
        yield client


def assert_error(answer: Any, status: int, *words: str) -> None:
    """The answer has this status and an error payload whose message contains the words."""
    assert answer.status_code == status, answer.text
    payload = answer.json()
    assert set(payload) == {"error", "request", "kind", "id"}
    assert payload["request"] == answer.headers["x-request-id"]
    for word in words:
        assert word in payload["error"]
