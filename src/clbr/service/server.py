"""Listening, and stopping: requests that are being answered come to their end."""

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from clbr.service import limits

GRACE_SECONDS = 15
"""In which what is being answered may come to its end after the signal to stop."""
TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
IDLE_SECONDS = 75
"""For which a connection without a request is kept."""


class Patient(HttpToolsProtocol):
    """Waits for the head of a request, but not for ever: a client that drips it is left."""

    patience: asyncio.TimerHandle | None = None
    unread: asyncio.TimerHandle | None = None
    head = 0

    def data_received(self, data: bytes) -> None:
        """Begin to wait, and to count, with the first bytes of a head."""
        if self.patience is None and (self.cycle is None or self.cycle.response_complete):
            self.patience = self.loop.call_later(limits.BODY_SECONDS, self.transport.close)
        self.head += len(data)
        super().data_received(data)
        if self.patience is not None and self.head > limits.HEAD:  # and no end of it yet
            self.transport.write(TOO_LONG)
            self.transport.close()

    def on_headers_complete(self) -> None:
        """It has come."""
        self._rest()
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """The client does not read its answer: it is given some time, and then left."""
        super().pause_writing()
        self.unread = self.loop.call_later(limits.BODY_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads."""
        self._read()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        self._rest()
        self._read()
        super().connection_lost(exc)

    def _rest(self) -> None:
        self.head = 0
        if self.patience is not None:
            self.patience.cancel()
            self.patience = None

    def _read(self) -> None:
        if self.unread is not None:
            self.unread.cancel()
            self.unread = None


def make_server(app: Any, host: str, port: int) -> uvicorn.Server:
    """A server that is not yet listening."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Patient,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    return uvicorn.Server(config)
