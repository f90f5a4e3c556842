"""BGCN and CrossCBR on growing data: seconds per epoch and peak memory, NetEase-like and 1, 2, 4, 8 times Youshu-like.

Each cell runs in its own process. It loads the data, makes two steps to warm up, times up to 40 steps of an epoch
(scaled to a full epoch) and evaluates on validation once, so that its peak memory is that of a real run. The time of a
step should grow no faster than the number of edges. The number of steps grows with the number of training pairs, unless
the batch size grows, too:

    python benchmarks/scale.py [--growing-batch] [--quick]
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

# The package is imported inside functions: the peak memory of a child process includes that of its parent.

MODELS = ("bgcn", "crosscbr")
WARM_UP, TIMED = 2, 40
GIB = 2**20  # ru_maxrss counts KiB


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIB


def draw(folder: str, like: str, scale: float) -> dict[str, Any]:
    """Simulate a data set and save it."""
    from clbr.data.folder import save
    from clbr.simulation.generate import simulate

    dataset = simulate(like, scale=scale).dataset  # type: ignore[arg-type]
    save(dataset, Path(folder))
    return {"edges": len(dataset.train) + len(dataset.ui) + len(dataset.bi)}


def measure(folder: str, name: str, batch: int) -> dict[str, Any]:
    """Train for some steps, then evaluate on validation. Returns seconds and GiB."""
    from clbr.data.folder import load
    from clbr.evaluation.protocol import evaluate
    from clbr.graph.graph import BundleGraph
    from clbr.models.registry import make_model
    from clbr.rng import torch_generator
    from clbr.training.batches import Positives
    from clbr.training.config import compose
    from clbr.training.loop import make_optimizer
    from clbr.training.runtime import use_threads

    use_threads(None)
    imported = peak()
    run = compose(folder, name, preset="youshu", changes={"batch_size": batch})
    dataset = load(Path(folder))
    graph = BundleGraph.of(dataset)
    model = make_model(name, run.settings, dataset, torch_generator(0, "model"))
    optimizer, positives = make_optimizer(model, run.train), Positives(dataset.train, graph.ub.shape)
    for limit in (WARM_UP, TIMED):
        start, times = epoch(model, optimizer, graph, positives, batch, limit)
    steps, rest = -(-len(positives) // batch), times[1:] or times
    trained = peak()
    evaluation_start = perf_counter()
    evaluate(model.scorer(graph), dataset, split="validation")
    return {
        "steps": steps,
        "step": median(times),
        "epoch": start + times[0] + (steps - 1) * median(rest),  # the first step also builds the operators
        "evaluation": perf_counter() - evaluation_start,
        "imported": imported,
        "trained": trained,
        "peak": peak(),
        "added": peak() - imported,
    }


def epoch(model: Any, optimizer: Any, graph: Any, positives: Any, batch: int, limit: int) -> tuple[float, list[float]]:
    """Return the seconds to start an epoch (its graph and its negatives), and of each of its first steps."""
    import torch

    from clbr.models.base import Batch
    from clbr.rng import generator, torch_generator

    epoch_start = perf_counter()
    noise = torch_generator(0, "epoch")
    epoch_graph = model.epoch_graph(graph, noise)
    triples = positives.epoch(batch, 1, generator(0, "epoch"))
    mark = perf_counter()
    start, times = mark - epoch_start, []
    for _, ub in zip(range(limit), triples, strict=False):
        loss = torch.stack(list(model.losses(epoch_graph, Batch(ub), noise).values())).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(perf_counter() - mark)
        mark = perf_counter()
    return start, times


def in_a_process(*call: object) -> dict[str, Any]:
    """Call one of the functions above in a new process."""
    command = [sys.executable, __file__, "--call", json.dumps(call)]
    answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return answer


def show(name: str, cells: list[dict[str, Any]]) -> None:
    base = next(cell for cell in cells if cell["like"] == "youshu")
    grown = ("edges", "step", "epoch", "peak", "added")
    heads = ("edges", "steps", "step ms", "epoch s", "validation s", "import GiB", "trained GiB", "peak GiB")
    print(f"\n{name:18}" + "".join(f"{head:>12}" for head in heads) + "   | " + "".join(f"{x:>8}" for x in grown))
    for cell in cells:
        label = f"{cell['like']} x {cell['scale']:g}"
        figures = (
            f"{cell['edges']:12,}{cell['steps']:12,}{cell['step'] * 1e3:12.0f}{cell['epoch']:12.2f}"
            f"{cell['evaluation']:12.2f}{cell['imported']:12.2f}{cell['trained']:12.2f}{cell['peak']:12.2f}"
        )
        ratios = "".join(f"{cell[key] / base[key]:8.2f}" for key in grown)
        print(f"{label:18}{figures}   | {ratios}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--growing-batch", action="store_true", help="batches of 2,048 times the scale instead of 2,048"
    )
    parser.add_argument("--quick", action="store_true", help="two small worlds, as a check")
    parser.add_argument("--call", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.call:
        function, *arguments = json.loads(options.call)
        print(json.dumps({"draw": draw, "measure": measure}[function](*arguments)))
        return
    scales = (0.1, 0.2) if options.quick else (1, 2, 4, 8)
    worlds = [("youshu", scale) for scale in scales] + ([] if options.quick else [("netease", 1)])
    cells: dict[str, list[dict[str, Any]]] = {name: [] for name in MODELS}
    for like, scale in worlds:
        batch = round(2048 * scale) if options.growing_batch and like == "youshu" else 2048
        with TemporaryDirectory() as space:
            folder = f"{space}/{like}"
            world = {"like": like, "scale": scale} | in_a_process("draw", folder, like, scale)
            for name in MODELS:
                cells[name].append(world | in_a_process("measure", folder, name, batch))
                print(f"{like} x {scale:g}, {name}: done", file=sys.stderr)
    print(
        f"Right of the bar: multiples of the values of youshu x {scales[0]:g}; added is the peak without the imports."
    )
    for name in MODELS:
        show(name, cells[name])


if __name__ == "__main__":
    main()
