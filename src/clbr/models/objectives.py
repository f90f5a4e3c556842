"""Training objectives as pure functions. Each cites its paper."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from clbr.models.columns import add_up, all_columns_here, own_parts, to_own_rows
from clbr.models.layers import unit_rows


def bpr(positive: Tensor, negative: Tensor) -> Tensor:
    """Bayesian personalised ranking: the mean of -ln sigmoid(s+ - s-) (Rendle et al., UAI 2009).

    `positive` is (n, 1), `negative` is (n, k): scores of positives and of sampled negatives.
    """
    return -logsigmoid(positive - negative).mean()


@dataclass(frozen=True)
class TopK:
    """Weights of SL@K (Yang et al., KDD 2025): the softmax loss of a pair counts sigmoid((s+ - s_K) / temperature).

    s_K is the K-th highest score of the user. A pair far above it counts fully, at it half, and far below it hardly.
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
    row and the bundle of every choice, sorted by row. With `sample` (parts, n), each row of which holds sorted bundles
    drawn uniformly, the sum over the negatives is estimated: the sum over those in the sample, times the number of all
    and divided by that of the sampled ones. The users are divided evenly among the rows of the sample. In blocks: a
    score exists only as long as its block.
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
        scores = add_up((users.index_select(0, rows) * bundles.index_select(0, positives)).sum(1))  # of the positives
        pull = torch.empty_like(scores)  # -d loss / d score of a positive
        user_gradient, bundle_gradient = torch.empty_like(users), torch.zeros_like(bundles)
        total, order = scores.new_zeros(()), torch.argsort(rows, stable=True)
        sorted_rows, known_rows = rows[order], known[:, 0].contiguous()
        for first, last, drawn in _parts(len(users), sample):
            inside = known[_between(known_rows, first, last)]
            compared, chosen, inflation = _compared(bundles, inside, drawn, first, last)
            gradient = bundle_gradient if drawn is None else torch.zeros_like(compared)
            size = max(1, SOFTMAX_BLOCK // len(compared))
            for start in range(first, last, size):
                end = min(start + size, last)
                weights = add_up(users[start:end] @ compared.T)
                examples = order[_between(sorted_rows, start, end)]
                row = rows[examples] - start
                counts = _top_weights(weights, row, scores[examples], top, len(bundles)) / len(rows)
                own = chosen[_between(chosen[:, 0].contiguous(), start, end)]
                weights[own[:, 0] - start, own[:, 1]] = -torch.inf
                loss, pull[examples] = _weigh(
                    weights, row, scores[examples], counts, inflation[start - first : end - first]
                )
                total = total + loss
                torch.mm(weights, compared, out=user_gradient[start:end])
                gradient.addmm_(weights.T, users[start:end])
            if drawn is not None:
                bundle_gradient.index_add_(0, drawn, gradient)
        user_gradient.index_add_(0, rows, -pull[:, None] * bundles.index_select(0, positives))
        bundle_gradient.index_add_(0, positives, -pull[:, None] * users.index_select(0, rows))
        context.save_for_backward(user_gradient, bundle_gradient)
        return total

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None, None, None]:
        user_gradient, bundle_gradient = context.saved_tensors
        return gradient * user_gradient, gradient * bundle_gradient, None, None, None, None, None


def _parts(users: int, sample: Tensor | None) -> Iterator[tuple[int, int, Tensor | None]]:
    """Yield the first and the last user (exclusive) of each part, and the bundles that the part is compared with."""
    size = -(-users // (1 if sample is None else len(sample)))
    for part, first in enumerate(range(0, users, size)):
        yield first, min(first + size, users), None if sample is None else sample[part]


def _between(values: Tensor, first: int, last: int) -> slice:
    """Return the slice of sorted values from `first` to `last` (exclusive)."""
    return slice(*torch.searchsorted(values, values.new_tensor([first, last])).tolist())


def _compared(
    bundles: Tensor, known: Tensor, sample: Tensor | None, first: int, last: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the bundles to compare with, the choices among them, and for each user the log of all per sampled."""
    if sample is None:
        return bundles, known, bundles.new_zeros(last - first)
    place = torch.searchsorted(sample, known[:, 1].contiguous()).clamp_(max=len(sample) - 1)
    inside = known[sample[place] == known[:, 1]]
    every, sampled = (torch.bincount(pairs[:, 0] - first, minlength=last - first) for pairs in (known, inside))
    inflation = torch.log((len(bundles) - every) / (len(sample) - sampled).clamp(min=1)).to(bundles.dtype)
    inside = torch.stack([inside[:, 0], torch.searchsorted(sample, inside[:, 1].contiguous())], dim=1)
    return bundles.index_select(0, sample), inside, inflation


def _weigh(scores: Tensor, row: Tensor, positive: Tensor, counts: Tensor, inflation: Tensor) -> tuple[Tensor, Tensor]:
    """Turn the scores of a block into their gradient, in place; return the loss and the pull of each example."""
    largest = scores.amax(1).clamp_(min=torch.finfo(scores.dtype).min)  # -inf if all are chosen
    sums = scores.sub_(largest[:, None]).exp_().sum(1)
    margin = (largest + sums.log() + inflation)[row] - positive
    pull = counts * margin.sigmoid()
    push = torch.zeros_like(sums).index_add_(0, row, pull)
    scores.mul_((push / sums.clamp(min=1))[:, None])  # a sum is at least 1, or 0 if all are chosen
    return (counts * softplus(margin)).sum(), pull


def _top_weights(scores: Tensor, row: Tensor, positive: Tensor, top: TopK | None, bundles: int) -> Tensor:
    """Return the weight of each example: 1 without `top`. In a sample of the bundles K is proportionally smaller."""
    if top is None:
        return torch.ones_like(positive)
    k = min(max(1, round(top.k * scores.shape[1] / bundles)), scores.shape[1])
    kth = scores.topk(k, dim=1).values[:, -1]
    return torch.sigmoid((positive - kth[row]) / top.temperature)


CONTRASTED = 2048
"""Pairs of a batch whose nodes are contrasted with each other. It bounds the cost of a pair in a large batch."""


def level_contrast(levels: Sequence[Tensor], nodes: Tensor, temperature: float) -> Tensor:
    """Return the mean InfoNCE over each two levels for the nodes of a batch; a node counts as often as it occurs.

    A single level is contrasted with itself. A batch of more than CONTRASTED nodes is contrasted in parts of so many,
    each like a batch of its own. Several processes divide the parts: a part's vectors are far fewer numbers than its
    inner products, so the vectors are exchanged, with all their columns.
    """
    parts = torch.split(nodes, CONTRASTED)
    distinct = [torch.unique(part, return_counts=True) for part in parts]
    ids, sizes = torch.cat([ids for ids, _ in distinct]), [len(ids) for ids, _ in distinct]
    rows, own = [to_own_rows(level.index_select(0, ids), sizes) for level in levels], own_parts(len(parts))
    with all_columns_here():
        units = [torch.split(unit_rows(level), sizes[own.start : own.stop]) for level in rows]
        total, pairs = levels[0].new_zeros(()), list(combinations(units, 2)) or [(units[0], units[0])]
        for at, number in enumerate(own):
            weights = distinct[number][1].to(total.dtype)
            terms = [info_nce(one[at], other[at], weights, temperature, early=len(parts) > 1) for one, other in pairs]
            total = total + torch.stack(terms).mean() * (len(parts[number]) / len(nodes))
    if not own:  # this process still takes part in the exchange of gradients
        total = total + sum(level.sum() for level in rows)
    return add_up(total)


def mixed_parts(nodes: Tensor) -> Tensor:
    """Return sorted nodes in an order in which each part of `level_contrast` has nodes from the whole range of ids."""
    parts = -(-len(nodes) // CONTRASTED)
    return torch.cat([nodes[part::parts] for part in range(parts)]) if parts > 1 else nodes


def info_nce(one: Tensor, other: Tensor, counts: Tensor, temperature: float, early: bool = False) -> Tensor:
    """InfoNCE: the mean over i of -log softmax over j of <one_i, other_j> / temperature, at j = i (Oord et al., 2018).

    `one` and `other` are (n, d) with rows of length 1. Row i counts as `counts[i]` equal rows, both in the mean and in
    the softmax. The value is that of the repeated rows; the work is that of the distinct ones. With `early` the
    gradients are computed together with the value, so that no (n, n) matrix is kept until the backward pass.
    """
    loss: Tensor = _InfoNCE.apply(one, other, counts, temperature, early)  # type: ignore[no-untyped-call]
    return loss


UNDERFLOW = 40
"""exp(-2 * 40) is still above 0 in float32."""


class _InfoNCE(torch.autograd.Function):
    """InfoNCE with its own backward pass: the (n, n) matrix is written once and changed in place.

    With autograd it takes half of the time of a CrossCBR step.
    """

    @staticmethod
    def forward(context: Any, one: Tensor, other: Tensor, counts: Tensor, temperature: float, early: bool) -> Tensor:
        scaled = one / temperature
        counted = other * counts[:, None]
        weights = torch.mm(scaled, other.T)
        # Cosines are at most 1, so 1 / temperature bounds every row from above, unless a whole row then underflows.
        largest = weights.amax(1) if 1 / temperature > UNDERFLOW else weights.new_full((len(one),), 1 / temperature)
        sums = torch.mv(weights.sub_(largest[:, None]).exp_(), counts)
        share = counts / counts.sum()
        context.temperature, context.early = temperature, early
        parts = (scaled, other, counted, weights, sums, counts, share)
        context.save_for_backward(*(_info_nce_gradients(*parts, temperature) if early else parts))
        return (share * (sums.log() + largest - (scaled * other).sum(1))).sum()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        if context.early:
            one_gradient, other_gradient = context.saved_tensors
            return gradient * one_gradient, gradient * other_gradient, None, None, None
        scaled, other, counted, weights, sums, counts, share = context.saved_tensors
        parts = (scaled, other, counted, weights, sums, counts, gradient * share)
        return *_info_nce_gradients(*parts, context.temperature), None, None, None


def _info_nce_gradients(
    scaled: Tensor,
    other: Tensor,
    counted: Tensor,
    weights: Tensor,
    sums: Tensor,
    counts: Tensor,
    share: Tensor,
    temperature: float,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of `one` and `other`; `share` is the weight of each row in the mean."""
    share = share[:, None]
    expected = torch.mm(weights, counted).div_(sums[:, None])  # (n, d): mean of `other` under each row's softmax
    one_gradient = expected.sub_(other).mul_(share / temperature)
    other_gradient = torch.mm(weights.T, scaled * (share / sums[:, None])).mul_(counts[:, None])
    return one_gradient, other_gradient.sub_(scaled * share)
