import pytest

from clbr import BundleDataset, InputError
from clbr.experiments.cells import expand, select, with_selection_cells
from clbr.experiments.spec import Spec
from invented import cells, spec


def test_the_first_seeds_of_all_come_first(small: BundleDataset) -> None:
    placed = cells(spec(models=["lightgcn", "crosscbr"], seeds=2), small)
    assert [one.cell.config.seed for one in placed] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [one.arm for one in placed[:4]] == ["original", "clbr"] * 2


def test_equal_cells_of_different_specifications_are_one(small: BundleDataset) -> None:
    one = cells(spec(), small)
    other = cells(
        spec(title="Other", arms={"plain": {}, "views": {"paradigm": "clbr", "settings": {"tau": 1.0}}}), small
    )
    assert [placed.cell.key for placed in one] == [placed.cell.key for placed in other]


def test_a_key_does_not_depend_on_where_the_data_lies_but_on_all_else(small: BundleDataset) -> None:
    def keys(plan: Spec, data: str = "here", fingerprint: str = "f") -> set[str]:
        return {placed.cell.key for placed in expand(plan, data, fingerprint, small.name)}

    plan = spec(seeds=1)
    assert keys(plan) == keys(plan, data="there")
    assert not keys(plan) & keys(plan, fingerprint="g")
    for change in ({"learning_rate": 0.5}, {"dim": 8}, {"share": 0.5}):
        other = spec(seeds=1, arms={"original": {"settings": change}, "clbr": {"paradigm": "clbr", "settings": change}})
        assert not keys(plan) & keys(other), change


def test_a_key_is_the_same_in_every_version(small: BundleDataset) -> None:
    """If this fails, records that people have kept are not found any more: do not change the number, mend the key."""
    (first, second) = expand(spec(seeds=1), "x", "fingerprint", small.name)
    assert (first.cell.key, second.cell.key) == ("lightgcn-original-0-9ccf82546e7b", "lightgcn-clbr-0-98d9471cf483")


def test_a_judge_comes_before_the_cells_it_judges_and_once(small: BundleDataset) -> None:
    arms = {"clbr": {"paradigm": "clbr"}, "dropout": {"paradigm": "clbr", "settings": {"sampler": "dropout"}}, "o": {}}
    placed = cells(spec(arms=arms, seeds=1), small)
    clbr, dropout, original = (one.cell for one in placed)
    assert dropout.judge is None
    assert original.judge is None
    assert [cell.key for cell in with_selection_cells([clbr, dropout, original])] == [
        original.key,
        clbr.key,
        dropout.key,
    ]


def test_a_judge_has_the_same_share_of_the_pairs(small: BundleDataset) -> None:
    (placed,) = cells(spec(arms={"clbr": {"paradigm": "clbr", "settings": {"share": 0.5}}}, seeds=1), small)
    assert placed.cell.judge is not None
    assert placed.cell.judge.share == 0.5


@pytest.mark.parametrize("share", [0, -1, 1.5, "all", True])
def test_a_share_that_is_none_is_refused(small: BundleDataset, share: object) -> None:
    with pytest.raises(InputError, match="arm original: share"):
        cells(spec(arms={"original": {"settings": {"share": share}}}), small)


def test_a_setting_that_is_not_known_is_refused_with_its_arm(small: BundleDataset) -> None:
    with pytest.raises(InputError, match="arm original: unknown setting 'rat'"):
        cells(spec(arms={"original": {"settings": {"rat": 1.0}}}), small)


def test_selecting(small: BundleDataset) -> None:
    arms = {"original": {}, "clbr": {"paradigm": "clbr", "vary": [{"tau": [0.5, 1.0]}, {"ratio_ub": [0.1, 0.2]}]}}
    placed = cells(spec(arms=arms, seeds=1), small)
    assert len(placed) == 5
    assert [one.point for one in select(placed, [], ["clbr"], {"tau": [1.0], "ratio_ub": [0.2]})] == [
        {"tau": 1.0},
        {"ratio_ub": 0.2},
    ]
    with pytest.raises(InputError, match="no arm 'clb', did you mean 'clbr'"):
        select(placed, [], ["clb"], {})
    with pytest.raises(InputError, match="tau=7: no such value; tau varies over 0.5, 1.0"):
        select(placed, [], ["clbr"], {"tau": [0.5, 7]})
    arms = {"original": {}, "clbr": {"paradigm": "clbr", "models": ["lightgcn"]}}
    with pytest.raises(InputError, match="nothing of the specification is left"):
        select(cells(spec(models=["lightgcn", "bprmf"], arms=arms), small), ["bprmf"], ["clbr"], {})


def test_a_plus_sets_several_settings_at_once(small: BundleDataset) -> None:
    arms = {"clbr": {"paradigm": "clbr", "vary": [{"lambda_u+lambda_b": [0.5]}]}}
    (placed,) = cells(spec(arms=arms, seeds=1), small)
    assert placed.cell.config.views is not None
    assert (placed.cell.config.views.lambda_u, placed.cell.config.views.lambda_b) == (0.5, 0.5)
