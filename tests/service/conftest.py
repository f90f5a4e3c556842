"""The page in a real browser, with the real service."""

import json
import shutil
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from clbr.data.pairs import neighbours
from clbr.inference.artifact import ABOUT, about_checksum, open_artifact
from page_helpers import HOSTILE_NAME, HOSTILE_USER, OpenPage
from service_helpers import TOKEN, Service, start_service, wait_until_ready

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
FLAGS += ["--disable-sync", "--no-first-run"]


@pytest.fixture(scope="session")
def hostile_artifact(tmp_path_factory: pytest.TempPathFactory, artifact_of: Callable[[str], Path]) -> Path:
    """An artifact in which a user, one of the user's bundles and one of the items have names full of markup."""
    folder = tmp_path_factory.mktemp("page") / "artifact"
    shutil.copytree(artifact_of("crosscbr"), folder)
    artifact = open_artifact(folder)
    graph = artifact.graph
    about = json.loads((folder / ABOUT).read_text())
    for nodes, index in (
        (artifact.users, HOSTILE_USER),
        (artifact.bundles, int(neighbours(graph.ub.pairs, HOSTILE_USER)[0])),
        (artifact.items, int(neighbours(graph.ui.pairs, HOSTILE_USER)[0])),
    ):
        names = list(nodes.names or [None] * len(nodes))
        names[index] = HOSTILE_NAME
        file = folder / f"{nodes.kind}s.json"
        written = json.loads(file.read_text()) if file.is_file() else {"ids": nodes.ids}
        content = json.dumps(written | {"names": names}).encode()
        file.write_bytes(content)
        about["files"][file.name] = sha256(content).hexdigest()
    about["checksum"] = about_checksum({key: value for key, value in about.items() if key != "checksum"})
    (folder / ABOUT).write_text(json.dumps(about))
    return folder


@pytest.fixture(scope="session")
def services(hostile_artifact: Path, artifact_of: Callable[[str], Path]) -> Iterator[dict[str, Service]]:
    """Two services, started at the same time: one to work with, and one with a token and a model without what-if."""
    report = hostile_artifact.parent / "report.html"
    report.write_text("<!doctype html><title>Overall</title><h1>Overall performance</h1>")
    options = ["--words", "person/people,outfit,dress/dresses", "--report", str(report)]
    started = {
        "open": start_service(hostile_artifact, "--words", "reader,list,book"),
        "locked": start_service(artifact_of("bprmf"), *options, CLBR_TOKEN=TOKEN),
    }
    yield {name: wait_until_ready(process) for name, process in started.items()}
    for process in started.values():
        process.kill()
        process.communicate()


@pytest.fixture
def service(services: dict[str, Service]) -> Service:
    return services["open"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    reason = "the page is tested with Playwright: pip install playwright axe-playwright-python"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("the page is tested in Chromium, which is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any, services: dict[str, Service]) -> Iterator[OpenPage]:
    """Opens the page; a console message that was not expected fails the test at its end."""
    messages: list[str] = []
    expected: list[str] = []
    contexts = []

    def open_(
        link: str = "", *, at: str = "open", expect: tuple[str, ...] = (), script: str = "", **options: Any
    ) -> Any:
        expected.extend(expect)
        settings = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"} | options
        context = browser.new_context(**settings)
        context.set_default_timeout(30_000)  # a busy machine is no failure
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda entry: messages.append(entry.text) if entry.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: messages.append(f"uncaught: {error}"))
        page.add_init_script(script)
        page.goto(f"{services[at].address}/{link}")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert [message for message in messages if not any(words in message for words in expected)] == []
