"""Learning a client's password: the server's side of caching_sha2_password (fact 6.4).

A proxy that logs in elsewhere for its client needs the password itself: the scramble for one nonce
is of no use for another. So the exchange asks for full authentication, as MySQL Router does where
it shares connections (fact 6.8), unless a password is known that fits the scramble. The caller has
to find out whether that password is still right. Clients with sha256_password send theirs without
being asked.
"""

import hmac
from typing import Final

from protocol.constants import (
    CACHING_SHA2,
    FAST_AUTH_SUCCESS,
    PERFORM_FULL_AUTHENTICATION,
    REQUEST_PUBLIC_KEY,
    SHA256,
)
from protocol.errors import (
    AuthenticationFailedError,
    AuthenticationUnsupportedError,
    MalformedPacketError,
)
from protocol.handshake import AuthMoreData, AuthSwitchRequest
from protocol.rsa import RsaKey
from protocol.scramble import scramble_caching_sha2

_SCRAMBLE_LENGTH: Final = 32
_EMPTY: Final = (b"", b"\0")  # both are in use for "no password"

_SWITCHING: Final = 0  # the client was sent to caching_sha2_password
_ASKED: Final = 1  # full authentication was asked for
_KEY_SENT: Final = 2
_DONE: Final = 3


class PasswordExchange:
    """One login of one client.

    The greeting must have named caching_sha2_password, and COM_CHANGE_USER needs an
    AuthSwitchRequest first (fact 6.7): if libmysqlclient was told of another plugin than its own,
    its first response is empty, whatever the password is.

    Attributes:
        password: None until the client has told it, or has shown that it knows it.
        fast: the client has not told the password, but only shown that it knows it.
    """

    __slots__ = (
        "_auth_response",
        "_known",
        "_nonce",
        "_plugin",
        "_rsa_key",
        "_secure",
        "_state",
        "fast",
        "password",
    )

    def __init__(
        self,
        plugin: str | None,
        auth_response: bytes,
        nonce: bytes,
        secure: bool,
        rsa_key: RsaKey,
        known: bytes | None = None,
    ) -> None:
        """Begin.

        Args:
            plugin: the client's; None for a client without CLIENT_PLUGIN_AUTH.
            auth_response: the client's.
            nonce: 20 bytes that the client was given.
            secure: TLS or a Unix socket protects the connection.
            rsa_key: for connections that are not secure.
            known: the password that was right last time, if there was one.
        """
        self._plugin = plugin
        self._auth_response = auth_response
        self._nonce = nonce
        self._secure = secure
        self._rsa_key = rsa_key
        self._known = known
        self._state = _SWITCHING
        self.fast = False
        self.password: bytes | None = None

    def start(self) -> bytes | None:
        """The first payload to send; None if the password is already known.

        Raises:
            AuthenticationUnsupportedError: the client cannot change its plugin.
            MalformedPacketError: its scramble has a wrong length.
        """
        if self._plugin == CACHING_SHA2:
            return self._scramble(self._auth_response)
        if self._plugin == SHA256:
            self._state = _ASKED
            return self.receive(self._auth_response or b"\0")
        if self._plugin is not None:
            return AuthSwitchRequest(CACHING_SHA2, self._nonce).serialise()
        if self._auth_response not in _EMPTY:
            raise AuthenticationUnsupportedError("the client knows no caching_sha2_password")
        self._learn(b"")
        return None

    def receive(self, payload: bytes) -> bytes | None:
        """Take the client's next packet; return what to send, None when the password is known.

        Raises:
            AuthenticationFailedError: the client's answer holds no password.
            MalformedPacketError: the client broke the protocol.
        """
        if self._state == _SWITCHING:
            return self._scramble(payload)
        if self._state == _DONE:
            raise MalformedPacketError("the client has already told its password")
        if payload == b"\0":
            self._learn(b"")
            return None
        if self._secure:
            if not payload.endswith(b"\0"):
                raise MalformedPacketError("a password has no NUL byte at its end")
            self._learn(payload[:-1])
            return None
        if payload == REQUEST_PUBLIC_KEY[SHA256 if self._plugin == SHA256 else CACHING_SHA2]:
            if self._state == _KEY_SENT:
                raise MalformedPacketError("the client asks for the public key again")
            self._state = _KEY_SENT
            return AuthMoreData(self._rsa_key.public_pem()).serialise()
        self._learn(self._rsa_key.decrypt(payload, self._nonce))
        return None

    def insist(self) -> bytes:
        """The known password is no longer right: ask for the password itself."""
        self.fast = False
        self.password = None
        self._known = None
        self._state = _ASKED
        return AuthMoreData(PERFORM_FULL_AUTHENTICATION).serialise()

    def success(self) -> bytes:
        """The packet that ends a `fast` exchange; an OK packet follows it."""
        return AuthMoreData(FAST_AUTH_SUCCESS).serialise()

    def _scramble(self, scramble: bytes) -> bytes | None:
        """Take what caching_sha2_password sends first."""
        if scramble in _EMPTY:
            self._learn(b"")
            return None
        if len(scramble) != _SCRAMBLE_LENGTH:
            raise MalformedPacketError("a scramble of caching_sha2_password is not 32 bytes long")
        known = self._known
        if known and hmac.compare_digest(scramble_caching_sha2(known, self._nonce), scramble):
            self.fast = True
            self._learn(known)
            return None
        self._state = _ASKED
        return AuthMoreData(PERFORM_FULL_AUTHENTICATION).serialise()

    def _learn(self, password: bytes) -> None:
        if b"\0" in password:
            raise AuthenticationFailedError("a password contains a NUL byte")
        self._state = _DONE
        self.password = password
