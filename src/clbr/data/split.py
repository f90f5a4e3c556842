"""Dividing user-bundle pairs into train, validation and test."""

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
    """How pairs are divided; the same settings always divide them the same way."""

    method: Literal["random", "last", "given"] = Field(
        "random", description="random within each user, the last by time, or as a column says"
    )
    validation: float = Field(
        0.1, ge=0, lt=1, description="share of each user's pairs to choose epochs and settings on"
    )
    test: float = Field(0.2, ge=0, lt=1, description="share of each user's pairs that only the final test sees")
    seed: int = Field(0, ge=0, description="decides the random split")

    @model_validator(mode="after")
    def _leave_something_to_train_on(self) -> Self:
        if self.validation + self.test >= 1:
            raise ValueError(f"validation {self.validation} and test {self.test} leave nothing to train on")
        return self


def split_random(users: NDArray[np.int32], validation: float, test: float, seed: int) -> NDArray[np.int8]:
    """For each pair TRAIN, VALIDATION or TEST, at random within each user.

    As in the published sets: of a user's n pairs floor(n * share), but at least one, go to validation and to
    test; a user with fewer than three pairs keeps them all in train. Expects pairs in a fixed order.
    """
    shuffle = generator(seed, "split").random(len(users))
    return _label(users, np.lexsort((shuffle, users)), validation, test)


def split_last(pairs: Pairs, times: NDArray[np.int64]) -> NDArray[np.int8]:
    """For each pair TRAIN, VALIDATION or TEST: a user's last pair is tested, the one before tunes.

    Pairs of the same time are ordered by bundle. A user with fewer than three pairs keeps them in train.
    """
    return _label(pairs[:, 0], np.lexsort((pairs[:, 1], times, pairs[:, 0])), validation=0, test=0)


def _label(users: NDArray[np.int32], order: NDArray[np.intp], validation: float, test: float) -> NDArray[np.int8]:
    """Give the end of each user's ordered pairs to test, what stands before it to validation."""
    total = np.bincount(users)
    tuned = np.where(total < 3, 0, np.maximum(1, (total * validation + 1e-9).astype(np.int64)))
    tested = np.where(total < 3, 0, np.maximum(1, (total * test + 1e-9).astype(np.int64)))
    starts = np.cumsum(total) - total
    user = users[order]
    from_end = total[user] - (np.arange(len(users)) - starts[user])  # 1 for a user's last pair
    labels = np.full(len(users), TRAIN, np.int8)
    labels[order] = np.select([from_end <= tested[user], from_end <= (tested + tuned)[user]], [TEST, VALIDATION], TRAIN)
    return labels
