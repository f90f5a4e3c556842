"""What the pages show is run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from typed import Run


def test_the_model_of_your_own_trains_with_views(tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "counterfactual.md").read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 0 < float(done.stdout) < 1


def test_answers_in_python(tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "answers.md").read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[None]\n")


def test_the_experiment_of_your_own_runs_and_is_reported(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "experiments.md").read_text()
    (spec,), (commands,), (script,) = (
        re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL) for language in ("toml", "sh", "python")
    )
    Path("temperature.toml").write_text(spec)
    for line in commands.splitlines():
        code, _, err = run(*shlex.split(line)[1:])
        assert code == 0, err
    assert list(Path("cells").glob("*/reports/temperature/temperature.html"))
    exec(script, {"__name__": "page"})
    assert "Outcome(done=3, of=3, failed={})" in capsys.readouterr().out


def test_the_page_on_experiments_names_every_field() -> None:
    from clbr.experiments.spec import Arm, Spec

    page = (ROOT / "docs" / "experiments.md").read_text()
    for field in (*Spec.model_fields, *Arm.model_fields):
        assert f"`{field}`" in page, field
