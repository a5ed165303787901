"""What is needed to interpret commands: the parts of their session that they may be about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.wall_clock import utc_us
from routing.request.command import Command

if TYPE_CHECKING:
    from protocol.constants import Command as Code
    from proxy.client.session_context import SessionContext
    from routing.consistency.rules import StatementRules
    from routing.session.prepared import PreparedStatement
    from routing.sql.statement import Statement


class CommandContext:
    """What is needed for one session's commands; never changed.

    Attributes:
        state: what routing knows of the session.
        servers: its connections.
        prepared: its prepared statements.
        memory: what it makes the proxy keep.
        views: how its statements are classified by the views that they name.
        classifier: knows statements by their text.
        live: the configuration that counts now.
        topology: the servers.
        kill_targets: the sessions that may be killed.
        query_attributes: statements begin with attributes (CLIENT_QUERY_ATTRIBUTES).
    """

    def __init__(self, session: SessionContext) -> None:
        self.state: Final = session.state
        self.servers: Final = session.servers
        self.prepared: Final = session.prepared
        self.memory: Final = session.memory
        self.views: Final = session.views
        self.classifier: Final = session.shared.classifier
        self.live: Final = session.shared.live
        self.topology: Final = session.shared.topology
        self.kill_targets: Final = session.shared.kill_targets
        self.query_attributes: Final = session.query_attributes

    def command(
        self,
        code: Code,
        packet: bytes = b"",
        statement: Statement | None = None,
        *,
        rules: StatementRules | None = None,
        may_write: bool = False,
        prepared: PreparedStatement | None = None,
    ) -> Command:
        """A command that came now (`routing.request.command`); `rules` if it has its own."""
        return Command(
            code,
            self.state.rules if rules is None else rules,
            packet,
            statement,
            may_write,
            prepared,
            utc_us(),
        )
