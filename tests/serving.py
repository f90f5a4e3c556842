"""A service in a process of its own, as people start it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

HOSTILE = "<img src=x onerror=\"document.title='run'\"><b>Ann</b> & co"
"""A name that must never become markup."""
READER = 17
"""The reader whose name it is; a list and a book of hers have it, too."""
TOKEN = "a-token-that-nobody-guesses"
Look = Callable[..., Any]
"""Opens the page in a browser: look(link, at="open", expect=what it may complain of, script=run before, **options of the browser)."""


@dataclass(frozen=True)
class Service:
    """A running service."""

    address: str

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """An answer without the page, to compare the page with."""
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.address + path, data, {"content-type": "application/json"}), timeout=30) as answer:
            return json.load(answer)


def begin(artifact: Path, *words: str, stderr: int | None = None, **environment: str) -> subprocess.Popen[str]:
    """Start a service; it needs some seconds."""
    command = [sys.executable, "-c", "from clbr.cli import main; main()", "serve", str(artifact), "--port", "0"]
    return subprocess.Popen(
        [*command, "--threads", "1", "--log", "error", *words],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=os.environ | environment,
    )


def ready(process: subprocess.Popen[str]) -> Service:
    """Wait until it answers."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "answers at " in line, line
    return Service(line.split("answers at ")[1].split()[0])
