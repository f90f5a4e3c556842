"""The HTTP server: listening, time limits for slow clients, a graceful stop, and its log in JSON lines."""

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Any, Literal

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from clbr.service.limits import Limits

Level = Literal["info", "warning", "error"]
GRACE_SECONDS = 15
"""Time in which running requests may end after the signal to stop."""
HEAD_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
IDLE_SECONDS = 75
"""Time for which a connection without a request is kept open."""


class LimitedProtocol(HttpToolsProtocol):
    """HTTP with a time limit for the head of a request and for reading the answer: a slow client is disconnected."""

    limits: Limits
    head_timer: asyncio.TimerHandle | None = None
    read_timer: asyncio.TimerHandle | None = None
    head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Start the timer, and count bytes, with the first bytes of a head."""
        if self.head_timer is None and (self.cycle is None or self.cycle.response_complete):
            self.head_timer = self.loop.call_later(self.limits.body_seconds, self.transport.close)
        self.head_bytes += len(data)
        super().data_received(data)
        if self.head_timer is not None and self.head_bytes > self.limits.header_bytes:  # the head has no end yet
            self.transport.write(HEAD_TOO_LONG)
            self.transport.close()

    def on_headers_complete(self) -> None:
        """Stop the timer of the head."""
        self._stop_head_timer()
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """Start a timer when the client does not read its answer."""
        super().pause_writing()
        self.read_timer = self.loop.call_later(self.limits.body_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop it when the client reads again."""
        self._stop_read_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop both timers."""
        self._stop_head_timer()
        self._stop_read_timer()
        super().connection_lost(exc)

    def _stop_head_timer(self) -> None:
        self.head_bytes = 0
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def _stop_read_timer(self) -> None:
        if self.read_timer is not None:
            self.read_timer.cancel()
            self.read_timer = None


def make_server(app: Any, host: str, port: int, limits: Limits) -> uvicorn.Server:
    """A server that is not listening yet."""
    protocol = type("Protocol", (LimitedProtocol,), {"limits": limits})
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=protocol,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    return uvicorn.Server(config)


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, event and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure_logs(level: Level) -> None:
    """Log to the standard error stream, the server's own lines in the same form."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name in ("clbr.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper() if name == "clbr.service" else "WARNING")
