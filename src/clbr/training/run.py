"""A training run: start, resume, stop. A stopped or killed run resumes from its folder with identical results."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import monotonic

import torch

from clbr.counterfactual.strategy import Preparation, Strategy, find_strategy
from clbr.counterfactual.views import PAIRS, RECORDS
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs
from clbr.errors import InputError
from clbr.files import LOCK, is_partial, lock, read_bytes, remove_partial_files, write_atomic
from clbr.models.embeddings import Embeddings
from clbr.models.registry import find_model, make_model
from clbr.rng import torch_generator
from clbr.training.batches import view_batches
from clbr.training.config import RunConfig, TrainConfig
from clbr.training.distributed import from_first, in_any, is_first, require_equal
from clbr.training.loop import Epoch, make_optimizer, selecting_value, train
from clbr.training.run_folder import (
    BEST,
    CONFIG,
    ENVIRONMENT,
    LAST,
    METRICS,
    SELECTION,
    SELECTION_SETTINGS,
    STATE,
    copy_selection,
    damaged,
    read_checkpoint,
    read_config,
    read_dataset,
    read_metrics,
    read_model,
    read_origin,
    selection_embeddings,
    write_checkpoint,
    write_model,
)
from clbr.training.runtime import describe_environment, find_device

CHECKPOINT_SECONDS = float(os.environ.get("CLBR_CHECKPOINT_SECONDS", "20"))
"""Time between two checkpoints. A killed run loses at most this much work, and one epoch."""
PREPARED = (SELECTION_SETTINGS, SELECTION, PAIRS, RECORDS)
"""Files that a run with views has before its first epoch."""


@dataclass
class Counters:
    """Progress of a run."""

    epoch: int = 0
    best_epoch: int = 0
    best: float = -1.0
    checks: int = 0
    """Evaluations on validation since the best one."""

    def follow(self, epoch: Epoch, metric: str) -> bool:
        """Count an epoch; return whether it is the best so far."""
        self.epoch = epoch.number
        if not epoch.validation:
            return False
        self.checks += 1
        value = selecting_value(epoch.validation, metric)
        if value <= self.best:
            return False
        self.best, self.best_epoch, self.checks = value, epoch.number, 0
        return True

    def finished(self, config: TrainConfig) -> bool:
        """Return whether training ends: after all epochs, or after `patience` evaluations without improvement."""
        return self.epoch >= config.epochs or self.checks >= config.patience


@dataclass(frozen=True)
class Callbacks:
    """Functions that are called during a run. All are optional."""

    on_epoch: Callable[[Epoch, Counters], None] = lambda epoch, counters: None
    """Called after each epoch."""
    on_selection_epoch: Callable[[Epoch, Counters], None] = lambda epoch, counters: None
    """Called after each epoch of the selection model, if one is trained first."""
    on_step: Callable[[int, int], None] = lambda step, steps: None
    """Called after each step with its number and the number of steps in an epoch."""
    should_stop: Callable[[], bool] = lambda: False
    """Asked after each `on_epoch`. If it returns true, the run saves a checkpoint and stops."""
    on_wait: Callable[[Path], None] = lambda folder: None
    """Called again and again while another process trains the selection model in this folder."""


def start(
    folder: Path,
    config: RunConfig,
    dataset: BundleDataset,
    callbacks: Callbacks | None = None,
    device: str = "auto",
    selection: Path | None = None,
    masked: Pairs | None = None,
) -> Counters:
    """Start a run in a new or empty folder and train it to its end.

    `selection` is a finished run to use as the selection model; without it one is trained if the views need it. Pairs
    in `masked` are excluded from the rankings on validation, in addition to the training pairs. Of several processes
    (see distributed.py) only process 0 uses the folder.
    """
    torch_device = find_device(device)
    if is_first():
        _require_unused(folder)
    make_model(config.model, config.settings, dataset)  # raises if it is impossible, before anything is written
    if not is_first():
        return _train(folder, config, dataset, callbacks or Callbacks(), torch_device, masked)
    if selection is not None:
        _check_selection(selection, config, dataset)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})", "out") from None
    with lock(folder):
        _require_unused(folder)  # another process may have started there meanwhile
        remove_partial_files(folder)
        _write_environment(folder, dataset, torch_device)
        for name in PREPARED:  # left by a start that failed before its first epoch, maybe with other settings
            (folder / name).unlink(missing_ok=True)
        if selection is not None:
            copy_selection(selection, folder)
        write_atomic(folder / CONFIG, config.to_toml().encode())
        try:
            return _train(folder, config, dataset, callbacks or Callbacks(), torch_device, masked)
        except InputError:
            if not (folder / METRICS).exists():  # no epoch is done: free the folder for other settings
                (folder / CONFIG).unlink()
            raise


def resume(
    folder: Path,
    callbacks: Callbacks | None = None,
    device: str = "auto",
    data: Path | None = None,
    masked: Pairs | None = None,
) -> Counters:
    """Resume a run that was stopped or killed; the result is identical to that of an uninterrupted run.

    `data` is the data folder, if it was moved. The device "auto" is the one that the run was started on. `masked` must
    be the same as at the start.
    """
    config = read_config(folder)
    dataset = read_dataset(folder, config, data)
    torch_device = find_device(read_origin(folder).device if device == "auto" else device)
    if not is_first():
        return _train(folder, config, dataset, callbacks or Callbacks(), torch_device, masked)
    with lock(folder):
        remove_partial_files(folder)
        return _train(folder, config, dataset, callbacks or Callbacks(), torch_device, masked)


def _require_unused(folder: Path) -> None:
    """Raise `InputError` if a folder holds more than a start leaves that failed or was killed before an epoch."""
    leftovers = (LOCK, ENVIRONMENT, *PREPARED)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: there is a file of this name; choose another folder", "out")
    if folder.exists() and not all(path.name in leftovers or is_partial(path) for path in folder.iterdir()):
        raise InputError(f"{folder}: is not empty; choose another folder, or resume the run in it", "out", "resume")


def _write_environment(folder: Path, dataset: BundleDataset, device: torch.device) -> None:
    write_atomic(folder / ENVIRONMENT, json.dumps(describe_environment(dataset, device), indent=2).encode())


def _train(
    folder: Path,
    config: RunConfig,
    dataset: BundleDataset,
    callbacks: Callbacks,
    device: torch.device,
    masked: Pairs | None = None,
) -> Counters:
    """Train from the last checkpoint, if there is one, to the end or until stopped. The folder must be locked."""
    require_equal(f"{config.model_copy(update={'data': ''}).to_toml()}{dataset.fingerprint}")
    model = make_model(config.model, config.settings, dataset, torch_generator(config.seed, "init")).to(device)
    optimizer = make_optimizer(model, config.train)
    counters, settings = Counters(), sha256(read_bytes(folder / CONFIG)).hexdigest() if is_first() else ""
    if from_first((folder / LAST / STATE).exists()):
        state = read_checkpoint(folder / LAST, model, optimizer, settings)
        counters = Counters(**{key: state[key] for key in asdict(counters)})
    lines = read_metrics(folder, counters.epoch) if is_first() else []  # a killed run may have written later ones
    saved = monotonic()
    if counters.finished(config.train):
        return counters
    strategy = prepare(folder, config, dataset, callbacks, device, folder.resolve().parent)
    if strategy is None:  # stopped meanwhile
        return counters
    after, on_step = counters.epoch, callbacks.on_step
    for result in train(model, optimizer, dataset, config.train, config.seed, after, on_step, strategy, masked):
        epoch = from_first(result)
        if counters.follow(epoch, config.train.metric):
            write_model(folder / BEST, model)
        lines.append(json.dumps(asdict(epoch)))
        if is_first():
            write_atomic(folder / METRICS, "".join(f"{line}\n" for line in lines).encode())
        callbacks.on_epoch(epoch, counters)
        stop = in_any(callbacks.should_stop())
        if from_first(stop or counters.finished(config.train) or monotonic() - saved > CHECKPOINT_SECONDS):
            write_checkpoint(folder / LAST, model, optimizer, asdict(counters) | {"settings": settings})
            saved = monotonic()
        if stop or counters.finished(config.train):
            break
    return counters


def prepare(
    folder: Path, config: RunConfig, dataset: BundleDataset, callbacks: Callbacks, device: torch.device, parent: Path
) -> Strategy | None:
    """Return the training strategy of a run, ready to train; None if it was stopped meanwhile.

    Views are written to `folder`. If a selection model has to be trained, it gets a folder of its own in `parent`.
    """

    def find_embeddings() -> Embeddings | None:
        if not (folder / SELECTION_SETTINGS).exists():
            if (folder / LAST / STATE).exists():  # the run may have been started with another selection model
                raise InputError(f"{folder / SELECTION_SETTINGS}: no such file; restore it, or train again")
            trained = _train_selection(parent, config, dataset, callbacks, device)
            if trained is None:
                return None
            copy_selection(trained, folder)
        return selection_embeddings(folder, dataset)

    relations = find_model(config.model).relations
    batches = partial(view_batches, config.train.batch_size, config.train.negatives)
    preparation = Preparation(folder, dataset, relations, config.seed, batches, find_embeddings)
    return find_strategy(config.paradigm).prepare(config.views, preparation)


def _train_selection(
    parent: Path, config: RunConfig, dataset: BundleDataset, callbacks: Callbacks, device: torch.device
) -> Path | None:
    """Train the same model with the original strategy and return its folder; None if stopped.

    The folder's name depends on the settings and the data, so that runs share it.
    """
    plain = config.model_copy(update={"paradigm": "original", "views": None})
    key = sha256(f"{plain.model_copy(update={'data': ''}).to_toml()}{dataset.fingerprint}".encode()).hexdigest()
    folder = parent / f"selection-{config.model}-{key[:12]}"
    folder.mkdir(exist_ok=True)
    with lock(folder, callbacks.on_wait, callbacks.should_stop) as locked:
        if not locked:
            return None
        remove_partial_files(folder)
        if not (folder / CONFIG).exists():
            _write_environment(folder, dataset, device)
            write_atomic(folder / CONFIG, plain.to_toml().encode())
        counters = _train(folder, plain, dataset, replace(callbacks, on_epoch=callbacks.on_selection_epoch), device)
    return folder if counters.finished(plain.train) else None


def _check_selection(selection: Path, config: RunConfig, dataset: BundleDataset) -> None:
    """Raise `InputError` if a run cannot be the selection model of a run with this config on this data set."""
    given = read_config(selection)
    if config.views is None:
        message = f"{selection}: a selection model is for counterfactual views, which {config.paradigm} does not have"
        raise InputError(f"{message}; choose the paradigm clbr", "paradigm")
    views = config.views.within(find_model(config.model).relations)
    if not views.needs_selection:
        share = " with a given share of additions" if views.sampler == "stochastic" else ""
        reason = f"the {views.sampler} sampler{share} scores no pairs" if views.ratios else "these views edit nothing"
        raise InputError(f"{selection}: a selection model is not needed, because {reason}; leave it out", "selection")
    if given.model != config.model:
        raise InputError(f"{selection}: is a run of {given.model}, expected one of {config.model}", "selection")
    if read_origin(selection).fingerprint != dataset.fingerprint:
        raise InputError(f"{selection}: was trained on other data than {config.data or dataset.name}", "selection")
    if not is_trained(selection):
        raise InputError(f"{selection}: its training is not finished; resume it first")
    read_model(selection / BEST, make_model(given.model, given.settings, dataset))


def is_trained(folder: Path) -> bool:
    """Return whether a run is finished and has its best weights."""
    return (folder / BEST).exists() and _read_counters(folder).finished(read_config(folder).train)


def _read_counters(folder: Path) -> Counters:
    """Return the progress of a run at its last checkpoint."""
    path = folder / LAST / STATE
    if not path.exists():
        return Counters()
    try:
        state = json.loads(read_bytes(path))
        return Counters(**{key: state[key] for key in asdict(Counters())})
    except (ValueError, TypeError, KeyError):
        raise damaged(path) from None
