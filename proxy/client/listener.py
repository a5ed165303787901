"""Accepts clients: greeting, TLS, login at the primary, and then the command phase."""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from typing import TYPE_CHECKING, Final

from protocol.authentication import CACHING_SHA2
from protocol.compression import (
    CAPABILITY,
    ZLIB_LEVEL,
    ZSTD_LEVELS,
    Algorithm,
    Compression,
    agreed_algorithm,
)
from protocol.constants import AUTOCOMMIT, Capability
from protocol.errors import ProtocolError, ServerErrorCode
from protocol.frame_numbers import FrameNumbers
from protocol.handshake import HandshakeResponse41, HandshakeV10, SSLRequest, is_ssl_request
from proxy.acceptor import Acceptor
from proxy.address import host_of
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.client.connection import ClientConnection
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
from proxy.client.login.proxy_header import sends_header, take_proxy_header
from proxy.client.login.sandbox import leave_sandbox
from proxy.client.session import ClientSession
from proxy.client.session_rules import SessionRules
from proxy.compressed import compress
from proxy.error_text import error_text
from proxy.server.attributes import of_session
from proxy.server.connection_stage import SANDBOX
from proxy.server.errors import NoDescriptorError, ServerRefusedError, ServerUnreachableError
from proxy.server.login import Login
from routing.consistency.adjustment import SettingError
from routing.session.session import Session

if TYPE_CHECKING:
    from proxy.address import Address
    from proxy.server.connect.greeting import ConnectionAttempt
    from proxy.server.connection import ServerConnection
    from proxy.server.idle_connection import IdleConnection
    from proxy.shared.client_limits import Admission, Refusal
    from proxy.shared.shared import Shared
    from routing.servers.topology import Server

PASSED_ON: Final = (
    Capability.CLIENT_FOUND_ROWS
    | Capability.CLIENT_ODBC
    | Capability.CLIENT_LOCAL_FILES
    | Capability.CLIENT_IGNORE_SPACE
    | Capability.CLIENT_INTERACTIVE
    | Capability.CLIENT_MULTI_STATEMENTS
    | Capability.CLIENT_MULTI_RESULTS
    | Capability.CLIENT_PS_MULTI_RESULTS
    | Capability.CLIENT_CAN_HANDLE_EXPIRED_PASSWORDS
    | Capability.CLIENT_SESSION_TRACK
    | Capability.CLIENT_DEPRECATE_EOF
    | Capability.CLIENT_OPTIONAL_RESULTSET_METADATA
    | Capability.CLIENT_QUERY_ATTRIBUTES
)
"""What a client negotiates and its server connections have, too, since it concerns statements.

CLIENT_NO_SCHEMA is not among it, and not offered: a server would take `performance_schema.t` for
`t` in statements of the proxy's own, too.
"""

_OFFERED: Final = (
    PASSED_ON
    | Capability.CLIENT_LONG_PASSWORD
    | Capability.CLIENT_LONG_FLAG
    | Capability.CLIENT_CONNECT_WITH_DB
    | Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_IGNORE_SIGPIPE
    | Capability.CLIENT_TRANSACTIONS
    | Capability.CLIENT_RESERVED
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_CONNECT_ATTRS
    | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
)

_UTF8MB4: Final = 255

_GREETED_AT_ONCE: Final = 64
"""How many clients that are logging in may have a connection to the primary, so that clients that
connect and say nothing cannot take them all."""


class Listener:
    """Accepts connections on one address.

    Attributes:
        address: where, as the configuration names it.
    """

    def __init__(self, shared: Shared, address: Address | None = None) -> None:
        """Without an address it is that of the option `listen`."""
        self.address = shared.config.listen if address is None else address
        self._shared = shared
        self._acceptor = Acceptor(self.address, self._take)

    def start_at(self, listening: socket.socket) -> None:
        """Take clients at a socket that is bound.

        Raises:
            OSError: it cannot listen.
        """
        self._acceptor.start_at(listening)

    def pause(self) -> None:
        """Take no clients for now; they wait."""
        self._acceptor.pause()

    def resume(self) -> None:
        """Take clients again."""
        self._acceptor.resume()

    def stop(self) -> None:
        """Take no more clients."""
        self._acceptor.stop()

    async def _take(self, accepted: socket.socket, peer: str) -> None:
        try:
            if accepted.family != socket.AF_UNIX:
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _, channel = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: PacketChannel(LOGIN_PACKET_LIMIT), accepted
            )
        except OSError:
            accepted.close()  # the client has left already
            return
        channel.peer = peer
        await self._welcome(channel)

    async def _welcome(self, channel: PacketChannel) -> None:
        shared = self._shared
        admission = shared.client_limits.begin()
        refusal = admission.connect()
        if refusal is None and not sends_header(channel, shared.config.proxy_protocol_networks):
            refusal = admission.come_from(host_of(channel.peer))
        if refusal is not None:
            admission.leave()
            turn_away(shared, channel, refusal, capabilities=Capability(0))
            return
        shared.sessions.accepting += 1
        began = False
        try:
            async with asyncio.timeout(shared.config.handshake_timeout) as limit:
                welcome = Welcome(shared, channel, self.address, admission, limit)
                began = await welcome.run()
        except TimeoutError:
            timed_out(shared, channel, welcome.awaits, welcome.capabilities)
        except ChannelClosedError:
            shared.refusals.add("closed", channel, "")
            channel.abort()
        except (ProtocolError, ssl.SSLError, OSError) as error:
            why = f"Bad handshake: {error_text(error)}"
            shared.refusals.add("protocol", channel, why)
            shared.metrics.protocol_error("client")
            refuse(channel, handshake_error(error), why)
        except BaseException:
            channel.abort()  # so that the client does not wait for an answer that will not come
            raise
        finally:
            shared.sessions.accepting -= 1
            if not began:
                admission.leave()


class Welcome:
    """The login of one client.

    Attributes:
        listener: the address that the client came to, one of `Config.addresses` or the Unix socket.
    """

    def __init__(
        self,
        shared: Shared,
        channel: PacketChannel,
        listener: Address,
        admission: Admission,
        limit: asyncio.Timeout,
    ) -> None:
        """`limit` is the time that the login may take."""
        self.listener = listener
        self._admission = admission
        self._shared = shared
        self._channel = channel
        self._nonce = bytes(byte % 127 + 1 for byte in secrets.token_bytes(20))
        self._session_id = self._connection_id = shared.sessions.next_id()
        self._greeted: ConnectionAttempt | IdleConnection | None = None
        self._where = f"{listener} {host_of(channel.peer)}"
        self._offered = _OFFERED & shared.server_greeting.capabilities
        if shared.materials.client_ssl is not None:
            self._offered |= Capability.CLIENT_SSL
        for algorithm in shared.config.client_compression:
            self._offered |= CAPABILITY[algorithm]
        self._compression: Compression | None = None
        self._limit = limit
        self._answered = False
        self._greets: Server | None = None  # the primary that is to greet first
        self._authentication: Authentication | None = None

    @property
    def awaits(self) -> Server | None:
        """The server whose answer the login waits for; None while the client is to answer."""
        if self._authentication is None:
            return self._greets
        return self._authentication.awaits

    @property
    def capabilities(self) -> Capability:
        """Those by which an error is written: a client that was not greeted knows of none."""
        return Capability(0) if self._greets is not None else Capability.CLIENT_PROTOCOL_41

    async def run(self) -> bool:
        """Do it all; a failure is answered, or raised for the listener to answer.

        Returns:
            Whether a session has begun; the admission is its own then.
        """
        try:
            return await self._run()
        finally:
            if self._greeted is not None:
                self._greeted.leave()

    async def _run(self) -> bool:
        shared = self._shared
        channel = self._channel
        response = await self._hello()
        if response is None:
            return False
        capabilities = response.capabilities & self._offered
        self._authentication = authentication = Authentication(
            channel,
            response.username,
            self._nonce,
            shared.materials.rsa_key,
            shared.known_passwords,
        )
        password = await authentication.learn(response.auth_plugin, response.auth_response)
        login = Login(
            username=response.username,
            password=password,
            capabilities=capabilities & PASSED_ON,
            character_set=response.character_set,
            database=response.database or None,
            attributes=response.attributes,
            own_attributes=of_session(channel.peer, shared.config.proxy_name, self._session_id),
        )
        try:
            rules = SessionRules(shared.live, self.listener, login.username, login.attributes)
        except SettingError as error:
            shared.refusals.add("attribute", channel, str(error))
            refuse(channel, ServerErrorCode.ER_WRONG_VALUE_FOR_VAR, f"Tidegate: {error}")
            return False
        if authentication.is_proven and not self._allows(
            shared.client_limits.of_user(login.username)
        ):
            return False  # the primary need not be asked
        tracking = rules.initial(login.database or "").tracking
        shared.client_profiles.saw(self._where, login.capabilities, login.username)
        greeted, self._greeted = self._greeted, None
        opened = await open_primary(shared, channel, login, authentication, tracking, greeted)
        if opened is None:
            return False
        login = opened.login
        connection = opened.connection
        if not self._allows(self._admission.log_in(login.username)):
            connection.abort()
            return False
        if connection.stage == SANDBOX and not await self._in_sandbox(
            login, connection, capabilities
        ):
            return False
        await shared.catalogues.learn(connection, login.username)
        return self._serve(opened, capabilities, rules)

    async def _in_sandbox(
        self, login: Login, primary: ServerConnection, capabilities: Capability
    ) -> bool:
        """Answer the login with OK, and serve the client until it has a new password.

        Returns:
            Whether the client may go on.
        """
        self._answer(login_ok(login, capabilities, primary))
        self._limit.reschedule(None)
        try:
            left = await leave_sandbox(self._shared, self._channel, login, primary, capabilities)
            self._channel.sequence_id = 0
            return left and may_enter(self._shared, self._channel, login, primary)
        except ProtocolError as error:
            self._broken()
            refuse(self._channel, handshake_error(error), str(error))
            return False
        except BaseException:
            self._channel.abort()  # where it compresses, the listener's channel cannot close it
            raise

    def _answer(self, ok: bytes) -> None:
        """End the login, if that was not done; from here on the client may compress."""
        if self._answered:
            return
        self._answered = True
        self._channel.write_packet(ok)
        if self._compression is not None:
            secure = self._channel.secure
            transport = compress(self._channel, self._compression, self._broken)
            peer, user = self._channel.peer, self._channel.user
            self._channel = PacketChannel(LOGIN_PACKET_LIMIT)
            self._channel.adopt(transport, 0, secure=secure)
            self._channel.peer, self._channel.user = peer, user

    async def _hello(self) -> HandshakeResponse41 | None:
        """Greet, go over to TLS if the client wants it, and return its response."""
        shared = self._shared
        channel = self._channel
        await self._be_greeted()
        greeting = HandshakeV10(
            server_version=shared.server_greeting.version,
            thread_id=self._connection_id,
            nonce=self._nonce,
            capabilities=self._offered,
            character_set=_UTF8MB4,
            status=AUTOCOMMIT,
            auth_plugin=CACHING_SHA2,
        )
        channel.write_packet(greeting.serialise())
        networks = shared.config.proxy_protocol_networks
        through_balancer = sends_header(channel, networks)
        await take_proxy_header(channel, networks)
        if through_balancer and not self._allows(self._admission.come_from(host_of(channel.peer))):
            return None
        payload = await channel.read_packet()
        if is_ssl_request(payload) and shared.materials.client_ssl is not None:
            SSLRequest.parse(payload)
            await channel.start_tls(
                shared.materials.client_ssl,
                server_side=True,
                hostname=None,
            )
            payload = await channel.read_packet()
        response = HandshakeResponse41.parse(payload)
        channel.user = response.username
        if shared.config.client_tls == "required" and not channel.private:
            why = (
                "Connections using insecure transport are prohibited (Tidegate's client-tls is"
                " required)"
            )
            shared.refusals.add("no_tls", channel, why)
            refuse(channel, ServerErrorCode.ER_SECURE_TRANSPORT_REQUIRED, why)
            return None
        if not self._allows(self._admission.name(response.username)):
            return None
        return response if self._agree_on_compression(response) else None

    def _allows(self, refusal: Refusal | None) -> bool:
        """Whether a limit lets the client in; else it is told."""
        if refusal is not None:
            turn_away(self._shared, self._channel, refusal)
        return refusal is None

    def _agree_on_compression(self, response: HandshakeResponse41) -> bool:
        """Choose the algorithm; False if none can be, of which the client was told."""
        algorithm = agreed_algorithm(response.capabilities & self._offered)
        level = ZLIB_LEVEL
        if algorithm not in self._shared.config.client_compression:
            self._refuse_compression(
                ServerErrorCode.ER_WRONG_COMPRESSION_ALGORITHM_CLIENT,
                f"Invalid compression algorithm '{algorithm}'.",
            )
            return False
        if algorithm is Algorithm.ZSTD:
            level = response.zstd_level
            if level not in ZSTD_LEVELS:
                self._refuse_compression(
                    ServerErrorCode.ER_WRONG_COMPRESSION_LEVEL_CLIENT,
                    "Invalid zstd compression level for algorithm 'zstd'.",
                )
                return False
        if algorithm is not Algorithm.UNCOMPRESSED:
            self._compression = Compression(algorithm, level, server=True)
        return True

    def _refuse_compression(self, code: ServerErrorCode, why: str) -> None:
        self._shared.refusals.add("compression", self._channel, why)
        refuse(self._channel, code, why)

    async def _be_greeted(self) -> None:
        """Let the primary greet first, unless too many clients are still logging in.

        So the client's connection id is the primary's, and CONNECTION_ID(), process lists and KILL
        mean what they mean at a server. A kept connection was greeted long ago; it is used if the
        client logs in like others of its host.
        """
        shared = self._shared
        primary = shared.topology.primary
        if shared.sessions.accepting > _GREETED_AT_ONCE or primary.is_gone(shared.now()):
            return
        usual = shared.client_profiles.prediction(self._where)
        if usual is not None:
            kept = shared.logins.reserve(primary, *usual)
            if kept is not None:
                self._greeted = kept
                self._connection_id = kept.connection.thread_id
                return
        self._greets = primary
        greeted: ConnectionAttempt | None = None
        try:
            greeted = await shared.logins.await_greeting(primary)
        except (ServerRefusedError, NoDescriptorError):
            pass  # it is asked again, and the client told, when the client is known
        except ServerUnreachableError:
            # Likewise. The next client does not wait for it here.
            primary.set_unreachable(shared.now())
        self._greets = None  # not if the login's time is over
        if greeted is not None:
            self._greeted = greeted
            self._connection_id = greeted.greeting.thread_id

    def _serve(self, opened: LoggedIn, capabilities: Capability, rules: SessionRules) -> bool:
        """Answer the login with OK, and begin the command phase; False if that failed.

        Raises:
            ChannelClosedError: the client left.
        """
        shared, login, start = self._shared, opened.login, opened.connection
        state = Session(
            rules.initial(login.database or ""),
            shared.topology.number_of(self._session_id),
            shared.scopes,
            login.username,
            shared.topology.term,
        )
        if self._answered:
            state.may_have_written()  # a new password, before GTIDs were tracked
        connection = ClientConnection(capabilities, shared.config.max_allowed_packet)
        connection.compressed = self._compression is not None
        connection.peer = self._channel.peer
        if shared.config.server_compression:
            connection.numbers = FrameNumbers(1)
        session = ClientSession(
            shared, connection, login, self._session_id, self._connection_id, state, rules
        )
        try:
            # Before the session has the connection, and says no more about its server.
            ok = login_ok(login, capabilities, start)
            if opened.reads_only:
                session.begin_without_primary(start)
            else:
                session.take_primary(start)
        except ChannelClosedError as error:
            session.client_lost()
            refuse(
                self._channel,
                ServerErrorCode.CR_SERVER_LOST,
                f"Lost connection to MySQL server: {error}",
            )
            return False
        try:
            self._answer(ok)
            connection.attach(self._channel.hand_over(connection), session)
        except ChannelClosedError:
            session.client_lost()
            raise
        shared.sessions.add(session, self._admission)
        return True

    def _broken(self) -> None:
        self._shared.metrics.protocol_error("client")
