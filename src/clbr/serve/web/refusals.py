"""What is refused, and with which status."""

from clbr.errors import InputError


class RefusedError(InputError):
    """A request that is not answered; the message says what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
