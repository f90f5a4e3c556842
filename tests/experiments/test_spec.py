from pathlib import Path

import pytest

from clbr import BundleDataset, InputError
from clbr.experiments.report.results import Results
from clbr.experiments.spec import Arm, read_spec
from conftest import ROOT
from invented import cells, fill

GOOD = 'title = "T"\nmodels = ["lightgcn"]\n[arms.original]\n'


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").rglob("*.toml")), ids=lambda path: path.stem)
def test_every_specification_that_comes_along_can_be_read(path: Path) -> None:
    assert read_spec(path).base == ("clbr" if path.stem == "controls" else "original")


def test_the_controls_are_each_held_against_clbr(small: BundleDataset, tmp_path: Path) -> None:
    plan = read_spec(ROOT / "experiments" / "controls.toml").model_copy(update={"seeds": 1})
    placed = cells(plan, small)
    results = Results(plan, small, placed, fill(tmp_path / "c", small, placed, lambda one: 0.4))
    compared = [(group.model, group.arm, base.arm) for group in results.groups if (base := results.base(group))]
    controls = ("original", "computation", "edge dropout")
    assert compared == [(model, arm, "clbr") for model in ("bgcn", "crosscbr") for arm in controls]


def test_the_grids_are_within_what_the_paper_searched() -> None:
    (ratios, omegas) = (read_spec(ROOT / "experiments" / f"{name}.toml").arms["clbr"] for name in ("ratios", "omegas"))
    for table in ratios.vary:
        assert list(table.values()) == [[0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]]
    for values in omegas.vary[0].values():
        assert (min(values), max(values)) == (0.01, 10.0)  # both sides of 5, above which the paper sees a collapse


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("lightgcn", "lightgnc"), "did you mean 'lightgcn'?"),
        (GOOD + 'paradigm = "clrb"', "unknown paradigm 'clrb', did you mean 'clbr'?"),
        (GOOD + "vary = [{ learning_rate = [] }]", "'rate' varies over nothing"),
        (GOOD.replace("[arms", "seedz = 3\n[arms"), "unknown key 'seedz', did you mean 'seeds'?"),
        (GOOD + "setings = {}", "unknown key 'arms.original.setings', did you mean 'settings'?"),
        (GOOD + "zzz = {}", "unknown key 'arms.original.zzz', known: models, paradigm, settings, vary"),
        (
            GOOD + "vary = [{ 'rate+' = [0.1] }]",
            "arms.original: 'rate+' varies: expected the name of a setting on each",
        ),
        (GOOD + "vary = [{}]", "an empty table in vary"),
        (
            GOOD + "vary = [{ learning_rate = [0.5, 0.1, 0.5] }]",
            "the values of 'rate': 0.5 is there twice; leave one out",
        ),
        (GOOD + "vary = [{ tau = [1.0, 2.0], 'tau+rate' = [0.5] }]", "vary together: tau is there twice"),
        (GOOD + "vary = [{ 'tau+' = [1], 'rate+' = [2] }]", "'tau+' varies: expected the name of a setting on each"),
        (GOOD + "vary = [{ 'tau+tau' = [0.5] }]", "vary together: tau is there twice"),
        (GOOD + 'models = ["lightgcn", "lightgcn"]', "models: lightgcn is there twice"),
        (GOOD.replace('["lightgcn"]', '["lightgcn", "lightgcn"]'), "models: lightgcn is there twice"),
        (GOOD.replace("[arms", 'metrics = ["ndcg@20", "ndcg@20"]\n[arms'), "metrics: ndcg@20 is there twice"),
        (GOOD.replace("[arms.original]", "[arms]"), "arms"),
        (GOOD.replace('["lightgcn"]', "[]"), "models"),
        (GOOD.replace("[arms", "seeds = 0\n[arms"), "seeds = 0"),
        (GOOD.replace("[arms", 'baseline = "orignal"\n[arms'), "did you mean 'original'?"),
        (GOOD.replace("[arms", 'figure = "lines"\n[arms'), "give an arm something to vary"),
        (
            GOOD.replace("[arms", 'figure = "surface"\n[arms') + "vary = [{ learning_rate = [0.1] }]",
            "a table of two to vary",
        ),
        (GOOD.replace("[arms", 'metrics = ["recall@7"]\n[arms'), "metrics"),
        (GOOD + 'models = ["bgcn"]', "an arm names the model 'bgcn'"),
        (GOOD.replace('models = ["lightgcn"]', ""), "s.toml: models: is missing"),
        ("title = ", "not valid TOML"),
    ],
)
def test_what_is_wrong_with_a_specification_is_said_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_spec(path)
    assert message in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "Value error" not in str(refused.value)
    assert "'title'" not in str(refused.value)  # the whole of it is not repeated


def test_a_point_that_two_tables_have_is_one() -> None:
    arm = Arm.make({"vary": [{"tau": [0.5, 1.0]}, {"tau": [1.0, 2.0]}]})
    assert arm.points() == [{"tau": 0.5}, {"tau": 1.0}, {"tau": 2.0}]


def test_what_is_no_specification_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a specification"):
        read_spec(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read_spec(tmp_path / "s.toml")
