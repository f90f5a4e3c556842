"""How much the service bears. ARTIFACT is a folder that `clbr export` made; the server runs in a process of its own.

    python benchmarks/service.py ARTIFACT                      recommend, what-if over HTTP beside the engine's, the page
    python benchmarks/service.py ARTIFACT --soak 5 --other B   five minutes of mixed load, swapped every thirty seconds

Recommend is asked by wrk (Debian's package of that name) over kept connections, a user by chance each time. The soak
checks every answer: no 5xx, each equal to the first one of the same artifact to the same question; memory at the
start, the middle and the end.
"""

import argparse
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
from contextlib import contextmanager
from pathlib import Path

import httpx2
import numpy as np

from clbr.inference.artifact import open_artifact
from clbr.inference.edit_requests import history_edits
from clbr.inference.recommend import of_left
from clbr.inference.whatif import ask_user
from clbr.training.runtime import use_threads

SWAP_SECONDS = 30


@contextmanager
def serving(artifact: Path) -> Iterator[tuple[int, str]]:
    command = [sys.executable, "-c", "from clbr.cli import main; main()", "serve", str(artifact), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.pid, process.stdout.readline().split("answers at ")[1].split()[0]
        finally:
            process.terminate()


def recommend(address: str, users: int, seconds: int, connections: int) -> None:
    if not shutil.which("wrk"):
        print("recommend: wrk is not installed")
        return
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(
            'math.randomseed(7)\nrequest = function() return wrk.format("GET", '
            f'"/api/recommend?top=20&user=" .. math.random(0, {users - 1})) end\n'
        )
        script.flush()
        words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--latency", "-s", script.name, address]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = {name: re.search(rf"{name}\s+([\d.]+\w+)", told) for name in ("50%", "99%")}
    rate = re.search(r"Requests/sec:\s+([\d.]+)", told)
    wrong = re.search(r"Non-2xx.*", told)
    times = ", ".join(f"{name} {match[1]}" for name, match in found.items() if match)
    print(f"recommend: {float(rate[1]) if rate else 0:,.0f} requests/s, {times} {wrong[0] if wrong else ''}")


def whatif(address: str, artifact: Path, questions: int) -> None:
    """The same questions over HTTP and of the engine in this process, in turn."""
    opened, rng = open_artifact(artifact), np.random.default_rng(7)
    users = np.unique(opened.chosen[:, 0])
    http, engine = [], []
    with httpx2.Client(base_url=address, timeout=60) as client:
        for turn in range(questions + 3):
            user = int(rng.choice(users))
            held = of_left(opened.graph.ui.pairs, user)
            item = next(i for i in rng.integers(opened.about.items, size=1000).tolist() if i not in held)
            begun = time.perf_counter()
            asked = {"user": opened.users.id(user), "add_items": [opened.items.id(item)]}
            client.post("/api/whatif/user", json=asked).raise_for_status()
            middle = time.perf_counter()
            ask_user(opened, user, history_edits(opened, user, add_items=(item,)))
            if turn >= 3:
                http.append(1000 * (middle - begun))
                engine.append(1000 * (time.perf_counter() - middle))
    above = np.median(http) - np.median(engine)
    high = np.percentile(http, 95) - np.percentile(engine, 95)
    print(
        f"what-if: {np.median(http):.1f} ms over HTTP, {np.median(engine):.1f} ms the engine's own: {above:+.1f} ms "
        f"(95th percentile {high:+.1f} ms)"
    )


def page(address: str) -> None:
    """From asking for the page until it can be typed into, in a new browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        found = []
        for _ in range(5):
            view = browser.new_context().new_page()
            begun = time.perf_counter()
            view.goto(address)
            view.get_by_role("combobox").first.wait_for()
            found.append(time.perf_counter() - begun)
        browser.close()
    print(f"page: can be used after {np.median(found):.2f} s (largest of {len(found)}: {max(found):.2f} s)")


def soak(one: Path, other: Path, minutes: float) -> None:
    link = Path(tempfile.mkdtemp()) / "current"
    link.symlink_to(one.resolve())
    stop, first, counts, wrong = threading.Event(), {}, {}, []
    lock = threading.Lock()
    opened = open_artifact(one)
    users = [opened.users.id(user) for user in np.unique(opened.chosen[:, 0])[:40].tolist()]

    def load(number: int, address: str) -> None:
        rng = np.random.default_rng(number)
        with httpx2.Client(base_url=address, timeout=120) as client:
            while not stop.is_set():
                user, bundle = str(rng.choice(users)), str(rng.integers(20))
                kind = rng.choice(["list", "user", "bundle", "why", "find"], p=[0.7, 0.12, 0.03, 0.03, 0.12])
                if kind == "list":
                    answer = client.get("/api/recommend", params={"user": user})
                elif kind == "find":
                    answer = client.get("/api/find", params={"kind": "item", "text": bundle})
                elif kind == "user":
                    answer = client.post("/api/whatif/user", json={"user": user, "top": 10})
                elif kind == "bundle":
                    answer = client.post("/api/whatif/bundle", json={"bundle": bundle})
                else:
                    answer = client.post("/api/explain", json={"user": user, "bundle": bundle, "budget": 10})
                key = (answer.headers.get("x-artifact"), str(answer.url), answer.request.content)
                told = answer.json()
                told.pop("request", None)
                with lock:
                    counts[answer.status_code] = counts.get(answer.status_code, 0) + 1
                    if answer.status_code == 200 and first.setdefault(key, told) != told:
                        wrong.append(f"mixed: {key}")
                    if answer.status_code >= 500:
                        wrong.append(answer.text)

    with serving(link) as (pid, address):
        threads = [threading.Thread(target=load, args=(number, address)) for number in range(4)]
        for thread in threads:
            thread.start()
        begun, memory, swaps = time.perf_counter(), [], 0
        while (passed := time.perf_counter() - begun) < 60 * minutes:
            time.sleep(min(SWAP_SECONDS, 60 * minutes - passed))
            memory.append(resident(pid))
            target = other if swaps % 2 == 0 else one
            (link.parent / "next").symlink_to(target.resolve())
            (link.parent / "next").rename(link)
            swaps += 1
            print(
                f"  {time.perf_counter() - begun:4.0f} s: {sum(counts.values()):,} answers, {memory[-1]:.0f} MiB",
                flush=True,
            )
        stop.set()
        for thread in threads:
            thread.join()
    names = len({key[0] for key in first})
    print(
        f"soak: {json.dumps(counts)} by status, {swaps} swaps, {names} artifacts seen, {len(wrong)} wrong {wrong[:2]}"
    )
    print(f"memory: {memory[0]:.0f}, {memory[len(memory) // 2]:.0f}, {memory[-1]:.0f} MiB")


def resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", type=Path)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--soak", type=float, help="minutes")
    parser.add_argument("--other", type=Path, help="the artifact to swap with")
    chosen = parser.parse_args()
    use_threads(None)
    if chosen.soak:
        soak(chosen.artifact, chosen.other or chosen.artifact, chosen.soak)
        return
    with serving(chosen.artifact) as (_, address):
        recommend(address, open_artifact(chosen.artifact).about.users, chosen.seconds, chosen.connections)
        whatif(address, chosen.artifact, chosen.questions)
        page(address)


if __name__ == "__main__":
    main()
