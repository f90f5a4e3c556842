"""The counterfactual constraint, compared with the paper's formula and computed by hand."""

from math import exp, log

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from clbr.counterfactual.config import ViewsConfig
from clbr.counterfactual.constraint import adaptive, constant, constraint_loss


def literal_constraint(view: list[list[float]], fact: list[list[float]], lam: float, tau: float) -> float:
    """The paper's L_u, literally: with a sum over j and the paper's lambda."""

    def apart(one: list[float], other: list[float]) -> float:
        return -exp(sum(a * b for a, b in zip(one, other, strict=True)) / tau)

    total = 0.0
    for i, mine in enumerate(fact):
        others = sum(apart(view[j], mine) for j in range(len(view)) if j != i)
        total += apart(view[i], mine) - lam * others
    return total / len(fact)


def unit_pairs(n: int = 7, d: int = 5) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(n)
    one, other = (torch.randn(n, d, generator=draw, dtype=torch.float64) for _ in range(2))
    return normalize(one).requires_grad_(), normalize(other).requires_grad_()


@pytest.mark.parametrize("tau", [1.0, 0.3])
@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
def test_the_adaptive_constraint_is_the_papers_with_lambda_converted(tau: float, weight: float) -> None:
    view, fact = unit_pairs()
    expected = literal_constraint(view.tolist(), fact.tolist(), weight / (len(view) - 1), tau)
    assert adaptive(view, fact, weight, tau).item() == pytest.approx(expected)
    assert torch.autograd.gradcheck(lambda c, f: adaptive(c, f, weight, tau), (view, fact))


def test_the_gradient_of_the_adaptive_constraint_is_the_papers() -> None:
    """By differences of the literal transcription."""
    view, fact = unit_pairs(4, 3)
    (gradient,) = torch.autograd.grad(adaptive(view, fact, 1.5, 0.5), view)
    rows, step = view.tolist(), 1e-6
    for i, k in ((0, 0), (2, 1), (3, 2)):
        ends = []
        for move in (step, -step):
            moved = [list(row) for row in rows]
            moved[i][k] += move
            ends.append(literal_constraint(moved, fact.tolist(), 1.5 / 3, 0.5))
        assert gradient[i, k].item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5)


def test_one_node_alone_has_no_others() -> None:
    row = torch.tensor([[1.0, 0.0]])
    assert adaptive(row, row, 5.0).item() == pytest.approx(-exp(1))


def test_the_constant_constraint_by_hand() -> None:
    fact = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    view = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # D = -e and -1; the threshold is -exp(0.9)
    assert constant(view, fact).item() == pytest.approx((0 + exp(0.9) - 1) / 2)
    assert constant(view, fact, hinge=False).item() == pytest.approx((-exp(1) - 1) / 2)
    assert constant(view, fact, threshold=-2.0).item() == pytest.approx(0.5)
    assert constant(view, fact, distance="cosine").item() == pytest.approx((0 + 1 - 0.1) / 2)
    assert constant(view, fact, temperature=0.5, hinge=False).item() == pytest.approx((-exp(2) - 1) / 2)


def test_the_constraint_is_on_concatenated_levels_or_the_mean_over_the_levels() -> None:
    draw = torch.Generator().manual_seed(0)
    view, factual = ([torch.randn(6, d, generator=draw) for d in (3, 5)] for _ in range(2))
    for name, one in (("adaptive", lambda c, f: adaptive(c, f, 2.0)), ("constant", constant)):
        config = ViewsConfig(constraint=name)  # type: ignore[arg-type]
        joined = one(normalize(torch.cat(view, 1)), normalize(torch.cat(factual, 1)))
        assert constraint_loss(config, view, factual, 2.0).item() == pytest.approx(joined.item(), rel=1e-5)
        levels = [one(normalize(c), normalize(f)).item() for c, f in zip(view, factual, strict=True)]
        config = config.model_copy(update={"per_level": True})
        assert constraint_loss(config, view, factual, 2.0).item() == pytest.approx(sum(levels) / 2, rel=1e-5)


def test_the_contrastive_constraint_by_hand() -> None:
    rows = [torch.tensor([[2.0, 0.0], [0.0, 3.0]])]
    config = ViewsConfig(constraint="contrastive", tau=0.5)
    assert constraint_loss(config, rows, rows, 1.0).item() == pytest.approx(log(1 + exp(-2)), rel=1e-5)
