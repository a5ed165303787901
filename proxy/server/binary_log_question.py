"""Asks a server about its binary log: which file is the newest, and what is not logged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.errors import ServerErrorCode
from proxy.server.errors import ServerRefusedError
from proxy.server.query import query

if TYPE_CHECKING:
    from proxy.server.connection import ServerConnection

_SQL: Final = (b"SHOW BINARY LOG STATUS", b"SHOW MASTER STATUS")
"""The second one is its name before MySQL 8.2."""
_NUMBER: Final = re.compile("[0-9]{1,10}", re.ASCII)


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
        row = await query(connection, _SQL[0])
    except ServerRefusedError as error:
        if error.error.code != ServerErrorCode.ER_PARSE_ERROR.code:
            raise
        row = await query(connection, _SQL[1])
    rules = zip(("binlog_do_db", "binlog_ignore_db"), row[2:4], strict=False)  # no log: no row
    left_out = "; ".join(f"{name} = {_text(rule)}" for name, rule in rules if rule)
    number = _text(row[0]).rpartition(".")[2] if row else ""
    return BinaryLog(int(number) if _NUMBER.fullmatch(number) else 0, left_out)


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
