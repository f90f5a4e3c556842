"""EdgeEdits: the pairs to add to each relation and the pairs to drop from it.

Samplers, what-if questions and the service all describe a changed graph by this one type.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clbr.data.pairs import MAX_NODES, Codes, Pairs, Relation, contains, decode, encode, is_increasing, sorted_codes
from clbr.errors import InputError

if TYPE_CHECKING:
    from clbr.graph.graph import BundleGraph

RELATION_NAMES: dict[Relation, str] = {"ub": "user-bundle", "ui": "user-item", "bi": "bundle-item"}
RELATIONS: tuple[Relation, ...] = tuple(RELATION_NAMES)


def without_effect(model: str, relation: Relation) -> str:
    """Return the warning for edits of a relation that a model does not use."""
    return f"{model} does not use {RELATION_NAMES[relation]} pairs: editing them has no effect"


@dataclass(frozen=True, eq=False)
class EdgeEdits:
    """Pairs to add and pairs to drop, per relation ("ub", "ui", "bi"). A relation that is left out is unchanged.

    Pairs are (n, 2) integer arrays: left node, right node. Raises `InputError` for an unknown relation, or for an array
    that does not hold pairs of node ids.
    """

    add: Mapping[Relation, Pairs] = field(default_factory=dict)
    drop: Mapping[Relation, Pairs] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in ("add", "drop"):
            given = getattr(self, kind)
            if unknown := set(given) - set(RELATIONS):
                raise InputError(f"unknown relation '{min(unknown)}': expected one of {', '.join(RELATIONS)}")
            object.__setattr__(self, kind, MappingProxyType({r: _read_only(p) for r, p in given.items()}))

    def touches(self, relation: Relation) -> bool:
        """Return whether any pair of this relation is added or dropped."""
        return any(len(edits.get(relation, ())) for edits in (self.add, self.drop))

    def left_nodes(self, relation: Relation) -> NDArray[np.int32]:
        """Return the left nodes of the relation's edits, sorted, each once."""
        pairs = [edits[relation] for edits in (self.add, self.drop) if relation in edits]
        return np.unique(np.concatenate(pairs)[:, 0]) if pairs else np.empty(0, np.int32)

    def apply(self, graph: "BundleGraph") -> "BundleGraph":
        """Return the graph after the edits. The given graph is unchanged."""
        return graph.edit(self)

    def apply_to(self, relation: Relation, pairs: Pairs, shape: tuple[int, int]) -> Pairs:
        """Return the relation's sorted pairs after the edits.

        `pairs` are the sorted pairs before the edits; `shape` is the number of left nodes and of right nodes. Raises
        `InputError` if a pair to add exists, if a pair to drop does not exist, if a pair is given twice, or if an id is
        too high.
        """
        if not self.touches(relation):
            return pairs
        width = shape[1]
        codes = encode(pairs, width)
        added = _codes(self.add.get(relation), shape, f"added to {relation}")
        dropped = _codes(self.drop.get(relation), shape, f"dropped from {relation}")
        _require_none(added[contains(codes, added)], width, relation, "exists and cannot be added")
        _require_none(dropped[~contains(codes, dropped)], width, relation, "does not exist and cannot be dropped")
        remaining = codes[~contains(dropped, codes)]
        return decode(np.insert(remaining, np.searchsorted(remaining, added), added), width)


def _read_only(given: ArrayLike) -> Pairs:
    """Return the pairs as a read-only int32 copy. Raises `InputError` if they are not (n, 2) node ids."""
    pairs = np.asarray(given)
    if not pairs.size:
        pairs = np.empty((0, 2), np.int32)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InputError(f"edits: expected an (n, 2) array of integers, got {pairs.dtype} {pairs.shape}")
    if pairs.min(initial=0) < 0 or pairs.max(initial=0) >= MAX_NODES:
        raise InputError(f"edits: ids from {pairs.min()} to {pairs.max()}, expected 0 to {MAX_NODES - 1}")
    copy = pairs.astype(np.int32)
    copy.flags.writeable = False
    return copy


def _codes(pairs: Pairs | None, shape: tuple[int, int], action: str) -> Codes:
    """Return the sorted codes of the pairs. Raises `InputError` for an id that is too high and for a repeated pair."""
    if pairs is None or not len(pairs):
        return np.empty(0, np.int64)
    if (pairs.max(axis=0) >= shape).any():
        left, right = pairs[(pairs >= shape).any(axis=1)][0]
        raise InputError(
            f"the pair ({left}, {right}) is {action}, but the highest ids are ({shape[0] - 1}, {shape[1] - 1})"
        )
    codes = sorted_codes(encode(pairs, shape[1]))
    if not is_increasing(codes):
        raise InputError(f"a pair is {action} twice")
    return codes


def _require_none(codes: Codes, width: int, relation: Relation, problem: str) -> None:
    """Raise `InputError` about the first of these codes, if there is one."""
    if len(codes):
        left, right = decode(codes[:1], width)[0]
        raise InputError(f"{relation}: the pair ({left}, {right}) {problem}")
