"""One of several processes that train together: what tests/training/test_distributed.py starts.

python column_worker.py SPACE, with SPACE/cases.json, and with SPACE/shop as the data
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clbr import BundleDataset, load
from clbr.models import objectives
from clbr.models.columns import cut
from clbr.models.registry import make_model
from clbr.rng import torch_generator
from clbr.training import run as runs
from clbr.training.config import RunConfig, compose
from clbr.training.distributed import Processes
from clbr.training.loop import make_optimizer, train
from clbr.training.runtime import use_threads
from clbr.training.tensors import write_tensors

Case = tuple[str, dict[str, Any]]


def config(data: Path, model: str, changes: dict[str, Any]) -> RunConfig:
    common = {"epochs": 1, "dim": 12, "batch_size": 512, "learning_rate": 0.001}
    return compose(str(data), model, changes=common | changes)


def train_case(dataset: BundleDataset, settings: RunConfig, out: Path) -> dict[str, Any]:
    """Train and write the weights of all columns; return losses, validation metrics and the bytes added up."""
    before, usual = cut.added, objectives.CONTRASTED
    objectives.CONTRASTED = 300  # two parts of a batch: none for one of three processes
    model = make_model(settings.model, settings.settings, dataset, torch_generator(0, "init"))
    (epoch,) = train(model, make_optimizer(model, settings.train), dataset, settings.train, seed=0)
    objectives.CONTRASTED = usual
    write_tensors(out, model.state_dict())
    return {"losses": epoch.losses, "validation": epoch.validation, "added": cut.added - before}


def stop_after_one_epoch() -> runs.Callbacks:
    epochs: list[int] = []
    at_epoch: Callable[..., None] = lambda epoch, counters: epochs.append(epoch.number)  # noqa: E731
    return runs.Callbacks(on_epoch=at_epoch, should_stop=lambda: bool(epochs))


def main() -> None:
    space = Path(sys.argv[1])
    group, dataset, cases = Processes(None), load(space / "shop"), json.loads((space / "cases.json").read_text())
    use_threads(1)
    group.connect(config(space / "shop", *cases["alone"][0]), "cpu")
    results = []
    for number, case in enumerate(cases["alone"]):
        settings = config(space / "shop", *case)
        results.append(train_case(dataset, settings, space / f"{group.size}-{number}.safetensors"))
    if group.rank == 0:
        (space / f"{group.size}.json").write_text(json.dumps(results))
    if cases["run"]:
        settings = config(space / "shop", *cases["run"])
        runs.start(space / "many-first", settings, dataset, stop_after_one_epoch())
        runs.resume(space / "one-first")
    group.disconnect()


if __name__ == "__main__":
    main()
