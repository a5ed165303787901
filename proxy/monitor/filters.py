"""Asks a server what it leaves out of replication (`routing.servers.filters`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.server.query import ask, query, rows

if TYPE_CHECKING:
    from proxy.server.connection import ServerConnection

RIGHTS: Final = (
    "GRANT SELECT ON performance_schema.replication_applier_filters, and REPLICATION CLIENT ON *.*"
)
"""What an account needs for these questions."""

_APPLIER: Final = (
    b"SELECT GROUP_CONCAT(CONCAT(FILTER_NAME,' = ',FILTER_RULE) SEPARATOR '; '),"
    b"@@performance_schema"
    b" FROM performance_schema.replication_applier_filters WHERE FILTER_RULE<>''"
)
"""A filter that was removed stays in the table, without a rule. Where performance_schema is OFF the
table is empty, whatever filters there are."""
_NO_FILTER: Final = "Replicate_Ignore_Server_Ids"


async def left_out_by_applier(connection: ServerConnection) -> str:
    """The filters of all its channels; empty if there are none.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    filters, recorded = await query(connection, _APPLIER)
    return _text(filters) if recorded == b"1" else await _filters_of_channels(connection)


async def _filters_of_channels(connection: ServerConnection) -> str:
    """The same from a status that needs no performance_schema, but REPLICATION CLIENT."""
    ask(connection, b"SHOW REPLICA STATUS")
    return "; ".join(
        f"{name.upper()} = {_text(rule)}"
        for channel in await rows(connection)
        for name, rule in channel.items()
        if rule and name.startswith("Replicate_") and name != _NO_FILTER
    )


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
