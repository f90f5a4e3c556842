"""The guard around every route: request ids, token, allowed hosts, limits; afterwards the log line and the counters.

Plain ASGI: the framework's own middleware costs more than a recommendation.
"""

import asyncio
import hmac
import logging
import re
import secrets
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clbr.service import limits
from clbr.service.request_error import RequestError

if TYPE_CHECKING:
    from clbr.service.worker import Worker

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
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
"""Buckets of response times."""
log = logging.getLogger("clbr.service")


class Counters:
    """The Prometheus metrics of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("clbr_requests", "Requests answered", ["route", "status"], registry=self.registry)
        self.seconds = Histogram(
            "clbr_request_seconds", "Time to the end of an answer", ["route"], buckets=SECONDS, registry=self.registry
        )
        self.active = Gauge("clbr_requests_active", "Requests being answered", registry=self.registry)
        self.waiting = Gauge("clbr_requests_waiting", "Requests at the worker or in its queue", registry=self.registry)
        self.artifact = Gauge("clbr_artifact", "The artifact that answers", ["id", "model"], registry=self.registry)
        self.swaps = Gauge("clbr_artifact_swaps", "Artifacts swapped, or rejected", ["result"], registry=self.registry)

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(route, status).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self, worker: "Worker") -> bytes:
        """All metrics in Prometheus' text format."""
        artifact = worker.current.artifact
        self.waiting.set(worker.waiting)
        self.artifact.clear()
        self.artifact.labels(artifact.checksum[:12], artifact.about.model).set(1)
        for result, count in worker.swaps.items():
            self.swaps.labels(result).set(count)
        return generate_latest(self.registry)


class Guard:
    """The ASGI middleware that wraps the application."""

    def __init__(self, app: ASGIApp, token: str | None, counters: Counters) -> None:
        self.app, self.counters = app, counters
        self.token = token.encode() if token else None
        self.active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, response = perf_counter(), _Response(send, _request_id(scope))
        scope["request_id"] = response.request_id
        self.active += 1
        self.counters.active.set(self.active)
        try:
            headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))  # of several with one name the first
            self._check(scope, headers)
            body = await _read_body(receive) if scope["method"] == "POST" else _no_body
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
            self.active -= 1
            self.counters.active.set(self.active)
            self._log(scope, response, perf_counter() - start)

    def _log(self, scope: Scope, response: "_Response", seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self.counters.count(route, response.status, seconds)
        level = logging.INFO if response.status < 500 else logging.ERROR
        if log.isEnabledFor(level):
            fields = {"request": response.request_id, "method": scope["method"], "path": scope["path"]}
            fields |= {"status": response.status, "ms": round(1e3 * seconds, 2), "artifact": response.artifact}
            log.log(level, "answered", extra={"fields": fields})

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Reject what is not allowed."""
        if self.active > limits.CONCURRENT and scope["path"] not in PROBES:
            raise RequestError(429, f"{limits.CONCURRENT} requests are being answered already: try again in a moment")
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
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > limits.BODY_BYTES:
            raise RequestError(413, f"a request of {int(length[:20]):,} bytes: at most {limits.BODY_BYTES:,} are read")


class _Response:
    """Sends a response with the common headers, and remembers what was sent."""

    def __init__(self, send: Send, request_id: str) -> None:
        self.inner, self.request_id = send, request_id
        self.status, self.artifact, self.started = 500, "", False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.started = message["status"], True
            headers = message.setdefault("headers", [])
            self.artifact = next((value.decode() for name, value in headers if name == b"x-artifact"), "")
            cached = any(name == b"cache-control" for name, _ in headers)
            added = [(b"x-request-id", self.request_id.encode()), *SECURITY_HEADERS, *([] if cached else [NO_STORE])]
            message["headers"] = [*headers, *added]
        await self.inner(message)


def _request_id(scope: Scope) -> str:
    """The client's request id if it is a plain one, else a new one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given.decode() if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


async def _no_body() -> Message:
    """The message of a request without a body; a body that is sent all the same is not read."""
    return {"type": "http.request", "body": b"", "more_body": False}


async def _read_body(receive: Receive) -> Receive:
    """Read the whole body, within its limits of size and time; gives a `receive` that replays it."""
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(limits.BODY_SECONDS):
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > limits.BODY_BYTES:
                    raise RequestError(413, f"more than {limits.BODY_BYTES:,} bytes: at most so many are read")
    except TimeoutError:
        raise RequestError(408, f"the request did not arrive within {limits.BODY_SECONDS:g} seconds") from None
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:  # the next message is a disconnect
            return await receive()
        replayed = True
        return {"type": "http.request", "body": bytes(body), "more_body": False}

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
