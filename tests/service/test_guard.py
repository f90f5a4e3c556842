"""Requests that the service rejects: bad input, limits, tokens, origins; and what it logs and counts."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from clbr.service.limits import DEFAULT, Limits
from service_helpers import TOKEN, assert_error, make_client

USER, BUNDLE, ITEM = "17", "0", "3"


@pytest.fixture(scope="module")
def folder(artifact_of: Callable[[str], Path]) -> Path:
    return artifact_of("crosscbr")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with make_client(folder) as client:
        yield client


@pytest.mark.parametrize(
    "path, request_body, status, words",
    [
        ("/v1/whatif", {"user": "nobody"}, 404, ["unknown user 'nobody'", "/v1/find"]),
        ("/v1/whatif", {"user": USER, "add_items": [ITEM, ITEM]}, 422, ["added twice"]),
        ("/v1/whatif", {"user": USER, "add_items": [ITEM], "drop_items": [ITEM]}, 422, ["choose one"]),
        ("/v1/whatif", {"user": USER, "add_itmes": []}, 422, ["add_itmes"]),
        ("/v1/whatif", {"user": 17.5}, 422, ["user", "string"]),
        ("/v1/whatif", {"user": USER, "k": True}, 422, ["k", "integer"]),
        ("/v1/whatif", {"user": USER, "k": "5"}, 422, ["k", "integer"]),
        ("/v1/recommend/batch", {"users": [USER] * 900, "k": 90}, 422, ["20,000"]),
        ("/v1/whatif", {"user": USER, "add_items": ["x"] * 201}, 422, ["add_items", "200"]),
        ("/v1/audience", {"bundle": "x" * 201}, 422, ["bundle", "200"]),
        ("/v1/audience", {"bundle": BUNDLE, "max_users": 100_001}, 422, ["max_users", "100000"]),
        ("/v1/audience", {"bundle": BUNDLE, "swap": [[ITEM]]}, 422, ["swap"]),
        ("/v1/audience/new", {"items": []}, 422, ["items"]),
        ("/v1/audience/new", {"items": ["nope"]}, 404, ["unknown item 'nope'"]),
        ("/v1/recommend/batch", {"users": []}, 422, ["users"]),
        ("/v1/recommend/batch", {"users": [USER], "k": 101}, 422, ["k", "100"]),
        ("/v1/recommend/batch", {"users": [USER] * 1001}, 422, ["users", "1000"]),
        ("/v1/explain", {"user": USER, "bundle": BUNDLE, "budget": 100000}, 422, ["budget"]),
        ("/v1/recommend", {"user": USER, "diversity": 2}, 422, ["diversity"]),
    ],
)
def test_a_bad_request_is_rejected_with_the_reason(
    client: TestClient, path: str, request_body: dict[str, Any], status: int, words: list[str]
) -> None:
    assert_error(client.post(path, json=request_body), status, *words)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 100_000, b'{"user": "\\ud800"}', b"\xff\xfe", b'{"user": NaN}', b"null", b'"x"']
)
def test_a_body_that_is_no_json_object_is_rejected(client: TestClient, body: bytes) -> None:
    answer = client.post("/v1/whatif", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert set(answer.json()) == {"error", "request", "kind", "id"}


def test_the_error_of_an_unknown_id_names_its_kind_and_the_id(client: TestClient) -> None:
    payload = client.get("/v1/item", params={"id": "nope"}).json()
    assert (payload["kind"], payload["id"]) == ("item", "nope")


def test_an_unknown_key_in_an_address_is_rejected(client: TestClient) -> None:
    assert_error(client.get("/v1/recommend", params={"user": USER, "top": 5}), 422, "top")


def test_unknown_paths_and_methods_are_rejected(client: TestClient) -> None:
    assert_error(client.get("/v1/nothing"), 404, "/openapi.json")
    assert_error(client.delete("/v1/about"), 405, "DELETE")
    assert client.delete("/v1/about").headers["allow"] == "GET, HEAD"
    assert client.delete("/v1/recommend").headers["allow"] == "GET, HEAD, POST"
    assert client.get("/v1/whatif").headers["allow"] == "POST"
    for name in ("..%2fapp.py", "app.py", "none.js", "%00.js", "a/b.js"):
        assert_error(client.get(f"/page/{name}"), 404)


def test_a_body_over_the_limit_is_rejected_with_and_without_a_stated_length(client: TestClient) -> None:
    assert_error(client.post("/v1/whatif", content=b"x" * (DEFAULT.body_bytes + 1)), 413, "1,048,576")

    def pieces() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * 65536

    assert_error(client.post("/v1/whatif", content=pieces()), 413, "1,048,576")


def test_a_service_with_a_token_answers_nothing_without_it(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "clbr.service")
    with make_client(folder, token=TOKEN) as client:
        for path in ("/v1/about", "/metrics", "/openapi.json", "/admin/reload"):
            assert_error(client.get(path), 401, "Authorization: Bearer")
            assert_error(client.get(path, headers={"authorization": "Bearer wrong"}), 401)
        assert client.get("/live").status_code == client.get("/ready").status_code == 200
        answer = client.get("/v1/about", headers={"authorization": f"bearer {TOKEN}", "host": "shop.example"})
        assert answer.status_code == 200
        schema = client.get("/openapi.json", headers={"authorization": f"Bearer {TOKEN}"}).json()
        assert schema["security"] == [{"token": []}]
    assert len(caplog.records) > 8 and TOKEN not in caplog.text + repr([vars(one) for one in caplog.records])


def test_other_origins_and_other_host_names_are_rejected(client: TestClient) -> None:
    assert_error(client.post("/admin/reload", headers={"origin": "http://evil.example"}), 403, "another origin")
    assert_error(client.get("/v1/about", headers={"host": "evil.example"}), 403, "127.0.0.1")
    assert client.get("/v1/about", headers={"origin": "http://127.0.0.1"}).status_code == 200
    assert client.get("/v1/about", headers={"host": "[::1]:8000"}).status_code == 200


def test_the_routes_of_before_are_gone(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    root = {path for path in paths if not path.startswith("/v1/")}
    assert root == {"/admin/reload", "/live", "/ready", "/metrics"} and len(paths) == len(root) + 15
    assert_error(client.get("/api/about"), 404)


@pytest.mark.parametrize(
    "path", ["/", "/page/main.js", "/live", "/ready", "/metrics", "/openapi.json", "/v1/about", "/v1/user?id=17"]
)
def test_head_is_get_without_the_body(client: TestClient, path: str) -> None:
    head, get = client.head(path), client.get(path)
    assert head.status_code == get.status_code == 200 and get.content and not head.content
    if path != "/metrics":  # it counts the request before
        assert head.headers["content-length"] == get.headers["content-length"] == str(len(get.content))
    assert head.headers["content-type"] == get.headers["content-type"]


def test_head_has_the_status_of_get_and_no_more(client: TestClient) -> None:
    assert client.head("/v1/user?id=nobody").status_code == 404
    assert client.head("/v1/whatif").status_code == 405
    assert client.head("/v1/about", headers={"host": "evil.example"}).status_code == 403


def test_probes_are_answered_at_the_limit_of_concurrent_requests(folder: Path) -> None:
    with make_client(folder, DEFAULT.model_copy(update={"concurrent": 0})) as client:
        assert_error(client.get("/v1/about"), 429, "in a moment")
        assert client.get("/live").status_code == client.get("/metrics").status_code == 200


def test_requests_are_counted_by_route(client: TestClient) -> None:
    client.get("/v1/user", params={"id": USER})
    client.get("/v1/user", params={"id": "nobody"})
    text = client.get("/metrics").text
    assert 'clbr_requests_total{route="/v1/user",status="404"}' in text
    assert 'clbr_request_seconds_bucket{le="0.005",route="/v1/user"}' in text
    assert 'model="crosscbr"' in text


def test_a_report_can_be_opened_for_a_minute(folder: Path, client: TestClient, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("<!doctype html><title>Overall</title>")
    bearer = {"authorization": f"Bearer {TOKEN}"}
    with make_client(folder, report=page, token=TOKEN) as other:
        assert_error(other.post("/v1/report"), 401)
        path = other.post("/v1/report", headers=bearer).json()["path"]
        answer = other.get(path)
        assert answer.text == page.read_text() and "sandbox" in answer.headers["content-security-policy"]
        assert other.get("/v1/about", headers=bearer).json()["report"]
        assert_error(other.get("/report/guessed"), 404, "again")
        page.unlink()
        assert_error(other.get(path), 404, "report.html")
        page.write_text("written again")
    with make_client(folder, Limits(report_seconds=1e-9), report=page, token=TOKEN) as other:
        assert_error(other.get(other.post("/v1/report", headers=bearer).json()["path"]), 404, "no longer")
    assert_error(client.post("/v1/report"), 404, "without an experiment report")


def test_a_file_that_the_browser_has_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/")
    assert first.status_code == 200 and "default-src 'none'" in first.headers["content-security-policy"]
    again = client.get("/", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304 and not again.content


def test_a_fault_of_the_service_is_logged_and_its_details_are_not_sent(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("clbr.service.routes._about", lambda *_: 1 / 0)
    with make_client(folder) as client:
        answer = client.get("/v1/about")
        assert_error(answer, 500, "the service's log says what")
        assert "Zero" not in answer.text
        assert client.get("/live").status_code == 200
    assert "ZeroDivisionError" in caplog.text
