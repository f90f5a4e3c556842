"""The README is run: every command of its sh blocks, and its Python."""

import subprocess
import sys
from pathlib import Path

import pytest

from docs_helpers import README, runnable

CLBR = f"{sys.executable} -c 'from clbr.cli import main; main()'"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The three tables that the README imports."""
    carts = [f"c{c},k{(c + k) % 12}" for c in range(30) for k in range(5)]
    (tmp_path / "carts.csv").write_text("\n".join(["customer,cart", *carts]))
    (tmp_path / "bought.csv").write_text("\n".join(["customer,sku", *(f"c{c},s{c % 9}" for c in range(30))]))
    (tmp_path / "contents.csv").write_text("\n".join(["cart,sku", *(f"k{k},s{k % 9}" for k in range(12))]))
    return tmp_path


def test_every_command_of_the_readme_works(shop: Path) -> None:
    script = "\n".join(["set -e", f'clbr() {{ {CLBR} "$@"; }}', *runnable(README, "sh")])
    done = subprocess.run(["bash", "-c", script], cwd=shop, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "popularity" in done.stdout


def test_the_python_of_the_readme_works(tmp_path: Path) -> None:
    (script,) = runnable(README, "python")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "recall@5" in done.stdout
    assert "rank_after" in done.stdout


def test_the_readme_names_its_two_commands_and_stays_short() -> None:
    text = README.read_text()
    assert "make demo" in text
    assert "make test" in text
    assert len(text.splitlines()) <= 100


def test_every_public_name_has_a_docstring() -> None:
    import clbr

    for name in clbr.__all__:
        assert getattr(clbr, name).__doc__, name
    assert set(clbr._MODULES) | {"__version__"} == set(clbr.__all__)
