"""What one connection to a server was told of the session that uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from routing.session.defaults import UNKNOWN, differences
from routing.session.session import NO_ROLE

if TYPE_CHECKING:
    from routing.session.prepared import PreparedHandle
    from routing.session.session import Session
    from routing.transaction.replica_reads import ReplicaReads


class Mirror:
    """What a server was told since the login; versions say which state of the session it has.

    Attributes:
        schema: the default schema it has.
        schema_version: the version of the session's schema that it was told.
        role: the SET ROLE that it was sent; None if none.
        role_version: the version of the session's role that it has; -1 if it is to be told again.
        login_roles: those that are active from its login on. With any, a server looks up global
            rights for each statement; otherwise it keeps those of the login, or of the last SET
            ROLE.
        user_variables: those that it was given, as literals.
        variables_version: the version of the session's variables that it has; -1 if it is to be
            told what the session began with, too.
        needs_reset: the session was reset, and this connection was not yet.
        untouched: it was told nothing that a reset of the session undoes, but statements.
        defaults: what the server's session began with, whatever it was told since.
        statements: the prepared statements that the server knows, by the client's ids.
        preparing: the client's ids of those that it was asked to prepare, in order.
        transaction_reads: those of the client's transaction, if a READ ONLY one is open there for
            it.
        tracks_all: its session_track_gtids is ALL_GTIDS.
    """

    def __init__(self) -> None:
        self.schema = ""
        self.schema_version = -1
        self.role: str | None = None
        self.role_version = 0
        self.login_roles = NO_ROLE
        self.user_variables: dict[str, str] = {}
        self.variables_version = 0
        self.needs_reset = False
        self.untouched = True
        self.defaults = UNKNOWN
        self.statements: dict[int, PreparedHandle] = {}
        self.preparing: list[int] = []  # hardly ever two; an empty deque takes 600 bytes
        self.transaction_reads: ReplicaReads | None = None
        self.tracks_all = False

    def has(self, state: Session) -> bool:
        """Whether the server was told all that it must know to read for the session."""
        return (
            self.variables_version == state.variables_version
            and self.role_version == state.role_version
            and (not state.schema or self.schema_version == state.schema_version)
            and not self.needs_reset
            and self.transaction_reads is None
        )

    def session_reset(self, state: Session) -> None:
        """The session was reset; the connection is to follow before its next statement."""
        self.needs_reset = self.needs_reset or not self.untouched or bool(self.statements)
        self.begin(state)

    def begin(self, state: Session) -> None:
        """The server's session is as it began, or will be: it is to become this one."""
        if self.defaults != state.defaults and differences(state.defaults, self.defaults):
            self.variables_version = -1
        else:
            self.variables_version = 0 if state.variables else state.variables_version

    def reset(self) -> None:
        """The server forgets what COM_RESET_CONNECTION makes it forget."""
        self.needs_reset = False
        self.untouched = True
        self.statements.clear()
        self.transaction_reads = None
        self.user_variables.clear()

    def look_up_again(self, state: Session) -> None:
        """Role and schema are to be set again, so that the server looks up the session's rights."""
        self.schema_version = -1
        roles = self.login_roles
        if self.role is not None or roles == NO_ROLE or roles != state.login_roles:
            self.role_version = -1
