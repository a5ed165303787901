"""Every metric family of Tidegate: its name, its labels, its buckets, and what it means.

Every label is bounded: servers are those of the topology and the last that have gone, roles,
reasons, proofs and outcomes come from closed enums, error codes from a closed list, and the number
of causes has an upper bound.
"""

from dataclasses import dataclass
from typing import Final, Literal

LATENCY_BUCKETS_US: Final[tuple[int, ...]] = (
    *(50, 100, 200, 300, 500, 750, 1_000, 1_500, 2_500, 5_000, 10_000, 25_000, 50_000),
    *(100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000),
)
LAG_BUCKETS_US: Final[tuple[int, ...]] = (
    *(100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000, 300_000_000),
    *(900_000_000, 3_600_000_000),
)
WAIT_BUCKETS_US: Final[tuple[int, ...]] = (
    *(100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000),
)


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric family, as its documentation lists it.

    Attributes:
        name: with its unit, and ``_total`` for a counter.
        help: one sentence.
        labels: its labels besides `worker`.
        buckets_us: upper bounds of a histogram's buckets, in microseconds.

    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets_us: tuple[int, ...] = ()

    @property
    def kind(self) -> Literal["counter", "gauge", "histogram"]:
        """Its Prometheus type."""
        if self.buckets_us:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"


STATEMENTS: Final = Definition(
    "tidegate_statements_total",
    "Statements and commands that clients sent, by where they went and why.",
    ("role", "server", "reason", "proof", "outcome"),
)
LATENCY: Final = Definition(
    "tidegate_statement_duration_seconds",
    "Time from a client's packet to the end of its answer.",
    ("role", "server"),
    LATENCY_BUCKETS_US,
)
READS: Final = Definition(
    "tidegate_read_duration_seconds",
    "Time from the packet of a read to the end of its answer, by the read's level and by what"
    " allowed the answer.",
    ("level", "proof"),
    LATENCY_BUCKETS_US,
)
WAITS: Final = Definition(
    "tidegate_wait_duration_seconds",
    "Time that reads waited for a replica to apply what they must see.",
    ("server", "result"),
    WAIT_BUCKETS_US,
)
FALLBACKS: Final = Definition(
    "tidegate_fallbacks_total",
    "Reads that moved from a replica to another server, by reason.",
    ("server", "reason"),
)
CROWDED: Final = Definition(
    "tidegate_fallbacks_crowded_total",
    "Reads for which all replicas were too late and primary-fallback-rate was used up, by what"
    " became of them.",
    ("result",),
)
PROBES: Final = Definition(
    "tidegate_probes_total",
    "Questions to the primary for its gtid_executed, each shared by all reads that waited for it.",
)
PROBED_READS: Final = Definition(
    "tidegate_probed_reads_total",
    "Reads that waited for the primary's answer to a question about its gtid_executed.",
)
CONFIRMATIONS: Final = Definition(
    "tidegate_confirmations_total",
    "Questions to a replica, sent in front of a read, whether it still has what it has proved to"
    " have.",
    ("server", "result"),
)
AUDITED: Final = Definition(
    "tidegate_audited_reads_total",
    "Reads before which the replica itself was asked whether it has what they must see"
    " (self-audit), by its answer.",
    ("result",),
)
STALE_PROVEN: Final = Definition(
    "tidegate_stale_reads_proven_total",
    "Audited reads whose replica lacked something that it was believed to have. Must be 0.",
)
LOST_GTIDS: Final = Definition(
    "tidegate_lost_transactions_total",
    "Acknowledged transactions that a later primary does not have.",
)
ERRANT_GTIDS: Final = Definition(
    "tidegate_errant_transactions",
    "Transactions that a replica has and the primary does not have.",
    ("server",),
)
FILTERED: Final = Definition(
    "tidegate_filtered_replica",
    "1 while a replica lacks writes whose GTIDs it has, because replication filters left them"
    " out, else 0.",
    ("server",),
)
SCOPES: Final = Definition(
    "tidegate_scopes",
    "Scopes wider than a connection that are alive.",
)
SCOPES_EVICTED: Final = Definition(
    "tidegate_scopes_evicted_total",
    "Scopes that were dropped because of scope-age or scope-limit; if they are used again, they"
    " begin as unknown.",
)
SCOPES_KEPT: Final = Definition(
    "tidegate_scopes_kept",
    "Scopes wider than a connection that are kept for the next start.",
)
SCOPES_BEHIND: Final = Definition(
    "tidegate_scopes_behind",
    "Scopes with changes that are not written yet; after a crash they would be restored as"
    " unknown.",
)
SCOPES_RESTORED: Final = Definition(
    "tidegate_scopes_restored_total",
    "Scopes that were restored at the start, by whether it is known what they require.",
    ("known",),
)
BEHIND_ANOTHER: Final = Definition(
    "tidegate_reads_behind_another_connection_total",
    "Connections with scope connection that read from a replica and began within 10 s after"
    " another connection of their user, which had written, ended: nothing promises that they see"
    " those writes.",
)
SCOPE_DOUBTS: Final = Definition(
    "tidegate_shared_scope_doubts_total",
    "Times that workers could not tell each other what a scope requires, so that the primary is"
    " asked, by cause: no room for its GTIDs, or an entry that is not completely written.",
    ("cause",),
)
SCOPE_WRITES: Final = Definition(
    "tidegate_scope_writes_total",
    "Writes to the scope file; each may contain several scopes.",
)
SCOPE_WRITE_SECONDS: Final = Definition(
    "tidegate_scope_write_seconds_total",
    "Time that writes to the scope file took.",
)
SCOPE_ROWS: Final = Definition(
    "tidegate_scope_rows_inserted_total",
    "Intervals of GTIDs that were inserted into the scope file.",
)
SCOPE_ROWS_COMPRESSED: Final = Definition(
    "tidegate_scope_rows_compressed_total",
    "Intervals of GTIDs by which the scope file became smaller when they were merged with others.",
)
SCOPE_FILE_ERRORS: Final = Definition(
    "tidegate_scope_file_errors_total",
    "Failed attempts to keep scopes for the next start.",
)
SCOPE_FILE_FAILING: Final = Definition(
    "tidegate_scope_file_failing",
    "1 while scopes cannot be kept for the next start, else 0.",
)
PROMOTIONS: Final = Definition(
    "tidegate_promotions_total",
    "Times that another server was found to have become the primary.",
)
STALE: Final = Definition(
    "tidegate_stale_reads_total",
    "Answers that were given although they may be stale: to reads if on-timeout is stale; to"
    " statements that may write, whatever on-timeout is.",
)
SNAPSHOTS_SPLIT: Final = Definition(
    "tidegate_snapshots_split_total",
    "Statements that read data on the primary in a READ ONLY transaction whose other reads use a"
    " replica's snapshot.",
)
SPLIT_CONFLICTS: Final = Definition(
    "tidegate_split_conflicts_total",
    "Reads on the primary that may show another state than the replica's snapshot from which"
    " their transaction has read before: refused or allowed, as on-split-conflict says.",
    ("policy",),
)
WAITS_KILLED: Final = Definition(
    "tidegate_waits_killed_total",
    "Waits on a replica that were ended by KILL because their client had left.",
)
KILLS_UNANSWERED: Final = Definition(
    "tidegate_kills_unanswered_total",
    "KILLs that went to the primary unchanged because another worker did not say in time whether"
    " their id is that of one of its clients.",
)
GTIDS_TRACKED: Final = Definition(
    "tidegate_gtids_tracked_total",
    "GTIDs that servers reported for clients' own writes.",
)
REQUIRED_UNKNOWN: Final = Definition(
    "tidegate_required_unknown_total",
    "Times that a session may have committed something without a reported GTID, so that its reads"
    " go to the primary until that is known.",
    ("cause",),
)
UNLOGGED: Final = Definition(
    "tidegate_unlogged_writes_total",
    "Statements that may have written something without a GTID, so that reads in their scopes go"
    " to the primary.",
)
VIEWS_ASKED: Final = Definition(
    "tidegate_view_questions_total",
    "Times that the primary was asked which views there are.",
)
UNKNOWN_ENCODINGS: Final = Definition(
    "tidegate_unknown_gtid_encodings_total",
    "GTID trackers in an encoding that this version cannot read.",
)
PINS: Final = Definition(
    "tidegate_pins_total",
    "Times that a session began to be kept on the primary, by what it holds there.",
    ("reason",),
)
PINNED: Final = Definition(
    "tidegate_pinned_sessions",
    "Sessions that are kept on the primary now, by what they hold there; one session may count"
    " several times.",
    ("reason",),
)
CLIENTS: Final = Definition(
    "tidegate_clients_connected",
    "Clients that are connected now.",
)
CLIENT_CONNECTIONS: Final = Definition(
    "tidegate_client_connections_total",
    "Clients that connected.",
)
CLIENTS_REFUSED: Final = Definition(
    "tidegate_clients_refused_total",
    "Clients that were turned away before their first command.",
    ("cause",),
)
CLIENTS_ENDED: Final = Definition(
    "tidegate_clients_ended_total",
    "Clients that Tidegate has ended behind their login, by the limit that they met.",
    ("cause",),
)
SERVERS: Final = Definition(
    "tidegate_server_connections",
    "Connections to a server that sessions have now.",
    ("server",),
)
KEPT: Final = Definition(
    "tidegate_kept_connections",
    "Connections to a server that no session has, kept for the next login.",
    ("server",),
)
KEPT_TAKEN: Final = Definition(
    "tidegate_kept_connections_taken_total",
    "Logins at a server over a kept connection.",
    ("server",),
)
LENT: Final = Definition(
    "tidegate_logins_lent_total",
    "Logins over a kept connection for which the server was not asked (login-age).",
    ("server",),
)
RESTING: Final = Definition(
    "tidegate_clients_resting",
    "Clients that are connected now and have no connection to the primary (connection-sharing).",
)
WITHOUT_PRIMARY: Final = Definition(
    "tidegate_clients_without_primary",
    "Clients that are connected now and have lost the primary, which was not found to be back yet:"
    " they can read (without-primary).",
)
GIVEN_BACK: Final = Definition(
    "tidegate_connections_given_back_total",
    "Connections to the primary that idle sessions gave back (connection-sharing).",
    ("server",),
)
NOT_GIVEN_BACK: Final = Definition(
    "tidegate_connections_not_given_back_total",
    "Times that an idle session had to keep its connection to the primary (connection-sharing),"
    " by reason.",
    ("reason",),
)
BORROWED: Final = Definition(
    "tidegate_connections_borrowed_total",
    "Connections to the primary that sessions got again after they had given theirs back"
    " (connection-sharing).",
    ("server",),
)
KEPT_DROPPED: Final = Definition(
    "tidegate_kept_connections_dropped_total",
    "Kept connections that were closed without serving another login, by cause.",
    ("server", "cause"),
)
TLS_HANDSHAKES: Final = Definition(
    "tidegate_server_tls_handshakes_total",
    "TLS handshakes with a server that ended in a login, by whether they resumed a session.",
    ("server", "resumed"),
)
SERVER_CONNECTIONS: Final = Definition(
    "tidegate_server_connections_opened_total",
    "Connections to a server that were opened.",
    ("server",),
)
CONNECT_FAILURES: Final = Definition(
    "tidegate_server_connect_failures_total",
    "Connections to a server that could not be opened.",
    ("server", "cause"),
)
CONNECTIONS_AWAITED: Final = Definition(
    "tidegate_server_connections_awaited",
    "Sessions that wait now for a connection to a server (max-server-connections).",
    ("server",),
)
CONNECTION_WAITS: Final = Definition(
    "tidegate_server_connection_waits_total",
    "Waits for a connection to a server, by how they ended.",
    ("server", "result"),
)
SERVER_UP: Final = Definition(
    "tidegate_server_up",
    "1 while a server may be used, 0 while not.",
    ("server",),
)
SERVER_WATCHED: Final = Definition(
    "tidegate_server_watched",
    "1 while the monitor can check a server, 0 while the server refuses it or is gone.",
    ("server",),
)
SERVER_WRITABLE: Final = Definition(
    "tidegate_server_writable",
    "1 while a server takes writes (its read_only is OFF), as the monitor last saw it.",
    ("server",),
)
GROUP_WITHOUT_QUORUM: Final = Definition(
    "tidegate_group_without_quorum",
    "1 while the primary does not speak for a majority of its group, so that no write is served.",
)
PRIMARY_DISPUTED: Final = Definition(
    "tidegate_primary_disputed",
    "1 while several servers could be the primary, so that none of them gets a write.",
)
PRIMARY_TERM: Final = Definition(
    "tidegate_primary_term",
    "Number of the primary's term in the state file, one more with each new primary; 0 before the"
    " first.",
)
DIFFERENCES: Final = Definition(
    "tidegate_replica_differences",
    "Global variables that change the answers to reads and differ between a replica and the"
    " primary; absent while unknown.",
    ("server", "carried"),
)
LAG: Final = Definition(
    "tidegate_replica_lag_seconds",
    "How far a replica is behind the primary; absent while unknown.",
    ("server",),
)
LAGGING: Final = Definition(
    "tidegate_replica_lagging",
    "1 while a replica is further behind than max-lag, so that it gets no reads, else 0.",
    ("server",),
)
REPLICATING: Final = Definition(
    "tidegate_replica_replicating",
    "1 while all channels of a replica run by which transactions of its cluster come, 0 while not;"
    " absent while unknown.",
    ("server",),
)
GAP: Final = Definition(
    "tidegate_replica_gap_transactions",
    "Transactions of the primary that a replica lacks although it has newer ones; absent while"
    " unknown.",
    ("server",),
)
SOURCE_LAG: Final = Definition(
    "tidegate_replication_lag_seconds",
    "Age of the oldest transaction of a source that a replica is known to lack, by commit"
    " timestamps; absent while unknown.",
    ("server", "channel", "source", "hop"),
)
LAG_MEASURED: Final = Definition(
    "tidegate_replication_lag_measured",
    "1 while a replica's lag is measured by commit timestamps, 0 while not.",
    ("server",),
)
TRANSACTION_LAG: Final = Definition(
    "tidegate_transaction_lag_seconds",
    "Time that transactions took to reach a replica and to be applied there: of a sample, taken"
    " by the monitor's checks; for the part end_to_end of all transactions, if the replica's"
    " binary log is read.",
    ("server", "source", "part"),
    LAG_BUCKETS_US,
)
LAG_MEANS: Final = Definition(
    "tidegate_replication_lag_means",
    "1 for the best means by which a replica's lag is measured now; absent where there is none.",
    ("server", "means"),
)
BINLOG_STREAM_ENDS: Final = Definition(
    "tidegate_binlog_stream_ends_total",
    "Times that reading a replica's binary log, to measure its lag, could not begin, or ended.",
    ("server", "cause"),
)
TABLES_READ: Final = Definition(
    "tidegate_table_dependencies_active",
    "1 while the primary's binary log is read for which tables transactions change, else 0, as"
    " while replicas are not late.",
)
TABLES_KEPT: Final = Definition(
    "tidegate_table_dependencies_transactions",
    "Transactions whose tables are kept, since a replica may lack them.",
)
TABLES_BYTES: Final = Definition(
    "tidegate_table_dependencies_read_bytes_total",
    "Bytes of the primary's binary log that were read for that.",
)
TABLES_ENDS: Final = Definition(
    "tidegate_table_dependencies_ends_total",
    "Times that reading the primary's binary log, for the tables, could not begin, or ended.",
    ("cause",),
)
CLOCK_OFFSET: Final = Definition(
    "tidegate_clock_offset_seconds",
    "How far a server's clock is at least ahead of the primary's; negative if behind, 0 if they"
    " may agree.",
    ("server",),
)
CLOCK_WARNINGS: Final = Definition(
    "tidegate_clock_warnings_total",
    "Times that a replica began to receive transactions whose original commit timestamp is newer"
    " than the immediate one.",
    ("server",),
)
ERRORS: Final = Definition(
    "tidegate_errors_total",
    "Error packets sent to clients, by who made them and by MySQL error code.",
    ("side", "code"),
)
PROTOCOL_ERRORS: Final = Definition(
    "tidegate_protocol_errors_total",
    "Connections that were closed because the peer violated the protocol.",
    ("side",),
)
LOG_WRITTEN: Final = Definition(
    "tidegate_routing_log_records_total",
    "Records written to the routing log.",
)
LOG_DROPPED: Final = Definition(
    "tidegate_routing_log_dropped_total",
    "Records that are missing from the routing log because its buffer was full, or because the"
    " disk did not take them before a stop.",
)
LOG_ERRORS: Final = Definition(
    "tidegate_routing_log_errors_total",
    "Attempts to write the routing log that failed.",
)
LOG_BYTES: Final = Definition(
    "tidegate_routing_log_bytes_total",
    "Bytes written to the routing log, before any compression.",
)
LOG_STORED: Final = Definition(
    "tidegate_routing_log_closed_bytes",
    "Disk space of the closed segments of the proxy's routing log, as the first worker last saw"
    " it.",
)
LOG_COMPRESSED: Final = Definition(
    "tidegate_routing_log_compressed_segments_total",
    "Closed segments of the routing log that were compressed.",
)
LOG_COMPRESSED_BYTES: Final = Definition(
    "tidegate_routing_log_compressed_bytes_total",
    "Bytes of closed segments of the routing log after their compression.",
)
LOG_DELETED: Final = Definition(
    "tidegate_routing_log_deleted_segments_total",
    "Closed segments of the routing log that were deleted, as routing-log-keep says.",
)
LOG_UPKEEP_ERRORS: Final = Definition(
    "tidegate_routing_log_upkeep_errors_total",
    "Times that closed segments of the routing log could not be compressed, deleted or listed.",
    ("task",),
)
CPU: Final = Definition(
    "tidegate_worker_cpu_seconds_total",
    "CPU time of the worker's process.",
)
MEMORY: Final = Definition(
    "tidegate_worker_resident_memory_bytes",
    "Resident memory of the worker's process.",
)
DEFINITIONS: Final = (
    *(STATEMENTS, LATENCY, READS, WAITS, FALLBACKS, CROWDED, STALE, SNAPSHOTS_SPLIT),
    *(SPLIT_CONFLICTS, WAITS_KILLED, KILLS_UNANSWERED),
    *(PROBES, PROBED_READS, CONFIRMATIONS, AUDITED, STALE_PROVEN),
    *(LOST_GTIDS, ERRANT_GTIDS, FILTERED),
    *(
        SCOPES,
        SCOPES_EVICTED,
        BEHIND_ANOTHER,
        SCOPE_DOUBTS,
        SCOPES_KEPT,
        SCOPES_BEHIND,
        SCOPES_RESTORED,
    ),
    *(SCOPE_WRITES, SCOPE_WRITE_SECONDS, SCOPE_ROWS, SCOPE_ROWS_COMPRESSED),
    *(SCOPE_FILE_ERRORS, SCOPE_FILE_FAILING, PROMOTIONS),
    *(GTIDS_TRACKED, REQUIRED_UNKNOWN, UNLOGGED, VIEWS_ASKED, UNKNOWN_ENCODINGS),
    *(PINS, PINNED, CLIENTS, CLIENT_CONNECTIONS, CLIENTS_REFUSED, CLIENTS_ENDED),
    *(SERVERS, SERVER_CONNECTIONS, KEPT, KEPT_TAKEN, LENT, KEPT_DROPPED, TLS_HANDSHAKES),
    *(RESTING, GIVEN_BACK, NOT_GIVEN_BACK, BORROWED, WITHOUT_PRIMARY),
    *(CONNECT_FAILURES, CONNECTIONS_AWAITED, CONNECTION_WAITS, SERVER_UP),
    *(SERVER_WATCHED, SERVER_WRITABLE, PRIMARY_DISPUTED, GROUP_WITHOUT_QUORUM, PRIMARY_TERM),
    *(DIFFERENCES, LAG),
    *(LAGGING, REPLICATING, GAP, SOURCE_LAG, LAG_MEASURED, TRANSACTION_LAG, LAG_MEANS),
    *(BINLOG_STREAM_ENDS, TABLES_READ, TABLES_KEPT, TABLES_BYTES, TABLES_ENDS),
    *(CLOCK_OFFSET, CLOCK_WARNINGS),
    *(ERRORS, PROTOCOL_ERRORS, LOG_WRITTEN, LOG_DROPPED, LOG_ERRORS),
    *(LOG_BYTES, LOG_STORED, LOG_COMPRESSED, LOG_COMPRESSED_BYTES),
    *(LOG_DELETED, LOG_UPKEEP_ERRORS, CPU, MEMORY),
)
"""The families that each worker counts."""

BUILD: Final = Definition(
    "tidegate_build_info",
    "Always 1; the labels say which versions run, and whether Tidegate is compiled.",
    ("version", "compiled", "python"),
)
WORKER_UP: Final = Definition(
    "tidegate_worker_up",
    "1 while a worker serves, 0 while it does not answer.",
    ("worker",),
)
RELOAD_SUCCESSFUL: Final = Definition(
    "tidegate_config_last_reload_successful",
    "1 if the last reload of the configuration went well, or there was none; else 0.",
)
RELOAD_SUCCEEDED_AT: Final = Definition(
    "tidegate_config_last_reload_success_timestamp_seconds",
    "When a reload of the configuration, or the start, went well last, in seconds since the epoch.",
)
WORKER_RESTARTS: Final = Definition(
    "tidegate_worker_restarts_total",
    "Workers that ended unexpectedly and were started again.",
)
