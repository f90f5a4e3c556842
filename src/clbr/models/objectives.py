"""Training objectives as pure functions. Each cites its paper."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus


def bpr(positive: Tensor, negative: Tensor) -> Tensor:
    """Bayesian personalised ranking: the mean of -ln sigmoid(s+ - s-) (Rendle et al., UAI 2009).

    `positive` is (n, 1), `negative` is (n, k): scores of positives and of sampled negatives.
    """
    return -logsigmoid(positive - negative).mean()


@dataclass(frozen=True)
class TopK:
    """Weights of SL@K (Yang et al., KDD 2025): the softmax loss of a pair counts sigmoid((s+ - s_K) / temperature).

    s_K is the K-th highest score of the user. A pair near the top K counts more: it can still enter or leave it.
    """

    k: int
    temperature: float


def softmax_loss(
    users: Tensor,
    bundles: Tensor,
    rows: Tensor,
    positives: Tensor,
    known: Tensor,
    sample: Tensor | None = None,
    top: TopK | None = None,
) -> Tensor:
    """Softmax over bundles: the mean over examples of -log(e^s+ / (e^s+ + the sum of e^s over the negatives)).

    Example i is the user `users[rows[i]]` with the bundle `positives[i]`. Scores are inner products of `users` (u, d)
    and `bundles` (b, d). The negatives of a user are all bundles that the user has not chosen: `known` (m, 2) holds the
    row and the bundle of every choice, sorted by row. With `sample`, sorted bundles drawn uniformly, the sum over the
    negatives is estimated: the sum over those in the sample, times the number of all and divided by that of the
    sampled ones. In blocks: a score exists only as long as its block.
    """
    loss: Tensor = _Softmax.apply(users, bundles, rows, positives, known, sample, top)  # type: ignore[no-untyped-call]
    return loss


SOFTMAX_BLOCK = 1 << 20
"""Scores per block: few enough to stay in the cache."""


class _Softmax(torch.autograd.Function):
    """The gradients are computed in the forward pass, while the scores of a block are there."""

    @staticmethod
    def forward(
        context: Any,
        users: Tensor,
        bundles: Tensor,
        rows: Tensor,
        positives: Tensor,
        known: Tensor,
        sample: Tensor | None,
        top: TopK | None,
    ) -> Tensor:
        compared, known, inflation = _compared(bundles, known, sample, len(users))
        size = max(1, SOFTMAX_BLOCK // len(compared))
        bounds = torch.arange(0, len(users) + size, size, device=rows.device)
        order = torch.argsort(rows, stable=True)
        example_bounds = torch.searchsorted(rows[order], bounds).tolist()
        known_bounds = torch.searchsorted(known[:, 0].contiguous(), bounds).tolist()
        scores = (users.index_select(0, rows) * bundles.index_select(0, positives)).sum(1)  # of the positives
        pull = torch.empty_like(scores)  # -d loss / d score of a positive
        user_gradient, compared_gradient = torch.empty_like(users), torch.zeros_like(compared)
        total = scores.new_zeros(())
        for block, start in enumerate(bounds[:-1].tolist()):
            some = users[start : start + size]
            weights = some @ compared.T
            examples = order[example_bounds[block] : example_bounds[block + 1]]
            row = rows[examples] - start
            counts = _top_weights(weights, row, scores[examples], top, len(bundles)) / len(rows)
            chosen = known[known_bounds[block] : known_bounds[block + 1]]
            weights[chosen[:, 0] - start, chosen[:, 1]] = -torch.inf
            largest = weights.amax(1).clamp_(min=torch.finfo(weights.dtype).min)  # -inf if all are chosen
            sums = weights.sub_(largest[:, None]).exp_().sum(1)
            margin = (largest + sums.log() + inflation[start : start + size])[row] - scores[examples]
            total = total + (counts * softplus(margin)).sum()
            pull[examples] = counts * margin.sigmoid()
            push = torch.zeros_like(sums).index_add_(0, row, pull[examples])
            weights.mul_((push / sums.clamp(min=1))[:, None])  # a sum is at least 1, or 0 if all are chosen
            torch.mm(weights, compared, out=user_gradient[start : start + size])
            compared_gradient.addmm_(weights.T, some)
        bundle_gradient = compared_gradient
        if sample is not None:
            bundle_gradient = torch.zeros_like(bundles).index_copy_(0, sample, compared_gradient)
        user_gradient.index_add_(0, rows, -pull[:, None] * bundles.index_select(0, positives))
        bundle_gradient.index_add_(0, positives, -pull[:, None] * users.index_select(0, rows))
        context.save_for_backward(user_gradient, bundle_gradient)
        return total

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None, None, None]:
        user_gradient, bundle_gradient = context.saved_tensors
        return gradient * user_gradient, gradient * bundle_gradient, None, None, None, None, None


def _compared(bundles: Tensor, known: Tensor, sample: Tensor | None, users: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the bundles to compare with, the choices among them, and for each user the log of all per sampled."""
    if sample is None:
        return bundles, known, bundles.new_zeros(users)
    place = torch.searchsorted(sample, known[:, 1].contiguous()).clamp_(max=len(sample) - 1)
    inside = known[sample[place] == known[:, 1]]
    every, sampled = (torch.bincount(pairs[:, 0], minlength=users) for pairs in (known, inside))
    inflation = torch.log((len(bundles) - every) / (len(sample) - sampled).clamp(min=1)).to(bundles.dtype)
    inside = torch.stack([inside[:, 0], torch.searchsorted(sample, inside[:, 1].contiguous())], dim=1)
    return bundles.index_select(0, sample), inside, inflation


def _top_weights(scores: Tensor, row: Tensor, positive: Tensor, top: TopK | None, bundles: int) -> Tensor:
    """Return the weight of each example: 1 without `top`. In a sample of the bundles K is proportionally smaller."""
    if top is None:
        return torch.ones_like(positive)
    k = min(max(1, round(top.k * scores.shape[1] / bundles)), scores.shape[1])
    kth = scores.topk(k, dim=1).values[:, -1]
    return torch.sigmoid((positive - kth[row]) / top.temperature)


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
