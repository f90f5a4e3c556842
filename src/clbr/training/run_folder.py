"""What the folder of a run tells: its settings, where it began, its metrics, its best weights."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from clbr.data.dataset import BundleDataset
from clbr.data.folder import load
from clbr.errors import InputError
from clbr.evaluation.protocol import Evaluation, evaluate
from clbr.files import read_bytes
from clbr.graph.graph import BundleGraph
from clbr.models.base import Model, Recommender
from clbr.models.registry import make_model
from clbr.training.checkpoint import read_model
from clbr.training.config import RunConfig

BEST = "best/model.safetensors"


def read_metrics(folder: Path, until: int | None = None) -> list[str]:
    """The lines of a run's metrics, a JSON object for each epoch, or for those until an epoch."""
    path = folder / "metrics.jsonl"
    try:
        lines = path.read_text().splitlines() if path.exists() else []
        numbers = [int(json.loads(line)["number"]) for line in lines]
        return [line for line, number in zip(lines, numbers, strict=True) if until is None or number <= until]
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{path}: is damaged; put it back, or train anew with another --out") from None


def read_config(folder: Path) -> RunConfig:
    """The settings of a run."""
    if not (folder / "config.toml").exists():
        raise InputError(f"{folder}: no run there (no config.toml); expected a folder that clbr train made")
    return RunConfig.from_toml(folder / "config.toml")


class Origin(NamedTuple):
    """With what a run was begun."""

    fingerprint: str
    threads: int
    device: str


def read_origin(folder: Path) -> Origin:
    """With what a run was begun, as its environment.json tells."""
    path = folder / "environment.json"
    content = read_bytes(path)
    try:
        told = json.loads(content)
        return Origin(told["data"]["fingerprint"], int(told["threads"]), told.get("device", "auto"))
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{path}: is damaged; put it back, or train anew with another --out") from None


def read_dataset(folder: Path, config: RunConfig, data: Path | None = None) -> BundleDataset:
    """The data set of a run, refused if it is not the one that the run began with; `data` is where it lies now."""
    if data is None and not (config.data and Path(config.data).is_dir()):
        gone = (
            f"its data set is no longer at {config.data}" if config.data else "it does not know where its data set lies"
        )
        now = f"say where with --data PATH (to go on with it: clbr train PATH --resume {folder})"
        raise InputError(f"{folder}: {gone}; {now}")
    dataset = load(data or config.data)
    if dataset.fingerprint != read_origin(folder).fingerprint:
        raise InputError(f"{data or config.data}: is not the data set that {folder} was trained on")
    return dataset


def best_epoch(folder: Path, config: RunConfig) -> dict[str, Any] | None:
    """What a run wrote of its best epoch on validation; None if validation was not looked at yet."""
    tuned = [line for line in map(json.loads, read_metrics(folder)) if line["validation"]]
    return max(tuned, key=lambda line: line["validation"][config.train.metric], default=None)


def best_model(folder: Path, dataset: BundleDataset) -> Model:
    """The model at a run's best epoch."""
    config = read_config(folder)
    model = make_model(config.model, config.settings, dataset)
    if not (folder / BEST).exists():
        raise InputError(
            f"{folder}: has not been looked at on validation yet, so it has no best epoch; train it further"
        )
    read_model(folder / BEST, model)
    return model


def best_recommender(folder: Path, dataset: BundleDataset) -> Recommender:
    """The recommender at a run's best epoch, on the training graph."""
    return best_model(folder, dataset).recommender(BundleGraph.of(dataset))


def evaluate_run(
    folder: Path, *, split: str, ks: list[int], mask_validation: bool = False, data: Path | None = None
) -> Evaluation:
    """Evaluate a run's best weights; `data` is where its data set lies now, if it was moved."""
    dataset = read_dataset(folder, read_config(folder), data)
    return evaluate(best_recommender(folder, dataset), dataset, split=split, ks=ks, mask_validation=mask_validation)  # type: ignore[arg-type]


def group_runs(folders: list[Path]) -> dict[str, list[Path]]:
    """Runs by what they are apart from their seed, each group with a name that tells it from the others."""
    groups: dict[tuple[str, str], dict[int, Path]] = {}
    for folder in folders:
        config, data = read_config(folder), read_origin(folder).fingerprint
        same = groups.setdefault((data, config.model_copy(update={"seed": 0, "data": ""}).to_toml()), {})
        if config.seed in same:
            raise InputError(f"{folder}: is the same run as {same[config.seed]}; expected each seed once")
        same[config.seed] = folder
    if len({data for data, _ in groups}) > 1:
        raise InputError("the runs are on different data: expected runs on the same data set")
    models = [read_config(next(iter(group.values()))).model for group in groups.values()]
    named: dict[str, list[Path]] = {}
    for model, group in zip(models, groups.values(), strict=True):
        first, *more = group.values()
        label = model if models.count(model) == 1 else str(first)
        named[f"{label}, {1 + len(more)} seeds" if more else label] = [first, *more]
    return named
