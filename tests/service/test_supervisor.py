"""Several worker processes on one port: really started, killed, swapped and stopped."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from http.client import HTTPConnection
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from clbr.inference.artifact import about_checksum
from clbr.service.app import make_app
from clbr.service.member import Member
from clbr.service.pages import ServiceConfig
from clbr.service.supervisor import Process, Supervisor, Version
from clbr.service.worker import Worker
from service_helpers import start_service, wait_until_ready

WAIT_SECONDS = 120


class Workers:
    """A service with two worker processes, and its log."""

    def __init__(self, link: Path, log: Path) -> None:
        self.link, self.log = link, log
        with log.open("w") as stream:
            self.process = start_service(link, "--workers", "2", "--log", "info", stderr=stream.fileno())
        self.address = wait_until_ready(self.process).address

    def ask(self, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
        """Status, headers and body of an answer over a new connection: any of the processes may give it."""
        connection = HTTPConnection(self.address.removeprefix("http://"), timeout=60)
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body

    def artifacts(self) -> set[str]:
        """The ids of the artifacts that answer."""
        return {self.ask("/v1/about")[1]["x-artifact"] for _ in range(10)}

    def pids(self) -> list[int]:
        """The living worker processes."""
        main = self.process.pid
        found = [int(pid) for pid in Path(f"/proc/{main}/task/{main}/children").read_text().split()]
        return [pid for pid in found if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def metric(self, name: str, **labels: str) -> float:
        families = text_string_to_metric_families(self.ask("/metrics")[2])
        found = [one for family in families for one in family.samples if (one.name, one.labels) == (name, labels)]
        assert len(found) <= 1  # no series twice
        return found[0].value if found else 0

    def answered(self) -> float:
        return self.metric("clbr_requests_total", route="/v1/user", status="200")

    def events(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line["event"] == event]

    def swap(self, folder: Path) -> None:
        (self.link.parent / "next").symlink_to(folder)
        (self.link.parent / "next").rename(self.link)


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def artifacts(artifact_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An artifact, another one (of the same vectors, with another card) and a damaged one."""
    space, first = tmp_path_factory.mktemp("artifacts"), artifact_of("crosscbr")
    other, damaged = (shutil.copytree(first, space / name) for name in ("other", "damaged"))
    about = json.loads((other / "artifact.json").read_text())
    about.pop("checksum")
    (other / "card.md").write_text("another card")
    about["files"]["card.md"] = sha256(b"another card").hexdigest()
    (other / "artifact.json").write_text(json.dumps(about | {"checksum": about_checksum(about)}))
    (damaged / "vectors.safetensors").write_bytes(b"damaged")
    return {"first": first, "other": other, "damaged": damaged}


@pytest.fixture(scope="module")
def workers(artifacts: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    space = tmp_path_factory.mktemp("workers")
    (space / "current").symlink_to(artifacts["first"])
    found = Workers(space / "current", space / "log")
    yield found
    found.process.kill()
    found.process.communicate()


def test_a_killed_process_is_replaced_with_the_same_artifact_and_all_counts_stay(
    workers: Workers, artifacts: dict[str, Path]
) -> None:
    for _ in range(12):
        assert workers.ask("/v1/user?id=17")[0] == 200
    until(lambda: workers.answered() == 12)  # a request is counted after its answer, perhaps by the other process
    assert {workers.answered() for _ in range(6)} == {12}  # whichever process answers
    assert workers.metric("clbr_ready") == 1
    (first,), before = workers.artifacts(), workers.pids()
    workers.swap(artifacts["damaged"])
    status, _, answer = workers.ask("/admin/reload", "POST")
    assert (status, len(before)) == (409, 2)
    error = json.loads(answer)["error"]
    assert error.startswith(f"{workers.link}/vectors.safetensors: is damaged")
    assert error.endswith(f"; {first} goes on answering")
    until(lambda: workers.metric("clbr_artifact_swaps_total", result="rejected") >= 1)
    os.kill(before[0], signal.SIGKILL)
    until(lambda: len(workers.events("worker process ended and was started again")) == 1)
    line = workers.events("worker process ended and was started again")[0]
    assert (line["process"], line["cause"], line["level"]) == (before[0], "killed by SIGKILL", "error")
    assert sorted(workers.pids()) == sorted([before[1], line["new"]])
    assert workers.artifacts() == {first}  # no 503: the new process listens once it can answer
    os.kill(before[1], signal.SIGSTOP)  # the new one has to answer
    assert workers.artifacts() == {first}
    os.kill(before[1], signal.SIGCONT)
    assert workers.answered() == 12
    assert workers.metric("clbr_artifact_swaps_total", result="rejected") >= 1


def test_all_processes_swap_together(workers: Workers, artifacts: dict[str, Path]) -> None:
    (first,) = workers.artifacts()
    workers.swap(artifacts["other"])
    status, _, answer = workers.ask("/admin/reload", "POST")  # the watcher of the folder may have been first
    second = json.loads(answer)["after"]
    until(lambda: workers.artifacts() == {second})
    assert status == 200 and second != first
    until(lambda: workers.metric("clbr_artifact_info", id=second, model="crosscbr") == 1)
    until(lambda: workers.metric("clbr_artifact_info", id=first, model="crosscbr") == 0)  # both processes have gone on
    swapped = len(workers.events("artifact swapped"))
    assert swapped >= 1
    until(lambda: workers.metric("clbr_artifact_swaps_total", result="swapped") == swapped)


def test_the_report_opens_whichever_process_made_its_address(tmp_path: Path) -> None:
    """Two processes with the same secret; the addresses of another service are unknown."""
    page = tmp_path / "report.html"
    page.write_text("the report")
    config = ServiceConfig(tmp_path, report=page)
    one, other, foreign = (
        TestClient(make_app(given, Worker(tmp_path)), base_url="http://127.0.0.1")
        for given in (config, config, ServiceConfig(tmp_path, report=page))
    )
    path = one.post("/v1/report").json()["path"]
    assert other.get(path).text == "the report"
    assert foreign.get(path).status_code == 404
    assert other.get(f"{path[:-1]}{'1' if path[-1] == '0' else '0'}").status_code == 404


def test_a_signal_ends_all_processes(workers: Workers) -> None:
    """The last test of the service."""
    pids = workers.pids()
    workers.process.send_signal(signal.SIGINT)
    workers.process.communicate(timeout=WAIT_SECONDS)
    assert workers.process.returncode == 130
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_when_one_process_cannot_open_an_artifact_no_process_gets_it(tmp_path: Path) -> None:
    """Two processes that only send: one can open it, one cannot."""
    ours, theirs = zip(*(Pipe() for _ in range(2)), strict=True)
    supervisor = Supervisor(Member(ServiceConfig(tmp_path), None, "error", 1), 2)  # type: ignore[arg-type]
    supervisor.processes = [Process(None, pipe, started=True) for pipe in ours]  # type: ignore[arg-type]
    before, coming = (Version(tmp_path / name, name, None) for name in ("1", "2"))  # type: ignore[arg-type]
    supervisor.space, supervisor.current, supervisor.copies = tmp_path, before, 2
    supervisor.asking = [supervisor.processes[0]]
    supervisor._copy = lambda: coming  # type: ignore[method-assign]
    theirs[0].send(("prepared",))
    theirs[1].send(("failed", f"{coming.folder}/graph.safetensors: is damaged"))
    supervisor.wake, _ = os.pipe()
    supervisor._swap()
    assert supervisor.current is before
    received = [[pipe.recv() for _ in range(3 if number == 0 else 2)] for number, pipe in enumerate(theirs)]
    assert received[1] == [("prepare", str(coming.folder)), ("abort",)]
    reason = f"{tmp_path}/graph.safetensors: is damaged; 1 goes on answering"
    assert received[0] == [("prepare", str(coming.folder)), ("abort",), ("count", "rejected")]
    assert theirs[0].recv() == ("rejected", reason)
    theirs[0].send(("prepared",))
    theirs[1].close()  # it has ended: it is started again with what the others have
    supervisor._swap()
    assert supervisor.current is coming and supervisor.processes[1].ended
    assert [theirs[0].recv() for _ in range(3)] == [("prepare", str(coming.folder)), ("commit",), ("count", "swapped")]


def test_a_process_that_started_with_the_artifact_before_a_swap_gets_the_new_one(tmp_path: Path) -> None:
    ours, theirs = Pipe()
    supervisor = Supervisor(Member(ServiceConfig(tmp_path), None, "error", 1), 1)  # type: ignore[arg-type]
    supervisor.space, supervisor.current = tmp_path, SimpleNamespace(folder=tmp_path / "2")  # type: ignore[assignment]
    late = Process(None, ours)  # type: ignore[arg-type]
    supervisor._take(late, "started", str(tmp_path / "1"))
    assert late.started
    assert [theirs.recv(), theirs.recv()] == [("prepare", str(tmp_path / "2")), ("commit",)]
    supervisor._take(late, "started", str(tmp_path / "2"))
    assert not theirs.poll()


def test_a_process_that_starts_while_the_others_prepare_gets_the_new_artifact(tmp_path: Path) -> None:
    ours, theirs = zip(*(Pipe() for _ in range(3)), strict=True)
    supervisor = Supervisor(Member(ServiceConfig(tmp_path), None, "error", 1), 3)  # type: ignore[arg-type]
    supervisor.processes = [Process(None, pipe) for pipe in ours]  # type: ignore[arg-type]
    supervisor.processes[0].started = True
    before, coming = (Version(tmp_path / name, name, None) for name in ("1", "2"))  # type: ignore[arg-type]
    supervisor.space, supervisor.current, supervisor.copies = tmp_path, before, 2
    supervisor._copy = lambda: coming  # type: ignore[method-assign]
    supervisor.wake, _ = os.pipe()
    theirs[1].send(("started", str(before.folder)))
    theirs[0].send(("prepared",))
    supervisor._swap()
    assert theirs[0].recv() == ("prepare", str(coming.folder)) and theirs[0].recv() == ("commit",)
    assert theirs[1].recv() == ("prepare", str(coming.folder)) and theirs[1].recv() == ("commit",)
    assert not theirs[2].poll()  # it gets it when it has started


@pytest.mark.slow
def test_a_damaged_artifact_at_the_start_ends_all_processes_with_one_line(artifacts: dict[str, Path]) -> None:
    process = start_service(artifacts["damaged"], "--workers", "2", stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, out) == (2, "")
    assert err == f"error: {artifacts['damaged']}/vectors.safetensors: is damaged (its checksum is not that of " + (
        "artifact.json); export it again\n"
    )


@pytest.mark.slow
def test_the_processes_end_when_the_supervisor_is_killed(artifacts: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(artifacts["first"])
    found = Workers(tmp_path / "current", tmp_path / "log")
    pids = found.pids()
    found.process.kill()
    found.process.communicate()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
