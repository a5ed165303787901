"""Rewrites a response for a client that negotiated less than the proxy did with the server.

The proxy always has CLIENT_DEPRECATE_EOF and CLIENT_SESSION_TRACK with the primary, since without
them committed GTIDs are lost (fact 2.3). A client without the first expects an EOF packet after
each list of definitions and after the rows, which shifts the sequence id of every packet that
follows. A client without the second, or one that did not ask for a tracker, must not see its
entries. Everything else passes as it came.
"""

from typing import Final

from protocol.constants import Capability
from protocol.response_stream import (
    MARK_CONTROL,
    MARK_DEFINITIONS_END,
    PREPARED,
    RESULTS,
    ResponseStream,
)
from protocol.session_track import retain
from protocol.wire import Reader, lenenc_bytes

_CURSOR: Final = 0x0040
_SESSION_STATE_CHANGED: Final = 0x4000
_OUT_PARAMETERS: Final = 0x1000  # SERVER_PS_OUT_PARAMS
_MORE_RESULTS: Final = 0x0008
_HELD_LIMIT: Final = 1 << 20  # bytes of a result that waits for its status
_LASTING_STATUS: Final = 0x2203
"""The flags that hold beyond one statement: of the transaction, autocommit and backslashes."""


class ResponseTranslation:
    """One client's view of the responses of one server connection.

    Call `begin` with each command, then `feed` in place of the stream's own.

    Attributes:
        trackers: the tracker types that the client is to see.
        shift: how many packets more the client was given than the server sent, modulo 256.
    """

    def __init__(
        self,
        stream: ResponseStream,
        client: Capability,
        trackers: frozenset[int],
        variables: str = "*",
    ) -> None:
        self._stream = stream
        self._deprecate_eof = bool(client & Capability.CLIENT_DEPRECATE_EOF)
        self._session_track = bool(client & Capability.CLIENT_SESSION_TRACK)
        self.show(trackers, variables)
        self.shift = 0
        self._shape = RESULTS
        self._eof_due = False
        self._sequence_id = 0
        self._early_status = False
        self._held: list[bytes] = []
        self._eof_at = -1  # where in `_held` the EOF is whose status is not known yet

    def show(self, trackers: frozenset[int], variables: str) -> None:
        """Let the client see these types of trackers.

        Args:
            trackers: the types.
            variables: names of the system variables that it is to see, as the server tells them,
                separated by commas; `*` for all.
        """
        self.trackers = trackers
        names = frozenset([name.strip().encode() for name in variables.split(",")])
        self._variables = None if b"*" in names else names

    def begin(self, shape: int, keep_row: bool = False, early_status: bool = False) -> None:
        """Expect the response to a new command; begins the stream, too.

        With `early_status` an older client needs to know a result's status in front of its rows:
        that it holds a procedure's OUT parameters. So the result waits for its end, if it is short.
        """
        self._early_status = early_status and not self._deprecate_eof
        self._eof_at = -1
        self._stream.begin(shape, marking=True, keep_row=keep_row)
        self._shape = shape
        self.shift = 0
        self._eof_due = False

    def feed(self, data: bytes, position: int) -> tuple[int, bytes]:
        """Walk `data`; return where the response ended (or `len(data)`) and the client's bytes.

        Raises:
            MalformedPacketError: the server broke the protocol.
        """
        stream = self._stream
        end = stream.feed(data, position)
        chunk: bytes | bytearray = stream.chunk
        run = stream.chunk_start  # bytes from here on are not yet given out
        out = self._held
        self._held = []
        for mark, kind in stream.marks:
            if kind == MARK_DEFINITIONS_END:
                self._eof_due = not self._deprecate_eof
                continue
            self._sequence_id = chunk[mark + 3]
            if kind == MARK_CONTROL:
                out.append(bytes(chunk[run:mark]))
                run = mark + 4 + int.from_bytes(chunk[mark : mark + 3], "little")
                payload = bytes(chunk[mark + 4 : run])
                if self._eof_due:
                    self._definitions_eof(out, payload)
                if self._eof_at >= 0 and payload[0] == 0xFE:
                    self._complete_eof(out, payload)
                rewritten = self._rewrite(payload)
                out.append(_frame(rewritten, self._sequence_id + self.shift))
                continue
            if self._eof_due:
                out.append(bytes(chunk[run:mark]))
                run = mark
                self._definitions_eof(out, b"")
            if self.shift:
                if isinstance(chunk, bytes):
                    chunk = bytearray(chunk)
                chunk[mark + 3] = (self._sequence_id + self.shift) & 0xFF
        out.append(bytes(chunk[run : stream.chunk_end]))
        if stream.done and self._eof_due:
            # The definitions of a prepared statement are the response's end.
            self._sequence_id += 1
            self._definitions_eof(out, b"")
        if self._eof_at >= 0 and not stream.done and sum(map(len, out)) < _HELD_LIMIT:
            self._held = out
            return end, b""
        self._eof_at = -1
        return end, b"".join(out)

    def _complete_eof(self, out: list[bytes], terminator: bytes) -> None:
        """Give the EOF in front of the rows the status of the one behind them."""
        status = _behind_counts(terminator).u16() & ~_SESSION_STATE_CHANGED
        header = out[self._eof_at][:4]
        out[self._eof_at] = header + b"\xfe\x00\x00" + status.to_bytes(2, "little")
        self._eof_at = -1

    def _definitions_eof(self, out: list[bytes], following: bytes) -> None:
        """Add the EOF between definitions and rows, in front of the control packet `following`.

        A cursor's definitions are followed by its FE-OK alone: that becomes the one EOF which an
        older client expects there (fact 7.4).
        """
        self._eof_due = False
        if following[:1] == b"\xfe" and _behind_counts(following).u16() & _CURSOR:
            return
        status = self._stream.status & _LASTING_STATUS
        head = self._stream.head  # that of a prepared statement tells its warnings
        warnings = b"\x00\x00" if head is None else head[10:12]
        eof = b"\xfe" + warnings + status.to_bytes(2, "little")
        if self._early_status:
            self._eof_at = len(out)
        out.append(_frame(eof, self._sequence_id + self.shift))
        self.shift = (self.shift + 1) & 0xFF

    def _rewrite(self, payload: bytes) -> bytes:
        """The control packet as the client is to see it (facts 1.1, 1.2)."""
        first = payload[0]
        if first == 0xFE:
            if len(payload) == 5:
                return payload
        elif first != 0x00 or self._shape == PREPARED:
            return payload
        reader = _behind_counts(payload)
        place = len(payload) - reader.remaining
        status = reader.u16()
        warnings = reader.take(2)
        if first == 0xFE and not self._deprecate_eof and status & _OUT_PARAMETERS:
            # There the flags stand in front of the rows, and not behind them.
            status &= ~(_OUT_PARAMETERS | _MORE_RESULTS)
        plain = (status & ~_SESSION_STATE_CHANGED).to_bytes(2, "little")
        if first == 0xFE and not self._deprecate_eof:
            return b"\xfe" + warnings + plain
        if not status & _SESSION_STATE_CHANGED or not reader.remaining:
            return payload
        info = reader.lenenc_bytes()
        block = reader.lenenc_bytes()
        kept = retain(block, self.trackers, self._variables) if self._session_track else b""
        if kept and kept == block:
            return payload
        if kept:
            return payload[: place + 4] + lenenc_bytes(info) + lenenc_bytes(kept)
        return payload[:place] + plain + warnings + (lenenc_bytes(info) if info else b"")


def _behind_counts(payload: bytes) -> Reader:
    """A reader of an OK packet that stands before its status."""
    reader = Reader(payload)
    reader.u8()
    reader.lenenc_int()
    reader.lenenc_int()
    return reader


def _frame(payload: bytes, sequence_id: int) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes((sequence_id & 0xFF,)) + payload
