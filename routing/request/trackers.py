"""What the trackers of a server's OK packets tell of the command that they answer."""

from collections.abc import Sequence
from math import inf
from typing import Final

from protocol.session_track import (
    Schema,
    StateChange,
    SystemVariable,
    decode,
    decode_gtids,
    entries,
)
from routing.request import effects, variables
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.servers.topology import Role, Server
from routing.session.session import Session

_PRIMARY: Final = Role.PRIMARY
_VARIABLE: Final = 0
_SCHEMA: Final = 1
_STATE_CHANGE: Final = 2
_GTIDS: Final = 3

_OF_PRIMARY: Final = (_GTIDS, _SCHEMA, _STATE_CHANGE, _VARIABLE)
_OF_REPLICA: Final = (_GTIDS,)
"""The session lives on the primary; a replica's other trackers are of no interest."""


TRACKS_ALL: Final = 1
"""The connection tracks ALL_GTIDS."""
UNSURE: Final = 2
"""Which GTIDs the connection tracks is not known for now."""


class TrackerReader:
    """Learns from the trackers of servers' OK packets what became of one session's commands."""

    def __init__(self, state: Session) -> None:
        """Of a session, as routing knows it."""
        self._state = state
        self._tracked = 0  # of the packets that are being read, as in `take`
        self._unread = 0

    def take(
        self,
        blocks: Sequence[bytes],
        command: Command,
        outcome: CommandOutcome,
        server: Server,
        epoch: int,
        tracking: int,
        now: float = 0.0,
    ) -> tuple[int, int]:
        """Learn from the trackers of a server's OK packets.

        Args:
            blocks: what they hold.
            command: what was answered.
            outcome: what became of it.
            server: whose answer it was.
            epoch: the connection's.
            tracking: TRACKS_ALL, UNSURE, both or 0.
            now: monotonic, s.

        Returns:
            How many GTID trackers told of writes, and how many could not be read.

        Raises:
            MalformedPacketError: a block contradicts itself.
        """
        self._tracked = self._unread = 0
        wanted = _OF_PRIMARY if server.role is _PRIMARY else _OF_REPLICA
        for block in blocks:
            outcome.untracked_change = outcome.untracked_change or not block
            for kind, entity in entries(block):
                if kind not in wanted:
                    continue
                if kind == _GTIDS:
                    self._take_gtids(entity, command, outcome, server, epoch, tracking, now)
                else:
                    self._take_change(kind, entity, command, outcome)
        return self._tracked, self._unread

    def _take_gtids(
        self,
        entity: bytes,
        command: Command,
        outcome: CommandOutcome,
        server: Server,
        epoch: int,
        tracking: int,
        now: float,
    ) -> None:
        state = self._state
        tracks_all = tracking & TRACKS_ALL != 0
        gtids = decode_gtids(entity, server.applied if tracks_all else None)
        if isinstance(gtids, int):
            # WL#6128 F3: what it names cannot be read, so what was written is not known.
            self._unread += 1
            state.may_have_written(command.rules)
            return
        # A primary is never asked what it had.
        server.add_proof(gtids, epoch, inf if server.role is _PRIMARY else outcome.sent_at)
        if tracking & UNSURE and (tracks_all or state.trackers.gtids == "ALL_GTIDS"):
            return  # its own, or all: its writes count as unreported
        if tracks_all:
            if not outcome.may_write and not command.is_read:
                return  # what a driver sets when it connects has seen nothing
            effects.record_observed(gtids, outcome, state, server, command.rules, now)
            if not outcome.may_write:
                return
        else:
            effects.record_named_write(gtids, outcome, state, server, command.rules, now)
        self._tracked += 1

    def _take_change(
        self, kind: int, entity: bytes, command: Command, outcome: CommandOutcome
    ) -> None:
        """What else the primary tells: the session lives there."""
        change = decode(kind, entity)
        if isinstance(change, Schema):
            self._state.set_schema(change.name)
        elif isinstance(change, SystemVariable):
            variables.take_tracked_value(
                change.name.lower(), change.value, command, outcome, self._state
            )
        elif isinstance(change, StateChange):
            outcome.state_changed = outcome.state_changed or change.changed
