"""The only compiled code: a sparse matrix, row by row, times a dense one.

A row is summed by one thread and in a fixed order, so the result does not depend on the number of threads.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import numba
except ImportError:  # the torch twin in operators.py serves
    available = False
else:
    available = True


def _multiply(
    pointers: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[Any],
    dense: NDArray[Any],
    chunks: NDArray[np.int64],
    out: NDArray[Any],
) -> None:
    width = dense.shape[1]
    for chunk in numba.prange(len(chunks) - 1):
        for row in range(chunks[chunk], chunks[chunk + 1]):
            for k in range(width):
                out[row, k] = 0
            for edge in range(pointers[row], pointers[row + 1]):
                column, value = columns[edge], values[edge]
                for k in range(width):
                    out[row, k] += value * dense[column, k]


multiply = numba.njit(parallel=True, fastmath=True, cache=True)(_multiply) if available else None


def balanced_chunks(pointers: NDArray[np.int64], chunks: int = 64) -> NDArray[np.int64]:
    """Row boundaries that cut the matrix into pieces of about equally many entries."""
    work = pointers + np.arange(len(pointers))  # a row costs something even if it is empty
    bounds = np.searchsorted(work, np.linspace(0, work[-1], chunks + 1))
    bounds[0], bounds[-1] = 0, len(pointers) - 1
    return np.maximum.accumulate(bounds)
