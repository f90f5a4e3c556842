"""Load on the service. RECOMMENDER is a folder that `clbr export` wrote; the server runs in its own process.

    python benchmarks/service.py RECOMMENDER                      recommend with 1 and 2 worker processes, their memory,
                                                                  what-if over HTTP and in Python, the page
    python benchmarks/service.py RECOMMENDER --soak 5 --other B   five minutes of mixed load, swapped every 30 seconds

Recommend requests are sent by one more process over persistent connections, each for a random user and as soon as the
answer before it has arrived. The rounds with 1 and 2 worker processes alternate.
The soak test checks every answer: no status 5xx, and the same answer whenever the same recommender gets the same request.
It prints the memory of the server at the start, in the middle and at the end.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import numpy as np

from clbr.data.pairs import neighbours
from clbr.inference.recommender import Recommender, load_recommender
from clbr.training.runtime import use_threads

SWAP_SECONDS = 30
CLIENTS = 4
SHARES = {"list": 0.7, "whatif": 0.12, "audience": 0.03, "explain": 0.03, "find": 0.12}
"""Share of each kind of request in the soak test."""
WARM_UP = 3
ROUNDS = 5


@contextmanager
def serving(folder: Path, workers: int = 1) -> Iterator[tuple[int, str]]:
    """Run the server; yield its process id and its address."""
    command = [sys.executable, "-c", "from clbr.cli import main; main()", "serve", str(folder), "--port", "0"]
    command += ["--workers", str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.pid, process.stdout.readline().split("answers at ")[1].split()[0]
        finally:
            process.terminate()


class Client(asyncio.Protocol):
    """A persistent connection that sends a request as soon as the answer to the one before has arrived."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self.requests, self.buffer, self.needed = requests, b"", 0
        self.seconds: list[float] = []
        self.failed = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.start = time.perf_counter()
        self.transport.write(next(self.requests))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.needed and (end := self.buffer.find(b"\r\n\r\n")) > 0:
            length = re.search(rb"content-length: (\d+)", self.buffer[:end])
            self.needed = end + 4 + (int(length[1]) if length else 0)
        if self.needed and len(self.buffer) >= self.needed:
            self.seconds.append(time.perf_counter() - self.start)
            self.failed += b" 200 " not in self.buffer[:16]
            self.buffer, self.needed = b"", 0
            self.send()


async def send_load(address: str, users: list[str], seconds: float, connections: int) -> list[Client]:
    """Ask for lists of random users over some connections for some seconds."""
    host, port = address.removeprefix("http://").split(":")
    rng = np.random.default_rng(7)
    drawn = (users[n] for n in iter(lambda: int(rng.integers(len(users))), -1))
    requests = (f"GET /v1/recommend?k=20&user={user} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() for user in drawn)
    loop = asyncio.get_running_loop()
    opened = [await loop.create_connection(lambda: Client(requests), host, int(port)) for _ in range(connections)]
    await asyncio.sleep(seconds)
    for transport, _ in opened:
        transport.abort()
    return [client for _, client in opened]


def measure_recommend(folder: Path, recommender: Recommender, seconds: float, connections: int) -> None:
    """Print requests per second, latencies and memory with 1 and 2 worker processes, in alternating rounds."""
    nodes = recommender.artifact.users
    users = [quote(nodes.id(index)) for index in range(min(len(nodes), 5000))]
    rates: dict[int, list[float]] = {1: [], 2: []}
    times: dict[int, list[float]] = {1: [], 2: []}
    cpu = {1: 0.0, 2: 0.0}
    with serving(folder, 1) as one, serving(folder, 2) as two:
        processes = {1: [one[0]], 2: worker_processes(two[0])}
        for number in range(ROUNDS + 1):  # the first one warms up
            for workers, (_, address) in ((1, one), (2, two)):
                before = cpu_seconds(processes[workers])
                with ProcessPoolExecutor(1) as pool:
                    rate, latencies, failed = pool.submit(run_load, address, users, seconds, connections).result()
                assert not failed
                if number:
                    rates[workers].append(rate)
                    times[workers] += latencies
                    cpu[workers] += cpu_seconds(processes[workers]) - before
        memory = {workers: [memory_mib(pid) for pid in pids] for workers, pids in processes.items()}
    for workers, found in rates.items():
        half, high = 1e3 * np.percentile(times[workers], [50, 99])
        each = ", ".join(f"{rate:,.0f}" for rate in found)
        print(
            f"recommend, {workers} worker(s), {connections} connections: {np.median(found):,.0f} requests/s ({each}), ",
            end="",
        )
        print(
            f"50% {half:.1f} ms, 99% {high:.1f} ms, {1e3 * cpu[workers] / len(times[workers]):.2f} ms of CPU an answer"
        )
    ratio = np.median(rates[2]) / np.median(rates[1])
    print(f"2 workers answer {ratio:.2f} times as many; {os.cpu_count()} cores, one more process sends the requests")
    for workers, found in memory.items():
        for resident, share, mapped, mapped_share in found:
            print(f"memory with {workers}: resident {resident:.0f} MiB, its share {share:.0f} MiB; ", end="")
            print(f"of the mapped artifact {mapped:.1f} MiB, its share {mapped_share:.1f} MiB")


def run_load(address: str, users: list[str], seconds: float, connections: int) -> tuple[float, list[float], int]:
    """Answers per second, their times, and how many were no success."""
    clients = asyncio.run(send_load(address, users, seconds, connections))
    times = [one for client in clients for one in client.seconds]
    return len(times) / seconds, times, sum(client.failed for client in clients)


def worker_processes(pid: int) -> list[int]:
    """The worker processes of a service."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def cpu_seconds(pids: list[int]) -> float:
    """The CPU time of processes."""
    fields = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids)
    return sum(int(found[11]) + int(found[12]) for found in fields) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> list[float]:
    """Resident memory and share (PSS: shared pages are divided) of a process, then of its maps of the artifact, in MiB."""
    sums, ours = {"Rss:": 0, "Pss:": 0}, {"Rss:": 0, "Pss:": 0}
    mapped = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if first in sums:
            sums[first] += int(rest[0])
            ours[first] += int(rest[0]) if mapped else 0
        elif "-" in first:  # the line of a map, which ends in its file
            mapped = "/clbr-serve-" in line and "/metrics/" not in line
    return [value / 2**10 for value in (*sums.values(), *ours.values())]


def measure_whatif(address: str, recommender: Recommender, questions: int) -> None:
    """Print the latency of the same what-if questions over HTTP and in this process, alternating."""
    artifact, rng = recommender.artifact, np.random.default_rng(7)
    users = np.unique(artifact.graph.ub.pairs[:, 0])
    over_http, in_python = [], []
    with httpx2.Client(base_url=address, timeout=60) as client:
        for number in range(questions + WARM_UP):
            user = int(rng.choice(users))
            known = neighbours(artifact.graph.ui.pairs, user)
            item = next(i for i in rng.integers(artifact.about.items, size=1000).tolist() if i not in known)
            request = {"user": artifact.users.id(user), "add_items": [artifact.items.id(item)]}
            start = time.perf_counter()
            client.post("/v1/whatif", json=request).raise_for_status()
            middle = time.perf_counter()
            recommender.whatif(request["user"], add_items=request["add_items"])
            if number >= WARM_UP:
                over_http.append(1000 * (middle - start))
                in_python.append(1000 * (time.perf_counter() - middle))
    added = np.median(over_http) - np.median(in_python)
    added_high = np.percentile(over_http, 95) - np.percentile(in_python, 95)
    print(
        f"what-if: {np.median(over_http):.1f} ms over HTTP, {np.median(in_python):.1f} ms in Python: {added:+.1f} ms "
        f"(95th percentile {added_high:+.1f} ms)"
    )


def measure_page(address: str) -> None:
    """Print the time from the request for the page until its search field is visible, in a new browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        seconds = []
        for _ in range(5):
            page = browser.new_context().new_page()
            start = time.perf_counter()
            page.goto(address)
            page.get_by_role("combobox").first.wait_for()
            seconds.append(time.perf_counter() - start)
        browser.close()
    print(f"page: usable after {np.median(seconds):.2f} s (largest of {len(seconds)}: {max(seconds):.2f} s)")


@dataclass
class SoakResult:
    """What the clients of the soak test found. `lock` protects all of it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    first: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    """The first answer to each request, by recommender and request."""
    statuses: dict[int, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def check(self, response: httpx2.Response) -> None:
        """Count a response and record an error if it is a 5xx or differs from an earlier answer."""
        key = (response.headers.get("x-artifact"), str(response.url), response.request.content)
        payload = response.json()
        payload.pop("request", None)
        with self.lock:
            self.statuses[response.status_code] = self.statuses.get(response.status_code, 0) + 1
            if response.status_code == 200 and self.first.setdefault(key, payload) != payload:
                self.errors.append(f"different answers: {key}")
            if response.status_code >= 500:
                self.errors.append(response.text)


def send_request(client: httpx2.Client, user: str, bundle: str, kind: str) -> httpx2.Response:
    """Send one request of a kind."""
    if kind == "list":
        return client.get("/v1/recommend", params={"user": user})
    if kind == "find":
        return client.get("/v1/find", params={"kind": "item", "text": bundle})
    if kind == "whatif":
        return client.post("/v1/whatif", json={"user": user, "k": 10})
    if kind == "audience":
        return client.post("/v1/audience", json={"bundle": bundle})
    return client.post("/v1/explain", json={"user": user, "bundle": bundle, "budget": 10})


def soak(one: Path, other: Path, minutes: float) -> None:
    """Send mixed requests from several threads while the served folder alternates between two recommenders."""
    link = Path(tempfile.mkdtemp()) / "current"
    link.symlink_to(one.resolve())
    stop, result = threading.Event(), SoakResult()
    artifact = load_recommender(one).artifact
    users = [artifact.users.id(user) for user in np.unique(artifact.graph.ub.pairs[:, 0])[:40].tolist()]
    bundles = [artifact.bundles.id(bundle) for bundle in range(20)]

    def run_client(number: int, address: str) -> None:
        rng = np.random.default_rng(number)
        with httpx2.Client(base_url=address, timeout=120) as client:
            while not stop.is_set():
                user, bundle = str(rng.choice(users)), str(rng.choice(bundles))
                kind = str(rng.choice(list(SHARES), p=list(SHARES.values())))
                result.check(send_request(client, user, bundle, kind))

    with serving(link) as (pid, address):
        threads = [threading.Thread(target=run_client, args=(number, address)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        start, memory, swaps = time.perf_counter(), [], 0
        while (passed := time.perf_counter() - start) < 60 * minutes:
            time.sleep(min(SWAP_SECONDS, 60 * minutes - passed))
            memory.append(resident_mib(pid))
            swap_link(link, other if swaps % 2 == 0 else one)
            swaps += 1
            count = sum(result.statuses.values())
            print(f"  {time.perf_counter() - start:4.0f} s: {count:,} answers, {memory[-1]:.0f} MiB", flush=True)
        stop.set()
        for thread in threads:
            thread.join()
    names = len({key[0] for key in result.first})
    print(f"soak: {json.dumps(result.statuses)} by status, {swaps} swaps, {names} recommenders seen")
    print(f"errors: {len(result.errors)} {result.errors[:2]}")
    print(f"memory: {memory[0]:.0f}, {memory[len(memory) // 2]:.0f}, {memory[-1]:.0f} MiB")


def swap_link(link: Path, target: Path) -> None:
    """Point a link to another folder, atomically."""
    (link.parent / "next").symlink_to(target.resolve())
    (link.parent / "next").rename(link)


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recommender", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each round")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--soak", type=float, help="minutes")
    parser.add_argument("--other", type=Path, help="the recommender to swap with")
    options = parser.parse_args()
    use_threads(None)
    if options.soak:
        soak(options.recommender, options.other or options.recommender, options.soak)
        return
    recommender = load_recommender(options.recommender)
    measure_recommend(options.recommender, recommender, options.seconds, options.connections)
    with serving(options.recommender) as (_, address):
        measure_whatif(address, recommender, options.questions)
        measure_page(address)


if __name__ == "__main__":
    main()
