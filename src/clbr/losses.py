"""Losses as pure functions; each cites where it is from."""

from collections.abc import Callable
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


DISTANCES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "exponential": lambda cosine, temperature: -(cosine / temperature).exp(),  # the paper's choice
    "cosine": lambda cosine, temperature: 1 - cosine,
}
"""D(x, y) by name, of x.y and a temperature."""


def adaptive(
    view: Tensor, fact: Tensor, weight: float = 1.0, temperature: float = 1.0, distance: str = "exponential"
) -> Tensor:
    """The counterfactual constraint, relaxed (CLBR, L_u and L_b):

        mean over i of [ D(c_i, f_i) - weight * mean over j != i of D(c_j, f_i) ]

    for unit rows of the same nodes, c on a view and f on the factual graph. The paper sums over j where this takes the
    mean, so that a weight means the same for any number of nodes: the paper's lambda is weight / (n - 1).
    """
    apart = DISTANCES[distance](fact @ view.T, temperature)  # (n, n): f_i to c_j
    own = apart.diagonal().sum()
    others = (apart.sum() - own) / max(len(fact) - 1, 1)
    return (own - weight * others) / len(fact)


def constant(
    view: Tensor,
    fact: Tensor,
    threshold: float | None = None,
    temperature: float = 1.0,
    distance: str = "exponential",
    hinge: bool = True,
) -> Tensor:
    """The constraint with a fixed threshold: mean over i of max(0, D(c_i, f_i) - threshold); by default D at 0.9.

    Without the hinge it is pure alignment.
    """
    measure = DISTANCES[distance]
    apart = measure((fact * view).sum(1), temperature)
    if not hinge:
        return apart.mean()
    bar = measure(fact.new_tensor(0.9), temperature) if threshold is None else threshold
    return (apart - bar).clamp(min=0).mean()
