"""Simulating the NetEase-like world: seconds and peak memory.

python benchmarks/simulating.py
"""

import resource
from time import perf_counter

from clbr.data.describe import describe
from clbr.simulation.generate import simulate


def main() -> None:
    start = perf_counter()
    world = simulate("netease")
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    edges = sum(relation.pairs for relation in describe(world.dataset).relations.values())
    print(f"netease-like, {edges:,} edges: {seconds:.1f} s, {edges / seconds:,.0f} edges a second, peak {peak:.2f} GiB")


if __name__ == "__main__":
    main()
