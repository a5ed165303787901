"""One file per command family: what a client's packet asks for.

A statement is returned as a `Command`, to be routed; for anything else an `Action` says what is to
be done. Nothing is done here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import Command as Code
from proxy.client.requests.commands import connection_state, prepared, query, refused, utility
from proxy.client.requests.commands.action import Action, TooLong

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.client.requests.commands.command_context import CommandContext
    from routing.request.command import Command

    Family = Callable[[CommandContext, bytes], Command | Action]

_FAMILIES: Final[dict[int, Family]] = {
    Code.COM_QUIT: connection_state.leave,
    Code.COM_INIT_DB: connection_state.init_db,
    Code.COM_QUERY: query.query,
    Code.COM_FIELD_LIST: utility.field_list,
    Code.COM_STATISTICS: utility.statistics,
    Code.COM_DEBUG: utility.debug,
    Code.COM_PING: utility.ping,
    Code.COM_CHANGE_USER: connection_state.change_user,
    Code.COM_BINLOG_DUMP: refused.replication,
    Code.COM_BINLOG_DUMP_GTID: refused.replication,
    Code.COM_REGISTER_SLAVE: refused.replication,
    Code.COM_CLONE: refused.replication,
    Code.COM_SUBSCRIBE_GROUP_REPLICATION_STREAM: refused.replication,
    Code.COM_STMT_PREPARE: prepared.prepare,
    Code.COM_STMT_EXECUTE: prepared.execute,
    Code.COM_STMT_SEND_LONG_DATA: prepared.long_data,
    Code.COM_STMT_CLOSE: prepared.close,
    Code.COM_STMT_RESET: prepared.reset,
    Code.COM_STMT_FETCH: prepared.fetch,
    Code.COM_SET_OPTION: connection_state.set_option,
    Code.COM_RESET_CONNECTION: connection_state.reset_connection,
}

_LONG: Final[dict[int, Family]] = {
    Code.COM_QUERY: query.long_query,
    Code.COM_STMT_PREPARE: prepared.long_prepare,
    Code.COM_STMT_EXECUTE: prepared.long_execute,
    Code.COM_STMT_SEND_LONG_DATA: prepared.long_data,
}

_QUERY: Final = int(Code.COM_QUERY)


def parse_command(context: CommandContext, packet: bytes) -> Command | Action:
    """What a command asks for; `packet` is one frame, header and payload."""
    if packet[4] == _QUERY:
        return query.query(context, packet)
    return _FAMILIES.get(packet[4], refused.unknown)(context, packet)


def parse_long_command(context: CommandContext, prefix: bytes) -> Command | Action:
    """What a command that comes in parts asks for; `prefix` is its beginning, with header."""
    family = _LONG.get(prefix[4])
    return TooLong() if family is None else family(context, prefix)
