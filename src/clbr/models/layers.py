"""Small differentiable pieces that several models are made of."""

from typing import Any

import torch
from torch import Tensor


def unit_rows(x: Tensor) -> Tensor:
    """Each row divided by its length; a row of zeros stays one. Quicker, forward and back, than torch's normalize."""
    unit: Tensor = _UnitRows.apply(x)  # type: ignore[no-untyped-call]
    return unit


class _UnitRows(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        scale = torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp_(min=1e-12).reciprocal_()
        unit: Tensor = x * scale
        context.save_for_backward(unit, scale)
        return unit

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        unit, scale = context.saved_tensors
        along = (gradient * unit).sum(1, keepdim=True)
        return torch.addcmul(gradient, unit, along, value=-1).mul_(scale)


def dropout(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Strike each entry with probability `rate` (to 1/256) and scale the rest up; without a generator do nothing.

    Eight random bits an entry are enough and are drawn in bulk: several times quicker than torch's own dropout.
    """
    struck = round(rate * 256)
    if generator is None or not struck:
        return x
    words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None, generator=generator)
    keep = words.view(torch.uint8)[: x.numel()].view(x.shape) >= struck
    return x * keep.to(x.device, x.dtype).mul_(256 / (256 - struck))
