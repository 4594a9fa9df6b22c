"""Limits of one reader of the HTTP server: connections, time for a request's head and body, time to take an answer.

uvicorn bounds neither how long a head may come in nor how slowly an answer is taken; each connection here has to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEAD_SECONDS = 10.0
"""In which a request's head comes, from the connection's begin or the first byte behind the request before."""
CONNECTIONS = 1_000
HEAD_BYTES = 16 << 10
BODY_BYTES = 1 << 20
PIECE_SECONDS = 30.0
"""In which a reader takes what is written to it and not yet on its way, or sends a piece of a body."""


class BoundedConnection(H11Protocol):
    """A connection that is closed if no request arrives in time; the number of connections is bounded."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head: asyncio.TimerHandle | None = None
        self._piece: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        if len(self.connections) >= CONNECTIONS:
            transport.abort()
            return
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._is_between() and self._head is None:
            self._await_head()
        super().data_received(data)
        if not self._is_between():
            self._forget_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._forget_head()
        self._forget_piece()
        if self in self.connections:
            super().connection_lost(exc)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().pause_writing()
        # aborted, not closed: to close waits until the reader has taken what is written
        self._piece = self.loop.call_later(PIECE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._forget_piece()
        super().resume_writing()

    def _is_between(self) -> bool:
        """Whether no request is answered, so that the next bytes are of a head."""
        cycle: Any = self.cycle
        return cycle is None or bool(cycle.response_complete)

    def _await_head(self) -> None:
        self._head = self.loop.call_later(HEAD_SECONDS, self._too_late)

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _forget_piece(self) -> None:
        if self._piece is not None:
            self._piece.cancel()
            self._piece = None

    def _too_late(self) -> None:
        self._head = None
        if self._is_between():
            self.transport.abort()


class BodyTooLarge(Exception):
    """A body is larger than allowed."""


class BodyTooSlow(Exception):
    """No piece of a body arrived in time."""


def bounded(app: App) -> App:
    """The application, with bodies of bounded size that must arrive in time."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        size = 0
        more = True

        async def received() -> Message:
            nonlocal size, more
            try:
                # behind the body nothing but the reader's leave is waited for, which may take as long as it likes
                message = await asyncio.wait_for(receive(), PIECE_SECONDS if more else None)
            except TimeoutError as error:
                raise BodyTooSlow from error
            size += len(message.get("body", b""))
            more = more and bool(message.get("more_body", False))
            if size > BODY_BYTES:
                raise BodyTooLarge
            return message

        await app(scope, received, send)

    return served
