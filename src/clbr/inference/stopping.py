"""Stopping a computation early: whoever starts it may end it between two blocks of its work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class StoppedError(RuntimeError):
    """The computation was stopped before its end."""


def _never() -> bool:
    return False


_should_stop: ContextVar[Callable[[], bool]] = ContextVar("should_stop", default=_never)


@contextmanager
def stoppable(should_stop: Callable[[], bool]) -> Iterator[None]:
    """Within the block, computations of this thread end with a `StoppedError` soon after `should_stop()` is true."""
    token = _should_stop.set(should_stop)
    try:
        yield
    finally:
        _should_stop.reset(token)


def check_stop() -> None:
    """Raise a `StoppedError` if the computation is to stop. Long loops call it once a block."""
    if _should_stop.get()():
        raise StoppedError("the computation was stopped before its end")
