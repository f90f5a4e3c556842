"""Helpers of the page's tests: what they do on the page, and how they read it."""

from collections.abc import Callable
from functools import cache
from typing import Any

from service_helpers import TOKEN, Service

OpenPage = Callable[..., Any]
"""open_page(link, at="open", expect=console messages that are allowed, script=run before, **options of the browser)."""
FAILED_REQUEST = "Failed to load resource"
"""What the browser's console says about a response with an error status."""
HOSTILE_NAME = "<img src=x onerror=\"document.title='run'\"><b>Ann</b> & co"
"""A name that must never become markup."""
HOSTILE_USER = 17
"""The user with that name; one of the user's bundles and one of the items have it, too."""
USER = 23
"""A user without a name, who has chosen bundles."""
BUNDLE = "3"
"""A bundle with a name."""


def wait_idle(page: Any) -> None:
    """Wait until a tab is shown and no request is running."""
    page.locator(".panel:not([hidden])").wait_for()
    page.locator("[aria-busy], .waiting").first.wait_for(state="detached")


def names(page: Any, rows: str) -> list[str]:
    wait_idle(page)
    return page.locator(rows).locator(".name").all_text_contents()


def shown_list(page: Any) -> list[str]:
    """The recommended bundles as they are shown, best first."""
    page.locator("ol.ranked li").first.wait_for()
    return names(page, "ol.ranked > li")


def whatif(service: Service, k: int = 20, **edits: list[str]) -> dict[str, Any]:
    return service.fetch("/v1/whatif", {"user": str(USER), "k": k, **edits})


def labels(kind: str, nodes: list[dict[str, Any]]) -> list[str]:
    return [node["name"] or f"{kind} {node['id']}" for node in nodes]


def history(service: Service) -> dict[str, Any]:
    return service.fetch(f"/v1/user?id={USER}")


@cache
def find_unreachable(service: Service, of: str, k: int = 20) -> dict[str, Any]:
    """An explanation of a bundle that a handful of edits brings nearer, but not in."""
    known = {one["id"] for one in [*history(service)["bundles"], *whatif(service, k=k)["after"]]}
    for bundle in range(150):
        if str(bundle) not in known:
            answer = service.fetch("/v1/explain", {"user": str(USER), "bundle": str(bundle), "k": k, "of": of})
            if answer["out_of_reach"] and len(answer["nearest"]) > 1:
                return answer
    raise AssertionError("a handful of edits brings every bundle in")


def user_link(**edits: object) -> str:
    return f"#tab=users&user={USER}" + "".join(f"&{key}={value}" for key, value in edits.items())


def remove(page: Any, name: str) -> None:
    page.get_by_role("button", name=f"Remove {name}", exact=True).click()


def options(page: Any) -> Any:
    """The results of a search."""
    return page.locator("[role=option]:visible")


def wait_announced(page: Any, words: str) -> None:
    page.locator("#announcer").filter(has_text=words).wait_for(state="attached")


def wait_audience(page: Any) -> None:
    page.locator(".audience .bars li").first.wait_for()
    wait_idle(page)


def enter_token(page: Any) -> None:
    page.locator("#token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_role("tab").first.wait_for()
