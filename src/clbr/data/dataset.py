"""BundleDataset: three relations and a split, validated when built."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from clbr.data.pairs import MAX_NODES, Kind, Pairs, contains, decode, encode, in_order, is_increasing, sorted_codes
from clbr.errors import InputError, UnknownIdError

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from clbr.data.frames import Names
    from clbr.data.split import Method, SplitConfig

Split = Literal["train", "validation", "test"]
PARTS = ("train", "validation", "test", "ui", "bi")
Backend = Literal["polars", "pandas"]
COMPARED_NAMES = 2_000
"""Names that are compared with an unknown one; of more names those that begin alike."""


@dataclass(frozen=True, eq=False, repr=False)
class Nodes:
    """The users, bundles or items: their number, ids and names. Internally a node is its index, 0 to count - 1."""

    kind: Kind
    count: int
    ids: tuple[str, ...] | None = None
    """The id of each node as text; None if the ids are the indices."""
    names: tuple[str | None, ...] | None = None
    integer_ids: bool = False
    """Whether the ids were whole numbers in the user's own tables."""

    def __post_init__(self) -> None:
        if not 0 < self.count <= MAX_NODES:
            raise InputError(f"{self.count} {self.kind}s: expected between 1 and {MAX_NODES:,}")
        for what, values in (("ids", self.ids), ("names", self.names)):
            if values is not None and len(values) != self.count:
                raise InputError(f"{len(values)} {self.kind} {what} for {self.count} {self.kind}s")
        if self.ids is not None and len(self._index) != self.count:
            raise InputError(f"two {self.kind}s have the same id")
        if self.integer_ids and not all(id.isascii() and id.isdigit() for id in self.ids or ()):
            raise InputError(f"{self.kind}s: integer_ids is set, but some ids are not whole numbers")

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"{self.count:,} {self.kind}s"

    @cached_property
    def _index(self) -> dict[str, int]:
        return {id: index for index, id in enumerate(self.ids or ())}

    def id(self, index: int) -> str:
        """The id of a node as text."""
        return self.ids[index] if self.ids is not None else str(int(index))

    def values(self, indices: Iterable[int]) -> list[str] | list[int]:
        """The ids of these nodes in the user's own type."""
        return self.id_series.gather(list(indices)).to_list()

    @cached_property
    def id_series(self) -> pl.Series:
        """All ids in the user's own type: whole numbers if the ids were such, else text."""
        if self.ids is None:
            return pl.int_range(self.count, eager=True).alias("id")
        texts = pl.Series("id", self.ids, dtype=pl.String)
        numbers = [texts.cast(kind, strict=False) for kind in (pl.Int64, pl.UInt64)] if self.integer_ids else []
        return next((ids for ids in numbers if not ids.null_count()), texts)

    def label(self, index: int) -> str:
        """The text to show for a node: its name, or its id if it has no name."""
        return (self.names[index] if self.names is not None else None) or self.id(index)

    @cached_property
    def _named(self) -> dict[str, list[int]]:
        """The nodes of each name."""
        named: dict[str, list[int]] = {}
        for index, name in enumerate(self.names or ()):
            if name is not None:
                named.setdefault(name.strip(), []).append(index)
        return named

    def find(self, id: str | int) -> int | None:
        """The index of the node with this id, else of the one node with this name; None if there is none.

        A whole number is looked up as its text. A name that several nodes have raises an `InputError` with their ids.
        """
        text = str(id)
        if self.ids is not None:
            index = self._index.get(text)
        else:
            short = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_NODES))
            index = int(text) if short and int(text) < self.count else None
        if index is not None:
            return index
        named = self._named.get(text.strip(), []) if self.names is not None else []
        if len(named) > 1:
            some = ", ".join(map(self.id, named[:5])) + (f" and {len(named) - 5:,} more" if len(named) > 5 else "")
            raise InputError(f"{len(named):,} {self.kind}s have the name '{text.strip()}': give the id of one ({some})")
        return named[0] if named else None

    def index(self, id: str | int) -> int:
        """As `find`; an id that no node has as its id or name raises an `UnknownIdError` with a hint."""
        index = self.find(id)
        if index is None:
            raise UnknownIdError(f"unknown {self.kind} '{id}'{self._hint(str(id))}", self.kind, str(id))
        return index

    def _hint(self, text: str) -> str:
        """For an unknown id: the most similar ids and names, or what ids look like."""
        names = list(self._named)
        if len(names) > COMPARED_NAMES:
            names = [name for name in names if name[:3].casefold() == text[:3].casefold()][:COMPARED_NAMES]
        near = dict.fromkeys([*get_close_matches(text, self.ids or (), 3), *get_close_matches(text, names, 3)])
        meant = f"did you mean {' or '.join(map(repr, [*near][:3]))}?"
        if self.ids is None:
            return f": expected a number from 0 to {self.count - 1}" + (f", or a name; {meant}" if near else "")
        return f", {meant}" if near else f", for instance {self.ids[0]!r} is one"


@dataclass(frozen=True, eq=False, repr=False)
class BundleDataset:
    """User-bundle pairs (split into train, validation and test), user-item pairs and bundle-item pairs.

    Pairs are (n, 2) arrays of indices. They are copied, sorted and made read-only; a sorted array of int32 that is
    read-only and owns its memory is taken as it is. An index out of range, a pair
    twice in one relation, a pair in two splits and an empty training set raise an `InputError`.
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
    hidden: int = 0
    """How many user-item pairs were removed because they came with held-out bundles."""
    backend: Backend = "polars"
    """The kind of frame that results are returned in."""

    def __post_init__(self) -> None:
        sides = {"ui": (self.users, self.items), "bi": (self.bundles, self.items)}
        for part in PARTS:
            left, right = sides.get(part, (self.users, self.bundles))
            object.__setattr__(self, part, _validated(part, getattr(self, part), left, right))
        object.__setattr__(self, "merged", MappingProxyType(dict(self.merged)))
        if not isinstance(self.name, str) or not re.fullmatch(r"[^\W_][\w .,+()-]{0,99}", self.name):
            raise InputError(
                f"name {self.name!r}: expected a letter or digit, then letters, digits, spaces or any of _ . , + ( ) -",
                "name",
            )
        if not len(self.train):
            raise InputError(f"{self.name}: no user-bundle pair to train on")
        self._check_disjoint("train", "validation")
        self._check_disjoint("train", "test")
        self._check_disjoint("validation", "test")

    @classmethod
    def from_frames(
        cls,
        user_bundle: "IntoDataFrame",
        user_item: "IntoDataFrame",
        bundle_item: "IntoDataFrame",
        *,
        user_names: "Names | None" = None,
        bundle_names: "Names | None" = None,
        item_names: "Names | None" = None,
        columns: Mapping[str, str] | None = None,
        split: "Method | SplitConfig" = "random",
        validation: "float | IntoDataFrame" = 0.1,
        test: "float | IntoDataFrame" = 0.2,
        seed: int = 0,
        hide_held_out_items: bool = False,
        name: str = "data",
    ) -> "BundleDataset":
        """Build a data set from pandas or polars frames.

        The frames need the columns user and bundle, user and item, bundle and item (or user_id, ...). `columns` names
        other columns, for all frames or for one: `{"user": "customer", "user_item.item": "sku"}`. Ids are text or whole
        numbers, also categorical, compared as text: 17, 17.0 and "17" are the same id, "017" is another. A repeated
        pair counts once. Names are frames with the columns user (bundle, item) and name, or mappings from id to name.

        The split of the user-bundle pairs is one of:

        - `split="random"`: the shares `validation` and `test` of each user's pairs, drawn with `seed`;
        - `split="leave-one-out"`: one pair of each user for test and one for validation (of two pairs one), by `seed`;
        - `split="last"`: by the column time, each user's last pair for test, the one before it for validation;
        - `split="given"`: by the column split, which holds train, validation or test;
        - frames for both `validation` and `test`: then `user_bundle` holds the training pairs.

        `hide_held_out_items` removes the user-item pairs whose item is in a held-out bundle of the user and in no
        training bundle of the user. Wrong input raises an `InputError`; what is probably wrong gives a `DataWarning`.
        """
        from clbr.data.frames import dataset_from_frames

        return dataset_from_frames(
            user_bundle,
            user_item,
            bundle_item,
            names={"user": user_names, "bundle": bundle_names, "item": item_names},
            columns=columns or {},
            split=split,
            validation=validation,
            test=test,
            seed=seed,
            hide_held_out_items=hide_held_out_items,
            name=name,
        )

    def _check_disjoint(self, one: Split, other: Split) -> None:
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
            raise InputError(f"unknown split '{split}': expected train, validation or test", "split")
        return {"train": self.train, "validation": self.validation, "test": self.test}[split]

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of sizes and pairs. Data sets with the same fingerprint are the same to any model."""
        digest = sha256(repr((len(self.users), len(self.bundles), len(self.items))).encode())
        for pairs in (self.train, self.validation, self.test, self.ui, self.bi):
            digest.update(len(pairs).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(pairs, "<i4").data)
        return digest.hexdigest()

    @cached_property
    def popularity(self) -> NDArray[np.int64]:
        """The number of training users of each bundle."""
        counts = np.bincount(self.train[:, 1], minlength=len(self.bundles))
        counts.flags.writeable = False
        return counts

    def __repr__(self) -> str:
        counts = {part: len(getattr(self, part)) for part in PARTS}
        return summarize(self.name, self.users, self.bundles, self.items, counts)


def summarize(name: str, users: Nodes, bundles: Nodes, items: Nodes, counts: Mapping[str, int]) -> str:
    """One line on a data set: its nodes and its number of pairs by part."""
    parts = ", ".join(f"{part} {count:,}" for part, count in counts.items())
    return f"BundleDataset({name}: {users!r}, {bundles!r}, {items!r}; {parts})"


def shared_pairs(one: Pairs, other: Pairs, width: int) -> Pairs:
    """The pairs that are in both arrays; `one` must be sorted."""
    codes = encode(other, width)
    return decode(codes[contains(encode(one, width), codes)], width)


def _validated(part: str, given: Pairs, left: Nodes, right: Nodes) -> Pairs:
    """The pairs, sorted and read-only; an index out of range or a repeated pair raises an `InputError`."""
    pairs = np.asarray(given)
    if pairs.size == 0:
        pairs = np.empty((0, 2), np.int32)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InputError(f"{part}: expected an (n, 2) array of whole numbers, got {pairs.dtype} {pairs.shape}")
    for column, nodes in enumerate((left, right)):
        if len(pairs) and not (pairs[:, column].min() >= 0 and pairs[:, column].max() < len(nodes)):
            row = int(np.flatnonzero((pairs[:, column] < 0) | (pairs[:, column] >= len(nodes)))[0])
            raise InputError(f"{part}: row {row} has {nodes.kind} {pairs[row, column]}, expected 0 to {len(nodes) - 1}")
    if not in_order(pairs[:, 0], pairs[:, 1]):
        codes = sorted_codes(encode(pairs, len(right)))
        if not is_increasing(codes):
            repeated = decode(codes[1:][codes[1:] == codes[:-1]][:1], len(right))[0]
            raise InputError(
                f"{part}: {left.kind} {left.id(repeated[0])} and {right.kind} {right.id(repeated[1])} are a pair twice"
            )
        pairs = decode(codes, len(right))
    elif pairs.dtype != np.int32 or pairs.base is not None or pairs.flags.writeable or not pairs.flags.c_contiguous:
        pairs = pairs.astype(np.int32)
    pairs.flags.writeable = False
    return pairs
