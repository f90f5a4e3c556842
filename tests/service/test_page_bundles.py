import re
from typing import Any

from page_helpers import BUNDLE, OpenPage, labels, options, wait_audience, wait_idle
from service_helpers import Service


def shown_audience(page: Any) -> tuple[list[str], list[str], str]:
    wait_idle(page)
    return (
        page.locator(".audience .bar.before b").all_text_contents(),
        page.locator(".audience .bar.after b").all_text_contents(),
        page.locator(".audience .large").inner_text(),
    )


def assert_audience(page: Any, service: Service, **edits: list[str]) -> dict[str, Any]:
    answer = service.fetch("/v1/audience", {"bundle": BUNDLE, "k": 20, **edits})
    before, after, large = shown_audience(page)
    assert before == [str(part["before"]) for part in answer["segments"].values()]
    assert after == [str(part["after"]) for part in answer["segments"].values()]
    assert str(answer["after"]) in large
    return answer


def test_a_bundle_is_found_and_its_items_removed_added_and_swapped(open_page: OpenPage, service: Service) -> None:
    bundle = service.fetch(f"/v1/bundle?id={BUNDLE}")
    inside = {item["id"] for item in bundle["items"]}
    new, other = [
        item for item in service.fetch("/v1/find?kind=item&text=&limit=50")["found"] if item["id"] not in inside
    ][:2]
    page = open_page("#tab=bundles")
    page.get_by_role("combobox", name="Find a list").fill(bundle["name"].lower())
    options(page).first.wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=bundle["name"], exact=True).wait_for()
    wait_audience(page)
    assert_audience(page, service)
    first, second = bundle["items"][:2]
    page.get_by_role("button", name=f"Remove {first['name']}", exact=True).click()
    page.locator(".bars.changed").wait_for()
    answer = assert_audience(page, service, drop_items=[first["id"]])
    assert answer["entered_count"] + answer["left_count"] > 0
    for one, many, side in (("enters", "enter", "entered"), ("leaves", "leave", "left")):
        if number := answer[f"{side}_count"]:
            heading = page.get_by_role("heading", name=f"{number} {one if number == 1 else many}", exact=True)
            shown = heading.locator("xpath=..").locator("a").all_text_contents()
            assert shown == labels("Reader", answer[side])[:12]
    box = page.get_by_role("combobox", name="Add a book")
    box.fill(new["id"])
    options(page).first.wait_for()
    box.press("Enter")
    page.get_by_role("button", name=f"Remove added {new['name']}").wait_for()
    assert_audience(page, service, drop_items=[first["id"]], add_items=[new["id"]])
    page.get_by_role("button", name=f"Swap {second['name']} for another").click()
    box = page.get_by_role("combobox", name=f"Swap {second['name']} for")
    box.fill(other["id"])
    options(page).first.wait_for()
    box.press("Enter")
    page.get_by_role("button", name=f"Put {second['name']} back").wait_for()
    edits = {"drop_items": [first["id"], second["id"]], "add_items": [new["id"], other["id"]]}
    assert_audience(page, service, **edits)
    page.keyboard.press("Control+z")  # a swap is one step
    page.get_by_role("button", name=f"Put {second['name']} back").wait_for(state="detached")
    assert_audience(page, service, drop_items=[first["id"]], add_items=[new["id"]])


def test_the_users_who_enter_and_leave_are_links(open_page: OpenPage, service: Service) -> None:
    items = service.fetch(f"/v1/bundle?id={BUNDLE}")["items"]
    dropped = [item["id"] for item in items[:3]]
    page = open_page(f"#tab=bundles&bundle={BUNDLE}&" + "&".join(f"drop_items={id}" for id in dropped))
    wait_audience(page)
    answer = assert_audience(page, service, drop_items=dropped)
    someone = (answer["left"] or answer["entered"])[0]
    name = labels("Reader", [someone])[0]
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("heading", name=name, exact=True).wait_for()
    page.get_by_role("tab", name="List studio").click()
    assert_audience(page, service, drop_items=dropped)  # the edits are still there


def test_the_best_swap_is_found_and_applied(open_page: OpenPage, service: Service) -> None:
    page = open_page(f"#tab=bundles&bundle={BUNDLE}")
    wait_audience(page)
    page.get_by_role("button", name="Find good swaps").click()
    swaps = service.fetch("/v1/suggest", {"bundle": BUNDLE, "k": 20, "count": 5})["swaps"]
    best = swaps[0]
    page.get_by_role("button", name=f"Swap {best['old']['name']} for {best['new']['name']}", exact=True).click()
    page.locator(".bars.changed").wait_for()
    answer = assert_audience(page, service, drop_items=[best["old"]["id"]], add_items=[best["new"]["id"]])
    assert answer["after"] == best["audience"]
    assert page.locator(".swaps li").count() == 0  # they were computed for the bundle before the swap


def test_small_counts_are_numbers_and_no_bars(open_page: OpenPage, service: Service) -> None:
    few = next(
        str(bundle)
        for bundle in range(150)
        if 0 < service.fetch("/v1/audience", {"bundle": str(bundle), "k": 1})["after"] < 10
        and service.fetch("/v1/suggest", {"bundle": str(bundle), "k": 1})["swaps"]
    )
    page = open_page(f"#tab=bundles&bundle={few}&k=1")
    wait_audience(page)
    answer = service.fetch("/v1/audience", {"bundle": few, "k": 1})
    assert page.locator(".audience .bar:visible b").all_text_contents() == [
        str(part["after"]) for part in answer["segments"].values()
    ]
    assert page.locator(".audience .bar i:visible").count() == 0
    page.get_by_role("button", name="Find good swaps").click()
    swaps = service.fetch("/v1/suggest", {"bundle": few, "k": 1})
    page.locator(".swaps li").first.wait_for()
    assert page.locator(".gain").all_text_contents() == [
        f"{swap['gain']} more {swaps['audience']} → {swap['audience']}" for swap in swaps["swaps"]
    ]
    assert page.locator(".suggestions i").count() == 0
    page.locator(".suggestions .certainty").get_by_text("agreement with retraining was not measured").wait_for()
    page.get_by_label("Show the first").select_option("100")
    page.locator(".audience .bars:not(.few)").wait_for()
    assert page.locator(".audience .bar i:visible").count() == 3


def test_the_button_says_that_swaps_are_being_tried(open_page: OpenPage) -> None:
    page = open_page(f"#tab=bundles&bundle={BUNDLE}")
    wait_audience(page)
    waiting: list[Any] = []
    page.route("**/v1/suggest", lambda route: waiting.append(route))
    page.get_by_role("button", name="Find good swaps").click()
    page.get_by_role("button", name="Trying swaps …").wait_for()
    assert page.locator(".suggestions").get_attribute("aria-busy") == "true"
    page.wait_for_timeout(50)
    waiting[0].fulfill(json={"bundle": {"id": "3", "name": "x"}, "k": 20, "audience": 1, "swaps": [], "caveat": ""})
    page.get_by_text("No swap of one book was found").wait_for()
    page.get_by_role("button", name="Find good swaps").wait_for()


def test_all_who_enter_can_be_shown(open_page: OpenPage) -> None:
    page = open_page(f"#tab=bundles&bundle={BUNDLE}")
    wait_audience(page)
    people = [{"id": str(number), "name": f"Person {number}"} for number in range(14)]
    part = {"users": 200, "before": 0, "after": 20}
    answer = {"bundle": {"id": BUNDLE, "name": "x"}, "k": 20, "users": 200, "segments": {"heavy": part}}
    answer |= {"before": 0, "after": 20, "entered": people, "entered_count": 20, "left": [], "left_count": 0}
    page.route("**/v1/audience", lambda route: route.fulfill(json=answer | {"warnings": [], "caveat": ""}))
    page.get_by_role("button", name=re.compile("^Remove ")).first.click()
    page.get_by_role("heading", name="20 enter", exact=True).wait_for()
    assert page.locator(".names a:visible").count() == 12
    page.get_by_role("button", name="Show 2 more").click()
    assert page.locator(".names li:visible").all_text_contents() == [
        *(person["name"] for person in people),
        "and 6 readers more",
    ]
    assert page.evaluate("document.activeElement.textContent") == "Person 12"


def test_on_a_phone_a_bar_scrolls_to_the_answer_and_nothing_moves_when_it_is_hidden(
    open_page: OpenPage, service: Service
) -> None:
    """A page that grew shorter under a finger would take the tap away from the button below it."""
    item = service.fetch(f"/v1/bundle?id={BUNDLE}")["items"][0]["id"]
    page = open_page(f"#tab=bundles&bundle={BUNDLE}&drop_items={item}", viewport={"width": 375, "height": 500})
    wait_audience(page)
    bar = page.get_by_role("button", name="See it ↓")
    bar.wait_for()
    height = page.evaluate("document.documentElement.scrollHeight")
    bar.click()
    bar.wait_for(state="hidden")
    assert page.locator(".audience").evaluate("element => element.getBoundingClientRect().top") < 500
    assert page.evaluate("document.documentElement.scrollHeight") == height
