import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from clbr.models.objectives import bpr, info_nce


def test_bpr_worked_out_by_hand() -> None:
    positive, negative = torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0, 1.0], [0.0, 2.0]])
    expected = -torch.tensor([1.0, 0.0, 0.0, -2.0]).sigmoid().log().mean()
    assert bpr(positive, negative).item() == pytest.approx(expected.item())


@pytest.mark.parametrize("temperature", [1.0, 0.25, 0.01])
def test_info_nce_equals_cross_entropy_with_repeated_rows(temperature: float) -> None:
    draw = torch.Generator().manual_seed(0)
    one, other = (torch.randn(7, 5, generator=draw, dtype=torch.float64).requires_grad_() for _ in range(2))
    counts = torch.tensor([1, 3, 1, 2, 1, 1, 4])
    repeated = torch.repeat_interleave(torch.arange(7), counts)
    ours = info_nce(normalize(one), normalize(other), counts.double(), temperature)
    logits = normalize(one)[repeated] @ normalize(other)[repeated].T / temperature
    plain = cross_entropy(logits, torch.arange(len(repeated)))
    # In the plain version every copy of a row has its own target; the value is the same for each copy.
    torch.testing.assert_close(ours, plain)
    for mine, theirs in zip(
        torch.autograd.grad(ours, (one, other)), torch.autograd.grad(plain, (one, other)), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("temperature", [0.03, 0.01, 1e-4])
def test_info_nce_is_finite_where_all_cosines_are_negative(temperature: float) -> None:
    one = normalize(torch.randn(5, 3, generator=torch.Generator().manual_seed(0))).abs().requires_grad_()
    other = -one.detach()
    ours = info_nce(one, other, torch.ones(5), temperature)
    plain = cross_entropy(one @ other.T / temperature, torch.arange(5))
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(torch.autograd.grad(ours, one), torch.autograd.grad(plain, one), rtol=1e-4, atol=1e-3)


def test_the_gradient_of_info_nce_is_right() -> None:
    one, other = (normalize(torch.randn(6, 4, dtype=torch.float64)).requires_grad_() for _ in range(2))
    counts = torch.tensor([1.0, 2.0, 1.0, 1.0, 3.0, 1.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a, b: info_nce(a, b, counts, 0.5), (one, other))
