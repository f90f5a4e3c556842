from functools import cache
from typing import Any

from page_helpers import (
    FAILED_REQUEST,
    USER,
    OpenPage,
    find_unreachable,
    history,
    names,
    options,
    remove,
    shown_list,
    user_link,
    whatif,
)
from service_helpers import Service


def test_why_a_bundle_is_recommended_is_answered_and_can_be_tried(open_page: OpenPage, service: Service) -> None:
    explained = next(
        bundle
        for bundle in reversed(whatif(service)["after"])
        if service.fetch("/v1/explain", {"user": str(USER), "bundle": bundle["id"], "k": 20})["found"]
    )
    answer = service.fetch("/v1/explain", {"user": str(USER), "bundle": explained["id"], "k": 20})
    page = open_page(user_link())
    page.get_by_role("button", name=f"Why {explained['name']}?").click()
    panel = page.get_by_role("region", name=f"About {explained['name']}")
    panel.get_by_role("button", name="Remove and see").wait_for()
    assert [text.rsplit(" ", 1)[0] for text in panel.locator(".evidence li").all_text_contents()] == [
        node["name"] for node in answer["evidence"]
    ]
    panel.get_by_role("button", name="Remove and see").click()
    page.locator(".ranking.moved").wait_for()
    assert explained["name"] not in shown_list(page)
    assert explained["name"] in names(page, "ul.gone > li")
    removed = page.locator(".nodes .removed .name").all_text_contents()
    assert sorted(removed) == sorted(node["name"] for node in answer["evidence"])


@cache
def outside(service: Service, of: str) -> dict[str, Any]:
    """An explanation of a bundle beyond the first 20 that finds a handful of edits which bring it in."""
    known = {bundle["id"] for bundle in whatif(service, k=21)["after"]} | {
        one["id"] for one in history(service)["bundles"]
    }
    for bundle in range(60):
        if str(bundle) not in known:
            asked = {"user": str(USER), "bundle": str(bundle), "k": 20, "of": of}
            answer = service.fetch("/v1/explain", asked)
            if answer["found"] and not answer["out_of_reach"]:
                return answer
    raise AssertionError("no bundle can be brought in")


def ask_about(page: Any, bundle: dict[str, Any]) -> Any:
    box = page.get_by_role("combobox", name="What would bring in a list?")
    box.fill(bundle["id"])
    options(page).first.wait_for()
    box.press("Enter")
    return page.get_by_role("region", name=f"About {bundle['name']}")


def test_what_would_bring_a_bundle_in_is_answered_and_can_be_tried(open_page: OpenPage, service: Service) -> None:
    answer = outside(service, "history")
    page = open_page(user_link())
    shown_list(page)
    panel = ask_about(page, answer["bundle"])
    panel.get_by_role("button", name="Add and see").click()
    page.locator(".ranking.moved").wait_for()
    assert answer["bundle"]["name"] in shown_list(page)
    assert len(page.locator(".nodes .added").all()) == len(answer["evidence"])


def test_swaps_that_would_bring_a_bundle_in_open_the_bundle_tab(open_page: OpenPage, service: Service) -> None:
    answer = outside(service, "contents")
    page = open_page(user_link())
    shown_list(page)
    panel = ask_about(page, answer["bundle"])
    panel.get_by_role("button", name="Or change what is in this list").click()
    panel.get_by_role("button", name="Open with these swaps").click()
    page.get_by_role("heading", name=answer["bundle"]["name"], exact=True).wait_for()
    page.locator(".nodes .added:visible").nth(len(answer["swaps"]) - 1).wait_for()
    assert page.get_by_role("tab", name="List studio").get_attribute("aria-selected") == "true"
    assert page.locator(".nodes .added:visible").count() == len(answer["swaps"])


def test_a_bundle_out_of_reach_shows_how_near_a_handful_of_changes_comes(open_page: OpenPage, service: Service) -> None:
    answer = find_unreachable(service, "history")
    page = open_page(user_link())
    shown_list(page)
    panel = ask_about(page, answer["bundle"])
    panel.get_by_text(f"has rank {answer['rank']} and is out of reach").wait_for()
    near, best = panel.locator(".nearest li").all_text_contents(), answer["nearest"][-1]
    words = ["addition" if one["edits"] == 1 else "additions" for one in answer["nearest"]]
    assert near == [
        f"{one['edits']} {word}: rank {one['rank']}" for one, word in zip(answer["nearest"], words, strict=True)
    ]
    assert [row.rsplit(" ", 1)[0] for row in panel.locator(".evidence").last.locator("li").all_text_contents()] == [
        node["name"] for node in best["evidence"]
    ]
    assert "How sure: agreement with retraining was not measured." in panel.inner_text()
    panel.get_by_role("button", name="Add and see").click()
    page.locator(".ranking.moved").wait_for()
    page.locator(".nodes .added").nth(len(best["evidence"]) - 1).wait_for()
    assert page.locator(".nodes .added").count() == len(best["evidence"]) <= 5


def test_how_sure_an_effect_is_quotes_the_measured_agreement(open_page: OpenPage, service: Service) -> None:
    about = service.fetch("/v1/about")
    page = open_page(user_link())
    page.route(
        "**/v1/about",
        lambda route: route.fulfill(
            json=about
            | {
                "whatif_agreement": {
                    "items-added": {"corrected": 0.153, "low": 0.1, "high": 0.2},
                    "swaps": {"corrected": 0.9, "low": 0.8, "high": 1.0},
                }
            }
        ),
    )
    page.reload()
    shown_list(page)
    sure = page.get_by_text(
        "How sure: agreement with retraining 0.15 (0.10 to 0.20) for items added (1: the same changes, 0: unrelated)."
    )
    assert not sure.first.is_visible()  # nothing is changed yet
    remove(page, history(service)["items"][0]["name"])
    page.locator(".ranking.moved").wait_for()
    assert sure.first.is_visible()


def why_button(page: Any, index: int = 3) -> Any:
    return page.locator("ol.ranked > li").nth(index).locator(".why")


def test_an_explanation_says_that_it_is_about_the_history_without_the_changes(
    open_page: OpenPage, service: Service
) -> None:
    page = open_page(user_link())
    shown_list(page)
    why_button(page).click()
    panel = page.locator(".answer")
    panel.get_by_text("has rank 4").wait_for()
    assert "changes" not in panel.inner_text()
    remove(page, history(service)["items"][0]["name"])
    panel.get_by_text("Without your changes, ").wait_for()
    assert "This is about the history without your changes" in panel.inner_text()
    page.keyboard.press("Control+z")
    panel.get_by_text("Without your changes, ").wait_for(state="detached")


def test_an_explanation_closes_with_escape_from_its_row_and_with_its_button(open_page: OpenPage) -> None:
    page = open_page(user_link())
    shown_list(page)
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
    page.get_by_label("Show the first").focus()
    page.get_by_label("Show the first").select_option("10")
    page.locator("ol.ranked > li").nth(10).wait_for(state="detached")
    assert (panel.count(), button.get_attribute("aria-expanded")) == (0, "false")
    assert page.evaluate("document.activeElement.tagName") == "SELECT"  # the focus stays


def test_escape_in_the_search_box_closes_its_explanation(open_page: OpenPage, service: Service) -> None:
    page = open_page(user_link())
    shown_list(page)
    panel = ask_about(page, outside(service, "history")["bundle"])
    panel.wait_for()
    page.keyboard.press("Escape")
    assert panel.count() == 0


def test_closing_or_leaving_an_explanation_aborts_its_request(open_page: OpenPage, service: Service) -> None:
    page = open_page(user_link(), expect=(FAILED_REQUEST,))
    shown_list(page)
    page.route("**/v1/explain", lambda route: None)
    for leave in (
        lambda: page.keyboard.press("Escape"),
        lambda: page.goto(page.url.split("#")[0] + f"#tab=users&user={USER + 1}"),
    ):
        with page.expect_event("requestfailed", lambda request: request.url.endswith("/v1/explain")):
            with page.expect_request("**/v1/explain"):
                why_button(page).click()
            leave()


def test_focus_follows_a_bundle_that_leaves_the_list(open_page: OpenPage, service: Service) -> None:
    page = open_page(user_link())
    last = shown_list(page)[-1]
    why_button(page, 19).click()
    page.get_by_role("button", name="Remove and see").press("Enter")
    page.locator("ul.gone a").filter(has_text=last).wait_for()
    assert page.evaluate("document.activeElement.textContent") == last


def test_trying_longer_uses_the_largest_budget_of_the_service(open_page: OpenPage, service: Service) -> None:
    about, most = service.fetch("/v1/about"), 250
    asked: list[int] = []
    page = open_page(user_link())
    page.route("**/v1/about", lambda route: route.fulfill(json=about | {"limits": about["limits"] | {"budget": most}}))
    page.reload()
    shown_list(page)

    def spend(route: Any) -> None:
        request = route.request.post_data_json
        asked.append(request["budget"])
        answer = service.fetch("/v1/explain", {"user": request["user"], "bundle": request["bundle"], "budget": 1})
        spent = {"found": False, "out_of_budget": True, "evidence": [], "tried": request["budget"]}
        route.fulfill(json=answer | spent)

    page.route("**/v1/explain", spend)
    why_button(page).click()
    panel = page.locator(".answer")
    panel.get_by_text("more tries may find one").wait_for()
    panel.get_by_role("button", name="Try longer").press("Enter")
    panel.get_by_text(f"No answer in {most} tries.").wait_for()
    assert asked == [100, most]
    assert panel.get_by_role("button", name="Try longer").count() == 0
    assert panel.evaluate("panel => panel === document.activeElement")  # the button is gone
