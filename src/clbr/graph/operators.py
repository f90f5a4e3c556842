"""Linear operators on node vectors: sparse matrices, and products and blocks of them that are never multiplied out.

`operator @ x` maps an (n, d) tensor to an (m, d) tensor and is differentiable with respect to x. `operator.T` is the
transpose. Entries are constants: a graph is data, not a parameter.
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
    """Linear map between node vectors."""

    shape: tuple[int, int]

    @abstractmethod
    def __matmul__(self, x: Tensor) -> Tensor:
        """Return operator @ x."""

    @property
    @abstractmethod
    def T(self) -> "Operator":  # noqa: N802
        """Transpose."""


class Pattern:
    """Positions of a sparse matrix's entries, in compressed sparse rows (CSR)."""

    def __init__(self, pointers: NDArray[np.int64], columns: NDArray[np.int32], width: int) -> None:
        self.pointers, self.columns = pointers, columns
        self.shape = (len(pointers) - 1, width)
        self.chunks = kernels.balanced_chunks(pointers)

    @classmethod
    def of(cls, pairs: Pairs, shape: tuple[int, int]) -> Self:
        """Return the pattern of sorted (row, column) pairs."""
        return cls(row_pointers(pairs[:, 0], shape[0]), pairs[:, 1].copy(), shape[1])

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """Row of each entry."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.pointers))

    @cached_property
    def transposed(self) -> tuple["Pattern", Tensor]:
        """Transposed pattern, and for each of its entries the position in this pattern."""
        small = np.int32 if len(self.columns) < 2**31 else np.int64
        order = np.argsort(self.columns, kind="stable").astype(small)
        pointers = row_pointers(self.columns[order], self.shape[1])
        transpose = Pattern(pointers, self.rows[order], self.shape[0])
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order), dtype=small)
        transpose.__dict__["transposed"] = (self, torch.from_numpy(inverse))
        return transpose, torch.from_numpy(order)


class Matrix(Operator):
    """Sparse matrix: a pattern and one value per entry."""

    def __init__(self, pattern: Pattern, values: Tensor) -> None:
        self.pattern, self.values, self.shape = pattern, values, pattern.shape

    def __matmul__(self, x: Tensor) -> Tensor:
        product: Tensor = _Multiply.apply(x, self)  # type: ignore[no-untyped-call]
        return product

    @cached_property
    def T(self) -> "Matrix":  # noqa: N802
        """Transpose, cached: the backward pass needs it at every step."""
        pattern, order = self.pattern.transposed
        transpose = Matrix(pattern, self.values[order.to(self.values.device)])
        transpose.__dict__["T"] = self
        return transpose

    def scaled(self, left: Tensor | None = None, right: Tensor | None = None) -> "Matrix":
        """Return diag(left) A diag(right). None stands for the identity."""
        values = self.values
        if left is not None:
            values = values * left[torch.from_numpy(self.pattern.rows)]
        if right is not None:
            values = values * right[torch.from_numpy(self.pattern.columns)]
        return Matrix(self.pattern, values)

    def row_sums(self) -> Tensor:
        """Return the sum of each row. It is exact for integer values."""
        sums = np.bincount(self.pattern.rows, weights=self.values.numpy(), minlength=self.shape[0])
        return torch.from_numpy(sums).to(self.values.dtype)

    def apply(self, x: Tensor) -> Tensor:
        """Return the product with x, without autograd: by the numba kernel on a CPU, else by torch."""
        if not kernels.available or x.device.type != "cpu":
            return self.to_torch(x.device, x.dtype) @ x
        pattern, values = self.pattern, self.values.to(x.dtype).numpy()
        out = torch.empty(self.shape[0], x.shape[1], dtype=x.dtype)
        dense = x.contiguous().numpy()
        kernels.multiply(pattern.pointers, pattern.columns, values, dense, pattern.chunks, out.numpy())
        return out

    def to_torch(self, device: torch.device, dtype: torch.dtype) -> Tensor:
        """Return the matrix as a torch CSR tensor, used without numba and on a GPU.

        The tensor of the last device and dtype is cached.
        """
        cached = self.__dict__.get("torch_csr")
        if cached is None or cached.device != device or cached.dtype != dtype:
            pointers, columns = torch.from_numpy(self.pattern.pointers), torch.from_numpy(self.pattern.columns).long()
            pointers, columns, values = pointers.to(device), columns.to(device), self.values.to(device, dtype)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns once that CSR tensors are a beta feature
                cached = torch.sparse_csr_tensor(pointers, columns, values, self.shape, check_invariants=False)
            self.__dict__["torch_csr"] = cached
        matrix: Tensor = cached
        return matrix


class _Multiply(torch.autograd.Function):
    """Product of a constant sparse matrix with x; the gradient of x is the transpose times the gradient."""

    @staticmethod
    def forward(context: Any, x: Tensor, matrix: Matrix) -> Tensor:
        context.matrix = matrix
        return matrix.apply(x.detach())

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return context.matrix.T @ gradient, None


class Diagonal(Operator):
    """Diagonal matrix: multiplies each node's vector by a factor."""

    def __init__(self, factors: Tensor) -> None:
        self.factors, self.shape = factors, (len(factors), len(factors))

    def __matmul__(self, x: Tensor) -> Tensor:
        return self.factors[:, None].to(x.device, x.dtype) * x

    @property
    def T(self) -> "Diagonal":  # noqa: N802
        """The operator itself."""
        return self


class Product(Operator):
    """Product of operators, first @ second @ ..., applied from right to left and never multiplied out."""

    def __init__(self, *factors: Operator) -> None:
        self.factors = factors
        self.shape = (factors[0].shape[0], factors[-1].shape[1])

    def __matmul__(self, x: Tensor) -> Tensor:
        for factor in reversed(self.factors):
            x = factor @ x
        return x

    @property
    def T(self) -> "Product":  # noqa: N802
        """Product of the transposed factors in reverse order."""
        return Product(*(factor.T for factor in reversed(self.factors)))


class Blocks(Operator):
    """Block matrix of operators. None is a block of zeros."""

    def __init__(self, grid: Sequence[Sequence[Operator | None]]) -> None:
        self.grid = grid
        self.heights = [next(block.shape[0] for block in row if block) for row in grid]
        self.widths = [next(block.shape[1] for block in column if block) for column in zip(*grid, strict=True)]
        self.shape = (sum(self.heights), sum(self.widths))

    def __matmul__(self, x: Tensor) -> Tensor:
        return torch.cat(self.apply(x.split(self.widths)))  # type: ignore[no-untyped-call]

    def apply(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Return the product in parts, one per row of blocks, for x in parts, one per column of blocks.

        Nothing is concatenated.
        """
        rows = []
        for blocks in self.grid:
            products = [block @ part for block, part in zip(blocks, parts, strict=True) if block]
            rows.append(sum(products[1:], products[0]))
        return rows

    @property
    def T(self) -> "Blocks":  # noqa: N802
        """Transposed blocks in a transposed grid."""
        return Blocks([[block.T if block else None for block in column] for column in zip(*self.grid, strict=True)])
