"""EdgeEdits: pairs to add and pairs to drop, per relation. An edit means this one thing everywhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from clbr.data.pairs import Pairs, Relation, as_pairs, contains, decode, encode, is_increasing, sorted_codes
from clbr.errors import InputError

RELATIONS: tuple[Relation, ...] = ("ub", "ui", "bi")


@dataclass(frozen=True, eq=False)
class EdgeEdits:
    """For each relation ("ub", "ui", "bi") the pairs to add and the pairs to drop; relations left out stay."""

    add: Mapping[Relation, Pairs] = field(default_factory=dict)
    drop: Mapping[Relation, Pairs] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for side in ("add", "drop"):
            given = getattr(self, side)
            if strange := set(given) - set(RELATIONS):
                raise InputError(f"unknown relation '{min(strange)}': one of {', '.join(RELATIONS)}")
            object.__setattr__(self, side, MappingProxyType({r: _locked(p) for r, p in given.items()}))

    def touches(self, relation: Relation) -> bool:
        """Whether anything changes in this relation."""
        return any(len(side.get(relation, ())) for side in (self.add, self.drop))

    def apply(self, relation: Relation, pairs: Pairs, width: int) -> Pairs:
        """The relation's sorted pairs after the edits; `width` is the number of right-hand nodes.

        Refused: adding a pair that is there, dropping one that is not, the same pair twice.
        """
        if not self.touches(relation):
            return pairs
        codes = encode(pairs, width)
        added = _codes(self.add.get(relation), width, f"added to {relation}")
        dropped = _codes(self.drop.get(relation), width, f"dropped from {relation}")
        _refuse(added[contains(codes, added)], width, relation, "is there already and cannot be added")
        _refuse(dropped[~contains(codes, dropped)], width, relation, "is not there and cannot be dropped")
        kept = codes[~contains(dropped, codes)]
        return decode(np.insert(kept, np.searchsorted(kept, added), added), width)


def _locked(pairs: Pairs) -> Pairs:
    pairs = as_pairs(pairs).copy()
    pairs.flags.writeable = False
    return pairs


def _codes(pairs: Pairs | None, width: int, what: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if pairs is None:
        return np.empty(0, np.int64)
    codes = sorted_codes(encode(pairs, width))
    if not is_increasing(codes):
        raise InputError(f"a pair is {what} twice")
    return codes


def _refuse(codes: np.ndarray[tuple[int], np.dtype[np.int64]], width: int, relation: Relation, why: str) -> None:
    if len(codes):
        left, right = decode(codes[:1], width)[0]
        raise InputError(f"{relation}: the pair ({left}, {right}) {why}")
