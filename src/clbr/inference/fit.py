"""Train a model in one call and get its recommender."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clbr.config import whole_number
from clbr.data.dataset import BundleDataset
from clbr.data.folder import as_dataset
from clbr.errors import InputError
from clbr.inference.export import run_artifact
from clbr.inference.recommender import Recommender
from clbr.models.registry import DEFAULT_MODEL
from clbr.training.config import compose, defaults_by_data, ineffective_edits, preset_notes
from clbr.training.display import training_display
from clbr.training.loop import Epoch
from clbr.training.run import Counters, start
from clbr.training.runtime import use_threads

OnEpoch = Callable[[Epoch, Counters], bool | None]
"""Called after each epoch; training stops if it returns True."""


def fit(
    data: BundleDataset | str | Path,
    model: str = DEFAULT_MODEL,
    *,
    paradigm: str = "original",
    preset: str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    selection: str | Path | None = None,
    progress: bool | None = None,
    device: str = "auto",
    threads: int | None = None,
    callbacks: OnEpoch | Sequence[OnEpoch] = (),
    **settings: Any,
) -> Recommender:
    """Train a model on a data set (or a data folder) and give the recommender of its best epoch on validation.

    `settings` are those of the model, of training and of views, by name: epochs=30, learning_rate=0.002, ratio_ub=0.05.
    `preset` names known good settings; without one the preset of the data's name is used where there is one, and "none"
    uses the defaults. The run is kept in `out`, if that is given; `selection` is a run whose model selects pairs.
    `progress` shows a live line (None: if a terminal shows it). Each callback is called after every epoch with what it
    gave and how far the run has come; training stops early if one returns True.
    """
    if threads is not None:
        threads = whole_number(threads, "threads")
    called = [callbacks] if callable(callbacks) else list(callbacks or ())
    if not all(callable(callback) for callback in called):
        raise InputError("callbacks: expected a function, or a list of functions (epoch, counters)", "callbacks")
    _check_names(model=model, paradigm=paradigm, preset=preset or "none")
    use_threads(threads)
    dataset = as_dataset(data)
    source = "" if isinstance(data, BundleDataset) else str(Path(data).resolve())
    chosen: dict[str, Any] = {"preset": preset, "data_name": dataset.name, "paradigm": paradigm}
    by_data = defaults_by_data(model, dataset)
    config = compose(source, model, by_data=by_data, changes=settings, seed=seed, **chosen)
    for note in [*preset_notes(model, **chosen)[1:], *ineffective_edits(config)]:  # the first only names the preset
        warnings.warn(note, stacklevel=2)
    stopped = False

    def on_epoch(epoch: Epoch, counters: Counters) -> None:
        nonlocal stopped
        for callback in called:
            stopped = bool(callback(epoch, counters)) or stopped

    with TemporaryDirectory() as space, training_display(progress) as display:
        display.begin(config)
        folder = Path(out) if out else Path(space) / "run"
        hooks = display.callbacks(on_epoch=on_epoch, should_stop=lambda: stopped)
        start(folder, config, dataset, hooks, device, Path(selection) if selection else None)
        return Recommender(run_artifact(folder, dataset), dataset)


def _check_names(**names: object) -> None:
    """Raise an error for a name that is no text."""
    for argument, name in names.items():
        if not isinstance(name, str):
            raise InputError(f"{argument} = {name!r:.60}: expected a name", argument)
