"""Ray: the same results as on this machine, lost workers replaced, and one clear message for what is wrong."""

import http.server
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from clbr import InputError, World, load, save
from clbr.experiments.cell_run import run_cell
from clbr.experiments.cells import VariantCell, expand
from clbr.experiments.runner import CellEvent, run_cells
from clbr.experiments.store import Store
from clbr.inference import ray_lists
from clbr.training import ray_cluster, ray_engine
from clbr.training.processes import Engine, Task, TaskResult
from clbr.training.ray_engine import RayEngine, check_folders, make_engine
from clbr.training.run import Callbacks
from clbr.tuning.search import search
from invented import spec
from pool_tasks import die, die_once, double, never_stop, raise_input_error, read_environment, stop_at_first_message
from typed import Run

pytest.importorskip("ray", reason="the extra ray is not installed")


OPEN_RAY = os.environ | {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
"""The environment of a cluster that asks for no token."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """Ray on this machine, with two CPUs. Commands with --on ray use it, too."""
    with make_engine("ray", 2) as made:
        yield made


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, tiny: World) -> Path:
    return save(tiny.dataset, tmp_path_factory.mktemp("data") / "shop")


def run_tasks(engine: Engine, *tasks: Task) -> tuple[list[TaskResult], list[Any]]:
    """Run tasks; their results in the tasks' order, and all messages."""
    waiting, results, messages = list(tasks), dict[int, TaskResult](), list[Any]()
    engine.run(
        lambda: waiting.pop(0) if waiting else None,
        lambda task, result: results.update({tasks.index(task): result}),
        lambda task, message: messages.append(message),
    )
    return [results[number] for number in range(len(tasks))], messages


def test_tasks_return_values_send_messages_fail_alone_and_get_the_environment(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLBR_MODELS", "own")
    monkeypatch.setenv("CLBR_TOKEN", "secret")
    tasks = [Task(double, (1,)), Task(raise_input_error), Task(read_environment, ("CLBR_MODELS", "CLBR_TOKEN"))]
    results, messages = run_tasks(engine, *tasks)
    assert results[:2] == [TaskResult(2), TaskResult(error="the settings are wrong")]
    assert results[2].value == (["own", None], 1)
    assert messages == ["got 1"]


@pytest.mark.slow
def test_a_task_whose_worker_was_killed_is_given_to_another_a_bounded_number_of_times(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "TRIES", 2)
    results, messages = run_tasks(engine, Task(die_once, (tmp_path / "tried",)), Task(die))
    assert results[0] == TaskResult("done")
    assert len(set(messages)) == 2  # two processes
    assert results[1].error.startswith("its worker was lost 2 times, the last time: ")


@pytest.mark.slow
def test_asked_to_stop_a_task_finishes_and_an_interrupt_ends_it_at_once(engine: Engine, tmp_path: Path) -> None:
    assert stop_at_first_message(RayEngine(1), tmp_path) == [TaskResult("stopped")]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    messages: list[int] = []

    def interrupt(task: Task, process: int) -> None:
        messages.append(process)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        waiting = [Task(never_stop, (tmp_path / "c",))]
        engine.run(lambda: waiting.pop() if waiting else None, lambda task, result: None, interrupt)
    until = time.monotonic() + 30
    while Path(f"/proc/{messages[-1]}").exists():
        assert time.monotonic() < until
        time.sleep(0.05)


def few_cells(tiny: World, shop: Path, seeds: int = 1, epochs: int = 6) -> list[VariantCell]:
    settings = {"epochs": epochs, "patience": epochs}
    variants = {"original": {"settings": settings}, "sparse": {"settings": settings | {"share": 0.5}}}
    plan = spec(models=["bprmf"], seeds=seeds, variants=variants)
    return expand(plan, str(shop), tiny.dataset.fingerprint, "tiny", tiny.dataset)


def long_cells(tiny: World, shop: Path) -> list[VariantCell]:
    variants = {"original": {"settings": {"epochs": 5000, "patience": 5000}}}
    plan = spec(models=["bprmf"], seeds=1, variants=variants)
    return expand(plan, str(shop), tiny.dataset.fingerprint, "tiny", tiny.dataset)


def stop_after(epochs: int) -> Callbacks:
    seen: list[int] = []
    return Callbacks(on_epoch=lambda epoch, counters: seen.append(1), should_stop=lambda: len(seen) >= epochs)


def records(folder: Path, variant_cells: list[VariantCell]) -> list[object]:
    """The results of the cells, without what depends on the process."""
    store = Store(folder)
    found = [(store.read(one.cell), store.read_per_user(one.cell)) for one in variant_cells]
    return [
        (record and record.model_dump(exclude={"seconds", "memory", "environment"}), users.found.tolist())
        for record, users in found
    ]


@pytest.mark.slow
def test_an_experiment_gives_the_same_results_and_is_resumed_with_and_without_ray(
    engine: Engine, tiny: World, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # relative folders, and workers have another directory
    cells = few_cells(tiny, shop)
    straight, store = Store(tmp_path / "straight").open(tiny.dataset), Store(tmp_path / "ray").open(tiny.dataset)
    for one in cells:
        assert run_cell(straight, one.cell, Callbacks())
    assert not run_cell(store, cells[0].cell, stop_after(3))
    summary = run_cells(Path("ray"), tiny.dataset, cells, engine)
    assert (summary.done, summary.failed) == (2, {})
    assert records(tmp_path / "ray", cells) == records(tmp_path / "straight", cells)
    assert not (tmp_path / "ray" / ".shared").exists()

    events: list[CellEvent] = []
    other = Store(tmp_path / "other")
    stopped = run_cells(
        Path("other"), tiny.dataset, long_cells(tiny, shop), engine, events.append, lambda: any(e.epoch for e in events)
    )
    assert (stopped.done, stopped.failed, events[-1].state) == (0, {}, "stopped")
    (one,) = long_cells(tiny, shop)
    before = sum(event.epoch > 0 for event in events)
    assert not run_cell(other, one.cell, stop_after(2))
    metrics = (other.run_folder(one.cell) / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["number"] for line in metrics] == list(range(1, before + 3))


def test_a_search_tries_the_same_settings_and_is_resumed(engine: Engine, shop: Path, tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="the extra sweep is not installed")
    options: dict[str, Any] = {"changes": {"epochs": 3}, "seed": 1}
    here = search(tmp_path / "here", shop, "bprmf", 3, **options)
    search(tmp_path / "mixed", shop, "bprmf", 1, **options)
    search(tmp_path / "mixed", shop, "bprmf", 2, on="ray", **options)
    mixed = search(tmp_path / "mixed", shop, "bprmf", 3, **options)
    assert mixed.model_dump(exclude={"seconds"}) == here.model_dump(exclude={"seconds"})


@pytest.mark.parametrize("name", ["lists.parquet", pytest.param("lists.csv", marks=pytest.mark.slow)])
def test_lists_of_everyone_are_those_of_one_process(
    engine: Engine, run: Run, artifact_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("clbr.evaluation.ranking.BLOCK_SCORES", 150 * 70)  # blocks of 70 users
    words = ["recommend", artifact_of("crosscbr"), "--all", "--k", "7", "--threads", "1"]
    assert run(*words, "--out", f"here-{name}")[0] == 0
    code, out, err = run(*words, "--out", name, "--on", "ray", "--workers", "2")
    assert (code, out, err) == (0, f"{name}: 4,200 rows, 600 users\n", "")
    assert Path(name).read_bytes() == Path(f"here-{name}").read_bytes()


class _Dies:
    """A worker that is lost each time it ranks."""

    def __init__(self, *arguments: object) -> None:
        pass

    def __call__(self, table: object) -> None:
        os._exit(1)


def test_lists_whose_workers_are_always_lost_end_in_a_message(
    run: Run, engine: Engine, artifact_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_lists, "RESTARTS", 1)
    monkeypatch.setattr(ray_lists, "_Ranker", _Dies)
    code, _, err = run("recommend", artifact_of("crosscbr"), "--all", "--out", "lost.parquet", "--on", "ray")
    assert code == 2 and "error: the lists could not be computed:" in err and not Path("lost.parquet").exists()


def test_lists_of_everyone_cannot_be_made_through_a_ray_client(run: Run, artifact_of: Callable[[str], Path]) -> None:
    code, _, err = run("recommend", artifact_of("crosscbr"), "--all", "--out", "a.parquet", "--on", "ray://h:10001")
    assert code == 2 and "run the command on a machine of the cluster, with its HOST:PORT (--on)" in err


@pytest.mark.slow
def test_a_cluster_that_is_there_already_is_used_and_left_running(shop: Path, tmp_path: Path) -> None:
    """By its address and through its client server, in processes of their own: this one uses another Ray."""
    (tmp_path / "spec.toml").write_text(
        'title = "a"\nabout = "b"\nmodels = ["crosscbr"]\nseeds = 2\n[variants.original]\nsettings = {epochs = 1}\n'
    )
    with cluster(tmp_path, 26379, "--ray-client-server-port=26380"):
        wait_until(lambda: is_open(26380))
        found = []
        for on in ("local", "127.0.0.1:26379", "ray://127.0.0.1:26380"):
            words = ["experiment", "run", "spec.toml", "--data", str(shop), "--out", on.replace("/", ""), "--on", on]
            command = [sys.executable, "-m", "clbr", *words]
            done = subprocess.run(command, cwd=tmp_path, env=OPEN_RAY, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            records = sorted((tmp_path / on.replace("/", "") / "cells").glob("*.json"))
            found.append([json.loads(path.read_text())["test"] for path in records])
        assert is_open(26379)
    assert len(found[0]) == 2 and found[0] == found[1] == found[2]


@contextmanager
def cluster(folder: Path, port: int, *options: str) -> Iterator[None]:
    """A Ray cluster on this machine that belongs to no test process. At the end it is killed, and no other Ray is."""
    words = ["start", "--head", "--block", f"--port={port}", "--num-cpus=2", "--include-dashboard=false", *options]
    command = [sys.executable, "-m", "ray.scripts.scripts", *words]
    running = subprocess.Popen(command, env=OPEN_RAY, cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_until(lambda: is_open(port))
        yield
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def test_an_artifact_and_data_with_a_url_are_copied_once(
    run: Run, artifact_of: Callable[[str], Path], shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLBR_CACHE", str(tmp_path / "cache"))
    source = shutil.copytree(artifact_of("crosscbr"), tmp_path / "source")
    words = ["recommend", f"file://{source}", "--user", "3", "--json"]
    first = json.loads(run(*words)[1])
    copies = [path.stat().st_ino for path in sorted((tmp_path / "cache").rglob("artifact.json"))]
    assert json.loads(run(*words)[1]) == first == json.loads(run("recommend", source, *words[2:])[1])
    assert [path.stat().st_ino for path in sorted((tmp_path / "cache").rglob("artifact.json"))] == copies
    assert len(copies) == 1
    assert load(f"file://{shop}").fingerprint == load(shop).fingerprint
    with pytest.raises(InputError, match="file:///nowhere/shop: no such folder, or an empty one"):
        load("file:///nowhere/shop")
    with pytest.raises(InputError, match="nothing://x: cannot be read"):
        load("nothing://x")


def test_a_folder_that_the_workers_do_not_see_is_an_error(
    engine: Engine, tiny: World, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/proc/self/cwd is another folder in each process."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="does not see /proc/self/cwd/out; expected a folder that all") as error:
        run_cells(Path("/proc/self/cwd/out"), tiny.dataset, few_cells(tiny, shop), engine)
    assert error.value.arguments == ("on",)
    shutil.copytree(shop, tmp_path / "shop")
    with pytest.raises(InputError, match="does not see the data of /proc/self/cwd/shop"):
        check_folders(engine, tmp_path / "out", ["/proc/self/cwd/shop"])
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name == ".shared"] == []


def test_without_ray_the_message_names_the_extra(run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # marks a module that cannot be imported
    Path("s.toml").write_text('title = "One"\nmodels = ["bprmf"]\nseeds = 1\n[variants.original]\n')
    code, _, err = run("experiment", "run", "s.toml", "--data", shop, "--on", "ray")
    assert code == 2
    assert err.splitlines()[-1].endswith("needs ray, which is not installed: pip install 'clbr[ray]' (--on)")


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("rai", "on 'rai': expected local, ray, or the address of a Ray cluster: HOST:PORT or ray://HOST:PORT"),
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1 .*; check the address, or start one"),
        ("127.0.0.1:99999", "on '127.0.0.1:99999': expected local"),
    ],
)
def test_a_cluster_that_is_not_there_is_an_error(on: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        ray_cluster._check_address(on)
    assert error.value.arguments == ("on",)


def test_a_mistyped_place_is_an_error_before_anything_is_read(run: Run) -> None:
    for words in (
        ["experiment", "run", "no.toml", "--data", "no", "--dry-run"],
        ["tune", "no", "--trials", "1", "--out", "no"],
    ):
        code, _, err = run(*words, "--on", "rai")
        assert (code, "on 'rai': expected local, ray" in err) == (2, True), err


def test_something_else_at_the_address_is_an_error_within_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "ANSWER_SECONDS", 3)
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(InputError, match="does not answer as a Ray cluster within 3 s"):
                ray_cluster._check_address(f"127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()


def test_a_cluster_that_is_lost_ends_the_command_with_one_message() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # stands for the cluster: it accepts connections
        on = f"127.0.0.1:{server.getsockname()[1]}"
        code = "import sys, threading; from clbr.training.ray_cluster import end_when_lost; "
        code += "end_when_lost(sys.argv[1], threading.Event(), seconds=1.5); print('over')"
        command = [sys.executable, "-c", code, on]
        lost = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        server.settimeout(60)
        for _ in range(3):  # it is asked again and again
            server.accept()[0].close()
        assert lost.poll() is None
    out, err = lost.communicate(timeout=60)
    assert (lost.returncode, out) == (2, "")
    assert err.strip() == (
        f"error: on {on}: the Ray cluster was lost; run the same command again (finished cells and trials are kept)"
    )
    over = threading.Event()
    over.set()
    ray_cluster.end_when_lost("127.0.0.1:1", over)  # the work is over: the process goes on


@pytest.mark.slow
def test_an_experiment_whose_cluster_is_killed_ends_with_the_message_and_is_resumed(shop: Path, tmp_path: Path) -> None:
    quiet = {"env": OPEN_RAY, "cwd": tmp_path, "stdout": subprocess.DEVNULL}
    (tmp_path / "spec.toml").write_text(
        'title = "a"\nmodels = ["crosscbr"]\nseeds = 1\n'
        "[variants.original]\nsettings = {epochs = 150, patience = 150}\n"
    )
    words = ["experiment", "run", "spec.toml", "--data", str(shop), "--out", "cells", "--on"]
    command = [sys.executable, "-m", "clbr", *words]
    with cluster(tmp_path, 27379):
        running = subprocess.Popen([*command, "127.0.0.1:27379"], **quiet, stderr=subprocess.PIPE, text=True)  # type: ignore[call-overload]
        wait_until(lambda: any((tmp_path / "cells").glob("runs/*/metrics.jsonl")))
    _, err = running.communicate(timeout=120)
    assert running.returncode == 2
    assert [line for line in err.splitlines() if "error" in line] == [
        "error: on 127.0.0.1:27379: the Ray cluster was lost; run the same command again (finished cells and trials are kept)"
    ]
    subprocess.run([*command, "local"], **quiet, check=True)  # type: ignore[call-overload]
    (record,) = (tmp_path / "cells" / "cells").glob("*.json")
    assert json.loads(record.read_text())["state"] == "done"


def wait_until(condition: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def is_open(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


def test_tokens_are_named_where_the_cluster_asks_for_them() -> None:
    explain = ray_cluster._explain_failure
    assert explain("h:1", "x\nAuthenticationError: no token\n").endswith("if the token is not in ~/.ray")
    assert "token" not in explain("h:1", "the author says no\n")
    assert explain("h:1", "RuntimeError: no\n") == "the Ray cluster at h:1 cannot be used: RuntimeError: no"


def workers_of_ray() -> list[int]:
    """The processes that run tasks: below this process, and named after their class."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(folder.name)] = (folder / "cmdline").read_text()

    def is_ours(process: int) -> bool:
        while process in parents and process != os.getpid():
            process = parents[process]
        return process == os.getpid()

    return [process for process, name in names.items() if name.startswith("ray::_Worker") and is_ours(process)]


@pytest.mark.slow
def test_no_cell_is_lost_or_done_twice_if_workers_are_killed_twenty_times(
    engine: Engine, tiny: World, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a random number of epochs, and in every fifth case as soon as there is a worker, which then still starts.

    Epochs and not seconds: on a slow machine a cell would be killed ten times before its first epoch, and fail.
    """
    monkeypatch.setenv("CLBR_CHECKPOINT_SECONDS", "0")
    cells = few_cells(tiny, shop, seeds=6, epochs=200)
    rng, killed, over = random.Random(0), list[int](), threading.Event()
    events: list[CellEvent] = []

    def kill() -> None:
        while len(killed) < 20 and not over.is_set():
            until = len(events) + (rng.randrange(1, 120) if len(killed) % 5 else 0)
            while len(events) < until and not over.wait(0.01):
                pass
            if found := [process for process in workers_of_ray() if process not in killed]:
                killed.append(rng.choice(found))
                with suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        summary = run_cells(tmp_path / "killed", tiny.dataset, cells, engine, events.append)
    finally:
        over.set()
        thread.join()
    assert len(set(killed)) == 20
    assert (summary.done, summary.total, summary.failed) == (12, 12, {})
    assert sorted(e.cell.key for e in events if e.state == "done") == sorted(one.cell.key for one in cells)
    straight = Store(tmp_path / "straight").open(tiny.dataset)
    for one in cells:
        assert run_cell(straight, one.cell, Callbacks())
        lines = (Store(tmp_path / "killed").run_folder(one.cell) / "metrics.jsonl").read_text().splitlines()
        numbers = [json.loads(line)["number"] for line in lines]
        assert numbers == list(range(1, len(numbers) + 1))
    assert records(tmp_path / "killed", cells) == records(tmp_path / "straight", cells)


@pytest.mark.slow
def test_a_worker_stopped_because_the_memory_is_full_ends_in_one_message(
    artifact_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """In a process of its own: Ray reads the threshold when it starts, and one of 2 % is passed at once."""
    limits = {"RAY_memory_usage_threshold": "0.02", "RAY_memory_monitor_refresh_ms": "100"}
    out = tmp_path / "lists.parquet"
    command = [sys.executable, "-m", "clbr", "recommend", str(artifact_of("crosscbr")), "--all", "--on", "ray"]
    ended = subprocess.run([*command, "--out", str(out)], env=os.environ | limits, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "the memory of its node was full; use fewer workers" in ended.stderr and "Traceback" not in ended.stderr
    assert not out.exists()
