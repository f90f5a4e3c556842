"""Does training on several processes equal training in one? The differences of all parameters after one epoch.

Once in float32, as clbr trains, and once in float64: what remains there is not rounding.

    python benchmarks/processes_equal.py DATA [--model trilevel] [--processes 2,4] [--seeds 1]
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from own_process import command
from processes import start


def train_once(data: str, model: str, precision: str, seed: int, out: str) -> dict[str, Any]:
    """Train one epoch in this process, one of several, and write the parameters with all columns. Returns losses."""
    import torch

    from clbr.data.folder import load
    from clbr.models.registry import make_model
    from clbr.rng import torch_generator
    from clbr.training.config import compose, defaults_by_data
    from clbr.training.distributed import Processes
    from clbr.training.loop import make_optimizer, train
    from clbr.training.runtime import use_threads
    from clbr.training.tensors import write_tensors

    use_threads(1)
    torch.set_default_dtype(getattr(torch, precision))
    dataset, group = load(Path(data)), Processes(None)
    run = compose(data, model, by_data=defaults_by_data(model, dataset), changes={"epochs": 1})
    group.connect(run, "cpu")
    built = make_model(model, run.settings, dataset, torch_generator(seed, "init"))
    (epoch,) = train(built, make_optimizer(built, run.train), dataset, run.train, seed)
    write_tensors(Path(out), built.state_dict())
    group.disconnect()
    return {"losses": epoch.losses, "validation": epoch.validation}


def compare(one: Path, other: Path) -> tuple[int, int, float, float]:
    """Return how many parameters there are, how many differ by more than 1e-5, the RMS and the largest difference."""
    import torch
    from safetensors.torch import load_file

    ours, theirs = load_file(one), load_file(other)
    gap = torch.cat([(ours[name].double() - theirs[name].double()).abs().flatten() for name in ours])
    return len(gap), int((gap > 1e-5).sum()), float(gap.square().mean().sqrt()), float(gap.max())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="a data folder")
    parser.add_argument("--model", default="trilevel")
    parser.add_argument("--processes", default="2,4")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    sizes = [1, *map(int, options.processes.split(","))]
    print("| precision | seed | processes | parameters | differ by more than 1e-5 | RMS | largest |\n|" + "---|" * 7)
    for precision in ("float32", "float64"):
        for seed in range(options.seeds):
            with TemporaryDirectory() as space:
                outs = {size: Path(space) / f"{size}.safetensors" for size in sizes}
                for size, out in outs.items():
                    start(command(train_once, str(options.data), options.model, precision, seed, str(out)), size, space)
                for size in sizes[1:]:
                    count, over, rms, largest = compare(outs[1], outs[size])
                    cells = [precision, seed, size, f"{count:,}", over, f"{rms:.1e}", f"{largest:.1e}"]
                    print("|", " | ".join(map(str, cells)), "|", flush=True)


if __name__ == "__main__":
    main()
