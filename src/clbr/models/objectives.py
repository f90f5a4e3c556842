"""Training objectives as pure functions. Each cites its paper."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def bpr(positive: Tensor, negative: Tensor) -> Tensor:
    """Bayesian personalised ranking: the mean of -ln sigmoid(s+ - s-) (Rendle et al., UAI 2009).

    `positive` is (n, 1), `negative` is (n, k): scores of positives and of sampled negatives.
    """
    return -logsigmoid(positive - negative).mean()


def info_nce(one: Tensor, other: Tensor, counts: Tensor, temperature: float) -> Tensor:
    """InfoNCE: the mean over i of -log softmax over j of <one_i, other_j> / temperature, at j = i (Oord et al., 2018).

    `one` and `other` are (n, d) with rows of length 1. Row i counts as `counts[i]` equal rows, both in the mean and in
    the softmax. The value is that of the repeated rows; the work is that of the distinct ones.
    """
    loss: Tensor = _InfoNCE.apply(one, other, counts, temperature)  # type: ignore[no-untyped-call]
    return loss


UNDERFLOW = 40
"""exp(-2 * 40) is still above 0 in float32."""


class _InfoNCE(torch.autograd.Function):
    """InfoNCE with its own backward pass: the (n, n) matrix is written once and changed in place.

    With autograd it takes half of the time of a CrossCBR step.
    """

    @staticmethod
    def forward(context: Any, one: Tensor, other: Tensor, counts: Tensor, temperature: float) -> Tensor:
        scaled = one / temperature
        counted = other * counts[:, None]
        weights = torch.mm(scaled, other.T)
        # Cosines are at most 1, so 1 / temperature bounds every row from above, unless a whole row then underflows.
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
        expected = torch.mm(weights, counted).div_(sums[:, None])  # (n, d): mean of `other` under each row's softmax
        one_gradient = expected.sub_(other).mul_(share / context.temperature)
        other_gradient = torch.mm(weights.T, scaled * (share / sums[:, None])).mul_(counts[:, None])
        return one_gradient, other_gradient.sub_(scaled * share), None, None
