"""What is refused, with which status and in which words."""

import json

from clbr.errors import InputError

ALLOW_AGAIN = 1
"""Seconds after which it is worth trying again."""


class RefusedError(InputError):
    """A request that is not answered; the message says what to do. An unknown node is named, so that a page can."""

    def __init__(self, status: int, message: str, kind: str | None = None, id: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.id = status, kind, id

    def answer(self, request: str) -> tuple[dict[str, str], bytes]:
        """Headers and body."""
        headers = {"content-type": "application/json"}
        headers |= {401: {"www-authenticate": "Bearer"}, 429: {"retry-after": str(ALLOW_AGAIN)}}.get(self.status, {})
        if self.status in (408, 413):
            headers["connection"] = "close"  # the rest of the body is not waited for
        told = {"error": str(self), "request": request, "kind": self.kind, "id": self.id}
        return headers, json.dumps(told).encode()
