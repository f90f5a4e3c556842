"""A run: a folder that holds a training, from its settings to its best weights, and can always be gone on with."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep

import torch

from clbr.counterfactual.strategy import Counterfactual, Original, Strategy, draw_views, make_sampler
from clbr.counterfactual.views import PAIRS, RECORDS, read_views, write_views
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs
from clbr.errors import InputError
from clbr.files import is_partial, read_bytes, remove_partial_files, write_atomic
from clbr.graph.graph import BundleGraph
from clbr.models.registry import find_model, make_model
from clbr.rng import torch_generator
from clbr.training.checkpoint import STATE, read_checkpoint, read_model, write_checkpoint, write_model
from clbr.training.config import RunConfig, TrainConfig
from clbr.training.loop import Epoch, make_optimiser, train
from clbr.training.run_folder import BEST, read_config, read_dataset, read_metrics, read_origin
from clbr.training.runtime import describe_environment, find_device
from clbr.training.selection import SELECTION, SELECTION_SETTINGS, keep_selection, selection_embeddings

CHECKPOINT_SECONDS = float(os.environ.get("CLBR_CHECKPOINT_SECONDS", "20"))
"""At most so much work is lost to a kill (and one epoch)."""
LOOK_SECONDS = 0.2
"""From one look at whether another process is done to the next."""
PREPARED = (SELECTION_SETTINGS, SELECTION, PAIRS, RECORDS)
"""What a run with views has before its first epoch."""


@dataclass
class Counters:
    """How far a run has come."""

    epoch: int = 0
    best_epoch: int = 0
    best: float = -1.0
    looks: int = 0
    """Looks at validation since the best one."""

    def follow(self, epoch: Epoch, metric: str) -> bool:
        """Take an epoch in; whether it is the best so far."""
        self.epoch = epoch.number
        if not epoch.validation:
            return False
        self.looks += 1
        if epoch.validation[metric] <= self.best:
            return False
        self.best, self.best_epoch, self.looks = epoch.validation[metric], epoch.number, 0
        return True

    def finished(self, config: TrainConfig) -> bool:
        """Whether training ends here: all epochs done, or no better one for long enough."""
        return self.epoch >= config.epochs or self.looks >= config.patience


@dataclass(frozen=True)
class Callbacks:
    """Who wants to hear of it: `epoch` after each epoch, `step` after each step; `stop` is asked after each epoch.

    `selection_epoch` hears of the epochs of the selection model, where one is trained first, and `wait` that another
    process is at it, again and again until that ends.
    """

    epoch: Callable[[Epoch, Counters], None] = lambda epoch, counters: None
    selection_epoch: Callable[[Epoch, Counters], None] = lambda epoch, counters: None
    step: Callable[[int, int], None] = lambda step, steps: None
    stop: Callable[[], bool] = lambda: False
    wait: Callable[[Path], None] = lambda folder: None


def start(
    folder: Path,
    config: RunConfig,
    dataset: BundleDataset,
    hooks: Callbacks | None = None,
    device: str = "auto",
    selection: Path | None = None,
    masked: Pairs | None = None,
) -> Counters:
    """Begin a run in a new or empty folder and train it to its end; `selection` is a run to judge pairs by.

    Pairs that are `masked` are left out of the rankings on validation, besides the training pairs.
    """
    place = find_device(device)
    _refuse_begun(folder)
    make_model(config.model, config.settings, dataset)  # refuse what cannot be, before anything is written
    if selection is not None:
        _refuse_selection(selection, config, dataset)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    with locked(folder):
        _refuse_begun(folder)  # someone may have begun there meanwhile
        remove_partial_files(folder)
        environment = json.dumps(describe_environment(dataset, place), indent=2)
        write_atomic(folder / "environment.json", environment.encode())
        for left in PREPARED:  # for a run that did not come to its first epoch, with whatever settings
            (folder / left).unlink(missing_ok=True)
        if selection is not None:
            keep_selection(selection, folder)
        write_atomic(folder / "config.toml", config.to_toml().encode())
        try:
            return _train(folder, config, dataset, hooks or Callbacks(), place, masked)
        except InputError:
            if not (folder / "metrics.jsonl").exists():  # not an epoch is done: free the place for better settings
                (folder / "config.toml").unlink()
            raise


def _refuse_begun(folder: Path) -> None:
    """Refuse a place that holds anything but what a start that failed or was killed at once leaves."""
    left = (".lock", "environment.json", *PREPARED)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: there is a file of this name; choose another --out")
    if folder.exists() and not all(path.name in left or is_partial(path) for path in folder.iterdir()):
        raise InputError(f"{folder}: is not empty; choose another --out, or: clbr train --resume {folder}")


def resume(
    folder: Path,
    hooks: Callbacks | None = None,
    device: str = "auto",
    data: Path | None = None,
    masked: Pairs | None = None,
) -> Counters:
    """Go on with a run that was stopped or killed, to the same end as if it had not been.

    `data` is where its data set lies now, if it was moved. The device is the run's own unless another is asked for.
    What was `masked` at its start is to be masked again.
    """
    config = read_config(folder)
    dataset = read_dataset(folder, config, data)
    place = find_device(read_origin(folder).device if device == "auto" else device)
    with locked(folder):
        remove_partial_files(folder)
        return _train(folder, config, dataset, hooks or Callbacks(), place, masked)


def _train(
    folder: Path,
    config: RunConfig,
    dataset: BundleDataset,
    hooks: Callbacks,
    device: torch.device,
    masked: Pairs | None = None,
) -> Counters:
    model = make_model(config.model, config.settings, dataset, torch_generator(config.seed, "init")).to(device)
    optimiser = make_optimiser(model, config.train)
    counters, settings = Counters(), sha256(read_bytes(folder / "config.toml")).hexdigest()
    if (folder / "last" / STATE).exists():
        state = read_checkpoint(folder / "last", model, optimiser, settings)
        counters = Counters(**{key: state[key] for key in asdict(counters)})
    lines = read_metrics(folder, counters.epoch)  # what a killed run wrote after its checkpoint will be written again
    saved = monotonic()
    if counters.finished(config.train):
        return counters
    paradigm = prepare(folder, config, dataset, hooks, device, folder.resolve().parent)
    if paradigm is None:  # stopped on the way to it
        return counters
    begun = counters.epoch
    for epoch in train(model, optimiser, dataset, config.train, config.seed, begun, hooks.step, paradigm, masked):
        if counters.follow(epoch, config.train.metric):
            (folder / "best").mkdir(exist_ok=True)
            write_model(folder / BEST, model)
        lines.append(json.dumps(asdict(epoch)))
        write_atomic(folder / "metrics.jsonl", "".join(f"{line}\n" for line in lines).encode())
        stop = hooks.stop()
        if stop or counters.finished(config.train) or monotonic() - saved > CHECKPOINT_SECONDS:
            write_checkpoint(folder / "last", model, optimiser, asdict(counters) | {"settings": settings})
            saved = monotonic()
        hooks.epoch(epoch, counters)
        if stop or counters.finished(config.train):
            break
    return counters


def prepare(
    folder: Path, config: RunConfig, dataset: BundleDataset, hooks: Callbacks, device: torch.device, shelf: Path
) -> Strategy | None:
    """How a run is trained. Views are drawn once and kept in its folder; the model that judges pairs lies on the shelf.

    None if it was stopped while the way was prepared.
    """
    if config.views is None:
        return Original()
    views = config.views.within(find_model(config.model).relations)
    drawn = (folder / PAIRS).exists()
    embeddings = None
    if views.needs_selection and (views.redraw or not drawn):
        if not (folder / SELECTION_SETTINGS).exists():
            if (folder / "last" / STATE).exists():  # what it was begun with may have been given with --selection
                raise InputError(f"{folder / SELECTION_SETTINGS}: no such file; put it back, or train anew")
            found = _train_selection(shelf, config, dataset, hooks, device)
            if found is None:
                return None
            keep_selection(found, folder)
        embeddings = selection_embeddings(folder, dataset)
    graph = BundleGraph.of(dataset)
    sampler = make_sampler(views, graph, embeddings, config.seed) if views.redraw or not drawn else None
    if not drawn:
        assert sampler is not None
        write_views(folder, *draw_views(sampler, views, config.seed))
    edits, _ = read_views(folder)
    return Counterfactual(views, edits, config.seed, config.train, sampler if views.redraw else None)


def _train_selection(
    shelf: Path, config: RunConfig, dataset: BundleDataset, hooks: Callbacks, device: torch.device
) -> Path | None:
    """The run of the same model in the original way; found again by what it depends on."""
    plain = config.model_copy(update={"paradigm": "original", "views": None})
    known = sha256(f"{plain.model_copy(update={'data': ''}).to_toml()}{dataset.fingerprint}".encode()).hexdigest()
    place = shelf / f"selection-{config.model}-{known[:12]}"
    place.mkdir(exist_ok=True)
    with locked(place, hooks) as ours:
        if not ours:
            return None
        remove_partial_files(place)
        if not (place / "config.toml").exists():
            environment = json.dumps(describe_environment(dataset, device), indent=2)
            write_atomic(place / "environment.json", environment.encode())
            write_atomic(place / "config.toml", plain.to_toml().encode())
        counters = _train(place, plain, dataset, replace(hooks, epoch=hooks.selection_epoch), device)
    return place if counters.finished(plain.train) else None


def _refuse_selection(selection: Path, config: RunConfig, dataset: BundleDataset) -> None:
    given = read_config(selection)
    if config.views is None:
        raise InputError(f"{selection}: a selection run is for counterfactual views; add --paradigm clbr")
    views = config.views.within(find_model(config.model).relations)
    if not views.needs_selection:
        chance = f"the {views.sampler} sampler{' with additions given' if views.sampler == 'stochastic' else ''}"
        why = f"{chance} judges no pairs" if views.ratios else "these views edit nothing"
        raise InputError(f"{selection}: no pair would be judged by it, for {why}; leave --selection out")
    if given.model != config.model:
        raise InputError(f"{selection}: is a run of {given.model}, and pairs are to be judged by {config.model}")
    if read_origin(selection).fingerprint != dataset.fingerprint:
        raise InputError(f"{selection}: was trained on other data than {config.data or dataset.name}")
    if not is_trained(selection):
        raise InputError(f"{selection}: is not trained to its end; first: clbr train --resume {selection}")
    read_model(selection / BEST, make_model(given.model, given.settings, dataset))


def is_trained(folder: Path) -> bool:
    """Whether a run has come to its end and has its best weights."""
    return (folder / BEST).exists() and _read_counters(folder).finished(read_config(folder).train)


def _read_counters(folder: Path) -> Counters:
    """How far a run has come, as its last checkpoint tells."""
    path = folder / "last" / STATE
    if not path.exists():
        return Counters()
    try:
        state = json.loads(read_bytes(path))
        return Counters(**{key: state[key] for key in asdict(Counters())})
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{path}: is damaged; put it back, or train anew with another --out") from None


@contextmanager
def locked(folder: Path, waiting: Callbacks | None = None) -> Iterator[bool]:
    """Hold the folder; refused while another process does, unless one is `waiting`: False if stopped meanwhile."""
    with (folder / ".lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if waiting is None:
                    raise InputError(f"{folder}: another process is training there; wait for it or stop it") from None
                if waiting.stop():
                    yield False
                    return
                waiting.wait(folder)
                sleep(LOOK_SECONDS)
            else:
                yield True
                return
