"""Linear operators on node vectors, composed without ever forming a product.

`operator @ x` maps an (n, d) tensor to an (m, d) one and can be differentiated with respect to x; `operator.T` is
the transpose. Entries are constants: a graph is data, not a parameter.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr.data.pairs import Pairs, row_pointers
from clbr.graph import kernels


class Operator(ABC):
    """A linear map between node vectors."""

    shape: tuple[int, int]

    @abstractmethod
    def __matmul__(self, x: Tensor) -> Tensor:
        """Apply to the columns of x."""

    @property
    @abstractmethod
    def T(self) -> "Operator":  # noqa: N802
        """The transpose."""


class Pattern:
    """Where the entries of a sparse matrix stand, in compressed rows."""

    def __init__(self, pointers: NDArray[np.int64], columns: NDArray[np.int32], width: int) -> None:
        self.pointers, self.columns = pointers, columns
        self.shape = (len(pointers) - 1, width)
        self.chunks = kernels.balanced_chunks(pointers)

    @classmethod
    def of(cls, pairs: Pairs, shape: tuple[int, int]) -> Self:
        """The pattern of sorted pairs."""
        return cls(row_pointers(pairs[:, 0], shape[0]), np.ascontiguousarray(pairs[:, 1]), shape[1])

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.pointers))

    @cached_property
    def transposed(self) -> tuple["Pattern", Tensor]:
        """The transposed pattern, and where each of its entries stands in this one."""
        order = np.argsort(self.columns, kind="stable")
        pointers = row_pointers(self.columns[order], self.shape[1])
        back = Pattern(pointers, self.rows[order], self.shape[0])
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))
        back.__dict__["transposed"] = (self, torch.from_numpy(inverse))
        return back, torch.from_numpy(order)


class Matrix(Operator):
    """A sparse matrix: a pattern and a value for each entry."""

    def __init__(self, pattern: Pattern, values: Tensor) -> None:
        self.pattern, self.values, self.shape = pattern, values, pattern.shape

    def __matmul__(self, x: Tensor) -> Tensor:
        product: Tensor = _Multiply.apply(x, self)  # type: ignore[no-untyped-call]
        return product

    @cached_property
    def T(self) -> "Matrix":  # noqa: N802
        """The transpose, made once: the backward pass needs it at every step."""
        pattern, order = self.pattern.transposed
        back = Matrix(pattern, self.values[order.to(self.values.device)])
        back.__dict__["T"] = self
        return back

    def scaled(self, left: Tensor | None = None, right: Tensor | None = None) -> "Matrix":
        """diag(left) A diag(right)."""
        values = self.values
        if left is not None:
            values = values * left[torch.from_numpy(self.pattern.rows)]
        if right is not None:
            values = values * right[torch.from_numpy(self.pattern.columns)]
        return Matrix(self.pattern, values)

    def row_sums(self) -> Tensor:
        """The sum of each row, exact for counts."""
        sums = np.bincount(self.pattern.rows, weights=self.values.numpy(), minlength=self.shape[0])
        return torch.from_numpy(sums).to(self.values.dtype)

    def apply(self, x: Tensor) -> Tensor:
        """Multiply, outside of autograd: by the kernel on a CPU, by torch elsewhere."""
        if not kernels.available or x.device.type != "cpu":
            return self.in_torch(x.device, x.dtype) @ x
        pattern, values = self.pattern, self.values.to(x.dtype).numpy()
        out = torch.empty(self.shape[0], x.shape[1], dtype=x.dtype)
        dense = x.contiguous().numpy()
        kernels.multiply(pattern.pointers, pattern.columns, values, dense, pattern.chunks, out.numpy())
        return out

    def in_torch(self, device: torch.device, dtype: torch.dtype) -> Tensor:
        """The twin that serves where there is no numba, or on a GPU; it stays where it was last needed."""
        kept = self.__dict__.get("twin")
        if kept is None or kept.device != device or kept.dtype != dtype:
            pointers, columns = torch.from_numpy(self.pattern.pointers), torch.from_numpy(self.pattern.columns).long()
            pointers, columns, values = pointers.to(device), columns.to(device), self.values.to(device, dtype)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch calls its compressed rows a beta, once a process
                kept = torch.sparse_csr_tensor(pointers, columns, values, self.shape, check_invariants=False)
            self.__dict__["twin"] = kept
        twin: Tensor = kept
        return twin


class _Multiply(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, matrix: Matrix) -> Tensor:
        context.matrix = matrix
        return matrix.apply(x.detach())

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return context.matrix.T @ gradient, None


class Diagonal(Operator):
    """Scales each node's vector."""

    def __init__(self, factors: Tensor) -> None:
        self.factors, self.shape = factors, (len(factors), len(factors))

    def __matmul__(self, x: Tensor) -> Tensor:
        return self.factors[:, None].to(x.device, x.dtype) * x

    @property
    def T(self) -> "Diagonal":  # noqa: N802
        """Itself."""
        return self


class Product(Operator):
    """first @ second @ ..., applied from the right, never multiplied out."""

    def __init__(self, *factors: Operator) -> None:
        self.factors = factors
        self.shape = (factors[0].shape[0], factors[-1].shape[1])

    def __matmul__(self, x: Tensor) -> Tensor:
        for factor in reversed(self.factors):
            x = factor @ x
        return x

    @property
    def T(self) -> "Product":  # noqa: N802
        """The transposed factors in reverse."""
        return Product(*(factor.T for factor in reversed(self.factors)))


class Blocks(Operator):
    """A matrix of operators; None is a block of zeros."""

    def __init__(self, grid: Sequence[Sequence[Operator | None]]) -> None:
        self.grid = grid
        self.heights = [next(block.shape[0] for block in row if block) for row in grid]
        self.widths = [next(block.shape[1] for block in column if block) for column in zip(*grid, strict=True)]
        self.shape = (sum(self.heights), sum(self.widths))

    def __matmul__(self, x: Tensor) -> Tensor:
        return torch.cat(self.apply(x.split(self.widths)))  # type: ignore[no-untyped-call]

    def apply(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """The same on vectors that lie in parts, one for each column of blocks: nothing is copied together."""
        rows = []
        for blocks in self.grid:
            products = [block @ part for block, part in zip(blocks, parts, strict=True) if block]
            rows.append(sum(products[1:], products[0]))
        return rows

    @property
    def T(self) -> "Blocks":  # noqa: N802
        """Transposed blocks in a transposed grid."""
        return Blocks([[block.T if block else None for block in column] for column in zip(*self.grid, strict=True)])
