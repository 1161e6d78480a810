"""Connections whose client sends no request, or the head of one without an end, are closed: they would hold places."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.auto import AutoHTTPProtocol

KEEP_ALIVE = 30  # seconds that an idle connection stays open


class TimelyProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's, which waits for a request's body as long as the application does, but for its head without an end."""

    head_seconds: ClassVar[float] = KEEP_ALIVE  # from the first byte of a head until its last one

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._late: asyncio.TimerHandle | None = None
        self._begun = False  # a part of a head has come

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._late = self.loop.call_later(KEEP_ALIVE, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering or self.transport.get_protocol() is not self:  # else it became a websocket's
            self._forget()
        elif not self._begun:
            self._forget()
            self._begun, self._late = True, self.loop.call_later(self.head_seconds, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _forget(self) -> None:
        self._begun = False
        if self._late is not None:
            self._late.cancel()
            self._late = None


def timely(seconds: float) -> type[TimelyProtocol]:
    """The protocol of connections whose heads must arrive within so many seconds."""
    return type("TimelyProtocol", (TimelyProtocol,), {"head_seconds": seconds})
