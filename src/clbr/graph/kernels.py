"""Kernels compiled by numba: sparse times dense product, inner products of pairs, row-wise passes.

Each row is computed by one thread in a fixed order, so results do not depend on the number of threads. Every kernel
has a torch implementation next to its caller, used where numba is not installed and on a GPU.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import numba
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba.core import cgutils, types
    from numba.extending import intrinsic
except ImportError:  # callers then use their torch implementation
    available = False
else:
    available = True

    def _prefetch(_: Any, array: Any, row: Any, column: Any) -> Any:
        """Request the line of the cache with array[row, column], without waiting for it (LLVM's prefetch)."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            shape, strides = (helper.unpack_tuple(builder, part, 2) for part in (array.shape, array.strides))
            at = [context.cast(builder, arguments[i], signature.args[i], types.int64) for i in (1, 2)]
            place = helper.get_item_pointer2(context, builder, array.data, shape, strides, "C", at)
            pointer, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
            function = helper.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(function, [builder.bitcast(place, pointer), flag(0), flag(3), flag(1)])  # read, keep, data
            return context.get_dummy_value()

        return types.void(array, row, column), generate

    helper: Any = cgutils
    prefetch: Any = intrinsic(_prefetch)


AHEAD = 16
"""Entries of a sparse matrix between the request for a row of the dense one and its use."""
LINE = 16
"""Numbers in a line of the cache."""
GOLDEN, MIX = 0x9E3779B97F4A7C15, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Constants of splitmix64 (Steele et al., OOPSLA 2014)."""


def _multiply(
    pointers: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[Any],
    dense: NDArray[Any],
    chunks: NDArray[np.int64],
    out: NDArray[Any],
) -> None:
    """Compute out = sparse @ dense, four entries of a row at a time.

    That reads and writes each sum a quarter as often. The remainder of a row (its length modulo 4) is added first.
    Rows of `dense` are requested from memory AHEAD entries before they are needed: a large graph reads them at random.
    """
    width, last = dense.shape[1], len(columns) - 1
    for chunk in numba.prange(len(chunks) - 1):
        for row in range(chunks[chunk], chunks[chunk + 1]):
            at, end = pointers[row], pointers[row + 1]
            for k in range(width):
                out[row, k] = 0
            for edge in range(at, at + (end - at) % 4):
                for k in range(0, width, LINE):
                    prefetch(dense, columns[min(edge + AHEAD, last)], k)
                column, value = columns[edge], values[edge]
                for k in range(width):
                    out[row, k] += value * dense[column, k]
            for edge in range(at + (end - at) % 4, end, 4):
                for ahead in range(AHEAD, AHEAD + 4):
                    for k in range(0, width, LINE):
                        prefetch(dense, columns[min(edge + ahead, last)], k)
                a, b, c, d = columns[edge], columns[edge + 1], columns[edge + 2], columns[edge + 3]
                p, q, r, s = values[edge], values[edge + 1], values[edge + 2], values[edge + 3]
                for k in range(width):
                    out[row, k] += (p * dense[a, k] + q * dense[b, k]) + (r * dense[c, k] + s * dense[d, k])


def _pair_products(
    left: NDArray[Any], right: NDArray[Any], lefts: NDArray[np.int64], rights: NDArray[np.int64], out: NDArray[Any]
) -> None:
    """Compute out += inner product of each pair of rows, without copying the rows."""
    width = left.shape[1]
    for pair in numba.prange(len(lefts)):
        one, other, total = lefts[pair], rights[pair], left.dtype.type(0)
        for k in range(width):
            total += left[one, k] * right[other, k]
        out[pair] += total


def _unit_rows(x: NDArray[Any], unit: NDArray[Any], scale: NDArray[Any]) -> None:
    """Compute unit = each row of x divided by its length, and scale = 1 / length."""
    rows, width = x.shape
    for row in numba.prange(rows):
        total = x.dtype.type(0)
        for k in range(width):
            total += x[row, k] * x[row, k]
        scale[row] = 1 / max(np.sqrt(total), x.dtype.type(1e-12))
        for k in range(width):
            unit[row, k] = x[row, k] * scale[row]


def _unit_rows_back(gradient: NDArray[Any], unit: NDArray[Any], scale: NDArray[Any], out: NDArray[Any]) -> None:
    """Compute the gradient of the rows from the gradient of the unit rows."""
    rows, width = unit.shape
    for row in numba.prange(rows):
        along = unit.dtype.type(0)
        for k in range(width):
            along += gradient[row, k] * unit[row, k]
        for k in range(width):
            out[row, k] = (gradient[row, k] - along * unit[row, k]) * scale[row]


def _dice(key: int, first: int, words: NDArray[np.uint64]) -> None:
    """Fill `words` with the random words number first, first + 1, ... of the key's sequence (splitmix64)."""
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
    """Compute grown = dropout([LeakyReLU(message + bias), hidden]) and unit = its unit rows, in one pass.

    An entry is dropped if its random byte is below `struck`, so the dropout rate is struck / 256.
    """
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
    """Compute the gradients of message and hidden. `grown_gradient` is empty if grown has no gradient."""
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
    """Return the compiled kernel, or None without numba."""
    return numba.njit(parallel=True, fastmath=True, cache=True, nogil=True)(kernel) if available else None


roll: Any = numba.njit(cache=True)(_dice) if available else None
multiply, pair_products = _compile(_multiply), _compile(_pair_products)
unit_rows, unit_rows_back = _compile(_unit_rows), _compile(_unit_rows_back)
grow, grow_back = _compile(_grow), _compile(_grow_back)


def balanced_chunks(pointers: NDArray[np.int64], chunks: int = 64) -> NDArray[np.int64]:
    """Return row boundaries that divide the matrix into chunks of about equally many entries."""
    work = pointers + np.arange(len(pointers))  # an empty row has a cost, too
    bounds = np.searchsorted(work, np.linspace(0, work[-1], chunks + 1))
    bounds[0], bounds[-1] = 0, len(pointers) - 1
    return np.maximum.accumulate(bounds)
