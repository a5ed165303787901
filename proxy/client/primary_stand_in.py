"""Serves commands in the primary's place while there is none, by what `primary_absence` says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.constants import Capability
from protocol.constants import Command as Code
from proxy.client.primary_absence import (
    Substitute,
    chooses_schema,
    is_utf8,
    read_only,
    schema_chosen,
    substitute,
    text_of,
)
from routing.request.variables import set_mode

if TYPE_CHECKING:
    from proxy.client.effects.command_effects import CommandEffects
    from proxy.client.replies.own_answers import OwnAnswers
    from proxy.client.session_context import SessionContext
    from proxy.client.sharing.connection_lease import ConnectionLease
    from proxy.server.connection import ServerConnection
    from routing.request.command import Command
    from routing.servers.topology import Server


class PrimaryStandIn:
    """What one session does without the primary."""

    def __init__(
        self, context: SessionContext, command_effects: CommandEffects, own_answers: OwnAnswers
    ) -> None:
        """Answer by `own_answers`; what a command changes is left to `command_effects`."""
        self._state = context.state
        self._servers = context.servers
        self._now = context.shared.now
        self._topology = context.shared.topology
        self._query_attributes = context.query_attributes
        self._command_effects = command_effects
        self._own_answers = own_answers

    def choice(self, command: Command) -> Substitute:
        """What is to be done with a command."""
        state = self._state
        if not self._replicas or not (state.without_primary or command.code is Code.COM_PING):
            return "refuse"
        return substitute(command, self._text(command), state)

    def carry_out(
        self, command: Command, choice: Substitute, lease: ConnectionLease | None
    ) -> None:
        """Carry out what needs no server, and say OK.

        Args:
            command: it.
            choice: what is to be done.
            lease: the session's, which is told of what the primary is to hear later.
        """
        state, warnings = self._state, 0
        if choice == "reset":
            self._command_effects.reset_without_primary()
            if lease is not None:
                lease.reset_without_primary()
        elif command.code is Code.COM_PING:
            state.diagnostics.affects_none()
            warnings = state.diagnostics.warning_count
        else:
            if choice == "set" and command.statement is not None:
                set_mode(command.statement.assignments[0], state)
                if lease is not None:
                    lease.changed_without_primary()
            elif choice in ("begin", "end"):
                self._end_transaction()
            if choice == "begin":
                mode = read_only(self._text(command))
                state.transaction.on_begun_unheard_of(state, read_only=mode)
            state.diagnostics.proxy_answered(0)
        self._own_answers.ok(warnings)

    def _end_transaction(self) -> None:
        """End what replicas have of a transaction, if one is open."""
        transaction = self._state.transaction
        if transaction.is_unheard_of:
            self._servers.end_transactions()
            transaction.on_ended_unheard_of()

    # A replica answers

    @property
    def _replicas(self) -> list[Server]:
        """The replicas that can be asked, the one that the session asks first in front."""
        now, state = self._now(), self._state
        return [
            server
            for server in self._topology.in_order(state.preferred)
            if not (server.is_gone(now) or state.avoids(server, now))
        ]

    @property
    def replicas(self) -> list[Server]:
        """Those of them that may answer beside the session's transaction."""
        transaction = self._state.transaction
        return [server for server in self._replicas if transaction.may_stand_in(server)]

    def fits(self, replica: ServerConnection, command: Command) -> bool:
        """Whether a connection can be used for it.

        It must be known which schema a replica chooses, if the command is about that. Other servers
        are told it in UTF-8, which they understand only of a client that uses that.
        """
        if replica.busy:
            return False
        if not chooses_schema(command):
            return True
        if schema_chosen(command, self._text(command)):
            return True
        tracks = bool(replica.capabilities & Capability.CLIENT_SESSION_TRACK)
        return tracks and is_utf8(command.packet[4:])

    def _text(self, command: Command) -> bytes:
        return text_of(command, self._query_attributes)
