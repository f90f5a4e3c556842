from pathlib import Path

import pytest

from clbr import InputError
from clbr.experiments.spec import read_spec
from conftest import ROOT

GOOD = 'title = "T"\nmodels = ["lightgcn"]\n[arms.original]\n'


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda path: path.stem)
def test_every_specification_that_comes_along_can_be_read(path: Path) -> None:
    assert read_spec(path).base == "original"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("lightgcn", "lightgnc"), "did you mean 'lightgcn'?"),
        (GOOD + 'paradigm = "clrb"', "unknown paradigm 'clrb', did you mean 'clbr'?"),
        (GOOD + "vary = [{ rate = [] }]", "'rate' varies over nothing"),
        (GOOD.replace("[arms", "seedz = 3\n[arms"), "unknown key 'seedz', did you mean 'seeds'?"),
        (GOOD + "setings = {}", "unknown key 'arms.original.setings'"),
        (GOOD.replace("[arms.original]", "[arms]"), "arms"),
        (GOOD.replace('["lightgcn"]', "[]"), "models"),
        (GOOD.replace("[arms", "seeds = 0\n[arms"), "seeds = 0"),
        (GOOD.replace("[arms", 'baseline = "orignal"\n[arms'), "did you mean 'original'?"),
        (GOOD.replace("[arms", 'figure = "lines"\n[arms'), "give an arm something to vary"),
        (GOOD.replace("[arms", 'figure = "surface"\n[arms') + "vary = [{ rate = [0.1] }]", "a table of two to vary"),
        (GOOD.replace("[arms", 'metrics = ["recall@7"]\n[arms'), "metrics"),
        (GOOD + 'models = ["bgcn"]', "an arm names the model 'bgcn'"),
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


def test_what_is_no_specification_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a specification"):
        read_spec(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read_spec(tmp_path / "s.toml")
