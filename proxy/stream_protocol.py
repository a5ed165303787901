"""What a connection is handed over to once its login is done."""

from typing import Protocol


class StreamProtocol(Protocol):
    """Takes a connection over from a channel; it has the methods of `asyncio.Protocol`."""

    def data_received(self, data: bytes) -> None:
        """Take bytes."""

    def eof_received(self) -> bool:
        """Take the peer's half-close."""

    def connection_lost(self, error: Exception | None) -> None:
        """Take note that the connection has ended."""

    def pause_writing(self) -> None:
        """Take note that the write buffer is full."""

    def resume_writing(self) -> None:
        """Take note that the write buffer has room again."""
