"""Lets a transport forget the protocol object that it had.

uvloop keeps two methods of a protocol object with buffers of its own (`asyncio.BufferedProtocol`)
until another such object follows: so each connection would keep the channel of its login for as
long as it lives.
"""

from __future__ import annotations

import asyncio
from typing import Final


class _Nobody(asyncio.BufferedProtocol):
    """Stands between two protocol objects; its methods are functions, the same for everybody."""

    @staticmethod
    def get_buffer(sizehint: int) -> bytearray:
        """Nothing is read meanwhile."""
        raise AssertionError(sizehint)

    @staticmethod
    def buffer_updated(nbytes: int) -> None:
        """Nothing is read meanwhile."""
        raise AssertionError(nbytes)


_NOBODY: Final = _Nobody()


def forget_protocol(transport: asyncio.Transport) -> None:
    """Make a transport, of which reading is paused, ready for its next protocol object."""
    transport.set_protocol(_NOBODY)
