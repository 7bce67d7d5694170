"""Websockets behind `serve`: uvicorn's own protocol, which would wait for ever on who reads nothing."""

import asyncio

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class EdgeSocket(WebSocketsSansIOProtocol):
    seconds = 15.0  # for the client to take what it is sent, the closing included
    stalled: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if (
            not self.handshake_initiated
        ):  # the request is whole: what is wrong with it was found, and not said
            said = b"".join(self.conn.data_to_send())
            self.transport.write(
                said or b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            self.transport.close()
            self.end_at_last()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stalled = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.go_on()

    def go_on(self) -> None:
        if self.stalled is not None:
            self.stalled.cancel()
            self.stalled = None

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.end_at_last()

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self.end_at_last()

    def end_at_last(self) -> None:
        """A transport that is closed still waits until all of it is sent."""
        if not self.disconnected:
            self.loop.call_later(self.seconds, self.transport.abort)
