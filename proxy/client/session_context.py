"""What the parts of one session have in common: made once, and handed over whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import Capability
from protocol.constants import Command as Code
from proxy.client.current_command import CurrentCommand
from proxy.client.long_command import LongCommand
from proxy.client.prepared import PreparedStatements
from proxy.client.primary_settings import PrimarySettings
from proxy.client.replica_snapshots import ReplicaSnapshots
from proxy.client.session_memory import SessionMemory
from proxy.client.views import Views
from routing.request.command import Command
from routing.request.read import Read

if TYPE_CHECKING:
    from proxy.client.connection import ClientConnection
    from proxy.client.read_timers import ReadTimers
    from proxy.client.servers import Servers
    from proxy.client.session_rules import SessionRules
    from proxy.shared.shared import Shared
    from routing.session.session import Session


class SessionContext:
    """One session as its parts see it. They copy what they use for every statement.

    The attributes are always the same objects. It has none of the parts that are built on it: who
    works with another part is given that besides.

    Attributes:
        shared: what the sessions of the worker share.
        session_id: names it in logs; no other session of this worker has it.
        client: the connection to its client.
        query_attributes: its client's statements begin with attributes (CLIENT_QUERY_ATTRIBUTES).
        state: what routing knows of it.
        rules: where its rules come from.
        servers: its connections to servers.
        current: the command that it serves.
        read: the machine of its reads.
        read_timers: what a read waits for besides its answer.
        long: the command that comes in parts.
        prepared: its prepared statements.
        memory: what it makes the proxy keep.
        settings: what the primary was told for consistency's sake.
        snapshots: those of its transactions on replicas, and of the primary.
        views: how its statements are classified by the views that they name.
        account: its records go there.
    """

    def __init__(
        self,
        shared: Shared,
        session_id: int,
        client: ClientConnection,
        state: Session,
        rules: SessionRules,
        servers: Servers,
        read_timers: ReadTimers,
    ) -> None:
        """`servers` and `read_timers` call the session itself back, which therefore makes them."""
        self.shared: Final = shared
        self.session_id: Final = session_id
        self.client: Final = client
        self.query_attributes: Final = bool(
            client.capabilities & Capability.CLIENT_QUERY_ATTRIBUTES
        )
        self.state: Final = state
        self.rules: Final = rules
        self.servers: Final = servers
        self.current: Final = CurrentCommand(Command(Code.COM_SLEEP, state.rules))
        self.read: Final = Read(
            state, shared.topology, shared.waits, shared.config.on_lost_writes, self.current
        )
        self.read_timers: Final = read_timers
        self.long: Final = LongCommand(client)
        self.prepared: Final = PreparedStatements()
        self.memory: Final = SessionMemory(shared.live, state, self.prepared)
        self.settings: Final = PrimarySettings(state, servers)
        self.snapshots: Final = ReplicaSnapshots(state, servers, shared.metrics)
        self.views: Final = Views(shared.catalogues, state, shared.now)
        self.account: Final = shared.ledger.open(
            session_id, state, query_attributes=self.query_attributes
        )
