"""BundleDataset: three relations and a split. One that exists is sound."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clbr.data.pairs import MAX_NODES, Pairs, contains, decode, encode, in_order, is_increasing, sorted_codes
from clbr.errors import InputError

Split = Literal["train", "validation", "test"]


@dataclass(frozen=True, eq=False, repr=False)
class Nodes:
    """The users, bundles or items: how many, and what the outside world calls them."""

    kind: Literal["user", "bundle", "item"]
    count: int
    ids: tuple[str, ...] | None = None
    names: tuple[str | None, ...] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.count <= MAX_NODES:
            raise InputError(f"{self.count} {self.kind}s: expected between 1 and {MAX_NODES:,}")
        for what, values in (("ids", self.ids), ("names", self.names)):
            if values is not None and len(values) != self.count:
                raise InputError(f"{len(values)} {self.kind} {what} for {self.count} {self.kind}s")
        if self.ids is not None and len(self._index) != self.count:
            raise InputError(f"two {self.kind}s have the same id")

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"{self.count:,} {self.kind}s"

    @cached_property
    def _index(self) -> dict[str, int]:
        return {label: index for index, label in enumerate(self.ids or ())}

    def id(self, index: int) -> str:
        """The outside id of a node: its number where it has no other."""
        return self.ids[index] if self.ids is not None else str(int(index))

    def label(self, index: int) -> str:
        """What to show people: the name, or the id of a node without one."""
        return (self.names[index] if self.names is not None else None) or self.id(index)

    def find(self, id: str) -> int | None:
        """The number of the node with this outside id, if there is one."""
        if self.ids is not None:
            return self._index.get(id)
        known = id.isascii() and id.isdigit() and len(id) <= len(str(MAX_NODES)) and int(id) < self.count
        return int(id) if known else None

    def index(self, id: str) -> int:
        """The number of the node with this outside id; an unknown one is refused with a hint."""
        number = self.find(id)
        if number is None and self.ids is not None:
            raise InputError(f"unknown {self.kind} '{id}', {_nearest_ids(id, self.ids)}")
        if number is None:
            raise InputError(f"unknown {self.kind} '{id}': expected a number from 0 to {self.count - 1}")
        return number


def _nearest_ids(id: str, ids: tuple[str, ...]) -> str:
    """A hint for an unknown id: the nearest known ones, or one to see what they look like."""
    close = get_close_matches(id, ids, n=3)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else f"for instance {ids[0]!r} is one"


@dataclass(frozen=True, eq=False, repr=False)
class BundleDataset:
    """Who chose which bundles (split into train, validation and test), who chose which items, what is in a bundle.

    Pairs are (n, 2) arrays of ids counted from 0. They are copied, sorted and locked; ids out of range,
    a pair twice in a relation or in two splits, and an empty training set are refused.
    """

    name: str
    users: Nodes
    bundles: Nodes
    items: Nodes
    train: Pairs
    validation: Pairs
    test: Pairs
    ui: Pairs
    bi: Pairs
    merged: Mapping[str, int] = field(default_factory=dict)
    """How many repeated rows the reader merged, by table."""

    def __post_init__(self) -> None:
        sides = {
            "ub": (self.users, self.bundles),
            "ui": (self.users, self.items),
            "bi": (self.bundles, self.items),
        }
        for part in ("train", "validation", "test", "ui", "bi"):
            left, right = sides.get(part, sides["ub"])
            object.__setattr__(self, part, _sound(part, getattr(self, part), left, right))
        object.__setattr__(self, "merged", MappingProxyType(dict(self.merged)))
        if not re.fullmatch(r"[^\W_][\w .,+()-]{0,99}", self.name):
            raise InputError(
                f"name {self.name!r}: expected a letter or digit, then letters, digits, spaces or any of _ . , + ( ) -"
            )
        if not len(self.train):
            raise InputError(f"{self.name}: no user-bundle pair to train on")
        self._refuse_shared("train", "validation")
        self._refuse_shared("train", "test")
        self._refuse_shared("validation", "test")

    def _refuse_shared(self, one: Split, other: Split) -> None:
        shared = shared_pairs(self.pairs(one), self.pairs(other), len(self.bundles))
        if len(shared):
            user, bundle = shared[0]
            raise InputError(
                f"{self.name}: user {self.users.id(user)} and bundle {self.bundles.id(bundle)} are a pair in {one} "
                f"and in {other} ({len(shared):,} such): a pair belongs to one split; delete it from the others"
            )

    def pairs(self, split: Split) -> Pairs:
        """The user-bundle pairs of one split."""
        if split not in ("train", "validation", "test"):
            raise InputError(f"unknown split '{split}': train, validation or test")
        return {"train": self.train, "validation": self.validation, "test": self.test}[split]

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of sizes and pairs: two data sets with the same one are the same to any model."""
        digest = sha256(repr((len(self.users), len(self.bundles), len(self.items))).encode())
        for pairs in (self.train, self.validation, self.test, self.ui, self.bi):
            digest.update(len(pairs).to_bytes(8, "little") + pairs.astype("<i4").tobytes())
        return digest.hexdigest()

    @cached_property
    def popularity(self) -> NDArray[np.int64]:
        """How many training users each bundle has."""
        counts = np.bincount(self.train[:, 1], minlength=len(self.bundles))
        counts.flags.writeable = False
        return counts

    def __repr__(self) -> str:
        parts = [f"{name} {len(getattr(self, name)):,}" for name in ("train", "validation", "test", "ui", "bi")]
        nodes = f"{self.users!r}, {self.bundles!r}, {self.items!r}"
        return f"BundleDataset({self.name}: {nodes}; {', '.join(parts)})"


def shared_pairs(one: Pairs, other: Pairs, width: int) -> Pairs:
    """The pairs that are in both; one must be sorted."""
    codes = encode(other, width)
    return decode(codes[contains(encode(one, width), codes)], width)


def _sound(part: str, given: Pairs, left: Nodes, right: Nodes) -> Pairs:
    """A sorted, read-only copy, once every id is in range and no pair is there twice."""
    pairs = np.asarray(given)
    if pairs.size == 0:
        pairs = np.empty((0, 2), np.int32)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InputError(f"{part}: expected an (n, 2) array of whole numbers, got {pairs.dtype} {pairs.shape}")
    for column, nodes in enumerate((left, right)):
        if len(pairs) and not (pairs[:, column].min() >= 0 and pairs[:, column].max() < len(nodes)):
            row = int(np.flatnonzero((pairs[:, column] < 0) | (pairs[:, column] >= len(nodes)))[0])
            raise InputError(f"{part}: row {row} has {nodes.kind} {pairs[row, column]}, expected 0 to {len(nodes) - 1}")
    if in_order(pairs[:, 0], pairs[:, 1]):
        return _locked(pairs.astype(np.int32))
    codes = sorted_codes(encode(pairs, len(right)))
    if not is_increasing(codes):
        twice = decode(codes[1:][codes[1:] == codes[:-1]][:1], len(right))[0]
        raise InputError(
            f"{part}: {left.kind} {left.id(twice[0])} and {right.kind} {right.id(twice[1])} are a pair twice"
        )
    return _locked(decode(codes, len(right)))


def _locked(pairs: Pairs) -> Pairs:
    pairs.flags.writeable = False
    return pairs
