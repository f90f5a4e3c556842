"""Training objectives as pure functions. Each cites its paper."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus


def bpr(positive: Tensor, negative: Tensor) -> Tensor:
    """Bayesian personalised ranking: the mean of -ln sigmoid(s+ - s-) (Rendle et al., UAI 2009).

    `positive` is (n, 1), `negative` is (n, k): scores of positives and of sampled negatives.
    """
    return -logsigmoid(positive - negative).mean()


def full_softmax(users: Tensor, bundles: Tensor, rows: Tensor, positives: Tensor, known: Tensor) -> Tensor:
    """Softmax over all bundles: the mean over examples of -log(e^s+ / (e^s+ + the sum of e^s over the negatives)).

    Example i is the user `users[rows[i]]` with the bundle `positives[i]`. Scores are inner products of `users` (u, d)
    and `bundles` (b, d). The negatives of a user are all bundles that the user has not chosen: `known` (m, 2) holds the
    row and the bundle of every choice, sorted by row. Exact and in blocks: a score exists only as long as its block.
    """
    loss: Tensor = _FullSoftmax.apply(users, bundles, rows, positives, known)  # type: ignore[no-untyped-call]
    return loss


SOFTMAX_BLOCK = 1 << 20
"""Scores per block: few enough to stay in the cache."""


class _FullSoftmax(torch.autograd.Function):
    """The gradients are computed in the forward pass, while the scores of a block are there."""

    @staticmethod
    def forward(context: Any, users: Tensor, bundles: Tensor, rows: Tensor, positives: Tensor, known: Tensor) -> Tensor:
        size = max(1, SOFTMAX_BLOCK // len(bundles))
        bounds = torch.arange(0, len(users) + size, size, device=rows.device)
        order = torch.argsort(rows, stable=True)
        example_bounds = torch.searchsorted(rows[order], bounds).tolist()
        known_bounds = torch.searchsorted(known[:, 0].contiguous(), bounds).tolist()
        scores = (users.index_select(0, rows) * bundles.index_select(0, positives)).sum(1)  # of the positives
        pull = torch.empty_like(scores)  # -d loss / d score of a positive
        user_gradient, bundle_gradient = torch.empty_like(users), torch.zeros_like(bundles)
        total = scores.new_zeros(())
        for block, start in enumerate(bounds[:-1].tolist()):
            some = users[start : start + size]
            weights = some @ bundles.T
            chosen = known[known_bounds[block] : known_bounds[block + 1]]
            weights[chosen[:, 0] - start, chosen[:, 1]] = -torch.inf
            largest = weights.amax(1)
            sums = weights.sub_(largest[:, None]).exp_().sum(1)
            examples = order[example_bounds[block] : example_bounds[block + 1]]
            row = rows[examples] - start
            margin = (largest + sums.log())[row] - scores[examples]
            total = total + softplus(margin).sum()
            pull[examples] = margin.sigmoid() / len(rows)
            push = torch.zeros_like(sums).index_add_(0, row, pull[examples])
            weights.mul_((push / sums)[:, None])
            torch.mm(weights, bundles, out=user_gradient[start : start + size])
            bundle_gradient.addmm_(weights.T, some)
        user_gradient.index_add_(0, rows, -pull[:, None] * bundles.index_select(0, positives))
        bundle_gradient.index_add_(0, positives, -pull[:, None] * users.index_select(0, rows))
        context.save_for_backward(user_gradient, bundle_gradient)
        return total / len(rows)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        user_gradient, bundle_gradient = context.saved_tensors
        return gradient * user_gradient, gradient * bundle_gradient, None, None, None


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
