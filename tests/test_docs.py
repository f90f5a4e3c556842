"""What the pages show is run."""

import re
import subprocess
import sys
from pathlib import Path

from conftest import ROOT


def test_the_model_of_your_own_trains_with_views(tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "counterfactual.md").read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 0 < float(done.stdout) < 1
