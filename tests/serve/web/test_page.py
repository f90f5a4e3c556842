import re
from importlib.resources import files
from typing import Any

import pytest

from serving import HOSTILE, READER, TOKEN, Look, Service

REFUSED = "Failed to load resource"
FREE_READER = 23
"""A reader without a name, who has chosen lists."""


def calm(page: Any) -> None:
    """The page is there and waits for no answer."""
    page.locator(".panel:not([hidden])").wait_for()
    page.locator("[aria-busy], .waiting").first.wait_for(state="detached")


def names(page: Any, rows: str) -> list[str]:
    calm(page)
    return page.locator(rows).locator(".name").all_text_contents()


def places(page: Any) -> list[str]:
    """The list as it is shown, best first."""
    page.locator("ol.places li").first.wait_for()
    return names(page, "ol.places > li")


def told(service: Service, top: int = 20, **edits: list[str]) -> dict[str, Any]:
    return service.ask("/api/whatif/user", {"user": str(FREE_READER), "top": top, **edits})


def called(kind: str, nodes: list[dict[str, Any]]) -> list[str]:
    return [node["name"] or f"{kind} {node['id']}" for node in nodes]


def history(service: Service) -> dict[str, Any]:
    return service.ask(f"/api/user?id={FREE_READER}")


def reader_link(**edits: object) -> str:
    return f"#tab=readers&user={FREE_READER}" + "".join(f"&{key}={value}" for key, value in edits.items())


def strike(page: Any, name: str) -> None:
    page.get_by_role("button", name=f"Strike out {name}", exact=True).click()


def options(page: Any) -> Any:
    """What a search found."""
    return page.locator("[role=option]:visible")


def said(page: Any, words: str) -> None:
    page.locator("#said").filter(has_text=words).wait_for(state="attached")


# Readers


def test_a_reader_is_found_by_typing_and_her_history_and_list_are_shown(look: Look, service: Service) -> None:
    page = look()
    box = page.get_by_role("combobox", name="Find a reader")
    box.wait_for()
    page.keyboard.press("/")
    assert box.evaluate("box => box === document.activeElement")
    page.keyboard.type(str(FREE_READER), delay=10)
    options(page).first.wait_for()
    assert box.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=f"Reader {FREE_READER}").wait_for()
    assert places(page) == called("List", told(service)["after"])
    assert names(page, ".things li")[0] == history(service)["bundles"][0]["name"]
    assert f"user={FREE_READER}" in page.url


def test_arrows_choose_and_escape_closes(look: Look) -> None:
    page = look()
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


def test_who_cannot_be_found_is_told_what_to_try(look: Look) -> None:
    page = look()
    page.get_by_role("combobox", name="Find a reader").fill("nobody at all")
    page.get_by_text("No readers with “nobody at all”").wait_for()


def test_without_a_reader_the_busiest_are_offered(look: Look, service: Service) -> None:
    page = look()
    busiest = called("Reader", service.ask("/api/find?kind=user&text=&limit=8")["found"])
    page.get_by_role("button", name=busiest[0], exact=True).click()
    page.get_by_role("heading", name=busiest[0], exact=True).wait_for()
    assert page.evaluate("document.activeElement.tagName") == "H2"


def test_striking_out_re_ranks_the_list_and_says_how_it_moved(look: Look, service: Service) -> None:
    hers = history(service)["bundles"]
    page = look(reader_link())
    before = places(page)
    strike(page, hers[0]["name"])
    page.locator(".ranking.moved").wait_for()
    answer = told(service, drop_bundles=[hers[0]["id"]])
    after = places(page)
    assert after == called("List", answer["after"]) != before
    gone = [move for move in answer["moves"] if move["after"] is None]
    assert names(page, "ul.gone > li") == called("List", gone)
    for move in answer["moves"]:
        row = page.locator(f"li[data-key='{move['id']}'] .move")
        if move["before"] is None or move["after"] is None:
            assert row.text_content().startswith("new" if move["after"] else "gone")
        elif move["before"] != move["after"]:
            arrow = "▲" if move["after"] < move["before"] else "▼"
            assert row.text_content().startswith(f"{arrow} {abs(move['before'] - move['after'])}")
    assert page.locator(".moves path").count() == len(answer["before"])
    said(page, "struck out")
    said(page, "among her first 20")


WATCH = """() => new MutationObserver(() => {
  if ([...document.querySelectorAll(".places li")].some((row) => row.getAnimations().length)) window.glided = true;
}).observe(document.querySelector(".ranking"), { attributes: true, childList: true, subtree: true })"""


def test_rows_glide_to_their_new_places_unless_less_motion_is_wanted(look: Look, service: Service) -> None:
    for motion, glides in (("no-preference", True), ("reduce", False)):
        page = look(reader_link(), reduced_motion=motion)
        places(page)
        page.evaluate(WATCH)
        strike(page, history(service)["bundles"][0]["name"])
        page.locator(".ranking.moved").wait_for()
        calm(page)
        assert bool(page.evaluate("window.glided")) is glides


def test_adding_and_putting_back_and_undoing_and_redoing(look: Look, service: Service) -> None:
    page = look(reader_link())
    untouched = places(page)
    wanted = service.ask("/api/find?kind=item&text=&limit=50")["found"]
    hers = {item["id"] for item in history(service)["items"]}
    item = next(item for item in wanted if item["id"] not in hers)
    page.get_by_role("combobox", name="Add a book").fill(item["id"])
    options(page).filter(has_text=item["name"]).first.click()
    page.get_by_role("button", name=f"Take {item['name']} away again").wait_for()
    added = called("List", told(service, add_items=[item["id"]])["after"])
    assert places(page) == added
    page.keyboard.press("Control+z")
    page.locator(".ranking:not(.moved)").wait_for()
    assert places(page) == untouched
    page.keyboard.press("Control+Shift+Z")
    page.locator(".ranking.moved").wait_for()
    assert places(page) == added
    page.get_by_role("button", name="Undo").click()
    page.locator(".ranking:not(.moved)").wait_for()
    page.get_by_role("button", name="Redo").click()
    page.get_by_role("button", name=f"Take {item['name']} away again").click()
    page.locator(".ranking:not(.moved)").wait_for()
    assert places(page) == untouched
    assert page.get_by_role("button", name="Start over").get_attribute("aria-disabled") == "true"


def test_what_she_has_cannot_be_added_again(look: Look, service: Service) -> None:
    page = look(reader_link())
    item = history(service)["items"][0]
    page.get_by_role("combobox", name="Add a book").fill(item["id"])
    option = options(page).filter(has_text="already there").first
    option.wait_for()
    assert option.get_attribute("aria-disabled") == "true"
    option.click(force=True)
    assert "add_items" not in page.url


def test_a_link_restores_what_is_shown(look: Look, service: Service) -> None:
    hers = history(service)
    page = look(reader_link(top=10))
    places(page)
    strike(page, hers["bundles"][0]["name"])
    page.locator(".ranking.moved").wait_for()
    page.get_by_role("combobox", name="Add a list").fill("5")
    options(page).filter(has_not_text="already").first.click()
    page.locator(".things .added").wait_for()
    calm(page)
    shown = page.locator("ol.places").inner_text()
    history_shown = page.locator(".things").first.inner_text()
    again = look(page.url.split("/")[-1])
    again.locator(".ranking.moved").wait_for()
    calm(again)
    assert again.locator("ol.places").inner_text() == shown
    assert again.locator(".things").first.inner_text() == history_shown
    assert again.get_by_label("Look at the first").input_value() == "10"


def test_back_goes_to_the_reader_before(look: Look) -> None:
    page = look(reader_link())
    places(page)
    page.get_by_role("combobox", name="Find a reader").fill("31")
    options(page).first.wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Reader 31", exact=True).wait_for()
    page.go_back()
    page.get_by_role("heading", name=f"Reader {FREE_READER}", exact=True).wait_for()


def test_a_link_that_does_not_fit_the_data_says_so_and_offers_a_way_out(look: Look, service: Service) -> None:
    hers = {item["id"] for item in history(service)["items"]}
    strange = next(str(item) for item in range(200) if str(item) not in hers)
    page = look(reader_link(drop_items=strange), expect=(REFUSED,))
    page.get_by_text("cannot lose it").wait_for()
    page.get_by_role("button", name="Take all changes back").click()
    assert len(places(page)) == 20


def test_an_unknown_reader_in_a_link_is_told(look: Look) -> None:
    page = look("#tab=readers&user=no-such-reader", expect=(REFUSED,))
    page.get_by_text("There is no reader with the id “no-such-reader”").wait_for()
    page.get_by_role("button", name="Choose another reader").click()
    page.get_by_role("heading", name="Whose lists").wait_for()


LATE = """
const real = window.fetch;
window.fetch = async (path, { signal, ...options } = {}) => { // not even an abort stops it
  if (path === "/api/whatif/user" && JSON.parse(options.body).drop_bundles.length) await new Promise((go) => setTimeout(go, 500));
  const answer = await real(path, options);
  if (path === "/api/whatif/user") document.documentElement.dataset.answers = (window.answers = (window.answers ?? 0) + 1);
  return answer;
};
"""


def test_an_answer_that_comes_late_never_takes_the_place_of_a_newer_one(look: Look, service: Service) -> None:
    page = look(reader_link(), script=LATE)
    untouched = places(page)
    strike(page, history(service)["bundles"][0]["name"])
    page.keyboard.press("Control+z")
    page.locator("html[data-answers='3']").wait_for()  # at first, after undoing, and late
    page.wait_for_timeout(50)
    assert places(page) == untouched
    assert page.locator(".ranking.moved").count() == 0


# Why, and what would it take?


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


# Studio


BUNDLE = "3"


def studio(page: Any) -> None:
    page.locator(".audience .bars li").first.wait_for()
    calm(page)


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
    for way, side in (("come", "entered"), ("go", "left")):
        if answer[f"{side}_count"]:
            heading = page.get_by_role("heading", name=f"{answer[f'{side}_count']} {way}", exact=True)
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


# Model


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


# The whole


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


def open_locked(page: Any) -> None:
    page.locator("#token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_role("tab").first.wait_for()


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


def test_a_lost_connection_says_what_to_do_and_comes_back(look: Look, service: Service) -> None:
    page = look(reader_link(), expect=(REFUSED,))
    before = places(page)
    page.context.set_offline(True)
    strike(page, history(service)["bundles"][0]["name"])
    page.locator(".trouble").get_by_text("The service does not answer").wait_for()
    assert places(page) == before  # what was there stays
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    page.locator(".ranking.moved").wait_for()
    assert page.locator(".trouble").count() == 0


def test_a_service_that_is_gone_is_told_in_every_place(look: Look) -> None:
    page = look(expect=(REFUSED,))
    page.locator(".offers button").first.wait_for()
    page.route("**/*", lambda route: route.abort("connectionrefused"))
    page.get_by_role("combobox", name="Find a reader").fill("1")
    page.locator(".popup").get_by_text("The service does not answer").wait_for()
    page.get_by_role("combobox", name="Find a reader").press("Escape")
    page.locator(".offers button").first.click()
    page.locator(".trouble").get_by_role("button", name="Try again").wait_for()
    page.get_by_role("tab", name="List studio").click()
    page.locator(".panel:visible .trouble").get_by_role("button", name="Try again").wait_for()


def test_another_artefact_in_its_place_is_told(look: Look) -> None:
    page = look(reader_link())
    places(page)
    page.route(
        "**/api/find*",
        lambda route: route.fulfill(
            json={"kind": "user", "text": "", "total": 0, "found": []}, headers={"x-artefact": "another"}
        ),
    )
    page.get_by_role("combobox", name="Find a reader").click()
    page.get_by_role("button", name="Reload the page").wait_for()


def test_a_busy_service_is_asked_again(look: Look) -> None:
    page = look(expect=(REFUSED,))
    refused: list[int] = []

    def once(route: Any) -> None:
        if refused:
            route.continue_()
        else:
            refused.append(429)
            route.fulfill(status=429, json={"error": "wait"}, headers={"retry-after": "0.1"})

    page.route("**/api/user?*", once)
    page.get_by_role("combobox", name="Find a reader").fill(str(FREE_READER))
    options(page).first.click()
    assert len(places(page)) == 20 and refused


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everyone_can_use_it_and_nothing_is_cut_off(look: Look, service: Service, theme: str, width: int) -> None:
    reason = "axe looks for barriers: pip install axe-playwright-python"
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=reason).Axe()
    dropped = history(service)["bundles"][0]["id"]
    item = service.ask(f"/api/bundle?id={BUNDLE}")["items"][0]["id"]
    page = look(color_scheme=theme, viewport={"width": width, "height": 800})
    page.locator(".offers button").first.wait_for()
    start = page.url.split("#")[0]

    def check(where: str) -> None:
        calm(page)
        found = axe.run(page)
        assert found.violations_count == 0, f"{where}: {found.generate_report()}"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), where

    check("nothing chosen yet")
    page.goto(start + reader_link(drop_bundles=dropped))
    page.locator(".ranking.moved").wait_for()
    page.locator(".why:visible").first.click()
    page.locator(".answer-body p").first.wait_for()
    page.get_by_role("combobox", name="Find a reader").fill("1")
    options(page).first.wait_for()
    check("readers")
    page.goto(start + f"#tab=studio&bundle={BUNDLE}&drop_items={item}")
    studio(page)
    page.get_by_role("button", name="Find good swaps").click()
    page.locator(".swaps li").first.wait_for()
    check("studio")
    page.goto(start + "#tab=model")
    page.get_by_role("article").wait_for()
    check("model")


def test_the_page_never_makes_markup_of_text_and_its_files_stay_small() -> None:
    for file in (files("clbr.serve.web") / "page").iterdir():
        text = file.read_text("utf-8")
        assert len(text.splitlines()) <= 300, file.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|style=", text), file.name
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)[a-z]", text), file.name
