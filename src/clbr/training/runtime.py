"""The process that trains: threads, device, memory, Ctrl-C, and a description of the environment."""

import ctypes
import gc
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.graph import kernels
from clbr.models.columns import cut

PACKAGES = ("clbr", "torch", "numpy", "scipy", "numba", "polars")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as in malloc.h
NEVER = -1


def use_threads(count: int | None) -> int:
    """Set the number of threads of torch and of the compiled kernels; None keeps torch's. Return the number in use."""
    keep_large_blocks()
    wanted = count or torch.get_num_threads()
    if kernels.available:
        import numba

        # Both use OpenMP, and starting numba's threads changes torch's number: so torch's is set last.
        numba.set_num_threads(min(wanted, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    torch.set_num_threads(wanted)
    return torch.get_num_threads()


def find_device(name: str) -> torch.device:
    """Return the device of this name (auto, cpu or cuda); "auto" is a GPU if there is one."""
    has_gpu = torch.cuda.is_available()
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"device '{name}': expected auto, cpu or cuda", "device")
    if name == "cuda" and not has_gpu:
        raise InputError("device 'cuda': torch finds no GPU here; use auto or cpu", "device")
    return torch.device("cuda" if has_gpu and name != "cpu" else "cpu")


def keep_large_blocks() -> None:
    """Ask glibc to keep freed memory for the next step instead of returning it to the system.

    A step of BGCN allocates and frees hundreds of megabytes. Getting them again as zeroed pages costs a tenth of its
    time on Youshu, and a third on data twice that size.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # only glibc has it
        mallopt(M_MMAP_THRESHOLD, 1 << 30)
        mallopt(M_TRIM_THRESHOLD, NEVER)


def release_memory() -> None:
    """Free unreachable objects and return their memory to the system."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _print_error(message: str) -> None:
    print(message, file=sys.stderr)


@contextmanager
def interruptible(message: str, echo: Callable[[str], None] = _print_error) -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C ask for a stop instead of raising KeyboardInterrupt at once.

    Yields `should_stop()`, true after the first Ctrl-C, which prints `message` through `echo`. A second Ctrl-C raises
    KeyboardInterrupt. Outside the main thread, where signals cannot be handled, `should_stop()` is always false.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    interrupted = False

    def interrupt(number: int, frame: object) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True
        echo(f"\n{message} (press Ctrl-C again to stop at once)")

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield lambda: interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def describe_environment(dataset: BundleDataset, device: torch.device) -> dict[str, Any]:
    """Return what is needed to repeat a run: versions, threads, processes, device, machine, git revision, data set."""
    return {
        "versions": {package: _version(package) for package in PACKAGES} | {"python": platform.python_version()},
        "threads": torch.get_num_threads(),
        "processes": cut.size,
        "device": str(device),
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
        "revision": _revision(),
        "data": {"name": dataset.name, "fingerprint": dataset.fingerprint},
    }


def _version(package: str) -> str | None:
    """Return the version of an installed package; None if it is missing, as numba may be."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _revision() -> str | None:
    """Return the git revision of the package's own checkout, if it is one; with '+changes' if its code is another."""
    head = _git("rev-parse", "HEAD")
    return head and head + ("+changes" if _git("status", "-s", "--", ".") else "")


def _git(*arguments: str) -> str | None:
    """Return what git prints in the package's folder; None if that is nothing."""
    command = ["git", "-C", str(Path(__file__).parents[1]), *arguments]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return result.stdout.strip() or None
