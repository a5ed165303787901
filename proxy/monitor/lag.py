"""Asks a server about its clock and its replication, and takes what that tells of its lag."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.errors import MalformedGtidSetError, MalformedPacketError, ServerErrorCode
from protocol.gtid import GtidSet
from proxy.monitor import heartbeat
from proxy.monitor.heartbeat import IN_UTC
from proxy.server.errors import ServerRefusedError
from proxy.server.query import answer, ask, rows
from proxy.wall_clock import utc_us
from routing.servers.channels import channels
from routing.servers.clock import Clock
from routing.servers.heartbeat import Heartbeats
from routing.servers.lag import Behind, Look
from routing.servers.replication_status import (
    MalformedStatusError,
    coordinator,
    delay,
    microseconds,
    receiver,
    worker,
)
from routing.servers.topology import Role

if TYPE_CHECKING:
    from proxy.monitor.binlog_lag import BinlogLag
    from proxy.observe.label_values import Hop, LagMeans
    from proxy.server.connection import ServerConnection
    from proxy.shared.shared import Shared
    from routing.servers.lag import Lag, Span, Transaction
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

TABLES: Final = (
    "performance_schema.replication_connection_status",
    "performance_schema.replication_applier_status_by_worker",
)
"""What an account must be allowed to SELECT from."""
FURTHER_TABLES: Final = (
    "performance_schema.replication_applier_status_by_coordinator",
    "performance_schema.replication_applier_configuration",
)
"""What else it may see: some errors of the applier, and SOURCE_DELAY."""

_DENIED: Final = frozenset(
    error.code
    for error in (
        ServerErrorCode.ER_DBACCESS_DENIED_ERROR,
        ServerErrorCode.ER_TABLEACCESS_DENIED_ERROR,
        ServerErrorCode.ER_SPECIFIC_ACCESS_DENIED_ERROR,
    )
)
_CLOCK: Final = b"SELECT UTC_TIMESTAMP(6)"
_RECEIVERS: Final = (
    b"SELECT CHANNEL_NAME,SOURCE_UUID,SERVICE_STATE,LAST_ERROR_NUMBER,LAST_ERROR_MESSAGE,"
    b"RECEIVED_TRANSACTION_SET,"
    b"LAST_QUEUED_TRANSACTION,LAST_QUEUED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP,"
    b"LAST_QUEUED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP,"
    b"LAST_QUEUED_TRANSACTION_START_QUEUE_TIMESTAMP,LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP"
    b" FROM performance_schema.replication_connection_status"
)
_WORKERS: Final = (
    b"SELECT CHANNEL_NAME,SERVICE_STATE,LAST_ERROR_NUMBER,LAST_ERROR_MESSAGE,"
    b"LAST_APPLIED_TRANSACTION,"
    b"LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP,"
    b"LAST_APPLIED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP,"
    b"LAST_APPLIED_TRANSACTION_START_APPLY_TIMESTAMP,LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP,"
    b"APPLYING_TRANSACTION,APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP,"
    b"APPLYING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP,APPLYING_TRANSACTION_START_APPLY_TIMESTAMP"
    b" FROM performance_schema.replication_applier_status_by_worker"
)
_COORDINATORS: Final = (
    b"SELECT CHANNEL_NAME,LAST_ERROR_NUMBER,LAST_ERROR_MESSAGE"
    b" FROM performance_schema.replication_applier_status_by_coordinator"
)
_DELAYS: Final = (
    b"SELECT CHANNEL_NAME,DESIRED_DELAY FROM performance_schema.replication_applier_configuration"
)
_STATE: Final = b"SELECT UTC_TIMESTAMP(6),@@GLOBAL.gtid_executed,@@GLOBAL.performance_schema"
"""Asked after the others: what was received before and is not in the set is not applied."""


async def clock(connection: ServerConnection) -> Clock:
    """How far a server's clock is ahead of the proxy's.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
        MalformedStatusError: the answer is no time.
    """
    asked_us = _now_us()
    ask(connection, _CLOCK)
    return await _clock(connection, asked_us)


class Refused(NamedTuple):
    """Why a server does not say what its replication does: its error code and message."""

    code: int
    message: str


async def look(connection: ServerConnection) -> tuple[Clock, Look | Refused]:
    """The same, and what the server says about its replication, or why it does not.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError, MalformedStatusError: as `clock`.
    """
    asked_us = _now_us()
    ask(connection, _CLOCK, IN_UTC, _RECEIVERS, _WORKERS, _COORDINATORS, _DELAYS, _STATE)
    refused: Refused | None = None
    tables: list[list[dict[str, bytes | None]]] = []
    own = await _clock(connection, asked_us)
    await answer(connection)
    for _ in (_RECEIVERS, _WORKERS):
        try:
            tables.append(await rows(connection))
        except ServerRefusedError as error:
            refused = refused or Refused(error.error.code, str(error))
    further = [await _rows_if_allowed(connection) for _ in FURTHER_TABLES]
    row = await answer(connection)
    if refused is not None:
        return own, refused
    if len(row) != 3 or row[1] is None:
        raise MalformedPacketError("the server did not say what it has")
    try:
        executed = GtidSet.parse(row[1], connection.server.applied)
    except MalformedGtidSetError as error:
        raise MalformedStatusError(f"gtid_executed: {error}") from None
    receivers, workers = tables
    return own, Look(
        [receiver(status) for status in receivers],
        [worker(status) for status in workers],
        _time(row[0]),
        executed,
        [coordinator(status) for status in further[0]],
        dict(delay(configuration) for configuration in further[1]),
        has_tables=row[2] == b"1",
    )


async def _rows_if_allowed(connection: ServerConnection) -> list[dict[str, bytes | None]]:
    try:
        return await rows(connection)
    except ServerRefusedError:
        return []


async def _clock(connection: ServerConnection, asked_us: int) -> Clock:
    row = await answer(connection)
    return Clock.from_answer(_time(row[0] if row else None), asked_us, _now_us())


def _time(text: bytes | None) -> int:
    time_us = microseconds(text, "UTC_TIMESTAMP(6)")
    if time_us is None:
        raise MalformedStatusError("the server did not say what time it is")
    return time_us


def _now_us() -> int:
    return time.monotonic_ns() // 1000  # the loop's time is that of its last turn


class LagWatch:
    """Asks on the monitor's connections; records lag in topology, metrics and log."""

    def __init__(self, shared: Shared, binlog: BinlogLag) -> None:
        self._shared = shared
        self._binlog = binlog
        self._unmeasured: set[Server] = set()  # cannot be asked, which was logged
        self._without_heartbeat: set[Server] = set()  # likewise for heartbeats
        self._beats = Heartbeats()

    async def ask(self, server: Server, connection: ServerConnection) -> None:
        """Ask a server that has said who it is.

        Raises:
            ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
        """
        try:
            if server.role is Role.PRIMARY:
                server.clock = await clock(connection)
                self.unmeasured(server, "it is the primary")
                await self._beat(server, connection)
            else:
                asked_us = utc_us()
                server.clock, found = await look(connection)
                missing_trackers = isinstance(found, Refused) or not found.receivers
                waits = await self._beat(server, connection) if missing_trackers else None
                applied = self._replica(server, server.clock, found)
                if waits is not None:
                    self._beats_tell(server, waits)
                if isinstance(found, Look) and connection.epoch == server.epoch:
                    answered_us = utc_us()
                    self._shared.ledger.record_lag(server, found, applied, asked_us, answered_us)
        except MalformedStatusError as error:
            server.clock = None
            self.missing_trackers(server, str(error))
        self._compare_clocks(server)
        self._binlog.follow(server)
        self._tell_means(server)

    async def _beat(self, server: Server, connection: ServerConnection) -> Span | None:
        """Ask for the heartbeat; return how long a replica waits for the next, as far as known."""
        table = self._shared.config.heartbeat_table
        if table is None:
            return None
        beats = self._beats
        waits: Span | None = None
        try:
            if server.role is Role.PRIMARY:
                beats.on_beat(*await heartbeat.of_primary(connection, table))
            else:
                beat = await heartbeat.of_replica(connection, table, beats.server_id)
                waits = beats.waits(*beat)
        except (ServerRefusedError, MalformedStatusError) as error:
            if server not in self._without_heartbeat:
                self._without_heartbeat.add(server)
                _log.warning("server %s tells no heartbeat: %s", server.name, error)
        else:
            self._without_heartbeat.discard(server)
        return waits

    def _beats_tell(self, server: Server, waits: Span) -> None:
        lag = server.replication
        lag.beats(self._shared.topology.source_uuid, waits)
        self._shared.metrics.source_lag(server.name, _current(lag), by_timestamps=False)

    def unmeasured(self, server: Server, cause: str) -> None:
        """Nothing is known of a server's replication now."""
        server.channels = None
        server.replication.set_unmeasured(cause)
        server.apply_delay.unmeasured()
        self._shared.metrics.source_lag(server.name, None)
        self._tell_means(server)

    def missing_trackers(self, server: Server, cause: str) -> None:
        """Nothing is known of a server's lag, which is logged once."""
        self.unmeasured(server, cause)
        if server not in self._unmeasured:
            self._unmeasured.add(server)
            _log.warning("the lag of server %s is not measured: %s", server.name, cause)

    def gone(self, server: Server) -> None:
        """A server does not answer, and its clock does not either."""
        server.clock = None
        self._shared.metrics.clock_offset(server.name, None)
        self._binlog.leave(server)
        self.unmeasured(server, "it does not answer")

    def forget(self, server: Server) -> None:
        """A server has gone for good."""
        self._binlog.forget(server)
        self._unmeasured.discard(server)
        self._without_heartbeat.discard(server)

    def _replica(self, server: Server, own: Clock, found: Look | Refused) -> list[Transaction]:
        """Take a look at a replica; return what it has applied since the last one."""
        if isinstance(found, Refused):
            cause = found.message
            if found.code in _DENIED:
                user = self._shared.config.monitor_user
                grants = [f"GRANT SELECT ON {name} TO {user}" for name in TABLES]
                cause = "; ".join((cause, *grants))
            self.missing_trackers(server, cause)
            return []
        shared = self._shared
        topology = shared.topology
        lag = server.replication
        observations = topology.observations
        staleness = observations.staleness(found.executed)
        behind = None
        if staleness is not None:
            age = observations.age_now(staleness, shared.now())
            behind = Behind(topology.source_uuid, staleness.missing, round(age * 1e6))
        clocks = {other.uuid: other.clock for other in topology.watched if other.clock is not None}
        if topology.group and topology.primary.clock is not None:
            clocks[topology.group] = topology.primary.clock  # whose commits carry its name
        disordered = lag.disordered
        applied = lag.take(found, server.epoch, own, clocks, behind)
        if lag.cause:
            self.missing_trackers(server, lag.cause)
        if found.receivers or found.has_tables:
            known = {topology.source_uuid, *(other.uuid for other in topology.watched)}
            server.channels = channels(found, known)
        if lag.cause:
            return []
        if server in self._unmeasured:
            self._unmeasured.discard(server)
            _log.info("the lag of server %s is measured", server.name)
        self._warn(server, disordered)
        metrics = shared.metrics
        metrics.source_lag(server.name, _current(lag))
        for source, span in lag.transported:
            metrics.transaction_lag(server.name, source, "transport", max(0, span.us))
        self._count_applied(server, applied)
        self._take_delays(server, applied)
        return applied

    def _take_delays(self, server: Server, applied: list[Transaction]) -> None:
        """Let reads know how soon writes have been there, which proves nothing."""
        primary, now = self._shared.topology.source_uuid, self._shared.now()
        lacks = server.replication.lacks_for(primary)
        if lacks:
            server.apply_delay.missing(lacks, now)
        server.apply_delay.measured(server.replication.applied_after(applied, primary), now)

    def _count_applied(self, server: Server, applied: list[Transaction]) -> None:
        metrics = self._shared.metrics
        counts = self._binlog.leaves_to_looks(server)
        for transaction in applied:
            source = transaction.stamped.source
            if transaction.end_to_end is not None and counts:
                lag_us = max(0, transaction.end_to_end.us)
                metrics.transaction_lag(server.name, source, "end_to_end", lag_us)
            if transaction.last_hop is not None:
                metrics.transaction_lag(
                    server.name, source, "last_hop", max(0, transaction.last_hop.us)
                )
            if transaction.apply_us is not None:
                metrics.transaction_lag(server.name, source, "apply", max(0, transaction.apply_us))

    def _warn(self, server: Server, before: bool) -> None:
        """F6 of WL#7319: once when it begins, once when it is over."""
        if server.replication.disordered == before:
            return
        if before:
            _log.warning(
                "commit timestamps of what comes to server %s are in order again", server.name
            )
            return
        self._shared.metrics.clock_warned(server.name)
        _log.warning(
            "transactions come to server %s whose original commit is newer than their immediate"
            " one: the clock of a server that they came by is wrong, or somebody has set"
            " original_commit_timestamp; their lag cannot be told",
            server.name,
        )

    def _tell_means(self, server: Server) -> None:
        means: LagMeans | None = None
        if self._binlog.reads(server):
            means = "binlog"
        elif not server.replication.cause:
            means = "performance_schema"
        elif server.replication.by_heartbeats:
            means = "heartbeat"
        self._shared.metrics.lag_means(server.name, means)

    def _compare_clocks(self, server: Server) -> None:
        primary = self._shared.topology.primary
        offset = None
        if server.clock is not None and primary.clock is not None:
            offset = server.clock.ahead_of(primary.clock).least / 1e6
        self._shared.metrics.clock_offset(server.name, offset)


def _current(lag: Lag) -> dict[tuple[str, str, Hop], float]:
    found: dict[tuple[str, str, Hop], float] = {}
    for source in lag.sources:
        if source.waits is not None:
            found[source.channel, source.source, "end_to_end"] = max(0, source.waits.us) / 1e6
        if source.hop_waits is not None:
            found[source.channel, source.source, "last_hop"] = max(0, source.hop_waits.us) / 1e6
    return found
