"""Classifies a session's statements by the views that they name, as far as its account sees them.

What is known of them is the worker's (`proxy.shared.catalogues`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.response_stream import RESULTS
from proxy.client.statements.views import ask_views
from routing.request import command_properties, diagnostics
from routing.sql.catalogue import BOUND, CALLS, through

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.response_stream import ResponseStream
    from proxy.server.connection import ServerConnection
    from proxy.server.exchange import Batch
    from proxy.shared.catalogues import Account, Catalogues
    from routing.request.command import Command
    from routing.session.session import Session
    from routing.sql.statement import Statement


class Views:
    """The views that one session sees."""

    def __init__(self, catalogues: Catalogues, state: Session, now: Callable[[], float]) -> None:
        """As the account of a session, of which routing knows `state`, can see them."""
        self._catalogues = catalogues
        self._state = state
        self._now = now
        self._user = state.user
        self._roles = state.seeing_roles
        self._account = self._catalogues.of(self._user, self._roles)
        state.known_tables = self._account.tables

    def classify(self, statement: Statement) -> Statement:
        """The statement, classified with the views that it names."""
        state = self._state
        same = state.seeing_roles == self._roles and state.user == self._user
        account = self._account if same else self.present()
        if account.tables.outdated:
            self._catalogues.renew(account)
        if account.era is self._catalogues.era and not account.aged:
            catalogue = account.catalogue
            names = catalogue.names
            if not names or names.isdisjoint(statement.identifiers):
                return statement
            return through(statement, catalogue.touched(statement))
        return self._unsettled(account, statement)

    def present(self) -> Account:
        """The account of the present user and roles."""
        state = self._state
        roles = state.seeing_roles
        if roles != self._roles or state.user != self._user:
            self._user, self._roles = state.user, roles
            self._account = self._catalogues.of(self._user, roles)
            state.known_tables = self._account.tables
        return self._account

    def _unsettled(self, account: Account, statement: Statement) -> Statement:
        if self._catalogues.off:
            return statement
        known = account.era is self._catalogues.era
        if self._state.without_primary and account.era is None and account.digest:
            known = True  # it only grew old, and nobody can be asked
        touched = account.catalogue.touched(statement)
        # Reads from a replica's snapshot go on there: its views have not changed.
        if not known and not self._state.transaction.reads_on_replica:
            # No question of ours may come between what a view asks about and the view.
            return through(statement, CALLS | touched)
        if not account.asking and self._can_ask(account):
            touched |= BOUND  # so that the question goes along
        return through(statement, touched)

    def in_front(self, primary: ServerConnection, command: Command) -> Batch:
        """The question, in front of a command, if there is one."""
        statement = command.statement
        if statement is None or not statement.identifiers:
            return ()  # some of these keep FOUND_ROWS() as it was
        account = self.present()
        if self._catalogues.off or (account.era is self._catalogues.era and not account.aged):
            return ()
        if command.shape != RESULTS or command_properties.may_ask_previous(command):
            return ()
        if account.asking or not self._can_ask(account):
            return ()
        if diagnostics.needs_count(self._state.diagnostics, primary.area, command):
            return ()
        transaction = self._state.transaction
        question = self._catalogues.ask(account, primary, anew=transaction.is_idle)
        opens = not (transaction.autocommit or transaction.is_open)
        return ask_views(question, primary.query_attributes, opens=opens)

    def on_answer(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """The question in front of a command was answered."""
        if self._account.asker is connection:
            self._catalogues.on_answer(self._account, stream)

    def _can_ask(self, account: Account) -> bool:
        """Whether a question leaves the session as it is, and its answer can be relied on."""
        state = self._state
        transaction = state.transaction
        return not state.without_primary and (
            transaction.allows_question(state)
            and not (transaction.modes.waiting or state.trackers_pending)
            and not (state.pins.reasons or state.result_trackers_pending)
            and self._now() >= account.retry_at
        )

    @property
    def text(self) -> str:
        """What is known, for people."""
        account = self.present()
        if self._catalogues.off:
            return "not looked at"
        if account.era is self._catalogues.era:
            return f"known, {len(account.catalogue.names)} not plain"
        return "not known"
