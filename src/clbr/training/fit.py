"""Training in one call, for Python."""

import warnings
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clbr.data.dataset import BundleDataset
from clbr.data.folder import load
from clbr.errors import InputError
from clbr.evaluation.protocol import Evaluation, evaluate
from clbr.evaluation.ranking import rank
from clbr.models.base import Recommender
from clbr.training.config import RunConfig, compose, ineffective_edits
from clbr.training.run import start
from clbr.training.run_folder import best_recommender


class Trained(Recommender):
    """A trained recommender, at the epoch that was best on validation."""

    def __init__(self, dataset: BundleDataset, config: RunConfig, inner: Recommender) -> None:
        self.dataset, self.config, self.inner = dataset, config, inner

    def __repr__(self) -> str:
        return f"Trained({self.config.model}, seed {self.config.seed}, on {self.dataset.name})"

    def scores(self, users: Tensor) -> Tensor:
        """For n user ids an (n, bundles) tensor."""
        return self.inner.scores(users)

    def recommend(self, users: Iterable[int], k: int = 20) -> NDArray[np.int64]:
        """Each user's k best bundles that she has not chosen in training, best first. Unknown users are refused."""
        ids = np.array(list(users))
        known = len(self.dataset.users)
        if ids.size and not (np.issubdtype(ids.dtype, np.integer) and ids.min() >= 0 and ids.max() < known):
            raise InputError(f"users {ids.min()} to {ids.max()}: expected whole numbers from 0 to {known - 1}")
        return rank(self, ids.astype(np.int64), k, exclude=self.dataset.train)

    def evaluate(self, split: Literal["validation", "test"] = "test", ks: Iterable[int] = (20, 40)) -> Evaluation:
        """By full ranking."""
        return evaluate(self, self.dataset, split=split, ks=ks)


def fit(
    data: BundleDataset | str | Path,
    model: str = "crosscbr",
    *,
    preset: str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    paradigm: str = "original",
    **settings: Any,
) -> Trained:
    """Train a model on a data set (or a data folder) and give the recommender of its best epoch on validation.

    `settings` are the model's, the training's and the views', by name (epochs=30, rate=0.002, ratio_ub=0.05, ...). The
    run is kept in `out` if that is given; `clbr train --resume` can then go on with it where `data` is a folder.
    """
    dataset = data if isinstance(data, BundleDataset) else load(data)
    source = "" if isinstance(data, BundleDataset) else str(Path(data).resolve())
    config = compose(source, model, preset=preset, changes=settings, seed=seed, paradigm=paradigm)
    for idle in ineffective_edits(config):
        warnings.warn(idle, stacklevel=2)
    with TemporaryDirectory() as space:
        folder = Path(out) if out else Path(space) / "run"
        start(folder, config, dataset)
        return Trained(dataset, config, best_recommender(folder, dataset))
