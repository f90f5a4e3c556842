import numpy as np
import pytest
import torch

from clbr.rng import generator, pair_gumbel, torch_generator


def test_the_seed_and_the_name_determine_the_numbers() -> None:
    assert (generator(1, "split").random(9) == generator(1, "split").random(9)).all()
    assert torch.equal(
        torch.rand(9, generator=torch_generator(1, "init")), torch.rand(9, generator=torch_generator(1, "init"))
    )


@pytest.mark.parametrize("other", [(1, "splits"), (2, "split"), (1, "split", "x"), (1, "spl", "it")])
def test_another_name_or_seed_gives_independent_numbers(other: tuple[int, ...]) -> None:
    one, two = generator(1, "split").random(2000), generator(*other).random(2000)  # type: ignore[arg-type]
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.1


def test_the_numbers_are_the_same_on_every_machine() -> None:
    assert generator(7, "world").integers(1000, size=4).tolist() == [818, 341, 511, 870]


def test_the_noise_of_a_pair_does_not_depend_on_the_other_pairs() -> None:
    left, right = np.arange(50)[:, None], np.arange(40)[None, :]
    grid = pair_gumbel(3, "mood", left, right)
    assert grid.shape == (50, 40)
    assert pair_gumbel(3, "mood", np.array([17]), np.array([31]))[0] == grid[17, 31]
    assert pair_gumbel(4, "mood", np.array([17]), np.array([31]))[0] != grid[17, 31]


def test_noise_is_gumbel_and_uncorrelated_between_neighbours() -> None:
    noise = pair_gumbel(0, "mood", np.arange(400)[:, None], np.arange(400)[None, :])
    assert noise.mean() == pytest.approx(0.5772, abs=0.01)
    assert noise.var() == pytest.approx(np.pi**2 / 6, rel=0.02)
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 0.01
    assert abs(np.corrcoef(noise[:, :-1].ravel(), noise[:, 1:].ravel())[0, 1]) < 0.01
