"""Counterfactual views: seconds to draw them, and seconds of an epoch with views and without.

The heuristic sampler draws four views with a ratio of 0.1 on all relations; its selection model is a BGCN trained for a
few epochs. Then epochs of three strategies alternate (medians): original, clbr with four views, and clbr with a new view
every epoch. DATA is a data folder, by default Youshu; if Youshu is not available, a simulated world of its size is used.
--netease also draws the views of a NetEase-like world.

    python benchmarks/views.py [DATA] [--models bgcn,crosscbr,rgcn,bundlenet] [--epochs 30] [--netease]
"""

import argparse
import resource
from functools import partial
from statistics import median
from time import perf_counter

import torch

from clbr.counterfactual.config import ViewsConfig
from clbr.counterfactual.samplers import Heuristic
from clbr.counterfactual.strategy import CLBR, draw_views, make_sampler
from clbr.data.dataset import BundleDataset
from clbr.graph.graph import BundleGraph
from clbr.models.base import Encoder
from clbr.models.embeddings import Embeddings
from clbr.models.registry import find_model, make_model
from clbr.rng import generator, torch_generator
from clbr.simulation.generate import simulate
from clbr.training.batches import view_batches
from clbr.training.config import compose
from clbr.training.loop import make_optimizer, train
from clbr.training.runtime import use_threads
from speed import find_data

SEED = 0
WARM_UP = 4
"""Epochs that are not counted. After them each of the four views has most likely been used once."""
NO_EVALUATION = {"epochs": 10**6, "evaluate_every": 10**6}


def selection_embeddings(dataset: BundleDataset, graph: BundleGraph, name: str, epochs: int) -> Embeddings:
    """Train a selection model for some epochs (0: none) and return its embeddings."""
    run = compose(dataset.name, name, preset="youshu", changes=NO_EVALUATION)
    model = make_model(name, run.settings, dataset, torch_generator(SEED, "model"))
    assert isinstance(model, Encoder)
    if epochs:
        for epoch in train(model, make_optimizer(model, run.train), dataset, run.train, SEED):
            if epoch.number == epochs:
                break
    with torch.no_grad():
        return model.encode(graph)


def time_drawing(dataset: BundleDataset, epochs: int) -> None:
    """Print the seconds to draw four views, the peak memory and the pass rates."""
    graph = BundleGraph.of(dataset)
    embeddings = selection_embeddings(dataset, graph, "bgcn", epochs)
    sampler = Heuristic(graph, embeddings)
    sampler.draw({"ub": 0.01, "ui": 0.01, "bi": 0.01}, generator(SEED, "warm up"))
    start = perf_counter()
    sampler = Heuristic(graph, embeddings)
    for index in range(4):
        _, record = sampler.draw({"ub": 0.1, "ui": 0.1, "bi": 0.1}, generator(SEED, "view", str(index)))
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{dataset.name}, BGCN of {epochs} epochs: four views in {seconds:.1f} s, peak {peak:.2f} GiB")
    for relation, found in record.items():
        share = found["added"] / (found["added"] + found["dropped"])
        rates = f"{found['pass rate of additions']:.2%} and {found['pass rate of drops']:.2%}"
        print(f"  {relation}: {share:.0%} additions; pass rates of additions and drops {rates}")


def time_epochs(dataset: BundleDataset, name: str, rounds: int) -> None:
    """Print the median seconds of an epoch of each strategy."""
    graph = BundleGraph.of(dataset)
    run = compose(dataset.name, name, preset="youshu", changes=NO_EVALUATION)
    config = ViewsConfig().within(find_model(name).relations)
    sampler = make_sampler(config, graph, selection_embeddings(dataset, graph, name, 0), SEED)
    views, _ = draw_views(sampler, config, SEED)
    batches = partial(view_batches, run.train.batch_size, run.train.negatives)
    strategies = {
        "original": None,
        "clbr": CLBR(config, views, SEED, batches),
        "redrawn": CLBR(config, views, SEED, batches, sampler),
    }
    trainings = {}
    for label, strategy in strategies.items():
        model = make_model(name, run.settings, dataset, torch_generator(SEED, "model"))
        optimizer = make_optimizer(model, run.train)
        trainings[label] = train(model, optimizer, dataset, run.train, SEED, strategy=strategy)
    seconds: dict[str, list[float]] = {label: [] for label in trainings}
    for _ in range(rounds + WARM_UP):
        for label, epochs in trainings.items():
            seconds[label].append(next(epochs).seconds)
    original, clbr, redrawn = (median(times[WARM_UP:]) for times in seconds.values())
    ratios = f"{clbr:12.3f}{clbr / original:8.2f}{redrawn:12.3f}{redrawn / original:8.2f}"
    print(f"{name:12}{original:12.3f}{ratios}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", help="a data folder")
    parser.add_argument("--models", default="bgcn,crosscbr,rgcn,bundlenet", help="names, separated by commas")
    parser.add_argument("--epochs", type=int, default=30, help="epochs of the selection model")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--netease", action="store_true", help="also draw the views of a NetEase-like world")
    options = parser.parse_args()
    use_threads(None)
    dataset = find_data(options.data)
    time_drawing(dataset, options.epochs)
    print(f"\n{'an epoch':12}{'original s':>12}{'clbr s':>12}{'ratio':>8}{'redrawn s':>12}{'ratio':>8}")
    for name in filter(None, options.models.split(",")):
        time_epochs(dataset, name, options.rounds)
    if options.netease:
        print()
        time_drawing(simulate("netease").dataset, min(options.epochs, 1))


if __name__ == "__main__":
    main()
