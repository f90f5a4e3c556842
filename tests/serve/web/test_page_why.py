from typing import Any

from looking import FREE_READER, calm, history, names, options, places, reader_link, told
from serving import Look, Service


def test_why_a_list_is_there_is_answered_and_can_be_tried(look: Look, service: Service) -> None:
    top = next(
        place
        for place in reversed(told(service)["after"])
        if service.ask("/api/explain", {"user": str(FREE_READER), "bundle": place["id"], "top": 20})["found"]
    )
    answer = service.ask("/api/explain", {"user": str(FREE_READER), "bundle": top["id"], "top": 20})
    page = look(reader_link())
    page.get_by_role("button", name=f"Why {top['name']}?").click()
    panel = page.get_by_role("region", name=f"About {top['name']}")
    panel.get_by_role("button", name="Strike out and see").wait_for()
    assert [text.rsplit(" ", 1)[0] for text in panel.locator(".reasons li").all_text_contents()] == [
        thing["name"] for thing in answer["things"]
    ]
    panel.get_by_role("button", name="Strike out and see").click()
    page.locator(".ranking.moved").wait_for()
    assert top["name"] not in places(page)
    assert top["name"] in names(page, "ul.gone > li")
    struck = page.locator(".things .struck .name").all_text_contents()
    assert sorted(struck) == sorted(thing["name"] for thing in answer["things"])


def outside(service: Service, of: str) -> dict[str, Any]:
    """An answer to what it would take for a list beyond her first 20."""
    known = {place["id"] for place in told(service, top=21)["after"]} | {
        one["id"] for one in history(service)["bundles"]
    }
    for bundle in range(60):
        if str(bundle) not in known:
            asked = {"user": str(FREE_READER), "bundle": str(bundle), "top": 20, "of": of}
            answer = service.ask("/api/explain", asked)
            if answer["found"]:
                return answer
    raise AssertionError("no list that could be brought in")


def ask_about(page: Any, bundle: dict[str, Any]) -> Any:
    box = page.get_by_role("combobox", name="what would it take?")
    box.fill(bundle["id"])
    options(page).first.wait_for()
    box.press("Enter")
    return page.get_by_role("region", name=f"About {bundle['name']}")


def test_what_it_would_take_is_answered_and_can_be_tried(look: Look, service: Service) -> None:
    answer = outside(service, "history")
    page = look(reader_link())
    places(page)
    panel = ask_about(page, answer["bundle"])
    panel.get_by_role("button", name="Add and see").click()
    page.locator(".ranking.moved").wait_for()
    assert answer["bundle"]["name"] in places(page)
    assert len(page.locator(".things .added").all()) == len(answer["things"])


def test_what_it_would_take_in_the_list_itself_opens_the_studio(look: Look, service: Service) -> None:
    answer = outside(service, "contents")
    page = look(reader_link())
    places(page)
    panel = ask_about(page, answer["bundle"])
    panel.get_by_role("button", name="Or change what is in this list").click()
    panel.get_by_role("button", name="Open with these swaps").click()
    page.get_by_role("heading", name=answer["bundle"]["name"], exact=True).wait_for()
    calm(page)
    assert page.get_by_role("tab", name="List studio").get_attribute("aria-selected") == "true"
    assert page.locator(".things .added:visible").count() == len(answer["swaps"])
