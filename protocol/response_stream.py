"""Finds the end of a server's response without decoding rows.

Theory of operation
===================

A response is a run of packets whose meaning depends on what came before: a column count announces
column definitions, these announce rows, and only a packet that starts with 0xFE or 0xFF ends them
(fact 1.2). `ResponseStream` walks frame headers. Of most packets it looks only at the header and
the first payload byte; OK, EOF, ERR and the few packets that hold a count are collected whole, also
over several chunks, since the meaning of what follows depends on them.

The state says what the next packet may be::

    FIRST ── 00 ─► end (OK)            FIRST ── count ─► DEFINITIONS ─► [DEFINITIONS_EOF] ─► ROWS
    FIRST ── FF ─► end (ERR)           ROWS ── FE/FF ─► end
    FIRST ── FB ─► INFILE ─► FIRST     end ── status & SERVER_MORE_RESULTS_EXISTS ─► FIRST

With `resultset_metadata = NONE` the definitions are missing, but not the EOF behind each group of
them: behind the parameters and behind the columns of a COM_STMT_PREPARE, too (measured on 9.7.4).

Without CLIENT_DEPRECATE_EOF the OUT parameters of a prepared CALL are an exception: an OK follows
them, and only the EOF before their row announces it.

The caller passes the bytes on unchanged. One that must change what trackers report finds the
packets with trackers in `tracker_packets`. Most responses lie in one chunk and need no such walk:
`protocol.whole_answer` takes them in one step.

Every length that is used comes from the three length bytes of a frame header, and no number that
the network sent decides how much is allocated.
"""

from typing import Final

from protocol.constants import (
    AUTOCOMMIT,
    CURSOR_EXISTS,
    MAX_PACKET_PAYLOAD,
    MORE_RESULTS,
    OUT_PARAMETERS,
    SESSION_STATE_CHANGED,
)
from protocol.errors import MalformedPacketError
from protocol.ok_packet import head, string
from protocol.session_track import names_gtids
from protocol.wire import LONGER, Reader

# What the response to a command looks like.
RESULTS: Final = 0
"""COM_QUERY, COM_STMT_EXECUTE: one or more results."""
SIMPLE: Final = 1
"""One OK, EOF or ERR."""
PREPARED: Final = 2
"""COM_STMT_PREPARE: a header, parameter definitions, column definitions."""
FIELDS: Final = 3
"""COM_FIELD_LIST: definitions up to an EOF or OK."""
FETCHED: Final = 4
"""COM_STMT_FETCH: rows up to an EOF or OK."""
STRING: Final = 5
"""COM_STATISTICS: one packet of text."""

_FIRST: Final = 0
_DEFINITIONS: Final = 1
_DEFINITIONS_EOF: Final = 2
_ROWS: Final = 3
_INFILE: Final = 4
_END: Final = 5


class ResponseStream:
    """The responses of one server connection, one command after another.

    Call `begin`, then `feed` with what arrives until `done`; the attributes then tell how the
    command ended.

    Attributes:
        done: the response is complete.
        infile: the server waits for the content of a LOCAL INFILE.
        error: payload of the ERR packet that ended the response, else None.
        status: server status of the newest OK or EOF packet.
        warnings: that packet's count of warnings, or that of a PREPARE's first packet.
        missing_trackers: the newest result ended with an EOF packet, which has no room for
            trackers.
        cursor: the response opened a cursor, so that its rows are still to be fetched.
        session_states: `session_state_info` of every OK packet of the response, in order.
        unnamed: status and text of each OK packet that reported affected rows, but no GTID.
        rows: how many rows have passed, of all results.
        sequence_id: of the newest packet that was read whole, such as a LOCAL INFILE's request.
        row: payload of the first row, if `begin` was asked to keep it.
        head: payload of a PREPARE's first packet.
        chunk: what the last `feed` walked from `chunk_start` to `chunk_end`: the bytes held back
            before it, then its own; empty if these are too few to go on. If the response has not
            ended, what follows `chunk_end` is held back for the next.
        tracker_packets: where packets with `session_state_info` begin and end in `chunk`; if
            `tells_status`, all packets with a server status.
        tells_status: the caller has to change the server status.
        deprecates_eof, session_track, optional_metadata: the connection negotiated these.
    """

    __slots__ = (
        "_asks_cursor",
        "_collect",
        "_continued",
        "_count",
        "_held",
        "_held_size",
        "_keep_row",
        "_metadata",
        "_owed",
        "_second_count",
        "_shape",
        "_skip",
        "_state",
        "_wanted",
        "chunk",
        "chunk_end",
        "chunk_start",
        "cursor",
        "deprecates_eof",
        "done",
        "error",
        "head",
        "infile",
        "missing_trackers",
        "optional_metadata",
        "row",
        "rows",
        "sequence_id",
        "session_states",
        "session_track",
        "status",
        "tells_status",
        "tracker_packets",
        "unnamed",
        "warnings",
    )

    def __init__(
        self, deprecate_eof: bool, session_track: bool, optional_metadata: bool = False
    ) -> None:
        """The flags are what the server connection negotiated."""
        self.deprecates_eof = deprecate_eof
        self.session_track = session_track
        self.optional_metadata = optional_metadata
        self.status = AUTOCOMMIT
        self.warnings = 0
        self.sequence_id = 0
        self.tracker_packets: list[tuple[int, int]] = []
        self.tells_status = False
        self.begin(RESULTS)

    def begin(self, shape: int, keep_row: bool = False, asks_cursor: bool = False) -> None:
        """Expect the response to a new command, of this shape; it may have asked for a cursor."""
        self._shape = shape
        self._keep_row = keep_row
        self._asks_cursor = asks_cursor
        self._state = _ROWS if shape == FETCHED else _DEFINITIONS if shape == FIELDS else _FIRST
        self._count = 0
        self._second_count = 0
        self._metadata = True  # definitions follow the count of columns
        self._skip = 0
        self._continued = False
        self._owed = False  # an OK must follow the OUT parameters
        # The bytes of an incomplete packet, and how many are needed to go on.
        self._held: list[bytes] = []
        self._held_size = 0
        self._wanted = 0
        self.chunk = b""
        self.chunk_start = 0
        self.chunk_end = 0
        self.done = False
        self.infile = False
        self.missing_trackers = False
        self.cursor = False
        self.error: bytes | None = None
        self.rows = 0
        self.row: bytes | None = None
        self.head: bytes | None = None
        self.session_states: list[bytes] = []
        self.unnamed: list[tuple[int, bytes]] = []

    def infile_sent(self) -> None:
        """The client's file content was passed on whole; the server's verdict follows."""
        self.infile = False
        self._state = _FIRST

    def feed(self, data: bytes, position: int = 0) -> int:
        """Walk `data` from `position`; return where the response ended, or `len(data)`.

        Raises:
            MalformedPacketError: the server broke the protocol.
        """
        if self.tracker_packets:
            self.tracker_packets = []
        before = self._held_size
        begin = position
        if before:
            self._held.append(data[position:])
            self._held_size += len(data) - position
            begin = 0
            if self._held_size < self._wanted:
                self.chunk = b""
                self.chunk_start = self.chunk_end = 0
                return len(data)
            chunk = b"".join(self._held)
            self._held = []
            self._held_size = 0
        else:
            chunk = data
        end = self._walk(chunk, begin)
        self.chunk = chunk
        self.chunk_start = begin
        self.chunk_end = end
        if end < len(chunk) and not self.done:
            self._held.append(chunk[end:])
            self._held_size = len(chunk) - end
            return len(data)
        return position + end - begin - before

    def _walk(self, data: bytes, position: int) -> int:  # noqa: C901, PLR0912 one walk over packets, hot
        """Return where the walk stopped: at the end of the response or of `data`, or earlier.

        If earlier, `_wanted` bytes from there are needed to go on.
        """
        size = len(data)
        while position < size:
            if self._skip:
                if size - position < self._skip:
                    self._skip -= size - position
                    return size
                position += self._skip
                self._skip = 0
                if not self._continued:
                    self._passed()
                    if self.done:
                        return position
                continue
            if size - position < 4:
                self._wanted = 4
                return position
            length = data[position] | data[position + 1] << 8 | data[position + 2] << 16
            end = position + 4 + length
            if not self._continued:
                if self.infile:
                    raise MalformedPacketError("the server sent data while it waited for a file")
                if length == 0:
                    if self._shape != STRING:
                        raise MalformedPacketError("a server's packet is empty")
                elif size - position == 4:
                    self._wanted = 5
                    return position
                elif data[position + 4] < 0xFE and (
                    self._state == _DEFINITIONS or (self._state == _ROWS and not self._keep_row)
                ):
                    pass  # a definition, or a row
                elif self._state == _DEFINITIONS or self._is_control(data[position + 4], length):
                    if length == MAX_PACKET_PAYLOAD:
                        raise MalformedPacketError("a control packet is longer than 16 MiB")
                    if end > size:
                        self._wanted = end - position
                        return position
                    self.sequence_id = data[position + 3]
                    known = len(self.session_states)
                    has_status = self.tells_status and self._has_status(data, position + 4, length)
                    self._control(data[position + 4 : end])
                    if has_status or len(self.session_states) > known:
                        self.tracker_packets.append((position, end))
                    position = end
                    if self.done:
                        return position
                    continue
            self._continued = length == MAX_PACKET_PAYLOAD
            if end > size:
                self._skip = end - size
                return size
            position = end
            if self._continued:
                pass
            elif self._state == _ROWS:
                self.rows += 1
            elif self._state == _DEFINITIONS and self._count > 1:
                self._count -= 1
            else:
                self._passed()
                if self.done:
                    return position
        return position

    def _is_control(self, first: int, length: int) -> bool:
        """Whether the packet that starts here, which is no definition, must be read whole."""
        if self._state == _ROWS:
            if first == 0xFE:
                # A row can start with 0xFE only if its first field is 16 MiB long.
                return length < MAX_PACKET_PAYLOAD if self.deprecates_eof else length < 9
            return first == 0xFF or (self._keep_row and self.row is None)
        return self._shape != STRING or first == 0xFF

    def _has_status(self, data: bytes, begin: int, length: int) -> bool:
        """Whether this control packet is an OK or an EOF."""
        first = data[begin]
        if self._state == _ROWS or self._state == _DEFINITIONS or self._state == _DEFINITIONS_EOF:
            return first == 0xFE
        return self._shape != PREPARED and (first == 0x00 or (first == 0xFE and length < 9))

    def _passed(self) -> None:
        """A packet that need not be read whole has ended."""
        if self._state == _ROWS:
            self.rows += 1
        elif self._state == _DEFINITIONS:
            if self._shape != FIELDS:
                self._count -= 1
                if self._count == 0:
                    self._definitions_end()
        else:
            self._finish()  # COM_STATISTICS's text

    def _definitions_end(self) -> None:
        if self.deprecates_eof:
            self._after_definitions()
        else:
            self._state = _DEFINITIONS_EOF

    def _after_definitions(self) -> None:
        if self._shape != PREPARED:
            self._state = _ROWS
        elif self._second_count:
            count, self._second_count = self._second_count, 0
            self._expect_definitions(count)
        else:
            self._finish()

    def _expect_definitions(self, count: int) -> None:
        """So many definitions come next; without metadata, only the EOF behind them, if any."""
        if self._metadata:
            self._count = count
            self._state = _DEFINITIONS
        else:
            self._definitions_end()

    def _control(self, payload: bytes) -> None:  # noqa: C901, PLR0912 one case per packet, hot
        first = payload[0]
        if first == 0xFF:
            if len(payload) < 3:
                raise MalformedPacketError("an ERR packet has no code")
            self.error = payload
            self._finish()
        elif self._state == _ROWS:
            if first == 0xFE:
                self._terminator(payload)
            else:
                self.row = payload
                self.rows += 1
        elif self._state == _DEFINITIONS_EOF:
            if first != 0xFE or len(payload) != 5:
                raise MalformedPacketError("no EOF packet after the column definitions")
            self.status = payload[3] | payload[4] << 8
            self._owed = self.status & OUT_PARAMETERS != 0
            if self._cursor_opened():
                self.cursor = self.missing_trackers = True
                self._finish()
            else:
                self._after_definitions()
        elif self._state == _DEFINITIONS:
            if self._shape != FIELDS:
                raise MalformedPacketError("a column definition is missing")
            self._terminator(payload)
        elif self._shape == PREPARED:
            self._prepared(payload)
        elif first == 0x00 or (first == 0xFE and self._shape == SIMPLE):
            self._terminator(payload)
        elif self._shape != RESULTS:
            raise MalformedPacketError(f"no answer to this command starts with 0x{first:02x}")
        elif first == 0xFB:
            self.infile = True
            self._state = _INFILE
        else:
            self._column_count(payload)

    def _cursor_opened(self) -> bool:
        """Whether the status after the definitions says that the client's cursor is open.

        The flag is also set for a cursor that a stored program of the statement had open. So it
        does not count if the client asked for no cursor, nor for a procedure, whose results are
        always followed by more.
        """
        return self._asks_cursor and self.status & (CURSOR_EXISTS | MORE_RESULTS) == CURSOR_EXISTS

    def _terminator(self, payload: bytes) -> None:
        """OK or EOF: the end of one result."""
        self.missing_trackers = payload[0] == 0xFE and len(payload) == 5
        if self.missing_trackers:
            self.warnings = payload[1] | payload[2] << 8
            self.status = payload[3] | payload[4] << 8
        elif payload[0] == 0xFE and not self.deprecates_eof:
            raise MalformedPacketError("an EOF packet does not have 5 bytes")
        elif len(payload) == 7 and payload[1] < LONGER and payload[2] < LONGER:
            self.status = payload[3] | payload[4] << 8
            self.warnings = payload[5] | payload[6] << 8
            if payload[1]:
                self.unnamed.append((self.status, b""))
        else:
            self._ok(payload)
        if self._asks_cursor and self._state == _ROWS and self.deprecates_eof and self.rows == 0:
            self.cursor = self._cursor_opened()
        if (self.status & MORE_RESULTS or self._owed) and self._shape == RESULTS:
            self._owed = False
            self._state = _FIRST
        else:
            self._finish()

    def _ok(self, payload: bytes) -> None:
        ok = head(payload)
        self.status = ok.status
        self.warnings = ok.warnings
        info = b""
        block = b""
        changed = ok.status & SESSION_STATE_CHANGED
        if self.session_track and (changed or ok.affected) and len(payload) > ok.end:
            begin, end = string(payload, ok.end)
            info = payload[begin:end]
            if changed:
                begin, end = string(payload, end)
                block = payload[begin:end]
                self.session_states.append(block)
        if ok.affected and not names_gtids(block):
            self.unnamed.append((ok.status, info))

    def _column_count(self, payload: bytes) -> None:
        if len(payload) == 1 and 0 < payload[0] < LONGER and not self.optional_metadata:
            self._count = payload[0]
            self._state = _DEFINITIONS
            return
        reader = Reader(payload)
        count = reader.lenenc_int()
        self._metadata = not self.optional_metadata or reader.u8() == 1
        if reader.remaining or not 0 < count <= 0xFFFF:
            raise MalformedPacketError("the column count is malformed")
        self._expect_definitions(count)

    def _prepared(self, payload: bytes) -> None:
        if payload[0] != 0x00 or len(payload) < 12:
            raise MalformedPacketError("the header of a prepared statement is malformed")
        self.head = payload
        columns = payload[5] | payload[6] << 8
        parameters = payload[7] | payload[8] << 8
        self._metadata = not (self.optional_metadata and len(payload) > 12 and payload[12] == 0)
        self._second_count = columns if parameters else 0
        if parameters or columns:
            self._expect_definitions(parameters or columns)
        else:
            self._finish()

    def _finish(self) -> None:
        if self.head is not None and self.error is None:
            self.warnings = self.head[10] | self.head[11] << 8
        self._state = _END
        self.done = True
