"""Ray: start it on this machine, or connect to a cluster that is there; calls on each of its nodes."""

import importlib.util
import logging
import os
import pickle
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

from clbr import __version__
from clbr.errors import InputError, require

LOCAL, HERE, CLIENT = "local", "ray", "ray://"
"""Processes of this machine, without Ray; Ray on this machine; the beginning of a Ray client server's address."""
CLIENT_PORT = 10001
"""Port of a Ray client server, unless it is given."""
CONNECT_SECONDS, ANSWER_SECONDS, NODE_SECONDS = 10, 60, 300
"""How long a cluster has to accept a connection, to answer, and to answer from each of its nodes."""
LOST_SECONDS, CHECKS = 30, 6
"""How long a cluster may not answer until it counts as lost, and how often it is asked in this time."""
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # workers see the GPUs that this process sees
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DATA_LOG_LEVEL": "CRITICAL",
}
"""Environment variables of Ray, unless they are set."""
PASSED = ("CLBR_MODELS", "CLBR_CHECKPOINT_SECONDS", "CLBR_CACHE")
"""Environment variables that workers get from this process."""
PROBE = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False); ray.nodes()"


def find_ray() -> Any:
    """Import Ray, without usage reports and with its own messages turned off."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        ray = require("ray", "ray")
    except InputError as error:
        raise InputError(str(error), "on") from None
    logging.getLogger("ray").setLevel(logging.ERROR)
    # Ray prints a paragraph to stdout for each worker that was killed. Here the reason is part of the task's result.
    ray._private.worker.print_to_stdstream = lambda *arguments, **options: None
    return ray


@contextmanager
def connected(on: str, workers: int) -> Iterator[None]:
    """Use Ray during the block. `on` is "ray", which starts it here with one CPU per worker, or a cluster's address.

    A Ray that this process uses already is used for "ray", and left running. If a cluster is lost, the whole process
    ends with exit code 2: Ray itself would end it.
    """
    ray = find_ray()
    if ray.is_initialized():
        if on != HERE:
            raise InputError(f"on {on}: this process is connected to a Ray already; '{HERE}' uses that one", "on")
        yield
        return
    here = {"address": "local", "num_cpus": workers, "include_dashboard": False}
    options = here if on == HERE else {"address": _check_address(on)}
    try:
        with _without_stderr():
            ray.init(**options, **QUIET)
        with nullcontext() if on == HERE or on.startswith(CLIENT) else _watched(on):
            yield
    except (ray.exceptions.RayError, ConnectionError) as error:
        message = f"on {on}: Ray cannot be reached ({short_reason(error)}); run the same command again later"
        raise InputError(message, "on") from None
    finally:
        ray.shutdown()


@contextmanager
def _watched(on: str) -> Iterator[None]:
    """End this process with a message if the cluster at HOST:PORT is lost. Ray ends it after a minute without one."""
    over = Event()
    Thread(target=end_when_lost, args=(on, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def end_when_lost(on: str, over: Event, seconds: float = LOST_SECONDS) -> None:
    """Connect to HOST:PORT every few seconds until `over`; end the process with exit code 2 if it fails for so long."""
    host, _, port = on.rpartition(":")
    answered = monotonic()
    while not over.wait(seconds / CHECKS):
        try:
            socket.create_connection((host.strip("[]"), int(port)), seconds / CHECKS).close()
            answered = monotonic()
        except OSError:
            if monotonic() - answered >= seconds and not over.is_set():
                message = "the Ray cluster was lost; run the same command again (finished cells and trials are kept)"
                show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # a progress bar has hidden it
                sys.stdout.flush()
                sys.stderr.write(f"{show_cursor}\nerror: on {on}: {message}\n")
                sys.stderr.flush()
                os._exit(2)  # the main thread may wait for Ray without end


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Discard what Ray's compiled part writes to stderr while it starts: its log level. Errors are raised."""
    before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def parse_address(on: str) -> tuple[str, str, int]:
    """Return the address of a cluster with its port, which may be left out after ray://, and its host and port."""
    if re.fullmatch(rf"{CLIENT}[^:/\s]+", on):
        on = f"{on}:{CLIENT_PORT}"
    match = re.fullmatch(r"(?:ray://)?\[?([^\[\]/\s]+?)\]?:(\d{1,5})", on)
    if not match or int(match[2]) > 65535:
        expected = f"expected {LOCAL}, {HERE}, or the address of a Ray cluster: HOST:PORT or ray://HOST:PORT"
        raise InputError(f"on '{on[:100]}': {expected}", "on")
    return on, match[1], int(match[2])


def _check_address(on: str) -> str:
    """Raise an `InputError` unless a cluster that this process can use answers at the address, within a bounded time.

    Returns the address with its port. Ray itself waits for minutes and ends the process, so another one tries first.
    """
    on, host, port = parse_address(on)
    if on.startswith(CLIENT) and not importlib.util.find_spec("grpc"):
        raise InputError("an address with ray:// needs grpcio, which is not installed: pip install 'clbr[ray]'", "on")
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"no Ray cluster answers at {on} ({reason}); check the address, or start one", "on") from None
    try:
        command = [sys.executable, "-c", PROBE, on]
        tried = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        raise InputError(f"{on} does not answer as a Ray cluster within {ANSWER_SECONDS} s", "on") from None
    if tried.returncode:
        raise InputError(_explain_failure(on, tried.stderr), "on")
    return on


def _explain_failure(on: str, output: str) -> str:
    """The message for a cluster that answered, but cannot be used; `output` is what Ray printed."""
    versions = re.findall(r"Ray: (\S+)\s+Python: (\S+)", output)
    if "Version mismatch" in output and len(versions) == 2:
        there, here = (f"Ray {ray} and Python {python}" for ray, python in versions)
        return f"the cluster at {on} has {there}, and this process has {here}; both must be equal"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    reason = f"the Ray cluster at {on} cannot be used: {lines[-1] if lines else 'it gave no reason'}"
    tokens = "; it uses tokens: set RAY_AUTH_MODE=token here, and RAY_AUTH_TOKEN_PATH if the token is not in ~/.ray"
    return reason + (tokens if re.search("authenticat|unauthorized|RAY_AUTH", output, re.IGNORECASE) else "")


@dataclass(frozen=True)
class Surroundings:
    """What a worker takes over from this process, as its node was started without it: variables, paths of modules."""

    variables: dict[str, str]
    paths: tuple[str, ...]

    @classmethod
    def here(cls) -> "Surroundings":
        """Those of this process."""
        variables = {name: os.environ[name] for name in PASSED if name in os.environ}
        return cls(variables, tuple(str(Path(path).absolute()) for path in sys.path))

    def apply(self) -> None:
        """Take them over."""
        os.environ.update(self.variables)
        sys.path.extend(path for path in self.paths if path not in sys.path)


def check_nodes(check: Callable[..., str], *arguments: Any, cpus: int = 1) -> None:
    """Call a function on each node. It returns what is wrong there, or "". Raises the first fault as an `InputError`.

    Also raises one if no node has this many CPUs, if a node does not answer, or if it has another version of clbr.
    """
    ray = find_ray()
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    if not any(node["Resources"]["CPU"] >= cpus for node in nodes):
        raise InputError(f"a worker has {cpus} threads, and no node of the cluster has as many CPUs", "threads", "on")
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    call = ray.remote(num_cpus=0, max_retries=0)(_call_on_node)
    results = {
        call.options(scheduling_strategy=strategy(node["NodeID"], soft=False)).remote(
            __version__, Surroundings.here(), ray.cloudpickle.dumps((check, arguments))
        ): node["NodeManagerAddress"]
        for node in nodes
    }
    ready, late = ray.wait(list(results), num_returns=len(results), timeout=NODE_SECONDS)
    for result in late:
        raise InputError(f"node {results[result]} of the cluster does not answer within {NODE_SECONDS} s", "on")
    for result in ready:
        try:
            fault = ray.get(result)
        except ray.exceptions.RayError as error:
            fault = short_reason(error)
        if fault:
            raise InputError(f"node {results[result]} of the cluster: {fault}", "on")


def _call_on_node(version: str, surroundings: Surroundings, payload: bytes) -> str:
    if version != __version__:
        return f"has clbr {__version__}, and this process has {version}; both must be equal"
    surroundings.apply()
    check, arguments = pickle.loads(payload)
    return str(check(*arguments))


def short_reason(error: Exception) -> str:
    """What Ray says about a lost worker or a failed call, in one sentence."""
    text = str(error)
    if "memory" in type(error).__name__.lower() or "running low on memory" in text:
        return "it was stopped because the memory of its node was full; use fewer workers, or a node with more memory"
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), type(error).__name__)
    return last.partition(". ")[0].rstrip(".")
