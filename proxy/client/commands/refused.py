"""Commands that a proxy with several servers behind it cannot pass on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.constants import Command as Code
from protocol.errors import ServerErrorCode
from proxy.client.commands.order import Order, Refused

if TYPE_CHECKING:
    from proxy.client.commands.desk import Desk


def replication(desk: Desk, packet: bytes) -> Order:
    """Binlog streams and clones concern one server: connect to that server."""
    code = Code(packet[4])
    return Refused(
        desk.command(code, 0),
        ServerErrorCode.ER_NOT_SUPPORTED_YET,
        f"Tidegate does not pass {code.name} on; connect to the server itself",
    )
