"""Prepares a connection after its login: makes settings, and learns who the server is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from protocol.constants import IN_TRANS
from protocol.errors import ServerErrorCode
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.server.account import SHOW, Requirement, read_requirement
from proxy.server.connect.greeting import LOGIN_PACKET_LIMIT
from proxy.server.errors import PacketLimitLoweredError, ServerRefusedError
from proxy.server.query import answer, ask, identify, query
from proxy.server.settings import ROOM, Settings, primary_settings
from proxy.server.verified_login import judged, question
from routing.servers.topology import Role
from routing.session.defaults import ASK as ASK_DEFAULTS
from routing.session.defaults import ROOM as ROOM_FOR_DEFAULTS
from routing.session.defaults import defaults_of

if TYPE_CHECKING:
    from protocol.response import ErrPacket
    from proxy.server.connection import Owner, ServerConnection
    from proxy.server.identity import Identity


_COMMIT: Final = b"COMMIT AND NO CHAIN NO RELEASE"
_UNREADABLE: Final = b"?"


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection that is ready for statements.

    Attributes:
        connection: it; `attach` it to use it.
        channel: hand it over to the connection.
        identity: what the server said of itself on it.
        requirement: what the primary could not check, since it saw the proxy's TLS.
        ahead: packets that are to go in front of the first statement.
    """

    connection: ServerConnection
    channel: PacketChannel
    identity: Identity
    requirement: Requirement = Requirement.NOTHING
    ahead: tuple[bytes, ...] = ()

    def hand_over(self, owner: Owner) -> None:
        """Let `owner` have the connection from now on.

        Raises:
            ChannelClosedError: it is gone.
        """
        self.connection.attach(self.channel.hand_over(self.connection), owner)

    def abort(self) -> None:
        """Drop the connection at once."""
        self.channel.abort()
        self.connection.close()


@dataclass(frozen=True, slots=True)
class Lent:
    """A connection lent without asking the server, which accepted the same login a moment ago.

    Attributes:
        connection: the connection; nobody else has it.
        identity, requirement: what `Opened` had.
    """

    connection: ServerConnection
    identity: Identity
    requirement: Requirement

    def hand_over(self, owner: Owner) -> None:
        """Let `owner` have the connection from now on."""
        self.connection.serve(owner)

    def opened(self) -> Opened:
        """The same, to be asked something before anybody has it; this one is used up.

        Raises:
            ChannelClosedError: it is gone.
        """
        lent = self.connection
        ahead = lent.preface
        channel = PacketChannel(LOGIN_PACKET_LIMIT)
        connection = lent.pass_on_to(channel)
        return Opened(connection, channel, self.identity, self.requirement, ahead)

    def abort(self) -> None:
        """Close the connection."""
        self.connection.close()


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A connection whose login was accepted, but whose server refuses all else: expired password.

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
        longest: packets of this size, bytes, should be allowed; all goes out in one write then; 0
            where that is not known, and the server is asked first.
        present: as `identify` has it.

    Raises:
        PacketLimitLoweredError: it is less now, and the server may have closed the connection.
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    server = connection.server
    connection.mirror.schema = settings.schema
    row: bytes | None = None
    account = b""
    requires = settings.role is Role.PRIMARY and channel.secure
    behind = _behind(connection, channel, settings, longest) if longest else []
    awaited = len(behind)
    was_short = server.takes_short
    try:
        identity = await identify(channel, connection, server, *behind, present=present)
        connection.max_packet = server.max_packet = identity.max_allowed_packet
        lowered = connection.max_packet < longest
        if lowered and len(connection.settings) + ROOM > connection.max_packet:
            raise PacketLimitLoweredError("its max_allowed_packet was lowered meanwhile")
        if not behind:
            behind = _behind(connection, channel, settings, connection.max_packet)
            asks = was_short and connection.max_packet >= ROOM_FOR_DEFAULTS
            ask(channel, connection, *([ASK_DEFAULTS] if asks else []), *behind)
            awaited = len(behind)
            if asks:
                values = await answer(channel, connection)
                identity = replace(identity, defaults=defaults_of((values or [b""])[0] or b""))
        awaited -= 1
        await answer(channel, connection)
        if settings.login is not None:
            awaited -= 1
            row = await _defaults(channel, connection)
        if SHOW in behind:
            awaited -= 1
            try:
                account = await _account_of(channel, connection)
            except ServerRefusedError as error:
                if requires or _is_expired(error):
                    raise
    except ServerRefusedError as error:
        if not _is_expired(error):
            raise
        await _refused(channel, connection, awaited)
        return Sandbox(connection, channel, settings, error.error)
    except ChannelClosedError:
        server.max_packet = 0  # if it was lowered, the close may have come before the error
        raise
    connection.keepable = identity.keepable
    connection.mirror.tracks_all = settings.tracking == "ALL_GTIDS"
    requirement = read_requirement(account) if account and requires else Requirement.NOTHING
    if settings.login is not None:
        connection.judged = judged(
            settings=settings,
            made=connection.settings,
            has_attributes=connection.query_attributes,
            identity=identity,
            requirement=requirement,
            row=row,
            account=account,
        )
    return Opened(connection, channel, identity, requirement)


def _behind(
    connection: ServerConnection, channel: PacketChannel, settings: Settings, longest: int
) -> list[bytes]:
    """What follows the question who the server is: the settings, and further questions.

    SHOW comes last: with autocommit off it begins a transaction, which is ended after it.
    """
    primary = settings.role is Role.PRIMARY
    if primary:
        connection.settings = primary_settings(longest, settings.tracking)
    if settings.login is not None:
        return [connection.settings, question(settings.role), SHOW]
    return [connection.settings, SHOW] if primary and channel.secure else [connection.settings]


async def _refused(channel: PacketChannel, connection: ServerConnection, count: int) -> None:
    """Read the answers to what was sent after a statement that a sandbox refused.

    Raises:
        ServerRefusedError: one was refused for another reason.
        ChannelClosedError, ProtocolError: as `query`.
    """
    for _ in range(count):
        try:
            await answer(channel, connection)
        except ServerRefusedError as error:
            if not _is_expired(error):
                raise


async def _defaults(channel: PacketChannel, connection: ServerConnection) -> bytes | None:
    """What the session begins with; None if a server does not say: nothing depends on it.

    Raises:
        ServerRefusedError: the password has expired.
        ChannelClosedError, ProtocolError: as `query`.
    """
    try:
        await answer(channel, connection)
    except ServerRefusedError as error:
        if _is_expired(error):
            raise
        return None
    return connection.stream.row


def _is_expired(error: ServerRefusedError) -> bool:
    """Whether a server refused a statement because the password has expired."""
    return error.error.code == ServerErrorCode.ER_MUST_CHANGE_PASSWORD.code


async def _account_of(channel: PacketChannel, connection: ServerConnection) -> bytes:
    """The account that has logged in, from the server's answer to `SHOW`.

    Empty where the server runs without accounts.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    try:
        row = await answer(channel, connection)
    except ServerRefusedError as error:
        if error.error.code == ServerErrorCode.ER_OPTION_PREVENTS_STATEMENT.code:
            return b""
        raise
    if connection.stream.status & IN_TRANS:
        # With autocommit off it began a transaction, which would hold a lock on the accounts.
        await query(channel, connection, _COMMIT)
    return (row[0] if row else b"") or _UNREADABLE
