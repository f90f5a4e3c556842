"""Counterfactual constraint: keeps the vectors of a node similar across views (the paper's L_u and L_b)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from clbr.counterfactual.config import ViewsConfig
from clbr.models.layers import unit_rows
from clbr.models.objectives import info_nce

DISTANCES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "exponential": lambda cosine, temperature: -(cosine / temperature).exp(),  # the paper's choice
    "cosine": lambda cosine, temperature: 1 - cosine,
}
"""Distances D(x, y) of unit vectors by name, as functions of the cosine x.y and a temperature."""


def adaptive(
    view: Tensor, factual: Tensor, weight: float = 1.0, temperature: float = 1.0, distance: str = "exponential"
) -> Tensor:
    """Return the adaptive constraint (the paper's relaxed constraint):

        mean over i of [ D(c_i, f_i) - weight * mean over j != i of D(c_j, f_i) ]

    `view` holds the unit rows c of some nodes on a view, `factual` the unit rows f of the same nodes on the factual
    graph. The paper has a sum over j; the mean makes the weight independent of the number n of nodes. The paper's
    lambda equals weight / (n - 1).
    """
    distances = DISTANCES[distance](factual @ view.T, temperature)  # (n, n): f_i to c_j
    same = distances.diagonal().sum()
    others = (distances.sum() - same) / max(len(factual) - 1, 1)
    return (same - weight * others) / len(factual)


def constant(
    view: Tensor,
    factual: Tensor,
    threshold: float | None = None,
    temperature: float = 1.0,
    distance: str = "exponential",
    hinge: bool = True,
) -> Tensor:
    """Return the constraint with a fixed threshold: mean over i of max(0, D(c_i, f_i) - threshold).

    The default threshold is D at a cosine of 0.9. Without the hinge the result is the mean of D(c_i, f_i).
    """
    measure = DISTANCES[distance]
    distances = measure((factual * view).sum(1), temperature)
    if not hinge:
        return distances.mean()
    limit = measure(factual.new_tensor(0.9), temperature) if threshold is None else threshold
    return (distances - limit).clamp(min=0).mean()


def constraint_loss(config: ViewsConfig, view: Sequence[Tensor], factual: Sequence[Tensor], weight: float) -> Tensor:
    """Return the constraint of the settings on some nodes' embeddings, given level by level, (n, d) each.

    The levels are concatenated, or with `per_level` the result is the mean over the levels. `weight` is the adaptive
    constraint's lambda.
    """
    levels = list(zip(view, factual, strict=True))
    if not config.per_level:
        levels = [(torch.cat(list(view), dim=1), torch.cat(list(factual), dim=1))]
    terms = []
    for ours, theirs in levels:
        c, f = unit_rows(ours), unit_rows(theirs)
        if config.constraint == "adaptive":
            terms.append(adaptive(c, f, weight, config.tau, config.distance))
        elif config.constraint == "contrastive":
            terms.append(info_nce(f, c, f.new_ones(len(f)), config.tau))
        else:
            terms.append(constant(c, f, config.threshold, config.tau, config.distance, config.hinge))
    return torch.stack(terms).mean()
