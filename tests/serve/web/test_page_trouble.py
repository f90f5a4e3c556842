from typing import Any

from looking import FREE_READER, REFUSED, history, options, places, reader_link, strike
from serving import Look, Service


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
