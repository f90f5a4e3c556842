from typing import Any

from looking import FREE_READER, called, calm, history, names, options, places, reader_link, said, strike, told
from serving import Look, Service


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


def test_undoing_a_step_to_another_reader_is_a_step_for_back(look: Look) -> None:
    page = look(reader_link())
    places(page)
    page.get_by_role("combobox", name="Find a reader").fill("31")
    options(page).first.click()
    page.get_by_role("heading", name="Reader 31", exact=True).wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("heading", name=f"Reader {FREE_READER}", exact=True).wait_for()
    page.go_back()
    page.get_by_role("heading", name="Reader 31", exact=True).wait_for()


def test_taking_an_addition_away_is_not_called_striking_out(look: Look, service: Service) -> None:
    hers = {item["id"] for item in history(service)["items"]}
    new = next(item for item in service.ask("/api/find?kind=item&text=&limit=50")["found"] if item["id"] not in hers)
    page = look(reader_link(add_items=new["id"]))
    page.get_by_role("button", name=f"Take {new['name']} away again").click()
    said(page, f"{new['name']} taken away again")


def test_a_thing_looked_up_for_a_link_that_was_left_is_not_shown(look: Look, service: Service) -> None:
    hers = {item["id"] for item in history(service)["items"]}
    late, other = [str(item) for item in range(99) if str(item) not in hers][:2]
    page = look(reader_link())
    places(page)
    held: list[Any] = []
    page.route(f"**/api/item?id={late}", lambda route: held.append(route))
    start = page.url.split("#")[0]
    with page.expect_request(f"**/api/item?id={late}"):
        page.goto(start + reader_link(add_items=late))
    page.goto(start + reader_link(add_items=other))
    page.locator(f".things .added[data-key='{other}']").wait_for()
    held[0].continue_()
    page.wait_for_timeout(300)
    assert page.locator(".things .added").count() == 1


def test_all_that_she_chose_can_be_shown(look: Look, service: Service) -> None:
    busiest = service.ask("/api/find?kind=user&text=&limit=1")["found"][0]
    items = service.ask(f"/api/user?id={busiest['id']}")["items"]
    assert len(items) > 11
    page = look(f"#tab=readers&user={busiest['id']}")
    places(page)
    books = page.locator(".things").nth(1).locator("li")
    assert books.count() == 8
    page.get_by_role("button", name=f"Show all {len(items)}").click()
    assert books.count() == len(items)
    assert books.nth(8).evaluate("row => row.contains(document.activeElement)")


def test_a_link_is_copied(look: Look) -> None:
    page = look(reader_link())
    places(page)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_where_nothing_can_be_copied_the_link_is_in_the_address_bar(look: Look) -> None:
    page = look(reader_link(), script="navigator.clipboard.writeText = () => Promise.reject(new Error());")
    places(page)
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="It is in the address bar").wait_for()


def test_who_has_an_empty_name_goes_by_the_id(look: Look) -> None:
    page = look()
    node = {"id": "7", "name": "", "size": 1}
    answer = {"kind": "user", "text": "", "total": 1, "found": [node]}
    page.route("**/api/find*", lambda route: route.fulfill(json=answer))
    page.get_by_role("combobox", name="Find a reader").click()
    options(page).filter(has_text="Reader 7").wait_for()
