"""Prepares a statement on a server that does not know it, and lets a server forget one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.packet import frame
from proxy.client.statements import session_setup
from proxy.server.exchange import PREPARE_STATEMENT
from routing.session.prepared import PreparedHandle

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.server.exchange import Batch
    from proxy.server.mirror import Mirror
    from routing.session.prepared import PreparedStatement

_COM_STMT_PREPARE: Final = b"\x16"
_COM_STMT_CLOSE: Final = b"\x05\x00\x00\x00\x19"


def prepare_on(mirror: Mirror, prepared: PreparedStatement, schema: str) -> Batch:
    """What makes the statement known to a server.

    Args:
        mirror: of the connection to that server; what it is told is noted there.
        prepared: it; with its text.
        schema: the one that the connection must have afterwards; empty if any will do.
    """
    batch: Batch = ()
    if prepared.schema and mirror.schema != prepared.schema:
        batch = session_setup.choose_schema(mirror, prepared.schema)
    mirror.preparing.append(prepared.number)
    batch += ((PREPARE_STATEMENT, frame(_COM_STMT_PREPARE + prepared.sql, 0)),)
    if schema and mirror.schema != schema:
        batch += session_setup.choose_schema(mirror, schema)
    return batch


def note_prepared(mirror: Mirror, stream: ResponseStream) -> int:
    """Notes the server's answer: the number of the statement, which it knows now, or refuses."""
    number = mirror.preparing.pop(0)
    if stream.head is not None:
        mirror.statements[number] = PreparedHandle.of(stream.head)
    return number


def close_packet(handle: PreparedHandle) -> bytes:
    """A COM_STMT_CLOSE, framed; there is no answer."""
    return _COM_STMT_CLOSE + handle.server_id.to_bytes(4, "little")
