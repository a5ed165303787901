"""Asks a server what it sees of its group (`routing.servers.group`).

None of this waits for the group, whatever its group_replication_consistency is: statements that
read only performance_schema or variables are answered without a quorum, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.errors import ServerErrorCode
from proxy.server.errors import ServerRefusedError
from proxy.server.query import answer, ask, rows
from routing.servers.group import View, view

if TYPE_CHECKING:
    from proxy.server.connection import ServerConnection

TABLES: Final = (
    "performance_schema.replication_group_members",
    "performance_schema.replication_group_member_stats",
    "performance_schema.replication_connection_status",
)
"""What an account must be allowed to SELECT from."""

_MEMBERS: Final = (
    b"SELECT MEMBER_ID,MEMBER_HOST,MEMBER_PORT,MEMBER_STATE,MEMBER_ROLE"
    b" FROM performance_schema.replication_group_members"
)
_OWN: Final = (
    b"SELECT (SELECT VARIABLE_VALUE FROM performance_schema.global_variables"
    b" WHERE VARIABLE_NAME='group_replication_group_name'),"
    b"(SELECT MAX(VIEW_ID) FROM performance_schema.replication_group_member_stats"
    b" WHERE MEMBER_ID=@@server_uuid),"
    b"(SELECT MIN(GTID_SUBSET(RECEIVED_TRANSACTION_SET,@@GLOBAL.gtid_executed))"
    b" FROM performance_schema.replication_connection_status"
    b" WHERE CHANNEL_NAME='group_replication_applier')"
)
"""The group's name, which of its views this is, and whether all that was received is applied. The
aggregates make one row of none, and NULL of no row."""
_UNKNOWN: Final = frozenset(
    error.code for error in (ServerErrorCode.ER_NO_SUCH_TABLE, ServerErrorCode.ER_BAD_FIELD_ERROR)
)
"""What a server says that is too old for groups, or was built without performance_schema."""


async def view_of(connection: ServerConnection, asked_at: float) -> View | None:
    """What a server sees; None if it is no member of any group.

    Args:
        connection: where to ask.
        asked_at: now, monotonic s.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
        MalformedStatusError: its answer makes no sense.
    """
    ask(connection, _MEMBERS, _OWN)
    refused: ServerRefusedError | None = None
    members: list[dict[str, bytes | None]] = []
    try:
        members = await rows(connection)
    except ServerRefusedError as error:
        refused = error
    try:
        own = await answer(connection)
    except ServerRefusedError as error:
        refused = refused or error
    if refused is not None:
        if refused.error.code in _UNKNOWN:
            return None
        raise refused
    group, view_id, applied = (*own, None, None, None)[:3]
    return view(
        connection.server.uuid,
        members,
        _text(group),
        _text(view_id),
        asked_at,
        backlog=applied == b"0",
    )


def _text(value: bytes | None) -> str:
    return (value or b"").decode("ascii", "replace")
