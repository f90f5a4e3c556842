"""What the paper's lemmas speak of, measured on a model's vectors over counterfactual views."""

from collections.abc import Sequence
from math import e, isfinite, pi

import torch
from torch import Tensor

from clbr.counterfactual.constraint import adaptive
from clbr.graph.graph import BundleGraph
from clbr.models.base import Encoder
from clbr.models.layers import unit_rows

RIDGE = 1e-8
"""Added to every variance: few views, and rows of unit length, leave directions in which nothing varies."""
NODES = 1024


@torch.no_grad()
def measure(
    model: Encoder,
    graph: BundleGraph,
    views: Sequence[BundleGraph],
    temperature: float,
    distance: str,
    draw: torch.Generator,
) -> dict[str, float]:
    """For users and bundles: the two terms of the constraint, and the Gaussian entropies of the two lemmas.

    `alignment` is L_consis, the mean of D(c_i, f_i); `uniformity` is L_unres, minus the mean of D(c_j, f_i) over
    j != i (a mean where the paper has a sum). `conditional entropy` is H(U^c | X, G) with independent dimensions, from
    the variance of a node's vector over the views, averaged over nodes; `entropy` is H(U^c), from the covariance over
    nodes. Both in nats. At most NODES nodes of each side are looked at. What is not finite is left out: near a
    temperature of 0 the exponential distance is beyond any number.
    """
    found: dict[str, float] = {}
    fact, others = model.encode(graph), [model.encode(view) for view in views]
    for side in ("users", "bundles"):
        rows = fact.joined(side)
        some = torch.randperm(len(rows), generator=draw)[:NODES].to(rows.device)
        here = unit_rows(rows.index_select(0, some))
        there = torch.stack([unit_rows(other.joined(side).index_select(0, some)) for other in others])  # (v, n, d)
        terms = [[adaptive(c, here, weight, temperature, distance) for weight in (0.0, 1.0)] for c in there]
        found[f"alignment {side}"] = _mean([own for own, _ in terms])
        found[f"uniformity {side}"] = _mean([both - own for own, both in terms])
        within = torch.cat([there, here[None]]).var(dim=0, correction=1) + RIDGE  # (n, d)
        found[f"conditional entropy {side}"] = float(0.5 * (2 * pi * e * within).log().sum(1).mean())
        found[f"entropy {side}"] = _mean([_entropy(c) for c in there])
    return {name: value for name, value in found.items() if isfinite(value)}


def _entropy(rows: Tensor) -> Tensor:
    """Of the Gaussian with the rows' covariance."""
    covariance = torch.cov(rows.double().T).reshape(rows.shape[1], rows.shape[1])
    ridged = covariance + RIDGE * torch.eye(rows.shape[1], dtype=torch.float64, device=rows.device)
    determinant: Tensor = torch.linalg.slogdet(2 * pi * e * ridged).logabsdet
    return 0.5 * determinant


def _mean(values: Sequence[Tensor]) -> float:
    return float(torch.stack(list(values)).mean())
