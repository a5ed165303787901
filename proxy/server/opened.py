"""Makes a connection that was logged in fit for its purpose: settings, and who the server is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.errors import ServerErrorCode
from proxy.channel import ChannelClosedError
from proxy.server.account import SHOW, Requirement, requirement_of
from proxy.server.errors import PacketLimitLoweredError, ServerRefusedError
from proxy.server.query import answer, ask, identify
from proxy.server.settings import ROOM, primary_settings
from routing.servers.topology import Role

if TYPE_CHECKING:
    from protocol.response import ErrPacket
    from proxy.channel import PacketChannel
    from proxy.server.connection import ServerConnection
    from proxy.server.query import Identity


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection that is ready for statements.

    Attributes:
        connection: it; `attach` it to use it.
        channel: hand it over to the connection.
        identity: what the server said of itself on it.
        requirement: what the primary could not check, since it saw the proxy's TLS.
    """

    connection: ServerConnection
    channel: PacketChannel
    identity: Identity
    requirement: Requirement = Requirement.NOTHING


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A connection whose login was taken, and whose server refuses all else: the password expired.

    Attributes:
        connection, channel: as `Opened` has them.
        settings: what the server refused.
        refusal: how.
    """

    connection: ServerConnection
    channel: PacketChannel
    settings: Settings
    refusal: ErrPacket

    async def leave(self) -> Opened | None:
        """Try the settings again; None if they are refused as before.

        Raises:
            ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
        """
        outcome = await settle(self.connection, self.channel, self.settings, 0)
        self.connection.keepable = False
        return outcome if isinstance(outcome, Opened) else None


@dataclass(frozen=True, slots=True)
class Settings:
    """How a connection is made fit for its purpose.

    Attributes:
        role: what it is for; the server may get another role before it is made.
        tracking: its session_track_gtids.
        schema: its default schema.
    """

    role: Role
    tracking: str
    schema: str


async def settle(
    connection: ServerConnection,
    channel: PacketChannel,
    settings: Settings,
    longest: int,
    present: bool = False,
) -> Opened | Sandbox:
    """Learn who the server is, make the settings, and learn what the account requires.

    Args:
        connection: to the server, which has taken the login.
        channel: likewise.
        settings: what for.
        longest: packets of so many bytes should be allowed, and all of it goes out in one write; 0
            where that is not known, and the server is asked first.
        present: as `identify` has it.

    Raises:
        PacketLimitLoweredError: it is less now, and the server may have closed the connection.
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    server = connection.server
    connection.schema = settings.schema
    requirement = Requirement.NOTHING
    behind = _behind(connection, channel, settings, longest) if longest else []
    awaited = len(behind)
    try:
        identity = await identify(channel, connection, server, *behind, present=present)
        connection.max_packet = server.max_packet = identity.max_allowed_packet
        lowered = connection.max_packet < longest
        if lowered and len(connection.settings) + ROOM > connection.max_packet:
            raise PacketLimitLoweredError("its max_allowed_packet was lowered meanwhile")
        if not behind:
            behind = _behind(connection, channel, settings, connection.max_packet)
            ask(channel, connection, *behind)
            awaited = len(behind)
        awaited -= 1
        await answer(channel, connection)
        if SHOW in behind:
            awaited -= 1
            requirement = await requirement_of(channel, connection)
    except ServerRefusedError as error:
        if error.error.code != ServerErrorCode.ER_MUST_CHANGE_PASSWORD.code:
            raise
        await _refused(channel, connection, awaited)
        return Sandbox(connection, channel, settings, error.error)
    except ChannelClosedError:
        server.max_packet = 0  # if it was lowered, the end may have overtaken the word of it
        raise
    connection.keepable = identity.keepable
    connection.tracks_all = settings.tracking == "ALL_GTIDS"
    return Opened(connection, channel, identity, requirement)


def _behind(
    connection: ServerConnection, channel: PacketChannel, settings: Settings, longest: int
) -> list[bytes]:
    """What follows the question who the server is: the settings, and the account's clause."""
    if settings.role is not Role.PRIMARY:
        return [connection.settings]
    connection.settings = primary_settings(longest, settings.tracking)
    return [connection.settings, SHOW] if channel.secure else [connection.settings]


async def _refused(channel: PacketChannel, connection: ServerConnection, count: int) -> None:
    """Read the answers to what was sent behind a statement that a sandbox refused.

    Raises:
        ServerRefusedError: one was refused for another reason.
        ChannelClosedError, ProtocolError: as `query`.
    """
    for _ in range(count):
        try:
            await answer(channel, connection)
        except ServerRefusedError as error:
            if error.error.code != ServerErrorCode.ER_MUST_CHANGE_PASSWORD.code:
                raise
