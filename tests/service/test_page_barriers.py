"""What keeps someone from using the page: axe looks for it, in every state."""

from collections.abc import Callable
from typing import Any

import pytest

from looking import (
    BUNDLE,
    FREE_READER,
    REFUSED,
    history,
    open_locked,
    options,
    places,
    reader_link,
    studio,
)
from serving import Look, Service

Check = Callable[[Any, str], None]


@pytest.fixture(scope="module")
def check() -> Check:
    reason = "axe looks for barriers: pip install axe-playwright-python"
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=reason).Axe()

    def run(page: Any, where: str) -> None:
        page.locator("[aria-busy], .waiting").first.wait_for(state="detached")
        found = axe.run(page)
        assert found.violations_count == 0, f"{where}: {found.generate_report()}"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), where

    return run


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everyone_can_use_it_and_nothing_is_cut_off(
    look: Look, service: Service, check: Check, theme: str, width: int
) -> None:
    dropped = history(service)["bundles"][0]["id"]
    item = service.ask(f"/api/bundle?id={BUNDLE}")["items"][0]["id"]
    page = look(color_scheme=theme, viewport={"width": width, "height": 800})
    page.locator(".offers button").first.wait_for()
    start = page.url.split("#")[0]

    check(page, "nothing chosen yet")
    page.goto(start + reader_link(drop_bundles=dropped))
    page.locator(".ranking.moved").wait_for()
    page.locator(".why:visible").first.click()
    page.locator(".answer-body p").first.wait_for()
    page.get_by_role("combobox", name="Find a reader").fill("1")
    options(page).first.wait_for()
    check(page, "readers")
    page.goto(start + f"#tab=studio&bundle={BUNDLE}&drop_items={item}")
    studio(page)
    page.get_by_role("button", name="Find good swaps").click()
    page.locator(".swaps li").first.wait_for()
    check(page, "studio")
    page.goto(start + "#tab=model")
    page.get_by_role("article").wait_for()
    check(page, "model")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everyone_can_use_what_is_shown_when_something_goes_wrong(
    look: Look, service: Service, check: Check, theme: str
) -> None:
    page = look(
        "#tab=readers&user=nobody", color_scheme=theme, viewport={"width": 375, "height": 800}, expect=(REFUSED,)
    )
    page.locator(".trouble").wait_for()
    check(page, "nobody there")
    page.goto(page.url.split("#")[0] + reader_link(add_items="nope", drop_items="none"))
    page.locator(".trouble").get_by_role("button", name="Take all changes back").wait_for()
    check(page, "nothing by that name")
    page.goto(page.url.split("#")[0] + f"#tab=studio&bundle={BUNDLE}&add_items=nope")
    page.locator(".panel:visible .trouble").wait_for()
    check(page, "nothing by that name in a list")
    page.get_by_role("tab", name="Readers").click()
    page.get_by_role("button", name="Take all changes back").click()
    places(page)
    page.route("**/api/*", lambda route: route.abort("connectionrefused"))
    page.locator(".why").first.click()
    page.locator(".answer .trouble").wait_for()
    page.get_by_role("combobox", name="Find a reader").fill("1")
    page.locator(".popup .trouble").wait_for()
    check(page, "no connection")
    page.reload()
    page.locator("#notices .trouble").wait_for()
    check(page, "no service")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everyone_can_use_the_dialog_and_a_model_that_cannot_be_asked(look: Look, check: Check, theme: str) -> None:
    small = {"width": 375, "height": 800}
    page = look(f"#tab=readers&user={FREE_READER}", at="locked", color_scheme=theme, viewport=small, expect=(REFUSED,))
    page.locator("#token").fill("“curly”")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    check(page, "the dialog, with a strange token")
    page.locator("#token").fill("wrong-but-long-enough")
    page.keyboard.press("Enter")
    page.get_by_text("does not know the token").wait_for()
    check(page, "the dialog, with a wrong token")
    open_locked(page)
    places(page)
    check(page, "a reader, nothing can be asked")
    page.goto(page.url.split("#")[0] + f"#tab=studio&bundle={BUNDLE}")
    page.locator(".things:visible li").first.wait_for()
    check(page, "a list, nothing can be asked")
