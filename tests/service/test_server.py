import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

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
                        client.get("/api/recommend", params={"user": "17", "k": 5}),
                        client.post("/api/whatif", json={"user": "17", "add_bundles": ["5"], "k": 5}),
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
                httpx2.post(f"{address}/api/suggest", json={"bundle": "5"}, timeout=60).status_code
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
    assert [line["path"] for line in lines if line["event"] == "answered"][-1] == "/api/suggest"


@contextmanager
def service_with_short_timeouts(folder: Path) -> Iterator[tuple[str, tuple[str, int]]]:
    """A service that disconnects slow clients soon: its address, as a URL and as host and port."""
    code = (
        "from clbr.service import limits; limits.BODY_SECONDS = 0.3; from clbr.cli import main; import sys; "
        f"sys.argv = ['clbr', 'serve', {str(folder)!r}, '--port', '0', '--log', 'error']; main()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        address = wait_until_ready(process).address
        host, port = address.removeprefix("http://").split(":")
        yield address, (host, int(port))
    finally:
        process.kill()
        process.communicate()


def test_slow_and_greedy_clients_are_disconnected_and_others_answered(folder: Path) -> None:
    with service_with_short_timeouts(folder) as (address, endpoint):
        with socket.create_connection(endpoint, 30) as head, socket.create_connection(endpoint, 30) as body:
            head.sendall(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
            body.sendall(
                b"POST /api/whatif HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
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
        assert httpx2.get(f"{address}/api/about").status_code == 401
        headers = {"authorization": f"Bearer {TOKEN}"}
        assert httpx2.get(f"{address}/api/about", headers=headers).status_code == 200
        process.send_signal(signal.SIGINT)
        out, log = process.communicate(timeout=60)
    assert TOKEN not in out + log and '"status": 401' in log


def test_bad_options_are_rejected(run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLBR_TOKEN", raising=False)
    short = tmp_path / "token"
    short.write_text("short")
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
    ):
        code, _, err = run("serve", str(folder), *options)
        assert code == 2 and message in err, err
    code, _, err = run("serve", str(tmp_path), "--port", "0")
    assert code == 2 and "no recommender there" in err
    taken.close()
