"""Do views help if the selection model is perfect? Compares views by a trained model with views by true preference.

Four variants with the same settings and seeds, on a simulated world:
- `original`: no views;
- `trained`: views selected by the original model of the same seed, as clbr does;
- `oracle`: views selected by true preference;
- `oracle, no held-out pairs`: the same, but no pair of validation or test is added.
Prints test metrics (mean over seeds) with the difference to `original`, and the share of additions that are test pairs.

    python benchmarks/oracle_views.py --scale 0.25 --model crosscbr --seeds 5 --set epochs=80 --views ratio_ub=0.3
"""

import argparse
import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr.cli.options import parse_changes
from clbr.counterfactual.config import ViewsConfig
from clbr.counterfactual.samplers import Heuristic
from clbr.counterfactual.strategy import CLBR, Original, Strategy, draw_views, make_sampler
from clbr.data.pairs import Codes, Relation, encode
from clbr.evaluation.protocol import Evaluation, evaluate
from clbr.evaluation.significance import compare
from clbr.graph.edits import EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.models.base import Encoder
from clbr.models.embeddings import Embeddings
from clbr.models.registry import find_model, make_model
from clbr.rng import torch_generator
from clbr.simulation.generate import simulate
from clbr.simulation.world import World, contents, states
from clbr.training.batches import view_batches
from clbr.training.config import RunConfig, compose
from clbr.training.loop import make_optimizer, train
from clbr.training.run import Counters
from clbr.training.runtime import use_threads

METRICS = ("recall@20", "ndcg@20", "recall@40", "ndcg@40")


class Oracle(Heuristic):
    """Heuristic sampler that scores pairs by true preference. User-bundle pairs in `excluded` are never added."""

    def __init__(self, world: World, graph: BundleGraph, views: ViewsConfig, excluded: Codes) -> None:
        super().__init__(graph, Embeddings({}), views.sampler_batch, views.upper, views.lower, views.literal)
        data = world.dataset
        users = states(world.config, world.tastes, world.user_style, world.items, data.ui)
        bundles = contents(world.bundle_style, world.items, data.bi)
        sides: dict[Relation, tuple[NDArray[Any], NDArray[Any]]] = {
            "ub": (users, bundles),
            "ui": (world.tastes, world.items),
            "bi": (world.themes[world.bundle_theme], world.items),
        }
        self.true_vectors: dict[Relation, list[tuple[Tensor, Tensor]]] = {}
        for relation, (left, right) in sides.items():
            taste, appeal = getattr(world.config, relation).taste, world.appeal[relation][:, None]
            left, right = np.c_[taste * left, np.ones(len(left))], np.c_[right, appeal]
            self.true_vectors[relation] = [(torch.from_numpy(left).float(), torch.from_numpy(right).float())]
        self.excluded = excluded

    def vectors(self, relation: Relation) -> list[tuple[Tensor, Tensor]]:
        """Return vectors whose inner product is the true preference."""
        return self.true_vectors[relation]

    def draw_batches(
        self, relation: Relation, count: int, rng: np.random.Generator
    ) -> tuple[Codes, NDArray[np.float32], NDArray[np.bool_]]:
        """Mark excluded pairs as edges, so that they are not added. Candidates to drop are drawn elsewhere."""
        codes, scores, are_edges = super().draw_batches(relation, count, rng)
        return codes, scores, are_edges | np.isin(codes, self.excluded) if relation == "ub" else are_edges


def fit(config: RunConfig, world: World, strategy: Strategy) -> tuple[Encoder, Evaluation]:
    """Train a model; return it at its best epoch on validation, and its evaluation on test."""
    data = world.dataset
    model = make_model(config.model, config.settings, data, torch_generator(config.seed, "init"))
    assert isinstance(model, Encoder)
    counters, best = Counters(), model.state_dict()
    for epoch in train(model, make_optimizer(model, config.train), data, config.train, config.seed, strategy=strategy):
        if counters.follow(epoch, config.train.metric):
            best = {name: weight.clone() for name, weight in model.state_dict().items()}
        if counters.finished(config.train):
            break
    model.load_state_dict(best)
    return model, evaluate(model.scorer(BundleGraph.of(data)), data, split="test")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--like", default="youshu")
    parser.add_argument("--scale", type=float, default=0.25)
    parser.add_argument("--variant", default="plain")
    parser.add_argument("--model", default="crosscbr")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--set", dest="base", nargs="*", default=[], help="key=value for every variant")
    parser.add_argument("--views", nargs="*", default=[], help="key=value for every variant with views")
    parser.add_argument("--threads", type=int)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    use_threads(options.threads)
    world = simulate(options.like, scale=options.scale, variant=options.variant)
    graph, width = BundleGraph.of(world.dataset), len(world.dataset.bundles)
    test_codes = encode(world.dataset.test, width)
    held_out = np.union1d(test_codes, encode(world.dataset.validation, width))
    results: dict[str, list[Evaluation]] = {}
    test_shares: dict[str, list[float]] = {}
    for seed in range(options.seeds):
        plain = compose("", options.model, preset="youshu", changes=parse_changes(options.base), seed=seed)
        changes = parse_changes(options.base) | parse_changes(options.views)
        config = compose("", options.model, preset="youshu", changes=changes, seed=seed, paradigm="clbr")
        assert config.views is not None
        views = config.views.within(find_model(options.model).relations)
        selection_model, result = fit(plain, world, Original())
        results.setdefault("original", []).append(result)
        with torch.no_grad():
            embeddings = selection_model.encode(graph)
        samplers = {
            "trained": make_sampler(views, graph, embeddings, seed),
            "oracle": Oracle(world, graph, views, np.empty(0, np.int64)),
            "oracle, no held-out pairs": Oracle(world, graph, views, held_out),
        }
        batches = partial(view_batches, config.train.batch_size, config.train.negatives)
        for variant, sampler in samplers.items():
            edits, _ = draw_views(sampler, views, seed)
            test_shares.setdefault(variant, []).append(share(edits, test_codes, width))
            strategy = CLBR(views, edits, seed, batches, sampler if views.redraw else None)
            results.setdefault(variant, []).append(fit(config, world, strategy)[1])
        report(options.model, results, test_shares)


def share(views: Sequence[EdgeEdits], test_codes: Codes, width: int) -> float:
    """Return the share of test pairs among the user-bundle pairs that the views add."""
    added = np.concatenate([encode(view.add["ub"], width) for view in views if "ub" in view.add] or [test_codes[:0]])
    return float(np.isin(added, test_codes).mean()) if len(added) else 0.0


def report(model: str, results: dict[str, list[Evaluation]], test_shares: dict[str, list[float]]) -> None:
    """Print a table of the results so far."""
    print(f"\n| {model}, test | seeds | R@20 | NDCG@20 | R@40 | NDCG@40 | additions in test |")
    print("|---|---|---|---|---|---|---|")
    rows = {(row.contender, row.metric): row for row in compare(results, list(METRICS))}
    for variant, evaluations in results.items():
        cells = []
        for metric in METRICS:
            row = rows.get((variant, metric))
            difference = f" ({100 * row.difference:+.2f}, p {row.p:.2g})" if row else ""
            cells.append(f"{100 * statistics.mean(result[metric] for result in evaluations):.2f}{difference}")
        in_test = f"{statistics.mean(test_shares[variant]):.1%}" if variant in test_shares else ""
        print(f"| {variant} | {len(evaluations)} | {' | '.join(cells)} | {in_test} |", flush=True)


if __name__ == "__main__":
    main()
