import re
from importlib.resources import files

from looking import (
    BUNDLE,
    FREE_READER,
    REFUSED,
    names,
    open_locked,
    options,
    places,
    reader_link,
    studio,
)
from serving import HOSTILE, READER, TOKEN, Look, Service


def test_the_card_is_shown_with_its_tables_and_measures(look: Look, service: Service) -> None:
    about = service.ask("/api/about")
    page = look("#tab=model")
    card = page.get_by_role("article", name="Model card")
    title = re.match(r"# (.*)", about["card"])
    assert title is not None
    card.get_by_role("heading", name=title[1]).wait_for()
    assert card.locator("h2, h3").count() == about["card"].count("\n#") + 2  # the title, and a word on what-if
    found = f"{100 * about['test']['recall@20']:.2f}"
    assert card.get_by_role("cell", name=found).count() >= 1
    assert page.get_by_label("Measures").get_by_role("cell", name=found).count() == 1
    assert page.get_by_role("link", name="experiment report").count() == 0
    assert about["note"] in card.inner_text()


def test_how_far_to_trust_an_answer_is_told_to_who_asks(look: Look, service: Service) -> None:
    page = look(reader_link())
    places(page)
    note = page.get_by_text("The model's parameters stay as trained")
    assert not note.first.is_visible()
    page.get_by_text("How far to trust this").click()
    assert note.first.is_visible()


def test_tabs_are_walked_with_arrow_keys(look: Look) -> None:
    page = look()
    page.get_by_role("tab", name="Readers").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="List studio").get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.get_by_role("tab", name="Model").get_attribute("aria-selected") == "true"
    assert page.get_by_role("tabpanel", name="Model").is_visible()


def test_light_and_dark_follow_the_system_until_the_button_is_used(look: Look) -> None:
    shade = "getComputedStyle(document.documentElement).backgroundColor"
    page = look(color_scheme="dark")
    page.get_by_role("button", name="Switch to light colours").wait_for()
    dark = page.evaluate(shade)
    page.get_by_role("button", name="Switch to light colours").click()
    light = page.evaluate(shade)
    assert light != dark
    page.reload()
    page.get_by_role("button", name="Switch to dark colours").wait_for()
    assert page.evaluate(shade) == light


def test_names_with_markup_are_text(look: Look, service: Service) -> None:
    page = look(f"#tab=readers&user={READER}")
    page.get_by_role("heading", name=HOSTILE, exact=True).wait_for()
    places(page)
    hers = service.ask(f"/api/user?id={READER}")
    assert names(page, ".things li").count(HOSTILE) == 2
    page.get_by_role("button", name=f"Strike out {HOSTILE}").first.click()
    page.locator(".ranking.moved").wait_for()
    page.get_by_role("combobox", name="Find a reader").fill("<img")
    options(page).filter(has_text=HOSTILE).wait_for()
    page.goto(page.url.split("#")[0] + f"#tab=studio&bundle={hers['bundles'][0]['id']}")
    page.get_by_role("heading", name=HOSTILE, exact=True).wait_for()
    studio(page)
    assert page.locator("img").count() == 0
    assert HOSTILE in page.title()


def test_a_token_is_asked_for_and_a_wrong_one_again(look: Look) -> None:
    page = look(at="locked", expect=(REFUSED,))
    page.locator("#token").fill("wrong-but-long-enough")
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("does not know the token").wait_for()
    page.locator("#token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Whose outfits").wait_for()
    page.reload()  # it is kept
    page.get_by_role("heading", name="Whose outfits").wait_for()


def test_a_token_with_letters_that_cannot_be_sent_is_told_and_asked_again(look: Look) -> None:
    page = look(at="locked", expect=(REFUSED,))
    page.locator("#token").fill(f"“{TOKEN}”")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="curly quotes").wait_for()
    page.locator("#token").fill(f" {TOKEN} ")
    page.keyboard.press("Enter")
    page.get_by_role("tab").first.wait_for()


def test_only_a_token_that_has_worked_is_kept(look: Look) -> None:
    kept = "sessionStorage.getItem('token')"
    page = look(at="locked", expect=(REFUSED,))
    page.locator("#token").fill("wrong-but-long-enough")
    page.keyboard.press("Enter")
    page.get_by_text("does not know the token").wait_for()
    assert page.evaluate(kept) is None
    open_locked(page)
    assert page.evaluate(kept) == TOKEN


BLOCKED = """
for (const name of ["sessionStorage", "localStorage"]) {
  Object.defineProperty(window, name, { get() { throw new DOMException("blocked", "SecurityError"); } });
}
"""


def test_it_works_where_the_browser_keeps_nothing(look: Look) -> None:
    page = look(at="locked", script=BLOCKED, expect=(REFUSED,))
    open_locked(page)
    page.get_by_role("button", name="Switch to dark colours").click()
    page.get_by_role("button", name="Switch to light colours").wait_for()
    page.get_by_role("tab", name="Model").click()
    page.get_by_role("article", name="Model card").wait_for()


def test_words_are_those_of_the_house(look: Look) -> None:
    page = look(at="locked", expect=(REFUSED,))
    open_locked(page)
    assert page.get_by_role("tab").all_text_contents() == ["People", "Outfit studio", "Model"]
    page.get_by_role("combobox", name="Find a person").wait_for()
    page.get_by_role("tab", name="Outfit studio").click()
    page.get_by_role("combobox", name="Find an outfit").wait_for()
    shown = page.locator("body").inner_text().lower()
    assert not [
        word for word in ("reader", "list", "book", "user", "bundle", "item") if re.search(rf"\b{word}s?\b", shown)
    ]


def test_a_model_that_cannot_be_asked_says_why_and_still_recommends(look: Look) -> None:
    page = look(f"#tab=readers&user={FREE_READER}", at="locked", expect=(REFUSED,))
    open_locked(page)
    page.get_by_text("Bprmf cannot be asked “what if?”").wait_for()
    assert len(places(page)) == 20
    assert page.get_by_role("button", name=re.compile("Why|Strike out")).count() == 0
    assert page.locator("input[role=combobox]:visible").count() == 1
    page.goto(page.url.split("#")[0] + f"#tab=studio&bundle={BUNDLE}")
    page.get_by_text("Bprmf cannot be asked “what if?”").locator("visible=true").wait_for()
    assert page.locator(".things:visible li").count() > 0
    assert page.locator(".audience").count() == 0


def test_the_experiment_report_opens_in_a_page_of_its_own(look: Look) -> None:
    page = look("#tab=model", at="locked", expect=(REFUSED,))
    open_locked(page)
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Read the experiment report").click()
    opened.value.get_by_role("heading", name="Overall performance").wait_for()


def test_the_page_never_makes_markup_of_text_and_its_files_stay_small() -> None:
    for file in (files("clbr.serve.web") / "page").iterdir():
        text = file.read_text("utf-8")
        assert len(text.splitlines()) <= 300, file.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|style=", text), file.name
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)[a-z]", text), file.name
