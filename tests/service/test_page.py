import re
from importlib.resources import files

import pytest

from page_helpers import (
    BUNDLE,
    FAILED_REQUEST,
    HOSTILE_NAME,
    HOSTILE_USER,
    USER,
    OpenPage,
    enter_token,
    names,
    options,
    shown_list,
    user_link,
    wait_audience,
)
from service_helpers import TOKEN, Service


def test_the_card_is_shown_with_its_tables_and_metrics(open_page: OpenPage, service: Service) -> None:
    about = service.fetch("/v1/about")
    page = open_page("#tab=model")
    card = page.get_by_role("article", name="Model card")
    title = re.match(r"# (.*)", about["card"])
    assert title is not None
    card.get_by_role("heading", name=title[1]).wait_for()
    assert card.locator("h2, h3").count() == about["card"].count("\n#") + 1  # the title
    found = f"{100 * about['test']['recall@20']:.2f}"
    assert card.get_by_role("cell", name=found).count() >= 1
    assert page.get_by_label("Metrics").get_by_role("cell", name=found).count() == 1
    assert page.get_by_role("link", name="experiment report").count() == 0


def test_the_caveat_is_on_the_page_once(open_page: OpenPage, service: Service) -> None:
    about = service.fetch("/v1/about")
    page = open_page(user_link())
    shown_list(page)
    page.locator(".why:visible").first.click()
    page.locator(".answer .row").wait_for()
    for tab in ("Readers", "List studio", "New list", "Model"):
        page.get_by_role("tab", name=tab).click()
        assert page.locator("body").inner_text().count("The trained parameters stay fixed") == 1
    page.get_by_role("tab", name="New list").click()
    assert page.get_by_role("contentinfo").inner_text() == about["caveat"]


def test_the_model_tab_says_what_was_measured_beside_the_best_baseline(open_page: OpenPage, service: Service) -> None:
    about = service.fetch("/v1/about")
    model, rule = (100 * means["recall@20"] for means in (about["test"], about["baseline"]["means"]))
    page = open_page("#tab=model")
    card = page.get_by_role("region", name="How good it is")
    card.get_by_text(f"{model:.1f} % of a reader's held-out lists are among the first 20.").wait_for()
    assert f"The best simple rule, {about['baseline']['name']}, finds {rule:.1f} %." in card.inner_text()
    assert card.locator(".bar b").all_text_contents()[:2] == [f"{model:.1f} %", f"{rule:.1f} %"]
    assert "later" not in card.inner_text()
    assert card.locator(".warning").count() == (model < rule)


@pytest.mark.parametrize(("verdict", "bars"), [("leak", 0), ("below", 2), ("not below", 2)])
def test_a_leak_or_a_model_below_the_baseline_is_a_warning(
    open_page: OpenPage, service: Service, verdict: str, bars: int
) -> None:
    about = service.fetch("/v1/about")
    accuracy = {"verdict": verdict, "sentences": ["What was measured on users.", "And this."]}
    page = open_page("#tab=model")
    page.route("**/v1/about", lambda route: route.fulfill(json=about | {"accuracy": accuracy, "segments": {}}))
    page.reload()
    card = page.get_by_role("region", name="How good it is")
    card.get_by_text("What was measured on readers. And this.").wait_for()
    assert card.locator(".warning").count() == (verdict != "not below")
    assert card.locator(".bar").count() == bars


def test_tabs_are_walked_with_arrow_keys(open_page: OpenPage) -> None:
    page = open_page()
    page.get_by_role("tab", name="Readers").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="List studio").get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.get_by_role("tab", name="Model").get_attribute("aria-selected") == "true"
    assert page.get_by_role("tabpanel", name="Model").is_visible()


def test_light_and_dark_follow_the_system_until_the_button_is_used(open_page: OpenPage) -> None:
    shade = "getComputedStyle(document.documentElement).backgroundColor"
    page = open_page(color_scheme="dark")
    page.get_by_role("button", name="Switch to light colours").wait_for()
    dark = page.evaluate(shade)
    page.get_by_role("button", name="Switch to light colours").click()
    light = page.evaluate(shade)
    assert light != dark
    page.reload()
    page.get_by_role("button", name="Switch to dark colours").wait_for()
    assert page.evaluate(shade) == light


def test_names_with_markup_are_text(open_page: OpenPage, service: Service) -> None:
    page = open_page(f"#tab=users&user={HOSTILE_USER}")
    page.get_by_role("heading", name=HOSTILE_NAME, exact=True).wait_for()
    shown_list(page)
    user = service.fetch(f"/v1/user?id={HOSTILE_USER}")
    assert names(page, ".nodes li").count(HOSTILE_NAME) == 2
    page.get_by_role("button", name=f"Remove {HOSTILE_NAME}").first.click()
    page.locator(".ranking.moved").wait_for()
    page.get_by_role("combobox", name="Find a reader").fill("<img")
    options(page).filter(has_text=HOSTILE_NAME).wait_for()
    page.goto(page.url.split("#")[0] + f"#tab=bundles&bundle={user['bundles'][0]['id']}")
    page.get_by_role("heading", name=HOSTILE_NAME, exact=True).wait_for()
    wait_audience(page)
    assert page.locator("img").count() == 0
    assert HOSTILE_NAME in page.title()


def test_a_token_is_asked_for_and_a_wrong_one_again(open_page: OpenPage) -> None:
    page = open_page(at="locked", expect=(FAILED_REQUEST,))
    page.locator("#token").fill("wrong-but-long-enough")
    page.get_by_role("button", name="Continue").click()
    page.get_by_text("does not accept this token").wait_for()
    page.locator("#token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Whose outfits").wait_for()
    page.reload()  # it is stored
    page.get_by_role("heading", name="Whose outfits").wait_for()


def test_a_token_with_letters_that_cannot_be_sent_is_asked_for_again_with_the_reason(open_page: OpenPage) -> None:
    page = open_page(at="locked", expect=(FAILED_REQUEST,))
    page.locator("#token").fill(f"“{TOKEN}”")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="curly quotes").wait_for()
    page.locator("#token").fill(f" {TOKEN} ")
    page.keyboard.press("Enter")
    page.get_by_role("tab").first.wait_for()


def test_only_a_token_that_was_accepted_is_stored(open_page: OpenPage) -> None:
    stored = "sessionStorage.getItem('token')"
    page = open_page(at="locked", expect=(FAILED_REQUEST,))
    page.locator("#token").fill("wrong-but-long-enough")
    page.keyboard.press("Enter")
    page.get_by_text("does not accept this token").wait_for()
    assert page.evaluate(stored) is None
    enter_token(page)
    assert page.evaluate(stored) == TOKEN


BLOCKED = """
for (const name of ["sessionStorage", "localStorage"]) {
  Object.defineProperty(window, name, { get() { throw new DOMException("blocked", "SecurityError"); } });
}
"""


def test_the_page_works_where_the_browser_stores_nothing(open_page: OpenPage) -> None:
    page = open_page(at="locked", script=BLOCKED, expect=(FAILED_REQUEST,))
    enter_token(page)
    page.get_by_role("button", name="Switch to dark colours").click()
    page.get_by_role("button", name="Switch to light colours").wait_for()
    page.get_by_role("tab", name="Model").click()
    page.get_by_role("article", name="Model card").wait_for()


def test_the_page_uses_the_words_of_the_service(open_page: OpenPage) -> None:
    page = open_page(at="locked", expect=(FAILED_REQUEST,))
    enter_token(page)
    assert page.get_by_role("tab").all_text_contents() == ["People", "Outfit studio", "New outfit", "Model"]
    page.get_by_role("combobox", name="Find a person").wait_for()
    page.get_by_role("tab", name="Outfit studio").click()
    page.get_by_role("combobox", name="Find an outfit").wait_for()
    page.locator(".examples:visible a").first.wait_for()
    shown = page.locator("body").inner_text().lower()
    assert not [
        word for word in ("reader", "list", "book", "user", "bundle", "item") if re.search(rf"\b{word}s?\b", shown)
    ]


def test_a_model_without_whatif_says_why_and_still_recommends(open_page: OpenPage) -> None:
    page = open_page(f"#tab=users&user={USER}", at="locked", expect=(FAILED_REQUEST,))
    enter_token(page)
    page.get_by_text("Bprmf does not support “what if?”").wait_for()
    assert len(shown_list(page)) == 20
    assert page.get_by_role("button", name=re.compile("Why|Remove")).count() == 0
    assert page.locator("input[role=combobox]:visible").count() == 1
    page.goto(page.url.split("#")[0] + f"#tab=bundles&bundle={BUNDLE}")
    page.get_by_text("Bprmf does not support “what if?”").locator("visible=true").wait_for()
    page.locator(".nodes:visible li").first.wait_for()
    assert page.locator(".audience").count() == 0


def test_the_experiment_report_opens_in_a_page_of_its_own(open_page: OpenPage) -> None:
    page = open_page("#tab=model", at="locked", expect=(FAILED_REQUEST,))
    enter_token(page)
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Read the experiment report").click()
    opened.value.get_by_role("heading", name="Overall performance").wait_for()


def test_the_page_never_makes_markup_of_text_and_its_files_stay_small() -> None:
    for file in (files("clbr.service") / "page").iterdir():
        text = file.read_text("utf-8")
        assert len(text.splitlines()) <= 300, file.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|style=", text), file.name
        assert not re.search(r"\b(he|she|his|her|him|hers)\b", text), file.name
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)[a-z]", text), file.name
