"""Diagnostics of the paper's Lemmas 1 and 2, measured on a model's vectors over counterfactual views."""

from collections.abc import Sequence
from math import e, isfinite, pi

import torch
from torch import Tensor

from clbr.counterfactual.constraint import adaptive
from clbr.graph.graph import BundleGraph
from clbr.models.base import Encoder
from clbr.models.layers import unit_rows

RIDGE = 1e-8
"""Added to every variance. With few views and unit rows, the variance in some directions is 0."""
MAX_NODES = 1024
"""Largest number of users, and of bundles, that are measured."""


@torch.no_grad()
def measure(
    model: Encoder,
    graph: BundleGraph,
    views: Sequence[BundleGraph],
    temperature: float,
    distance: str,
    generator: torch.Generator,
) -> dict[str, float]:
    """Measure both terms of the adaptive constraint and the Gaussian entropies of the lemmas, for users and bundles.

    - `alignment`: L_consis, the mean of D(c_i, f_i).
    - `uniformity`: L_unres, minus the mean of D(c_j, f_i) over j != i (the paper has a sum).
    - `conditional entropy`: H(U^c | X, G) in nats with independent dimensions, from the variance of a node's vector
      over the views; the mean over nodes.
    - `entropy`: H(U^c) in nats, from the covariance over nodes.

    At most MAX_NODES nodes of each kind are measured, drawn by `generator`. Values that are not finite are left out:
    for a temperature near 0 the exponential distance overflows.
    """
    found: dict[str, float] = {}
    on_graph, on_views = model.encode(graph), [model.encode(view) for view in views]
    for side in ("users", "bundles"):
        rows = on_graph.joined(side)
        nodes = torch.randperm(len(rows), generator=generator)[:MAX_NODES].to(rows.device)
        factual = unit_rows(rows.index_select(0, nodes))
        counterfactual = torch.stack([unit_rows(v.joined(side).index_select(0, nodes)) for v in on_views])  # (v, n, d)
        terms = [[adaptive(c, factual, weight, temperature, distance) for weight in (0.0, 1.0)] for c in counterfactual]
        found[f"alignment {side}"] = _mean([own for own, _ in terms])
        found[f"uniformity {side}"] = _mean([both - own for own, both in terms])
        variances = torch.cat([counterfactual, factual[None]]).var(dim=0, correction=1) + RIDGE  # (n, d)
        found[f"conditional entropy {side}"] = float(0.5 * (2 * pi * e * variances).log().sum(1).mean())
        found[f"entropy {side}"] = _mean([_entropy(c) for c in counterfactual])
    return {name: value for name, value in found.items() if isfinite(value)}


def _entropy(rows: Tensor) -> Tensor:
    """Return the entropy of the Gaussian that has the rows' covariance, in nats."""
    covariance = torch.cov(rows.double().T).reshape(rows.shape[1], rows.shape[1])
    ridged = covariance + RIDGE * torch.eye(rows.shape[1], dtype=torch.float64, device=rows.device)
    determinant: Tensor = torch.linalg.slogdet(2 * pi * e * ridged).logabsdet
    return 0.5 * determinant


def _mean(values: Sequence[Tensor]) -> float:
    return float(torch.stack(list(values)).mean())
