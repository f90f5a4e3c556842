from typing import Any

from page_helpers import (
    USER,
    OpenPage,
    history,
    labels,
    names,
    options,
    remove,
    shown_list,
    user_link,
    wait_announced,
    wait_idle,
    whatif,
)
from service_helpers import Service


def test_a_user_is_found_by_typing_and_the_history_and_list_are_shown(open_page: OpenPage, service: Service) -> None:
    page = open_page()
    box = page.get_by_role("combobox", name="Find a reader")
    box.wait_for()
    page.keyboard.press("/")
    assert box.evaluate("box => box === document.activeElement")
    page.keyboard.type(str(USER), delay=10)
    options(page).first.wait_for()
    assert box.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=f"Reader {USER}").wait_for()
    assert shown_list(page) == labels("List", whatif(service)["after"])
    assert names(page, ".nodes li")[0] == history(service)["bundles"][0]["name"]
    assert f"user={USER}" in page.url


def test_arrows_choose_and_escape_closes(open_page: OpenPage) -> None:
    page = open_page()
    box = page.get_by_role("combobox", name="Find a reader")
    box.press("ArrowDown")
    options(page).first.wait_for()
    ids = [box.get_attribute("aria-activedescendant")]
    box.press("ArrowDown")
    ids.append(box.get_attribute("aria-activedescendant"))
    box.press("ArrowUp")
    box.press("ArrowUp")
    ids.append(box.get_attribute("aria-activedescendant"))
    assert [page.locator(f"#{id}").get_attribute("aria-selected") for id in ids] == ["false", "false", "true"]
    assert len(set(ids)) == 3
    box.press("Escape")
    assert box.get_attribute("aria-expanded") == "false"
    assert page.get_by_role("listbox").count() == 0


def test_a_search_without_results_says_what_to_try(open_page: OpenPage) -> None:
    page = open_page()
    page.get_by_role("combobox", name="Find a reader").fill("nobody at all")
    page.get_by_text("No readers with “nobody at all”").wait_for()


def test_without_a_user_the_most_active_are_offered(open_page: OpenPage, service: Service) -> None:
    page = open_page()
    most_active = labels("Reader", service.fetch("/v1/find?kind=user&text=&limit=8")["found"])
    page.get_by_role("link", name=most_active[0], exact=True).click()
    page.get_by_role("heading", name=most_active[0], exact=True).wait_for()
    assert page.evaluate("document.activeElement.tagName") == "H2"


def test_removing_a_bundle_re_ranks_the_list_and_says_how_it_moved(open_page: OpenPage, service: Service) -> None:
    chosen = history(service)["bundles"]
    page = open_page(user_link())
    before = shown_list(page)
    remove(page, chosen[0]["name"])
    page.locator(".ranking.moved").wait_for()
    answer = whatif(service, drop_bundles=[chosen[0]["id"]])
    after = shown_list(page)
    assert after == labels("List", answer["after"]) != before
    gone = [move for move in answer["moves"] if move["rank_after"] is None]
    assert names(page, "ul.gone > li") == labels("List", gone)
    for move in answer["moves"]:
        row = page.locator(f"li[data-key='{move['id']}'] .move")
        if move["rank_before"] is None or move["rank_after"] is None:
            assert row.text_content().startswith("new" if move["rank_after"] else "gone")
        elif move["rank_before"] != move["rank_after"]:
            arrow = "▲" if move["rank_after"] < move["rank_before"] else "▼"
            assert row.text_content().startswith(f"{arrow} {abs(move['rank_before'] - move['rank_after'])}")
    assert page.locator(".moves path").count() == len(answer["before"])
    wait_announced(page, "removed")
    wait_announced(page, "among the first 20")


WATCH = """() => new MutationObserver(() => {
  if ([...document.querySelectorAll(".ranked li")].some((row) => row.getAnimations().length)) window.animated = true;
}).observe(document.querySelector(".ranking"), { attributes: true, childList: true, subtree: true })"""


def test_rows_are_animated_unless_reduced_motion_is_wanted(open_page: OpenPage, service: Service) -> None:
    for motion, animates in (("no-preference", True), ("reduce", False)):
        page = open_page(user_link(), reduced_motion=motion)
        shown_list(page)
        page.evaluate(WATCH)
        remove(page, history(service)["bundles"][0]["name"])
        page.locator(".ranking.moved").wait_for()
        wait_idle(page)
        assert bool(page.evaluate("window.animated")) is animates


def test_adding_and_putting_back_and_undoing_and_redoing(open_page: OpenPage, service: Service) -> None:
    page = open_page(user_link())
    untouched = shown_list(page)
    wanted = service.fetch("/v1/find?kind=item&text=&limit=50")["found"]
    owned = {item["id"] for item in history(service)["items"]}
    item = next(item for item in wanted if item["id"] not in owned)
    page.get_by_role("combobox", name="Add a book").fill(item["id"])
    options(page).filter(has_text=item["name"]).first.click()
    page.get_by_role("button", name=f"Remove added {item['name']}").wait_for()
    added = labels("List", whatif(service, add_items=[item["id"]])["after"])
    assert shown_list(page) == added
    page.keyboard.press("Control+z")
    page.locator(".ranking:not(.moved)").wait_for()
    assert shown_list(page) == untouched
    page.keyboard.press("Control+Shift+Z")
    page.locator(".ranking.moved").wait_for()
    assert shown_list(page) == added
    page.get_by_role("button", name="Undo").click()
    page.locator(".ranking:not(.moved)").wait_for()
    page.get_by_role("button", name="Redo").click()
    page.get_by_role("button", name=f"Remove added {item['name']}").click()
    page.locator(".ranking:not(.moved)").wait_for()
    assert shown_list(page) == untouched
    assert page.get_by_role("button", name="Start over").get_attribute("aria-disabled") == "true"


def test_what_the_user_has_cannot_be_added_again(open_page: OpenPage, service: Service) -> None:
    page = open_page(user_link())
    item = history(service)["items"][0]
    page.get_by_role("combobox", name="Add a book").fill(item["id"])
    option = options(page).filter(has_text="already there").first
    option.wait_for()
    assert option.get_attribute("aria-disabled") == "true"
    option.click(force=True)
    assert "add_items" not in page.url


def test_a_link_restores_what_is_shown(open_page: OpenPage, service: Service) -> None:
    page = open_page(user_link(k=10))
    shown_list(page)
    remove(page, history(service)["bundles"][0]["name"])
    page.locator(".ranking.moved").wait_for()
    page.get_by_role("combobox", name="Add a list").fill("5")
    options(page).filter(has_not_text="already").first.click()
    page.locator(".nodes .added").wait_for()
    wait_idle(page)
    shown = page.locator("ol.ranked").inner_text()
    history_shown = page.locator(".nodes").first.inner_text()
    again = open_page(page.url.split("/")[-1])
    again.locator(".ranking.moved").wait_for()
    wait_idle(again)
    assert again.locator("ol.ranked").inner_text() == shown
    assert again.locator(".nodes").first.inner_text() == history_shown
    assert again.get_by_label("Show the first").input_value() == "10"


def test_back_goes_to_the_previous_user(open_page: OpenPage) -> None:
    page = open_page(user_link())
    shown_list(page)
    page.get_by_role("combobox", name="Find a reader").fill("31")
    options(page).first.wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Reader 31", exact=True).wait_for()
    page.go_back()
    page.get_by_role("heading", name=f"Reader {USER}", exact=True).wait_for()


LATE = """
const real = window.fetch;
window.fetch = async (path, { signal, ...options } = {}) => { // not even an abort stops it
  if (path === "/v1/whatif" && JSON.parse(options.body).drop_bundles.length) await new Promise((go) => setTimeout(go, 500));
  const answer = await real(path, options);
  if (path === "/v1/whatif") document.documentElement.dataset.answers = (window.answers = (window.answers ?? 0) + 1);
  return answer;
};
"""


def test_a_late_answer_never_replaces_a_newer_one(open_page: OpenPage, service: Service) -> None:
    page = open_page(user_link(), script=LATE)
    untouched = shown_list(page)
    remove(page, history(service)["bundles"][0]["name"])
    page.keyboard.press("Control+z")
    page.locator("html[data-answers='3']").wait_for()  # at the start, after undoing, and late
    page.wait_for_timeout(50)
    assert shown_list(page) == untouched
    assert page.locator(".ranking.moved").count() == 0


def test_undoing_a_step_to_another_user_is_a_step_for_back(open_page: OpenPage) -> None:
    page = open_page(user_link())
    shown_list(page)
    page.get_by_role("combobox", name="Find a reader").fill("31")
    options(page).first.click()
    page.get_by_role("heading", name="Reader 31", exact=True).wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("heading", name=f"Reader {USER}", exact=True).wait_for()
    page.go_back()
    page.get_by_role("heading", name="Reader 31", exact=True).wait_for()


def test_undoing_an_addition_is_not_announced_as_a_removal(open_page: OpenPage, service: Service) -> None:
    owned = {item["id"] for item in history(service)["items"]}
    new = next(item for item in service.fetch("/v1/find?kind=item&text=&limit=50")["found"] if item["id"] not in owned)
    page = open_page(user_link(add_items=new["id"]))
    page.get_by_role("button", name=f"Remove added {new['name']}").click()
    wait_announced(page, f"{new['name']} no longer added")


def test_an_item_looked_up_for_an_earlier_link_is_not_shown(open_page: OpenPage, service: Service) -> None:
    owned = {item["id"] for item in history(service)["items"]}
    late, other = [str(item) for item in range(99) if str(item) not in owned][:2]
    page = open_page(user_link())
    shown_list(page)
    waiting: list[Any] = []
    page.route(f"**/v1/item?id={late}", lambda route: waiting.append(route))
    start = page.url.split("#")[0]
    with page.expect_request(f"**/v1/item?id={late}"):
        page.goto(start + user_link(add_items=late))
    page.goto(start + user_link(add_items=other))
    page.locator(f".nodes .added[data-key='{other}']").wait_for()
    waiting[0].continue_()
    page.wait_for_timeout(300)
    assert page.locator(".nodes .added").count() == 1


def test_all_chosen_items_can_be_shown(open_page: OpenPage, service: Service) -> None:
    most_active = service.fetch("/v1/find?kind=user&text=&limit=1")["found"][0]
    items = service.fetch(f"/v1/user?id={most_active['id']}")["items"]
    assert len(items) > 11
    page = open_page(f"#tab=users&user={most_active['id']}")
    shown_list(page)
    books = page.locator(".nodes").nth(1).locator("li")
    assert books.count() == 8
    page.get_by_role("button", name=f"Show all {len(items)}").click()
    assert books.count() == len(items)
    assert books.nth(8).evaluate("row => row.contains(document.activeElement)")


def test_the_link_is_copied(open_page: OpenPage) -> None:
    page = open_page(user_link())
    shown_list(page)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_where_copying_is_blocked_the_page_names_the_address_bar(open_page: OpenPage) -> None:
    page = open_page(user_link(), script="navigator.clipboard.writeText = () => Promise.reject(new Error());")
    shown_list(page)
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="It is in the address bar").wait_for()


def test_a_user_with_an_empty_name_is_shown_by_id(open_page: OpenPage) -> None:
    page = open_page()
    node = {"id": "7", "name": "", "size": 1}
    answer = {"kind": "user", "text": "", "total": 1, "found": [node]}
    page.route("**/v1/find*", lambda route: route.fulfill(json=answer))
    page.get_by_role("combobox", name="Find a reader").click()
    options(page).filter(has_text="Reader 7").wait_for()
