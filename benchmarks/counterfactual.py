"""Training with counterfactual views against the original way, and against controls, on one data set.

Trains what is not yet trained, then prints a table for each model: test metrics (mean over seeds), and each arm's
difference to `original`, user by user (paired t-test on per-user means over seeds, Holm-corrected over the table).
Can be stopped and started at any moment. Epochs are chosen on tune. The original run of a seed judges the pairs of
that seed's views.

    python benchmarks/counterfactual.py DATA --models crosscbr --arms original adaptive dropout --seeds 3 --out runs
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from clbr import Evaluation, evaluate, load
from clbr.evaluation.significance import compare
from clbr.train.environment import use_threads
from clbr.train.folder import best_recommender
from clbr.train.run import resume, start
from clbr.train.settings import compose, parse_changes

METRICS = ("recall@20", "ndcg@20", "recall@40", "ndcg@40")
NO_EDITS = {"ratio_ub": 0.0, "ratio_ui": 0.0, "ratio_bi": 0.0}
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "original": ("original", {}),
    "adaptive": ("clbr", {}),
    "constant": ("clbr", {"constraint": "constant"}),
    "none": ("clbr", {"constraint": "none"}),
    "stochastic": ("clbr", {"sampler": "stochastic"}),
    "casr": ("casr", {}),
    # Controls: the same computation without views, and views that only lose edges.
    "computation": ("clbr", NO_EDITS | {"constraint": "none"}),
    "dropout": ("clbr", {"sampler": "dropout"}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", nargs="+", default=["crosscbr", "bgcn"])
    parser.add_argument("--arms", nargs="+", default=["original", "adaptive"], choices=list(ARMS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--preset", default="youshu")
    parser.add_argument("--set", dest="base", nargs="*", default=[], help="key=value for every arm")
    parser.add_argument("--views", nargs="*", default=[], help="key=value for every arm with views")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--only-report", action="store_true", help="train nothing, report what is there")
    options = parser.parse_args()
    use_threads(options.threads)
    dataset = load(options.data)
    base, views = parse_changes(options.base), parse_changes(options.views)
    for model in options.models:
        found: dict[str, list[Evaluation]] = {}
        seconds: dict[str, list[float]] = {}
        for seed in range(options.seeds):
            for arm in options.arms:
                paradigm, changes = ARMS[arm]
                folder = options.out / f"{model}-{arm}-{seed}"
                if not options.only_report:
                    changes = base | (views if paradigm == "clbr" else {}) | changes
                    config = compose(
                        str(options.data.resolve()),
                        model,
                        preset=options.preset,
                        changes=changes,
                        seed=seed,
                        paradigm=paradigm,
                    )
                    judge = options.out / f"{model}-original-{seed}"
                    if (folder / "config.toml").exists():
                        resume(folder)
                    else:
                        start(folder, config, dataset, selection=judge if config.views and judge.exists() else None)
                if (folder / "best" / "model.safetensors").exists():
                    found.setdefault(arm, []).append(evaluate(best_recommender(folder, dataset), dataset, split="test"))
                    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
                    seconds.setdefault(arm, []).extend(line["seconds"] for line in lines)
        report(f"{model} on {dataset.name}", found, seconds)


def report(title: str, found: dict[str, list[Evaluation]], seconds: dict[str, list[float]]) -> None:
    print(f"\n| {title}, test | seeds | R@20 | NDCG@20 | R@40 | NDCG@40 | s an epoch |\n|---|---|---|---|---|---|---|")
    rows = {(row.contender, row.metric): row for row in compare(found, list(METRICS))} if len(found) > 1 else {}
    for arm, results in found.items():
        cells = []
        for metric in METRICS:
            values = [100 * result[metric] for result in results]
            cell = f"{statistics.mean(values):.2f}"
            if (row := rows.get((arm, metric))) is not None:
                cell += f" ({100 * row.difference:+.2f}, p {row.p:.2g})"
            cells.append(cell)
        print(f"| {arm} | {len(results)} | {' | '.join(cells)} | {statistics.median(seconds[arm]):.2f} |", flush=True)


if __name__ == "__main__":
    main()
