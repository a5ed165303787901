"""Asks a server which replicas it has."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from proxy.address import Address
from proxy.server.query import ask, rows
from routing.servers.replica_tree import Reported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.server.connection import ServerConnection

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NO_HOST: Final = "it reports no address: set report_host in its configuration, and restart it"


async def replicas(connection: ServerConnection) -> list[Reported]:
    """Ask a server which replicas are connected to it, as they have reported themselves.

    That takes the right REPLICATION SLAVE. A replica that has gone is shown until the server
    notices, which takes two of the replica's heartbeat periods; one that stands still, for longer
    (measured on 9.7.4). Programs that read a binary log are shown, too, if they register; those
    without a UUID are left out.

    Raises:
        ServerRefusedError: it may not be asked.
        ChannelClosedError, ProtocolError: as `query`.
    """
    ask(connection, b"SHOW REPLICAS")
    found = [_reported(row) for row in await rows(connection)]
    return [reported for reported in found if _UUID.fullmatch(reported.uuid)]


def _reported(row: Mapping[str, bytes | None]) -> Reported:
    """A replica that a row of SHOW REPLICAS tells of; what it has reported may be anything."""
    uuid, host, port = (
        (row.get(column) or b"").decode("utf-8", "replace")
        for column in ("Replica_UUID", "Host", "Port")
    )
    if not host:
        return Reported(uuid, "", _NO_HOST)
    text = f"{host}:{port}"
    try:
        if ":" in host:
            text = f"[{ip_address(host)}]:{port}"
        address = Address.parse(text, default_host="", default_port=None)
    except ValueError as error:
        return Reported(uuid, "", f"the address that it reports is none, {text[:100]!r}: {error}")
    if not address.port:
        return Reported(uuid, "", f"it reports port 0 at {address.host}: set report_port")
    return Reported(uuid, str(address))
