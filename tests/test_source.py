"""What holds for every source file: its size, its words, and that it names no option of the command line."""

import ast
import re
from pathlib import Path

import pytest

from conftest import ROOT

SOURCES = sorted((ROOT / "src" / "clbr").rglob("*.py"))
OLD_WORDS = re.compile(
    r"\b(artefacts?|floors|desk|newcomers?|judge[ds]?|judgements?|told|heard|refuse[ds]?|shelf|arms?|tune_pairs|mask_tune)\b",
    re.IGNORECASE,
)
"""Words that were replaced by those of the field."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT / "src" / "clbr"))


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno + 1 <= 50, f"{node.name} has more than 50 lines"


@pytest.mark.parametrize("path", [p for p in SOURCES if p.name != "names.py"], ids=name)
def test_the_words_are_those_of_the_field(path: Path) -> None:
    assert not (found := OLD_WORDS.search(path.read_text())), found


@pytest.mark.parametrize("path", [p for p in SOURCES if "cli" not in p.parts], ids=name)
def test_the_library_names_no_option_of_the_command_line(path: Path) -> None:
    texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
    options = [text for text in texts if isinstance(text, str) and re.search(r"(^|[\s(`'\"])--[a-z]", text)]
    assert not options
