"""The only compiled code: a sparse matrix times a dense one, inner products of pairs, and passes over rows.

A row is worked out by one thread and in a fixed order, so a result does not depend on the number of threads. Each
kernel has a twin in torch beside the place where it is called, which serves where there is no numba or on a GPU.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import numba
except ImportError:  # the torch twin in operators.py serves
    available = False
else:
    available = True

GOLDEN, MIX = 0x9E3779B97F4A7C15, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""The constants of splitmix64 (Steele et al., OOPSLA 2014)."""


def _multiply(
    pointers: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[Any],
    dense: NDArray[Any],
    chunks: NDArray[np.int64],
    out: NDArray[Any],
) -> None:
    """Four entries of a row at a time, so that a sum is read and written a quarter as often; the odd ones first."""
    width = dense.shape[1]
    for chunk in numba.prange(len(chunks) - 1):
        for row in range(chunks[chunk], chunks[chunk + 1]):
            at, end = pointers[row], pointers[row + 1]
            for k in range(width):
                out[row, k] = 0
            for edge in range(at, at + (end - at) % 4):
                column, value = columns[edge], values[edge]
                for k in range(width):
                    out[row, k] += value * dense[column, k]
            for edge in range(at + (end - at) % 4, end, 4):
                a, b, c, d = columns[edge], columns[edge + 1], columns[edge + 2], columns[edge + 3]
                p, q, r, s = values[edge], values[edge + 1], values[edge + 2], values[edge + 3]
                for k in range(width):
                    out[row, k] += (p * dense[a, k] + q * dense[b, k]) + (r * dense[c, k] + s * dense[d, k])


def _pair_products(
    left: NDArray[Any], right: NDArray[Any], lefts: NDArray[np.int64], rights: NDArray[np.int64], out: NDArray[Any]
) -> None:
    """out += the inner product of each pair of rows; nothing is copied together first."""
    width = left.shape[1]
    for pair in numba.prange(len(lefts)):
        one, other, total = lefts[pair], rights[pair], left.dtype.type(0)
        for k in range(width):
            total += left[one, k] * right[other, k]
        out[pair] += total


def _unit_rows(x: NDArray[Any], unit: NDArray[Any], scale: NDArray[Any]) -> None:
    """unit = x / its row's length."""
    rows, width = x.shape
    for row in numba.prange(rows):
        total = x.dtype.type(0)
        for k in range(width):
            total += x[row, k] * x[row, k]
        scale[row] = 1 / max(np.sqrt(total), x.dtype.type(1e-12))
        for k in range(width):
            unit[row, k] = x[row, k] * scale[row]


def _unit_rows_back(gradient: NDArray[Any], unit: NDArray[Any], scale: NDArray[Any], out: NDArray[Any]) -> None:
    """From the gradient of the unit rows to that of the rows."""
    rows, width = unit.shape
    for row in numba.prange(rows):
        along = unit.dtype.type(0)
        for k in range(width):
            along += gradient[row, k] * unit[row, k]
        for k in range(width):
            out[row, k] = (gradient[row, k] - along * unit[row, k]) * scale[row]


def _dice(key: int, first: int, words: NDArray[np.uint64]) -> None:
    """Random words number first, first + 1, ... of the sequence that belongs to a key (splitmix64)."""
    for word in range(len(words)):
        z = np.uint64(key) + np.uint64(first + word) * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX[0])
        z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX[1])
        words[word] = z ^ (z >> np.uint64(31))


def _grow(
    message: NDArray[Any],
    bias: NDArray[Any],
    hidden: NDArray[Any],
    key: int,
    struck: int,
    slope: float,
    grown: NDArray[Any],
    unit: NDArray[Any],
    scale: NDArray[Any],
) -> None:
    """grown = dropout([LeakyReLU(message + bias), hidden]), unit = grown / its row's length; in one pass."""
    rows, d = message.shape
    width = grown.shape[1]
    number = message.dtype.type
    factor = number(256 / (256 - struck))
    for chunk in numba.prange(64):
        words = np.empty((width + 7) // 8, np.uint64)
        dice = words.view(np.uint8)
        for row in range(rows * chunk // 64, rows * (chunk + 1) // 64):
            roll(key, row * len(words), words)
            total = number(0)
            for k in range(d):
                x = message[row, k] + bias[k]
                x *= factor if x > 0 else factor * number(slope)
                x = x if dice[k] >= struck else number(0)
                grown[row, k] = x
                total += x * x
            for k in range(d, width):
                x = hidden[row, k - d] * factor if dice[k] >= struck else number(0)
                grown[row, k] = x
                total += x * x
            scale[row] = 1 / max(np.sqrt(total), number(1e-12))
            for k in range(width):
                unit[row, k] = grown[row, k] * scale[row]


def _grow_back(
    grown_gradient: NDArray[Any],
    unit_gradient: NDArray[Any],
    key: int,
    struck: int,
    slope: float,
    unit: NDArray[Any],
    scale: NDArray[Any],
    message: NDArray[Any],
    hidden: NDArray[Any],
) -> None:
    """The gradients of message and hidden. That of grown may be empty, where nothing came of it."""
    rows, d = message.shape
    width = unit.shape[1]
    number = message.dtype.type
    factor = number(256 / (256 - struck))
    for chunk in numba.prange(64):
        words = np.empty((width + 7) // 8, np.uint64)
        dice = words.view(np.uint8)
        gradient = np.empty(width, message.dtype)
        for row in range(rows * chunk // 64, rows * (chunk + 1) // 64):
            roll(key, row * len(words), words)
            along = number(0)
            for k in range(width):
                along += unit_gradient[row, k] * unit[row, k]
            for k in range(width):
                gradient[k] = (unit_gradient[row, k] - along * unit[row, k]) * scale[row]
            if len(grown_gradient):
                for k in range(width):
                    gradient[k] += grown_gradient[row, k]
            for k in range(width):
                gradient[k] = gradient[k] * factor if dice[k] >= struck else number(0)
            for k in range(d):
                message[row, k] = gradient[k] if unit[row, k] > 0 else gradient[k] * number(slope)
            for k in range(d, width):
                hidden[row, k - d] = gradient[k]


def _compile(kernel: Callable[..., None]) -> Any:
    return numba.njit(parallel=True, fastmath=True, cache=True, nogil=True)(kernel) if available else None


roll: Any = numba.njit(cache=True)(_dice) if available else None
multiply, pair_products = _compile(_multiply), _compile(_pair_products)
unit_rows, unit_rows_back = _compile(_unit_rows), _compile(_unit_rows_back)
grow, grow_back = _compile(_grow), _compile(_grow_back)


def balanced_chunks(pointers: NDArray[np.int64], chunks: int = 64) -> NDArray[np.int64]:
    """Row boundaries that cut the matrix into pieces of about equally many entries."""
    work = pointers + np.arange(len(pointers))  # a row costs something even if it is empty
    bounds = np.searchsorted(work, np.linspace(0, work[-1], chunks + 1))
    bounds[0], bounds[-1] = 0, len(pointers) - 1
    return np.maximum.accumulate(bounds)
