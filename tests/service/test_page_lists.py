"""What lists and search results show of a bundle, and where they lead."""

from typing import Any

from page_helpers import BUNDLE, USER, OpenPage, history, labels, options, shown_list, user_link, wait_idle, whatif
from service_helpers import Service


def preview(service: Service, bundle: str) -> str:
    """The line below a bundle: its first three items, and how many more there are."""
    items = service.fetch(f"/v1/bundle?id={bundle}")["items"]
    more = f" and {len(items) - 3} more" if len(items) > 3 else ""
    return ", ".join(item["name"] for item in items[:3]) + more


def test_lists_show_what_is_in_a_bundle_with_one_request_for_all(open_page: OpenPage, service: Service) -> None:
    chosen, listed = history(service)["bundles"], whatif(service)["after"]
    page = open_page()
    asked: list[list[str]] = []
    page.on("request", lambda one: one.url.endswith("/v1/previews") and asked.append(one.post_data_json["bundles"]))
    page.goto(page.url.split("#")[0] + user_link())
    shown_list(page)
    wait_idle(page)
    assert page.locator("ol.ranked .preview").all_text_contents() == [preview(service, one["id"]) for one in listed]
    row = page.locator(f".nodes [data-key='{chosen[0]['id']}']")
    assert row.locator(".preview").text_content() == preview(service, chosen[0]["id"])
    assert sorted(map(len, asked)) == sorted([len(listed), len(chosen[:11])])
    page.get_by_role("button", name=f"Remove {chosen[0]['name']}", exact=True).click()
    page.locator(".ranking.moved").wait_for()
    wait_idle(page)
    known = {id for some in asked[:2] for id in some}
    assert not known & {id for some in asked[2:] for id in some}  # what is known is not asked again


def test_search_results_show_what_is_in_a_bundle(open_page: OpenPage, service: Service) -> None:
    page = open_page("#tab=bundles")
    page.get_by_role("combobox", name="Find a list").fill(BUNDLE)
    options(page).first.wait_for()
    wait_idle(page)
    found = service.fetch(f"/v1/find?kind=bundle&text={BUNDLE}&limit=8")["found"]
    assert options(page).locator(".preview").all_text_contents() == [preview(service, one["id"]) for one in found]


def test_without_previews_the_lists_are_there(open_page: OpenPage) -> None:
    page = open_page(user_link(), expect=("Failed to load resource",))
    page.route("**/v1/previews", lambda route: route.abort("connectionrefused"))
    page.reload()
    assert len(shown_list(page)) == 20
    wait_idle(page)
    assert page.locator(".error").count() == 0
    assert {text.strip() for text in page.locator(".preview").all_text_contents()} == {""}


def same_name(nodes: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The nodes, the first of them with one name."""
    return [node | {"name": "Sea stories"} if at < count else node for at, node in enumerate(nodes)]


def test_ids_are_shown_where_names_repeat(open_page: OpenPage, service: Service) -> None:
    answer = whatif(service)
    moves = same_name(answer["moves"], 2)
    found = service.fetch("/v1/find?kind=bundle&text=s&limit=8")
    page = open_page()
    page.route("**/v1/whatif", lambda route: route.fulfill(json=answer | {"moves": moves}))
    page.route("**/v1/find*", lambda route: route.fulfill(json=found | {"found": same_name(found["found"], 3)}))
    page.goto(page.url.split("#")[0] + user_link())
    shown_list(page)
    wait_idle(page)
    ids = [text.strip() for text in page.locator("ol.ranked .id").all_text_contents()]
    assert ids == [move["id"] if at < 2 else "" for at, move in enumerate(moves)]
    page.get_by_role("button", name=f"Why Sea stories ({moves[0]['id']})?", exact=True).wait_for()
    page.get_by_role("combobox", name="What would bring in a list?").fill("s")
    options(page).first.wait_for()
    texts = options(page).locator(".name").all_text_contents()
    assert texts[:3] == [f"Sea stories ({node['id']})" for node in found["found"][:3]]
    assert texts[3:] == labels("List", found["found"][3:])


def test_bundles_and_users_in_lists_are_underlined_links_that_open_them(open_page: OpenPage, service: Service) -> None:
    page = open_page(user_link())
    first = shown_list(page)[0]
    chosen = history(service)["bundles"][0]["name"]
    for name in (chosen, first):
        link = page.get_by_role("link", name=name, exact=True).first
        assert link.evaluate("a => getComputedStyle(a).textDecorationLine") == "underline"
        assert link.evaluate("a => getComputedStyle(a).textDecorationColor") != "rgba(0, 0, 0, 0)"
    page.get_by_role("link", name=first, exact=True).first.click()
    page.get_by_role("heading", name=first, exact=True).wait_for()
    page.goto(page.url.split("#")[0] + "#tab=bundles&bundle=")
    example = page.locator(".examples:visible a").first
    name = example.text_content()
    assert page.locator(".examples:visible .preview").count() == 8
    example.click()
    page.get_by_role("heading", name=name, exact=True).wait_for()


def test_on_a_phone_the_list_comes_before_the_history(open_page: OpenPage, service: Service) -> None:
    page = open_page(user_link(), viewport={"width": 375, "height": 700})
    shown_list(page)
    wait_idle(page)
    tops = [
        page.get_by_role("region", name=name).evaluate("part => part.getBoundingClientRect().top")
        for name in ("Recommendations", "History")
    ]
    assert tops[0] < tops[1]
    sections = page.locator(".columns.list-first > section")
    assert sections.first.get_attribute("aria-label") == "Recommendations"  # for a screen reader, too
    page.get_by_role("button", name=f"Remove {history(service)['bundles'][0]['name']}", exact=True).click()
    bar = page.get_by_role("button", name="See it ↑")
    bar.click()
    bar.wait_for(state="hidden")
    assert page.get_by_role("heading", name="First 20 lists").evaluate("head => head.getBoundingClientRect().top") > 0
    assert str(USER) in page.url
