"""The packets OK, EOF and ERR, and the one that begins the answer to a COM_STMT_PREPARE."""

from dataclasses import dataclass, replace
from typing import Final, Self

from protocol.constants import Capability, ServerStatus
from protocol.errors import MalformedPacketError, ServerErrorCode
from protocol.wire import Reader, decode_text, encode_text, lenenc_bytes, lenenc_int

OK_HEADER: Final = 0x00
EOF_HEADER: Final = 0xFE
ERR_HEADER: Final = 0xFF

_SESSION_STATE_CHANGED: Final = int(ServerStatus.SERVER_SESSION_STATE_CHANGED)


@dataclass(frozen=True, slots=True)
class OkPacket:
    """OK (fact 1.1), also in place of EOF under CLIENT_DEPRECATE_EOF (fact 1.2).

    Attributes:
        info: human-readable text, in the connection's character set.
        session_state: what the server's trackers report, None if they report nothing. It can be
            empty, too.
        header: 0x00, or 0xFE after rows.
    """

    affected_rows: int = 0
    last_insert_id: int = 0
    status: int = 0
    warnings: int = 0
    info: bytes = b""
    session_state: bytes | None = None
    header: int = OK_HEADER

    @classmethod
    def parse(cls, payload: bytes, capabilities: Capability) -> Self:
        """Read an OK packet; the capabilities are those of the connection it came from.

        Raises:
            MalformedPacketError: not an OK packet.
        """
        reader = Reader(payload)
        header = reader.u8()
        if header not in (OK_HEADER, EOF_HEADER):
            raise MalformedPacketError(f"an OK packet starts with 0x{header:02x}")
        affected_rows = reader.lenenc_int()
        last_insert_id = reader.lenenc_int()
        status = reader.u16()
        warnings = reader.u16()
        info = b""
        session_state: bytes | None = None
        if reader.remaining:
            # The text has a length even without CLIENT_SESSION_TRACK; an empty one may be absent.
            info = reader.lenenc_bytes()
            tracked = capabilities & Capability.CLIENT_SESSION_TRACK
            if tracked and status & _SESSION_STATE_CHANGED:
                session_state = reader.lenenc_bytes()
            reader.expect_end()
        return cls(affected_rows, last_insert_id, status, warnings, info, session_state, header)

    def serialise(self, capabilities: Capability) -> bytes:
        """Write it for a connection with these capabilities.

        SERVER_SESSION_STATE_CHANGED is set if, and only if, the session state is in the packet.
        """
        session_state = self.session_state
        if not capabilities & Capability.CLIENT_SESSION_TRACK:
            session_state = None
        status = self.status & ~_SESSION_STATE_CHANGED
        if session_state is not None:
            status |= _SESSION_STATE_CHANGED
        payload = (
            bytes((self.header,))
            + lenenc_int(self.affected_rows)
            + lenenc_int(self.last_insert_id)
            + status.to_bytes(2, "little")
            + self.warnings.to_bytes(2, "little")
        )
        if self.info or session_state is not None:
            payload += lenenc_bytes(self.info)
        if session_state is not None:
            payload += lenenc_bytes(session_state)
        return payload


@dataclass(frozen=True, slots=True)
class EofPacket:
    """The five bytes that end definitions and rows without CLIENT_DEPRECATE_EOF."""

    warnings: int = 0
    status: int = 0

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read an EOF packet.

        Raises:
            MalformedPacketError: not an EOF packet.
        """
        if len(payload) != 5 or payload[0] != EOF_HEADER:
            raise MalformedPacketError("not an EOF packet")
        return cls(
            warnings=int.from_bytes(payload[1:3], "little"),
            status=int.from_bytes(payload[3:5], "little"),
        )

    def serialise(self) -> bytes:
        """Write it."""
        return (
            bytes((EOF_HEADER,))
            + self.warnings.to_bytes(2, "little")
            + self.status.to_bytes(2, "little")
        )


_LETTERS_LEFT: Final = {"ucs2": 0, "utf16": 0, "utf32": 0, "utf16le": 1}
"""How many letters of an error's text arrive, by character_set_results."""


@dataclass(frozen=True, slots=True)
class ErrPacket:
    """ERR (fact 1.2).

    Attributes:
        code: of the Server Error Message Reference.
        sqlstate: five characters; empty if the server sent none, as before it knows the client's
            capabilities.
        message: in the connection's character set; bytes that are not UTF-8 are kept.
    """

    code: int
    sqlstate: str
    message: str

    def __str__(self) -> str:
        """As the command-line client prints it."""
        state = f" ({self.sqlstate})" if self.sqlstate else ""
        return f"ERROR {self.code}{state}: {self.message}"

    @classmethod
    def of(cls, error: ServerErrorCode, message: str) -> Self:
        """An error that Tidegate itself reports."""
        return cls(error.code, error.sqlstate, message)

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Read an ERR packet.

        Raises:
            MalformedPacketError: not an ERR packet.
        """
        reader = Reader(payload)
        if reader.u8() != ERR_HEADER:
            raise MalformedPacketError("not an ERR packet")
        code = reader.u16()
        message = reader.rest()
        sqlstate = b""
        if message[:1] == b"#" and len(message) >= 6:
            sqlstate, message = message[1:6], message[6:]
        return cls(code, decode_text(sqlstate), decode_text(message))

    def in_character_set(self, character_set: str) -> Self:
        """The error as a server sends it in a session with this character_set_results.

        The server converts the text and ends it at the first zero byte. Where even ASCII letters
        have such a byte, little or nothing is left (docs/mysql-behaviour.md, *Commands*); in all
        other character sets ASCII stays as it is.
        """
        left = _LETTERS_LEFT.get(character_set)
        return self if left is None else replace(self, message=self.message[:left])

    def serialise(self, capabilities: Capability) -> bytes:
        """Write it; the SQLSTATE only for a client with CLIENT_PROTOCOL_41."""
        state = b""
        if capabilities & Capability.CLIENT_PROTOCOL_41:
            state = b"#" + (encode_text(self.sqlstate) + b"HY000"[len(self.sqlstate) :])[:5]
        return (
            bytes((ERR_HEADER,))
            + self.code.to_bytes(2, "little")
            + state
            + encode_text(self.message)
        )


@dataclass(frozen=True, slots=True)
class StmtPrepareOk:
    """The first packet of the answer to COM_STMT_PREPARE (fact 7.4).

    Attributes:
        columns, parameters: how many definitions follow of each, the parameters' first.
        metadata: False if they do not follow after all (CLIENT_OPTIONAL_RESULTSET_METADATA).
    """

    statement_id: int
    columns: int
    parameters: int
    warnings: int = 0
    metadata: bool = True

    @classmethod
    def parse(cls, payload: bytes, capabilities: Capability) -> Self:
        """Read it.

        Raises:
            MalformedPacketError: not such a packet.
        """
        reader = Reader(payload)
        if reader.u8() != OK_HEADER:
            raise MalformedPacketError("the head of a prepared statement does not start with 0x00")
        statement_id = reader.u32()
        columns = reader.u16()
        parameters = reader.u16()
        reader.take(1)
        warnings = reader.u16()
        metadata = True
        if reader.remaining and capabilities & Capability.CLIENT_OPTIONAL_RESULTSET_METADATA:
            metadata = reader.u8() != 0
        reader.expect_end()
        return cls(statement_id, columns, parameters, warnings, metadata)

    def serialise(self, capabilities: Capability) -> bytes:
        """Write it."""
        payload = (
            bytes((OK_HEADER,))
            + self.statement_id.to_bytes(4, "little")
            + self.columns.to_bytes(2, "little")
            + self.parameters.to_bytes(2, "little")
            + b"\0"
            + self.warnings.to_bytes(2, "little")
        )
        if capabilities & Capability.CLIENT_OPTIONAL_RESULTSET_METADATA:
            payload += bytes((self.metadata,))
        return payload
