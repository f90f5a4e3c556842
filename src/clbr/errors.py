"""The one error that bad input raises, where it was found, and the message for a missing optional package."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType


class InputError(ValueError):
    """Something the caller gave cannot be used; the message says what, where, and what to do.

    The command line prints it as one line and exits with code 2.
    """


@contextmanager
def found_in(place: object) -> Iterator[None]:
    """Say of bad input where it was found: in which file, in which part of it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def require(module: str, extra: str) -> ModuleType:
    """Import an optional package, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError as cause:
        name = module.partition(".")[0]
        raise InputError(f"this needs {name}, which is not installed: pip install 'clbr[{extra}]'") from cause
