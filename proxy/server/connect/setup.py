"""Prepares a connection after its login: makes settings, and learns who the server is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from protocol.errors import ServerErrorCode
from proxy.channel import ChannelClosedError
from proxy.server.account import SHOW, Requirement, read_requirement
from proxy.server.connection_stage import READY
from proxy.server.errors import PacketLimitLoweredError, ServerRefusedError
from proxy.server.query import answer, ask, end_transaction, identify
from proxy.server.settings import ROOM, primary_settings
from proxy.server.verified_login import question, verified_login
from routing.servers.topology import Role
from routing.session.defaults import ASK as ASK_DEFAULTS
from routing.session.defaults import ROOM as ROOM_FOR_DEFAULTS
from routing.session.defaults import defaults_of

if TYPE_CHECKING:
    from proxy.server.connection import ServerConnection
    from proxy.server.identity import Identity
    from proxy.server.settings import Settings


_UNREADABLE: Final = b"?"


async def set_up(
    connection: ServerConnection, settings: Settings, longest: int, *, present: bool = False
) -> None:
    """Learn who the server is, make the settings, and learn what the account requires.

    The connection is READY then, or a SANDBOX if the password has expired.

    Args:
        connection: to the server, which has taken the login.
        settings: what for.
        longest: packets of this size, bytes, should be allowed; all goes out in one write then; 0
            where that is not known, and the server is asked first.
        present: as `identify` has it.

    Raises:
        PacketLimitLoweredError: it is less now, and the server may have closed the connection.
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    await _Setup(connection, settings).run(longest, present)


async def leave_sandbox(connection: ServerConnection) -> bool:
    """Try again to make the settings that a sandbox has refused; whether the connection is READY.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    settings = connection.opening.settings
    if settings is not None:
        await set_up(connection, settings, 0)
    connection.keepable = False
    return connection.stage == READY


class _Setup:
    """One of one connection: what was sent, and what the answers tell."""

    def __init__(self, connection: ServerConnection, settings: Settings) -> None:
        self._connection = connection
        self._settings = settings
        self._requires = settings.role is Role.PRIMARY and connection.channel.secure
        self._statements: list[bytes] = []
        self._awaited = 0  # answers to these
        self._row: bytes | None = None
        self._account = b""

    async def run(self, longest: int, present: bool) -> None:
        connection = self._connection
        connection.mirror.schema = self._settings.schema
        if longest:
            self._prepare(longest)
        try:
            identity = await self._identify(longest, present)
            await self._read_answers()
        except ServerRefusedError as error:
            if not _is_expired(error):
                raise
            await self._skip_answers()
            connection.enter_sandbox(self._settings, error.error)
            return
        except ChannelClosedError:
            # If it was lowered, the close may have come before the error.
            connection.server.max_packet = 0
            raise
        self._finish(identity)

    def _prepare(self, longest: int) -> None:
        """What follows the question who the server is: the settings, and further questions.

        SHOW comes last: with autocommit off it begins a transaction, which is ended after it.
        """
        connection, settings = self._connection, self._settings
        primary = settings.role is Role.PRIMARY
        if primary:
            connection.settings = primary_settings(longest, settings.tracking)
        self._statements = [connection.settings]
        if settings.login is not None:
            self._statements += [question(settings.role), SHOW]
        elif primary and connection.channel.secure:
            self._statements.append(SHOW)
        self._awaited = len(self._statements)

    async def _identify(self, longest: int, present: bool) -> Identity:
        """Learn who the server is; all statements are sent then."""
        connection = self._connection
        server = connection.server
        was_short = server.takes_short
        identity = await identify(connection, *self._statements, present=present)
        connection.max_packet = server.max_packet = identity.max_allowed_packet
        lowered = connection.max_packet < longest
        if lowered and len(connection.settings) + ROOM > connection.max_packet:
            raise PacketLimitLoweredError("its max_allowed_packet was lowered meanwhile")
        if self._statements:
            return identity
        self._prepare(connection.max_packet)
        asks = was_short and connection.max_packet >= ROOM_FOR_DEFAULTS
        ask(connection, *([ASK_DEFAULTS] if asks else []), *self._statements)
        if asks:
            values = await answer(connection)
            identity = replace(identity, defaults=defaults_of((values or [b""])[0] or b""))
        return identity

    async def _read_answers(self) -> None:
        """Read the answers to all statements."""
        self._awaited -= 1
        await answer(self._connection)
        if self._settings.login is not None:
            self._awaited -= 1
            self._row = await self._defaults()
        if SHOW in self._statements:
            self._awaited -= 1
            try:
                self._account = await self._shown_account()
            except ServerRefusedError as error:
                if self._requires or _is_expired(error):
                    raise

    async def _skip_answers(self) -> None:
        """Read the answers to what was sent after a statement that a sandbox refused.

        Raises:
            ServerRefusedError: one was refused for another reason.
            ChannelClosedError, ProtocolError: as `query`.
        """
        for _ in range(self._awaited):
            try:
                await answer(self._connection)
            except ServerRefusedError as error:
                if not _is_expired(error):
                    raise

    async def _defaults(self) -> bytes | None:
        """What the session begins with; None if a server does not say: nothing depends on it.

        Raises:
            ServerRefusedError: the password has expired.
            ChannelClosedError, ProtocolError: as `query`.
        """
        try:
            await answer(self._connection)
        except ServerRefusedError as error:
            if _is_expired(error):
                raise
            return None
        return self._connection.stream.row

    async def _shown_account(self) -> bytes:
        """The account that has logged in, from the server's answer to `SHOW`.

        Empty where the server runs without accounts.

        Raises:
            ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
        """
        connection = self._connection
        try:
            row = await answer(connection)
        except ServerRefusedError as error:
            if error.error.code == ServerErrorCode.ER_OPTION_PREVENTS_STATEMENT.code:
                return b""
            raise
        await end_transaction(connection)  # which would hold a lock on the accounts
        return (row[0] if row else b"") or _UNREADABLE

    def _finish(self, identity: Identity) -> None:
        connection, settings, account = self._connection, self._settings, self._account
        connection.keepable = identity.keepable
        connection.mirror.tracks_all = settings.tracking == "ALL_GTIDS"
        requirement = Requirement.NOTHING
        if account and self._requires:
            requirement = read_requirement(account)
        if settings.login is not None:
            connection.verified_login = verified_login(
                settings=settings,
                made=connection.settings,
                has_attributes=connection.query_attributes,
                identity=identity,
                requirement=requirement,
                row=self._row,
                account=account,
            )
        connection.become_ready(identity, requirement)


def _is_expired(error: ServerRefusedError) -> bool:
    """Whether a server refused a statement because the password has expired."""
    return error.error.code == ServerErrorCode.ER_MUST_CHANGE_PASSWORD.code
