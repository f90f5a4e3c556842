"""The noise level eta of the heuristic sampler against the stochastic one, on simulated worlds, for every relation.

A selection model is trained in the original way on each world; it judges the heuristic sampler's pairs. The stochastic
sampler makes as many additions and drops. Four views each at a ratio of 0.1 on all relations; eta with its 95 %
interval, what it would be by chance, and the factor of Theorem 1, unless eta may well be a half. Runs are kept in --out
and not trained again.

    python benchmarks/noise.py [--like youshu] [--scale 1] [--variants plain sparser ...] [--model crosscbr] --out runs
"""

import argparse
from pathlib import Path

import torch

from clbr import save, simulate
from clbr.counterfactual.config import ViewsConfig
from clbr.counterfactual.noise import bound_factor, noise
from clbr.counterfactual.strategy import draw_views, make_sampler
from clbr.graph.graph import BundleGraph
from clbr.models.base import Encoder
from clbr.models.registry import make_model
from clbr.rng import generator
from clbr.simulation.parameters import VARIANTS
from clbr.training.checkpoint import read_model
from clbr.training.config import compose
from clbr.training.run import resume, start
from clbr.training.run_folder import BEST
from clbr.training.runtime import use_threads

SEED = 0


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
    print("| world | relation | sampler | eta of additions | eta of drops | eta of all (95 %) | by chance | factor |")
    print("|---|---|---|---|---|---|---|---|")
    for variant in options.variants:
        world = simulate(options.like, scale=options.scale, variant=variant)
        folder = options.out / f"{world.dataset.name}-{variant}"
        if not folder.exists():
            save(world.dataset, folder)
        run = options.out / f"{folder.name}-{options.model}"
        config = compose(str(folder.resolve()), options.model, preset="youshu", seed=SEED)
        resume(run) if (run / "config.toml").exists() else start(run, config, world.dataset)
        model, graph = make_model(config.model, config.settings, world.dataset), BundleGraph.of(world.dataset)
        assert isinstance(model, Encoder)
        read_model(run / BEST, model)
        with torch.no_grad():
            vectors = model.encode(graph)
        for sampler in ("heuristic", "stochastic"):
            settings = ViewsConfig(sampler=sampler)  # type: ignore[arg-type]
            views, _ = draw_views(make_sampler(settings, graph, vectors, SEED), settings, SEED)
            for relation, found in noise(world, graph, views, generator(SEED, "noise")).items():
                whole = found["all"]
                cells = [f"{found[kind].eta:.3f}" if kind in found else "" for kind in ("additions", "drops")]
                cells.append(f"{whole.eta:.3f} ({whole.low:.3f} to {whole.high:.3f})")
                factor = bound_factor(whole.eta) if bound_factor(whole.high) else None
                cells += [f"{whole.chance:.3f}", f"{factor:.1f}" if factor else "none"]
                print(f"| {variant} | {relation} | {sampler} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
