"""Accepts operators at a port of their own (admin-listen), outside of max-connections.

A server judges who logs in, as for any client: the primary, or a replica while that is gone. If no
server answers, whoever shows the password that the primary accepted last is let in.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from protocol.constants import AUTOCOMMIT, Capability, Command
from protocol.errors import ProtocolError, ServerErrorCode
from protocol.response import ErrPacket, OkPacket
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.client.admin.statements import AdminStatements, Refusal, Shown
from proxy.client.listener import Listener, Welcome
from proxy.client.login.authentication import Authentication
from proxy.client.login.login import handshake_error, may_enter, refuse
from proxy.client.replies import framing as replies
from proxy.error_text import error_text
from proxy.server.attributes import of_session
from proxy.server.errors import NoDescriptorError, ServerRefusedError, ServerUnreachableError
from proxy.server.login import Login

if TYPE_CHECKING:
    from protocol.handshake import HandshakeResponse41
    from proxy.address import Address
    from proxy.server.connection import ServerConnection
    from proxy.shared.shared import Shared

_log = logging.getLogger(__name__)

MOST: Final = 16
"""Operators at a time, of each worker."""
MOST_ARRIVING: Final = 64
"""Connections over which nobody has logged in yet; a further one replaces the oldest."""
_WITHOUT: Final = (
    Capability.CLIENT_QUERY_ATTRIBUTES
    | Capability.CLIENT_MULTI_STATEMENTS
    | Capability.CLIENT_LOCAL_FILES
    | Capability.CLIENT_COMPRESS
    | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM
    | Capability.CLIENT_OPTIONAL_RESULTSET_METADATA
)
"""What is of no use here, and not offered."""
_DOES_NOT_JUDGE: Final = frozenset(
    code.code
    for code in (
        ServerErrorCode.ER_CON_COUNT_ERROR,
        ServerErrorCode.ER_TOO_MANY_USER_CONNECTIONS,
        ServerErrorCode.ER_USER_LIMIT_REACHED,
        ServerErrorCode.ER_SERVER_SHUTDOWN,
    )
)
"""Errors of servers that are full, or leave: the password may be right."""
_FINE: Final = (Command.COM_PING, Command.COM_RESET_CONNECTION, Command.COM_INIT_DB)


class AdminListener(Listener):
    """The port for operators, of one worker.

    Attributes:
        open: its connections, the oldest first, and whether an operator has logged in over each.
    """

    def __init__(self, shared: Shared, address: Address) -> None:
        super().__init__(shared, address)
        self.open: dict[PacketChannel, bool] = {}

    def end(self) -> None:
        """End the operators who are there."""
        for channel in list(self.open):
            channel.abort()

    def admit(self, channel: PacketChannel) -> bool:
        """Let an operator in whose login was accepted; False if there are too many already."""
        if sum(self.open.values()) >= MOST:
            return False
        self.open[channel] = True
        return True

    async def _welcome(self, channel: PacketChannel) -> None:
        arriving = [other for other, logged_in in self.open.items() if not logged_in]
        if len(arriving) >= MOST_ARRIVING:
            arriving[0].abort()  # who connects and says nothing keeps no operator out
        self.open[channel] = False
        try:
            async with asyncio.timeout(self._shared.config.handshake_timeout) as limit:
                await AdminWelcome(self._shared, channel, self, limit).run()
        except (ChannelClosedError, TimeoutError):
            channel.abort()
        except (ProtocolError, ssl.SSLError, OSError) as error:
            refuse(channel, handshake_error(error), f"Bad handshake: {error_text(error)}")
        except BaseException:
            channel.abort()
            raise
        finally:
            self.open.pop(channel, None)


class AdminWelcome(Welcome):
    """The login of one operator, and what follows."""

    def __init__(
        self,
        shared: Shared,
        channel: PacketChannel,
        listener: AdminListener,
        limit: asyncio.Timeout,
    ) -> None:
        admission = shared.client_limits.begin()  # which counts nowhere
        super().__init__(shared, channel, listener.address, admission, limit)
        self._admit = listener.admit
        self._offered &= ~_WITHOUT

    async def _be_greeted(self) -> None:
        """No server greets: the connection id is the proxy's own."""

    async def _run(self) -> bool:
        shared, channel = self._shared, self._channel
        response = await self._hello()
        if response is None:
            return False
        authentication = Authentication(
            channel,
            response.username,
            self._nonce,
            shared.materials.rsa_key,
            shared.known_passwords,
        )
        known = shared.known_passwords.get(response.username)
        password = await authentication.learn(response.auth_plugin, response.auth_response)
        if response.username not in shared.config.admins:
            self._deny(response)
            return False
        if not await self._may_enter(response, authentication, password, known):
            return False
        if not self._admit(channel):
            why = f"Too many connections (at most {MOST} operators at admin-listen)"
            refuse(channel, ServerErrorCode.ER_CON_COUNT_ERROR, why)
            return False
        channel.write_packet(OkPacket(status=AUTOCOMMIT).serialise(response.capabilities))
        _log.info("%s has logged in at admin-listen, from %s", response.username, channel.peer)
        self._limit.reschedule(None)
        await self._serve_operator(response.username, response.capabilities & self._offered)
        return False

    async def _may_enter(
        self,
        response: HandshakeResponse41,
        authentication: Authentication,
        password: bytes,
        known: bytes | None,
    ) -> bool:
        """Whether a server lets the operator in, or what it said lately; else they are told."""
        login = Login(
            username=response.username,
            password=password,
            capabilities=Capability.CLIENT_DEPRECATE_EOF,
            character_set=response.character_set,
            database=None,
            own_attributes=of_session(
                self._channel.peer, self._shared.config.proxy_name, self._session_id
            ),
        )
        while True:
            try:
                connection = await self._judged(login, authentication)
            except ServerRefusedError as error:
                if error.error.code != ServerErrorCode.ER_ACCESS_DENIED_ERROR.code:
                    self._channel.write_packet(error.error.serialise(Capability.CLIENT_PROTOCOL_41))
                    self._channel.close()
                    return False
                anew = await authentication.learn_anew()
                if anew is None:
                    self._deny(response)
                    return False
                login = replace(login, password=anew)
                continue
            break
        if connection is None:
            if known is None or not hmac.compare_digest(known, login.password):
                why = "no server answers that could say who logs in"
                refuse(self._channel, ServerErrorCode.CR_CONN_HOST_ERROR, f"Tidegate: {why}")
                return False
            authentication.accepted()
            return True
        entered = may_enter(self._shared, self._channel, login, connection)
        if entered:
            authentication.accepted()
            connection.channel.close()
            connection.close()
        return entered

    async def _judged(
        self, login: Login, authentication: Authentication
    ) -> ServerConnection | None:
        """A connection to the first server that lets the operator in; None if none answers.

        Raises:
            ServerRefusedError: the first that answers does not.
        """
        shared = self._shared
        for server in shared.topology.servers:
            if server.is_gone(shared.now()) and not server.draining:
                continue
            authentication.awaits = server
            try:
                async with asyncio.timeout(shared.config.connect_timeout):
                    return await shared.logins.begin_on(
                        server, login, "OFF", shared.config.longest_wait
                    )
            except NoDescriptorError:
                continue
            except ServerRefusedError as error:
                if error.error.code not in _DOES_NOT_JUDGE:
                    raise
            except (ServerUnreachableError, TimeoutError):
                server.set_unreachable(shared.now())
        return None

    def _deny(self, response: HandshakeResponse41) -> None:
        host = self._channel.peer.rpartition(":")[0]
        why = f"Access denied for user '{response.username}'@'{host}' (using password: YES)"
        self._shared.refusals.add("login", self._channel, why)
        refuse(self._channel, ServerErrorCode.ER_ACCESS_DENIED_ERROR, why)

    async def _serve_operator(self, username: str, capabilities: Capability) -> None:
        """Answer commands until the client leaves."""
        channel = self._channel
        version = self._shared.server_greeting.version
        host = channel.peer.rpartition(":")[0]
        statements = AdminStatements(
            self._shared.administration,
            {
                "1": "1",
                "user()": f"{username}@{host}",
                "current_user()": f"{username}@{host}",
                "database()": None,
                "connection_id()": str(self._connection_id),
                "version()": version,
                "@@version": version,
                "@@version_comment": "Tidegate's port for operators",
                "@@max_allowed_packet": str(self._shared.config.max_allowed_packet),
                "@@session.autocommit": "1",
                "@@autocommit": "1",
                "@@sql_mode": "",
                **dict.fromkeys(
                    (
                        *("@@character_set_client", "@@character_set_connection"),
                        *("@@character_set_server", "@@character_set_database"),
                    ),
                    "utf8mb4",
                ),
            },
        )
        while True:
            channel.sequence_id = 0
            payload = await channel.read_packet()
            command = payload[0] if payload else Command.COM_SLEEP
            if command == Command.COM_QUIT:
                channel.close()
                return
            answer: Shown | Refusal = Refusal(
                ServerErrorCode.ER_UNKNOWN_COM_ERROR, "Tidegate: admin-listen takes COM_QUERY only"
            )
            if command in _FINE:
                answer = Shown()
            elif command == Command.COM_STATISTICS:
                channel.write_packet(f"Sessions: {len(self._shared.sessions)}".encode())
                continue
            elif command == Command.COM_QUERY:
                answer = await statements.answer(payload[1:])
            if isinstance(answer, Refusal):
                code = answer.code
                error = ErrPacket(code.code, code.sqlstate, answer.message)
                channel.write_packet(error.serialise(capabilities))
            elif answer.columns:
                channel.transport.write(
                    replies.table(answer.columns, answer.rows, AUTOCOMMIT, capabilities)
                )
            else:
                channel.transport.write(replies.ok(AUTOCOMMIT, capabilities))
