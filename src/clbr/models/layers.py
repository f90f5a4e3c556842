"""Differentiable operations that several models share."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu
from torch.overrides import handle_torch_function, has_torch_function_unary

from clbr.graph import kernels
from clbr.graph.graph import Edges, power
from clbr.graph.operators import Matrix
from clbr.models.columns import add_up, cut

SLOPE = 0.01
"""Slope of LeakyReLU below zero."""


def unit_rows(x: Tensor) -> Tensor:
    """Divide each row by its Euclidean norm; a row of zeros stays zero. Faster than torch's `normalize`."""
    if has_torch_function_unary(x):  # a table in a form of its own, see inference/changed_rows.py
        return handle_torch_function(unit_rows, (x,), x)
    unit: Tensor = _UnitRows.apply(x)  # type: ignore[no-untyped-call]
    return unit


class _UnitRows(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        context.whole = cut.size == 1  # where it is computed, which need not hold in the backward pass
        if _compiled(x) and context.whole:
            x, unit, scale = x.contiguous(), torch.empty(x.shape, dtype=x.dtype), torch.empty(len(x), 1, dtype=x.dtype)
            kernels.unit_rows(x.numpy(), unit.numpy(), scale[:, 0].numpy())
        else:
            length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
            length = length if context.whole else add_up(length**2).sqrt_()
            scale = length.clamp_(min=1e-12).reciprocal_()
            unit = x * scale
        context.save_for_backward(unit, scale)
        return unit

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        unit, scale = context.saved_tensors
        if _compiled(unit) and context.whole and not torch.is_grad_enabled():
            out = torch.empty(unit.shape, dtype=unit.dtype)
            kernels.unit_rows_back(gradient.contiguous().numpy(), unit.numpy(), scale[:, 0].numpy(), out.numpy())
            return out
        along = (gradient * unit).sum(1, keepdim=True)
        along = along if context.whole else add_up(along)
        rejected: Tensor = torch.addcmul(gradient, unit, along, value=-1) * scale
        return rejected


def dropout(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Set entries to 0 with probability `rate` (rounded to 1/256) and scale up the rest; no-op without a generator."""
    threshold = _threshold(rate)
    if generator is None or not threshold:
        return x
    return x * _dropout_factors(x, draw_key(generator), threshold)


def add_noise(x: Tensor, size: float, generator: torch.Generator | None) -> Tensor:
    """Add to each row a random vector of length `size` with the signs of the row (Yu et al., SIGIR 2022).

    A row of zeros stays zero. No-op without a generator.
    """
    if generator is None or not size:
        return x
    with torch.no_grad():
        noise = unit_rows(_random_bytes(x, draw_key(generator)).to(x.dtype)).mul_(x.sign())
    return torch.add(x, noise, alpha=size)


def propagate(
    edges: Edges, left: Tensor, right: Tensor, layers: int, rate: float = 0.0, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Return x0 + the sum over layers l of the row-normalised A^l x0, for both sides (CrossCBR, Ma et al., KDD 2022).

    With a generator, dropout at this rate follows each product with A.
    """
    left_sum, right_sum = left, right
    for _ in range(layers):
        left, right = edges.symmetric @ right, edges.back_symmetric @ left
        left, right = dropout(left, rate, generator), dropout(right, rate, generator)
        left_sum, right_sum = left_sum + unit_rows(left), right_sum + unit_rows(right)
    return left_sum, right_sum


def grow(
    message: Tensor, bias: Tensor, hidden: Tensor, rate: float, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Return g = dropout([LeakyReLU(message + bias), hidden]), and g with rows of length 1.

    One pass over memory forward and one backward. With torch's own operations it takes half of a BGCN step.
    """
    threshold = 0 if generator is None else _threshold(rate)
    key = draw_key(generator) if generator is not None and threshold else 0
    if _compiled(message):
        grown, unit = _Grow.apply(message, bias, hidden, key, threshold)  # type: ignore[no-untyped-call]
        return grown, unit
    grown = torch.cat([leaky_relu(message + bias, SLOPE), hidden], dim=1)
    if threshold:
        grown = grown * _dropout_factors(grown, key, threshold)
    return grown, unit_rows(grown)


class _Grow(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, message: Tensor, bias: Tensor, hidden: Tensor, key: int, threshold: int
    ) -> tuple[Tensor, Tensor]:
        shape = (len(message), message.shape[1] + hidden.shape[1])
        grown, unit = torch.empty(shape, dtype=message.dtype), torch.empty(shape, dtype=message.dtype)
        scale = torch.empty(len(message), dtype=message.dtype)
        parts = [x.detach().contiguous().numpy() for x in (message, bias, hidden)]
        kernels.grow(*parts, key, threshold, SLOPE, grown.numpy(), unit.numpy(), scale.numpy())
        context.save_for_backward(unit, scale)
        context.random, context.width = (key, threshold), message.shape[1]
        context.set_materialize_grads(False)
        return grown, unit

    @staticmethod
    def backward(context: Any, grown: Tensor | None, units: Tensor | None) -> tuple[Tensor, Tensor, Tensor, None, None]:
        unit, scale = context.saved_tensors
        message = torch.empty(len(unit), context.width, dtype=unit.dtype)
        hidden = torch.empty(len(unit), unit.shape[1] - context.width, dtype=unit.dtype)
        grown = torch.empty(0, unit.shape[1], dtype=unit.dtype) if grown is None else grown
        units = torch.zeros_like(unit) if units is None else units
        parts = [x.detach().contiguous().numpy() for x in (grown, units)]
        outs = [x.numpy() for x in (unit, scale, message, hidden)]
        kernels.grow_back(*parts, *context.random, SLOPE, *outs)
        return message, message.sum(0), hidden, None, None


def draw_key(generator: torch.Generator) -> int:
    """Draw the key that determines a sequence of random 64-bit words."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator))


def _threshold(rate: float) -> int:
    """Return how many of the 256 values of a byte set an entry to 0: never all, so that the scale is finite."""
    return min(255, round(rate * 256))


def _dropout_factors(x: Tensor, key: int, threshold: int) -> Tensor:
    """Return the factor of each entry of x: 0, or the scale of those that remain. Uses one random byte per entry."""
    return (_random_bytes(x, key) >= threshold).to(x.dtype).mul_(256 / (256 - threshold))


def _random_bytes(x: Tensor, key: int) -> Tensor:
    """Return one random byte per entry of x: of all columns, those that this process holds."""
    width, words = x.shape[1], (x.shape[1] * cut.size + 7) // 8  # words of a row
    first, end = cut.rank * width // 8, ((cut.rank + 1) * width + 7) // 8  # words with these columns
    z = torch.arange(len(x), device=x.device)[:, None] * words + torch.arange(first, end, device=x.device)
    z = z * _signed(kernels.GOLDEN) + key
    z = (z ^ _shifted(z, 30)) * _signed(kernels.MIX[0])
    z = (z ^ _shifted(z, 27)) * _signed(kernels.MIX[1])
    return (z ^ _shifted(z, 31)).view(torch.uint8)[:, cut.rank * width - 8 * first :][:, :width]


def _shifted(z: Tensor, bits: int) -> Tensor:
    """Shift to the right and fill with zeros: torch's 64-bit integers are signed."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def _signed(word: int) -> int:
    """Return the signed integer with the same 64 bits."""
    return word - (1 << 64) if word >> 63 else word


def _compiled(x: Tensor) -> bool:
    """Whether the compiled kernels can process a tensor."""
    return kernels.available and x.device.type == "cpu"


class DirectedEdges(Edges):
    """Edges with separate weights for the two directions."""

    def __init__(self, edges: Edges, forward: Tensor, back: Tensor) -> None:
        super().__init__(edges.pairs, edges.shape, forward)
        self.__dict__["pattern"] = edges.pattern
        pattern, _ = edges.pattern.transposed
        self.back = Matrix(pattern, back)

    @property
    def back_symmetric(self) -> Matrix:
        """The matrix from left to right nodes, normalised by the degrees that remain in this direction."""
        if "back_symmetric" not in self.__dict__:
            left, right = power(self.back.row_sums(), -0.5), power(self.back.T.row_sums(), -0.5)
            self.__dict__["back_symmetric"] = self.back.scaled(left, right)
        return self.__dict__["back_symmetric"]  # type: ignore[no-any-return]


def directed_edge_dropout(edges: Edges, rate: float, generator: torch.Generator) -> Edges:
    """Remove each direction of each edge with probability `rate`; normalise by the degrees that remain."""
    if not rate:
        return edges
    forward, back = (torch.rand(2, len(edges.pairs), generator=generator) >= rate).float()
    return DirectedEdges(edges, forward, back)
