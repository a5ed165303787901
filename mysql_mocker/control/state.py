"""The state of a server, as it is shown to users."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from mysql_mocker.control.faults import Armed
from mysql_mocker.control.settings import SETTINGS, Shown
from mysql_mocker.server.cluster import Cluster
from mysql_mocker.server.server import Server

Json = str | int | float | bool | None | Sequence["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server as it is now.

    Attributes:
        name: ``primary``, ``replica1`` and so on; it never changes.
        role: ``primary`` or ``replica``; ``detached`` for one that a promotion has left behind,
            since it has transactions that the primary lacks.
        gtid_executed: as @@gtid_executed.
        pending: transactions of the primary that it has not executed.
        connections: clients that are connected.
        apply_error: why its applier stopped by itself.
        settings: their values, by name; None if the server has no such setting.
        faults: those that can still happen, the oldest first.
    """

    name: str
    role: str
    host: str
    port: int
    server_uuid: str
    gtid_executed: str
    pending: int
    connections: int
    apply_error: str | None
    settings: dict[str, Shown]
    faults: list[dict[str, str | int]]

    def as_json(self) -> dict[str, Json]:
        """All fields, with each setting as a field of its own."""
        found: dict[str, Json] = asdict(self)
        settings = found.pop("settings")
        return {**found, **settings} if isinstance(settings, dict) else found


def role(cluster: Cluster, server: Server) -> str:
    """``primary``, ``replica`` or ``detached``."""
    if server is cluster.primary:
        return "primary"
    return "detached" if server.applier is None else "replica"


def state_of(cluster: Cluster, server: Server, armed: Sequence[Armed]) -> ServerState:
    """The state of a server; `armed` are its faults."""
    error = None if server.applier is None else server.apply_error
    return ServerState(
        name=server.name,
        role=role(cluster, server),
        host=server.host,
        port=server.port,
        server_uuid=server.gtids.server_uuid,
        gtid_executed=str(server.gtids.executed),
        pending=len(cluster.primary.gtids.executed - server.gtids.executed),
        connections=server.connections,
        apply_error=None if error is None else error.message,
        settings={name: setting.get(server) for name, setting in SETTINGS.items()},
        faults=[fault.shown() for fault in armed],
    )
