"""Training on several processes, cut by columns: bytes, memory and seconds, and what 64 machines would do on paper.

For each number of processes, all on this machine, TriLevel is trained for two epochs; the second one is timed. Then the
time of a sparse product per edge is measured for tables of fewer and fewer columns, and used for the estimate:

    python benchmarks/processes.py [DATA] [--like youshu] [--scale 1] [--processes 1,2,4] [--threads 1] [--dim 64]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from own_process import command

# The package is imported inside functions: the peak memory of a child process includes that of its parent.

MB = 1e6
WIDTHS = (64, 32, 16, 8, 4, 2, 1)
DIM, COMPARED, PART, VALIDATED = 64, 6_144, 2_048, 4_096
"""Columns, bundles that a user is compared with, pairs of a part of the contrast, users ranked after an epoch."""
NODES = {"users": 18_528, "bundles": 22_864, "items": 123_628}
EDGES = {"ub": 302_303, "ui": 1_128_065, "bi": 1_778_838}
"""Of NetEase."""


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB


def measure(data: str, threads: int, changes: dict[str, int]) -> dict[str, Any]:
    """Train in this process, one of several. Returns bytes, memory and seconds."""
    from clbr.data.folder import load
    from clbr.models.columns import cut
    from clbr.models.registry import make_model
    from clbr.rng import torch_generator
    from clbr.training.config import compose, defaults_by_data
    from clbr.training.distributed import Processes
    from clbr.training.loop import make_optimizer, train
    from clbr.training.runtime import use_threads

    use_threads(threads)
    dataset, group = load(Path(data)), Processes(None)
    run = compose(
        data, "trilevel", preset="none", by_data=defaults_by_data("trilevel", dataset), changes=changes | {"epochs": 2}
    )
    before = peak()
    group.connect(run, "cpu")
    model = make_model("trilevel", run.settings, dataset, torch_generator(0, "init"))
    optimizer, steps, marks = make_optimizer(model, run.train), 0, []

    def on_step(step: int, of: int) -> None:
        nonlocal steps
        steps = of
        marks.append((cut.added, perf_counter(), cut.exchanged))

    seconds = [epoch.seconds for epoch in train(model, optimizer, dataset, run.train, 0, on_step=on_step)]
    state = [x for moments in optimizer.state.values() for x in moments.values()]
    parameters = list(model.parameters())
    group.disconnect()
    return {
        "steps": steps,
        "added": (marks[-1][0] - marks[-steps][0]) / (steps - 1),
        "exchanged": (marks[-1][2] - marks[-steps][2]) / (steps - 1),
        "step": (marks[-1][1] - marks[-steps][1]) / (steps - 1),
        "epoch": seconds[-1],
        "tables": sum(x.nbytes for x in [*parameters, *state]) / MB,
        "before": before,
        "peak": peak(),
    }


def rates() -> dict[str, float]:
    """Return the nanoseconds of an edge in a sparse product, by number of columns; the table always has 256 MB."""
    import numpy as np
    import torch

    from clbr.graph.operators import Matrix, Pattern
    from clbr.training.runtime import use_threads

    use_threads(1)
    rows, degree, found = 1 << 20, 8, {}
    pointers, draws = np.arange(rows + 1) * degree, np.random.default_rng(0)
    for width in WIDTHS:
        nodes = (1 << 26) // width
        columns = draws.integers(nodes, size=rows * degree, dtype=np.int32)
        matrix, table = Matrix(Pattern(pointers, columns, nodes), torch.ones(rows * degree)), torch.rand(nodes, width)
        times = []
        for _ in range(5):
            start = process_time()  # not the clock: other work may share the core
            matrix.apply(table)
            times.append(process_time() - start)
        found[str(width)] = 1e9 * min(times) / (rows * degree)
    return found


def graph_bytes(data: str) -> dict[str, float]:
    """Return the bytes of the graph per edge, with all that a TriLevel step caches in it and its edge dropout."""
    import numpy as np
    import torch

    from clbr.data.folder import load
    from clbr.graph.graph import BundleGraph
    from clbr.models.registry import make_model
    from clbr.rng import torch_generator

    dataset = load(Path(data))
    graph, noise = BundleGraph.of(dataset), torch_generator(0, "epoch")
    model = make_model("trilevel", {"dim": 1}, dataset, noise)
    epoch_graph = model.epoch_graph(graph, noise)
    levels = model.encode(epoch_graph).levels.values()  # type: ignore[operator]
    sum(level.users.sum() + level.bundles.sum() for level in levels).backward()
    sizes, todo, seen = dict[int, int](), [graph, epoch_graph], set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray | torch.Tensor):
            array = one.detach().numpy() if isinstance(one, torch.Tensor) else one
            base = array if array.base is None or not isinstance(array.base, np.ndarray) else array.base
            sizes[base.__array_interface__["data"][0]] = base.nbytes
        elif isinstance(one, tuple | list):
            todo += one
        elif type(one).__module__.startswith("clbr."):
            todo += vars(one).values()
    edges = len(dataset.train) + len(dataset.ui) + len(dataset.bi)
    return {"graph": sum(sizes.values()) / edges}


def start(call: list[str], size: int, space: str) -> list[dict[str, Any]]:
    """Run a command in so many processes that know of each other."""
    running = []
    for rank in range(size):
        place = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
        meeting = {"CLBR_MEETING": f"file://{space}/meeting-{size}", "GLOO_SOCKET_IFNAME": "lo"}
        environment = os.environ | {key: str(value) for key, value in place.items()} | meeting
        running.append(subprocess.Popen(call, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        sys.exit(f"{call[-2]}: failed, see above")
    return [json.loads(output) for output in outputs]


def show(found: dict[int, list[dict[str, Any]]]) -> None:
    names = ["processes", "added up a step, MB", "exchanged for rows, MB", "sent a step, MB"]
    names += ["tables and moments of each, MB", "peak of each, MB", "of it after the data, MB", "step, s", "epoch, s"]
    print("|", " | ".join(names), "|\n|" + "---|" * len(names))
    for size, processes in found.items():
        first, most = processes[0], max(processes, key=lambda one: one["peak"])
        sent = 2 * (size - 1) / size * first["added"] + first["exchanged"]
        cells = [f"{value / MB:.2f}" for value in (first["added"], first["exchanged"], sent)]
        cells += [f"{first['tables']:.1f}", f"{most['peak']:.0f}", f"{most['peak'] - most['before']:.0f}"]
        print("|", " | ".join([str(size), *cells, f"{first['step']:.2f}", f"{first['epoch']:.1f}"]), "|")


def on_paper(
    nanoseconds: dict[str, float], per_edge: float, machines: int, gbit: float = 25, factor: int = 350
) -> None:
    """Print what a step of TriLevel costs on many machines, with data like NetEase times `factor`."""
    nodes = {kind: factor * count for kind, count in NODES.items()}
    edges = {relation: factor * count for relation, count in EDGES.items()}
    total, pairs = sum(nodes.values()), edges["ub"]
    batch = 1 << (max(1, pairs // 16).bit_length() - 1)
    users = round(batch * nodes["users"] / pairs)  # a batch holds all pairs of its users
    ring, own = 2 * (machines - 1) / machines, DIM // machines
    sent = {
        "row lengths": ring * 4 * 2 * 2 * total,  # a node is on 2 of 3 graphs; forward and backward
        "softmax scores": ring * 4 * (users * COMPARED + batch),
        "contrast, vectors": 4 * 2 * 3 * (users + batch) * own,  # forward and backward, 3 levels
    }
    instead = ring * 4 * 3 * (batch // PART) * (PART**2 + (PART * users // batch) ** 2)
    print(
        f"\n{machines} machines: {sum(edges.values()):,} edges, {total:,} nodes, {-(-pairs // batch)} steps of {batch:,} pairs"
    )
    for name, count in sent.items():
        print(f"  {name}: {count / 1e9:.2f} GB sent by each, {8 * count / gbit / 1e9:.2f} s a step at {gbit:g} Gbit/s")
    print(f"  contrast, if its inner products were added up: {instead / 1e9:.0f} GB, {8 * instead / gbit / 1e9:.0f} s")
    validation = ring * 4 * VALIDATED * nodes["bundles"]
    print(f"  validation, once an epoch: {validation / 1e9:.0f} GB, {8 * validation / gbit / 1e9:.0f} s")
    visits = 2 * (
        2 * sum(edges.values()) + edges["bi"] + edges["ui"]
    )  # both directions and means; forward and backward
    for columns in (DIM, own):
        seconds = visits * nanoseconds[str(columns)] / 1e9
        print(f"  {visits:,} edge visits, {columns} columns: {seconds:.0f} s a step at the rate of one core here")
    scores, contrast = users * COMPARED, 3 * (batch // PART) * PART**2
    print(f"  exponentials of the softmax, on each: {scores:,}; of the contrast, divided: {contrast // machines:,}")
    print(
        f"  tables and moments: {12 * DIM * total / 1e9:.0f} GB in all, {12 * own * total / 1e9:.2f} GB on each machine"
    )
    print(f"  graph: {per_edge * sum(edges.values()) / 1e9:.0f} GB on each machine")
    print(f"  largest table when it is drawn: {4 * DIM * nodes['items'] / 1e9:.1f} GB on each machine")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, help="a data folder; a simulated world if left out")
    parser.add_argument("--like", default="youshu")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--processes", default="1,2,4")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--dim", type=int, default=DIM, help="columns")
    parser.add_argument("--batch", type=int, help="pairs of a step; by the size of the data if left out")
    options = parser.parse_args()
    with TemporaryDirectory() as space:
        data = options.data
        if data is None:
            from clbr import save, simulate

            data = save(simulate(options.like, scale=options.scale).dataset, Path(space) / "world")
        changes = {"dim": options.dim} | ({"batch_size": options.batch} if options.batch else {})
        sizes = [int(size) for size in options.processes.split(",")]
        show({size: start(command(measure, str(data), options.threads, changes), size, space) for size in sizes})
        (nanoseconds,) = start(command(rates), 1, space)
        (memory,) = start(command(graph_bytes, str(data)), 1, space)
    print("\nns per edge by columns: " + ", ".join(f"{width}: {value:.2f}" for width, value in nanoseconds.items()))
    print(f"graph in memory: {memory['graph']:.0f} bytes per edge")
    for machines in (4, 64):
        on_paper(nanoseconds, memory["graph"], machines)


if __name__ == "__main__":
    main()
