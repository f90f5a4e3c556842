"""The tab on which new bundles are composed: two drafts, their audiences, and both compared."""

import csv
from pathlib import Path
from typing import Any

from page_helpers import FAILED_REQUEST, OpenPage, enter_token, labels, options, wait_announced, wait_idle
from service_helpers import Service

LINK = "#tab=drafts&a=3&a=7&b=3&b=12&b=40&k=10"


def audience(service: Service, items: list[str], k: int = 20) -> dict[str, Any]:
    return service.fetch("/v1/audience/new", {"items": items, "k": k, "max_users": 1000})


def draft(page: Any, name: str) -> Any:
    return page.get_by_role("region", name=f"Draft {name}")


def shown(page: Any, name: str) -> str:
    wait_idle(page)
    return draft(page, name).locator(".large strong").inner_text()


def add(page: Any, name: str, item: dict[str, Any]) -> None:
    box = draft(page, name).get_by_role("combobox")
    box.fill(item["id"])
    options(page).first.wait_for()
    box.press("Enter")
    draft(page, name).get_by_role("button", name=f"Remove {item['name']}", exact=True).wait_for()


def test_a_bundle_is_composed_and_its_audience_grows_with_it(open_page: OpenPage, service: Service) -> None:
    first, second = (service.fetch(f"/v1/item?id={id}") for id in ("3", "7"))
    one, both = audience(service, ["3"]), audience(service, ["3", "7"])
    assert one["audience"] != both["audience"]
    page = open_page()
    page.get_by_role("tab", name="New list").click()
    draft(page, "A").get_by_text("Add a book: its audience is shown here.").wait_for()
    add(page, "A", first)
    assert shown(page, "A") == str(one["audience"])
    add(page, "A", second)
    wait_idle(page)
    assert shown(page, "A") == f"{one['audience']} → {both['audience']}"
    wait_announced(page, f"Draft A: {both['audience']} reader")
    links = draft(page, "A").locator(".names a").all_text_contents()
    assert links == labels("Reader", both["members"])[:12]
    assert "a=3&a=7" in page.url
    page.keyboard.press("Control+z")
    draft(page, "A").get_by_role("button", name=f"Remove {second['name']}").wait_for(state="detached")
    assert shown(page, "A").endswith(f"→ {one['audience']}")
    draft(page, "A").get_by_role("button", name=f"Remove {first['name']}").click()
    draft(page, "A").get_by_text("Add a book: its audience is shown here.").wait_for()
    assert "a=" not in page.url.split("#")[1].replace("tab=", "")
    draft(page, "A").get_by_role("combobox").fill("3")
    options(page).first.wait_for()
    assert options(page).filter(has_text="already there").count() == 0


def test_two_drafts_are_compared_and_the_link_has_both(open_page: OpenPage, service: Service) -> None:
    a, b = audience(service, ["3", "7"], 10), audience(service, ["3", "12", "40"], 10)
    mine, others = ({user["id"] for user in answer["members"]} for answer in (a, b))
    assert len(mine) == a["audience"] and len(others) == b["audience"] != a["audience"]
    page = open_page(LINK)
    assert (shown(page, "A"), shown(page, "B")) == (str(a["audience"]), str(b["audience"]))
    words = page.get_by_role("region", name="Comparison").inner_text()
    more, fewer = ("A", "B") if a["audience"] > b["audience"] else ("B", "A")
    assert f"Draft {more} reaches {abs(a['audience'] - b['audience'])} more reader" in words
    assert f"than draft {fewer}: {len(mine & others)} would have both among their first 10" in words
    assert f"{len(mine - others)} only draft A, {len(others - mine)} only draft B." in words
    assert "How sure: agreement with retraining was not measured." in words
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").locator("visible=true").click()
    page.get_by_role("button", name="Copied").wait_for()
    again = open_page("#" + page.evaluate("navigator.clipboard.readText()").split("#")[1])
    assert (shown(again, "A"), shown(again, "B")) == (str(a["audience"]), str(b["audience"]))
    assert again.get_by_label("Show the first").input_value() == "10"


def test_a_draft_is_copied_to_the_other_and_only_the_changed_one_is_asked_for_again(
    open_page: OpenPage, service: Service
) -> None:
    page = open_page(LINK)
    shown(page, "B")
    asked: list[Any] = []
    page.on("request", lambda one: one.url.endswith("/audience/new") and asked.append(one.post_data_json["items"]))
    page.get_by_role("button", name="Copy to draft B").click()
    page.get_by_text("Both drafts reach").wait_for()
    assert asked == [["3", "7"]]
    rows = [draft(page, name).locator(".nodes .name").all_text_contents() for name in ("A", "B")]
    assert rows[0] == rows[1]


def test_the_whole_audience_is_saved_as_csv(open_page: OpenPage, service: Service) -> None:
    answer = audience(service, ["3", "7"], 10)
    members = [dict(user) for user in answer["members"]]
    assert len(members) == answer["audience"] > 12  # more than the page shows at first
    members[0]["name"] = 'Ann "Annie", of Kent'
    formulas = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx"]
    for user, name in zip(members[1:], formulas, strict=False):
        user["name"] = name
    asked: list[int] = []

    def respond(route: Any) -> None:
        asked.append(route.request.post_data_json["max_users"])
        few = members if asked[-1] > 200 else members[:12]
        route.fulfill(json=answer | {"members": few})

    page = open_page("#tab=drafts")
    page.route("**/audience/new", respond)
    page.goto(page.url.split("#")[0] + "#tab=drafts&a=3&a=7&k=10")
    shown(page, "A")
    assert asked == [200]  # what is shown
    with page.expect_download() as saved:
        draft(page, "A").get_by_role("button", name="Download the audience (CSV)").click()
    assert saved.value.suggested_filename == "audience-draft-a.csv"
    rows = list(csv.reader(Path(saved.value.path()).read_text("utf-8-sig").splitlines()))
    assert rows[0] == ["id", "name", "rank"]
    assert asked == [200, 100_000]
    safe = {name: f"'{name}" for name in formulas}  # a spreadsheet computes none of them
    expected = [[user["id"], safe.get(user["name"], user["name"] or ""), str(user["rank"])] for user in members]
    assert rows[1:] == expected


def test_an_audience_beyond_the_limit_of_the_service_is_saved_in_part_and_says_so(
    open_page: OpenPage, service: Service
) -> None:
    answer = service.fetch("/v1/audience/new", {"items": ["3", "7"], "max_users": 5})
    about = service.fetch("/v1/about")
    about["limits"]["max_users"] = 5
    page = open_page("#tab=drafts")
    page.route("**/v1/about", lambda route: route.fulfill(json=about))
    page.route("**/audience/new", lambda route: route.fulfill(json=answer))
    page.goto(page.url.split("#")[0] + "#tab=drafts&a=3&a=7&b=3")
    page.reload()
    draft(page, "A").get_by_role("button", name="Download the first 5 (CSV)").wait_for()
    words = page.get_by_role("region", name="Comparison")
    words.get_by_text(f"Both drafts reach {answer['audience']} readers.").wait_for()  # no guess at how many have both


def test_more_of_the_audience_can_be_shown(open_page: OpenPage, service: Service) -> None:
    number = audience(service, ["3", "7"], 10)["audience"]
    assert 12 < number <= 200
    page = open_page(LINK)
    shown(page, "A")
    draft(page, "A").get_by_role("button", name=f"Show {number - 12} more").click()
    assert draft(page, "A").locator(".names a").count() == number


def test_an_unknown_item_of_a_link_is_shown_and_can_be_removed(open_page: OpenPage) -> None:
    page = open_page("#tab=drafts&a=3&a=nope", expect=(FAILED_REQUEST,))
    draft(page, "A").locator(".error").get_by_text("There is no book “nope” here.").wait_for()
    assert not draft(page, "A").locator(".large").is_visible()
    draft(page, "A").get_by_role("button", name="Remove Book nope").click()
    draft(page, "A").locator(".error").wait_for(state="detached")
    assert shown(page, "A").isdigit()


def test_a_model_without_whatif_composes_nothing(open_page: OpenPage) -> None:
    page = open_page("#tab=drafts&a=3", at="locked", expect=(FAILED_REQUEST,))
    enter_token(page)
    page.get_by_text("Bprmf does not support “what if?”").wait_for()
    assert page.get_by_role("region", name="Draft A").count() == 0
