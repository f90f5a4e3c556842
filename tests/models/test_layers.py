import pytest
import torch
from torch.nn.functional import normalize

from clbr.models.layers import dropout, unit_rows
from clbr.rng import torch_generator


def test_unit_rows_are_torchs_normalize_forward_and_back() -> None:
    x = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(unit_rows(x), normalize(x))
    assert torch.autograd.gradcheck(unit_rows, x)
    assert unit_rows(torch.zeros(2, 3)).tolist() == torch.zeros(2, 3).tolist()


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_strikes_its_share_keeps_the_mean_and_the_seed(rate: float) -> None:
    x = torch.ones(1000, 37)
    struck = dropout(x, rate, torch_generator(0, "noise"))
    assert (struck == 0).float().mean().item() == pytest.approx(rate, abs=0.01)
    assert struck.mean().item() == pytest.approx(1.0, abs=0.01)
    assert torch.equal(struck, dropout(x, rate, torch_generator(0, "noise")))
    assert not torch.equal(struck, dropout(x, rate, torch_generator(1, "noise")))


def test_no_generator_no_dropout() -> None:
    x = torch.randn(3, 3)
    assert dropout(x, 0.5, None) is x
