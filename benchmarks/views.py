"""Counterfactual views: seconds to draw them, and an epoch with them against the original epoch of the same model.

Four views at a ratio of 0.1 on all relations by the heuristic sampler, on a BGCN trained for a few epochs; then epochs
in turns, medians: without views, with four, with one drawn anew every epoch. DATA is a data folder, Youshu unless
told; if it is not at hand, a simulated world of its size stands in. --netease draws the views of a NetEase-like world.

    python benchmarks/views.py [DATA] [--models bgcn,crosscbr,rgcn,bundlenet] [--epochs 30] [--netease]
"""

import argparse
import resource
from statistics import median
from time import perf_counter

import torch

from clbr import BundleDataset, simulate
from clbr.counterfactual.config import ViewsConfig
from clbr.counterfactual.samplers import Heuristic
from clbr.counterfactual.strategy import Counterfactual, draw_views, make_sampler
from clbr.graph.graph import BundleGraph
from clbr.models.base import Embeddings, Encoder
from clbr.models.registry import make_model
from clbr.rng import generator, torch_generator
from clbr.training.config import compose
from clbr.training.loop import make_optimiser, train
from clbr.training.runtime import use_threads
from speed import find_data

SEED = 0
NEVER = {"epochs": 10**6, "evaluate_every": 10**6}


def judge(dataset: BundleDataset, graph: BundleGraph, name: str, epochs: int) -> Embeddings:
    run = compose(dataset.name, name, preset="youshu", changes=NEVER)
    model = make_model(name, run.settings, dataset, torch_generator(SEED, "model"))
    assert isinstance(model, Encoder)
    if epochs:
        for epoch in train(model, make_optimiser(model, run.train), dataset, run.train, SEED):
            if epoch.number == epochs:
                break
    with torch.no_grad():
        return model.encode(graph)


def drawing(dataset: BundleDataset, epochs: int) -> None:
    graph = BundleGraph.of(dataset)
    vectors = judge(dataset, graph, "bgcn", epochs)
    sampler = Heuristic(graph, vectors)
    sampler.draw({"ub": 0.01, "ui": 0.01, "bi": 0.01}, generator(SEED, "warm up"))
    start = perf_counter()
    sampler = Heuristic(graph, vectors)
    for index in range(4):
        _, record = sampler.draw({"ub": 0.1, "ui": 0.1, "bi": 0.1}, generator(SEED, "view", str(index)))
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{dataset.name}, BGCN of {epochs} epochs: four views in {seconds:.1f} s, peak {peak:.2f} GiB")
    for relation, found in record.items():
        share = found["added"] / (found["added"] + found["dropped"])
        rates = f"{found['pass rate of additions']:.2%} and {found['pass rate of drops']:.2%}"
        print(f"  {relation}: {share:.0%} additions; of additions and drops judged, {rates} passed")


def epochs_of(dataset: BundleDataset, name: str, rounds: int) -> None:
    graph = BundleGraph.of(dataset)
    run = compose(dataset.name, name, preset="youshu", changes=NEVER)
    config = ViewsConfig()
    sampler = make_sampler(config, graph, judge(dataset, graph, name, 0), SEED)
    views, _ = draw_views(sampler, config, SEED)
    paradigms = {
        "original": None,
        "clbr": Counterfactual(config, views, SEED, run.train),
        "redrawn": Counterfactual(config, views, SEED, run.train, sampler),
    }
    ways = {}
    for way, paradigm in paradigms.items():
        model = make_model(name, run.settings, dataset, torch_generator(SEED, "model"))
        ways[way] = train(model, make_optimiser(model, run.train), dataset, run.train, SEED, paradigm=paradigm)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds + 4):  # by then all four views were met, most likely
        for way, epochs in ways.items():
            seconds[way].append(next(epochs).seconds)
    original, clbr, redrawn = (median(times[4:]) for times in seconds.values())
    ratios = f"{clbr:12.3f}{clbr / original:8.2f}{redrawn:12.3f}{redrawn / original:8.2f}"
    print(f"{name:12}{original:12.3f}{ratios}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", help="a data folder")
    parser.add_argument("--models", default="bgcn,crosscbr,rgcn,bundlenet", help="which, with commas between")
    parser.add_argument("--epochs", type=int, default=30, help="of the BGCN that judges pairs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--netease", action="store_true", help="draw the views of a NetEase-like world, too")
    options = parser.parse_args()
    use_threads(None)
    dataset = find_data(options.data)
    drawing(dataset, options.epochs)
    print(f"\n{'an epoch':12}{'original s':>12}{'clbr s':>12}{'ratio':>8}{'redrawn s':>12}{'ratio':>8}")
    for name in filter(None, options.models.split(",")):
        epochs_of(dataset, name, options.rounds)
    if options.netease:
        print()
        drawing(simulate("netease").dataset, min(options.epochs, 1))


if __name__ == "__main__":
    main()
