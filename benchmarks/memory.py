"""Memory at each stage, as bytes per node and per edge, and how large a world fits: TriLevel, dimension 64.

Worlds like NetEase (1, 2 and 4 times) and like Youshu (8 times: fewer edges per node) are simulated to Parquet. For each
world a process of its own goes from one stage to the next and states its peak memory (ru_maxrss) after each, without that
of the imports. A stage is fitted by least squares: a constant, bytes per node and bytes per edge, none below 0:

    python benchmarks/memory.py [--worlds FOLDER] [--quick] [--memory 24]
"""

import argparse
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from own_process import in_a_process

# The package is imported inside functions: the peak memory of a child process includes that of its parent.

STAGES = (
    "Parquet on disk",
    "simulating",
    "importing",
    "data set",
    "reading",
    "graph, operators",
    "tables, Adam",
    "training",
    "ranking",
)
NETEASE = {"users": 18_528, "bundles": 22_864, "items": 123_628, "edges": 3_209_206}


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def draw(folder: str, like: str, scale: float) -> dict[str, Any]:
    """Simulate a world to Parquet, unless it is there."""
    import clbr.data.folder  # noqa: F401
    from clbr.simulation.generate import SimulateConfig, write_world

    path, imported = Path(folder), peak()
    if not path.exists():
        write_world(SimulateConfig.make({"like": like, "scale": scale}, "world"), path, format="parquet")
    return {
        "Parquet on disk": sum(file.stat().st_size for file in path.rglob("*.parquet")),
        "simulating": peak() - imported,
    }


def import_again(folder: str) -> dict[str, Any]:
    """Import the training pairs, user-item and bundle-item of a world as tables, as `clbr data import` does."""
    import warnings

    from clbr.data.tables import import_tables

    files = ("user_bundle_train", "user_item", "bundle_item")
    tables = [Path(folder) / name for name in files]  # each a folder of Parquet files
    warnings.simplefilter("ignore")
    before = peak()
    import_tables(*tables)
    return {"importing": peak() - before}


def measure(folder: str) -> dict[str, Any]:
    """Read a world, build the graph, train for two steps and rank some blocks of users. Returns peaks in bytes."""
    import torch

    from clbr.data.folder import TABLES, load
    from clbr.evaluation.ranking import BLOCK_SCORES, rank
    from clbr.graph.graph import BundleGraph
    from clbr.models.registry import make_model
    from clbr.rng import torch_generator
    from clbr.training.batches import Positives
    from clbr.training.config import compose
    from clbr.training.loop import make_optimizer
    from clbr.training.runtime import use_threads

    use_threads(1)
    warm_up()
    imported = peak()
    dataset = load(Path(folder))
    found = {"reading": peak() - imported}
    found["data set"] = sum(getattr(dataset, part).nbytes for part in TABLES)
    graph = BundleGraph.of(dataset)
    for edges in (graph.ub, graph.ui, graph.bi):
        edges.symmetric.T  # noqa: B018
    graph.ui.mean.T, graph.bi.mean.T  # noqa: B018
    found["graph, operators"] = peak() - imported
    run = compose(folder, "trilevel", changes={"dim": 64, "batch_size": 2048})
    model = make_model("trilevel", run.settings, dataset, torch_generator(0, "model"))
    optimizer = make_optimizer(model, run.train)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    found["tables, Adam"] = peak() - imported
    train_steps(model, optimizer, graph, Positives(dataset.train, graph.ub.shape))
    found["training"] = peak() - imported
    with torch.no_grad():
        users = torch.arange(min(len(dataset.users), 3 * BLOCK_SCORES // len(dataset.bundles))).numpy()
        rank(model.scorer(graph), users, 20, exclude=dataset.train)
    found["ranking"] = peak() - imported
    return found | {
        "users": len(dataset.users),
        "bundles": len(dataset.bundles),
        "items": len(dataset.items),
        "edges": sum(len(getattr(dataset, part)) for part in TABLES),
    }


def train_steps(model: Any, optimizer: Any, graph: Any, positives: Any) -> None:
    """Make the first two steps of an epoch."""
    import torch

    from clbr.models.embeddings import Batch
    from clbr.rng import generator, torch_generator

    noise = torch_generator(0, "epoch")
    epoch_graph = model.epoch_graph(graph, noise)
    batches = positives.epoch(2048, 1, generator(0, "epoch"), compared=model.compared)
    for _, ub in zip(range(2), batches, strict=False):
        loss = torch.stack(list(model.losses(epoch_graph, Batch(ub), noise).values())).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def warm_up() -> None:
    """Compile kernels and load what is loaded late, so that it does not count as memory of the data."""
    from clbr.graph.graph import BundleGraph
    from clbr.models.registry import make_model
    from clbr.rng import torch_generator
    from clbr.simulation.generate import simulate
    from clbr.training.batches import Positives
    from clbr.training.config import compose
    from clbr.training.loop import make_optimizer

    dataset, run = simulate("tiny").dataset, compose("", "trilevel")
    model = make_model("trilevel", run.settings, dataset, torch_generator(0, "model"))
    graph = BundleGraph.of(dataset)
    train_steps(model, make_optimizer(model, run.train), graph, Positives(dataset.train, graph.ub.shape))


def show(worlds: dict[str, dict[str, Any]], memory: float) -> None:
    import numpy as np
    from scipy.optimize import nnls

    sizes = np.array([[1, w["users"] + w["bundles"] + w["items"], w["edges"]] for w in worlds.values()], float)
    nodes = NETEASE["users"] + NETEASE["bundles"] + NETEASE["items"]
    heads = ("constant", "B per node", "B per edge", "fit", f"NetEase in {memory:g} GB")
    print(
        f"{'MB':18}" + "".join(f"{name:>13}" for name in worlds) + "".join(f"{head:>{len(head) + 2}}" for head in heads)
    )
    print(f"{'nodes':18}" + "".join(f"{int(size):13,}" for size in sizes[:, 1]))
    print(f"{'edges':18}" + "".join(f"{int(size):13,}" for size in sizes[:, 2]))
    for stage in STAGES:
        found = np.array([world[stage] for world in worlds.values()], float)
        fitted, _ = nnls(
            sizes / found[:, None], np.ones(len(found))
        )  # relative errors, so that small worlds count, too
        constant, per_node, per_edge = fitted
        error = np.abs(sizes @ fitted / found - 1).max()
        fits = (memory * 1e9 - constant) / (per_node * nodes + per_edge * NETEASE["edges"])
        cells = "".join(f"{value / 1e6:13,.1f}" for value in found)
        print(
            f"{stage:18}{cells}{constant / 1e6:10,.0f}{per_node:12,.0f}{per_edge:12,.1f}{error:5.0%}{fits:12,.0f} times"
        )
    print("data set and disk: what stays. Other stages: the peak until then. fit: the largest relative error.")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--worlds", type=Path, help="folder to keep the worlds in; worlds that are there are not drawn again"
    )
    parser.add_argument("--quick", action="store_true", help="small worlds, as a check")
    parser.add_argument("--memory", type=float, default=24, help="GB that a world must fit into")
    options = parser.parse_args()
    factor = 0.05 if options.quick else 1
    with TemporaryDirectory() as space:
        worlds = {}
        for like, scale in (("netease", 1), ("netease", 2), ("netease", 4), ("youshu", 8)):
            folder = str((options.worlds or Path(space)) / f"{like}-{scale * factor:g}")
            found = in_a_process(draw, folder, like, scale * factor)
            found |= in_a_process(import_again, folder) | in_a_process(measure, folder)
            worlds[f"{like} x {scale * factor:g}"] = found
            print(f"{like} x {scale * factor:g}: done", file=sys.stderr)
    show(worlds, options.memory)


if __name__ == "__main__":
    main()
