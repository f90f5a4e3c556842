"""Pairs of node indices as (n, 2) arrays, and their codes: one sortable number per pair."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Ids = NDArray[np.int32]
Pairs = NDArray[np.int32]
Codes = NDArray[np.int64]
Kind = Literal["user", "bundle", "item"]
KINDS: tuple[Kind, ...] = ("user", "bundle", "item")
Relation = Literal["ub", "ui", "bi"]
SIDES: dict[Relation, tuple[Kind, Kind]] = {"ub": ("user", "bundle"), "ui": ("user", "item"), "bi": ("bundle", "item")}
"""The kinds of node that a relation joins."""

MAX_NODES = 100_000_000
"""The largest allowed number of users, bundles or items."""

BLOCK = 1 << 20
"""Pairs that are compared at once."""


def encode(pairs: Pairs, width: int) -> Codes:
    """left * width + right: codes sort like pairs, and equal codes are equal pairs."""
    codes = pairs[:, 0].astype(np.int64)
    codes *= width
    codes += pairs[:, 1]
    return codes


def decode(codes: Codes, width: int, out: Pairs | None = None) -> Pairs:
    """The pairs of these codes, in `out` if it is given."""
    pairs = np.empty((len(codes), 2), np.int32) if out is None else out
    np.floor_divide(codes, width, out=pairs[:, 0], casting="unsafe")
    np.remainder(codes, width, out=pairs[:, 1], casting="unsafe")
    return pairs


def sorted_pairs(pairs: Pairs) -> Pairs:
    """The pairs, sorted by left index, then by right index."""
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def in_order(lefts: Ids, rights: Ids) -> bool:
    """Whether pairs are sorted and distinct. Faster than computing codes, and in blocks: no large temporary array."""
    for start in range(0, len(lefts) - 1, BLOCK):
        left, right = lefts[start : start + BLOCK + 1], rights[start : start + BLOCK + 1]
        further = left[1:] > left[:-1]
        further |= (left[1:] == left[:-1]) & (right[1:] > right[:-1])
        if not further.all():
            return False
    return True


def sorted_codes(codes: Codes) -> Codes:
    """The sorted codes; the same array if it is already sorted."""
    return codes if is_increasing(codes, strictly=False) else np.sort(codes)


def is_increasing(codes: Codes, strictly: bool = True) -> bool:
    """Whether codes are sorted; strictly: sorted and distinct."""
    before, after = codes[:-1], codes[1:]
    return bool((before < after).all() if strictly else (before <= after).all())


def distinct(codes: Codes) -> Codes:
    """The distinct codes, sorted."""
    codes = sorted_codes(codes)
    keep = np.ones(len(codes), bool)
    np.not_equal(codes[1:], codes[:-1], out=keep[1:])
    return codes if keep.all() else codes[keep]


def contains(codes: Codes, wanted: Codes) -> NDArray[np.bool_]:
    """For each wanted code, whether it is in `codes`, which must be sorted."""
    if not len(codes):
        return np.zeros(len(wanted), bool)
    at = np.searchsorted(codes, wanted)
    at[at == len(codes)] = 0
    return np.equal(codes[at], wanted)


def row_pointers(lefts: NDArray[np.int32], rows: int) -> NDArray[np.int64]:
    """For pairs sorted by their left index: the pairs of row r are at [pointers[r], pointers[r + 1])."""
    pointers = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(lefts, minlength=rows), out=pointers[1:])
    return pointers


def positions(pointers: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each pair of some rows: which of these rows it belongs to, and its position among all pairs."""
    lengths = pointers[rows + 1] - pointers[rows]
    row = np.repeat(np.arange(len(rows)), lengths)
    return row, np.arange(len(row)) + np.repeat(pointers[rows] - np.cumsum(lengths) + lengths, lengths)


def neighbours(pairs: Pairs, left: int) -> Ids:
    """The right indices that are paired with a left one, in sorted pairs."""
    start, end = np.searchsorted(pairs[:, 0], [left, left + 1])
    return pairs[start:end, 1]


def incidence(pairs: Pairs, rows: int, columns: int) -> csr_array:
    """The pairs as a sparse matrix of ones."""
    return csr_array((np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])), shape=(rows, columns))


def items_of_bundles(chosen: Pairs, bi: Pairs, bundles: int) -> tuple[Codes, Pairs]:
    """Each user-bundle pair once per item of its bundle: its row in `chosen`, and the user with that item.

    `bi` must be sorted.
    """
    pointers = row_pointers(bi[:, 0], bundles)
    starts, lengths = pointers[chosen[:, 1]], np.diff(pointers)[chosen[:, 1]]
    row = np.repeat(np.arange(len(chosen)), lengths)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return row, np.stack([chosen[row, 0], bi[starts[row] + offset, 1]], axis=1)
