"""Passwords encrypted with RSA, for connections without TLS (fact 6.4).

The scheme is the one that MySQL servers use, including OAEP with SHA-1; the peer cannot change it.
"""

from functools import lru_cache
from typing import Final, Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from protocol.errors import AuthenticationFailedError, MalformedPacketError

_KEY_BITS: Final = 2048
_MOST_KEY_BITS: Final = 16384
_PADDING: Final = padding.OAEP(
    mgf=padding.MGF1(algorithm=hashes.SHA1()),  # noqa: S303 the protocol's choice
    algorithm=hashes.SHA1(),  # noqa: S303 the protocol's choice
    label=None,
)


class RsaKey:
    """A server's private key."""

    __slots__ = ("_key",)

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        self._key = key

    @classmethod
    def generate(cls) -> Self:
        """A new key of 2048 bits, as mysqld makes them."""
        return cls(rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS))

    @classmethod
    def from_pem(cls, pem: bytes) -> Self:
        """A key from a file's content, which must not be encrypted.

        Raises:
            ValueError: the file holds no RSA private key, or an encrypted one.
        """
        try:
            key = _checked_key(pem)
        except (TypeError, UnsupportedAlgorithm) as error:
            raise ValueError("the private key is encrypted, or of an unknown kind") from error
        if not isinstance(key, rsa.RSAPrivateKey):
            raise ValueError("the private key is not an RSA key")  # noqa: TRY004 the file is wrong
        return cls(key)

    def public_pem(self) -> bytes:
        """The public half, as a server sends it."""
        return self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def decrypt(self, data: bytes, nonce: bytes) -> bytes:
        """The password that a client encrypted with the public half.

        Raises:
            AuthenticationFailedError: `data` was not made with this key and nonce.
        """
        try:
            mixed = self._key.decrypt(data, _PADDING)
        except ValueError as error:
            raise AuthenticationFailedError("the password does not fit the RSA key") from error
        password = _mix(mixed, nonce)
        if not password.endswith(b"\0"):
            raise AuthenticationFailedError("the password does not fit the nonce")
        return password[:-1]


@lru_cache(maxsize=1)
def _checked_key(pem: bytes) -> PrivateKeyTypes:
    """The key in a file's content.

    To check that its numbers are primes takes 30 ms, and a process reads its key again and again.
    """
    return serialization.load_pem_private_key(pem, password=None)


def encrypt_password(password: bytes, nonce: bytes, public_pem: bytes) -> bytes:
    """A password as a client sends it, given the server's nonce and public key.

    Raises:
        MalformedPacketError: the server's key is not a usable RSA key, or too short for the
            password.
    """
    try:
        key = serialization.load_pem_public_key(public_pem)
        if not isinstance(key, rsa.RSAPublicKey) or key.key_size > _MOST_KEY_BITS:
            raise MalformedPacketError("the server's public key is not an RSA key of a usual size")
        return key.encrypt(_mix(password + b"\0", nonce), _PADDING)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise MalformedPacketError("the server's public key cannot be used") from error


def _mix(data: bytes, nonce: bytes) -> bytes:
    """Exclusive or with the nonce, repeated."""
    if not nonce:
        raise MalformedPacketError("the nonce is empty")
    repeated = nonce * (len(data) // len(nonce) + 1)
    return bytes([a ^ b for a, b in zip(data, repeated, strict=False)])
