from dataclasses import replace

import numpy as np
import pytest

from clbr import BundleDataset, InputError
from clbr.data.pairs import Pairs
from clbr.experiments.cell_run import training_data
from clbr.experiments.noise import Noise, add_noise
from invented import cells, spec


def as_set(pairs: Pairs) -> set[tuple[int, int]]:
    return {(int(left), int(right)) for left, right in pairs}


@pytest.mark.parametrize(
    ("kind", "kept", "added"), [("replace", 0.75, 0.25), ("add", 1.0, 0.25), ("remove", 0.75, 0.0)]
)
@pytest.mark.parametrize(("relation", "field"), [("ub", "train"), ("ui", "ui"), ("bi", "bi")])
def test_a_share_of_the_edges_is_changed(
    small: BundleDataset, kind: str, kept: float, added: float, relation: str, field: str
) -> None:
    noisy = add_noise(small, Noise.make({"noise": kind, f"noise_{relation}": 0.25}))
    before, after = as_set(getattr(small, field)), as_set(getattr(noisy, field))
    changed = round(0.25 * len(before))
    assert len(before & after) == len(before) - changed * (kept < 1)
    assert len(after - before) == changed * (added > 0)
    for other in {"train", "ui", "bi", "validation", "test"} - {field}:
        assert np.array_equal(getattr(noisy, other), getattr(small, other))
    if relation == "ub":
        assert not after & (as_set(small.validation) | as_set(small.test))


def test_a_smaller_share_is_part_of_a_larger_one_and_no_noise_is_the_data_set_itself(small: BundleDataset) -> None:
    few, many = (as_set(add_noise(small, Noise(noise_ui=rate)).ui) - as_set(small.ui) for rate in (0.1, 0.4))
    assert few < many
    assert add_noise(small, Noise(noise="add")) is small


def test_a_share_that_cannot_be_is_an_error(small: BundleDataset) -> None:
    with pytest.raises(InputError, match="noise_bi 1: no pair is left; choose a smaller share"):
        add_noise(small, Noise(noise="remove", noise_bi=1.0))
    full = replace(small, ui=np.argwhere(np.ones((len(small.users), len(small.items)))).astype(np.int32))
    with pytest.raises(InputError, match="random pairs are wanted, and 0 are free; choose a smaller share"):
        add_noise(full, Noise(noise="add", noise_ui=0.1))
    with pytest.raises(InputError, match="noise_ub"):
        cells(spec(variants={"original": {"settings": {"noise_ub": 1.5}}}), small)


def test_noise_is_a_setting_of_a_variant_that_can_vary(small: BundleDataset) -> None:
    plain, varied = {}, {"vary": [{"noise_ub": [0.0, 0.2]}], "settings": {"noise": "add"}}
    base, none, some = cells(spec(variants={"original": plain, "noisy": varied}, seeds=1), small)
    assert base.cell.key == none.cell.key != some.cell.key
    assert some.point == {"noise_ub": 0.2}
    assert training_data(small, base.cell) is small
    data = training_data(small, some.cell)
    assert len(data.train) == len(small.train) + round(0.2 * len(small.train))
    assert data.name == f"{small.name}-add-ub0.2"


def test_the_selection_model_of_a_noisy_cell_is_trained_on_the_same_noise(small: BundleDataset) -> None:
    (one,) = cells(spec(variants={"clbr": {"paradigm": "clbr", "settings": {"noise_ui": 0.3}}}, seeds=1), small)
    assert one.cell.selection_cell is not None
    assert one.cell.selection_cell.noise == one.cell.noise == Noise(noise_ui=0.3)
