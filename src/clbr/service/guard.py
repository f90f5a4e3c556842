"""Before any route: request ids, token, hosts, limits on size, time and number; after it: log and measures.

Plain ASGI: the framework's own middleware costs more than a recommendation does.
"""

import asyncio
import hmac
import logging
import re
import secrets
from time import perf_counter
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clbr.service import limits
from clbr.service.counters import Measures
from clbr.service.refusals import RefusedError

OPEN = re.compile(r"/|/page/[^/]*|/report/[^/]*|/live|/ready")
"""Paths that need no token: the page holds no data, and the report is at an address that only its reader knows."""
REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
PROBES = ("/live", "/ready", "/metrics")
"""Answered even when the house is full: whoever asks may decide to start the service anew."""
LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.IGNORECASE)
SAFETY = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
UNKEPT = (b"cache-control", b"no-store")
log = logging.getLogger("clbr.service")


class Guard:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, token: str | None, measures: Measures) -> None:
        self.app, self.measures = app, measures
        self.token = token.encode() if token else None
        self.inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, artifact, begun = perf_counter(), 500, "", False
        headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))  # of several by one name the first
        given = headers.get(b"x-request-id", b"")
        request = given.decode() if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope["request_id"] = request

        async def tell(message: Message) -> None:
            nonlocal status, artifact, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                told = message.setdefault("headers", [])
                artifact = next((value.decode() for name, value in told if name == b"x-artifact"), "")
                kept = any(name == b"cache-control" for name, _ in told)
                message["headers"] = [*told, (b"x-request-id", request.encode()), *SAFETY, *([] if kept else [UNKEPT])]
            await send(message)

        self.inside += 1
        self.measures.inside.set(self.inside)
        try:
            self._look(scope, headers)
            await self.app(scope, await _whole(receive) if scope["method"] == "POST" else _nothing, tell)
        except RefusedError as refusal:
            await _refuse(tell, refusal, request)
        except Exception:  # a fault of ours: told in full to the log, and to nobody else
            log.exception("failed", extra={"told": {"request": request, "path": scope["path"]}})
            if begun:
                raise
            await _refuse(tell, RefusedError(500, "something went wrong here; the log knows what"), request)
        finally:
            self.inside -= 1
            self.measures.inside.set(self.inside)
            seconds = perf_counter() - start
            route = getattr(scope.get("route"), "path", "other")
            self.measures.answered(route, status, seconds)
            level = logging.INFO if status < 500 else logging.ERROR
            if log.isEnabledFor(level):
                told = {"request": request, "method": scope["method"], "path": scope["path"], "status": status}
                log.log(level, "answered", extra={"told": told | {"ms": round(1e3 * seconds, 2), "artifact": artifact}})

    def _look(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Refuse what may not come in."""
        if self.inside > limits.AT_ONCE and scope["path"] not in PROBES:
            raise RefusedError(429, f"{limits.AT_ONCE} requests are being answered already: ask again in a moment")
        host = headers.get(b"host", b"").decode("latin-1")
        if self.token is None and not LOOPBACK.fullmatch(host):  # a page elsewhere could have its name point here
            raise RefusedError(403, "without a token this service answers on this machine only: ask for 127.0.0.1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and _place(origin) != host:
            raise RefusedError(403, "requests from pages of another origin are not answered")
        if self.token is not None and not OPEN.fullmatch(scope["path"]):
            scheme, _, shown = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(shown.strip(), self.token):
                raise RefusedError(401, "a token is needed: send it as Authorization: Bearer TOKEN")
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > limits.BODY:
            raise RefusedError(413, f"a request of {int(length[:20]):,} bytes: at most {limits.BODY:,} are read")


async def _nothing() -> Message:
    """What a request without a body holds; one that has a body all the same is not waited for."""
    return {"type": "http.request", "body": b"", "more_body": False}


async def _whole(receive: Receive) -> Receive:
    """The body, read whole: it stays within its size and arrives in time, or is refused."""
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(limits.BODY_SECONDS):
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > limits.BODY:
                    raise RefusedError(413, f"more than {limits.BODY:,} bytes: at most so many are read")
    except TimeoutError:
        raise RefusedError(408, f"the request did not arrive within {limits.BODY_SECONDS:g} seconds") from None
    read = False

    async def again() -> Message:
        nonlocal read
        if read:  # what comes now is that the client goes away
            return await receive()
        read = True
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    return again


def _place(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


async def _refuse(send: Send, refusal: RefusedError, request: str) -> None:
    """Say what was wrong."""
    headers, content = refusal.answer(request)
    headers["content-length"] = str(len(content))
    told = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": told})
    await send({"type": "http.response.body", "body": content})
