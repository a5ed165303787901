"""The packets of a connection's first phase, before any command."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from protocol.constants import NATIVE, Capability
from protocol.errors import MalformedPacketError
from protocol.wire import (
    Reader,
    decode_text,
    encode_text,
    lenenc_bytes,
    lenenc_int,
    null_terminated,
)

NONCE_LENGTH: Final = 20
AUTH_SWITCH_HEADER: Final = 0xFE
AUTH_MORE_DATA_HEADER: Final = 0x01

_PROTOCOL_VERSION: Final = 10
_SSL_REQUEST_LENGTH: Final = 32
_SHORT_SSL_REQUEST_LENGTH: Final = 4  # the capabilities alone: servers take that, too
_SERVER_FILLER: Final = 10
_CLIENT_FILLER: Final = 23

# As plain numbers: each operation on a flag makes another flag object, too slow for a login.
_WITH_DATABASE: Final = int(Capability.CLIENT_CONNECT_WITH_DB)
_PROTOCOL_41: Final = int(Capability.CLIENT_PROTOCOL_41)
_SECURE: Final = int(Capability.CLIENT_SECURE_CONNECTION)
_PLUGIN: Final = int(Capability.CLIENT_PLUGIN_AUTH)
_LONG_RESPONSE: Final = int(Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA)
_ATTRIBUTES: Final = int(Capability.CLIENT_CONNECT_ATTRS)
_ZSTD: Final = int(Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM)
_SSL: Final = int(Capability.CLIENT_SSL)


@dataclass(frozen=True, slots=True)
class HandshakeV10:
    """A server's greeting (fact 6.1).

    Attributes:
        thread_id: the connection's id, as in SHOW PROCESSLIST.
        nonce: 20 bytes for the client to scramble its password with.
        character_set: low byte of the id of the server's collation.
        auth_plugin: the plugin that the server proposes.
    """

    server_version: str
    thread_id: int
    nonce: bytes
    capabilities: Capability
    character_set: int
    status: int
    auth_plugin: str

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read a greeting; a server may send an ERR in its place, which the caller must check for.

        Raises:
            MalformedPacketError: not a greeting, or that of a server older than MySQL 4.1.
        """
        reader = Reader(payload)
        version = reader.u8()
        if version != _PROTOCOL_VERSION:
            raise MalformedPacketError(f"the greeting has protocol version {version}, not 10")
        server_version = decode_text(reader.null_terminated())
        thread_id = reader.u32()
        nonce = reader.take(8)
        reader.take(1)
        low = reader.u16()
        character_set = reader.u8()
        status = reader.u16()
        capabilities = low | reader.u16() << 16
        nonce_length = reader.u8()
        reader.take(_SERVER_FILLER)
        if not capabilities & _SECURE:
            raise MalformedPacketError("the server lacks CLIENT_SECURE_CONNECTION")
        # The server sends at least 13 bytes more, whatever the length says; the last is a NUL.
        nonce = (nonce + reader.take(max(13, nonce_length - 8)))[:NONCE_LENGTH]
        auth_plugin = NATIVE
        if capabilities & _PLUGIN:
            auth_plugin = decode_text(reader.null_terminated_or_rest())
        return cls(
            server_version=server_version,
            thread_id=thread_id,
            nonce=nonce,
            capabilities=Capability(capabilities),
            character_set=character_set,
            status=status,
            auth_plugin=auth_plugin,
        )

    def serialise(self) -> bytes:
        """Write it."""
        capabilities = int(self.capabilities)
        plugin_auth = capabilities & _PLUGIN
        payload = (
            bytes((_PROTOCOL_VERSION,))
            + null_terminated(encode_text(self.server_version))
            + self.thread_id.to_bytes(4, "little")
            + self.nonce[:8]
            + b"\0"
            + (capabilities & 0xFFFF).to_bytes(2, "little")
            + (self.character_set & 0xFF).to_bytes(1, "little")
            + self.status.to_bytes(2, "little")
            + (capabilities >> 16).to_bytes(2, "little")
            + bytes((NONCE_LENGTH + 1 if plugin_auth else 0,))
            + bytes(_SERVER_FILLER)
            + self.nonce[8:]
            + b"\0"
        )
        if plugin_auth:
            payload += null_terminated(encode_text(self.auth_plugin))
        return payload


@dataclass(frozen=True, slots=True)
class SSLRequest:
    """What a client sends right before its TLS ClientHello (fact 6.3).

    Attributes:
        max_packet_size, character_set: 0 if the client sent its capabilities alone.
    """

    capabilities: Capability
    max_packet_size: int = 0
    character_set: int = 0

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read it.

        Raises:
            MalformedPacketError: not an SSLRequest.
        """
        if not is_ssl_request(payload):
            raise MalformedPacketError("not an SSLRequest")
        reader = Reader(payload)
        capabilities = Capability(reader.u32())
        if len(payload) == _SHORT_SSL_REQUEST_LENGTH:
            return cls(capabilities)
        return cls(capabilities, reader.u32(), reader.u8())

    def serialise(self) -> bytes:
        """Write it, with CLIENT_SSL added."""
        capabilities = int(self.capabilities) | _SSL
        return _client_head(capabilities, self.max_packet_size, self.character_set)


def is_ssl_request(payload: bytes) -> bool:
    """Whether a client's first packet asks for TLS; a HandshakeResponse41 is longer."""
    if len(payload) not in (_SSL_REQUEST_LENGTH, _SHORT_SSL_REQUEST_LENGTH):
        return False
    return int.from_bytes(payload[:4], "little") & _SSL != 0


@dataclass(frozen=True, slots=True)
class HandshakeResponse41:
    """A client's answer to the greeting (fact 6.2).

    Attributes:
        max_packet_size: the longest packet that the client takes, bytes.
        character_set: low byte of a collation's id.
        auth_response: what the client's plugin sends for the password, which can be the password
            itself.
        database, auth_plugin: None if the client named none.
        attributes: the client's connection attributes.
        zstd_level: 1 to 22; 0 without CLIENT_ZSTD_COMPRESSION_ALGORITHM.
    """

    capabilities: Capability
    max_packet_size: int
    character_set: int
    username: str
    auth_response: bytes = field(repr=False)
    database: str | None
    auth_plugin: str | None
    attributes: Mapping[str, str]
    zstd_level: int

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read it. Bytes after the known fields, for capabilities of the future, are ignored.

        A response may end before its attributes: servers take that, too.

        Raises:
            MalformedPacketError: not such a response, or that of a client older than MySQL 4.1.
        """
        reader = Reader(payload)
        capabilities = reader.u32()
        if not capabilities & _PROTOCOL_41:
            raise MalformedPacketError("the client lacks CLIENT_PROTOCOL_41")
        max_packet_size = reader.u32()
        character_set = reader.u8()
        reader.take(_CLIENT_FILLER)
        username = decode_text(reader.null_terminated())
        if capabilities & _LONG_RESPONSE:
            auth_response = reader.lenenc_bytes()
        elif capabilities & _SECURE:
            auth_response = reader.take(reader.u8())
        else:
            auth_response = reader.null_terminated()
        database: str | None = None
        if capabilities & _WITH_DATABASE:
            database = decode_text(reader.null_terminated())
        auth_plugin: str | None = None
        if capabilities & _PLUGIN:
            auth_plugin = decode_text(reader.null_terminated_or_rest())
        attributes: Mapping[str, str] = {}
        if capabilities & _ATTRIBUTES and reader.remaining:
            attributes = parse_attributes(reader)
        zstd_level = 0
        if capabilities & _ZSTD:
            zstd_level = reader.u8()
        return cls(
            capabilities=Capability(capabilities),
            max_packet_size=max_packet_size,
            character_set=character_set,
            username=username,
            auth_response=auth_response,
            database=database,
            auth_plugin=auth_plugin,
            attributes=attributes,
            zstd_level=zstd_level,
        )

    def serialise(self) -> bytes:
        """Write it; the flags for database and plugin are set if there is one.

        Raises:
            MalformedPacketError: a name contains a NUL byte, or the auth response is too long for
                a client without CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA.
        """
        capabilities = int(self.capabilities) & ~(_WITH_DATABASE | _PLUGIN)
        if self.database is not None:
            capabilities |= _WITH_DATABASE
        if self.auth_plugin is not None:
            capabilities |= _PLUGIN
        payload = _client_head(capabilities, self.max_packet_size, self.character_set)
        payload += null_terminated(encode_text(self.username))
        if capabilities & _LONG_RESPONSE:
            payload += lenenc_bytes(self.auth_response)
        elif capabilities & _SECURE:
            payload += short_bytes(self.auth_response)
        else:
            payload += null_terminated(self.auth_response)
        if self.database is not None:
            payload += null_terminated(encode_text(self.database))
        if self.auth_plugin is not None:
            payload += null_terminated(encode_text(self.auth_plugin))
        if capabilities & _ATTRIBUTES:
            payload += serialise_attributes(self.attributes)
        if capabilities & _ZSTD:
            payload += self.zstd_level.to_bytes(1, "little")
        return payload


def _client_head(capabilities: int, max_packet_size: int, character_set: int) -> bytes:
    return (
        capabilities.to_bytes(4, "little")
        + max_packet_size.to_bytes(4, "little")
        + (character_set & 0xFF).to_bytes(1, "little")
        + bytes(_CLIENT_FILLER)
    )


def short_bytes(value: bytes) -> bytes:
    """A string after one byte of length.

    Raises:
        MalformedPacketError: the string is longer than 255 bytes.
    """
    if len(value) > 0xFF:
        raise MalformedPacketError("an auth response is longer than 255 bytes")
    return bytes((len(value),)) + value


def parse_attributes(reader: Reader) -> dict[str, str]:
    """Connection attributes: names and values, after their total length."""
    pairs = Reader(reader.lenenc_bytes())
    attributes: dict[str, str] = {}
    while pairs.remaining:
        name = decode_text(pairs.lenenc_bytes())
        attributes[name] = decode_text(pairs.lenenc_bytes())
    return attributes


def serialise_attributes(attributes: Mapping[str, str]) -> bytes:
    """The inverse of `parse_attributes`."""
    pairs = b"".join(
        [
            lenenc_bytes(encode_text(name)) + lenenc_bytes(encode_text(value))
            for name, value in attributes.items()
        ]
    )
    return lenenc_int(len(pairs)) + pairs


@dataclass(frozen=True, slots=True)
class AuthSwitchRequest:
    """The server asks for another plugin, or for the same with another nonce (fact 6.5).

    Attributes:
        data: the plugin's nonce, usually 20 bytes, without the NUL after it.
    """

    plugin: str
    data: bytes

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read it.

        Raises:
            MalformedPacketError: not an AuthSwitchRequest; nor is the bare 0xFE that asks for a
                password hash of MySQL 3.
        """
        reader = Reader(payload)
        if reader.u8() != AUTH_SWITCH_HEADER:
            raise MalformedPacketError("not an AuthSwitchRequest")
        plugin = decode_text(reader.null_terminated())
        data = reader.rest()
        return cls(plugin, data[:-1] if data.endswith(b"\0") else data)

    def serialise(self) -> bytes:
        """Write it."""
        return (
            bytes((AUTH_SWITCH_HEADER,))
            + null_terminated(encode_text(self.plugin))
            + self.data
            + b"\0"
        )


@dataclass(frozen=True, slots=True)
class AuthMoreData:
    """Data from the server's authentication plugin for the client's."""

    data: bytes

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read it.

        Raises:
            MalformedPacketError: not an AuthMoreData.
        """
        if payload[:1] != b"\x01":
            raise MalformedPacketError("not an AuthMoreData")
        return cls(payload[1:])

    def serialise(self) -> bytes:
        """Write it."""
        return b"\x01" + self.data
