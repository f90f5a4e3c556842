"""Training objectives as pure functions; each cites its paper."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def bpr(positive: Tensor, negative: Tensor) -> Tensor:
    """-ln sigmoid(s+ - s-), averaged (Rendle et al., UAI 2009). positive is (n, 1), negative (n, k)."""
    return -logsigmoid(positive - negative).mean()


def info_nce(one: Tensor, other: Tensor, counts: Tensor, temperature: float) -> Tensor:
    """-log softmax over j of <one_i, other_j> / temperature, at j = i, averaged (van den Oord et al., 2018).

    Expects rows of unit length. Row i stands for counts_i equal rows, in the average and in the softmax: the same
    value as with each of them written out, for a fraction of the work.
    """
    loss: Tensor = _InfoNCE.apply(one, other, counts, temperature)  # type: ignore[no-untyped-call]
    return loss


UNDERFLOW = 40
"""exp(-2 * 40) is still a number in single precision."""


class _InfoNCE(torch.autograd.Function):
    """By hand, because it is half of a CrossCBR step: the (n, n) matrix is written once and changed in place."""

    @staticmethod
    def forward(context: Any, one: Tensor, other: Tensor, counts: Tensor, temperature: float) -> Tensor:
        scaled = one / temperature
        counted = other * counts[:, None]
        weights = torch.mm(scaled, other.T)
        # Cosines lie in [-1, 1], so 1 / temperature will do as every row's largest, unless it lets a row vanish.
        largest = weights.amax(1) if 1 / temperature > UNDERFLOW else weights.new_full((len(one),), 1 / temperature)
        sums = torch.mv(weights.sub_(largest[:, None]).exp_(), counts)
        share = counts / counts.sum()
        context.save_for_backward(scaled, other, counted, weights, sums, counts, share)
        context.temperature = temperature
        return (share * (sums.log() + largest - (scaled * other).sum(1))).sum()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        scaled, other, counted, weights, sums, counts, share = context.saved_tensors
        share = (gradient * share)[:, None]
        pull = torch.mm(weights, counted).div_(sums[:, None])  # where the softmax of each row points
        one_gradient = pull.sub_(other).mul_(share / context.temperature)
        push = torch.mm(weights.T, scaled * (share / sums[:, None])).mul_(counts[:, None])
        return one_gradient, push.sub_(scaled * share), None, None
