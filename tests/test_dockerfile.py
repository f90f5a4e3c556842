"""The Dockerfile, read: no engine is needed. What it copies, installs and runs exists here."""

import json
import re
import tomllib
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from urllib.error import HTTPError

import pytest

from conftest import ROOT
from docs_helpers import parse_command

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile in order, each with its arguments."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def arguments(name: str) -> list[str]:
    return [rest for found, rest in instructions() if found == name]


def is_ignored(path: str) -> bool:
    """Whether .dockerignore leaves a file out: the last rule that matches decides."""
    ignored = False
    for rule in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = rule.removeprefix("!").removeprefix("**/")
        if rule and not rule.startswith("#") and any(fnmatch(part, pattern) for part in (path, *path.split("/"))):
            ignored = not rule.startswith("!")
    return ignored


def test_every_stage_starts_from_a_slim_python_that_the_package_supports() -> None:
    versions = [re.match(r"python:(\d+)\.(\d+)-slim\b", image) for image in arguments("FROM")]
    assert len(versions) == 2 and all(versions)
    least = tuple(int(part) for part in PROJECT["requires-python"].removeprefix(">=").split("."))
    assert {(int(found[1]), int(found[2])) for found in versions if found} == {least}


def test_what_is_copied_exists_and_is_all_that_the_build_is_given() -> None:
    copied = [path for rest in arguments("COPY") if "--from" not in rest for path in rest.split()[:-1]]
    assert {"constraints.txt", "pyproject.toml", "src", PROJECT["readme"], *PROJECT["license-files"]} == set(copied)
    for path in copied:
        assert (ROOT / path).exists() and not is_ignored(path)
    assert not is_ignored("src/clbr/service/page/index.html")
    for path in (".git", ".venv", "results", "tests", "docs", "Makefile", "src/clbr/__pycache__"):
        assert is_ignored(path)


def test_the_pinned_versions_are_installed_for_a_user_without_rights() -> None:
    (install,) = (rest for rest in arguments("RUN") if "pip install" in rest)
    extras = re.search(r"'\.\[(.*)\]'", install)
    assert extras and set(extras[1].split(",")) == {"serve", "ann"} <= set(PROJECT["optional-dependencies"])
    assert any("PIP_CONSTRAINT=/source/constraints.txt" in rest for rest in arguments("ENV"))
    assert re.search(r"^torch==[\d.]+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert arguments("WORKDIR") == ["/source"]
    names = [name for name, _ in instructions()]
    assert arguments("USER") == ["clbr"] and names.index("USER") > len(names) - 1 - names[::-1].index("RUN")
    assert any(rest.startswith("useradd") and rest.endswith(" clbr") for rest in arguments("RUN"))


def test_the_command_is_one_of_ours_and_the_probe_asks_its_port() -> None:
    command = json.loads(arguments("CMD")[0])
    port = command[command.index("--port") + 1]
    parse_command(command[1:])
    assert command[:2] == ["clbr", "serve"] and arguments("EXPOSE") == [port]
    probe = arguments("HEALTHCHECK")[0]
    assert f"http://127.0.0.1:{port}/ready" in probe
    assert not re.search(r"https?://(?!127\.0\.0\.1)", (ROOT / "Dockerfile").read_text())  # no address of a registry


@pytest.mark.parametrize("status", [200, 503])
def test_the_probe_fails_unless_the_service_is_ready(status: int) -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    _, _, code = json.loads(arguments("HEALTHCHECK")[0].partition("CMD ")[2])
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.handle_request).start()
        code = code.replace(":8000", f":{server.server_port}")
        if status == 200:
            exec(code)
        else:
            with pytest.raises(HTTPError) as error:
                exec(code)
            error.value.close()
    assert asked == ["/ready"]
