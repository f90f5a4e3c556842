"""Where a run was made: versions, threads, machine, revision, data."""

import ctypes
import gc
import os
import platform
import signal
import subprocess
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.graph import kernels

PACKAGES = ("clbr", "torch", "numpy", "scipy", "numba", "polars")


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as in malloc.h
NEVER = -1


def use_threads(count: int | None) -> int:
    """Set the number of threads once for torch and the kernel; gives the number in use."""
    keep_large_blocks()
    wanted = count or torch.get_num_threads()
    if kernels.available:
        import numba

        # Starting numba's threads sets torch's number anew, as both are OpenMP's; so torch is told last.
        numba.set_num_threads(min(wanted, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    torch.set_num_threads(wanted)
    return torch.get_num_threads()


def start_deaf(process: BaseProcess) -> None:
    """Start a process that does not hear Ctrl-C, not even while it sets itself up: it is its parent's to hear."""
    resource_tracker.ensure_running()  # the first process starts it, which would unblock the signal again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which a new process takes over
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def find_device(name: str) -> torch.device:
    """The device of that name; "auto" is a GPU where there is one."""
    there = torch.cuda.is_available()
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"device '{name}': expected auto, cpu or cuda")
    if name == "cuda" and not there:
        raise InputError("device 'cuda': torch finds no GPU here; leave --device out, or give --device cpu")
    return torch.device("cuda" if there and name != "cpu" else "cpu")


def keep_large_blocks() -> None:
    """Ask glibc to keep freed memory for the next step rather than to give it back to the system.

    A step of BGCN takes and frees hundreds of megabytes; fetching them anew as zeroed pages costs a tenth of its time
    on Youshu and a third on twice its size.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc alone has it
        mallopt(M_MMAP_THRESHOLD, 1 << 30)
        mallopt(M_TRIM_THRESHOLD, NEVER)


def give_back() -> None:
    """Collect what nothing holds on to any more, and give its memory back to the system."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def describe_environment(dataset: BundleDataset, device: torch.device) -> dict[str, Any]:
    """What one needs to know to make a run again."""
    return {
        "versions": {package: _version(package) for package in PACKAGES} | {"python": platform.python_version()},
        "threads": torch.get_num_threads(),
        "device": str(device),
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
        "revision": _revision(),
        "data": {"name": dataset.name, "fingerprint": dataset.fingerprint},
    }


def _version(package: str) -> str | None:
    """Of an installed package; None where it is missing, as numba may be."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _revision() -> str | None:
    """The git revision of the package's own checkout, if it is one."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None
