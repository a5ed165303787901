"""SHOW TIDEGATE SERVERS and /v1/servers: one row for each server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from routing.servers.topology import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.shared.administration.question import Row
    from routing.servers.topology import Server, Topology

COLUMNS: Final = (
    *("server", "role", "up", "server_uuid", "version", "gtid_mode", "read_only", "commit_order"),
    *("filters", "lag_ms", "predicted_wait_ms", "errant", "applied", "lag_measured"),
    *("clock_offset_ms", "gap", "replication", "lagging"),
    # What follows is new: programs may count the columns.
    *("state", "member_state", "connections", "table_dependencies"),
)
SERVER: Final = COLUMNS.index("server")
STATE: Final = COLUMNS.index("state")
CONNECTIONS: Final = COLUMNS.index("connections")
DRAINING: Final = "draining"
DRAINED: Final = "drained"


def rows(topology: Topology, now: float, connections: Callable[[Server], int]) -> list[Row]:
    """The rows of one worker.

    Args:
        topology: its servers.
        now: monotonic, s.
        connections: how many connections its sessions have to a server.
    """
    return [_row(server, topology, now, connections(server)) for server in topology.watched]


def merged(found: list[Row], others: list[list[Row]], *, complete: bool) -> list[Row]:
    """The rows of one worker, with the connections of all.

    Args:
        found: the rows of one worker.
        others: those of the others.
        complete: all workers have answered: what is drained has no connection any more.
    """
    totals: dict[object, int] = {}
    for rows_of_one in (found, *others):
        for row in rows_of_one:
            count = row[CONNECTIONS]
            totals[row[SERVER]] = totals.get(row[SERVER], 0) + (
                count if isinstance(count, int) else 0
            )
    shown = [list(row) for row in found]
    for row in shown:
        row[CONNECTIONS] = totals[row[SERVER]]
        if row[STATE] == DRAINING and complete and not totals[row[SERVER]]:
            row[STATE] = DRAINED
    return shown


def _row(server: Server, topology: Topology, now: float, connections: int) -> Row:
    primary = topology.primary
    return [
        server.name,
        server.role.value,
        not server.is_unreachable(now) and server not in topology.standby,
        server.uuid or None,
        server.version or None,
        "ON" if server.gtids else "OFF",
        server.read_only,
        "source" if server.role is Role.PRIMARY else "kept" if server.ordered else "not kept",
        server.filters.text,
        None if server.lag is None else round(server.lag * 1000),
        round(server.predicted_wait(now, now) * 1000),
        server.errant.text,
        server.applied.text,
        "by heartbeats" if server.replication.by_heartbeats else server.replication.cause or "yes",
        None
        if server.clock is None or primary.clock is None
        else server.clock.ahead_of(primary.clock).least / 1000,
        server.gap,
        None if server.channels is None else server.channels.text,
        None if server is primary else server.lagging,
        _state(server, topology, now),
        server.member_state or None,
        connections,
        _tables(topology) if server is primary else None,
    ]


def _tables(topology: Topology) -> str:
    """Whether the log is read for which tables transactions change, or why not."""
    return "on" if topology.current_tables is not None else topology.transaction_tables.cause


def _state(server: Server, topology: Topology, now: float) -> str:
    """Whether it is used, and what keeps it from that."""
    if server.draining:
        return DRAINING
    if server in topology.standby:
        return "standby"
    if server.is_unreachable(now) or server.is_silent(now):
        return "down"
    if server is not topology.primary:
        if server.has_diverged:
            return "diverged"
        if server.lagging:
            return "lagging"
    return "up"
