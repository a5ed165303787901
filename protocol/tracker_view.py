"""What a client sees of the trackers on a server connection.

On the connection to the primary the proxy tracks more than the client asked for, and has
CLIENT_SESSION_TRACK even if the client has not. The client must not see trackers that it did not
ask for; everything else passes unchanged.
"""

from functools import lru_cache
from typing import Final

from protocol.constants import SESSION_STATE_CHANGED, Capability, SessionTrackType
from protocol.ok_packet import head, string
from protocol.packet import frame
from protocol.response_stream import ResponseStream
from protocol.session_track import entries, retain
from protocol.wire import LONGER, Reader, lenenc_bytes

_GTIDS: Final = int(SessionTrackType.SESSION_TRACK_GTIDS)
_VARIABLES: Final = int(SessionTrackType.SESSION_TRACK_SYSTEM_VARIABLES)
_STATE: Final = int(SessionTrackType.SESSION_TRACK_TRANSACTION_STATE)
_STATE_BEGIN: Final = b"\x05\x09\x08"
_NO_TRANSACTION: Final = b"\x08________"
_LIST: Final = b"session_track_system_variables"
_LENGTHS: Final = [bytes((length, 0, 0)) for length in range(256)]
_UNCHANGED: Final = [bytes((high & ~(SESSION_STATE_CHANGED >> 8),)) for high in range(256)]
"""Tables: each length below 256 in three bytes; for each higher byte of a status, that byte without
SESSION_STATE_CHANGED."""

ALL_TRACKERS: Final = frozenset([int(kind) for kind in SessionTrackType])
"""For a client that is to see every tracker."""

_SHORT: Final = 1024
_MOST_LISTS: Final = 64


def _split(variables: bytes) -> frozenset[bytes]:
    return frozenset([name.strip() for name in variables.split(b",")])


_names: Final = lru_cache(maxsize=_MOST_LISTS)(_split)
"""The names in a short list of variables: most sessions have the same list, and share the names."""


class TrackerView:
    """What one client sees on one connection.

    Attributes:
        trackers: the tracker types that it is to see.
        hidden: flags of the server status that it is not to see as the server sends them. If there
            are any, the stream's `tells_status` must be set.
        shown: those of the hidden flags that are set in what it sees.
    """

    def __init__(self, client: Capability, trackers: frozenset[int], variables: str = "*") -> None:
        self._session_track = bool(client & Capability.CLIENT_SESSION_TRACK)
        self.hidden = self.shown = 0
        self._in_transaction = False  # the newest transaction state that was reported to it
        self.show(trackers, variables)

    def show(self, trackers: frozenset[int], variables: str) -> None:
        """Let the client see these types of trackers.

        Args:
            trackers: the types.
            variables: names of the system variables that it is to see, as the server reports them,
                separated by commas; `*` for all.
        """
        self.trackers = trackers
        self._show_variables(variables.encode())
        self._shows_gtids = _GTIDS in trackers

    def _show_variables(self, variables: bytes) -> None:
        names = _names(variables) if len(variables) <= _SHORT else _split(variables)
        self._variables = None if b"*" in names else names

    def client_bytes(self, stream: ResponseStream) -> bytes:
        """The bytes that the client gets for those that the stream's last `feed` walked.

        Raises:
            MalformedPacketError: a list of trackers is malformed.
        """
        chunk = stream.chunk
        position = stream.chunk_start
        if not stream.tracker_packets:
            whole = position == 0 and stream.chunk_end == len(chunk)
            return chunk if whole else chunk[position : stream.chunk_end]
        out: list[bytes] = []
        for begin, end in stream.tracker_packets:
            payload = chunk[begin + 4 : end]
            if self.hidden:
                payload = self._hiding(payload)
            packet = frame(self._rewritten(payload), chunk[begin + 3])
            if begin == position and end == stream.chunk_end and not out:
                return packet
            out.append(chunk[position:begin])
            out.append(packet)
            position = end
        out.append(chunk[position : stream.chunk_end])
        return b"".join(out)

    def client_bytes_of_write(self, stream: ResponseStream) -> bytes:
        """As `client_bytes`, for an OK with GTIDs as its only tracker (`protocol.whole_answer`)."""
        chunk, begin = stream.chunk, stream.chunk_start
        affected, last_id = chunk[begin + 5], chunk[begin + 6]
        if self._shows_gtids or affected >= LONGER or last_id >= LONGER:
            return self.client_bytes(stream)
        offset = begin + 7  # of the status; warnings and a text follow, then the one block
        end = stream.chunk_end - 1 - len(stream.session_states[0])
        if end == offset + 5:
            end = offset + 4  # without the length of a text that is empty
        length = end - begin - 4
        if length > 255:
            return self.client_bytes(stream)
        # The rewritten OK packet ends after its text.
        status = _UNCHANGED[chunk[offset + 1]]
        return b"".join(
            (_LENGTHS[length], chunk[begin + 3 : offset + 1], status, chunk[offset + 2 : end])
        )

    def client_bytes_of_rows(self, stream: ResponseStream) -> bytes:
        """As `client_bytes`, for rows and an OK packet without text and with GTIDs alone."""
        if self._shows_gtids:
            return self.client_bytes(stream)
        chunk = stream.chunk
        begin, _ = stream.tracker_packets[0]
        place = begin + 7  # of the status; warnings follow
        return b"".join(
            (
                chunk[stream.chunk_start : begin],
                _LENGTHS[7],
                chunk[begin + 3 : place + 1],
                _UNCHANGED[chunk[place + 1]],
                chunk[place + 2 : place + 4],
            )
        )

    def _rewritten(self, payload: bytes) -> bytes:
        """The OK packet as the client is to see it (fact 1.1)."""
        if payload[0] == 0xFE and len(payload) == 5:
            return payload  # an EOF packet has no trackers
        ok = head(payload)
        if not ok.status & SESSION_STATE_CHANGED:
            return payload
        info_begin, info_end = string(payload, ok.end)
        if self._session_track:
            begin, end = string(payload, info_end)
            block = payload[begin:end]
            if _LIST in block:
                self._take_list(block)
            types = self.trackers
            if _STATE_BEGIN in block and self._ends_unknown(block):
                types -= {_STATE}
            kept = retain(block, types, self._variables)
            if kept:
                return payload if kept == block else payload[:info_end] + lenenc_bytes(kept)
        plain = (ok.status & ~SESSION_STATE_CHANGED).to_bytes(2, "little")
        info = payload[ok.end : info_end] if info_end > info_begin else b""
        return payload[: ok.status_offset] + plain + payload[ok.status_offset + 2 : ok.end] + info

    def _take_list(self, block: bytes) -> None:
        """A new list of variables counts from the answer that reports it on.

        NULL, which is reported as an empty list, leaves what was tracked before.
        """
        for kind, entity in entries(block):
            if kind == _VARIABLES:
                reader = Reader(entity)
                name, value = reader.lenenc_bytes(), reader.lenenc_bytes()
                if name == _LIST and value:
                    self._show_variables(value)

    def _ends_unknown(self, block: bytes) -> bool:
        """Whether it reports the end of a transaction whose begin the client was not told.

        Such a transaction was begun by the proxy, for one that the client began by a read with
        autocommit off. A server reports no transaction state then: that of a session without
        session_track_transaction_info changes with START TRANSACTION alone (measured on 9.7.4).
        """
        unknown = False
        for kind, entity in entries(block):
            if kind == _STATE:
                ends = entity == _NO_TRANSACTION
                unknown = ends and not self._in_transaction
                self._in_transaction = not ends
        return unknown

    def _hiding(self, payload: bytes) -> bytes:
        """The OK or EOF packet with the client's own status in place of the hidden flags."""
        is_eof = payload[0] == 0xFE and len(payload) == 5
        offset = 3 if is_eof else head(payload).status_offset
        status = (payload[offset] | payload[offset + 1] << 8) & ~self.hidden
        status |= self.shown
        return payload[:offset] + status.to_bytes(2, "little") + payload[offset + 2 :]
