"""Requests that the service rejects: bad input, limits, tokens, origins; and what it logs and counts."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from clbr.service import limits
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
        ("/api/whatif", {"user": "nobody"}, 404, ["unknown user 'nobody'", "/api/find"]),
        ("/api/whatif", {"user": USER, "add_items": [ITEM, ITEM]}, 422, ["added twice"]),
        ("/api/whatif", {"user": USER, "add_items": [ITEM], "drop_items": [ITEM]}, 422, ["choose one"]),
        ("/api/whatif", {"user": USER, "add_itmes": []}, 422, ["add_itmes"]),
        ("/api/whatif", {"user": 17.5}, 422, ["user", "string"]),
        ("/api/whatif", {"user": USER, "k": True}, 422, ["k", "integer"]),
        ("/api/whatif", {"user": USER, "k": "5"}, 422, ["k", "integer"]),
        ("/api/recommend/batch", {"users": [USER] * 900, "k": 90}, 422, ["20,000"]),
        ("/api/whatif", {"user": USER, "add_items": ["x"] * 201}, 422, ["add_items", "200"]),
        ("/api/audience", {"bundle": "x" * 201}, 422, ["bundle", "200"]),
        ("/api/audience", {"bundle": BUNDLE, "max_users": 1001}, 422, ["max_users", "1000"]),
        ("/api/audience", {"bundle": BUNDLE, "swap": [[ITEM]]}, 422, ["swap"]),
        ("/api/audience/new", {"items": []}, 422, ["items"]),
        ("/api/audience/new", {"items": ["nope"]}, 404, ["unknown item 'nope'"]),
        ("/api/recommend/batch", {"users": []}, 422, ["users"]),
        ("/api/recommend/batch", {"users": [USER], "k": 101}, 422, ["k", "100"]),
        ("/api/recommend/batch", {"users": [USER] * 1001}, 422, ["users", "1000"]),
        ("/api/explain", {"user": USER, "bundle": BUNDLE, "budget": 100000}, 422, ["budget"]),
        ("/api/recommend", {"user": USER, "diversity": 2}, 422, ["diversity"]),
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
    answer = client.post("/api/whatif", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert set(answer.json()) == {"error", "request", "kind", "id"}


def test_the_error_of_an_unknown_id_names_its_kind_and_the_id(client: TestClient) -> None:
    payload = client.get("/api/item", params={"id": "nope"}).json()
    assert (payload["kind"], payload["id"]) == ("item", "nope")


def test_an_unknown_key_in_an_address_is_rejected(client: TestClient) -> None:
    assert_error(client.get("/api/recommend", params={"user": USER, "top": 5}), 422, "top")


def test_unknown_paths_and_methods_are_rejected(client: TestClient) -> None:
    assert_error(client.get("/api/nothing"), 404, "/openapi.json")
    assert_error(client.delete("/api/about"), 405, "DELETE")
    assert client.delete("/api/about").headers["allow"] == "GET"
    for name in ("..%2fapp.py", "app.py", "none.js", "%00.js", "a/b.js"):
        assert_error(client.get(f"/page/{name}"), 404)


def test_a_body_over_the_limit_is_rejected_with_and_without_a_stated_length(client: TestClient) -> None:
    assert_error(client.post("/api/whatif", content=b"x" * (limits.BODY_BYTES + 1)), 413, "1,048,576")

    def pieces() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * 65536

    assert_error(client.post("/api/whatif", content=pieces()), 413, "1,048,576")


def test_a_service_with_a_token_answers_nothing_without_it(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "clbr.service")
    with make_client(folder, token=TOKEN) as client:
        for path in ("/api/about", "/metrics", "/openapi.json", "/admin/reload"):
            assert_error(client.get(path), 401, "Authorization: Bearer")
            assert_error(client.get(path, headers={"authorization": "Bearer wrong"}), 401)
        assert client.get("/live").status_code == client.get("/ready").status_code == 200
        answer = client.get("/api/about", headers={"authorization": f"bearer {TOKEN}", "host": "shop.example"})
        assert answer.status_code == 200
        schema = client.get("/openapi.json", headers={"authorization": f"Bearer {TOKEN}"}).json()
        assert schema["security"] == [{"token": []}]
    assert len(caplog.records) > 8 and TOKEN not in caplog.text + repr([vars(one) for one in caplog.records])


def test_other_origins_and_other_host_names_are_rejected(client: TestClient) -> None:
    assert_error(client.post("/admin/reload", headers={"origin": "http://evil.example"}), 403, "another origin")
    assert_error(client.get("/api/about", headers={"host": "evil.example"}), 403, "127.0.0.1")
    assert client.get("/api/about", headers={"origin": "http://127.0.0.1"}).status_code == 200
    assert client.get("/api/about", headers={"host": "[::1]:8000"}).status_code == 200


def test_probes_are_answered_at_the_limit_of_concurrent_requests(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with make_client(folder) as client:
        monkeypatch.setattr(limits, "CONCURRENT", 0)
        assert_error(client.get("/api/about"), 429, "in a moment")
        assert client.get("/live").status_code == client.get("/metrics").status_code == 200


def test_requests_are_counted_by_route(client: TestClient) -> None:
    client.get("/api/user", params={"id": USER})
    client.get("/api/user", params={"id": "nobody"})
    text = client.get("/metrics").text
    assert 'clbr_requests_total{route="/api/user",status="404"}' in text
    assert 'clbr_request_seconds_bucket{le="0.005",route="/api/user"}' in text
    assert 'model="crosscbr"' in text
    for name in ("clbr_requests_active", "clbr_requests_waiting"):
        assert f"\n{name} " in text
    for result in ("swapped", "rejected"):
        assert f'clbr_artifact_swaps{{result="{result}"}} 0.0' in text


def test_a_report_can_be_opened_for_a_minute(
    folder: Path, client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "report.html"
    page.write_text("<!doctype html><title>Overall</title>")
    bearer = {"authorization": f"Bearer {TOKEN}"}
    with make_client(folder, report=page, token=TOKEN) as other:
        assert_error(other.post("/api/report"), 401)
        path = other.post("/api/report", headers=bearer).json()["path"]
        answer = other.get(path)
        assert answer.text == page.read_text() and "sandbox" in answer.headers["content-security-policy"]
        assert other.get("/api/about", headers=bearer).json()["report"]
        assert_error(other.get("/report/guessed"), 404, "again")
        page.unlink()
        assert_error(other.get(path), 404, "report.html")
        page.write_text("written again")
        monkeypatch.setattr(limits, "REPORT_SECONDS", -1)
        assert_error(other.get(other.post("/api/report", headers=bearer).json()["path"]), 404, "a minute")
    assert_error(client.post("/api/report"), 404, "without an experiment report")


def test_a_file_that_the_browser_has_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/")
    assert first.status_code == 200 and "default-src 'none'" in first.headers["content-security-policy"]
    again = client.get("/", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304 and not again.content


def test_a_fault_of_the_service_is_logged_and_its_details_are_not_sent(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("clbr.service.app._about", lambda *_: 1 / 0)
    with make_client(folder) as client:
        answer = client.get("/api/about")
        assert_error(answer, 500, "the service's log says what")
        assert "Zero" not in answer.text
        assert client.get("/live").status_code == 200
    assert "ZeroDivisionError" in caplog.text
