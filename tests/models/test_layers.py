import pytest
import torch
from torch.nn.functional import normalize

from clbr.graph import kernels
from clbr.models.layers import add_noise, dropout, grow, unit_rows
from clbr.rng import torch_generator


def test_unit_rows_equal_torchs_normalize_forward_and_backward() -> None:
    x = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(unit_rows(x), normalize(x))
    assert torch.autograd.gradcheck(unit_rows, x)
    assert unit_rows(torch.zeros(2, 3)).tolist() == torch.zeros(2, 3).tolist()


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_removes_its_share_keeps_the_mean_and_depends_on_the_seed(rate: float) -> None:
    x = torch.ones(1000, 37)
    dropped = dropout(x, rate, torch_generator(0, "noise"))
    assert (dropped == 0).float().mean().item() == pytest.approx(rate, abs=0.01)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.01)
    assert torch.equal(dropped, dropout(x, rate, torch_generator(0, "noise")))
    assert not torch.equal(dropped, dropout(x, rate, torch_generator(1, "noise")))


def test_a_rate_close_to_one_removes_almost_all_entries_but_not_all() -> None:
    x = torch.ones(1000, 64)
    dropped = dropout(x, 0.9999, torch_generator(0, "noise"))
    assert dropped.unique().tolist() == [0.0, 256.0]
    grown, _ = grow(x, torch.zeros(64), x, 0.9999, torch_generator(0, "noise"))
    assert grown.unique().tolist() == [0.0, 256.0]


def test_without_a_generator_there_is_no_dropout() -> None:
    x = torch.randn(3, 3)
    assert dropout(x, 0.5, None) is x


def test_noise_has_its_length_and_the_signs_of_the_row_and_leaves_zeros_and_gradients_as_they_are() -> None:
    x = torch.randn(1000, 37, dtype=torch.float64)
    x[0] = 0.0
    x.requires_grad_()
    noisy = add_noise(x, 0.3, torch_generator(0, "noise"))
    added = (noisy - x).detach()
    torch.testing.assert_close(added[1:].norm(dim=1), torch.full((999,), 0.3, dtype=torch.float64))
    assert (added * x.sign() >= 0).all()
    assert not added[0].any()
    assert added[1:].abs().mean().item() == pytest.approx(0.3 * (3 / 37) ** 0.5 / 2, rel=0.01)  # uniform on [0, 1]
    assert torch.equal(noisy, add_noise(x, 0.3, torch_generator(0, "noise")))
    assert not torch.equal(noisy, add_noise(x, 0.3, torch_generator(1, "noise")))
    (gradient,) = torch.autograd.grad(noisy.sum(), x)
    assert (gradient == 1).all()
    assert add_noise(x, 0.3, None) is x and add_noise(x, 0.0, torch_generator(0, "noise")) is x


def test_grow_is_activation_concatenation_dropout_and_unit_rows() -> None:
    message, bias, hidden = torch.tensor([[3.0, -100.0]]), torch.tensor([1.0, 0.0]), torch.tensor([[2.0]])
    grown, unit = grow(message, bias, hidden, 0.5, None)
    torch.testing.assert_close(grown, torch.tensor([[4.0, -1.0, 2.0]]))
    torch.testing.assert_close(unit, grown / 21**0.5)


@pytest.mark.parametrize("used", ["both", "grown", "unit"])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_the_compiled_layer_and_the_torch_version_agree_forward_and_backward(
    rate: float, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = torch_generator(0, "inputs")
    shapes = ((301, 5), (5,), (301, 8))
    inputs = [torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_() for shape in shapes]
    weights = torch.randn(2, 301, 13, generator=draw, dtype=torch.float64)

    def outcome() -> list[torch.Tensor]:
        grown, unit = grow(inputs[0], inputs[1], inputs[2], rate, torch_generator(7, "noise"))
        value = {"both": grown * weights[0] + unit * weights[1], "grown": grown, "unit": unit * weights[1]}[used]
        return [grown, unit, *torch.autograd.grad(value.sum(), inputs)]

    compiled = outcome()
    monkeypatch.setattr(kernels, "available", False)
    for one, other in zip(compiled, outcome(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(not kernels.available, reason="needs numba")
def test_the_gradient_of_the_compiled_layer_is_right() -> None:
    shapes = ((4, 3), (3,), (4, 6))
    inputs = [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes]
    assert torch.autograd.gradcheck(lambda a, b, c: grow(a, b, c, 0.3, torch_generator(1, "noise")), inputs)
