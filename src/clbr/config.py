"""Config: the base class of all settings. Immutable, strict, read from and written to TOML."""

import json
import tomllib
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from clbr.errors import InputError


def nearest(word: str, known: list[str]) -> str:
    """A hint for an unknown word: the most similar known word, or all known words."""
    close = get_close_matches(word, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(sorted(known))}"


def whole_number(value: object, name: str, least: int = 1) -> int:
    """An argument as a whole number of at least `least`; numpy's are whole numbers too, True and 5.0 are not."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value.__index__()) < least:
        raise InputError(f"{name} = {value!r:.40}: expected a whole number, at least {least}", name)
    return int(value.__index__())


def _plain(value: object) -> Any:
    """A number of numpy or torch as a plain one, for JSON."""
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        return value.item()
    raise TypeError(f"{value!r:.60} is neither a number nor a text nor a list of them")


class Config(BaseModel):
    """Immutable settings. Unknown keys and values of a wrong type or range are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def make(cls, settings: dict[str, Any], source: str = "settings") -> Self:
        """Build from plain values. Wrong ones raise an `InputError` that starts with `source`."""
        try:
            # In JSON mode lists become tuples, as TOML needs, but "1" does not become 1.
            return cls.model_validate_json(json.dumps(settings, default=_plain))
        except ValidationError as error:
            raise InputError(f"{source}: " + "; ".join(cls.explain(error))) from None
        except (TypeError, ValueError) as error:
            raise InputError(f"{source}: {error}") from None

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read settings from a TOML file."""
        try:
            settings = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: not valid TOML ({error})") from None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        return cls.make(settings, str(path))

    def to_toml(self) -> str:
        """The settings as TOML text; fields that are None are left out."""
        return "\n".join(_lines(self.model_dump(mode="json"))) + "\n"

    @classmethod
    def explain(cls, error: ValidationError) -> list[str]:
        """One line per fault: the key, the value found, what was expected."""
        return [_explain_one(cls, fault) for fault in error.errors(include_url=False)]


def _explain_one(cls: type[BaseModel], fault: Any) -> str:
    *parents, key = fault["loc"] or ("",)
    dotted = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "value_error":  # the message of a validator of several values
        return f"{dotted}: {fault['ctx']['error']}" if dotted else str(fault["ctx"]["error"])
    if fault["type"] == "missing":  # the input would be all other values
        return f"{dotted}: is missing"
    if fault["type"] != "extra_forbidden":
        return f"{dotted} = {fault['input']!r}: {fault['msg']}" if dotted else fault["msg"]
    for part in parents:  # find the settings class that has no such key
        if part in cls.model_fields:
            cls = _inner(cls.model_fields[part].annotation) or cls
    return f"unknown key '{dotted}', {nearest(str(key), list(cls.model_fields))}"


def _inner(kind: Any) -> type[BaseModel] | None:
    """The settings class in an annotation, alone or within a dict, a list or a union."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return next((found for part in get_args(kind) if (found := _inner(part))), None)


# The standard library reads TOML but does not write it. Settings need only this part of the format.
def _lines(table: dict[str, Any], prefix: str = "") -> list[str]:
    lines = [f"{_key(k)} = {_value(v)}" for k, v in table.items() if v is not None and not isinstance(v, dict)]
    for k, v in table.items():
        if isinstance(v, dict):
            name = f"{prefix}{_key(k)}"
            lines += ["", f"[{name}]", *_lines(v, f"{name}.")]
    return lines


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else _string(key)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and isfinite(value):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None) + "}"
    return str(value)
