"""What the trackers of a server's OK packets tell of the command that they answer."""

from collections.abc import Sequence
from math import inf
from typing import Final

from protocol.gtid import EMPTY
from protocol.session_track import (
    Schema,
    StateChange,
    SystemVariable,
    decode,
    decode_gtids,
    entries,
)
from routing.request import variables
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


def take_trackers(
    blocks: Sequence[bytes],
    command: Command,
    outcome: CommandOutcome,
    state: Session,
    server: Server,
    epoch: int,
    tracks_all: bool,
    now: float = 0.0,
    unsure: bool = False,
) -> tuple[int, int]:
    """Learn from the trackers of a server's OK packets.

    Args:
        blocks: what they hold.
        command: what was answered.
        outcome: what became of it.
        state: routing's view of the session.
        server: whose answer it was.
        epoch: the connection's.
        tracks_all: the connection tracks ALL_GTIDS.
        now: monotonic, s.
        unsure: which GTIDs the connection tracks is not known for now.

    Returns:
        How many GTID trackers told of writes, and how many could not be read.

    Raises:
        MalformedPacketError: a block contradicts itself.
    """
    primary = server.role is _PRIMARY
    wanted = _OF_PRIMARY if primary else _OF_REPLICA
    asked_at = inf if primary else outcome.sent_at  # a primary is never asked what it had
    tracked = unread = 0
    for block in blocks:
        outcome.blank = outcome.blank or not block
        for kind, entity in entries(block):
            if kind not in wanted:
                continue
            if kind == _GTIDS:
                gtids = decode_gtids(entity, server.applied if tracks_all else None)
                if isinstance(gtids, int):
                    # WL#6128 F3: what it names cannot be read, so what was written is not known.
                    unread += 1
                    state.may_have_written(command.rules)
                    continue
                server.proved(gtids, epoch, asked_at)
                if unsure and (tracks_all or state.trackers.gtids == "ALL_GTIDS"):
                    continue  # its own, or all: its writes count as unreported
                if tracks_all:
                    if not outcome.may_write and not command.is_read:
                        continue  # what a driver sets when it connects has seen nothing
                    outcome.observed |= gtids
                    state.saw(gtids, server, now, command.rules)
                    if not outcome.may_write:
                        continue
                    # The server does not tell which of them are its own: none is left out.
                else:
                    outcome.own = gtids if outcome.own is EMPTY else outcome.own | gtids
                state.wrote(gtids, server, now, command.rules)
                tracked += 1
                continue
            change = decode(kind, entity)
            if isinstance(change, Schema):
                state.chose_schema(change.name)
            elif isinstance(change, SystemVariable):
                variables.told(change.name.lower(), change.value, command, outcome, state)
            elif isinstance(change, StateChange):
                outcome.state_changed = outcome.state_changed or change.changed
    return tracked, unread
