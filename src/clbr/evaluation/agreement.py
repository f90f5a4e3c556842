"""Agreement of what-if answers with retraining: the correlation of the changes of scores, corrected for chance.

Two retrainings on the same edited data, with other seeds, agree little with each other: most of what a retraining
changes is chance. So the correlation of an answer with one retraining is low even if the answer is right on average.
With r(a, b) the mean over users of the rank correlation of two changes of scores,

    corrected = r(answer, retraining) / sqrt(r(retraining, another retraining))

is the correlation of the answer with what retraining changes on average (the correction for attenuation of Spearman,
1904). Only runs of different seeds are compared: an answer and a retraining of one seed have chance in common.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.stats import rankdata

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


def measure_agreement(answers: Changes, retrained: Changes, same_seeds: bool = True) -> Agreement:
    """Compare the changes of scores that what-if predicts with those of retraining.

    Both are (seeds, users, bundles); a row of `answers` is of the model of one seed. With `same_seeds`, answer and
    retraining of the same position are of the same seed and are not compared.
    """
    seeds = len(retrained)
    if seeds < 2 or (same_seeds and len(answers) != seeds):
        raise InputError("the agreement needs retrainings with two seeds or more, and an answer of each")
    ours, theirs = _standardised(answers), _standardised(retrained)
    crossed = np.einsum("sub,tub->stu", ours, theirs)  # (answers, retrainings, users)
    between = np.einsum("sub,tub->stu", theirs, theirs)
    rng, users = generator(0, "bootstrap of the agreement"), np.arange(crossed.shape[2])
    everything = np.arange(seeds)
    drawn = []
    for _ in range(DRAWS):
        some = rng.choice(everything, seeds)
        if len(np.unique(some)) > 1:
            drawn.append(_correct(crossed, between, some, rng.choice(users, len(users)), same_seeds)[2])
    plain, agreement, corrected = _correct(crossed, between, everything, users, same_seeds)
    known = [one for one in drawn if one is not None]
    low, high = np.quantile(known, [0.025, 0.975]).tolist() if known else (None, None)
    return Agreement(
        plain=plain, between=agreement, corrected=corrected, low=low, high=high, users=len(users), seeds=seeds
    )


def _standardised(changes: Changes) -> Changes:
    """Ranks within each row, with mean 0 and length 1, so that inner products are rank correlations; 0 if all equal."""
    ranks = rankdata(changes, axis=-1)
    ranks -= ranks.mean(-1, keepdims=True)
    lengths = np.linalg.norm(ranks, axis=-1, keepdims=True)
    found: Changes = ranks / np.where(lengths > 0, lengths, 1)
    return found


def _correct(
    crossed: Changes, between: Changes, seeds: NDArray[np.int64], users: NDArray[np.int64], same_seeds: bool
) -> tuple[float, float, float | None]:
    """The plain correlation, that between retrainings, and the corrected one, over some seeds and users."""
    one, other = (grid.ravel() for grid in np.meshgrid(seeds, seeds))
    apart = one != other
    agreement = float(between[one[apart], other[apart]][:, users].mean())
    if same_seeds:
        plain = float(crossed[one[apart], other[apart]][:, users].mean())
    else:
        plain = float(crossed[:, seeds][:, :, users].mean())
    return plain, agreement, plain / agreement**0.5 if agreement > 0 else None
