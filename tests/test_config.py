import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from clbr.config import Config
from clbr.errors import InputError


class Inner(Config):
    depth: int = 1
    labels: tuple[str, ...] = ()


class Settings(Config):
    rate: float = Field(0.1, gt=0)
    name: str = "a"
    on: bool = False
    many: tuple[int, ...] = ()
    maybe: int | None = None
    inner: Inner = Inner()
    table: dict[str, str] = {}


def test_an_unknown_key_is_an_error_that_names_the_nearest_known_one() -> None:
    with pytest.raises(InputError, match=r"unknown key 'rat', did you mean 'rate'\?"):
        Settings.make({"rat": 0.2})


def test_an_unknown_key_of_an_inner_table_is_named_with_its_table() -> None:
    with pytest.raises(InputError, match=r"unknown key 'inner.dept', did you mean 'depth'\?"):
        Settings.make({"inner": {"dept": 2}})


def test_a_key_unlike_all_others_gets_the_list_of_known_ones() -> None:
    with pytest.raises(InputError, match="known: inner, many, maybe, name, on, rate, table"):
        Settings.make({"zzz": 1})


@pytest.mark.parametrize("value", ["0.1", True, None, -1, float("nan"), float("inf"), [1.0]])
def test_a_value_of_the_wrong_type_or_range_is_an_error_with_its_key(value: object) -> None:
    with pytest.raises(InputError, match="rate"):
        Settings.make({"rate": value})


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().rate = 0.5  # type: ignore[misc]


@given(
    st.builds(
        Settings,
        rate=st.floats(min_value=1e-300, allow_infinity=False, allow_nan=False),
        name=st.text(),
        on=st.booleans(),
        many=st.lists(st.integers(-(2**62), 2**62)).map(tuple),
        maybe=st.none() | st.integers(-(2**62), 2**62),
        inner=st.builds(Inner, depth=st.integers(-5, 5), labels=st.lists(st.text()).map(tuple)),
        table=st.dictionaries(st.text(), st.text()),
    )
)
def test_settings_written_to_toml_are_read_back_equal(settings: Settings) -> None:
    assert Settings.make(tomllib.loads(settings.to_toml())) == settings


def test_a_toml_file_is_read_and_a_broken_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("rate = 0.5\n[inner]\nlabels = ['x', 'y']\n")
    assert Settings.from_toml(path) == Settings(rate=0.5, inner=Inner(labels=("x", "y")))
    path.write_text("rate = = 1")
    with pytest.raises(InputError, match=r"settings.toml: not valid TOML"):
        Settings.from_toml(path)
    with pytest.raises(InputError, match="No such file"):
        Settings.from_toml(tmp_path / "none.toml")
