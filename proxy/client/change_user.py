"""COM_CHANGE_USER: a login over a connection that is in the command phase already."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Protocol

from protocol.authentication import CACHING_SHA2
from protocol.command import ComChangeUser
from protocol.errors import ProtocolError, ServerErrorCode
from protocol.handshake import AuthSwitchRequest
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.client.authentication import Authentication
from proxy.client.login import (
    LOGIN_PACKET_LIMIT,
    handshake_error,
    login_ok,
    may_enter,
    open_primary,
    refuse,
    timed_out,
)
from proxy.client.sandbox import leave_sandbox
from proxy.server.login import Login
from proxy.server.opened import Sandbox
from routing.consistency.adjustment import SettingError

if TYPE_CHECKING:
    from proxy.client.connection import ClientConnection
    from proxy.client.session_rules import SessionRules
    from proxy.server.connection import ServerConnection
    from proxy.server.opened import Lent, Opened
    from proxy.shared import Shared
    from routing.session.session import Session


class Changing(Protocol):
    """The session whose user changes."""

    @property
    def client(self) -> ClientConnection:
        """The connection to its client."""

    @property
    def login(self) -> Login:
        """As whom it logged in before."""

    @property
    def rules(self) -> SessionRules:
        """Where its rules came from."""

    @property
    def state(self) -> Session:
        """What routing knows of it."""

    @property
    def idle_primary(self) -> ServerConnection | None:
        """Its connection to the primary, if that owes no answer."""

    def abandon(self) -> None:
        """Close that connection."""

    def changed_user(self, login: Login, opened: Opened | Lent, rules: SessionRules) -> None:
        """The new login succeeded.

        Raises:
            ChannelClosedError: the new connection broke meanwhile.
        """

    def client_lost(self) -> None:
        """The client is gone."""


async def change_user(shared: Shared, session: Changing, packet: bytes) -> None:
    """Learn the new user's password and log in at the primary anew; failing ends the session."""
    connection = session.client
    lent = connection.lend()
    if lent is None:
        return
    transport, secure = lent
    channel = PacketChannel(LOGIN_PACKET_LIMIT)
    channel.adopt(transport, 1, secure=secure)
    try:
        async with asyncio.timeout(shared.config.handshake_timeout) as limit:
            if await _change(shared, session, channel, packet, limit):
                channel.hand_over(connection)
                connection.ready()
                return
    except TimeoutError:
        timed_out(shared, channel)
    except ChannelClosedError as error:
        shared.refusals.failed(channel, f"could not change its user: {error}")
        refuse(channel, ServerErrorCode.CR_SERVER_LOST, f"Lost connection to MySQL server: {error}")
    except ProtocolError as error:
        shared.metrics.protocol_error("client")
        shared.refusals.failed(channel, f"broke its change of user off: {error}")
        refuse(channel, handshake_error(error), f"Bad handshake: {error}")
    session.client_lost()


async def _change(
    shared: Shared,
    session: Changing,
    channel: PacketChannel,
    packet: bytes,
    limit: asyncio.Timeout,
) -> bool:
    """Do it, up to the OK; False if the primary refused, of which the client was told.

    `limit` is the time that the login may take.

    The server always answers with an AuthSwitchRequest (fact 6.7), and so does the proxy.
    """
    capabilities = session.client.capabilities
    command = ComChangeUser.parse(packet[4:], capabilities)
    channel.user = command.username
    nonce = bytes(byte % 127 + 1 for byte in secrets.token_bytes(20))
    channel.write_packet(AuthSwitchRequest(CACHING_SHA2, nonce).serialise())
    response = await channel.read_packet()
    authentication = Authentication(
        channel, command.username, nonce, shared.materials.rsa_key, shared.known_passwords
    )
    password = await authentication.learn(CACHING_SHA2, response)
    login = Login(
        username=command.username,
        password=password,
        capabilities=session.login.capabilities,
        character_set=command.character_set or session.login.character_set,
        database=command.database or None,
        attributes=command.attributes or session.login.attributes,
        own_attributes=session.login.own_attributes,
    )
    try:
        rules = session.rules.of_user(login.username, login.attributes)
    except SettingError as error:
        shared.refusals.add("attribute", channel, str(error))
        refuse(channel, ServerErrorCode.ER_WRONG_VALUE_FOR_VAR, f"Tidegate: {error}")
        return False
    tracking = rules.initial(login.database or "").tracking
    primary = session.idle_primary  # it may still answer a question of the proxy's own
    entered = await open_primary(shared, channel, login, authentication, tracking, current=primary)
    if entered is None:
        return False
    login = entered.login
    if isinstance(entered.opened, Sandbox):
        channel.write_packet(login_ok(login, capabilities, entered.opened))
        limit.reschedule(None)
        session.abandon()  # what the user before had must not wait for the new password
        opened = await leave_sandbox(shared, channel, login, entered.opened, capabilities)
        channel.sequence_id = 0
        if opened is None or not may_enter(shared, channel, login, opened):
            return False
        await shared.catalogues.learn(opened, login.username)
        session.changed_user(login, opened, rules)
        session.state.may_have_written()  # a new password, before GTIDs were tracked
        return True
    await shared.catalogues.learn(entered.opened, login.username)
    session.changed_user(login, entered.opened, rules)
    channel.write_packet(login_ok(login, capabilities, entered.opened))
    return True
