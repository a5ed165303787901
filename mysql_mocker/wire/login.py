"""How a client becomes a session: greeting, TLS, password."""

import asyncio
import hmac
import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mysql_mocker.error import MySQLError
from mysql_mocker.state.faults import Fault
from mysql_mocker.state.instance import Instance
from mysql_mocker.state.variables import VERSION
from mysql_mocker.wire.channel import Channel, ConnectionGoneError
from protocol.authentication import scramble_caching_sha2
from protocol.constants import (
    CACHING_SHA2,
    CHARSET_UTF8MB4_0900_AI_CI,
    FAST_AUTH_SUCCESS,
    NATIVE,
    Capability,
    ServerStatus,
)
from protocol.errors import AuthenticationFailedError, ServerErrorCode
from protocol.handshake import AuthMoreData, HandshakeResponse41, HandshakeV10, is_ssl_request
from protocol.password_exchange import PasswordExchange
from protocol.response import ErrPacket
from protocol.rsa import RsaKey

_FAST_AUTHENTICATION_OK: Final = AuthMoreData(FAST_AUTH_SUCCESS).serialise()

OFFERED: Final = (
    Capability.CLIENT_LONG_PASSWORD
    | Capability.CLIENT_FOUND_ROWS
    | Capability.CLIENT_LONG_FLAG
    | Capability.CLIENT_CONNECT_WITH_DB
    | Capability.CLIENT_NO_SCHEMA
    | Capability.CLIENT_ODBC
    | Capability.CLIENT_IGNORE_SPACE
    | Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_INTERACTIVE
    | Capability.CLIENT_IGNORE_SIGPIPE
    | Capability.CLIENT_TRANSACTIONS
    | Capability.CLIENT_RESERVED
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_MULTI_STATEMENTS
    | Capability.CLIENT_MULTI_RESULTS
    | Capability.CLIENT_PS_MULTI_RESULTS
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_CONNECT_ATTRS
    | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capability.CLIENT_SESSION_TRACK
    | Capability.CLIENT_DEPRECATE_EOF
    | Capability.CLIENT_LOCAL_FILES
    | Capability.CLIENT_OPTIONAL_RESULTSET_METADATA
    | Capability.CLIENT_QUERY_ATTRIBUTES
)
"""All of MySQL 9.7's but compression, expired passwords and multi-factor login. Local files are
offered, as if local_infile were on; only a fault ever asks for one."""


@lru_cache(maxsize=1)
def rsa_key() -> RsaKey:
    """The key pair of all servers in this process; making one takes a while."""
    return RsaKey.generate()


@dataclass(frozen=True, slots=True)
class Login:
    """A client whose login has succeeded.

    Attributes:
        capabilities: what both sides can do.
        schema: the one that it wants to use, if any.
    """

    user: str
    capabilities: Capability
    schema: str | None
    attributes: dict[str, str]


async def log_in(server: Instance, channel: Channel, connection_id: int) -> Login:
    """Greets a client and checks its password.

    Raises:
        MySQLError: 1045.
        ProtocolError: the client broke the protocol.
        ConnectionGoneError: it left.
    """
    if server.login_delay:
        await asyncio.sleep(server.login_delay)
    fault = server.faults.take_login()
    if fault is not None:
        await _meet(fault, channel)
    nonce = new_nonce()
    offered = OFFERED
    if server.ssl_context is not None:
        offered |= Capability.CLIENT_SSL
    greeting = HandshakeV10(
        server_version=VERSION,
        thread_id=connection_id,
        nonce=nonce,
        capabilities=offered,
        character_set=CHARSET_UTF8MB4_0900_AI_CI,
        status=int(ServerStatus.SERVER_STATUS_AUTOCOMMIT),
        auth_plugin=CACHING_SHA2,
    )
    channel.add(greeting.serialise())
    await channel.flush()
    payload = await channel.read_packet()
    if server.ssl_context is not None and is_ssl_request(payload):
        await channel.start_tls(server.ssl_context)
        payload = await channel.read_packet()
    response = HandshakeResponse41.parse(payload)
    plugin = response.auth_plugin
    await check_password(server, channel, response.username, plugin, response.auth_response, nonce)
    return Login(
        response.username,
        response.capabilities & offered,
        response.database or None,
        dict(response.attributes),
    )


async def _meet(fault: Fault, channel: Channel) -> None:
    """A fault in place of the greeting, or before it."""
    if fault.delay:
        await asyncio.sleep(fault.delay)
    error = fault.error
    if error is not None:
        # The client's capabilities are not known yet: the error is sent without its SQLSTATE.
        packet = ErrPacket(error.code, error.sqlstate, error.message)
        channel.add(packet.serialise(Capability(0)))
        await channel.flush()
    if error is not None or fault.unheard:
        raise ConnectionGoneError


def new_nonce() -> bytes:
    """20 bytes without NUL."""
    return bytes(secrets.randbelow(127) + 1 for _ in range(20))


async def check_password(
    server: Instance,
    channel: Channel,
    user: str,
    plugin: str | None,
    auth_response: bytes,
    nonce: bytes,
    *,
    change_user: bool = False,
) -> None:
    """caching_sha2_password: fast for a user who has logged in before, else in full.

    Raises:
        MySQLError: 1045.
        ConnectionGoneError: the client left.
    """
    expected = server.accounts.get(user)
    cached = expected is not None and user in server.password_cache
    scramble = scramble_caching_sha2((expected or "").encode(), nonce)
    known = plugin == CACHING_SHA2 and bool(auth_response) and not change_user
    if cached and known and hmac.compare_digest(scramble, auth_response):
        channel.add(_FAST_AUTHENTICATION_OK)
        return
    # After COM_CHANGE_USER the server always asks with a nonce of its own (fact 6.7).
    requested_plugin = NATIVE if change_user else plugin
    exchange = PasswordExchange(requested_plugin, auth_response, nonce, channel.secure, rsa_key())
    try:
        reply = exchange.start()
        while exchange.password is None:
            if reply is not None:
                channel.add(reply)
                await channel.flush()
            answer = await channel.read_packet()
            if cached and len(answer) == len(scramble) and hmac.compare_digest(scramble, answer):
                channel.add(_FAST_AUTHENTICATION_OK)
                return
            reply = exchange.receive(answer)
    except AuthenticationFailedError as error:
        raise access_denied(user, using_password=True) from error
    password = exchange.password
    correct = expected is not None and hmac.compare_digest(password, expected.encode())
    if not correct:
        raise access_denied(user, using_password=bool(password))
    server.password_cache.add(user)


def access_denied(user: str, *, using_password: bool) -> MySQLError:
    """1045."""
    answer = "YES" if using_password else "NO"
    return MySQLError.of(
        ServerErrorCode.ER_ACCESS_DENIED_ERROR,
        f"Access denied for user '{user}'@'localhost' (using password: {answer})",
    )
