"""Tells whether two answers are the same, but for what may legitimately differ."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from protocol.constants import Capability, Command, ServerStatus, SessionTrackType
from protocol.response import ErrPacket, OkPacket
from protocol.resultset import ColumnDefinition41
from protocol.session_track import entries, entry
from tests.differential.player import MALFORMED, Answer, Packet

_INDEX_FLAGS = int(
    ServerStatus.SERVER_QUERY_NO_GOOD_INDEX_USED | ServerStatus.SERVER_QUERY_NO_INDEX_USED
)
_STATE_CHANGED = int(ServerStatus.SERVER_SESSION_STATE_CHANGED)
_STATEMENT_ID = b"\x0cstatement_id"
_OF_STATEMENTS = frozenset({1243, 1421})
"""ER_UNKNOWN_STMT_HANDLER, ER_STMT_HAS_NO_OPEN_CURSOR."""

_NAMED_STATEMENT = re.compile(
    rb"[\s\S](The statement|Unknown prepared statement handler) \([0-9]+\)"
)
"""The same in a row of SHOW WARNINGS, behind the text's length."""


@dataclass(frozen=True)
class Difference:
    """Two answers that are not the same.

    Attributes:
        step: number of the step, from 0.
        direct: the server's own answer.
        through: the answer through the proxy.
    """

    step: int
    direct: Answer
    through: Answer
    capabilities: Capability

    def __str__(self) -> str:
        lines = []
        for number, (expected, got) in enumerate(zip_longest(self.direct, self.through)):
            if expected == got:
                continue
            lines.append(f"packet {number}:")
            for name, packet in (("direct", expected), ("through", got)):
                text = "none" if packet is None else described(packet, self.capabilities)
                lines.append(f"  {name:8}{text}")
        return "\n".join(lines)


def first_difference(
    direct: Sequence[Answer], through: Sequence[Answer], capabilities: Capability
) -> Difference | None:
    """The first step whose answers differ; step 0 is the login."""
    for number, (expected, got) in enumerate(zip(direct, through, strict=True)):
        same = comparable(expected, capabilities) == comparable(got, capabilities)
        if not same or MALFORMED in expected:  # two of these need not have been alike
            return Difference(number, expected, got, capabilities)
    return None


def comparable(answer: Answer, capabilities: Capability) -> list[Packet]:
    """The answer without what may legitimately differ."""
    packets = [_without_empty_block(packet, capabilities) for packet in answer]
    packets = [_without_numbers(packet, capabilities) for packet in packets]
    packets = [_without_index_flags(packet, capabilities) for packet in packets]
    return [without_statement_id(packet) for packet in packets]


def _without_empty_block(packet: Packet, capabilities: Capability) -> Packet:
    """The packet without a list of trackers that has no entry, and without the flag for it.

    A server sends one where a tracker that is off was touched, or one that is on was reset by an
    ERR; what Tidegate's own trackers, which it takes out, leave cannot be told from that.
    """
    ok = ok_packet(packet, capabilities)
    if ok is None or ok.session_state != b"":
        return packet
    without = replace(ok, status=ok.status & ~_STATE_CHANGED, session_state=None)
    return replace(packet, payload=without.serialise(capabilities))


def _without_numbers(packet: Packet, capabilities: Capability) -> Packet:
    """The packet without GTIDs and the server's count of statements in its trackers.

    Both runs write, one after the other.
    """
    ok = ok_packet(packet, capabilities)
    if ok is None or not ok.session_state:
        return packet
    kept = b""
    for kind, entity in entries(ok.session_state):
        if kind == SessionTrackType.SESSION_TRACK_GTIDS:
            kept += entry(kind, b"")
        elif entity.startswith(_STATEMENT_ID):
            kept += entry(kind, _STATEMENT_ID)
        else:
            kept += entry(kind, entity)
    return replace(packet, payload=replace(ok, session_state=kept).serialise(capabilities))


def _without_index_flags(packet: Packet, capabilities: Capability) -> Packet:
    """The packet without the flags on the use of indexes.

    A replica's statistics, and so its plans, are its own: they do not see what was rolled back.
    """
    payload = packet.payload
    ok = ok_packet(packet, capabilities)
    if ok is not None:
        serialised = replace(ok, status=ok.status & ~_INDEX_FLAGS).serialise(capabilities)
        # An OK packet whose texts are empty may end behind its warnings, or may not.
        serialised += payload[len(serialised) :]
        return replace(packet, payload=serialised)
    if packet.control and payload[0] == 0xFE and len(payload) == 5:
        return replace(
            packet, payload=payload[:3] + bytes((payload[3] & ~_INDEX_FLAGS,)) + payload[4:]
        )
    return packet


def without_statement_id(packet: Packet) -> Packet:
    """The packet without the id of a prepared statement.

    A server gives a new one, too, where it prepares a statement anew for an execution, which may
    happen on a replica; what complains of a statement names its id.
    """
    payload = packet.payload
    error = packet.control and payload[0] == 0xFF
    if error and int.from_bytes(payload[1:3], "little") in _OF_STATEMENTS:
        return replace(packet, payload=re.sub(rb"\([0-9]+\)", b"(id)", payload))
    if not packet.control:
        return replace(packet, payload=_NAMED_STATEMENT.sub(rb"\1 (id)", payload))
    if packet.command != Command.COM_STMT_PREPARE or payload[0] != 0x00:
        return packet
    return replace(packet, payload=b"\0id" + payload[5:])


def ok_packet(packet: Packet, capabilities: Capability) -> OkPacket | None:
    """The packet as an OK packet, if it is one."""
    payload = packet.payload
    if not packet.control or payload[0] not in (0x00, 0xFE) or len(payload) == 5:
        return None
    return (
        None
        if packet.command == Command.COM_STMT_PREPARE
        else OkPacket.parse(payload, capabilities)
    )


def described(packet: Packet, capabilities: Capability) -> str:
    """The packet for a reader."""
    payload = packet.payload
    text = repr(payload)
    ok = ok_packet(packet, capabilities)
    if ok is not None:
        text = f"{ok}"
    elif packet.control and payload[0] == 0xFF:
        text = f"{ErrPacket.parse(payload)}"
    elif packet.control and payload[0] == 0xFE:
        text = f"EOF warnings={payload[1:3].hex()} status={payload[3:5].hex()}"
    elif not packet.control and payload.startswith(b"\x03def"):
        text = f"{ColumnDefinition41.parse(payload)}"
    return f"{packet.sequence_id}: {text if len(text) < 600 else text[:600] + '…'}"
