"""Helpers of the service's tests: a service in a process of its own, a client without a server, error checks."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from fastapi.testclient import TestClient

from clbr.service.app import make_app
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


def make_client(folder: Path, **config: Any) -> TestClient:
    """A client of the application, without a server."""
    return TestClient(make_app(ServiceConfig(folder, **config), Worker(folder)), base_url="http://127.0.0.1")


def assert_error(answer: Any, status: int, *words: str) -> None:
    """The answer has this status and an error payload whose message contains the words."""
    assert answer.status_code == status, answer.text
    payload = answer.json()
    assert set(payload) == {"error", "request", "kind", "id"}
    assert payload["request"] == answer.headers["x-request-id"]
    for word in words:
        assert word in payload["error"]
