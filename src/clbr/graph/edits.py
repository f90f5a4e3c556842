"""EdgeEdits: pairs to add and pairs to drop, per relation. An edit means this one thing everywhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from clbr.data.pairs import MAX_NODES, Codes, Pairs, Relation, contains, decode, encode, is_increasing, sorted_codes
from clbr.errors import InputError

if TYPE_CHECKING:
    from clbr.graph.graph import BundleGraph

RELATION_NAMES: dict[Relation, str] = {"ub": "user-bundle", "ui": "user-item", "bi": "bundle-item"}
RELATIONS: tuple[Relation, ...] = tuple(RELATION_NAMES)


def without_effect(model: str, relation: Relation) -> str:
    """What to tell someone who edits a relation that a model does not look at."""
    return f"{model} does not look at {RELATION_NAMES[relation]} pairs: editing them is without effect"


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

    def apply(self, graph: "BundleGraph") -> "BundleGraph":
        """The graph after the edits."""
        return graph.edit(self)

    def apply_to(self, relation: Relation, pairs: Pairs, shape: tuple[int, int]) -> Pairs:
        """The relation's sorted pairs after the edits; `shape` is the number of left and of right nodes.

        Refused: adding a pair that is there, dropping one that is not, the same pair twice, an id beyond the nodes.
        """
        if not self.touches(relation):
            return pairs
        width = shape[1]
        codes = encode(pairs, width)
        added = _codes(self.add.get(relation), shape, f"added to {relation}")
        dropped = _codes(self.drop.get(relation), shape, f"dropped from {relation}")
        _refuse(added[contains(codes, added)], width, relation, "is there already and cannot be added")
        _refuse(dropped[~contains(codes, dropped)], width, relation, "is not there and cannot be dropped")
        kept = codes[~contains(dropped, codes)]
        return decode(np.insert(kept, np.searchsorted(kept, added), added), width)


def _locked(given: ArrayLike) -> Pairs:
    pairs = np.asarray(given)
    if not pairs.size:
        pairs = np.empty((0, 2), np.int32)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InputError(f"edits: expected an (n, 2) array of whole numbers, got {pairs.dtype} {pairs.shape}")
    if pairs.min(initial=0) < 0 or pairs.max(initial=0) >= MAX_NODES:
        raise InputError(f"edits: ids from {pairs.min()} to {pairs.max()}, expected 0 to {MAX_NODES - 1}")
    locked = pairs.astype(np.int32)
    locked.flags.writeable = False
    return locked


def _codes(pairs: Pairs | None, shape: tuple[int, int], what: str) -> Codes:
    if pairs is None or not len(pairs):
        return np.empty(0, np.int64)
    if (pairs.max(axis=0) >= shape).any():
        left, right = pairs[(pairs >= shape).any(axis=1)][0]
        raise InputError(f"the pair ({left}, {right}) is {what}, but ids end at ({shape[0] - 1}, {shape[1] - 1})")
    codes = sorted_codes(encode(pairs, shape[1]))
    if not is_increasing(codes):
        raise InputError(f"a pair is {what} twice")
    return codes


def _refuse(codes: Codes, width: int, relation: Relation, why: str) -> None:
    if len(codes):
        left, right = decode(codes[:1], width)[0]
        raise InputError(f"{relation}: the pair ({left}, {right}) {why}")
