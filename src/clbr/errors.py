"""The one error that bad input raises, and the message for a missing optional package."""

from importlib import import_module
from types import ModuleType


class InputError(ValueError):
    """Something the caller gave cannot be used; the message says what, where, and what to do.

    The command line prints it as one line and exits with code 2.
    """


def require(module: str, extra: str) -> ModuleType:
    """Import an optional package, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError as cause:
        name = module.partition(".")[0]
        raise InputError(f"this needs {name}, which is not installed: pip install 'clbr[{extra}]'") from cause
