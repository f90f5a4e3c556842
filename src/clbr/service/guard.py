"""The guard around every route: request ids, token, allowed hosts, limits; afterwards the log line and the metrics.

Plain ASGI: the framework's own middleware costs more than a recommendation.
"""

import asyncio
import hmac
import logging
import re
import secrets
from time import perf_counter
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clbr.service.limits import Limits, applied
from clbr.service.metrics import Metrics
from clbr.service.request_error import RequestError

OPEN = re.compile(r"/|/page/[^/]*|/report/[^/]*|/live|/ready")
"""Paths that need no token: the page holds no data, and the report's address is a secret itself."""
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
PROBES = ("/live", "/ready", "/metrics")
"""Answered even at the limit of concurrent requests: a monitor may restart a service that does not answer them."""
LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.IGNORECASE)
SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
NO_STORE = (b"cache-control", b"no-store")
log = logging.getLogger("clbr.service")


class Guard:
    """The ASGI middleware that wraps the application."""

    def __init__(self, app: ASGIApp, token: str | None, limits: Limits, metrics: Metrics) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.token = token.encode() if token else None
        self.active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, response = perf_counter(), _Response(send, _request_id(scope), scope["method"])
        if response.method == "HEAD":  # as GET, without its body
            scope = {**scope, "method": "GET"}
        scope["request_id"] = response.request_id
        self._count_active(1)
        try:
            with applied(self.limits):
                headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))  # of several with one name the first
                self._check(scope, headers)
                body = await _read_body(receive, self.limits) if scope["method"] == "POST" else _replay(b"", receive)
                await self.app(scope, body, response.send)
        except RequestError as error:
            await _send_error(response.send, error, response.request_id)
        except Exception:  # our own fault: the details go to the log only
            log.exception("failed", extra={"fields": {"request": response.request_id, "path": scope["path"]}})
            if response.started:
                raise
            unknown = RequestError(500, "something went wrong here; the service's log says what")
            await _send_error(response.send, unknown, response.request_id)
        finally:
            self._count_active(-1)
            self._log(scope, response, perf_counter() - start)

    def _count_active(self, change: int) -> None:
        self.active += change
        self.metrics.active.set(self.active)

    def _log(self, scope: Scope, response: "_Response", seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self.metrics.count(route, response.status, seconds)
        level = logging.ERROR if response.status == 500 else logging.INFO
        if log.isEnabledFor(level):
            fields = {"request": response.request_id, "method": response.method, "path": scope["path"]}
            fields |= {"status": response.status, "ms": round(1e3 * seconds, 2), "artifact": response.artifact}
            log.log(level, "answered", extra={"fields": fields})

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Reject what is not allowed."""
        most = self.limits.concurrent
        if self.active > most and scope["path"] not in PROBES:
            raise RequestError(429, f"{most} requests are being answered already: try again in a moment")
        host = headers.get(b"host", b"").decode("latin-1")
        if self.token is None and not LOOPBACK.fullmatch(host):  # a foreign page could let its name point here
            raise RequestError(403, "without a token this service answers on this machine only: ask for 127.0.0.1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and _host_of(origin) != host:
            raise RequestError(403, "requests from pages of another origin are not answered")
        if self.token is not None and not OPEN.fullmatch(scope["path"]):
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self.token):
                raise RequestError(401, "a token is needed: send it as Authorization: Bearer TOKEN")
        length, most = headers.get(b"content-length", b"0"), self.limits.body_bytes
        if length.isdigit() and int(length[:20]) > most:
            raise RequestError(413, f"a request of {int(length[:20]):,} bytes: at most {most:,} are read")


class _Response:
    """Sends a response with the common headers, to HEAD without its body, and remembers what was sent."""

    def __init__(self, send: Send, request_id: str, method: str) -> None:
        self.inner, self.request_id, self.method = send, request_id, method
        self.status, self.artifact, self.started = 500, "", False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.started = message["status"], True
            headers = message.setdefault("headers", [])
            self.artifact = next((value.decode() for name, value in headers if name == b"x-artifact"), "")
            cached = any(name == b"cache-control" for name, _ in headers)
            added = [(b"x-request-id", self.request_id.encode()), *SECURITY_HEADERS, *([] if cached else [NO_STORE])]
            message["headers"] = [*headers, *added]
        elif self.method == "HEAD":
            message = {**message, "body": b""}
        await self.inner(message)


def _request_id(scope: Scope) -> str:
    """The client's request id if it is a plain one, else a new one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given.decode() if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


async def _read_body(receive: Receive, limits: Limits) -> Receive:
    """Read the whole body, within its limits of size and time; gives a `receive` that replays it."""
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(limits.body_seconds):
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > limits.body_bytes:
                    raise RequestError(413, f"more than {limits.body_bytes:,} bytes: at most so many are read")
    except TimeoutError:
        raise RequestError(408, f"the request did not arrive within {limits.body_seconds:g} seconds") from None
    return _replay(bytes(body), receive)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives this body, then what follows."""
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


async def _send_error(send: Send, error: RequestError, request_id: str) -> None:
    headers, content = error.response(request_id)
    headers["content-length"] = str(len(content))
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": encoded})
    await send({"type": "http.response.body", "body": content})
