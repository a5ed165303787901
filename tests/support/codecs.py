"""How a packet of each kind in tests/vectors is read, and written again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from protocol.command import (
    ComChangeUser,
    ComFieldList,
    ComInitDb,
    ComQuery,
    ComSetOption,
    ComStmtClose,
    ComStmtFetch,
    ComStmtPrepare,
    ComStmtReset,
    ComStmtSendLongData,
)
from protocol.constants import Capability
from protocol.handshake import (
    AuthMoreData,
    AuthSwitchRequest,
    HandshakeResponse41,
    HandshakeV10,
    SSLRequest,
)
from protocol.response import EofPacket, ErrPacket, OkPacket, StmtPrepareOk
from protocol.resultset import ColumnCount, ColumnDefinition41


@dataclass(frozen=True)
class Codec:
    """Both take the capabilities of the connection."""

    parse: Callable[[bytes, Capability], Any]
    serialise: Callable[[Any, Capability], bytes]


def _plain(packet: Any) -> Codec:
    """A packet that looks the same under all capabilities."""
    return Codec(lambda payload, _: packet.parse(payload), lambda value, _: value.serialise())


def _varied(packet: Any) -> Codec:
    """A packet that depends on the capabilities."""
    return Codec(packet.parse, lambda value, capabilities: value.serialise(capabilities))


def _attributes(capabilities: Capability) -> bool:
    return bool(capabilities & Capability.CLIENT_QUERY_ATTRIBUTES)


CODECS = {
    "HandshakeV10": _plain(HandshakeV10),
    "HandshakeResponse41": _plain(HandshakeResponse41),
    "SSLRequest": _plain(SSLRequest),
    "AuthSwitchRequest": _plain(AuthSwitchRequest),
    "AuthMoreData": _plain(AuthMoreData),
    "OkPacket": _varied(OkPacket),
    "EofPacket": _plain(EofPacket),
    "ErrPacket": Codec(
        lambda payload, _: ErrPacket.parse(payload),
        lambda value, capabilities: value.serialise(capabilities),
    ),
    "StmtPrepareOk": _varied(StmtPrepareOk),
    "ColumnCount": _varied(ColumnCount),
    "ColumnDefinition41": _plain(ColumnDefinition41),
    "COM_QUERY": Codec(
        lambda payload, capabilities: ComQuery.parse(payload, _attributes(capabilities)),
        lambda value, capabilities: value.serialise(_attributes(capabilities)),
    ),
    "COM_INIT_DB": _plain(ComInitDb),
    "COM_FIELD_LIST": _plain(ComFieldList),
    "COM_SET_OPTION": _plain(ComSetOption),
    "COM_CHANGE_USER": _varied(ComChangeUser),
    "COM_STMT_PREPARE": _plain(ComStmtPrepare),
    "COM_STMT_SEND_LONG_DATA": _plain(ComStmtSendLongData),
    "COM_STMT_CLOSE": _plain(ComStmtClose),
    "COM_STMT_RESET": _plain(ComStmtReset),
    "COM_STMT_FETCH": _plain(ComStmtFetch),
}
