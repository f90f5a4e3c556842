"""Noise level eta of the heuristic and of the stochastic sampler on simulated worlds, for every relation.

On each world a selection model is trained with the original strategy; the heuristic sampler uses its scores. The
stochastic sampler makes the same numbers of additions and drops. Each draws four views with a ratio of 0.1 on all
relations that the model uses. Printed are eta with its 95 % interval, the eta of random edits, and the factor of Theorem 1, unless the
interval reaches 0.5. Runs are stored in --out and reused.

    python benchmarks/noise.py [--like youshu] [--scale 1] [--variants plain sparser ...] [--model crosscbr] --out runs
"""

import argparse
from pathlib import Path

import torch

from clbr.counterfactual.config import ViewsConfig
from clbr.counterfactual.noise import bound_factor, noise
from clbr.counterfactual.strategy import draw_views, make_sampler
from clbr.data.folder import save
from clbr.graph.graph import BundleGraph
from clbr.models.base import Encoder
from clbr.models.embeddings import Embeddings
from clbr.models.registry import find_model
from clbr.rng import generator
from clbr.simulation.generate import simulate
from clbr.simulation.parameters import VARIANTS
from clbr.simulation.world import World
from clbr.training.config import compose
from clbr.training.run import resume, start
from clbr.training.run_folder import best_model
from clbr.training.runtime import use_threads

SEED = 0


def selection_embeddings(world: World, graph: BundleGraph, model: str, data: Path, run: Path) -> Embeddings:
    """Train the selection model of a world, or resume its run; return its embeddings on the training graph."""
    if not data.exists():
        save(world.dataset, data)
    config = compose(str(data.resolve()), model, preset="youshu", seed=SEED)
    resume(run) if (run / "config.toml").exists() else start(run, config, world.dataset)
    trained = best_model(run, world.dataset)
    assert isinstance(trained, Encoder)
    with torch.no_grad():
        return trained.encode(graph)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--like", default="youshu")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--model", default="crosscbr")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    use_threads(options.threads)
    print(
        "| world | relation | sampler | eta of additions | eta of drops | eta of all (95 %) | random edits | factor |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for variant in options.variants:
        world = simulate(options.like, scale=options.scale, variant=variant)
        graph, data = BundleGraph.of(world.dataset), options.out / f"{world.dataset.name}-{variant}"
        run = options.out / f"{data.name}-{options.model}"
        embeddings = selection_embeddings(world, graph, options.model, data, run)
        for sampler in ("heuristic", "stochastic"):
            settings = ViewsConfig(sampler=sampler).within(find_model(options.model).relations)  # type: ignore[arg-type]
            views, _ = draw_views(make_sampler(settings, graph, embeddings, SEED), settings, SEED)
            for relation, found in noise(world, graph, views, generator(SEED, "noise")).items():
                total = found["all"]
                cells = [f"{found[kind].eta:.3f}" if kind in found else "" for kind in ("additions", "drops")]
                cells.append(f"{total.eta:.3f} ({total.low:.3f} to {total.high:.3f})")
                factor = bound_factor(total.eta) if bound_factor(total.high) else None
                cells += [f"{total.random_eta:.3f}", f"{factor:.1f}" if factor else "none"]
                print(f"| {variant} | {relation} | {sampler} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
