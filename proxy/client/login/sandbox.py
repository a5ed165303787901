"""A session whose password has expired: until it has a new one, the server refuses (1820).

The session has begun for the client, but not yet for the proxy, whose settings the server refuses,
too. So commands are passed on one by one, and after each that succeeded the settings are tried
again. When they have been made, the session goes on like any other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from protocol.constants import MORE_RESULTS, Command
from protocol.errors import ProtocolError, ServerErrorCode
from protocol.packet import frame
from protocol.response import ErrPacket
from protocol.response_stream import FIELDS, PREPARED, RESULTS, SIMPLE, STRING
from protocol.tracker_view import TrackerView
from proxy.channel import ChannelClosedError
from proxy.server.connect import setup
from proxy.server.errors import ServerRefusedError, ServerUnreachableError

if TYPE_CHECKING:
    from protocol.constants import Capability
    from proxy.channel import PacketChannel
    from proxy.server.connection import ServerConnection
    from proxy.server.login import Login
    from proxy.shared.shared import Shared

_SHAPES: Final[dict[int, int]] = {
    Command.COM_QUERY: RESULTS,
    Command.COM_STMT_EXECUTE: RESULTS,
    Command.COM_STMT_PREPARE: PREPARED,
    Command.COM_FIELD_LIST: FIELDS,
    Command.COM_STATISTICS: STRING,
    **dict.fromkeys(
        (Command.COM_INIT_DB, Command.COM_PING, Command.COM_DEBUG, Command.COM_SET_OPTION), SIMPLE
    ),
    **dict.fromkeys((Command.COM_STMT_RESET, Command.COM_RESET_CONNECTION), SIMPLE),
}
"""The commands that are passed on, and the form of their answers."""
_UNANSWERED: Final = (Command.COM_STMT_CLOSE, Command.COM_STMT_SEND_LONG_DATA)


async def leave_sandbox(
    shared: Shared,
    client: PacketChannel,
    login: Login,
    sandbox: ServerConnection,
    capabilities: Capability,
) -> bool:
    """Serve the client until it has a new password; False if one side left, and both are closed.

    Args:
        shared: whose timeout holds for the settings.
        client: in the command phase.
        login: the client's.
        sandbox: its connection to the primary.
        capabilities: the client's.

    Raises:
        ProtocolError: the client broke the protocol; the server's connection is closed.
    """
    server = sandbox.channel
    try:
        while True:
            client.sequence_id = server.sequence_id = 0
            reading = asyncio.ensure_future(server.read_packet())
            try:
                payload = await _next_command(client, reading)
                if not await _pass_on(client, sandbox, capabilities, payload, reading):
                    continue
            finally:
                reading.cancel()
                del reading  # its exception holds this frame
            try:
                async with asyncio.timeout(shared.config.connect_timeout):
                    left = await setup.leave_sandbox(sandbox)
            except ProtocolError as error:
                raise _ServerSpokeError from error
            if left:
                await shared.primary_epoch.begin(sandbox, login)
                return True
    except (ServerUnreachableError, ServerRefusedError, _ServerSpokeError):
        server.abort()
        client.close()
        return False
    except (ChannelClosedError, TimeoutError):
        server.abort()
        client.close()
        return False
    except BaseException:
        server.abort()
        raise


class _ServerSpokeError(Exception):
    """The server sent something out of turn, or something that cannot be parsed."""


async def _next_command(client: PacketChannel, server: asyncio.Future[bytes]) -> bytes:
    """The client's next packet; what a server says meanwhile is why it closes the connection."""
    reading = asyncio.ensure_future(client.read_packet())
    try:
        await asyncio.wait((reading, server), return_when=asyncio.FIRST_COMPLETED)
        if server.done():
            client.write_packet(server.result())
            raise _ServerSpokeError
        return reading.result()
    finally:
        reading.cancel()
        del reading, server  # their exceptions hold this frame


async def _pass_on(
    client: PacketChannel,
    sandbox: ServerConnection,
    capabilities: Capability,
    payload: bytes,
    reading: asyncio.Future[bytes],
) -> bool:
    """Serve one command; whether it was answered, and not with an error."""
    server = sandbox.channel
    command = payload[0] if payload else Command.COM_SLEEP
    if command == Command.COM_QUIT:
        server.write_packet(payload)
        raise ChannelClosedError("the client said goodbye")
    if command in _UNANSWERED:
        server.write_packet(payload)
        server.sequence_id = 0
        return False
    shape = _SHAPES.get(command)
    if shape is None:
        code = ServerErrorCode.ER_MUST_CHANGE_PASSWORD
        error = ErrPacket(code.code, code.sqlstate, "Tidegate: change the password first")
        client.write_packet(error.serialise(capabilities))
        return False
    if command == Command.COM_STMT_PREPARE:
        sandbox.opening.prepared += 1
    stream = sandbox.stream
    view = TrackerView(capabilities, frozenset())
    stream.begin(shape)
    server.write_packet(payload)
    try:
        try:
            answer = await reading
        finally:
            del reading  # its exception holds this frame
        while True:
            stream.feed(frame(answer, server.sequence_id - 1))
            client.transport.write(view.client_bytes(stream))
            sandbox.opening.several |= stream.status & MORE_RESULTS != 0
            if stream.done:
                return stream.error is None
            if stream.infile:
                raise _ServerSpokeError
            answer = await server.read_packet()
    except ProtocolError as error:
        raise _ServerSpokeError from error
