"""The models' accuracy with their presets: trains what is not yet trained, then prints the table.

Can be stopped and started at any moment; a finished run is not trained again. The epoch is chosen on tune.

    python benchmarks/accuracy.py DATA --preset youshu --seeds 3 --out runs [--models crosscbr bgcn] [--only-report]
"""

import argparse
import statistics
from pathlib import Path

from clbr import evaluate, load
from clbr.models.registry import MODELS
from clbr.train.environment import use_threads
from clbr.train.folder import best_recommender, read_config
from clbr.train.run import resume, start
from clbr.train.settings import compose

METRICS = ("recall@20", "ndcg@20", "recall@40", "ndcg@40")
PAPER = {  # Table 2 of the CLBR paper, Youshu, percent: the original models
    "bprmf": (19.63, 11.17, 27.35, 13.27),
    "dam": (21.02, 12.05, 28.92, 14.10),
    "rgcn": (20.52, 11.52, 28.68, 13.67),
    "bundlenet": (22.45, 12.00, 30.59, 14.19),
    "bgcn": (22.69, 12.98, 31.07, 15.28),
    "crosscbr": (28.11, 16.68, 37.82, 19.37),
}


def spread(values: list[float]) -> str:
    mean = f"{statistics.mean(values):.2f}"
    return f"{mean} ± {statistics.stdev(values):.2f}" if len(values) > 1 else mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--preset", default="youshu")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--only-report", action="store_true", help="train nothing, report what is there")
    options = parser.parse_args()
    use_threads(options.threads)
    dataset = load(options.data)
    print(f"| {dataset.name}, test | seeds | epochs | R@20 | NDCG@20 | R@40 | NDCG@40 | paper |")
    print("|---|---|---|---|---|---|---|---|")
    for model in options.models:
        found: list[list[float]] = []
        epochs: list[int] = []
        for seed in range(options.seeds):
            folder = options.out / f"{model}-{seed}"
            if not options.only_report:
                config = compose(str(options.data.resolve()), model, preset=options.preset, seed=seed)
                resume(folder) if (folder / "config.toml").exists() else start(folder, config, dataset)
            if not (folder / "best" / "model.safetensors").exists():
                continue
            assert read_config(folder).seed == seed
            result = evaluate(best_recommender(folder, dataset), dataset, split="test")
            found.append([100 * result[metric] for metric in METRICS])
            epochs.append(sum(1 for _ in (folder / "metrics.jsonl").open()))
        if found:
            cells = " | ".join(spread(list(column)) for column in zip(*found, strict=True))
            paper = " / ".join(f"{value:.2f}" for value in PAPER[model]) if model in PAPER else ""
            print(f"| {model} | {len(found)} | {', '.join(map(str, epochs))} | {cells} | {paper} |", flush=True)


if __name__ == "__main__":
    main()
