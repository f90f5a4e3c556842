"""The counterfactual constraint: keeps a node recognisable across views (the paper's L_u and L_b)."""

from collections.abc import Callable

from torch import Tensor

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
