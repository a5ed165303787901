"""The proxy's own statements on the slow path: settings, identity, monitoring, KILL."""

from __future__ import annotations

import logging
import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from protocol.command import com_query
from protocol.constants import IN_TRANS
from protocol.errors import MalformedPacketError, ServerErrorCode
from protocol.gtid import GtidSet
from protocol.gtid_owned import parse_owned
from protocol.packet import frame
from protocol.response import ErrPacket
from protocol.response_stream import RESULTS
from protocol.resultset import ColumnDefinition41, parse_text_row
from proxy.channel import ChannelClosedError
from proxy.server.commit_order import KEEPS_ORDER
from proxy.server.errors import PacketLimitLoweredError, ServerRefusedError
from proxy.server.identity import CASCADES, Identity
from proxy.wall_clock import utc_us
from routing.servers.topology import Role
from routing.session.defaults import COLUMN, ROOM, defaults_of

if TYPE_CHECKING:
    from proxy.server.connection import ServerConnection
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_UPTIME: Final = (
    b"(SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME='Uptime')"
)
_IDENTITY: Final = (
    b"SELECT @@server_uuid,@@GLOBAL.gtid_mode,@@SESSION.sql_mode,@@SESSION.autocommit,"
    b"@@SESSION.character_set_client,@@SESSION.transaction_isolation,@@GLOBAL.read_only,"
    b"%b,@@SESSION.max_allowed_packet,@@SESSION.max_user_connections,@@SESSION.wait_timeout,"
    b"@@GLOBAL.init_connect,%b,CAST(CURRENT_ROLE() AS BINARY),%b,%b,@@GLOBAL.gtid_owned,"
    b"@@GLOBAL.gtid_executed LIMIT 1"
)
"""A transaction leaves gtid_owned for gtid_executed: in this order it is missed in neither. The
LIMIT is for servers whose sessions begin with a sql_select_limit."""
_WHOLE: Final = _IDENTITY % (KEEPS_ORDER.encode(), CASCADES, _UPTIME, COLUMN)
_PRESENT: Final = _IDENTITY % (KEEPS_ORDER.encode(), CASCADES, b"0", COLUMN)
"""Where the process is known: to look its Uptime up takes it as long as all the rest."""
_SHORT: Final = _IDENTITY % (KEEPS_ORDER.encode(), CASCADES, _UPTIME, b"''")
"""Where the server may not take a longer one (`Server.takes_short`)."""
_IDENTITY_COLUMNS: Final = 18
_SHORT_VALUE: Final = 1024  # bytes
_NUMBER: Final = re.compile(rb"[0-9]{1,10}")


END_TRANSACTION: Final = b"COMMIT AND NO CHAIN NO RELEASE"
"""Whatever completion_type is: a transaction that follows by itself would keep a snapshot."""


async def end_transaction(connection: ServerConnection) -> None:
    """End the transaction that a question has begun, as it does with autocommit off.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    if connection.stream.status & IN_TRANS:
        await query(connection, END_TRANSACTION)


async def query(connection: ServerConnection, sql: bytes) -> list[bytes | None]:
    """Run a statement on a connection that no session has yet; return its first row, or [].

    Raises:
        ServerRefusedError: the server answered with an error.
        ChannelClosedError: the connection broke.
        ProtocolError: the server broke the protocol.
    """
    ask(connection, sql)
    return await answer(connection)


def ask(
    connection: ServerConnection,
    *statements: bytes,
    ahead: tuple[bytes, ...] = (),
) -> None:
    """Send statements in one write, behind packets of such that go `ahead`.

    `answer` is to be called for each of both, in their order.

    Raises:
        ChannelClosedError: the connection broke.
    """
    connection.channel.transport.write(
        b"".join(
            [*ahead, *(frame(com_query(sql, connection.query_attributes), 0) for sql in statements)]
        )
    )


async def answer(connection: ServerConnection) -> list[bytes | None]:
    """The first row of the answer to a statement that was asked, or [].

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    channel, stream = connection.channel, connection.stream
    stream.begin(RESULTS, keep_row=True)
    while not stream.done:
        received = await channel.read_some()
        end = stream.feed(received)
        if stream.infile:
            raise MalformedPacketError("it asked the proxy for a local file")
        if end < len(received):
            channel.put_back(received[end:])
    if stream.error is not None:
        raise ServerRefusedError(ErrPacket.parse(stream.error))
    return [] if stream.row is None else parse_text_row(stream.row)


async def rows(connection: ServerConnection) -> list[dict[str, bytes | None]]:
    """All rows of the answer to a statement that was asked, by the names of their columns.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    channel, stream = connection.channel, connection.stream
    channel.sequence_id = 1
    stream.begin(RESULTS)
    columns = 0
    names: list[str] = []
    found: list[dict[str, bytes | None]] = []
    while not stream.done:
        payload = await channel.read_packet()
        stream.feed(frame(payload, 0))
        if stream.infile:
            raise MalformedPacketError("it asked the proxy for a local file")
        if not columns:
            columns = int.from_bytes(payload[:1], "little")
        elif len(names) < columns:
            names.append(ColumnDefinition41.parse(payload).name)
        elif not stream.done and payload[:1] != b"\xfe":
            found.append(dict(zip(names, parse_text_row(payload, columns), strict=True)))
    if stream.error is not None:
        raise ServerRefusedError(ErrPacket.parse(stream.error))
    return found


def _lacks_variable(server: Server, error: ErrPacket) -> ServerRefusedError:
    """The refusal of the question that each login asks, in words for whoever reads it."""
    if "mariadb" in server.version.lower():
        message = (
            f"Tidegate: server {server.name} is MariaDB ({server.version}), whose GTIDs are of"
            " another kind; Tidegate serves MySQL"
        )
        return ServerRefusedError(ErrPacket(error.code, error.sqlstate, message))
    message = (
        f"Tidegate: server {server.name} (MySQL {server.version}) lacks a variable that Tidegate"
        f" asks each session for: {error.message}; this version of MySQL is not one that this"
        " Tidegate knows: use a Tidegate that does, or another MySQL"
    )
    return ServerRefusedError(ErrPacket(error.code, error.sqlstate, message))


async def _identity_row(connection: ServerConnection) -> list[bytes | None]:
    """The answer to the question who a server is.

    Raises:
        PacketLimitLoweredError, ServerRefusedError, ProtocolError, ChannelClosedError: as
            `identify`.
    """
    server = connection.server
    try:
        row = await answer(connection)
    except ChannelClosedError:
        server.takes_short = True  # perhaps: the close may have come before the error
        raise
    except ServerRefusedError as error:
        if error.error.code == ServerErrorCode.ER_NET_PACKET_TOO_LARGE.code:
            server.takes_short, server.max_packet = True, 0
            raise PacketLimitLoweredError("its max_allowed_packet is small") from error
        if error.error.code == ServerErrorCode.ER_UNKNOWN_SYSTEM_VARIABLE.code:
            raise _lacks_variable(server, error.error) from error
        raise
    if len(row) != _IDENTITY_COLUMNS:
        raise MalformedPacketError("the server did not say who it is")
    return row


def _not_null(value: bytes | None) -> bytes:
    if value is None:
        raise MalformedPacketError("the server did not say who it is")
    return value


def _check_address(connection: ServerConnection) -> None:
    """See to it that a connection leads to its server still, whose name may have moved.

    Raises:
        ChannelClosedError: it does not.
    """
    server, address = connection.server, connection.address
    if address and not server.addresses.leads_to(address):
        raise ChannelClosedError(f"server {server.name} is not at {address} any more")


def _note_address(connection: ServerConnection, former: str) -> None:
    """Note where a server is; `former` is the `server_uuid` that its name led to before."""
    server = connection.server
    before, server.address = server.address, connection.address
    if former not in ("", server.uuid):
        _log.warning(
            "%s is another server now: %s at %s, where %s at %s was before",
            server.name,
            server.uuid,
            server.address or "an unknown address",
            former,
            before or "an unknown address",
        )


def _value(value: bytes | None) -> str:
    """A system variable's value."""
    if value is None:
        return ""
    return _short_value(value) if len(value) <= _SHORT_VALUE else _text(value)


def _text(value: bytes) -> str:
    return value.decode("ascii", "replace")


_short_value: Final = lru_cache(maxsize=64)(_text)
"""The same text for all connections, which mostly have the same settings."""


def _number(value: bytes | None, fault: str) -> int:
    if value is None or not _NUMBER.fullmatch(value):
        raise MalformedPacketError(f"the server's {fault}")
    return int(value)


async def identify(
    connection: ServerConnection,
    *behind: bytes,
    present: bool = False,
) -> Identity:
    """Ask a server who it is and what it has applied, and enter that into the topology.

    Statements that follow `behind` go out in the same write; `answer` is to be called for each.

    Args:
        connection: to the server.
        behind: as told above.
        present: the connection leads to the present incarnation (`Server.epoch`), which it proved
            when it was opened.

    Raises:
        PacketLimitLoweredError: it does not take the question; the next one will be short.
        ServerRefusedError, ProtocolError: as `query`.
        ChannelClosedError: as `query`; or the server is another incarnation by now, or its name
            leads elsewhere.
    """
    server = connection.server
    _check_address(connection)
    before = server.applied
    epoch = server.epoch
    asked_at = time.monotonic()
    confirms = server.role is Role.REPLICA and server.is_doubtful(asked_at)
    if confirms:
        server.asks(asked_at)
    asked_us = utc_us()
    question = _SHORT if server.takes_short else _PRESENT if present else _WHOLE
    ask(connection, question, *behind)
    row = await _identity_row(connection)
    answered_us = utc_us()
    _, gtid_mode, sql_mode, autocommit, character_set, isolation, read_only = row[:7]
    ordered, _, _, _, init, cascades, roles, _, defaults, _, _ = row[7:]
    uuid, owned, text = _not_null(row[0]), _not_null(row[16]), _not_null(row[17])
    uptime = _number(row[14], "Uptime is no number of seconds")
    largest = _number(row[8], "max_allowed_packet is no number of bytes")
    counted = _number(row[9], "max_user_connections is no number")
    wait_timeout = _number(row[10], "wait_timeout is no number of seconds")
    if present and server.epoch != epoch:
        raise ChannelClosedError("the server has begun anew meanwhile")
    server.takes_short = largest < ROOM
    executed = GtidSet.parse(text, before)
    server.gtids = gtid_mode == b"ON"
    server.keeps_order(ordered == b"1", asked_at, time.monotonic())
    # Of a replica that has begun anew meanwhile this may be the word of what it was before.
    late = server.role is Role.REPLICA and server.epoch != epoch
    grew = not executed <= server.applied
    started = server.started
    if question is not _PRESENT:
        started = (asked_us / 1e6 - uptime - 1, answered_us / 1e6 - uptime)
    _check_address(connection)
    name = uuid.decode("ascii", "replace")
    former = server.uuid
    connection.epoch = server.observe(
        name, started, executed, before, asked_us / 1e6, epoch, asked_at
    )
    if server.uuid == name:
        _note_address(connection, former)
    if confirms:
        server.add_confirmation(connection.epoch, asked_at)
    grew = grew or server.epoch != epoch
    if grew and not late and server.apply_listener is not None:
        server.apply_listener.on_identity(server, executed, asked_us, answered_us)
    return Identity(
        executed=executed,
        owned=parse_owned(owned.decode("ascii", "replace")),
        sql_mode=_value(sql_mode),
        isolation=_value(isolation),
        autocommit=autocommit != b"0",
        character_set=_value(character_set),
        max_allowed_packet=largest,
        roles=(roles or b"").decode("utf-8", "surrogateescape"),
        read_only=read_only != b"0",
        counted=counted,
        wait_timeout=wait_timeout,
        init_connect=(init or b"").decode("utf-8", "surrogateescape"),
        # A replica's connections only read.
        cascade_triggers=cascades == b"1" and server.role is Role.PRIMARY,
        defaults=defaults_of(defaults or b""),
        asked_us=asked_us,
        answered_us=answered_us,
        grew=grew,
    )
