"""Simulating NetEase-like worlds to Parquet: seconds of processor time and peak memory, 1, 2 and 4 times NetEase.

Each world is simulated in its own process. Time should grow with the edges, memory with the nodes:

    python benchmarks/simulating.py [SCALE ...]
"""

import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

# The package is imported inside functions: the peak memory of a child process includes that of its parent.


def draw(scale: float) -> None:
    from clbr.simulation.generate import SimulateConfig, write_world

    with TemporaryDirectory() as space:
        before, start, busy = peak(), perf_counter(), process_time()
        config = SimulateConfig.make({"like": "netease", "scale": scale}, "world")
        line = write_world(config, Path(space) / "world", format="parquet")
        seconds, busy = perf_counter() - start, process_time() - busy
        size = sum(file.stat().st_size for file in Path(space).rglob("*.parquet"))
    edges = sum(int(part.split()[1].replace(",", "")) for part in line.rstrip(")").split("; ")[1].split(", "))
    print(
        f"netease x {scale:g}, {edges:,} edges: {seconds:.1f} s ({busy:.1f} s of processor time, {edges / busy:,.0f} edges "
        f"a second), peak {before:.2f} + {peak() - before:.2f} GiB, {size / edges:.2f} bytes an edge"
    )


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    if sys.argv[1:2] == ["--draw"]:
        draw(float(sys.argv[2]))
        return
    for scale in sys.argv[1:] or ("1", "2", "4"):
        subprocess.run([sys.executable, __file__, "--draw", scale], check=True)


if __name__ == "__main__":
    main()
