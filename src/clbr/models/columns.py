"""Vectors cut by columns: each of several processes holds some columns of every node vector.

Products with the graph are column by column and need no exchange. Inner products and lengths of rows are sums over the
columns: `add_up` adds the parts of all processes. Everything else is drawn and computed alike in all processes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor


class ExchangeError(Exception):
    """An exchange with the other processes failed: one of them has ended, or it cannot be reached."""


@dataclass
class Cut:
    """Which columns this process holds: those of part `rank`, counted from 0, of `size` equal parts."""

    rank: int = 0
    size: int = 1
    added: int = 0
    """Bytes that `add_up` has added up so far. All-reduce in a ring sends 2 (size - 1) / size times as many."""
    exchanged: int = 0
    """Bytes that `to_own_rows` has sent to the other processes so far."""


cut = Cut()
"""The cut of this process. It has one part, all columns, unless `training/distributed.py` changes it."""


@contextmanager
def exchange() -> Iterator[None]:
    """Turn the errors of torch's exchanges between processes into an `ExchangeError`."""
    try:
        yield
    except RuntimeError as error:
        raise ExchangeError(str(error).splitlines()[0]) from error


def add_up(x: Tensor) -> Tensor:
    """Return the sum of x over all processes; x itself if there is one process.

    Differentiable where all processes compute the same from the sum: the gradient of each part is that of the sum.
    """
    if cut.size == 1:
        return x
    total: Tensor = _AddUp.apply(x)  # type: ignore[no-untyped-call]
    return total


class _AddUp(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        with exchange():
            torch.distributed.all_reduce(total)
        cut.added += total.nbytes
        return total

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return gradient


@contextmanager
def all_columns_here() -> Iterator[None]:
    """Compute with rows that have all their columns, as one process does: nothing is added up in this block."""
    rank, size = cut.rank, cut.size
    cut.rank, cut.size = 0, 1
    try:
        yield
    finally:
        cut.rank, cut.size = rank, size


def own_parts(parts: int) -> range:
    """Return which of so many parts of a batch this process computes, with all columns."""
    return range(parts * cut.rank // cut.size, parts * (cut.rank + 1) // cut.size)


def to_own_rows(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Exchange columns for rows: from this process's columns of all rows (n, d) to all columns of its own rows.

    The rows come in parts of these sizes, and `own_parts` says whose they are. Differentiable: the gradients of all
    processes are exchanged back.
    """
    if cut.size == 1:
        return x
    bounds = [len(sizes) * rank // cut.size for rank in range(cut.size + 1)]
    rows = [sum(sizes[first:last]) for first, last in pairwise(bounds)]
    exchanged: Tensor = _ToOwnRows.apply(x, rows)  # type: ignore[no-untyped-call]
    return exchanged


class _ToOwnRows(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, rows: list[int]) -> Tensor:
        context.rows, own = rows, rows[cut.rank]
        parts = _all_to_all(x, rows, [own] * cut.size)  # (processes * own rows, own columns)
        return parts.view(cut.size, own, x.shape[1]).transpose(0, 1).reshape(own, cut.size * x.shape[1])

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        own = context.rows[cut.rank]
        width = gradient.shape[1] // cut.size
        parts = gradient.reshape(own, cut.size, width).transpose(0, 1).reshape(cut.size * own, width)
        return _all_to_all(parts, [own] * cut.size, context.rows), None


def _all_to_all(x: Tensor, sent: list[int], received: list[int]) -> Tensor:
    """Send so many rows of x to each process, and receive so many from each."""
    out = x.new_empty(sum(received), x.shape[1])
    with exchange():
        torch.distributed.all_to_all_single(out, x.contiguous(), received, sent)
    cut.exchanged += (len(x) - sent[cut.rank]) * x.shape[1] * x.element_size()
    return out


def own_columns(x: Tensor) -> Tensor:
    """Return a copy of this process's columns of x (n, d); x itself if there is one process."""
    return x if cut.size == 1 else x.chunk(cut.size, dim=1)[cut.rank].clone()
