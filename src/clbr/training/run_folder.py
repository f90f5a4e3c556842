"""Run folder on disk: config, environment, metrics, weights, checkpoints, selection model; all written atomically."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors.torch import load as load_tensors
from torch import Tensor

from clbr.data.dataset import BundleDataset
from clbr.data.folder import load
from clbr.errors import InputError
from clbr.evaluation.protocol import Evaluation, evaluate
from clbr.files import read_bytes, split_tensors, write_atomic
from clbr.graph.graph import BundleGraph
from clbr.models.base import Encoder, Model, Scorer
from clbr.models.columns import ExchangeError
from clbr.models.embeddings import Embeddings
from clbr.models.registry import make_model
from clbr.training.config import RunConfig
from clbr.training.distributed import from_first, is_first
from clbr.training.loop import selecting_value
from clbr.training.tensors import read_tensors, stored_values, write_tensors

CONFIG, ENVIRONMENT, METRICS = "config.toml", "environment.json", "metrics.jsonl"
BEST, LAST, STATE = "best/model.safetensors", "last", "state.json"
SELECTION, SELECTION_SETTINGS = "selection.safetensors", "selection.json"


def damaged(path: Path) -> InputError:
    """Return the error for a file of a run that cannot be read."""
    return InputError(f"{path}: is damaged; restore it, or train again in another folder")


def read_metrics(folder: Path, until: int | None = None) -> list[str]:
    """Return the lines of a run's metrics, one JSON object per epoch, up to epoch `until` if it is given."""
    path = folder / METRICS
    try:
        lines = path.read_text().splitlines() if path.exists() else []
        numbers = [int(json.loads(line)["number"]) for line in lines]
        return [line for line, number in zip(lines, numbers, strict=True) if until is None or number <= until]
    except (ValueError, TypeError, KeyError):
        raise damaged(path) from None


def read_config(folder: Path) -> RunConfig:
    """Return the settings of a run."""
    if not (folder / CONFIG).exists():
        raise InputError(f"{folder}: no run there ({CONFIG} is missing); expected the folder of a training run")
    return RunConfig.from_toml(folder / CONFIG)


class Origin(NamedTuple):
    """The data set, threads of each process, device and processes that a run was started with."""

    fingerprint: str
    threads: int
    device: str
    processes: int


def read_origin(folder: Path) -> Origin:
    """Return what a run was started with, from its environment.json."""
    path = folder / ENVIRONMENT
    content = read_bytes(path)
    try:
        environment = json.loads(content)
        fingerprint = environment["data"]["fingerprint"]
        device, processes = environment.get("device", "auto"), int(environment.get("processes", 1))
        return Origin(fingerprint, int(environment["threads"]), device, processes)
    except (ValueError, TypeError, KeyError):
        raise damaged(path) from None


def read_dataset(folder: Path, config: RunConfig, data: Path | None = None) -> BundleDataset:
    """Load the data set of a run, from the folder `data` if it was moved.

    Raises `InputError` if it is not the data set that the run was started with.
    """
    if data is None and not (config.data and Path(config.data).is_dir()):
        reason = f"its data set is no longer at {config.data}" if config.data else "it has no record of a data folder"
        raise InputError(f"{folder}: {reason}; give the data folder", "data")
    dataset = load(data or config.data)
    if dataset.fingerprint != read_origin(folder).fingerprint:
        raise InputError(f"{data or config.data}: is not the data set that {folder} was trained on")
    return dataset


def best_epoch(folder: Path, config: RunConfig) -> dict[str, Any] | None:
    """Return the metrics line of a run's best epoch on validation; None if it was not evaluated yet."""
    evaluated = [line for line in map(json.loads, read_metrics(folder)) if line["validation"]]
    return max(evaluated, key=lambda line: selecting_value(line["validation"], config.train.metric), default=None)


def best_model(folder: Path, dataset: BundleDataset) -> Model:
    """Return the model at a run's best epoch."""
    config = read_config(folder)
    model = make_model(config.model, config.settings, dataset)
    if not (folder / BEST).exists():
        raise InputError(f"{folder}: was not evaluated on validation yet, so it has no best epoch; train it further")
    read_model(folder / BEST, model)
    return model


def best_scorer(folder: Path, dataset: BundleDataset) -> Scorer:
    """Return the scorer of a run's best epoch, on the training graph."""
    return best_model(folder, dataset).scorer(BundleGraph.of(dataset))


def evaluate_run(
    folder: Path,
    *,
    split: Literal["validation", "test"],
    ks: list[int],
    mask_validation: bool = False,
    data: Path | None = None,
) -> Evaluation:
    """Evaluate the best epoch of a run; `data` is the data folder, if it was moved."""
    dataset = read_dataset(folder, read_config(folder), data)
    return evaluate(best_scorer(folder, dataset), dataset, split=split, ks=ks, mask_validation=mask_validation)


def group_runs(folders: list[Path]) -> dict[str, list[Path]]:
    """Group runs that differ only in their seed; the keys are distinct labels.

    Raises `InputError` if a run is given twice, or if the runs are on different data.
    """
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


def write_model(path: Path, model: torch.nn.Module) -> None:
    """Write a model's parameters to one file, with their checksum in its header."""
    tensors, checksum = model.state_dict(), sha256()
    for part in stored_values(tensors):
        checksum.update(part)
    write_tensors(path, tensors, {"sha256": checksum.hexdigest()})


def read_model(path: Path, model: torch.nn.Module) -> None:
    """Load the parameters in a file into a model of the same shape."""
    content = read_bytes(path)
    try:
        stated, values = split_tensors(content)
        if stated not in (None, sha256(values).hexdigest()):
            raise ValueError("their checksum has changed since they were written")
        model.load_state_dict(load_tensors(content))
    except Exception as error:  # safetensors and torch raise many kinds; all mean the same here
        raise InputError(f"{path}: not the weights of this model ({str(error).splitlines()[0]})") from None


def write_checkpoint(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, counters: dict[str, Any]
) -> None:
    """Write all that resuming needs. The state file is written last and names the file of the tensors.

    Called in all processes; process 0 writes.
    """
    states = optimizer.state_dict()["state"].items()
    content = {f"model.{name}": value for name, value in model.state_dict().items()}
    content |= {f"optimizer.{index}.{key}": value for index, state in states for key, value in state.items()}
    tensors = f"tensors-{counters['epoch']}.safetensors"
    checksum = write_tensors(folder / tensors, content)
    if not is_first():
        return
    state = counters | {"tensors": tensors, "sha256": checksum}
    write_atomic(folder / STATE, json.dumps(state | {"checksum": _checksum(state)}).encode())
    for old in folder.glob("tensors-*.safetensors"):
        if old.name != tensors:
            old.unlink()


def read_checkpoint(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, settings: str
) -> dict[str, Any]:
    """Restore model and optimizer; return the counters. Called in all processes; process 0 reads.

    `settings` is the checksum of the run's config. Raises `InputError` if the checkpoint was made with another config.
    """
    try:
        state = from_first(_read_state(folder, settings) if is_first() else {})
        tensors = read_tensors(folder / state["tensors"], state["sha256"])
        model.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer."):
                _, index, key = name.split(".")
                moments.setdefault(int(index), {})[key] = value
        optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    except (InputError, ExchangeError):
        raise
    except Exception as error:
        raise InputError(
            f"{folder}: the checkpoint is damaged ({str(error).splitlines()[0]}); train again in another folder"
        ) from None
    return state


def _read_state(folder: Path, settings: str) -> dict[str, Any]:
    """Return the content of a checkpoint's state file, after checking it."""
    state: dict[str, Any] = json.loads(read_bytes(folder / STATE))
    if state.pop("checksum", None) != _checksum(state):
        raise ValueError(f"the checksum of {STATE} has changed since it was written")
    if state["settings"] != settings:
        raise InputError(f"{folder}: is of a run with other settings; restore its {CONFIG}, or train again")
    return state


def _checksum(state: dict[str, Any]) -> str:
    return sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def copy_selection(selection: Path, folder: Path) -> None:
    """Copy the best weights of a run into another run's folder, as its selection model. The settings come last."""
    config = read_config(selection)
    write_atomic(folder / SELECTION, (selection / BEST).read_bytes())
    about = {"run": selection.name, "model": config.model, "seed": config.seed, "settings": config.settings}
    write_atomic(folder / SELECTION_SETTINGS, json.dumps(about, indent=2).encode())


def selection_embeddings(folder: Path, dataset: BundleDataset) -> Embeddings:
    """Return the embeddings of a run's selection model on the training graph."""
    path = folder / SELECTION_SETTINGS
    try:
        about = json.loads(read_bytes(path))
        name, settings = str(about["model"]), dict(about["settings"])
    except (ValueError, TypeError, KeyError):
        raise damaged(path) from None
    model = make_model(name, settings, dataset)
    read_model(folder / SELECTION, model)
    return _embeddings(model, dataset)


def view_embeddings(folder: Path, dataset: BundleDataset) -> Embeddings:
    """Return the embeddings that score the pairs of a run's views: of its selection model, else of its own model."""
    if (folder / SELECTION_SETTINGS).exists():
        return selection_embeddings(folder, dataset)
    return _embeddings(best_model(folder, dataset), dataset)


def _embeddings(model: Model, dataset: BundleDataset) -> Embeddings:
    assert isinstance(model, Encoder)
    with torch.no_grad():
        return model.encode(BundleGraph.of(dataset))
