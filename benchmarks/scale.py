"""How an epoch grows with the data: CrossCBR and TriLevel on worlds of 1, 2, 4, 8, 16 times Youshu and like NetEase.

Each cell runs in its own process and trains with the defaults for data of its size: two epochs to warm up and two that
are timed, evaluation on validation included. The seconds of an epoch divided by the edges should stay the same. A line
is fitted to the logarithms of both: an exponent of 1 is growth like the edges.

With --to-accuracy each cell is trained until --patience epochs bring no better one, and the time to 95 percent of the
best R@20 on validation is compared in the same way: until it is first reached, and until it is kept up to the best
epoch. That takes an hour or more. Finished cells are kept in --out, and a run that was stopped goes on. The seconds of
--to-accuracy are of processor time, which other programs disturb less.

    python benchmarks/scale.py [--to-accuracy] [--threads 1] [--scales 1,2,4,8,16] [--models crosscbr,trilevel] [--patience 8] [--out FOLDER]
"""

import argparse
import json
import resource
import sys
from math import log
from pathlib import Path
from statistics import linear_regression, median
from tempfile import mkdtemp
from time import perf_counter, process_time
from typing import Any

from own_process import in_a_process

WARM_UP, TIMED = 2, 2
SHARE = 0.95
"""Of the best R@20: the accuracy whose time is compared."""
PATIENCE = 8
"""Epochs without a better R@20 that end a training to its best accuracy, unless --patience says otherwise."""
GIB = 2**20  # ru_maxrss counts KiB


def draw(folder: str, like: str, scale: float) -> dict[str, Any]:
    """Simulate a data set and save it, unless it is there already."""
    from clbr.data.folder import load, save
    from clbr.simulation.generate import simulate

    if not Path(folder).exists():
        save(simulate(like, scale=scale).dataset, Path(folder))  # type: ignore[arg-type]
    dataset = load(Path(folder))
    return {"edges": len(dataset.train) + len(dataset.ui) + len(dataset.bi), "pairs": len(dataset.train)}


def measure(folder: str, name: str, to_accuracy: bool, threads: int | None, patience: int = PATIENCE) -> dict[str, Any]:
    """Train for a few epochs, or until it gets no better. Returns the seconds and the R@20 of each epoch."""
    from clbr.data.folder import load
    from clbr.models.registry import make_model
    from clbr.rng import torch_generator
    from clbr.training.config import compose, defaults_by_data
    from clbr.training.loop import make_optimizer, train
    from clbr.training.runtime import use_threads

    use_threads(threads)
    dataset = load(Path(folder))
    changes = {} if to_accuracy else {"epochs": WARM_UP + TIMED}
    by_data = defaults_by_data(name, dataset)
    preset = "none" if name == "trilevel" else "youshu"  # TriLevel's defaults are those for Youshu, and follow the size
    run = compose(folder, name, preset=preset, by_data=by_data, changes=changes)
    model = make_model(name, run.settings, dataset, torch_generator(0, "model"))
    seconds, recall, start = [], [], process_time()
    for epoch in train(model, make_optimizer(model, run.train), dataset, run.train, seed=0):
        now = process_time()
        seconds.append(now - start if to_accuracy else epoch.seconds)
        start = now
        recall.append(epoch.validation["recall@20"])
        print(f"  {name} epoch {epoch.number}: {seconds[-1]:.1f} s, R@20 {100 * recall[-1]:.2f}", file=sys.stderr)
        if len(recall) - recall.index(max(recall)) > patience:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIB
    return {"batch": run.train.batch_size, "seconds": seconds, "recall": recall, "peak": peak}


def epochs_to_accuracy(cell: dict[str, Any]) -> tuple[int, int]:
    """Return the epochs to 95 percent of the best R@20: until it is first reached, and kept up to the best epoch."""
    recall = cell["recall"]
    enough = [value >= SHARE * max(recall) for value in recall]
    kept = recall.index(max(recall))
    while kept and enough[kept - 1]:
        kept -= 1
    return enough.index(True) + 1, kept + 1


def seconds_of(cell: dict[str, Any], to_accuracy: bool) -> float:
    """Return the seconds of an epoch, or up to the first epoch with 95 percent of the best R@20."""
    if not to_accuracy:
        return median(cell["seconds"][WARM_UP:])
    return sum(cell["seconds"][: epochs_to_accuracy(cell)[0]])


def show(name: str, cells: list[dict[str, Any]], to_accuracy: bool) -> None:
    what = f"to {SHARE:.0%} of the best R@20" if to_accuracy else "an epoch"
    print(f"\n| {name} | edges | batch | R@20 | {what}, s | per million edges, s | times | peak, GiB |")
    print("|---|---|---|---|---|---|---|---|")
    times = [seconds_of(cell, to_accuracy) for cell in cells]
    rates = [1e6 * time / cell["edges"] for time, cell in zip(times, cells, strict=True)]
    for cell, time, rate in zip(cells, times, rates, strict=True):
        recall = f"{100 * max(cell['recall']):.2f}" if to_accuracy else ""
        row = [cell["world"], f"{cell['edges']:,}", f"{cell['batch']:,}", recall, f"{time:.1f}", f"{rate:.2f}"]
        print("|", " | ".join([*row, f"{rate / rates[0]:.2f}", f"{cell['peak']:.2f}"]), "|")
    if len(cells) > 1:
        slope = linear_regression([log(cell["edges"]) for cell in cells], [log(time) for time in times]).slope
        print(f"\nexponent {slope:.2f}; the dearest edge costs {max(rates) / min(rates):.2f} times the cheapest")
    if to_accuracy:
        print(f"\n| {name} | epochs until first reached | until kept | per million edges until kept, s | times |")
        print("|---|---|---|---|---|")
        both = [epochs_to_accuracy(cell) for cell in cells]
        rates = [1e6 * sum(cell["seconds"][:kept]) / cell["edges"] for cell, (_, kept) in zip(cells, both, strict=True)]
        for cell, (first, kept), rate in zip(cells, both, rates, strict=True):
            print(f"| {cell['world']} | {first} | {kept} | {rate:.2f} | {rate / rates[0]:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to-accuracy", action="store_true", help="time to 95 percent of the best R@20, not an epoch")
    parser.add_argument("--threads", type=int, help="all cores if left out")
    parser.add_argument("--scales", default="1,2,4,8,16", help="multiples of Youshu")
    parser.add_argument("--models", default="crosscbr,trilevel")
    parser.add_argument("--no-netease", action="store_true", help="without the world like NetEase")
    parser.add_argument(
        "--patience", type=int, default=PATIENCE, help="epochs without a better R@20 that end a training"
    )
    parser.add_argument("--quick", action="store_true", help="two small worlds, as a check")
    parser.add_argument("--out", help="folder for worlds and finished cells")
    options = parser.parse_args()
    scales = [0.1, 0.2] if options.quick else [float(scale) for scale in options.scales.split(",")]
    worlds = [("youshu", scale) for scale in scales]
    worlds += [] if options.quick or options.no_netease else [("netease", 1.0)]
    out, models = Path(options.out or mkdtemp()), options.models.split(",")
    cells: dict[str, list[dict[str, Any]]] = {name: [] for name in models}
    for like, scale in worlds:
        world = f"{like} x {scale:g}"
        size = in_a_process(draw, str(out / f"{like}{scale:g}"), like, scale) | {"world": world}
        for name in models:
            target = f"-to-accuracy-{options.patience}" if options.to_accuracy else ""
            kept = out / f"{like}{scale:g}-{name}{target}-threads-{options.threads or 'all'}.json"
            if not kept.exists():
                start = perf_counter()
                folder, how = str(out / f"{like}{scale:g}"), (options.to_accuracy, options.threads, options.patience)
                cell = in_a_process(measure, folder, name, *how)
                kept.write_text(json.dumps(cell))
                print(f"{world}, {name}: {perf_counter() - start:.0f} s", file=sys.stderr)
            cells[name].append(json.loads(kept.read_text()) | size)
    for name in models:
        show(name, cells[name], options.to_accuracy)


if __name__ == "__main__":
    main()
