"""Commands that a proxy with several servers behind it cannot pass on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.constants import Command as Code
from protocol.errors import ServerErrorCode

if TYPE_CHECKING:
    from proxy.client.session import ClientSession


def refuse_replication(session: ClientSession, packet: bytes) -> None:
    """Binlog streams and clones concern one server: connect to that server."""
    code = Code(packet[4])
    session.begin(code, 0)
    session.replies.refuse(
        ServerErrorCode.ER_NOT_SUPPORTED_YET,
        f"Tidegate does not pass {code.name} on; connect to the server itself",
    )
