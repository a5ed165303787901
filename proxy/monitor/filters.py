"""Asks a server what it leaves out of replication (`routing.servers.filters`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.errors import ServerErrorCode
from proxy.server.errors import ServerRefusedError
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
_BINARY_LOG: Final = (b"SHOW BINARY LOG STATUS", b"SHOW MASTER STATUS")
"""The second one is its name before MySQL 8.2."""
_NUMBER: Final = re.compile("[0-9]{1,10}", re.ASCII)


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


class BinaryLog(NamedTuple):
    """A server's binary log.

    Attributes:
        number: that of its newest file; 0 if there is no log.
        left_out: binlog_do_db and binlog_ignore_db, which only a restart changes; empty if none.
    """

    number: int
    left_out: str


async def binary_log(connection: ServerConnection) -> BinaryLog:
    """Ask a server about its binary log.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    try:
        row = await query(connection, _BINARY_LOG[0])
    except ServerRefusedError as error:
        if error.error.code != ServerErrorCode.ER_PARSE_ERROR.code:
            raise
        row = await query(connection, _BINARY_LOG[1])
    rules = zip(("binlog_do_db", "binlog_ignore_db"), row[2:4], strict=False)  # no log: no row
    left_out = "; ".join(f"{name} = {_text(rule)}" for name, rule in rules if rule)
    number = _text(row[0]).rpartition(".")[2] if row else ""
    return BinaryLog(int(number) if _NUMBER.fullmatch(number) else 0, left_out)


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
