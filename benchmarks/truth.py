"""Would views help if they were right? A simulated world's own preferences judge pairs in place of a trained model.

Four arms, the same settings and seeds: `original`; `own`, views judged by the original run of that seed, which is how
clbr works; `truth`, views judged by true preference; `truth, others`, the same, but no pair of validation or test is added.
Prints test metrics (mean over seeds) with the difference to `original`, and how many additions were pairs of test.

    python benchmarks/truth.py --scale 0.25 --model crosscbr --seeds 5 --set epochs=80 --views ratio_ub=0.3
"""

import argparse
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr import Evaluation, evaluate, simulate
from clbr.counterfactual.config import ViewsConfig
from clbr.counterfactual.samplers import Heuristic
from clbr.counterfactual.strategy import Counterfactual, Original, Strategy, draw_views, make_sampler
from clbr.data.pairs import Codes, Relation, encode
from clbr.evaluation.significance import compare
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.models.base import Embeddings, Encoder
from clbr.models.registry import find_model, make_model
from clbr.rng import torch_generator
from clbr.simulation.world import World, contents, states
from clbr.training.config import RunConfig, compose, parse_changes
from clbr.training.loop import make_optimiser, train
from clbr.training.run import Counters
from clbr.training.runtime import use_threads

METRICS = ("recall@20", "ndcg@20", "recall@40", "ndcg@40")


class Truth(Heuristic):
    """Judges pairs by true preference; pairs of `barred` user-bundle codes are never added."""

    def __init__(self, world: World, graph: BundleGraph, views: ViewsConfig, barred: Codes) -> None:
        super().__init__(graph, Embeddings({}), views.sampler_batch, views.upper, views.lower, views.literal)
        data = world.dataset
        users = states(world.config, world.tastes, world.user_manner, world.items, data.ui)
        bundles = contents(world.bundle_manner, world.items, data.bi)
        sides: dict[Relation, tuple[NDArray[Any], NDArray[Any]]] = {
            "ub": (users, bundles),
            "ui": (world.tastes, world.items),
            "bi": (world.themes[world.bundle_theme], world.items),
        }
        self.known: dict[Relation, list[tuple[Tensor, Tensor]]] = {}
        for relation, (left, right) in sides.items():
            taste, appeal = getattr(world.config, relation).taste, world.appeal[relation][:, None]
            left, right = np.c_[taste * left, np.ones(len(left))], np.c_[right, appeal]
            self.known[relation] = [(torch.from_numpy(left).float(), torch.from_numpy(right).float())]
        self.barred = barred

    def vectors(self, relation: Relation) -> list[tuple[Tensor, Tensor]]:
        """Their inner product is the preference."""
        return self.known[relation]

    def batches(
        self, relation: Relation, count: int, rng: np.random.Generator
    ) -> tuple[Codes, NDArray[np.float32], NDArray[np.bool_]]:
        """What is barred passes for an edge: it cannot be added, and drops are not judged here."""
        codes, scores, edges = super().batches(relation, count, rng)
        return codes, scores, edges | np.isin(codes, self.barred) if relation == "ub" else edges


def fit(config: RunConfig, world: World, paradigm: Strategy) -> tuple[Encoder, Evaluation]:
    """The model of the epoch that validation chose, and its figures on test."""
    data = world.dataset
    model = make_model(config.model, config.settings, data, torch_generator(config.seed, "init"))
    assert isinstance(model, Encoder)
    counters, best = Counters(), model.state_dict()
    for epoch in train(model, make_optimiser(model, config.train), data, config.train, config.seed, paradigm=paradigm):
        if counters.follow(epoch, config.train.metric):
            best = {name: weight.clone() for name, weight in model.state_dict().items()}
        if counters.finished(config.train):
            break
    model.load_state_dict(best)
    return model, evaluate(model.recommender(BundleGraph.of(data)), data, split="test")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--like", default="youshu")
    parser.add_argument("--scale", type=float, default=0.25)
    parser.add_argument("--variant", default="plain")
    parser.add_argument("--model", default="crosscbr")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--set", dest="base", nargs="*", default=[], help="key=value for every arm")
    parser.add_argument("--views", nargs="*", default=[], help="key=value for every arm with views")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    use_threads(options.threads)
    world = simulate(options.like, scale=options.scale, variant=options.variant)
    graph, width = BundleGraph.of(world.dataset), len(world.dataset.bundles)
    tests = encode(world.dataset.test, width)
    held_out = np.union1d(tests, encode(world.dataset.validation, width))
    found: dict[str, list[Evaluation]] = {}
    hits: dict[str, list[float]] = {}
    for seed in range(options.seeds):
        plain = compose("", options.model, preset="youshu", changes=parse_changes(options.base), seed=seed)
        changes = parse_changes(options.base) | parse_changes(options.views)
        config = compose("", options.model, preset="youshu", changes=changes, seed=seed, paradigm="clbr")
        assert config.views is not None
        views = config.views.within(find_model(options.model).relations)
        judge, result = fit(plain, world, Original())
        found.setdefault("original", []).append(result)
        with torch.no_grad():
            vectors = judge.encode(graph)
        samplers = {
            "own": make_sampler(views, graph, vectors, seed),
            "truth": Truth(world, graph, views, np.empty(0, np.int64)),
            "truth, others": Truth(world, graph, views, held_out),
        }
        for arm, sampler in samplers.items():
            edits, _ = draw_views(sampler, views, seed)
            hits.setdefault(arm, []).append(share(edits, tests, width))
            paradigm = Counterfactual(views, edits, seed, config.train, sampler if views.redraw else None)
            found.setdefault(arm, []).append(fit(config, world, paradigm)[1])
        report(options.model, found, hits)


def share(views: Sequence[EdgeEdits], tests: Codes, width: int) -> float:
    """How many of the user-bundle pairs that the views add are pairs of test."""
    added = np.concatenate([encode(view.add["ub"], width) for view in views if "ub" in view.add] or [tests[:0]])
    return float(np.isin(added, tests).mean()) if len(added) else 0.0


def report(model: str, found: dict[str, list[Evaluation]], hits: dict[str, list[float]]) -> None:
    print(f"\n| {model}, test | seeds | R@20 | NDCG@20 | R@40 | NDCG@40 | additions in test |")
    print("|---|---|---|---|---|---|---|")
    rows = {(row.contender, row.metric): row for row in compare(found, list(METRICS))}
    for arm, results in found.items():
        cells = []
        for metric in METRICS:
            row = rows.get((arm, metric))
            told = f" ({100 * row.difference:+.2f}, p {row.p:.2g})" if row else ""
            cells.append(f"{100 * statistics.mean(result[metric] for result in results):.2f}{told}")
        told = f"{statistics.mean(hits[arm]):.1%}" if arm in hits else ""
        print(f"| {arm} | {len(results)} | {' | '.join(cells)} | {told} |", flush=True)


if __name__ == "__main__":
    main()
