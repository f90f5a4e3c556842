import re
from typing import Any

import pytest

from page_helpers import (
    BUNDLE,
    FAILED_REQUEST,
    USER,
    OpenPage,
    history,
    options,
    remove,
    shown_list,
    user_link,
)
from service_helpers import Service


def test_a_link_that_removes_an_item_which_the_user_does_not_have_can_be_mended(
    open_page: OpenPage, service: Service
) -> None:
    owned = {item["id"] for item in history(service)["items"]}
    missing = next(str(item) for item in range(200) if str(item) not in owned)
    page = open_page(user_link(drop_items=missing), expect=(FAILED_REQUEST,))
    page.locator(".error").get_by_text(
        f"Reader {USER} does not have book {missing}, so it cannot be dropped"
    ).wait_for()
    page.get_by_role("button", name="Discard all changes").click()
    assert len(shown_list(page)) == 20
    page.keyboard.press("Control+z")
    page.get_by_text("was not there").wait_for()
    page.get_by_role("button", name=re.compile("^Discard (?!all)")).click()
    assert len(shown_list(page)) == 20
    assert "drop_items" not in page.url


def test_an_unknown_user_in_a_link_is_named(open_page: OpenPage) -> None:
    page = open_page("#tab=users&user=no-such-reader", expect=(FAILED_REQUEST,))
    page.locator(".error").get_by_text("There is no reader “no-such-reader” here").wait_for()
    page.get_by_role("button", name="Choose another reader").click()
    page.get_by_role("heading", name="Whose lists").wait_for()


@pytest.mark.parametrize("link", [user_link(add_items="nope"), f"#tab=bundles&bundle={BUNDLE}&add_items=nope"])
def test_an_unknown_item_in_a_link_is_shown_and_can_be_discarded(open_page: OpenPage, link: str) -> None:
    page = open_page(link, expect=(FAILED_REQUEST,))
    page.locator(".nodes .added").filter(has_text="not known here").wait_for()
    page.locator(".error").get_by_text("There is no book “nope” here.").wait_for()
    page.get_by_role("button", name="Discard all changes").wait_for()
    page.get_by_role("button", name="Remove added Book nope").click()
    page.locator(".error").wait_for(state="detached")
    page.locator(".nodes li:visible").nth(1).wait_for()
    assert "nope" not in page.url


def test_empty_ids_in_a_link_are_ignored(open_page: OpenPage) -> None:
    page = open_page("#tab=users&user=&add_items=&drop_items=")
    page.get_by_role("heading", name="Whose lists").wait_for()
    page.goto(page.url.split("#")[0] + user_link(add_items="", drop_bundles=""))
    assert len(shown_list(page)) == 20


COUNT = """
window.asked = { all: 0, now: 0, most: 0 };
const real = window.fetch;
window.fetch = async (path, options) => {
  if (!path.startsWith("/v1/item")) return real(path, options);
  asked.all += 1;
  asked.now += 1;
  asked.most = Math.max(asked.most, asked.now);
  try { return await real(path, options); } finally { asked.now -= 1; }
};
"""


def test_a_link_with_too_many_changes_is_cut_and_looked_up_with_few_requests_at_a_time(
    open_page: OpenPage, service: Service
) -> None:
    most = service.fetch("/v1/about")["limits"]["edits"]
    missing = "".join(f"&add_items=none{number}" for number in range(most + 400)) + "&add_items=" + 70_000 * "x"
    page = open_page(user_link() + missing, script=COUNT, expect=(FAILED_REQUEST,))
    page.locator(".notice").get_by_text(f"at most {most} of each sort are shown, 401 are left out").wait_for()
    page.locator(".nodes .added").nth(most - 1).wait_for()
    assert page.locator(".nodes .added").count() == most == page.url.count("add_items")
    asked = page.evaluate("window.asked")
    assert asked["all"] == most
    assert asked["most"] <= 4
    page.get_by_role("button", name="Start over").click()
    page.locator(".notice").get_by_text("are left out").wait_for(state="detached")
    assert len(shown_list(page)) == 20


def answer_with_error(page: Any, path: str, status: int, error: str, **fields: str | None) -> None:
    answer = {"error": error, "request": "r", "kind": None, "id": None} | fields
    page.route(path, lambda route: route.fulfill(status=status, json=answer, headers={"retry-after": "0.01"}))


@pytest.mark.parametrize(
    ("rejection", "words"),
    [
        ((404, "unknown item 'x'; /v1/find?kind=item&text=... finds ids"), "There is no book “x” here."),
        ((422, "user user-1 has an item, items and bundles"), "Reader user-1 has a book, books and lists."),
        ((422, "add_items: List should have at most 200 items"), "The service cannot read this request."),
        ((413, "more than 1,048,576 bytes"), "This is too much for one request."),
        (
            (429, "no answer within 20 seconds: ask for fewer edits, a shorter list or less budget"),
            "This takes too long to compute.",
        ),
        (
            (429, "no answer within 20 seconds: other requests came first; try again in a moment"),
            "The service is busy with other requests.",
        ),
        (
            (503, "the artifact is being loaded: try again in a moment"),
            "The artifact is being loaded: try again in a moment.",
        ),
        ((500, "it broke"), "It broke. Try again; if it happens again, tell whoever runs the service: request r."),
    ],
)
def test_errors_of_the_service_are_shown_in_words_that_an_editor_can_act_on(
    open_page: OpenPage, service: Service, rejection: tuple[int, str], words: str
) -> None:
    page = open_page(user_link(), expect=(FAILED_REQUEST,))
    shown_list(page)
    missing: dict[str, str | None] = {"kind": "item", "id": "x"} if rejection[0] == 404 else {}
    answer_with_error(page, "**/v1/whatif", *rejection, **missing)
    remove(page, history(service)["bundles"][0]["name"])
    page.locator(".error").get_by_text(words).wait_for()


def test_a_request_that_waited_long_is_not_repeated_automatically(open_page: OpenPage, service: Service) -> None:
    slow = """
      const [real, now] = [window.fetch, performance.now.bind(performance)];
      let late = 0;
      performance.now = () => now() + late;
      window.fetch = async (path, options) => {
        if (path === "/v1/whatif") { late += 20000; window.tries = (window.tries ?? 0) + 1; }
        return real(path, options);
      };
    """
    page = open_page(user_link(), expect=(FAILED_REQUEST,), script=slow)
    shown_list(page)
    answer_with_error(page, "**/v1/whatif", 429, "the service was busy")
    remove(page, history(service)["bundles"][0]["name"])
    page.locator(".error").get_by_text("The service is busy").wait_for()
    assert page.evaluate("window.tries") == 2  # one at the start, one now


def test_a_failed_search_shows_an_error_after_one_that_showed_all_results(open_page: OpenPage) -> None:
    page = open_page(expect=(FAILED_REQUEST,))
    box = page.get_by_role("combobox", name="Find a reader")
    box.fill("<img")
    options(page).first.wait_for()
    assert options(page).count() == 1 and not page.locator(".popup .search-message").first.is_visible()
    page.route("**/v1/find*", lambda route: route.abort("connectionrefused"))
    box.fill("no one")
    error = page.locator(".popup .error")
    error.wait_for()
    assert options(page).count() == 0
    assert box.get_attribute("aria-expanded") == "false"
    page.unroute("**/v1/find*")
    error.get_by_role("button", name="Try again").click()
    page.get_by_text("No readers with “no one”").wait_for()


def test_a_lost_connection_says_what_to_do_and_the_next_try_works(open_page: OpenPage, service: Service) -> None:
    page = open_page(user_link(), expect=(FAILED_REQUEST,))
    before = shown_list(page)
    page.context.set_offline(True)
    remove(page, history(service)["bundles"][0]["name"])
    page.locator(".error").get_by_text("The service does not answer").wait_for()
    assert shown_list(page) == before  # the old list stays
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    page.locator(".ranking.moved").wait_for()
    page.locator(".error").wait_for(state="detached")


def test_every_part_of_the_page_says_when_the_service_does_not_answer(open_page: OpenPage) -> None:
    page = open_page(expect=(FAILED_REQUEST,))
    page.locator(".examples a").first.wait_for()
    page.route("**/*", lambda route: route.abort("connectionrefused"))
    page.get_by_role("combobox", name="Find a reader").fill("1")
    page.locator(".popup").get_by_text("The service does not answer").wait_for()
    page.get_by_role("combobox", name="Find a reader").press("Escape")
    page.locator(".examples a").first.click()
    page.locator(".error").get_by_role("button", name="Try again").wait_for()
    page.get_by_role("tab", name="List studio").click()
    page.locator(".panel:visible .error").get_by_role("button", name="Try again").wait_for()


def test_a_swapped_artifact_is_announced(open_page: OpenPage) -> None:
    page = open_page(user_link())
    shown_list(page)
    page.route(
        "**/v1/find*",
        lambda route: route.fulfill(
            json={"kind": "user", "text": "", "total": 0, "found": []}, headers={"x-artifact": "another"}
        ),
    )
    page.get_by_role("combobox", name="Find a reader").click()
    page.get_by_role("button", name="Reload the page").wait_for()


def test_a_request_to_a_busy_service_is_repeated(open_page: OpenPage) -> None:
    page = open_page(expect=(FAILED_REQUEST,))
    rejected: list[int] = []

    def once(route: Any) -> None:
        if rejected:
            route.continue_()
        else:
            rejected.append(429)
            route.fulfill(status=429, json={"error": "wait"}, headers={"retry-after": "0.1"})

    page.route("**/v1/user?*", once)
    page.get_by_role("combobox", name="Find a reader").fill(str(USER))
    options(page).first.click()
    assert len(shown_list(page)) == 20 and rejected
