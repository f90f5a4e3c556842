"""The one error that bad input raises, and the message for a missing optional package."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType


class InputError(ValueError):
    """Bad input. The message says what was found, where, and what to do.

    `arguments` names the arguments that can mend it ("out", "force"). The message itself never names a command-line
    option: the command line adds the options of these names, prints one line and exits with code 2.
    """

    def __init__(self, message: str, *arguments: str) -> None:
        super().__init__(message)
        self.arguments = arguments


class UnknownIdError(InputError):
    """An id that no node has; `kind` is user, bundle or item."""

    def __init__(self, message: str, kind: str, id: str) -> None:
        super().__init__(message)
        self.kind, self.id = kind, id


class UnsupportedError(InputError):
    """A question that this model cannot answer, for instance a what-if of a model without a graph."""


@contextmanager
def found_in(place: object) -> Iterator[None]:
    """Prefix the message of an `InputError` with the place where the input was found (a file, a part of it)."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}", *error.arguments) from None


def require(module: str, extra: str) -> ModuleType:
    """Import an optional package, or raise an `InputError` that names the extra to install."""
    try:
        return import_module(module)
    except ImportError as cause:
        name = module.partition(".")[0]
        raise InputError(f"this needs {name}, which is not installed: pip install 'clbr[{extra}]'") from cause
