"""Agreement of what-if answers with retraining: the correlation of the changes of scores, corrected for chance.

Two retrainings on the same edited data, with other seeds, agree little with each other: most of what a retraining
changes is chance. So the correlation of an answer with one retraining is low even if the answer is right on average.
With r(a, b) the mean over users of the rank correlation of two changes of scores,

    corrected = r(answer, retraining) / sqrt(r(retraining, another retraining))

is the correlation of the answer with what retraining changes on average (the correction for attenuation of Spearman,
1904). Only runs of different seeds are compared: an answer and a retraining of one seed have chance in common.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clbr.config import Config
from clbr.errors import InputError
from clbr.rng import generator

DRAWS = 2_000
"""Of the bootstrap."""
Changes = NDArray[np.float64]
"""Changes of scores: (seeds, users, bundles)."""


class Agreement(Config):
    """How well what-if answers agree with retraining. Correlations are of ranks, means over users."""

    plain: float = Field(description="correlation of an answer with one retraining")
    between: float = Field(description="correlation of one retraining with another")
    corrected: float | None = Field(
        description="correlation of an answer with what retraining changes on average; None: retrainings do not agree"
    )
    low: float | None = Field(
        description="lower end of the 95 % interval of `corrected`: bootstrap over users and seeds"
    )
    high: float | None = Field(description="upper end")
    users: int = Field(description="edited users, or bundles")
    seeds: int = Field(description="retrainings")

    def __str__(self) -> str:
        if self.corrected is None:
            return "not known, because retrainings do not agree with each other"
        interval = "" if self.low is None else f" (95 % interval {self.low:.2f} to {self.high:.2f})"
        return f"{self.corrected:.2f}{interval}"


def measure_agreement(
    answers: Changes, answer_seeds: Sequence[int], retrained: Changes, seeds: Sequence[int]
) -> Agreement:
    """Compare the changes of scores that what-if predicts with those of retraining.

    Both are (seeds, users, bundles), with the seeds of the models that gave them, each at most once. An answer and a
    retraining of the same seed are not compared.
    """
    seeds_of_answers, seeds_of_retrained = np.asarray(answer_seeds), np.asarray(seeds)
    if len(retrained) < 2:
        raise InputError("the agreement needs retrainings with two seeds or more")
    apart = seeds_of_answers[:, None] != seeds_of_retrained  # (answers, retrainings)
    ours, theirs = _standardised(answers), _standardised(retrained)
    crossed = np.einsum("sub,tub->stu", ours, theirs)  # (answers, retrainings, users)
    between = np.einsum("sub,tub->stu", theirs, theirs)
    rng, users = generator(0, "bootstrap of the agreement"), np.arange(crossed.shape[2])
    everything = np.arange(len(retrained))
    drawn = []
    for _ in range(DRAWS):
        some = rng.choice(everything, len(everything))
        if len(np.unique(some)) > 1:
            drawn.append(_correct(crossed, between, apart, some, rng.choice(users, len(users)))[2])
    plain, agreement, corrected = _correct(crossed, between, apart, everything, users)
    known = [one for one in drawn if one is not None]
    low, high = np.quantile(known, [0.025, 0.975]).tolist() if known else (None, None)
    return Agreement(
        plain=plain, between=agreement, corrected=corrected, low=low, high=high, users=len(users), seeds=len(seeds)
    )


def _standardised(changes: Changes) -> Changes:
    """Ranks within each row, with mean 0 and length 1, so that inner products are rank correlations; 0 if all equal."""
    from scipy.stats import rankdata  # here: its import takes a quarter of a second

    ranks = rankdata(changes, axis=-1)
    ranks -= ranks.mean(-1, keepdims=True)
    lengths = np.linalg.norm(ranks, axis=-1, keepdims=True)
    found: Changes = ranks / np.where(lengths > 0, lengths, 1)
    return found


def _correct(
    crossed: Changes,
    between: Changes,
    apart: NDArray[np.bool_],
    retrained: NDArray[np.int64],
    users: NDArray[np.int64],
) -> tuple[float, float, float | None]:
    """The plain correlation, that between retrainings, and the corrected one, over some retrainings and users.

    An answer counts as often as the retraining of its seed was drawn, or once if there is no such retraining. No
    corrected one if thereby no answer counts.
    """
    one, other = (grid.ravel() for grid in np.meshgrid(retrained, retrained))
    different = one != other
    agreement = float(between[one[different], other[different]][:, users].mean())
    alone = np.flatnonzero(apart.all(1))
    of_seed = [np.flatnonzero(~apart[:, one]) for one in retrained]
    answer, retraining = (grid.ravel() for grid in np.meshgrid(np.concatenate([alone, *of_seed]), retrained))
    compared = apart[answer, retraining]
    if not compared.any():
        return float("nan"), agreement, None
    plain = float(crossed[answer[compared], retraining[compared]][:, users].mean())
    return plain, agreement, plain / agreement**0.5 if agreement > 0 else None
