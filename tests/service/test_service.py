import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from asking import open_service, refused
from clbr.inference.artifact import Artifact, open_artifact
from clbr.inference.edit_requests import contents_edits, history_edits
from clbr.inference.explain import why
from clbr.inference.recommend import of_left, recommend
from clbr.inference.whatif import ask_bundle, ask_user
from clbr.service import limits
from clbr.service.words import Words
from serving import TOKEN


@pytest.fixture(scope="module")
def folder(artifact_of: Callable[[str], Path]) -> Path:
    return artifact_of("crosscbr")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with open_service(folder, words=Words.parse("reader,list,book")) as client:
        yield client


@pytest.fixture(scope="module")
def desk(folder: Path) -> Artifact:
    return open_artifact(folder)


def ask(client: TestClient, path: str, **question: object) -> Any:
    answer = client.post(path, json=question)
    assert answer.status_code == 200, answer.text
    return answer.json()


def user_id(desk: Artifact, user: int = 17) -> str:
    return desk.users.id(user)


def test_the_list_is_the_engines_own(client: TestClient, desk: Artifact) -> None:
    told = client.get("/api/recommend", params={"user": user_id(desk), "top": 7}).json()
    expected = recommend(desk, 17, 7)
    assert [place["id"] for place in told["places"]] == [desk.bundles.id(place.bundle) for place in expected]
    assert [place["score"] for place in told["places"]] == pytest.approx([place.score for place in expected])
    assert [place["place"] for place in told["places"]] == list(range(1, 8))
    assert told["user"] == {"id": user_id(desk), "name": desk.users.names[17] if desk.users.names else None}
    assert told["places"][0]["name"] == desk.bundles.label(expected[0].bundle)


def test_many_lists_at_once_are_those_of_each(client: TestClient, desk: Artifact) -> None:
    users = [user_id(desk, user) for user in (3, 17, 3, 60)]
    told = ask(client, "/api/recommend/batch", users=users, top=4)["lists"]
    alone = [client.get("/api/recommend", params={"user": user, "top": 4}).json() for user in users]
    assert [[place["id"] for place in one["places"]] for one in told] == [
        [place["id"] for place in one["places"]] for one in alone
    ]


def test_a_list_keeps_to_what_is_allowed(client: TestClient, desk: Artifact) -> None:
    allowed = [desk.bundles.id(bundle) for bundle in (1, 2, 3)]
    told = ask(client, "/api/recommend", user=user_id(desk), allow=allowed, deny=allowed[:1], keep_chosen=True)
    assert {place["id"] for place in told["places"]} == set(allowed[1:])
    assert ask(client, "/api/recommend", user=user_id(desk), allow=[])["places"] == []


def test_someone_never_seen_is_recommended_to_by_her_likes(client: TestClient, desk: Artifact) -> None:
    told = ask(client, "/api/recommend", likes_items=[desk.items.id(3)], likes_bundles=[desk.bundles.id(5)], top=5)
    assert told["user"] is None and len(told["places"]) == 5
    assert desk.bundles.id(5) not in [place["id"] for place in told["places"]]
    refused(client.post("/api/recommend", json={"top": 5}), 422, "expected a user", "likes")
    both = {"user": user_id(desk), "likes_items": [desk.items.id(3)]}
    refused(client.post("/api/recommend", json=both), 422, "one of them")


def test_what_if_of_a_user_is_the_engines_own(client: TestClient, desk: Artifact) -> None:
    had = of_left(desk.graph.ui.pairs, 17)
    new = next(item for item in range(desk.about.items) if item not in had)
    edits = history_edits(desk, 17, add_items=(new,), drop_items=(int(had[0]),))
    expected = ask_user(desk, 17, edits, 6)
    told = ask(
        client,
        "/api/whatif/user",
        user=user_id(desk),
        add_items=[desk.items.id(new)],
        drop_items=[desk.items.id(int(had[0]))],
        top=6,
    )
    assert [move["after"] for move in told["moves"]] == [move.after for move in expected.moves]
    assert [move["before"] for move in told["moves"]] == [move.before for move in expected.moves]
    assert "parameters stay as trained" in told["note"]


def test_what_if_of_a_bundle_is_the_engines_own(client: TestClient, desk: Artifact) -> None:
    item = int(of_left(desk.graph.bi.pairs, 5)[0])
    expected = ask_bundle(desk, 5, contents_edits(desk, 5, drop_items=(item,)), 6)
    told = ask(client, "/api/whatif/bundle", bundle=desk.bundles.id(5), drop_items=[desk.items.id(item)], top=6)
    assert (told["before"], told["after"]) == (len(expected.before), len(expected.after))
    assert told["entered_count"] == len(expected.entered) and told["left_count"] == len(expected.left)
    assert [one["id"] for one in told["left"]] == [desk.users.id(int(user)) for user in expected.left[:50]]
    assert sum(part["after"] for part in told["segments"].values()) == told["after"]


def test_why_is_the_engines_own(client: TestClient, desk: Artifact) -> None:
    first = recommend(desk, 17, 1)[0].bundle
    expected = why(desk, 17, first, 5)
    told = ask(client, "/api/explain", user=user_id(desk), bundle=desk.bundles.id(first), top=5)
    assert told["question"] == "why" and told["place"] == 1
    assert len(told["things"]) == len(expected.things) and told["rank_after"] == expected.rank_after
    beyond = recommend(desk, 17, 40)[-1].bundle
    told = ask(client, "/api/explain", user=user_id(desk), bundle=desk.bundles.id(beyond), top=5)
    assert told["question"] == "history" and told["place"] > 5
    told = ask(client, "/api/explain", user=user_id(desk), bundle=desk.bundles.id(beyond), top=5, of="contents")
    assert told["question"] == "contents"


def test_suggestions_name_a_gain(client: TestClient, desk: Artifact) -> None:
    found = [ask(client, "/api/suggest", bundle=desk.bundles.id(b), top=5, count=2) for b in range(0, 12, 2)]
    assert any(told["swaps"] for told in found)
    for told in found:
        assert len(told["swaps"]) <= 2
        assert all(swap["gain"] == swap["audience"] - told["audience"] > 0 for swap in told["swaps"])


def test_nodes_are_looked_up_and_searched(client: TestClient, desk: Artifact) -> None:
    told = client.get("/api/user", params={"id": user_id(desk)}).json()
    assert [one["id"] for one in told["items"]] == [desk.items.id(int(i)) for i in of_left(desk.graph.ui.pairs, 17)]
    assert told["segment"] in ("heavy", "light", "cold")
    told = client.get("/api/bundle", params={"id": desk.bundles.id(5)}).json()
    assert told["chosen_by"] == int((desk.chosen[:, 1] == 5).sum()) and told["items"]
    told = client.get("/api/item", params={"id": desk.items.id(3)}).json()
    assert told["users"] == int((desk.graph.ui.pairs[:, 1] == 3).sum())
    name = desk.bundles.label(5)
    told = client.get("/api/find", params={"kind": "bundle", "text": name.upper()}).json()
    assert name in [one["name"] for one in told["found"]]


def test_the_service_tells_about_itself(client: TestClient, desk: Artifact) -> None:
    told = client.get("/api/about").json()
    assert told["model"] == "crosscbr" and told["users"] == desk.about.users and told["supports_whatif"]
    assert told["words"] == {"user": ["reader", "readers"], "bundle": ["list", "lists"], "item": ["book", "books"]}
    assert told["card"].startswith("# crosscbr on") and not told["report"]
    for path, status in (("/live", "live"), ("/ready", "ready")):
        assert client.get(path).json() == {"status": status}


def test_every_answer_says_which_artifact_gave_it_and_to_which_request(client: TestClient) -> None:
    answer = client.get("/api/about", headers={"x-request-id": "mine-7"})
    assert answer.headers["x-request-id"] == "mine-7"
    assert answer.headers["x-artifact"] == answer.json()["artifact"]
    other = client.get("/api/about", headers={"x-request-id": "not\tmine"}).headers["x-request-id"]
    assert other != "not\tmine" and len(other) == 16


@pytest.mark.parametrize(
    "path, question, status, words",
    [
        ("/api/whatif/user", {"user": "nobody"}, 404, ["unknown user 'nobody'", "/api/find"]),
        ("/api/whatif/user", {"user": "{17}", "add_items": ["{i3}", "{i3}"]}, 422, ["added twice"]),
        ("/api/whatif/user", {"user": "{17}", "add_items": ["{i3}"], "drop_items": ["{i3}"]}, 422, ["choose one"]),
        ("/api/whatif/user", {"user": "{17}", "add_itmes": []}, 422, ["add_itmes"]),
        ("/api/whatif/user", {"user": 17.5}, 422, ["user", "string"]),
        ("/api/whatif/user", {"user": "{17}", "top": True}, 422, ["top", "integer"]),
        ("/api/whatif/user", {"user": "{17}", "top": "5"}, 422, ["top", "integer"]),
        ("/api/recommend/batch", {"users": ["{17}"] * 900, "top": 90}, 422, ["20,000"]),
        ("/api/whatif/user", {"user": "{17}", "add_items": ["x"] * 201}, 422, ["add_items", "200"]),
        ("/api/whatif/bundle", {"bundle": "x" * 201}, 422, ["bundle", "200"]),
        ("/api/recommend/batch", {"users": []}, 422, ["users"]),
        ("/api/recommend/batch", {"users": ["{17}"], "top": 101}, 422, ["top", "100"]),
        ("/api/recommend/batch", {"users": ["{17}"] * 1001}, 422, ["users", "1000"]),
        ("/api/explain", {"user": "{17}", "bundle": "{b}", "budget": 100000}, 422, ["budget"]),
        ("/api/recommend", {"user": "{17}", "diversity": 2}, 422, ["diversity"]),
    ],
)
def test_bad_questions_are_refused_in_words(
    client: TestClient, desk: Artifact, path: str, question: dict[str, Any], status: int, words: list[str]
) -> None:
    text = json.dumps(question)
    for mark, id in (("{17}", user_id(desk)), ("{i3}", desk.items.id(3)), ("{b}", desk.bundles.id(0))):
        text = text.replace(mark, id)
    refused(client.post(path, content=text, headers={"content-type": "application/json"}), status, *words)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 100_000, b'{"user": "\\ud800"}', b"\xff\xfe", b'{"user": NaN}', b"null", b'"x"']
)
def test_bodies_that_are_no_question_are_refused(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/whatif/user", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert set(answer.json()) == {"error", "request", "kind", "id"}


def test_an_unknown_node_is_named_apart(client: TestClient) -> None:
    told = client.get("/api/item", params={"id": "nope"}).json()
    assert (told["kind"], told["id"]) == ("item", "nope")


def test_an_unknown_key_of_an_address_is_refused(client: TestClient, desk: Artifact) -> None:
    refused(client.get("/api/recommend", params={"user": user_id(desk), "topp": 5}), 422, "topp")


def test_unknown_paths_and_methods_are_refused(client: TestClient) -> None:
    refused(client.get("/api/nothing"), 404, "/openapi.json")
    refused(client.delete("/api/about"), 405, "DELETE")
    assert client.delete("/api/about").headers["allow"] == "GET"
    for name in ("..%2fapp.py", "app.py", "none.js", "%00.js", "a/b.js"):
        refused(client.get(f"/page/{name}"), 404)


def test_a_body_over_the_limit_is_refused_however_it_comes(client: TestClient) -> None:
    refused(client.post("/api/whatif/user", content=b"x" * (limits.BODY + 1)), 413, "1,048,576")

    def pieces() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * 65536

    refused(client.post("/api/whatif/user", content=pieces()), 413, "1,048,576")


def test_a_model_that_cannot_be_asked_recommends_and_says_so(artifact_of: Callable[[str], Path]) -> None:
    with open_service(artifact_of("bprmf")) as client:
        assert not client.get("/api/about").json()["supports_whatif"]
        user = client.get("/api/find", params={"kind": "user"}).json()["found"][0]["id"]
        assert len(client.get("/api/recommend", params={"user": user, "top": 5}).json()["places"]) == 5
        refused(client.post("/api/whatif/user", json={"user": user}), 409, "crosscbr or bgcn")


def test_with_a_token_nothing_is_told_without_it(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "clbr.serve")
    with open_service(folder, token=TOKEN) as client:
        for path in ("/api/about", "/metrics", "/openapi.json", "/admin/reload"):
            refused(client.get(path), 401, "Authorization: Bearer")
            refused(client.get(path, headers={"authorization": "Bearer wrong"}), 401)
        assert client.get("/live").status_code == client.get("/ready").status_code == 200
        answer = client.get("/api/about", headers={"authorization": f"bearer {TOKEN}", "host": "desk.example"})
        assert answer.status_code == 200
        schema = client.get("/openapi.json", headers={"authorization": f"Bearer {TOKEN}"}).json()
        assert schema["security"] == [{"token": []}]
    assert len(caplog.records) > 8 and TOKEN not in caplog.text + repr([vars(one) for one in caplog.records])


def test_pages_of_other_origins_and_names_that_point_here_are_refused(client: TestClient) -> None:
    refused(client.post("/admin/reload", headers={"origin": "http://evil.example"}), 403, "another origin")
    refused(client.get("/api/about", headers={"host": "evil.example"}), 403, "127.0.0.1")
    assert client.get("/api/about", headers={"origin": "http://127.0.0.1"}).status_code == 200
    assert client.get("/api/about", headers={"host": "[::1]:8000"}).status_code == 200


def test_probes_are_answered_when_the_house_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_service(folder) as client:
        monkeypatch.setattr(limits, "AT_ONCE", 0)
        refused(client.get("/api/about"), 429, "in a moment")
        assert client.get("/live").status_code == client.get("/metrics").status_code == 200


def test_measures_are_kept_by_route(client: TestClient, desk: Artifact) -> None:
    client.get("/api/user", params={"id": user_id(desk)})
    client.get("/api/user", params={"id": "nobody"})
    text = client.get("/metrics").text
    assert 'clbr_requests_total{route="/api/user",status="404"}' in text
    assert 'clbr_request_seconds_bucket{le="0.005",route="/api/user"}' in text
    assert 'model="crosscbr"' in text


def test_a_report_can_be_opened_for_a_minute_where_there_is_one(
    folder: Path, client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "report.html"
    page.write_text("<!doctype html><title>Overall</title>")
    bearer = {"authorization": f"Bearer {TOKEN}"}
    with open_service(folder, report=page, token=TOKEN) as other:
        refused(other.post("/api/report"), 401)
        path = other.post("/api/report", headers=bearer).json()["path"]
        answer = other.get(path)
        assert answer.text == page.read_text() and "sandbox" in answer.headers["content-security-policy"]
        assert other.get("/api/about", headers=bearer).json()["report"]
        refused(other.get("/report/guessed"), 404, "again")
        page.unlink()
        refused(other.get(path), 404, "report.html")
        page.write_text("there again")
        monkeypatch.setattr(limits, "PASS_SECONDS", -1)
        refused(other.get(other.post("/api/report", headers=bearer).json()["path"]), 404, "a minute")
    refused(client.post("/api/report"), 404, "--report")


def test_a_browser_that_has_a_file_is_not_sent_it_again(client: TestClient) -> None:
    first = client.get("/")
    assert first.status_code == 200 and "default-src 'none'" in first.headers["content-security-policy"]
    again = client.get("/", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304 and not again.content


def test_a_fault_of_the_service_is_logged_and_says_no_more_than_that(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("clbr.service.answers.about", lambda *_: 1 / 0)
    with open_service(folder) as client:
        refused(client.get("/api/about"), 500, "the log knows")
        assert client.get("/live").status_code == 200
    assert "ZeroDivisionError" in caplog.text


def test_words_have_plurals() -> None:
    assert Words.parse("person/people, box/boxes, dish/dishes").user == ("person", "people")
    for wrong in ("reader,list", "a,b,c,d", "a,,c", "a/,b,c"):
        with pytest.raises(ValueError, match="--words"):
            Words.parse(wrong)
