"""Logging in to a server: the client's side of the authentication plugins (facts 6.4 to 6.6).

The server's side, which learns the client's password, is in `protocol.password_exchange`.
"""

from protocol.constants import (
    CACHING_SHA2,
    CLEAR,
    FAST_AUTH_SUCCESS,
    NATIVE,
    PERFORM_FULL_AUTHENTICATION,
    REQUEST_PUBLIC_KEY,
    SHA256,
)
from protocol.errors import AuthenticationUnsupportedError, MalformedPacketError
from protocol.handshake import (
    AUTH_MORE_DATA_HEADER,
    AUTH_SWITCH_HEADER,
    AuthMoreData,
    AuthSwitchRequest,
)
from protocol.password_exchange import PasswordExchange
from protocol.rsa import RsaKey, encrypt_password
from protocol.scramble import scramble_caching_sha2, scramble_native

__all__ = [
    "CACHING_SHA2",
    "CLEAR",
    "NATIVE",
    "SHA256",
    "ClientAuthentication",
    "PasswordExchange",
    "RsaKey",
    "encrypt_password",
    "scramble_caching_sha2",
    "scramble_native",
]


class ClientAuthentication:
    """Answers what a server asks between the handshake and its OK or ERR.

    The password is sent in the clear only over a `secure` connection, otherwise as a scramble or
    encrypted with the server's RSA key.
    """

    __slots__ = (
        "_allow_public_key_retrieval",
        "_key_requested",
        "_nonce",
        "_password",
        "_plugin",
        "_secure",
    )

    def __init__(
        self,
        password: bytes,
        plugin: str,
        nonce: bytes,
        secure: bool,
        allow_public_key_retrieval: bool = True,
    ) -> None:
        """Begin a login.

        Args:
            password: of the user.
            plugin: the server's default; if it is unknown, the first response is that of
                caching_sha2_password, and the server then asks for the plugin that it wants.
            nonce: of the greeting.
            secure: TLS or a Unix socket protects the connection.
            allow_public_key_retrieval: trust the RSA key that the server sends.
        """
        self._password = password
        # A server can ask for mysql_clear_password later, but not by its greeting alone.
        self._plugin = plugin if plugin in (CACHING_SHA2, NATIVE, SHA256) else CACHING_SHA2
        self._nonce = nonce
        self._secure = secure
        self._allow_public_key_retrieval = allow_public_key_retrieval
        self._key_requested = False

    @property
    def plugin(self) -> str:
        """The plugin in use now."""
        return self._plugin

    def initial_response(self) -> bytes:
        """The auth response for a HandshakeResponse41 or a COM_CHANGE_USER.

        Raises:
            AuthenticationUnsupportedError: the plugin would need a secure connection.
        """
        if self._plugin == CACHING_SHA2:
            return scramble_caching_sha2(self._password, self._nonce)
        if self._plugin == NATIVE:
            return scramble_native(self._password, self._nonce)
        if self._plugin == CLEAR:
            return self._clear_password()
        return self._full_response()

    def receive(self, payload: bytes) -> bytes | None:
        """Answer a packet that is neither OK nor ERR.

        Returns:
            The payload to send, which can be empty; None if the server sends the next packet.

        Raises:
            AuthenticationUnsupportedError: the server asks for something that this side cannot or
                must not do.
            MalformedPacketError: the server broke the protocol.
        """
        header = payload[0] if payload else -1
        if header == AUTH_SWITCH_HEADER:
            return self._switch(AuthSwitchRequest.parse(payload))
        if header != AUTH_MORE_DATA_HEADER:
            raise AuthenticationUnsupportedError(f"0x{header & 0xFF:02x} starts no known request")
        data = AuthMoreData.parse(payload).data
        if self._key_requested:
            self._key_requested = False
            return encrypt_password(self._password, self._nonce, data)
        if self._plugin == CACHING_SHA2:
            if data == FAST_AUTH_SUCCESS:
                return None
            if data == PERFORM_FULL_AUTHENTICATION:
                return self._full_response()
        raise MalformedPacketError(f"the server's {self._plugin} sent data that was not expected")

    def _switch(self, request: AuthSwitchRequest) -> bytes:
        if request.plugin not in (CACHING_SHA2, NATIVE, SHA256, CLEAR):
            raise AuthenticationUnsupportedError(
                f"the server asks for the unknown plugin {request.plugin!r}"
            )
        self._plugin = request.plugin
        self._nonce = request.data
        self._key_requested = False
        return self.initial_response()

    def _full_response(self) -> bytes:
        """The password itself if that is safe, else a request for the server's RSA key."""
        if not self._password and self._plugin == SHA256:
            return b""
        if self._secure:
            return self._password + b"\0"
        if not self._allow_public_key_retrieval:
            raise AuthenticationUnsupportedError(
                f"{self._plugin} needs TLS here, or the server's public key"
            )
        self._key_requested = True
        return REQUEST_PUBLIC_KEY[self._plugin]

    def _clear_password(self) -> bytes:
        if not self._secure:
            raise AuthenticationUnsupportedError(f"{CLEAR} needs TLS")
        return self._password + b"\0"
