"""Edits on their way to a given number: what passed is taken batch by batch, nothing twice."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from clbr.data.pairs import Codes


@dataclass(frozen=True)
class Choice:
    """Codes that a sampler adds to a relation and drops from it, and how it came to them."""

    add: Codes
    drop: Codes
    record: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Passed:
    """The pairs that passed, with the number of the batch that each was in, and how many might have."""

    codes: Codes
    batch: NDArray[np.int64]
    judged: int

    @classmethod
    def of(cls, codes: Codes, passed: NDArray[np.bool_], judged: int) -> "Passed":
        """From batches, one a row."""
        row, column = passed.nonzero()
        return cls(codes[row, column], row, judged)

    @classmethod
    def none(cls) -> "Passed":
        """Where nothing is judged."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), 0)


class Filling:
    """A set of edits on its way to a given size."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.codes, self.is_drop = np.empty(0, np.int64), np.empty(0, np.bool_)
        self.passed, self.judged = np.zeros(2, np.int64), np.zeros(2, np.int64)

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.codes)

    @property
    def full(self) -> bool:
        """Whether these are enough."""
        return self.size >= self.count

    def take(self, added: Passed, dropped: Passed, rng: np.random.Generator) -> None:
        """Take what is new, batch by batch, additions first; of the batch that is too many a random part."""
        self.passed += (len(added.codes), len(dropped.codes))
        self.judged += (added.judged, dropped.judged)
        codes = np.concatenate([added.codes, dropped.codes])
        batch = np.concatenate([2 * added.batch, 2 * dropped.batch + 1])
        order = np.lexsort((rng.random(len(codes)), batch))  # within a batch by chance: cutting it is then fair
        codes, batch = codes[order], batch[order]
        _, first = np.unique(codes, return_index=True)
        first = np.sort(first)
        fresh = first[~np.isin(codes[first], self.codes)][: self.count - self.size]
        self.codes = np.concatenate([self.codes, codes[fresh]])
        self.is_drop = np.concatenate([self.is_drop, batch[fresh] % 2 == 1])

    def choice(self, batch: int) -> Choice:
        """The edits, and what share of the pairs that were judged had passed."""
        added, dropped = self.codes[~self.is_drop], self.codes[self.is_drop]
        record: dict[str, float] = {"batch": batch}
        for kind, passed, judged in zip(("additions", "drops"), self.passed, self.judged, strict=True):
            if judged:
                record[f"pass rate of {kind}"] = float(passed / judged)
        return Choice(added, dropped, record)
