"""Split user-bundle pairs into train, validation and test."""

from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from clbr.config import Config
from clbr.data.pairs import Pairs
from clbr.rng import generator

SPLITS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)


class SplitConfig(Config):
    """How pairs are split. The same settings always give the same split."""

    method: Literal["random", "last", "given"] = Field(
        "random", description="random within each user, the last by time, or given by a column"
    )
    validation: float = Field(
        0.1, ge=0, lt=1, description="share of each user's pairs for choosing epochs and settings"
    )
    test: float = Field(0.2, ge=0, lt=1, description="share of each user's pairs for the final test")
    seed: int = Field(0, ge=0, description="seed of the random split")

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.method != "random" and (self.validation, self.test) != (0.1, 0.2):
            raise ValueError(f"the method {self.method} uses no shares; leave validation and test out")
        if self.validation + self.test >= 1:
            raise ValueError(f"validation {self.validation} and test {self.test} leave nothing to train on")
        return self


def split_random(users: NDArray[np.int32], validation: float, test: float, seed: int) -> NDArray[np.int8]:
    """For each pair TRAIN, VALIDATION or TEST, drawn at random within each user.

    As in the published data sets: of a user's n pairs floor(n * share), but at least one, go to validation and to
    test. All pairs of a user with fewer than three are in train. The result depends on the order of the pairs.
    """
    shuffle = generator(seed, "split").random(len(users))
    return _label(users, np.lexsort((shuffle, users)), validation, test)


def split_last(pairs: Pairs, times: NDArray[np.int64]) -> NDArray[np.int8]:
    """For each pair TRAIN, VALIDATION or TEST: a user's last pair is for test, the one before it for validation.

    Pairs of the same time are ordered by bundle. All pairs of a user with fewer than three are in train.
    """
    return _label(pairs[:, 0], np.lexsort((pairs[:, 1], times, pairs[:, 0])), validation=0, test=0)


def _label(users: NDArray[np.int32], order: NDArray[np.intp], validation: float, test: float) -> NDArray[np.int8]:
    """Label the last of each user's ordered pairs as test, those before them as validation."""
    total = np.bincount(users)
    validated = np.where(total < 3, 0, np.maximum(1, (total * validation + 1e-9).astype(np.int64)))
    tested = np.where(total < 3, 0, np.maximum(1, (total * test + 1e-9).astype(np.int64)))
    starts = np.cumsum(total) - total
    user = users[order]
    from_end = total[user] - (np.arange(len(users)) - starts[user])  # 1 for a user's last pair
    labels = np.full(len(users), TRAIN, np.int8)
    labels[order] = np.select(
        [from_end <= tested[user], from_end <= (tested + validated)[user]], [TEST, VALIDATION], TRAIN
    )
    return labels
