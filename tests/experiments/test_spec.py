from pathlib import Path

import pytest

from clbr import BundleDataset, InputError
from clbr.experiments.report.results import Results
from clbr.experiments.spec import Variant, read_spec
from conftest import ROOT
from invented import cells, fill

GOOD = 'title = "T"\nmodels = ["lightgcn"]\n[variants.original]\n'


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").rglob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_specification_can_be_read(path: Path) -> None:
    others = {
        "controls": "clbr",
        "objectives": "bpr",
        "ablation": "trilevel",
        "cold": "uncalibrated",
        "wide": "trilevel",
        "best": "softmax",
    }
    assert read_spec(path).reference_variant == others.get(path.stem, "original")


def test_the_controls_are_each_compared_with_clbr(small: BundleDataset, tmp_path: Path) -> None:
    plan = read_spec(ROOT / "experiments" / "controls.toml").model_copy(update={"seeds": 1})
    variant_cells = cells(plan, small)
    results = Results(plan, small, variant_cells, fill(tmp_path / "c", small, variant_cells, lambda one: 0.4))
    compared = [
        (group.model, group.variant, reference.variant)
        for group in results.groups
        if (reference := results.reference(group))
    ]
    assert "trilevel" in plan.models
    controls = ("original", "computation", "edge dropout")
    assert compared == [(model, variant, "clbr") for model in plan.models for variant in controls]


def test_the_grids_are_within_what_the_paper_searched() -> None:
    (ratios, omegas) = (
        read_spec(ROOT / "experiments" / f"{name}.toml").variants["clbr"] for name in ("ratios", "omegas")
    )
    for table in ratios.vary:
        assert list(table.values()) == [[0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]]
    for values in omegas.vary[0].values():
        assert (min(values), max(values)) == (0.01, 10.0)  # both sides of 5, above which the paper sees a collapse


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("lightgcn", "lightgnc"), "did you mean 'lightgcn'?"),
        (GOOD + 'paradigm = "clrb"', "unknown paradigm 'clrb', did you mean 'clbr'?"),
        (GOOD + "vary = [{ learning_rate = [] }]", "vary has no values for 'learning_rate'"),
        ("pairs = true\n" + GOOD + "vary = [{ dim = [8, 16] }]", "pairs: varied settings make too many pairs of rows"),
        (GOOD.replace("[variants", "seedz = 3\n[variants"), "unknown key 'seedz', did you mean 'seeds'?"),
        (GOOD + "setings = {}", "unknown key 'variants.original.setings', did you mean 'settings'?"),
        (GOOD + "zzz = {}", "unknown key 'variants.original.zzz', known: models, paradigm, preset, settings, vary"),
        (
            GOOD + "vary = [{ 'tau+' = [0.1] }]",
            "variants.original: vary has the key 'tau+': expected a setting's name on each side of the +",
        ),
        (GOOD + "vary = [{}]", "vary has an empty table"),
        (
            GOOD + "vary = [{ learning_rate = [0.5, 0.1, 0.5] }]",
            "values of 'learning_rate': 0.5 is listed twice; remove one",
        ),
        (GOOD + "vary = [{ tau = [1.0, 2.0], 'tau+omega_u' = [0.5] }]", "in one table of vary: tau is listed twice"),
        (GOOD + "vary = [{ 'tau+' = [1], 'omega_u+' = [2] }]", "the key 'tau+': expected a setting's name on each"),
        (GOOD + "vary = [{ 'tau+tau' = [0.5] }]", "in one table of vary: tau is listed twice"),
        (GOOD + 'models = ["lightgcn", "lightgcn"]', "models: lightgcn is listed twice"),
        (GOOD.replace('["lightgcn"]', '["lightgcn", "lightgcn"]'), "models: lightgcn is listed twice"),
        (GOOD.replace("[variants", 'metrics = ["ndcg@20", "ndcg@20"]\n[variants'), "metrics: ndcg@20 is listed twice"),
        (GOOD.replace("[variants.original]", "[variants]"), "variants"),
        (GOOD.replace('["lightgcn"]', "[]"), "models"),
        (GOOD.replace("[variants", "seeds = 0\n[variants"), "seeds = 0"),
        (GOOD.replace("[variants", 'reference = "orignal"\n[variants'), "did you mean 'original'?"),
        (GOOD.replace("[variants", 'reference_model = "ligtgcn"\n[variants'), "did you mean 'lightgcn'?"),
        (GOOD.replace("[variants", 'figure = "lines"\n[variants'), "shows varied settings: add vary to a variant"),
        (
            GOOD.replace("[variants", 'figure = "surface"\n[variants') + "vary = [{ learning_rate = [0.1] }]",
            "add a table with two settings to vary",
        ),
        (GOOD.replace("[variants", 'metrics = ["recall@7"]\n[variants'), "metrics"),
        (GOOD + 'models = ["bgcn"]', "a variant names the model 'bgcn'"),
        (GOOD.replace('models = ["lightgcn"]', ""), "s.toml: models: is missing"),
        ("title = ", "not valid TOML"),
    ],
)
def test_an_error_in_a_specification_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_spec(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert "Value error" not in str(error.value)
    assert "'title'" not in str(error.value)  # the content is not repeated


def test_a_point_in_two_tables_counts_once() -> None:
    variant = Variant.make({"vary": [{"tau": [0.5, 1.0]}, {"tau": [1.0, 2.0]}]})
    assert variant.points() == [{"tau": 0.5}, {"tau": 1.0}, {"tau": 2.0}]


def test_a_path_that_is_not_a_specification_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a specification"):
        read_spec(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read_spec(tmp_path / "s.toml")


def test_the_path_of_a_preset_file_starts_at_the_specification_and_has_no_detour() -> None:
    preset = read_spec(ROOT / "experiments" / "best.toml").variants["bpr"].preset
    assert preset == str(ROOT / "results" / "studies" / "objectives" / "{model}-bpr.toml")
