import pytest

from clbr.errors import InputError, require


def test_a_missing_package_is_named_with_the_extra_that_brings_it() -> None:
    with pytest.raises(InputError, match=r"this needs no_such_package.*pip install 'clbr\[plot\]'"):
        require("no_such_package.inner", "plot")


def test_a_package_that_is_there_is_given() -> None:
    assert require("json", "plot").dumps([1]) == "[1]"
