"""What the tests of the page do with it, and how they read it."""

from typing import Any

from serving import TOKEN, Service

REFUSED = "Failed to load resource"
FREE_READER = 23
"""A reader without a name, who has chosen lists."""
BUNDLE = "3"
"""A list with a name."""


def calm(page: Any) -> None:
    """The page is there and waits for no answer."""
    page.locator(".panel:not([hidden])").wait_for()
    page.locator("[aria-busy], .waiting").first.wait_for(state="detached")


def names(page: Any, rows: str) -> list[str]:
    calm(page)
    return page.locator(rows).locator(".name").all_text_contents()


def places(page: Any) -> list[str]:
    """The list as it is shown, best first."""
    page.locator("ol.places li").first.wait_for()
    return names(page, "ol.places > li")


def told(service: Service, top: int = 20, **edits: list[str]) -> dict[str, Any]:
    return service.ask("/api/whatif/user", {"user": str(FREE_READER), "top": top, **edits})


def called(kind: str, nodes: list[dict[str, Any]]) -> list[str]:
    return [node["name"] or f"{kind} {node['id']}" for node in nodes]


def history(service: Service) -> dict[str, Any]:
    return service.ask(f"/api/user?id={FREE_READER}")


def reader_link(**edits: object) -> str:
    return f"#tab=readers&user={FREE_READER}" + "".join(f"&{key}={value}" for key, value in edits.items())


def strike(page: Any, name: str) -> None:
    page.get_by_role("button", name=f"Strike out {name}", exact=True).click()


def options(page: Any) -> Any:
    """What a search found."""
    return page.locator("[role=option]:visible")


def said(page: Any, words: str) -> None:
    page.locator("#said").filter(has_text=words).wait_for(state="attached")


def studio(page: Any) -> None:
    page.locator(".audience .bars li").first.wait_for()
    calm(page)


def open_locked(page: Any) -> None:
    page.locator("#token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_role("tab").first.wait_for()
