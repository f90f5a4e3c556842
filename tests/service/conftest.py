"""The page in a real browser, before the real service."""

import json
import shutil
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from clbr.inference.artifact import ABOUT, about_checksum, open_artifact
from clbr.inference.recommend import of_left
from serving import HOSTILE, READER, TOKEN, Look, Service, begin, ready

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
FLAGS += ["--disable-sync", "--no-first-run"]


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory, artifact_of: Callable[[str], Path]) -> Path:
    """An artifact in which a reader, a list of hers and a book of hers have names full of markup."""
    folder = tmp_path_factory.mktemp("page") / "artifact"
    shutil.copytree(artifact_of("crosscbr"), folder)
    artifact = open_artifact(folder)
    graph = artifact.graph
    told = json.loads((folder / ABOUT).read_text())
    for nodes, marked in (
        (artifact.users, READER),
        (artifact.bundles, int(of_left(graph.ub.pairs, READER)[0])),
        (artifact.items, int(of_left(graph.ui.pairs, READER)[0])),
    ):
        names = list(nodes.names or [None] * len(nodes))
        names[marked] = HOSTILE
        content = json.dumps({"ids": nodes.ids, "names": names}).encode()
        (folder / f"{nodes.kind}s.json").write_bytes(content)
        told["files"][f"{nodes.kind}s.json"] = sha256(content).hexdigest()
    told["checksum"] = about_checksum({key: value for key, value in told.items() if key != "checksum"})
    (folder / ABOUT).write_text(json.dumps(told))
    return folder


@pytest.fixture(scope="session")
def services(shop: Path, artifact_of: Callable[[str], Path]) -> Iterator[dict[str, Service]]:
    """Started at the same time: one to work with, and one with a token whose model cannot be asked."""
    report = shop.parent / "report.html"
    report.write_text("<!doctype html><title>Overall</title><h1>Overall performance</h1>")
    plain = ["--words", "person/people,outfit,dress/dresses", "--report", str(report)]
    started = {
        "open": begin(shop, "--words", "reader,list,book"),
        "locked": begin(artifact_of("bprmf"), *plain, CLBR_TOKEN=TOKEN),
    }
    yield {name: ready(process) for name, process in started.items()}
    for process in started.values():
        process.kill()
        process.communicate()


@pytest.fixture
def service(services: dict[str, Service]) -> Service:
    return services["open"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    reason = "the page is looked at with Playwright: pip install playwright axe-playwright-python"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium at hand to look at the page with")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def look(browser: Any, services: dict[str, Service]) -> Iterator[Look]:
    """Opens the page; whatever the browser complains of, and was not expected, is a failure in the end."""
    complaints: list[str] = []
    expected: list[str] = []
    contexts = []

    def open_page(
        link: str = "", *, at: str = "open", expect: tuple[str, ...] = (), script: str = "", **options: Any
    ) -> Any:
        expected.extend(expect)
        settings = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"} | options
        context = browser.new_context(**settings)
        context.set_default_timeout(30_000)  # a busy machine is no failure
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(f"uncaught: {error}"))
        page.add_init_script(script)
        page.goto(f"{services[at].address}/{link}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [said for said in complaints if not any(words in said for words in expected)] == []
