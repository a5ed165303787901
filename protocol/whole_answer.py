"""Takes an ordinary answer in one step, if all of it is in one chunk.

Theory of operation
===================

`ResponseStream` walks a response packet by packet. Chunks may end anywhere, so it keeps the bytes
of packets that are not complete. Most answers need none of that: one result with rows, or one OK
packet, all of it in the chunk that has just arrived. `take` recognises these two in one pass over
the frame headers. It looks at every length and at every byte that says what a packet is, and
decodes no row. Anything else (an error, more results, a cursor, a local file, a packet of 16 MiB,
an OK with another tracker than one of GTIDs, a chunk that ends too early) is left to the stream:
`take` then returns 0 and has changed nothing.

After `take`, the stream's attributes are the same as if it had walked the answer
(tests/protocol/test_whole_answer.py compares the two).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import (
    CURSOR_EXISTS,
    MAX_PACKET_PAYLOAD,
    MORE_RESULTS,
    OUT_PARAMETERS,
    SESSION_STATE_CHANGED,
)
from protocol.wire import LONGER

if TYPE_CHECKING:
    from mypy_extensions import i64  # an int in Python; when compiled, an unboxed number

    from protocol.response_stream import ResponseStream

_UNUSUAL: Final = MORE_RESULTS | CURSOR_EXISTS | OUT_PARAMETERS
_GTIDS: Final = 3  # the type of a SESSION_TRACK_GTIDS entry
_EOF_FRAME: Final = 9  # bytes of an EOF packet, with its header
_OK_FRAME: Final = 11  # bytes of the shortest OK packet, with its header


def take(stream: ResponseStream, data: bytes, position: i64, keep_row: bool) -> i64:
    """Take a response to COM_QUERY or COM_STMT_EXECUTE (shape RESULTS).

    Args:
        stream: one that is not within a response; its `begin` need not have been called for this.
        data: what has arrived.
        position: where the response begins in it.
        keep_row: whether to keep the payload of the first row.

    Returns:
        Where the response ends; 0 if it is not an ordinary one, or not complete.
    """
    if len(data) - position < _OK_FRAME or stream.tells_status:
        return 0
    if data[position + 4] == 0x00:
        return _take_ok(stream, data, position)
    return _take_rows(stream, data, position, keep_row)


def _take_rows(stream: ResponseStream, data: bytes, position: i64, keep_row: bool) -> i64:  # noqa: C901, PLR0912 hot: calls would cost more
    """Column count, definitions, an EOF if one is due, rows, and the OK or EOF after them."""
    size: i64 = len(data)
    deprecates_eof = stream.deprecates_eof
    columns: i64 = data[position + 4]
    if data[position] != 1 or data[position + 1] or data[position + 2] or columns >= LONGER:
        return 0
    # If the chunk does not end as a response does, do not walk it in vain. With trackers it may end
    # in any way: an answer has some if the one before it had (ALL_GTIDS), or mostly none.
    if stream.optional_metadata or (
        data[size - (7 if deprecates_eof else 5)] != 0xFE
        and not (deprecates_eof and stream.session_track and stream.status & SESSION_STATE_CHANGED)
    ):
        return 0
    at = position + 5
    while columns:
        if size - at < _EOF_FRAME:
            return 0
        length = _length(data, at)
        if length == 0 or length == MAX_PACKET_PAYLOAD or data[at + 4] >= 0xFE:
            return 0
        at += 4 + length
        columns -= 1
    if not deprecates_eof:
        if not _is_eof(data, at) or _u16(data, at + 7) & _UNUSUAL:
            return 0
        at += _EOF_FRAME
    rows: i64 = 0
    first = at
    while True:
        if size - at < _EOF_FRAME:
            return 0
        length = _length(data, at)
        if data[at + 4] >= 0xFE:
            break
        if length == 0 or length == MAX_PACKET_PAYLOAD:
            return 0
        at += 4 + length
        rows += 1
    block: i64 = 0  # where the trackers begin, behind the length of their block
    if deprecates_eof:
        # An OK packet without affected rows, insert id or text.
        end = at + 4 + length
        if end > size or length < 7 or data[at + 4] != 0xFE or data[at + 5] or data[at + 6]:
            return 0
        status = _u16(data, at + 7)
        warnings = _u16(data, at + 9)
        if length > 7:
            block = at + 13
            if not stream.session_track or not status & SESSION_STATE_CHANGED:
                return 0
            if length == MAX_PACKET_PAYLOAD or data[at + 11]:
                return 0
            if not _is_tracker(data, block - 1, end):
                return 0
    else:
        end = at + _EOF_FRAME
        if not _is_eof(data, at):
            return 0
        warnings = _u16(data, at + 5)
        status = _u16(data, at + 7)
    if status & _UNUSUAL:
        return 0
    _set_common(stream, data, position, end, status, warnings)
    stream.missing_trackers = not deprecates_eof
    stream.sequence_id = data[at + 3]
    stream.rows = rows
    if block:
        stream.session_states = [data[block:end]]
        stream.tracker_packets = [(at, end)]
    if keep_row and rows:
        stream.row = data[first + 4 : first + 4 + _length(data, first)]
    return end


def _length(data: bytes, at: i64) -> i64:
    """The length of the payload whose frame header is at `at`."""
    low: i64 = data[at]
    middle: i64 = data[at + 1]
    high: i64 = data[at + 2]
    return low | middle << 8 | high << 16


def _u16(data: bytes, at: i64) -> i64:
    low: i64 = data[at]
    high: i64 = data[at + 1]
    return low | high << 8


def _is_eof(data: bytes, at: i64) -> bool:
    """Whether an EOF packet begins there, and is whole."""
    return (
        len(data) - at >= _EOF_FRAME
        and data[at] == 5
        and data[at + 1] == 0
        and data[at + 2] == 0
        and data[at + 4] == 0xFE
    )


def _take_ok(stream: ResponseStream, data: bytes, position: i64) -> i64:
    """One OK packet: with one tracker, of GTIDs, or without tracker and affected rows."""
    length = _length(data, position)
    end = position + 4 + length
    if length == MAX_PACKET_PAYLOAD or end > len(data):
        return 0
    offset = _behind_integer(data, _behind_integer(data, position + 5))  # rows, insert id
    if offset == 0 or offset + 4 > end:
        return 0
    status = _u16(data, offset)
    if status & _UNUSUAL:
        return 0
    at = offset + 4
    if status & SESSION_STATE_CHANGED:
        if not stream.session_track or at >= end or data[at] >= LONGER:
            return 0
        at += 1 + data[at]  # the text
        if not _is_tracker(data, at, end):
            return 0
        _set_common(stream, data, position, end, status, _u16(data, offset + 2))
        stream.session_states = [data[at + 1 : end]]
        stream.tracker_packets = [(position, end)]
    else:
        if data[position + 5]:
            return 0  # affected rows, but no GTID
        _set_common(stream, data, position, end, status, _u16(data, offset + 2))
    stream.sequence_id = data[position + 3]
    return end


def _is_tracker(data: bytes, at: i64, end: i64) -> bool:
    """Whether a block with one tracker, of GTIDs, takes these bytes; each after its length."""
    return (
        end - at >= 4
        and data[at] < LONGER
        and at + 1 + data[at] == end
        and data[at + 1] == _GTIDS
        and at + 3 + data[at + 2] == end
    )


def _behind_integer(data: bytes, at: i64) -> i64:
    """Where a length-encoded integer ends; 0 if there is none."""
    if at == 0 or at >= len(data):
        return 0
    first = data[at]
    if first < LONGER:
        return at + 1
    if first == 0xFC:
        return at + 3
    if first == 0xFD:
        return at + 4
    return at + 9 if first == 0xFE else 0


def _set_common(
    stream: ResponseStream, data: bytes, position: i64, end: i64, status: i64, warnings: i64
) -> None:
    """Set those of the stream's attributes that all ordinary responses set in the same way."""
    stream.done = True
    stream.infile = stream.missing_trackers = stream.cursor = False
    stream.error = stream.row = stream.head = None
    stream.status = status
    stream.warnings = warnings
    stream.rows = 0
    stream.chunk = data
    stream.chunk_start = position
    stream.chunk_end = end
    if stream.session_states:
        stream.session_states = []
    if stream.unnamed:
        stream.unnamed = []
    if stream.tracker_packets:
        stream.tracker_packets = []
