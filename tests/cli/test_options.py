import pytest

from clbr.cli.options import parse_changes, parse_ks
from clbr.errors import InputError


def test_changes_are_toml_values_or_text() -> None:
    texts = ["a=1", "b=0.5", "c=true", "d=[1, 2]", "e=text", "f = x=y", 'g="1"']
    values = [1, 0.5, True, [1, 2], "text", "x=y", "1"]
    assert list(parse_changes(texts).items()) == list(zip("abcdefg", values, strict=True))
    for text in ("rate", "=1", "rate="):
        with pytest.raises(InputError, match=f"--set {text}: expected key=value"):
            parse_changes([text])


def test_cut_offs_are_sorted_and_distinct() -> None:
    assert parse_ks("40, 20,20") == [20, 40]
    for text in ("", "0", "x", "20,", "9999999"):
        with pytest.raises(InputError, match="expected whole numbers from 1 to 999999"):
            parse_ks(text)
