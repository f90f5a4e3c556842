import re
from typing import Any

import pytest

from looking import BUNDLE, FREE_READER, REFUSED, calm, history, options, places, reader_link, strike
from serving import Look, Service


def test_what_a_link_strikes_out_and_she_does_not_have_can_be_forgotten(look: Look, service: Service) -> None:
    hers = {item["id"] for item in history(service)["items"]}
    strange = next(str(item) for item in range(200) if str(item) not in hers)
    page = look(reader_link(drop_items=strange), expect=(REFUSED,))
    page.locator(".trouble").get_by_text(
        f"Reader {FREE_READER} does not have book {strange} and cannot lose it"
    ).wait_for()
    page.get_by_role("button", name="Take all changes back").click()
    assert len(places(page)) == 20
    page.keyboard.press("Control+z")
    page.get_by_text("was not there").wait_for()
    page.get_by_role("button", name=re.compile("^Forget ")).click()
    assert len(places(page)) == 20
    assert "drop_items" not in page.url


def test_an_unknown_reader_in_a_link_is_told(look: Look) -> None:
    page = look("#tab=readers&user=no-such-reader", expect=(REFUSED,))
    page.locator(".trouble").get_by_text("There is no reader called “no-such-reader” here").wait_for()
    page.get_by_role("button", name="Choose another reader").click()
    page.get_by_role("heading", name="Whose lists").wait_for()


@pytest.mark.parametrize("link", [reader_link(add_items="nope"), f"#tab=studio&bundle={BUNDLE}&add_items=nope"])
def test_an_unknown_thing_in_a_link_leaves_the_desk_and_can_be_taken_away(look: Look, link: str) -> None:
    page = look(link, expect=(REFUSED,))
    page.locator(".things .added").filter(has_text="not known here").wait_for()
    page.locator(".trouble").get_by_text("There is no book called “nope” here.").wait_for()
    page.get_by_role("button", name="Take all changes back").wait_for()
    page.get_by_role("button", name="Take Book nope away again").click()
    page.locator(".trouble").wait_for(state="detached")
    calm(page)
    assert page.locator(".things li:visible").count() > 1
    assert "nope" not in page.url


def test_a_link_without_ids_where_they_belong_is_one_to_nothing(look: Look) -> None:
    page = look("#tab=readers&user=&add_items=&drop_items=")
    page.get_by_role("heading", name="Whose lists").wait_for()
    page.goto(page.url.split("#")[0] + reader_link(add_items="", drop_bundles=""))
    assert len(places(page)) == 20


COUNT = """
window.asked = { all: 0, now: 0, most: 0 };
const real = window.fetch;
window.fetch = async (path, options) => {
  if (!path.startsWith("/api/item")) return real(path, options);
  asked.all += 1;
  asked.now += 1;
  asked.most = Math.max(asked.most, asked.now);
  try { return await real(path, options); } finally { asked.now -= 1; }
};
"""


def test_a_link_with_too_many_changes_is_cut_and_looked_up_gently(look: Look, service: Service) -> None:
    most = service.ask("/api/about")["limits"]["edits"]
    strange = "".join(f"&add_items=none{number}" for number in range(most + 400)) + "&add_items=" + 70_000 * "x"
    page = look(reader_link() + strange, script=COUNT, expect=(REFUSED,))
    page.locator(".notice").get_by_text(f"at most {most} of each sort are here, 401 are left out").wait_for()
    page.locator(".things .added").nth(most - 1).wait_for()
    assert page.locator(".things .added").count() == most == page.url.count("add_items")
    asked = page.evaluate("window.asked")
    assert asked["all"] == most
    assert asked["most"] <= 4
    page.get_by_role("button", name="Start over").click()
    page.locator(".notice").get_by_text("are left out").wait_for(state="detached")
    assert len(places(page)) == 20


def refuse(page: Any, path: str, status: int, error: str, **told: str | None) -> None:
    answer = {"error": error, "request": "r", "kind": None, "id": None} | told
    page.route(path, lambda route: route.fulfill(status=status, json=answer, headers={"retry-after": "0.01"}))


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        ((404, "unknown item 'x': look it up with /api/find?kind=item"), "There is no book called “x” here."),
        ((422, "user user-1 has an item, items and bundles"), "Reader user-1 has a book, books and lists."),
        ((422, "add_items: List should have at most 200 items"), "The service cannot make sense of this question."),
        ((413, "more than 1,048,576 bytes"), "This is more than can be asked at once."),
        (
            (429, "no answer within 20 seconds: ask for fewer edits, a shorter list or less budget"),
            "This takes too long to work out.",
        ),
        (
            (429, "no answer within 20 seconds: others asked before; ask again in a moment"),
            "Others are asking, too, and the service is busy.",
        ),
        ((500, "it broke"), "It broke. Try again; if it stays so, tell whoever runs the service: request r."),
    ],
)
def test_refusals_are_in_words_that_an_editor_can_act_on(
    look: Look, service: Service, refused: tuple[int, str], words: str
) -> None:
    page = look(reader_link(), expect=(REFUSED,))
    places(page)
    missing: dict[str, str | None] = {"kind": "item", "id": "x"} if refused[0] == 404 else {}
    refuse(page, "**/api/whatif/user", *refused, **missing)
    strike(page, history(service)["bundles"][0]["name"])
    page.locator(".trouble").get_by_text(words).wait_for()


def test_what_waited_long_is_not_asked_again_unasked(look: Look, service: Service) -> None:
    slow = """
      const [real, begun] = [window.fetch, performance.now.bind(performance)];
      let late = 0;
      performance.now = () => begun() + late;
      window.fetch = async (path, options) => {
        if (path === "/api/whatif/user") { late += 20000; window.tries = (window.tries ?? 0) + 1; }
        return real(path, options);
      };
    """
    page = look(reader_link(), expect=(REFUSED,), script=slow)
    places(page)
    refuse(page, "**/api/whatif/user", 429, "the service was busy")
    strike(page, history(service)["bundles"][0]["name"])
    page.locator(".trouble").get_by_text("the service is busy").wait_for()
    assert page.evaluate("window.tries") == 2  # one at first, one now


def test_a_failing_search_says_so_after_one_that_showed_all(look: Look) -> None:
    page = look(expect=(REFUSED,))
    box = page.get_by_role("combobox", name="Find a reader")
    box.fill("<img")
    options(page).first.wait_for()
    assert options(page).count() == 1 and not page.locator(".popup .found").first.is_visible()
    page.route("**/api/find*", lambda route: route.abort("connectionrefused"))
    box.fill("no one")
    trouble = page.locator(".popup .trouble")
    trouble.wait_for()
    assert options(page).count() == 0
    assert box.get_attribute("aria-expanded") == "false"
    page.unroute("**/api/find*")
    trouble.get_by_role("button", name="Try again").click()
    page.get_by_text("No readers with “no one”").wait_for()


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


def test_another_artifact_in_its_place_is_told(look: Look) -> None:
    page = look(reader_link())
    places(page)
    page.route(
        "**/api/find*",
        lambda route: route.fulfill(
            json={"kind": "user", "text": "", "total": 0, "found": []}, headers={"x-artifact": "another"}
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
