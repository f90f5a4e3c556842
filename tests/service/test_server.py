import json
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from clbr.inference.recommender import Recommender
from clbr.inference.stopping import check_stop
from clbr.service.app import make_app
from clbr.service.limits import DEFAULT
from clbr.service.pages import ServiceConfig
from clbr.service.server import make_server
from clbr.service.worker import Worker
from service_helpers import TOKEN, start_service, wait_until_ready
from typed import Run


@contextmanager
def running_service(artifact: Path, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A service in a process of its own, and its address."""
    process = start_service(artifact, *options, stderr=subprocess.PIPE, **environment)
    try:
        yield process, wait_until_ready(process).address
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def folder(artifact_of: Callable[[str], Path]) -> Path:
    return artifact_of("crosscbr")


def test_a_swap_under_load_fails_no_request_and_mixes_no_answer(
    artifact_of: Callable[[str], Path], tmp_path: Path
) -> None:
    link = tmp_path / "current"
    link.symlink_to(artifact_of("crosscbr"))
    with running_service(link) as (_, address):
        seen: dict[str, set[str]] = {}
        wrong: list[str] = []
        stop = threading.Event()

        def load() -> None:
            with httpx2.Client(base_url=address) as client:
                while not stop.is_set():
                    for answer in (
                        client.get("/v1/recommend", params={"user": "17", "k": 5}),
                        client.post("/v1/whatif", json={"user": "17", "add_bundles": ["5"], "k": 5}),
                    ):
                        if answer.status_code != 200:
                            wrong.append(answer.text)
                        content = json.dumps(answer.json().get("recommended") or answer.json()["moves"])
                        seen.setdefault(answer.headers["x-artifact"] + str(answer.url), set()).add(content)

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        swaps = []
        for model in ("bgcn", "crosscbr", "bgcn"):
            (tmp_path / "next").symlink_to(artifact_of(model))
            (tmp_path / "next").rename(link)
            swaps.append(httpx2.post(f"{address}/admin/reload", timeout=60).json()["after"])
            time.sleep(0.3)
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong and len(set(swaps)) == 2
    assert len(seen) == 4 and all(len(answers) == 1 for answers in seen.values())  # two artifacts, two requests


def test_after_a_signal_the_running_request_is_answered(folder: Path) -> None:
    with running_service(folder, "--log", "info") as (process, address):
        answers: list[int] = []
        thread = threading.Thread(
            target=lambda: answers.append(
                httpx2.post(f"{address}/v1/suggest", json={"bundle": "5"}, timeout=60).status_code
            )
        )
        thread.start()
        while "clbr_requests_waiting 1.0" not in httpx2.get(f"{address}/metrics").text and not answers:
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        thread.join(60)
        _, log = process.communicate(timeout=60)
    assert answers == [200]
    lines = [json.loads(line) for line in log.splitlines()]
    assert {"time", "level", "event", "request", "method", "path", "status", "ms", "artifact"} == set(lines[0])
    assert [line["path"] for line in lines if line["event"] == "answered"][-1] == "/v1/suggest"


def test_slow_and_greedy_clients_are_disconnected_and_others_answered(folder: Path) -> None:
    with running_service(folder, "--set", "body_seconds=0.3") as (_, address):
        host, port = address.removeprefix("http://").split(":")
        endpoint = (host, int(port))
        with socket.create_connection(endpoint, 30) as head, socket.create_connection(endpoint, 30) as body:
            head.sendall(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
            body.sendall(
                b"POST /v1/whatif HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                b'Content-Length: 1000\r\n\r\n{"user": '
            )
            assert httpx2.get(f"{address}/live").status_code == 200
            assert body.recv(4096).startswith(b"HTTP/1.1 408")
            assert head.recv(4096) == b""  # closed
        with socket.create_connection(endpoint, 30) as long:
            try:
                long.sendall(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"x" * (1 << 22))
            except OSError:
                pass  # it was closed while the client was sending
            else:
                assert b" 431 " in long.recv(4096)
        with socket.create_connection(endpoint, 30) as unread:  # sends requests and reads no answer
            unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            unread.setblocking(False)
            request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                try:
                    unread.sendall(request)
                except BlockingIOError:
                    time.sleep(0.01)
                except OSError:
                    break  # it was disconnected
            assert time.monotonic() < deadline
        assert httpx2.get(f"{address}/live").status_code == 200


def test_a_token_from_the_environment_is_required_and_never_logged(folder: Path) -> None:
    with running_service(folder, "--log", "info", "--host", "0.0.0.0", CLBR_TOKEN=TOKEN) as (process, address):
        address = address.replace("0.0.0.0", "127.0.0.1")
        assert httpx2.get(f"{address}/v1/about").status_code == 401
        headers = {"authorization": f"Bearer {TOKEN}"}
        assert httpx2.get(f"{address}/v1/about", headers=headers).status_code == 200
        process.send_signal(signal.SIGINT)
        out, log = process.communicate(timeout=60)
    assert TOKEN not in out + log and '"status": 401' in log


def test_bad_options_are_rejected(run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLBR_TOKEN", raising=False)
    short = tmp_path / "token"
    short.write_text("short")
    unknown = tmp_path / "limits.toml"
    unknown.write_text("queu = 3\n")
    taken = socket.create_server(("127.0.0.1", 0))
    port = str(taken.getsockname()[1])
    for options, message in (
        (["--host", "0.0.0.0"], "needs a token"),
        (["--token-file", str(short)], "at least 16"),
        (["--token-file", str(tmp_path / "none")], "none"),
        (["--words", "reader"], "expected words for users, bundles and items: reader,list,book (--words)"),
        (["--report", str(tmp_path)], "no such file"),
        (["--port", port], "try another --port"),
        (["--log", "everything"], "'everything'"),
        (["--config", str(tmp_path / "none.toml")], "none.toml: No such file"),
        (["--config", str(unknown)], "limits.toml: unknown key 'queu', did you mean 'queue'?"),
        (["--set", "k=many"], "--set: k = 'many': Input should be a valid integer"),
        (["--set", "answer_seconds=0"], "--set: answer_seconds = 0: Input should be greater than 0"),
        (["--set", "answer_second=1"], "--set: unknown key 'answer_second', did you mean 'answer_seconds'?"),
    ):
        code, _, err = run("serve", str(folder), *options)
        assert code == 2 and message in err, err
    code, _, err = run("serve", str(tmp_path), "--port", "0")
    assert code == 2 and "no recommender there" in err
    taken.close()


def test_limits_come_from_a_file_and_options_go_before_it(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text("k = 7\nedits = 3\nbody_bytes = 2048\n")
    with running_service(folder, "--config", str(file), "--set", "edits=2") as (_, address):
        limits = httpx2.get(f"{address}/v1/about").json()["limits"]
        assert limits == DEFAULT.model_dump() | {"k": 7, "edits": 2, "body_bytes": 2048}
        too_long = httpx2.get(f"{address}/v1/recommend", params={"user": "17", "k": 8})
        assert (too_long.status_code, too_long.json()["error"]) == (422, "k: Expected at most 7")
        usual = httpx2.get(f"{address}/v1/recommend", params={"user": "17"}).json()
        assert usual["k"] == len(usual["recommended"]) == 7  # 20 are above the limit
        assert httpx2.post(f"{address}/v1/whatif", content=b" " * 2049).status_code == 413
        schema = httpx2.get(f"{address}/openapi.json").json()["components"]["schemas"]["WhatIfRequest"]["properties"]
        assert (schema["k"]["maximum"], schema["k"]["default"], schema["add_items"]["maxItems"]) == (7, 7, 2)


def test_a_damaged_artifact_at_the_start_ends_the_command_with_one_line(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "artifact")
    (copy / "vectors.safetensors").write_bytes(b"damaged")
    process = start_service(copy, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err.startswith("error: ") and "vectors.safetensors: is damaged" in err and err.count("\n") == 1


def test_head_is_answered_over_a_connection_that_goes_on(folder: Path) -> None:
    with running_service(folder) as (_, address), httpx2.Client(base_url=address) as client:
        for path in ("/live", "/v1/about", "/"):
            head = client.head(path)
            assert head.status_code == 200 and not head.content
            assert client.get(path).headers["content-length"] == head.headers["content-length"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_computation_of_a_client_that_has_gone_stops(
    folder: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def endless(*_: object, **__: object) -> None:
        while True:
            check_stop()
            time.sleep(0.001)

    worker = Worker(folder)
    server = make_server(make_app(ServiceConfig(folder), worker), "127.0.0.1", 0, DEFAULT)
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while httpx2.get(f"{address}/ready").status_code != 200:
            time.sleep(0.01)
        path = "/v1/similar?kind=bundle&id=5" if method == "GET" else "/v1/suggest"
        body = None if method == "GET" else {"bundle": "5"}
        with monkeypatch.context() as patch:
            for question in ("similar_bundles", "suggest"):
                patch.setattr(Recommender, question, endless)
            with pytest.raises(httpx2.ReadTimeout):
                httpx2.request(method, address + path, json=body, timeout=0.3)
        assert httpx2.request(method, address + path, json=body, timeout=30).status_code == 200
        assert "clbr_computations_stopped_total 1.0" in httpx2.get(f"{address}/metrics").text
    finally:
        server.should_exit = True
        thread.join()
