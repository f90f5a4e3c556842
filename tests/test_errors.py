import pytest

from clbr.errors import InputError, found_in, require


def test_a_missing_package_is_named_with_the_extra_that_installs_it() -> None:
    with pytest.raises(InputError, match=r"this needs no_such_package.*pip install 'clbr\[plot\]'"):
        require("no_such_package.inner", "plot")


def test_an_installed_package_is_imported() -> None:
    assert require("json", "plot").dumps([1]) == "[1]"


def test_the_place_of_bad_input_is_put_before_the_message_and_arguments_are_kept() -> None:
    with (
        pytest.raises(InputError, match=r"^s.toml: variant clbr: unknown setting$") as caught,
        found_in("s.toml"),
        found_in("variant clbr"),
    ):
        raise InputError("unknown setting", "settings")
    assert caught.value.arguments == ("settings",)
    with pytest.raises(KeyError), found_in("s.toml"):  # another kind of error is not changed
        raise KeyError("ours")
