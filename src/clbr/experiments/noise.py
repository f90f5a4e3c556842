"""Noise: training data in which a share of the edges is replaced by random ones, added or removed."""

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clbr.config import Config
from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs, Relation, contains, decode, encode
from clbr.errors import InputError
from clbr.rng import generator


class Noise(Config):
    """What is changed in the training data. The names are those of a variant's settings."""

    noise: Literal["replace", "add", "remove"] = Field("replace", description="what happens to the edges")
    noise_ub: float = Field(0.0, ge=0, le=1, description="share of the user-bundle training pairs")
    noise_ui: float = Field(0.0, ge=0, le=1, description="share of the user-item pairs")
    noise_bi: float = Field(0.0, ge=0, le=1, description="share of the bundle-item pairs")

    @property
    def rates(self) -> dict[Relation, float]:
        """The relations that are changed, with their shares."""
        rates: dict[Relation, float] = {"ub": self.noise_ub, "ui": self.noise_ui, "bi": self.noise_bi}
        return {relation: rate for relation, rate in rates.items() if rate}

    def __str__(self) -> str:
        return "-".join([self.noise, *(f"{relation}{rate:g}" for relation, rate in self.rates.items())])


NO_NOISE = Noise()


def add_noise(dataset: BundleDataset, noise: Noise) -> BundleDataset:
    """Return the data set with noise in its training pairs and its items; validation and test stay as they are.

    What a smaller share changes is part of what a larger one changes. A random user-bundle pair is never a validation
    or test pair: it would no longer be one to find.
    """
    if not noise.rates:
        return dataset
    users, bundles, items = len(dataset.users), len(dataset.bundles), len(dataset.items)
    held_out = np.concatenate([dataset.validation, dataset.test])
    none = np.empty((0, 2), np.int32)
    tables: dict[Relation, tuple[Pairs, tuple[int, int], Pairs]] = {
        "ub": (dataset.train, (users, bundles), held_out),
        "ui": (dataset.ui, (users, items), none),
        "bi": (dataset.bi, (bundles, items), none),
    }
    changed = {relation: _changed(*tables[relation], relation, noise, rate) for relation, rate in noise.rates.items()}
    train, ui, bi = (changed.get(relation, tables[relation][0]) for relation in tables)
    return replace(dataset, name=f"{dataset.name}-{noise}", train=train, ui=ui, bi=bi)


def _changed(
    pairs: Pairs, shape: tuple[int, int], held_out: Pairs, relation: Relation, noise: Noise, rate: float
) -> Pairs:
    """Return the pairs of a relation with a share of them replaced, added or removed."""
    count, rng = round(rate * len(pairs)), generator(0, "noise", relation)
    order = rng.permutation(len(pairs))
    codes = encode(pairs, shape[1])
    kept = codes if noise.noise == "add" else codes[np.sort(order[count:])]
    if not len(kept) and noise.noise == "remove":
        raise InputError(f"noise_{relation} {rate:g}: no pair is left; choose a smaller share")
    if noise.noise == "remove":
        return decode(kept, shape[1])
    taken = np.sort(np.concatenate([codes, encode(held_out, shape[1])]))
    return decode(np.sort(np.concatenate([kept, _random_codes(count, shape, taken, rng)])), shape[1])


def _random_codes(
    count: int, shape: tuple[int, int], taken: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw distinct codes that are not taken. More of them begin with the same ones."""
    free = shape[0] * shape[1] - len(taken)
    if count > free:
        raise InputError(f"noise: {count:,} random pairs are wanted, and {free:,} are free; choose a smaller share")
    drawn = np.empty(0, np.int64)
    while len(drawn) < count:
        more = rng.integers(shape[0] * shape[1], size=4096)
        drawn = np.concatenate([drawn, more[~contains(taken, more)]])
        _, first = np.unique(drawn, return_index=True)
        drawn = drawn[np.sort(first)]
    return drawn[:count]
