"""The counts of one worker, and a cheap way to count.

The event loop counts with plain integers in plain dicts; nothing of the Prometheus client runs per
statement. A scrape takes a `snapshot` (JSON-able, so that it can come from another process), and
`proxy.observe.metrics_server` turns the snapshots of all workers into what Prometheus reads, told
apart by the label `worker`. One thread counts, the routing log's two threads count metrics
of their own, and any thread may take a snapshot at any moment.
"""

import resource
from collections.abc import Awaitable, Callable
from typing import Final

from proxy.observe import closed_labels, families
from proxy.observe.closed_labels import ERROR_CODES
from proxy.observe.families import (
    LAG_BUCKETS_US,
    LATENCY_BUCKETS_US,
    WAIT_BUCKETS_US,
    Definition,
)
from proxy.observe.histogram import Histogram
from proxy.observe.label_values import (
    Audited,
    Confirmed,
    ConnectFailure,
    Crowded,
    Dropped,
    EndCause,
    Hop,
    LagMeans,
    LogTask,
    Part,
    RefusalCause,
    Side,
    SlotWait,
    StreamEnd,
    TablesEnd,
    UnknownCause,
    WaitResult,
)
from proxy.observe.snapshot import Snapshot, merged, resident_bytes
from routing.consistency.decision import Role
from routing.sql.session_locks import PinReason

MAX_LAG_SERIES: Final = 256
"""Distinct series of transactions' lag; further sources are counted as "other"."""

MAX_FORMER_SERVERS: Final = 32
"""Servers that have gone and whose counters are still shown."""

_MADE_BY_SNAPSHOT: Final = (
    families.STATEMENTS,
    families.LATENCY,
    families.READS,
    families.WAITS,
    families.TRANSACTION_LAG,
    families.GTIDS_TRACKED,
    families.CPU,
    families.MEMORY,
)

_STATES: Final = tuple(
    definition.name
    for definition in families.DEFINITIONS
    if definition.kind == "gauge" and definition.labels[:1] == ("server",)
)
"""Gauges of a server; its name is the first label."""


_NO_LATENCY: Final = Histogram(LATENCY_BUCKETS_US)
_NO_WAIT: Final = Histogram(WAIT_BUCKETS_US)
"""Shown where nothing was counted yet."""


class Metrics:
    """The counts of one worker.

    Attributes:
        trouble: why clients' writes cannot be served now; empty if they can, as far as is known.
        draining: the process lets its sessions go, and is not to be sent new ones.
        tracked: GTIDs that servers reported for clients' own writes.
        answers: answers what operators ask of the worker, on its event loop; None before it serves.
    """

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        """`tell` is called with each new `trouble`."""
        self.trouble = ""
        self.draining = False
        self.tracked = 0
        self.answers: Callable[[bytes], Awaitable[bytes]] | None = None
        self._tell = tell
        self._statements: dict[tuple[str, str, str, str, str, str], Histogram] = {}
        self._waits: dict[tuple[str, str], Histogram] = {}
        self._transaction_lag: dict[tuple[str, str, str], Histogram] = {}
        self._former: dict[str, None] = {}  # servers that have gone, the newest last
        self._values: dict[str, dict[tuple[str, ...], float]] = {
            definition.name: {} if definition.labels else {(): 0}
            for definition in families.DEFINITIONS
            if definition not in _MADE_BY_SNAPSHOT
        }
        # Servers in each role that they have had since they are known, (name, role).
        self._known: dict[tuple[str, str], None] = {}
        for definition, keys in closed_labels.PLAIN.items():
            if definition not in _MADE_BY_SNAPSHOT:
                self._values[definition.name].update(dict.fromkeys(keys, 0))

    def course(
        self, role: str, server: str, reason: str, proof: str, outcome: str, level: str
    ) -> Histogram:
        """The histogram in which statements of one course are counted, by their duration, us.

        `role` and `server` are "" where no server answered, `level` where it is not a read.
        """
        key = (role, server, reason, proof, outcome, level)
        course = self._statements.get(key)
        if course is None:
            course = self._statements[key] = Histogram(LATENCY_BUCKETS_US)
        return course

    def wait(self, server: str, result: WaitResult, wait_us: int) -> None:
        """Count one WAIT_FOR_EXECUTED_GTID_SET and the time to its answer."""
        self.waits(server, result).add(wait_us)

    def waits(self, server: str, result: WaitResult) -> Histogram:
        """The histogram in which WAITs with this result are counted, by their duration, us."""
        key = (server, result)
        waits = self._waits.get(key)
        if waits is None:
            waits = self._waits[key] = Histogram(WAIT_BUCKETS_US)
        return waits

    def fallback(self, server: str, reason: str) -> None:
        """Count a read that moved from `server`, a replica, to another one because of `reason`."""
        self._add(families.FALLBACKS, (server, reason))

    def crowded(self, result: Crowded) -> None:
        """Count a read when replicas lag too much and primary-fallback-rate is used up."""
        self._add(families.CROWDED, (result,))

    def probed(self, reads: int) -> None:
        """Count a question to the primary that this number of reads share."""
        self._add(families.PROBES, ())
        self._add(families.PROBED_READS, (), reads)

    def confirmed(self, server: str, result: Confirmed) -> None:
        """Count a question to a replica whether it still has what it has proved."""
        self._add(families.CONFIRMATIONS, (server, result))

    def audited(self, result: Audited) -> None:
        """Count a read whose replica was itself asked whether it has what is needed."""
        self._add(families.AUDITED, (result,))

    def stale_proven(self) -> None:
        """Count a replica's answer that a read would have been stale: the proxy was wrong."""
        self._add(families.STALE_PROVEN, ())

    def lost_gtids(self, count: int) -> None:
        """Count acknowledged transactions that are gone from the primary."""
        self._add(families.LOST_GTIDS, (), count)

    def errant_gtids(self, server: str, count: int) -> None:
        """Say how many transactions a replica has that the primary does not have."""
        self._values[families.ERRANT_GTIDS.name][(server,)] = count

    def filtered(self, server: str, lacking: bool) -> None:
        """Say whether a replica lacks writes whose GTIDs it has."""
        self._values[families.FILTERED.name][(server,)] = int(lacking)

    def scopes(self, alive: int, evicted: int) -> None:
        """Say how many wider scopes are alive, and how many were dropped so far."""
        self._values[families.SCOPES.name][()] = alive
        self._values[families.SCOPES_EVICTED.name][()] = evicted

    def read_behind_another_connection(self) -> None:
        """Count a connection that may have missed what another one of its user wrote."""
        self._add(families.BEHIND_ANOTHER, ())

    def scopes_shared(self, overflowed: int, torn: int) -> None:
        """Say how often workers could not tell each other what a scope requires, so far."""
        self._values[families.SCOPE_DOUBTS.name][("room",)] = overflowed
        self._values[families.SCOPE_DOUBTS.name][("torn",)] = torn

    def scopes_kept(self, kept: int, behind: int) -> None:
        """Say how many wider scopes are kept, and how many have changes that are not written."""
        self._values[families.SCOPES_KEPT.name][()] = kept
        self._values[families.SCOPES_BEHIND.name][()] = behind

    def scopes_restored(self, known: int, unknown: int) -> None:
        """Count scopes that were restored at the start."""
        self._add(families.SCOPES_RESTORED, ("yes",), known)
        self._add(families.SCOPES_RESTORED, ("no",), unknown)

    def scopes_written(self, seconds: float, inserted: int, compressed: int) -> None:
        """Count a write of scopes: its duration, and rows inserted and compressed away."""
        self._add(families.SCOPE_WRITES, ())
        self._values[families.SCOPE_WRITE_SECONDS.name][()] += seconds
        self._add(families.SCOPE_ROWS, (), inserted)
        self._add(families.SCOPE_ROWS_COMPRESSED, (), compressed)

    def scope_file_failed(self) -> None:
        """Count an attempt to keep scopes that failed."""
        self._add(families.SCOPE_FILE_ERRORS, ())
        self._values[families.SCOPE_FILE_FAILING.name][()] = 1

    def scope_file_works(self) -> None:
        """Say that scopes are kept again."""
        self._values[families.SCOPE_FILE_FAILING.name][()] = 0

    def promoted(self) -> None:
        """Count another server becoming the primary."""
        self._add(families.PROMOTIONS, ())

    def stale_given(self) -> None:
        """Count an answer that was given although it may be stale."""
        self._add(families.STALE, ())

    def snapshot_split(self) -> None:
        """Count a statement that read from another snapshot than its transaction's reads."""
        self._add(families.SNAPSHOTS_SPLIT, ())

    def split_conflict(self, policy: str) -> None:
        """Count a read that may see another state than its transaction's reads before it."""
        self._add(families.SPLIT_CONFLICTS, (policy,))

    def wait_killed(self) -> None:
        """Count a wait that was ended since its client had left."""
        self._add(families.WAITS_KILLED, ())

    def kill_unanswered(self) -> None:
        """Count a KILL whose target another worker may have, which does not answer."""
        self._add(families.KILLS_UNANSWERED, ())

    def required_unknown(self, cause: UnknownCause) -> None:
        """Count a session whose required set became unknown."""
        self._add(families.REQUIRED_UNKNOWN, (cause,))

    def wrote_unlogged(self) -> None:
        """Count a statement that may have written something without a GTID."""
        self._add(families.UNLOGGED, ())

    def views_asked(self) -> None:
        """Count an answer about views."""
        self._add(families.VIEWS_ASKED, ())

    def unknown_gtid_encoding(self) -> None:
        """Count a GTID tracker in an unknown encoding."""
        self._add(families.UNKNOWN_ENCODINGS, ())

    def pins(self, before: frozenset[PinReason], after: frozenset[PinReason]) -> None:
        """Count the reasons why a session is kept on the primary, which were others before."""
        for reason in after - before:
            self._add(families.PINS, (reason.value,))
            self._add(families.PINNED, (reason.value,))
        for reason in before - after:
            self._add(families.PINNED, (reason.value,), -1)

    def client_connected(self) -> None:
        """Count a client that connected."""
        self._add(families.CLIENTS, ())
        self._add(families.CLIENT_CONNECTIONS, ())

    def client_disconnected(self) -> None:
        """Take back one `client_connected`."""
        self._add(families.CLIENTS, (), -1)

    def client_refused(self, cause: RefusalCause) -> None:
        """Count a client that was turned away."""
        self._add(families.CLIENTS_REFUSED, (cause,))

    def client_ended(self, cause: EndCause) -> None:
        """Count a client that met a limit behind its login."""
        self._add(families.CLIENTS_ENDED, (cause,))

    def server_opened(self, server: str) -> None:
        """Count a connection that was opened."""
        self._add(families.SERVER_CONNECTIONS, (server,))

    def server_connected(self, server: str) -> None:
        """Count a connection that a session has, new or kept."""
        self._add(families.SERVERS, (server,))

    def server_disconnected(self, server: str) -> None:
        """Take back one `server_connected`."""
        self._add(families.SERVERS, (server,), -1)

    def waits_for_connection(self, server: str, count: int) -> None:
        """Say how many sessions wait for a connection."""
        self._values[families.CONNECTIONS_AWAITED.name][(server,)] = count

    def waited_for_connection(self, server: str, result: SlotWait) -> None:
        """Count a session that waited for a connection."""
        self._add(families.CONNECTION_WAITS, (server, result))

    def kept(self, server: str, count: int) -> None:
        """Say how many connections are kept for a login."""
        self._values[families.KEPT.name][(server,)] = count

    def kept_taken(self, server: str) -> None:
        """Count a login over a connection that was kept."""
        self._add(families.KEPT_TAKEN, (server,))

    def lent(self, server: str) -> None:
        """Count a login for which the server was not asked."""
        self._add(families.LENT, (server,))

    def given_back(self, server: str) -> None:
        """Count an idle session that gave its connection to the primary back."""
        self._add(families.GIVEN_BACK, (server,))
        self._add(families.RESTING, ())

    def rests_no_more(self) -> None:
        """Take back the client of one `given_back`: its session goes on, or has ended."""
        self._add(families.RESTING, (), -1)

    def lacks_primary(self) -> None:
        """Count a client whose session has lost the primary, or began without it."""
        self._add(families.WITHOUT_PRIMARY, ())

    def has_primary(self) -> None:
        """Take back one `lacks_primary`: its session has a connection again, or has ended."""
        self._add(families.WITHOUT_PRIMARY, (), -1)

    def not_given_back(self, reason: str) -> None:
        """Count an idle session that had to keep its connection, by the reason."""
        self._add(families.NOT_GIVEN_BACK, (reason,))

    def borrowed(self, server: str) -> None:
        """Count a session that goes on, and has a connection to the primary again."""
        self._add(families.BORROWED, (server,))

    def kept_dropped(self, server: str, cause: Dropped) -> None:
        """Count a connection that was kept and served no further login."""
        self._add(families.KEPT_DROPPED, (server, cause))

    def tls_handshake(self, server: str, *, resumed: bool) -> None:
        """Count a TLS handshake with a server."""
        self._add(families.TLS_HANDSHAKES, (server, "yes" if resumed else "no"))

    def server_connect_failed(self, server: str, cause: ConnectFailure) -> None:
        """Count a connection that could not be opened."""
        self._add(families.CONNECT_FAILURES, (server, cause))

    def server_up(self, server: str, up: bool) -> None:
        """Say whether a server may be used."""
        self._values[families.SERVER_UP.name][(server,)] = 1 if up else 0

    def server_came(self, server: str) -> None:
        """Count for a server that was not there before, or had gone."""
        self._former.pop(server, None)

    def server_known(self, server: str, role: Role) -> None:
        """Show the counters of a server that has this role, with 0 until something is counted."""
        if (server, role) in self._known:
            return
        self._known[server, role] = None
        of_role = closed_labels.OF_PRIMARIES if role is Role.PRIMARY else closed_labels.OF_REPLICAS
        for definition, keys in (*closed_labels.OF_SERVERS.items(), *of_role.items()):
            if definition is families.WAITS:
                continue
            series = self._values[definition.name]
            for key in keys:
                series.setdefault((server, *key), 0)

    def server_went(self, server: str) -> None:
        """A server has gone: show its state no more, and its counters for a while."""
        self._former.pop(server, None)
        self._former[server] = None
        for name in _STATES:
            if name != families.SERVERS.name:  # sessions still leave it
                _remove(self._values[name], server)
        if len(self._former) > MAX_FORMER_SERVERS:
            self._forget(next(iter(self._former)))

    def _forget(self, server: str) -> None:
        del self._former[server]
        self._known = {key: None for key in self._known if key[0] != server}
        for definition in families.DEFINITIONS:
            series = self._values.get(definition.name)
            if series is not None and definition.labels[:1] == ("server",):
                _remove(series, server)
        self._statements = {key: kept for key, kept in self._statements.items() if key[1] != server}
        self._waits = {key: kept for key, kept in self._waits.items() if key[0] != server}
        self._transaction_lag = {
            key: kept for key, kept in self._transaction_lag.items() if key[0] != server
        }

    def server_watched(self, server: str, watched: bool) -> None:
        """Say whether the monitor can look at a server."""
        self._values[families.SERVER_WATCHED.name][(server,)] = 1 if watched else 0

    def server_writable(self, server: str, writable: bool) -> None:
        """Say whether a server takes writes."""
        self._values[families.SERVER_WRITABLE.name][(server,)] = 1 if writable else 0

    def group_without_quorum(self, without: bool) -> None:
        """Say whether the primary does not speak for a majority of its group."""
        self._values[families.GROUP_WITHOUT_QUORUM.name][()] = 1 if without else 0

    def primary_disputed(self, disputed: bool) -> None:
        """Say whether several servers could be the primary."""
        self._values[families.PRIMARY_DISPUTED.name][()] = 1 if disputed else 0

    def primary_term(self, number: int) -> None:
        """Say which term of a primary this is."""
        self._values[families.PRIMARY_TERM.name][()] = number

    def unfit(self, why: str) -> None:
        """Say why clients' writes cannot be served now; empty if they can."""
        if why != self.trouble:
            self.trouble = why
            if self._tell is not None:
                self._tell(why)

    def lag(self, server: str, seconds: float | None) -> None:
        """Say how far a replica is behind; None while that is unknown."""
        if seconds is None:
            self._values[families.LAG.name].pop((server,), None)
        else:
            self._values[families.LAG.name][(server,)] = seconds

    def lagging(self, server: str, lagging: bool | None) -> None:
        """Say whether a replica is too far behind to be read; None if it is none."""
        self._flag(families.LAGGING.name, server, lagging)

    def replicating(self, server: str, replicating: bool | None) -> None:
        """Say whether a replica replicates; None while that is unknown."""
        self._flag(families.REPLICATING.name, server, replicating)

    def _flag(self, family: str, server: str, flag: bool | None) -> None:
        if flag is None:
            self._values[family].pop((server,), None)
        else:
            self._values[family][(server,)] = int(flag)

    def differences(self, server: str, counts: tuple[int, int] | None) -> None:
        """Say in how many variables a replica differs that are not, and are, carried.

        None while that is unknown, and of the primary.
        """
        series = self._values[families.DIFFERENCES.name]
        if counts is None:
            _remove(series, server)
        else:
            series[server, "no"], series[server, "yes"] = counts

    def gap(self, server: str, transactions: int | None) -> None:
        """Say how many transactions a replica lacks although it has newer ones; None: unknown."""
        if transactions is None:
            self._values[families.GAP.name].pop((server,), None)
        else:
            self._values[families.GAP.name][(server,)] = transactions

    def source_lag(
        self,
        server: str,
        lags: dict[tuple[str, str, Hop], float] | None,
        *,
        by_timestamps: bool = True,
    ) -> None:
        """Say how far a replica is behind its sources: by channel, source and hop, s.

        None while it is not measured; `by_timestamps` says if it is by commit timestamps.
        """
        series = self._values[families.SOURCE_LAG.name]
        current: dict[tuple[str, ...], float] = {
            (server, *key): seconds for key, seconds in (lags or {}).items()
        }
        for key in [key for key in series if key[0] == server and key not in current]:
            del series[key]
        series.update(current)
        self._values[families.LAG_MEASURED.name][(server,)] = int(
            by_timestamps and lags is not None
        )

    def lag_means(self, server: str, means: LagMeans | None) -> None:
        """Say by what means a replica's lag is measured; None while it is not."""
        series = self._values[families.LAG_MEANS.name]
        for key in [key for key in series if key[0] == server and key[1] != means]:
            del series[key]
        if means is not None:
            series[server, means] = 1

    def binlog_stream_ended(self, server: str, cause: StreamEnd) -> None:
        """Count an end of reading a replica's binary log."""
        self._add(families.BINLOG_STREAM_ENDS, (server, cause))

    def tables_read(self, reads: bool, kept: int) -> None:
        """Say whether the primary's log is read for the tables, and how many transactions are kept.

        That is `table-dependencies`.
        """
        self._values[families.TABLES_READ.name][()] = int(reads)
        self._values[families.TABLES_KEPT.name][()] = kept

    def tables_received(self, count: int) -> None:
        """Count bytes of the primary's log."""
        self._add(families.TABLES_BYTES, (), count)

    def tables_ended(self, cause: TablesEnd) -> None:
        """Count an end of reading the primary's log."""
        self._add(families.TABLES_ENDS, (cause,))

    def transaction_lag(self, server: str, source: str, part: Part, lag_us: int) -> None:
        """Count the time that a transaction took."""
        key = (server, source, part)
        lags = self._transaction_lag.get(key)
        if lags is None:
            if len(self._transaction_lag) >= MAX_LAG_SERIES:
                key = (server, "other", part)
            lags = self._transaction_lag.setdefault(key, Histogram(LAG_BUCKETS_US))
        lags.add(lag_us)

    def clock_offset(self, server: str, seconds: float | None) -> None:
        """Say how far a server's clock is ahead of the primary's; None while that is unknown."""
        if seconds is None:
            self._values[families.CLOCK_OFFSET.name].pop((server,), None)
        else:
            self._values[families.CLOCK_OFFSET.name][(server,)] = seconds

    def clock_warned(self, server: str) -> None:
        """Count a warning that commit timestamps contradict each other."""
        self._add(families.CLOCK_WARNINGS, (server,))

    def error(self, side: Side, code: int) -> None:
        """Count an error packet that a client was sent."""
        self._add(families.ERRORS, (side, str(code) if code in ERROR_CODES else "other"))

    def protocol_error(self, side: Side) -> None:
        """Count a connection that was closed because `side` violated the protocol."""
        self._add(families.PROTOCOL_ERRORS, (side,))

    def routing_log_written(self, count: int) -> None:
        """Count records that are in the file."""
        self._add(families.LOG_WRITTEN, (), count)

    def routing_log_grown(self, size: int) -> None:
        """Count bytes that are in the file."""
        self._add(families.LOG_BYTES, (), size)

    def routing_log_dropped(self, count: int) -> None:
        """Count records that were not kept."""
        self._add(families.LOG_DROPPED, (), count)

    def routing_log_failed(self) -> None:
        """Count an attempt to write that failed."""
        self._add(families.LOG_ERRORS, ())

    def routing_log_stored(self, size: int) -> None:
        """Say how many bytes the closed segments have together."""
        self._values[families.LOG_STORED.name][()] = size

    def routing_log_compressed(self, size: int) -> None:
        """Count a segment that was compressed to so many bytes."""
        self._add(families.LOG_COMPRESSED, ())
        self._add(families.LOG_COMPRESSED_BYTES, (), size)

    def routing_log_deleted(self) -> None:
        """Count a segment that was deleted."""
        self._add(families.LOG_DELETED, ())

    def routing_log_upkeep_failed(self, task: LogTask) -> None:
        """Count a task with closed segments that failed."""
        self._add(families.LOG_UPKEEP_ERRORS, (task,))

    def snapshot(self) -> Snapshot:
        """Return all counts; may be called from any thread.

        The copy of a dict is made at once. A list of its items is not: before Python 3.12 its
        tuples let the collector run, which may call functions, and another thread adds a series.
        """
        values = {
            name: [(list(labels), value) for labels, value in series.copy().items()]
            for name, series in self._values.items()
        }
        if self._former:
            for name in _STATES:
                values[name] = [
                    (labels, value)
                    for labels, value in values[name]
                    if labels[0] not in self._former or (name == families.SERVERS.name and value)
                ]
        known = list(self._known.copy())
        statements = list(self._statements.copy().items())
        counts: dict[tuple[str, ...], float] = dict.fromkeys(closed_labels.statements(known), 0)
        for key, course in statements:
            counts[key[:-1]] = counts.get(key[:-1], 0) + sum(course.counts)
        values[families.STATEMENTS.name] = [(list(key), count) for key, count in counts.items()]
        usage = resource.getrusage(resource.RUSAGE_SELF)
        values[families.GTIDS_TRACKED.name] = [([], self.tracked)]
        values[families.CPU.name] = [([], usage.ru_utime + usage.ru_stime)]
        memory = resident_bytes(usage.ru_maxrss)
        values[families.MEMORY.name] = [] if memory is None else [([], memory)]

        latency: list[tuple[tuple[str, ...], Histogram]] = [
            ((role, server), _NO_LATENCY) for server, role in known
        ]
        reads: list[tuple[tuple[str, ...], Histogram]] = [
            (key, _NO_LATENCY) for key in closed_labels.PLAIN[families.READS]
        ]
        waits: list[tuple[tuple[str, ...], Histogram]] = [
            ((server, *key), _NO_WAIT)
            for server, role in known
            if role == Role.REPLICA
            for key in closed_labels.OF_REPLICAS[families.WAITS]
        ]
        for (role, server, _, proof, _, level), course in statements:
            latency.append(((role, server), course))
            if level:
                reads.append(((level, proof), course))
        return {
            "values": values,
            "histograms": {
                families.LATENCY.name: merged(latency),
                families.READS.name: merged(reads),
                families.WAITS.name: merged([*waits, *self._waits.copy().items()]),
                families.TRANSACTION_LAG.name: merged(list(self._transaction_lag.copy().items())),
            },
        }

    def _add(self, definition: Definition, labels: tuple[str, ...], amount: int = 1) -> None:
        series = self._values[definition.name]
        series[labels] = series.get(labels, 0) + amount


def _remove(series: dict[tuple[str, ...], float], server: str) -> None:
    """Remove the series of a server, whose name is the first label."""
    for key in [key for key in series if key[0] == server]:
        del series[key]
