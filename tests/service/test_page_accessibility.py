"""Accessibility: axe checks the page in every state, in light and in dark colours."""

from collections.abc import Callable
from typing import Any

import pytest

from page_helpers import (
    BUNDLE,
    FAILED_REQUEST,
    USER,
    OpenPage,
    enter_token,
    find_unreachable,
    history,
    options,
    shown_list,
    user_link,
    wait_audience,
)
from service_helpers import Service

Check = Callable[[Any, str], None]


@pytest.fixture(scope="module")
def check() -> Check:
    reason = "accessibility is checked with axe: pip install axe-playwright-python"
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=reason).Axe()

    def run(page: Any, where: str) -> None:
        page.locator("[aria-busy], .waiting").first.wait_for(state="detached")
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            found = axe.run(page)
            assert found.violations_count == 0, f"{where}, {theme}: {found.generate_report()}"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), where

    return run


@pytest.mark.parametrize("width", [1280, 375])
def test_every_tab_is_accessible_and_nothing_is_cut_off(
    open_page: OpenPage, service: Service, check: Check, width: int
) -> None:
    dropped = history(service)["bundles"][0]["id"]
    item = service.fetch(f"/v1/bundle?id={BUNDLE}")["items"][0]["id"]
    unreachable = find_unreachable(service, "history", k=1)
    page = open_page(viewport={"width": width, "height": 800})
    page.locator(".examples a").first.wait_for()
    start = page.url.split("#")[0]

    check(page, "nothing chosen yet")
    page.goto(start + user_link(drop_bundles=dropped))
    page.locator(".ranking.moved").wait_for()
    page.locator(".why:visible").first.click()
    page.locator(".answer-body p").first.wait_for()
    page.get_by_role("combobox", name="Find a reader").fill("1")
    options(page).first.wait_for()
    check(page, "users")
    page.goto(start + user_link(k=1))
    page.locator("ol.ranked > li").nth(1).wait_for(state="detached")
    page.get_by_role("combobox", name="What would bring in a list?").fill(unreachable["bundle"]["id"])
    options(page).first.wait_for()
    page.keyboard.press("Enter")
    page.locator(".nearest").wait_for()
    check(page, "a bundle out of reach")
    page.goto(start + f"#tab=bundles&bundle={BUNDLE}&drop_items={item}")
    wait_audience(page)
    page.get_by_role("button", name="Find good swaps").click()
    page.locator(".swaps li").first.wait_for()
    check(page, "bundles")
    page.goto(start + f"#tab=bundles&bundle={BUNDLE}&drop_items={item}&k=1")
    page.locator(".audience .bars.few").wait_for()
    check(page, "a bundle with few users")
    page.goto(start + "#tab=bundles&bundle=")
    page.locator(".examples:visible .preview").first.wait_for()
    check(page, "no bundle chosen yet")
    page.goto(start + "#tab=drafts&a=3&a=7&b=12")
    page.locator(".draft .large strong").nth(1).wait_for()
    page.get_by_role("combobox", name="Add a book to draft A").fill("1")
    options(page).first.wait_for()
    check(page, "drafts")
    page.goto(start + "#tab=model")
    page.get_by_role("article").wait_for()
    check(page, "model")


def test_errors_are_accessible(open_page: OpenPage, service: Service, check: Check) -> None:
    page = open_page("#tab=users&user=nobody", viewport={"width": 375, "height": 800}, expect=(FAILED_REQUEST,))
    page.locator(".error").wait_for()
    check(page, "unknown user")
    page.goto(page.url.split("#")[0] + user_link(add_items="nope", drop_items="none"))
    page.locator(".error").get_by_role("button", name="Discard all changes").wait_for()
    check(page, "unknown item")
    page.goto(page.url.split("#")[0] + f"#tab=bundles&bundle={BUNDLE}&add_items=nope")
    page.locator(".panel:visible .error").wait_for()
    check(page, "unknown item in a bundle")
    page.get_by_role("tab", name="Readers").click()
    page.get_by_role("button", name="Discard all changes").click()
    shown_list(page)
    page.route("**/v1/*", lambda route: route.abort("connectionrefused"))
    page.locator(".why").first.click()
    page.locator(".answer .error").wait_for()
    page.get_by_role("combobox", name="Find a reader").fill("1")
    page.locator(".popup .error").wait_for()
    check(page, "no connection")
    page.reload()
    page.locator("#notices .error").wait_for()
    check(page, "no service")


def test_the_token_dialog_and_a_model_without_whatif_are_accessible(open_page: OpenPage, check: Check) -> None:
    small = {"width": 375, "height": 800}
    page = open_page(f"#tab=users&user={USER}", at="locked", viewport=small, expect=(FAILED_REQUEST,))
    page.locator("#token").fill("“curly”")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    check(page, "the dialog, with an invalid token")
    page.locator("#token").fill("wrong-but-long-enough")
    page.keyboard.press("Enter")
    page.get_by_text("does not accept this token").wait_for()
    check(page, "the dialog, with a wrong token")
    enter_token(page)
    shown_list(page)
    check(page, "a user, without what-if")
    page.goto(page.url.split("#")[0] + f"#tab=bundles&bundle={BUNDLE}")
    page.locator(".nodes:visible li").first.wait_for()
    check(page, "a bundle, without what-if")
