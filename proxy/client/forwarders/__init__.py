"""One file per command family; each forwarder takes a whole packet and starts its request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import Command as Code
from protocol.errors import ServerErrorCode
from proxy.client.forwarders import connection_state, prepared, query, refused, utility

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.client.session import ClientSession

_FORWARDERS: Final[dict[int, Callable[[ClientSession, bytes], None]]] = {
    Code.COM_QUIT: connection_state.forward_quit,
    Code.COM_INIT_DB: connection_state.forward_init_db,
    Code.COM_QUERY: query.forward_query,
    Code.COM_FIELD_LIST: utility.forward_field_list,
    Code.COM_STATISTICS: utility.forward_statistics,
    Code.COM_DEBUG: utility.forward_simple,
    Code.COM_PING: utility.forward_ping,
    Code.COM_CHANGE_USER: connection_state.forward_change_user,
    Code.COM_BINLOG_DUMP: refused.refuse_replication,
    Code.COM_BINLOG_DUMP_GTID: refused.refuse_replication,
    Code.COM_REGISTER_SLAVE: refused.refuse_replication,
    Code.COM_CLONE: refused.refuse_replication,
    Code.COM_STMT_PREPARE: prepared.forward_prepare,
    Code.COM_STMT_EXECUTE: prepared.forward_execute,
    Code.COM_STMT_SEND_LONG_DATA: prepared.forward_long_data,
    Code.COM_STMT_CLOSE: prepared.forward_close,
    Code.COM_STMT_RESET: prepared.forward_reset,
    Code.COM_STMT_FETCH: prepared.forward_fetch,
    Code.COM_SET_OPTION: connection_state.forward_set_option,
    Code.COM_RESET_CONNECTION: connection_state.forward_reset_connection,
}

_LONG: Final[dict[int, Callable[[ClientSession, bytes], None]]] = {
    Code.COM_QUERY: query.forward_long_query,
    Code.COM_STMT_PREPARE: prepared.forward_long_prepare,
    Code.COM_STMT_EXECUTE: prepared.forward_long_execute,
    Code.COM_STMT_SEND_LONG_DATA: prepared.forward_long_data,
}


def forward(session: ClientSession, packet: bytes) -> None:
    """Serve a command; `packet` is one frame, header and payload."""
    forwarder = _FORWARDERS.get(packet[4])
    if forwarder is None:
        _unknown(session, packet)
    else:
        forwarder(session, packet)


def forward_long(session: ClientSession, prefix: bytes) -> bool:
    """Begin a command that will come in parts; False if it cannot be so long and was refused."""
    forwarder = _LONG.get(prefix[4])
    if forwarder is None:
        session.connection.fail(
            ServerErrorCode.ER_NET_PACKET_TOO_LARGE,
            "Got a packet bigger than this command can be",
        )
        return False
    forwarder(session, prefix)
    return True


def _unknown(session: ClientSession, packet: bytes) -> None:
    session.begin(Code.COM_SLEEP, 0)
    session.replies.refuse(ServerErrorCode.ER_UNKNOWN_COM_ERROR, "Unknown command")
