from dataclasses import replace
from pathlib import Path

import pytest

from clbr import BundleDataset, InputError
from clbr.counterfactual.config import CASRConfig, ViewsConfig
from clbr.experiments.cells import expand, select, with_selection_cells
from clbr.experiments.spec import Spec, read_spec
from invented import cells, spec


def test_the_first_seeds_of_all_come_first(small: BundleDataset) -> None:
    variant_cells = cells(spec(models=["lightgcn", "crosscbr"], seeds=2), small)
    assert [one.cell.config.seed for one in variant_cells] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [one.variant for one in variant_cells[:4]] == ["original", "clbr"] * 2


def test_equal_cells_of_different_specifications_are_one(small: BundleDataset) -> None:
    one = cells(spec(), small)
    other = cells(
        spec(title="Other", variants={"plain": {}, "views": {"paradigm": "clbr", "settings": {"tau": 1.0}}}), small
    )
    assert [variant_cell.cell.key for variant_cell in one] == [variant_cell.cell.key for variant_cell in other]


def test_a_key_does_not_depend_on_where_the_data_lies_but_on_all_else(small: BundleDataset) -> None:
    def keys(plan: Spec, data: str = "here", fingerprint: str = "f") -> set[str]:
        return {one.cell.key for one in expand(plan, data, fingerprint, small.name)}

    plan = spec(seeds=1)
    assert keys(plan) == keys(plan, data="there")
    assert not keys(plan) & keys(plan, fingerprint="g")
    for change in ({"learning_rate": 0.5}, {"dim": 8}, {"share": 0.5}):
        other = spec(
            seeds=1, variants={"original": {"settings": change}, "clbr": {"paradigm": "clbr", "settings": change}}
        )
        assert not keys(plan) & keys(other), change


def test_a_key_is_the_same_in_every_version(small: BundleDataset) -> None:
    """If this fails, existing records are not found any more: do not change the number, repair the key."""
    (first, second) = expand(spec(seeds=1), "x", "fingerprint", small.name)
    assert (first.cell.key, second.cell.key) == ("lightgcn-original-0-c94d7cbccb77", "lightgcn-clbr-0-61ec97155271")


def test_a_key_depends_on_values_and_not_on_the_class_that_has_them(small: BundleDataset) -> None:
    (casr,) = cells(spec(variants={"casr": {"paradigm": "casr"}}, seeds=1), small)
    views = casr.cell.config.views
    assert views is not None
    keys = {
        replace(casr.cell, config=casr.cell.config.model_copy(update={"views": kind.make(views.model_dump())})).key
        for kind in (CASRConfig, ViewsConfig)
    }
    assert keys == {casr.cell.key}
    (other,) = cells(spec(variants={"casr": {"paradigm": "casr", "settings": {"confident": 0.3}}}, seeds=1), small)
    assert other.cell.key != casr.cell.key


def test_training_settings_do_not_apply_to_models_in_closed_form(small: BundleDataset) -> None:
    variants = {"original": {"settings": {"epochs": 7, "share": 0.5, "metric": "ndcg@20"}}}
    bprmf, ease = cells(spec(models=["bprmf", "ease"], variants=variants, seeds=1), small)
    assert (bprmf.cell.config.train.epochs, ease.cell.config.train.epochs) == (7, 1)
    assert (ease.cell.share, ease.cell.config.train.metric) == (0.5, "ndcg@20")


def test_a_specification_can_do_without_a_preset(small: BundleDataset) -> None:
    rates = []
    for preset in (None, "youshu", "none"):
        first, *_ = expand(spec(models=["bgcn"], preset=preset), "x", "f", "Youshu")
        rates.append(first.cell.config.train.learning_rate)
    assert rates == [0.003, 0.003, 0.001]


def test_a_variant_can_have_a_preset_file_for_each_model(small: BundleDataset, tmp_path: Path) -> None:
    for model, rate in (("bprmf", 0.02), ("lightgcn", 0.03)):
        (tmp_path / f"{model}-tuned.toml").write_text(f"[train]\nlearning_rate = {rate}\n")
    (tmp_path / "spec.toml").write_text(
        'title = "t"\nmodels = ["bprmf", "lightgcn"]\nseeds = 1\npreset = "none"\n[variants.plain]\n'
        '[variants.tuned]\npreset = "{model}-tuned.toml"\n'
    )
    rates = [one.cell.config.train.learning_rate for one in cells(read_spec(tmp_path / "spec.toml"), small)]
    assert rates == [0.001, 0.02, 0.001, 0.03]


def test_a_selection_cell_comes_once_and_before_the_cells_that_need_it(small: BundleDataset) -> None:
    variants = {
        "clbr": {"paradigm": "clbr"},
        "dropout": {"paradigm": "clbr", "settings": {"sampler": "dropout"}},
        "o": {},
    }
    variant_cells = cells(spec(variants=variants, seeds=1), small)
    clbr, dropout, original = (one.cell for one in variant_cells)
    assert dropout.selection_cell is None
    assert original.selection_cell is None
    assert [cell.key for cell in with_selection_cells([clbr, dropout, original])] == [
        original.key,
        clbr.key,
        dropout.key,
    ]


def test_a_selection_cell_has_the_same_share_of_the_pairs(small: BundleDataset) -> None:
    (variant_cell,) = cells(spec(variants={"clbr": {"paradigm": "clbr", "settings": {"share": 0.5}}}, seeds=1), small)
    assert variant_cell.cell.selection_cell is not None
    assert variant_cell.cell.selection_cell.share == 0.5


@pytest.mark.parametrize("share", [0, -1, 1.5, "all", True])
def test_an_invalid_share_is_an_error(small: BundleDataset, share: object) -> None:
    with pytest.raises(InputError, match="variant original: share"):
        cells(spec(variants={"original": {"settings": {"share": share}}}), small)


def test_an_unknown_setting_is_an_error_that_names_the_variant(small: BundleDataset) -> None:
    with pytest.raises(InputError, match="variant original: unknown setting 'rat'"):
        cells(spec(variants={"original": {"settings": {"rat": 1.0}}}), small)


def test_cells_are_selected_by_model_variant_and_value(small: BundleDataset) -> None:
    variants = {"original": {}, "clbr": {"paradigm": "clbr", "vary": [{"tau": [0.5, 1.0]}, {"ratio_ub": [0.1, 0.2]}]}}
    variant_cells = cells(spec(variants=variants, seeds=1), small)
    assert len(variant_cells) == 5
    assert [one.point for one in select(variant_cells, [], ["clbr"], {"tau": [1.0], "ratio_ub": [0.2]})] == [
        {"tau": 1.0},
        {"ratio_ub": 0.2},
    ]
    points = [(one.variant, one.point) for one in select(variant_cells, [], [], {"tau": [1.0]})]
    assert points == [("original", {}), ("clbr", {"tau": 1.0})]
    with pytest.raises(InputError, match="no variant 'clb', did you mean 'clbr'"):
        select(variant_cells, [], ["clb"], {})
    with pytest.raises(InputError, match="tau=7: no cell has this value; tau varies over 0.5, 1.0"):
        select(variant_cells, [], ["clbr"], {"tau": [0.5, 7]})
    variants = {"original": {}, "clbr": {"paradigm": "clbr", "models": ["lightgcn"]}}
    with pytest.raises(InputError, match="no cell of the specification has these models, variants and values"):
        select(cells(spec(models=["lightgcn", "bprmf"], variants=variants), small), ["bprmf"], ["clbr"], {})


def test_a_plus_sets_several_settings_at_once(small: BundleDataset) -> None:
    variants = {"clbr": {"paradigm": "clbr", "vary": [{"lambda_u+lambda_b": [0.5]}]}}
    (variant_cell,) = cells(spec(variants=variants, seeds=1), small)
    assert variant_cell.cell.config.views is not None
    assert (variant_cell.cell.config.views.lambda_u, variant_cell.cell.config.views.lambda_b) == (0.5, 0.5)
