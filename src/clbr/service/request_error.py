"""RequestError: a request that is not answered, with its HTTP status and JSON payload."""

import json

from clbr.errors import InputError, UnknownIdError, UnsupportedError

API = "/v1"
"""Prefix of the routes whose requests and answers are a contract; a change that breaks it needs another prefix."""
RETRY_SECONDS = 1


class RequestError(InputError):
    """A rejected request; the message says what to do. An unknown id is named, with its kind."""

    def __init__(self, status: int, message: str, kind: str | None = None, id: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.id = status, kind, id

    @classmethod
    def of(cls, error: InputError) -> "RequestError":
        """From an error of the library: 404 for an unknown id, 409 for an unsupported question, else 422."""
        if isinstance(error, RequestError):
            return error
        if isinstance(error, UnknownIdError):
            return cls(404, f"{error}; {API}/find?kind={error.kind}&text=... finds ids", error.kind, error.id)
        return cls(409 if isinstance(error, UnsupportedError) else 422, str(error))

    def response(self, request_id: str) -> tuple[dict[str, str], bytes]:
        """Headers and body."""
        headers = {"content-type": "application/json"}
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        if self.status in (429, 503):
            headers["retry-after"] = str(RETRY_SECONDS)
        if self.status in (408, 413):
            headers["connection"] = "close"  # the rest of the body is not read
        payload = {"error": str(self), "request": request_id, "kind": self.kind, "id": self.id}
        return headers, json.dumps(payload).encode()
