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
from proxy.client.login.authentication import Authentication
from proxy.client.login.login import (
    LOGIN_PACKET_LIMIT,
    LoggedIn,
    handshake_error,
    login_ok,
    may_enter,
    open_primary,
    refuse,
    timed_out,
    turn_away,
)
from proxy.client.login.sandbox import leave_sandbox
from proxy.server.connection_stage import SANDBOX
from proxy.server.login import Login
from routing.consistency.adjustment import SettingError
from routing.consistency.decision import Outcome, Proof, Reason

if TYPE_CHECKING:
    from proxy.client.effects.command_effects import CommandEffects
    from proxy.client.session_context import SessionContext
    from proxy.client.session_rules import SessionRules
    from proxy.server.connection import ServerConnection


class Changing(Protocol):
    """The session whose user changes."""

    def begin_anew(self, connection: ServerConnection) -> None:
        """Use this connection to the primary, as the new user; ChannelClosedError if it broke."""

    def begin_without_primary(self, connection: ServerConnection) -> None:
        """Begin as a replica has begun the new user's session, since the primary is gone."""


class UserChange:
    """One change of one session's user, created for its command."""

    def __init__(
        self,
        session: SessionContext,
        command_effects: CommandEffects,
        changing: Changing,
    ) -> None:
        """`changing` is the session, whose parts are in `session`."""
        self._shared = session.shared
        self._session_id = session.session_id
        self._current = session.current
        self._client = session.client
        self._servers = session.servers
        self._state = session.state
        self._rules = session.rules
        self._command_effects = command_effects
        self._settings = session.settings
        self._prepared = session.prepared
        self._changing = changing
        self._account = session.account
        self._authentication: Authentication | None = None

    async def run(self) -> bool | None:
        """Learn the new user's password and log in at the primary anew.

        Returns:
            Whether the client goes on, as the new user; None if it has left already.
        """
        shared = self._shared
        lent = self._client.lend()
        if lent is None:
            return None
        transport, secure = lent
        channel = PacketChannel(LOGIN_PACKET_LIMIT)
        channel.adopt(transport, 1, secure=secure)
        channel.peer = self._client.peer
        try:
            async with asyncio.timeout(shared.config.handshake_timeout) as limit:
                if await self._change(channel, limit):
                    channel.hand_over(self._client)
                    return True
        except TimeoutError:
            authentication = self._authentication
            timed_out(shared, channel, None if authentication is None else authentication.awaits)
        except ChannelClosedError as error:
            shared.refusals.log_failure(channel, f"could not change its user: {error}")
            refuse(
                channel, ServerErrorCode.CR_SERVER_LOST, f"Lost connection to MySQL server: {error}"
            )
        except ProtocolError as error:
            shared.metrics.protocol_error("client")
            shared.refusals.log_failure(channel, f"broke its change of user off: {error}")
            refuse(channel, handshake_error(error), f"Bad handshake: {error}")
        return False

    async def _change(self, channel: PacketChannel, limit: asyncio.Timeout) -> bool:
        """Do it, up to the OK; False if the primary refused and the client was told.

        `limit` is the time that the login may take.

        The server always answers with an AuthSwitchRequest (fact 6.7), and so does the proxy.
        """
        shared, before, capabilities = self._shared, self._servers.login, self._client.capabilities
        command = ComChangeUser.parse(self._current.command.packet[4:], capabilities)
        channel.user = command.username
        nonce = bytes(byte % 127 + 1 for byte in secrets.token_bytes(20))
        channel.write_packet(AuthSwitchRequest(CACHING_SHA2, nonce).serialise())
        response = await channel.read_packet()
        self._authentication = authentication = Authentication(
            channel, command.username, nonce, shared.materials.rsa_key, shared.known_passwords
        )
        password = await authentication.learn(CACHING_SHA2, response)
        login = Login(
            username=command.username,
            password=password,
            capabilities=before.capabilities,
            character_set=command.character_set,
            database=command.database or None,
            attributes=command.attributes or before.attributes,
            own_attributes=before.own_attributes,
        )
        try:
            rules = self._rules.of_user(login.username, login.attributes)
        except SettingError as error:
            shared.refusals.add("attribute", channel, str(error))
            refuse(channel, ServerErrorCode.ER_WRONG_VALUE_FOR_VAR, f"Tidegate: {error}")
            return False
        tracking = rules.initial(login.database or "").tracking
        primary = self._idle_primary  # it may still answer a question of the proxy's own
        opened = await open_primary(
            shared, channel, login, authentication, tracking, current=primary
        )
        if opened is None:
            return False
        login, connection = opened.login, opened.connection
        admission = shared.sessions.admission(self._session_id)
        refusal = None if admission is None else admission.log_in(login.username)
        if refusal is not None:
            connection.abort()
            turn_away(shared, channel, refusal)
            return False
        ok = login_ok(login, capabilities, connection)
        if connection.stage == SANDBOX:
            channel.write_packet(ok)
            limit.reschedule(None)
            # The previous user's state must not stay while the new password is awaited.
            self._servers.abandon_primary()
            left = await leave_sandbox(shared, channel, login, connection, capabilities)
            channel.sequence_id = 0
            if not left or not may_enter(shared, channel, login, connection):
                return False
            await shared.catalogues.learn(connection, login.username)
            self._on_changed(opened, rules)
            self._state.may_have_written()  # a new password, before GTIDs were tracked
            return True
        await shared.catalogues.learn(connection, login.username)
        self._on_changed(opened, rules)
        channel.write_packet(ok)
        return True

    @property
    def _idle_primary(self) -> ServerConnection | None:
        """The connection to the primary, if it owes no answer."""
        primary = self._servers.primary
        return None if primary is None or primary.busy or primary.lost else primary

    def _on_changed(self, opened: LoggedIn, rules: SessionRules) -> None:
        """The new login succeeded: the old one's state ends, but what it wrote must still be seen.

        Raises:
            ChannelClosedError: the new connection broke meanwhile.
        """
        state, servers, login = self._state, self._servers, opened.login
        servers.login = login
        self._rules.become(rules)
        state.on_login(login.username)
        state.initial_rules = rules.initial(login.database or "")
        state.reset()
        self._settings.on_connect(state.initial_rules.tracking)
        self._command_effects.count_pins()
        self._prepared.clear()
        servers.drop_replicas()
        outcome = self._current.outcome
        outcome.reason = Reason.COMMAND
        if opened.reads_only:
            self._changing.begin_without_primary(opened.connection)
            outcome.proof = Proof.NONE
            self._account.record(self._current.command, outcome, None, Outcome.OK)
        else:
            self._changing.begin_anew(opened.connection)
            outcome.proof = Proof.PRIMARY
            server = opened.connection.server
            self._account.record(self._current.command, outcome, server, Outcome.OK)
        self._current.on_ended()
