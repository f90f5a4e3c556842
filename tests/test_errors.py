import pytest

from clbr.errors import InputError, found_in, require


def test_a_missing_package_is_named_with_the_extra_that_brings_it() -> None:
    with pytest.raises(InputError, match=r"this needs no_such_package.*pip install 'clbr\[plot\]'"):
        require("no_such_package.inner", "plot")


def test_a_package_that_is_there_is_given() -> None:
    assert require("json", "plot").dumps([1]) == "[1]"


def test_where_bad_input_was_found_is_told_from_the_outside_in() -> None:
    with (
        pytest.raises(InputError, match=r"^s.toml: arm clbr: no such thing$"),
        found_in("s.toml"),
        found_in("arm clbr"),
    ):
        raise InputError("no such thing")
    with pytest.raises(KeyError), found_in("s.toml"):  # a fault of ours stays one
        raise KeyError("ours")
