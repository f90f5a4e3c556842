from typing import Any

from looking import FREE_READER, REFUSED, calm, history, names, options, places, reader_link, strike, told
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


def why_button(page: Any, place: int = 3) -> Any:
    return page.locator("ol.places > li").nth(place).locator(".why")


def test_an_answer_says_that_it_is_about_her_history_without_the_changes(look: Look, service: Service) -> None:
    page = look(reader_link())
    places(page)
    why_button(page).click()
    panel = page.locator(".answer")
    panel.get_by_text("is at place 4").wait_for()
    assert "changes" not in panel.inner_text()
    strike(page, history(service)["items"][0]["name"])
    panel.get_by_text("Without your changes, ").wait_for()
    assert "Asked of her history as it is" in panel.inner_text()
    page.keyboard.press("Control+z")
    panel.get_by_text("Without your changes, ").wait_for(state="detached")


def test_an_answer_closes_with_escape_from_its_row_and_with_its_button(look: Look) -> None:
    page = look(reader_link())
    places(page)
    button = why_button(page)
    button.click()
    panel = page.locator(".answer")
    panel.locator(".answer-body p").first.wait_for()
    assert button.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")  # the button that opened it has the focus
    assert (panel.count(), button.get_attribute("aria-expanded")) == (0, "false")
    button.click()
    page.get_by_role("button", name="Close this answer").press("Enter")
    assert (panel.count(), button.get_attribute("aria-expanded")) == (0, "false")
    assert button.evaluate("button => button === document.activeElement")
    button.click()
    page.get_by_label("Look at the first").focus()
    page.get_by_label("Look at the first").select_option("10")
    page.locator("ol.places > li").nth(10).wait_for(state="detached")
    assert (panel.count(), button.get_attribute("aria-expanded")) == (0, "false")
    assert page.evaluate("document.activeElement.tagName") == "SELECT"  # it is not taken from where it is


def test_the_box_that_asked_closes_its_answer_with_escape(look: Look, service: Service) -> None:
    page = look(reader_link())
    places(page)
    panel = ask_about(page, outside(service, "history")["bundle"])
    panel.wait_for()
    page.keyboard.press("Escape")
    assert panel.count() == 0


def test_a_question_whose_answer_is_closed_or_left_is_given_up(look: Look, service: Service) -> None:
    page = look(reader_link(), expect=(REFUSED,))
    places(page)
    page.route("**/api/explain", lambda route: None)
    for leave in (
        lambda: page.keyboard.press("Escape"),
        lambda: page.goto(page.url.split("#")[0] + f"#tab=readers&user={FREE_READER + 1}"),
    ):
        with page.expect_event("requestfailed", lambda request: request.url.endswith("/api/explain")):
            with page.expect_request("**/api/explain"):
                why_button(page).click()
            leave()


def test_focus_follows_a_list_that_leaves_her_first(look: Look, service: Service) -> None:
    page = look(reader_link())
    last = places(page)[-1]
    why_button(page, 19).click()
    page.get_by_role("button", name="Strike out and see").press("Enter")
    page.locator("ul.gone a").filter(has_text=last).wait_for()
    assert page.evaluate("document.activeElement.textContent") == last


def test_looking_longer_tries_as_much_as_the_service_allows(look: Look, service: Service) -> None:
    about, most = service.ask("/api/about"), 250
    asked: list[int] = []
    page = look(reader_link())
    page.route("**/api/about", lambda route: route.fulfill(json=about | {"limits": about["limits"] | {"budget": most}}))
    page.reload()
    places(page)

    def spend(route: Any) -> None:
        told = route.request.post_data_json
        asked.append(told["budget"])
        answer = service.ask("/api/explain", {"user": told["user"], "bundle": told["bundle"], "budget": 1})
        spent = {"found": False, "out_of_budget": True, "things": [], "tried": told["budget"]}
        route.fulfill(json=answer | spent)

    page.route("**/api/explain", spend)
    why_button(page).click()
    panel = page.locator(".answer")
    panel.get_by_text("a longer look may find one").wait_for()
    panel.get_by_role("button", name="Look longer").press("Enter")
    panel.get_by_text(f"No answer in {most} tries.").wait_for()
    assert asked == [100, most]
    assert panel.get_by_role("button", name="Look longer").count() == 0
    assert panel.evaluate("panel => panel === document.activeElement")  # the button is gone
