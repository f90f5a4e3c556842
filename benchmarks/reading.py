"""Reading data folders: time beside line-by-line Python, and peak memory beside the arrays that stay. NetEase-sized.

Memory is measured in processes of their own, on text and on Parquet, as a multiple of the arrays' bytes; a data set is
read and its fingerprint computed.

    python benchmarks/reading.py [DATA ...]    for other data folders: memory only
"""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from clbr.data.folder import TABLES, load, save
from clbr.simulation.generate import simulate


def plain_loop(path: Path) -> list[tuple[int, int]]:
    """Read line by line with as little work per line as possible."""
    pairs = []
    with path.open() as lines:
        for line in lines:
            left, right = line.split("\t")
            pairs.append((int(left), int(right)))
    return pairs


def as_published(path: Path) -> list[tuple[int, ...]]:
    """Read as published bundle recommenders do: a tuple from a generator for every line."""
    with path.open() as lines:
        return [tuple(int(field) for field in line[:-1].split("\t")) for line in lines.readlines()]


def read_with(reader: Callable[[Path], object], folder: Path) -> None:
    for file in TABLES.values():
        np.array(reader(folder / file), dtype=np.int32)


def best_of(runs: int, function: Callable[..., object], *arguments: object) -> float:
    """Return the shortest time of several calls, in seconds."""
    times = []
    for _ in range(runs):
        start = perf_counter()
        function(*arguments)
        times.append(perf_counter() - start)
    return min(times)


def measure_memory(folder: Path) -> None:
    """Print the peak memory of reading a folder, in a process that imported all it needs."""

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    with TemporaryDirectory() as space:
        for form in ("text", "parquet"):
            load(save(simulate("tiny", scale=0.1).dataset, Path(space) / form, format=form))  # type: ignore[arg-type]
    before, start = peak(), perf_counter()
    dataset = load(folder)
    seconds, reading = perf_counter() - start, peak() - before
    assert dataset.fingerprint
    arrays = sum(getattr(dataset, part).nbytes for part in TABLES)
    print(
        f"{folder.name}: {arrays / 1e6:,.1f} MB of arrays read in {seconds:.2f} s, peak {reading / arrays:.2f} times the "
        f"arrays, {(peak() - before) / arrays:.2f} times with the fingerprint",
        flush=True,
    )


def main() -> None:
    if sys.argv[1:2] == ["--memory"]:
        measure_memory(Path(sys.argv[2]))
        return
    for data in sys.argv[1:]:
        subprocess.run([sys.executable, __file__, "--memory", data], check=True)
    if not sys.argv[1:]:
        compare()


def compare() -> None:
    with TemporaryDirectory() as space:
        dataset = simulate("netease").dataset
        folder = save(dataset, Path(space) / "netease")
        parquet = save(dataset, Path(space) / "netease, Parquet", format="parquet")
        lines = sum((folder / file).read_bytes().count(b"\n") for file in TABLES.values())
        load(folder)
        fast = best_of(15, load, folder)
        print(f"{lines:,} lines, clbr.load, every id and pair validated: {fast:.3f} s")
        print(f"the same in Parquet: {best_of(15, load, parquet):.3f} s")
        for reader in (plain_loop, as_published):
            slow = best_of(2, read_with, reader, folder)
            print(f"line by line, {reader.__name__}, nothing validated: {slow:.2f} s, {slow / fast:.1f} times as long")
        for form in (folder, parquet):
            subprocess.run([sys.executable, __file__, "--memory", form], check=True)


if __name__ == "__main__":
    main()
