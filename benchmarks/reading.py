"""Reading the canonical data layout: the package compared with line-by-line Python, on NetEase-sized files.

python benchmarks/reading.py
"""

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


def main() -> None:
    with TemporaryDirectory() as space:
        folder = save(simulate("netease").dataset, Path(space) / "netease")
        lines = sum((folder / file).read_bytes().count(b"\n") for file in TABLES.values())
        load(folder)
        fast = best_of(15, load, folder)
        print(f"{lines:,} lines, clbr.load, every id and pair validated: {fast:.3f} s")
        for reader in (plain_loop, as_published):
            slow = best_of(2, read_with, reader, folder)
            print(f"line by line, {reader.__name__}, nothing validated: {slow:.2f} s, {slow / fast:.1f} times as long")


if __name__ == "__main__":
    main()
