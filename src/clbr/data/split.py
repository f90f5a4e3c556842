"""Split user-bundle pairs into train, validation and test."""

from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from clbr.config import Config
from clbr.data.pairs import Pairs, contains, distinct, encode, items_of_bundles
from clbr.rng import generator

Method = Literal["random", "leave-one-out", "last", "given"]
SPLITS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)


class SplitConfig(Config):
    """How pairs are split. The same settings always give the same split."""

    method: Method = Field(
        "random",
        description="random within each user, one pair of each user, the last by time, or given by a column",
    )
    validation: float = Field(
        0.1, ge=0, lt=1, description="share of each user's pairs for choosing epochs and settings"
    )
    test: float = Field(0.2, ge=0, lt=1, description="share of each user's pairs for the final test")
    seed: int = Field(0, ge=0, description="seed of a random or leave-one-out split")

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.method != "random" and (self.validation, self.test) != (0.1, 0.2):
            raise ValueError(f"the method {self.method} uses no shares; leave validation and test out")
        if self.validation + self.test >= 1:
            raise ValueError(f"validation {self.validation} and test {self.test} leave nothing to train on")
        return self


def split_random(
    users: NDArray[np.int32], validation: float, test: float, seed: int | np.random.Generator
) -> NDArray[np.int8]:
    """For each pair TRAIN, VALIDATION or TEST, drawn at random within each user.

    With a generator instead of a seed, pairs can be given in parts, each with all pairs of its users.

    As in the published data sets: of a user's n pairs floor(n * share), but at least one, go to validation and to
    test. All pairs of a user with fewer than three are in train. The result depends on the order of the pairs.
    """
    total = np.bincount(users)
    rng = seed if isinstance(seed, np.random.Generator) else generator(seed, "split")
    shuffle = rng.random(len(users))
    validated, tested = (
        np.where(total < 3, 0, np.maximum(1, (total * share + 1e-9).astype(np.int64))) for share in (validation, test)
    )
    return _label(users, np.lexsort((shuffle, users)), validated, tested)


def split_leave_one_out(users: NDArray[np.int32], seed: int) -> NDArray[np.int8]:
    """For each pair TRAIN, VALIDATION or TEST: one pair of each user for test and one for validation, at random.

    Of two pairs of a user one is held out: for test and for validation in turn, in the order of these users. A user's
    only pair is in train. The result depends on the order of the pairs.
    """
    total = np.bincount(users)
    shuffle = generator(seed, "leave-one-out").random(len(users))
    validated, tested = (total > 2).astype(np.int64), (total > 1).astype(np.int64)
    every_second = np.flatnonzero(total == 2)[1::2]
    validated[every_second], tested[every_second] = 1, 0
    return _label(users, np.lexsort((shuffle, users)), validated, tested)


def split_last(pairs: Pairs, times: NDArray[np.int64]) -> NDArray[np.int8]:
    """For each pair TRAIN, VALIDATION or TEST: a user's last pair is for test, the one before it for validation.

    Pairs of the same time are ordered by bundle. All pairs of a user with fewer than three are in train.
    """
    users = pairs[:, 0]
    one = (np.bincount(users) > 2).astype(np.int64)
    return _label(users, np.lexsort((pairs[:, 1], times, users)), one, one)


def _label(
    users: NDArray[np.int32], order: NDArray[np.intp], validated: NDArray[np.int64], tested: NDArray[np.int64]
) -> NDArray[np.int8]:
    """Label the last of each user's ordered pairs as test, those before them as validation."""
    total = np.bincount(users)
    starts = np.cumsum(total) - total
    user = users[order]
    from_end = total[user] - (np.arange(len(users)) - starts[user])  # 1 for a user's last pair
    labels = np.full(len(users), TRAIN, np.int8)
    labels[order] = np.select(
        [from_end <= tested[user], from_end <= (tested + validated)[user]], [TEST, VALIDATION], TRAIN
    )
    return labels


def hide_held_out_items(ui: Pairs, bi: Pairs, train: Pairs, held_out: Pairs, bundles: int, items: int) -> Pairs:
    """The user-item pairs without those that came with held-out bundles.

    A pair is removed if its item is in a held-out bundle of its user and in no training bundle of its user.
    """
    codes = encode(ui, items)
    came, stays = (
        contains(distinct(encode(items_of_bundles(chosen, bi, bundles)[1], items)), codes)
        for chosen in (held_out, train)
    )
    return ui[~came | stays]
