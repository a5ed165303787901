"""What a server's error says, for the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.response import ErrPacket

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream


def error_of(stream: ResponseStream, otherwise: str) -> str:
    """What a server's error says, if there is one."""
    return otherwise if stream.error is None else str(ErrPacket.parse(stream.error))
