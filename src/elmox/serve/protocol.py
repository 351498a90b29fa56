"""Connections: uvicorn's HTTP protocol, with bounds on headers and a note of who has left."""

import asyncio
from asyncio.events import TimerHandle
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from elmox.serve.limits import Limits
from elmox.serve.record import CONNECTION_KEY, CROWDED_KEY, Connection

MAX_HEADER_BYTES = 64 * 2**10
TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose requests must send their headers in time, and not too many of them."""

    def __init__(self, limits: Limits, **options: Any) -> None:
        super().__init__(**options)
        self._receive_seconds = limits.receive_seconds
        self._max_connections = limits.max_connections
        self._connection = Connection()
        self._timer: TimerHandle | None = None
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first request."""
        super().connection_made(transport)
        if len(self.connections) > 2 * self._max_connections:
            transport.abort()
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._timer is not None:
            self._header_bytes += len(data)
            if self._header_bytes - len(data) > MAX_HEADER_BYTES:
                self._stop_waiting()
                self.transport.write(TOO_LARGE)
                self.transport.close()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        scope = cast(dict[str, Any], self.scope)
        scope[CONNECTION_KEY] = self._connection
        scope[CROWDED_KEY] = len(self.connections) > self._max_connections
        self._wait_for_headers()

    def on_headers_complete(self) -> None:
        """Serve a request whose headers are there."""
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the client has left, so that its work is dropped."""
        self._connection.lose()
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_headers(self) -> None:
        if self._timer is None:
            self._header_bytes = 0
            self._timer = self.loop.call_later(self._receive_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self.transport.close()
