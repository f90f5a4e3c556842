import re
from typing import Any

from looking import BUNDLE, called, calm, options, studio
from serving import Look, Service


def shown_audience(page: Any) -> tuple[list[str], list[str], str]:
    calm(page)
    return (
        page.locator(".audience .bar.before b").all_text_contents(),
        page.locator(".audience .bar.after b").all_text_contents(),
        page.locator(".audience .large").inner_text(),
    )


def assert_audience(page: Any, service: Service, **edits: list[str]) -> dict[str, Any]:
    answer = service.ask("/api/whatif/bundle", {"bundle": BUNDLE, "top": 20, **edits})
    before, after, large = shown_audience(page)
    assert before == [str(part["before"]) for part in answer["segments"].values()]
    assert after == [str(part["after"]) for part in answer["segments"].values()]
    assert str(answer["after"]) in large
    return answer


def test_a_list_is_found_and_its_books_removed_added_and_swapped(look: Look, service: Service) -> None:
    bundle = service.ask(f"/api/bundle?id={BUNDLE}")
    inside = {item["id"] for item in bundle["items"]}
    new, other = [
        item for item in service.ask("/api/find?kind=item&text=&limit=50")["found"] if item["id"] not in inside
    ][:2]
    page = look("#tab=studio")
    page.get_by_role("combobox", name="Find a list").fill(bundle["name"].lower())
    options(page).first.wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=bundle["name"], exact=True).wait_for()
    studio(page)
    assert_audience(page, service)
    first, second = bundle["items"][:2]
    page.get_by_role("button", name=f"Remove {first['name']}", exact=True).click()
    page.locator(".bars.changed").wait_for()
    answer = assert_audience(page, service, drop_items=[first["id"]])
    for one, many, side in (("comes", "come", "entered"), ("goes", "go", "left")):
        if number := answer[f"{side}_count"]:
            heading = page.get_by_role("heading", name=f"{number} {one if number == 1 else many}", exact=True)
            shown = heading.locator("xpath=..").locator("a").all_text_contents()
            assert shown == called("Reader", answer[side])[:12]
    box = page.get_by_role("combobox", name="Add a book")
    box.fill(new["id"])
    options(page).first.wait_for()
    box.press("Enter")
    page.get_by_role("button", name=f"Take {new['name']} away again").wait_for()
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


def test_who_comes_and_goes_can_be_looked_at(look: Look, service: Service) -> None:
    items = service.ask(f"/api/bundle?id={BUNDLE}")["items"]
    dropped = [item["id"] for item in items[:3]]
    page = look(f"#tab=studio&bundle={BUNDLE}&" + "&".join(f"drop_items={id}" for id in dropped))
    studio(page)
    answer = assert_audience(page, service, drop_items=dropped)
    someone = (answer["left"] or answer["entered"])[0]
    name = called("Reader", [someone])[0]
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("heading", name=name, exact=True).wait_for()
    page.get_by_role("tab", name="List studio").click()
    assert_audience(page, service, drop_items=dropped)  # the edits are still there


def test_the_best_swap_is_found_and_applied(look: Look, service: Service) -> None:
    page = look(f"#tab=studio&bundle={BUNDLE}")
    studio(page)
    page.get_by_role("button", name="Find good swaps").click()
    swaps = service.ask("/api/suggest", {"bundle": BUNDLE, "top": 20, "count": 5})["swaps"]
    best = swaps[0]
    page.get_by_role("button", name=f"Swap {best['old']['name']} for {best['new']['name']}", exact=True).click()
    page.locator(".bars.changed").wait_for()
    answer = assert_audience(page, service, drop_items=[best["old"]["id"]], add_items=[best["new"]["id"]])
    assert answer["after"] == best["audience"]
    assert page.locator(".swaps li").count() == 0  # they were of the list as it was


def test_while_swaps_are_tried_the_button_says_so(look: Look) -> None:
    page = look(f"#tab=studio&bundle={BUNDLE}")
    studio(page)
    held: list[Any] = []
    page.route("**/api/suggest", lambda route: held.append(route))
    page.get_by_role("button", name="Find good swaps").click()
    page.get_by_role("button", name="Trying swaps …").wait_for()
    assert page.locator(".suggestions").get_attribute("aria-busy") == "true"
    page.wait_for_timeout(50)
    held[0].fulfill(json={"bundle": {"id": "3", "name": "x"}, "top": 20, "audience": 1, "swaps": [], "note": ""})
    page.get_by_text("No swap of one book was found").wait_for()
    page.get_by_role("button", name="Find good swaps").wait_for()


def test_all_who_come_can_be_shown(look: Look) -> None:
    page = look(f"#tab=studio&bundle={BUNDLE}")
    studio(page)
    people = [{"id": str(number), "name": f"Person {number}"} for number in range(14)]
    part = {"users": 200, "before": 0, "after": 20}
    answer = {"bundle": {"id": BUNDLE, "name": "x"}, "top": 20, "users": 200, "segments": {"heavy": part}}
    answer |= {"before": 0, "after": 20, "entered": people, "entered_count": 20, "left": [], "left_count": 0}
    page.route("**/api/whatif/bundle", lambda route: route.fulfill(json=answer | {"warnings": [], "note": ""}))
    page.get_by_role("button", name=re.compile("^Remove ")).first.click()
    page.get_by_role("heading", name="20 come", exact=True).wait_for()
    assert page.locator(".names a:visible").count() == 12
    page.get_by_role("button", name="Show 2 more").click()
    assert page.locator(".names li:visible").all_text_contents() == [
        *(person["name"] for person in people),
        "and 6 readers more",
    ]
    assert page.evaluate("document.activeElement.textContent") == "Person 12"


def test_on_a_phone_a_bar_leads_to_the_answer_and_nothing_moves_when_it_goes(look: Look, service: Service) -> None:
    """A page that grew shorter under a finger would take the tap away from the button below it."""
    item = service.ask(f"/api/bundle?id={BUNDLE}")["items"][0]["id"]
    page = look(f"#tab=studio&bundle={BUNDLE}&drop_items={item}", viewport={"width": 375, "height": 500})
    studio(page)
    bar = page.get_by_role("button", name="See it ↓")
    bar.wait_for()
    height = page.evaluate("document.documentElement.scrollHeight")
    bar.click()
    bar.wait_for(state="hidden")
    assert page.locator(".audience").evaluate("element => element.getBoundingClientRect().top") < 500
    assert page.evaluate("document.documentElement.scrollHeight") == height
