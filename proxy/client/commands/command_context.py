"""What is needed to interpret commands: the parts of their session that they may be about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.wall_clock import utc_us
from routing.request.command import Command

if TYPE_CHECKING:
    from protocol.constants import Command as Code
    from proxy.client.prepared import PreparedStatements
    from proxy.client.servers import Servers
    from proxy.client.session_rules import SessionRules
    from proxy.client.views import Views
    from proxy.config import Config
    from proxy.killing.targets import KillTargets
    from routing.consistency.rules import StatementRules
    from routing.session.prepared import PreparedStatement
    from routing.session.session import Session
    from routing.sql.classifier import Classifier
    from routing.sql.statement import Statement


class CommandContext:
    """What is needed for one session's commands; never changed.

    Attributes:
        state: what routing knows of the session.
        rules: where its rules come from.
        servers: its connections.
        prepared: its prepared statements.
        views: how its statements are classified by the views that they name.
        classifier: knows statements by their text.
        config: the configuration.
        kill_targets: the sessions that may be killed.
        query_attributes: statements begin with attributes (CLIENT_QUERY_ATTRIBUTES).
    """

    def __init__(
        self,
        state: Session,
        rules: SessionRules,
        servers: Servers,
        prepared: PreparedStatements,
        views: Views,
        classifier: Classifier,
        config: Config,
        kill_targets: KillTargets,
        query_attributes: bool,
    ) -> None:
        self.state: Final = state
        self.rules: Final = rules
        self.servers: Final = servers
        self.prepared: Final = prepared
        self.views: Final = views
        self.classifier: Final = classifier
        self.config: Final = config
        self.kill_targets: Final = kill_targets
        self.query_attributes: Final = query_attributes

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
