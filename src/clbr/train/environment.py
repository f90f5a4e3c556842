"""Where a run was made: versions, threads, machine, revision, data."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from clbr.data.dataset import BundleDataset
from clbr.graph import kernels

PACKAGES = ("clbr", "torch", "numpy", "scipy", "numba", "polars")


def use_threads(count: int | None) -> int:
    """Set the number of threads once for torch and the kernel; gives the number in use."""
    if count:
        torch.set_num_threads(count)
    if kernels.available:
        import numba

        numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    return torch.get_num_threads()


def describe_environment(dataset: BundleDataset) -> dict[str, Any]:
    """What one needs to know to make a run again."""
    return {
        "versions": {package: version(package) for package in PACKAGES} | {"python": platform.python_version()},
        "threads": torch.get_num_threads(),
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
        "revision": _revision(),
        "data": {"name": dataset.name, "fingerprint": dataset.fingerprint},
    }


def _revision() -> str | None:
    """The git revision of the package's own checkout, if it is one."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None
