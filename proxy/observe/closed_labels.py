"""The series that are shown with 0 before anything was counted.

`increase()` and `rate()` compare two samples of one series: a series that begins with its first
event hides that event, and of a first burst everything up to the first scrape. So each counter and
histogram whose labels have closed sets of values shows all combinations that can happen from the
start; those of a server from the moment when the server is known, in the roles that it has had.
(Prometheus: "Avoid missing metrics", https://prometheus.io/docs/practices/instrumentation/.)

Not among them are series with a label whose values come from the servers (`source` and `channel` of
`tidegate_transaction_lag_seconds`), and gauges, which are absent while their value is unknown.
"""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Final, get_args

from protocol.errors import ServerErrorCode
from proxy.observe import families
from proxy.observe.families import Definition
from proxy.observe.label_values import (
    Audited,
    Confirmed,
    ConnectFailure,
    Crowded,
    Dropped,
    EndCause,
    LogTask,
    RefusalCause,
    SlotWait,
    StreamEnd,
    TablesEnd,
    UnknownCause,
    WaitResult,
)
from routing.consistency.decision import ConflictPolicy, Level, Outcome, Proof, Reason, Role
from routing.sql.session_locks import PinReason

ERROR_CODES: Final = frozenset(
    {
        *(1040, 1043, 1044, 1045, 1046, 1047, 1048, 1049, 1050, 1051, 1053, 1054, 1062, 1064),
        *(1089, 1105, 1142, 1146, 1152, 1153, 1156, 1158, 1159, 1161, 1184, 1193, 1203, 1205),
        *(1213, 1226, 1227, 1235, 1243, 1251, 1264, 1290, 1295, 1305, 1317, 1364, 1390, 1406),
        *(1419, 1451, 1452, 1461, 1524, 1690, 1786, 1792, 1820, 1835, 1836, 1862, 3024, 3100),
        *(3101, 3159, 3950, 4031, 4082, 2002, 2003, 2006, 2012, 2013, 2026, 2059, 2061),
    }
)
"""Error codes with a label of their own; any other code is "other"."""

_OWN_CODES: Final = {code.code for code in ServerErrorCode}
"""Codes of errors that the proxy makes itself."""

Labels = tuple[str, ...]

PLAIN: Final[Mapping[Definition, tuple[Labels, ...]]] = {
    families.READS: (
        *product(Level, (Proof.NONE, Proof.PRIMARY, Proof.KNOWN, Proof.WAITED)),
        (Level.READ_OWN_WRITES, Proof.INDEPENDENT),
    ),
    families.CROWDED: tuple(product(get_args(Crowded))),
    families.SPLIT_CONFLICTS: tuple(product(ConflictPolicy)),
    families.AUDITED: tuple(product(get_args(Audited))),
    families.SCOPE_DOUBTS: (("room",), ("torn",)),
    families.SCOPES_RESTORED: (("yes",), ("no",)),
    families.REQUIRED_UNKNOWN: tuple(product(get_args(UnknownCause))),
    families.PINS: tuple(product(PinReason)),
    families.PINNED: tuple(product(PinReason)),
    families.CLIENTS_REFUSED: tuple(product(get_args(RefusalCause))),
    families.CLIENTS_ENDED: tuple(product(get_args(EndCause))),
    families.NOT_GIVEN_BACK: tuple(
        product(
            (
                *("busy", "account", "transaction", "pinned", "unknown", "tracking", "prepared"),
                *("previous", "setting", "user_variable", "program", "command", "connection_id"),
                "killed",
            )
        )
    ),
    families.TABLES_BYTES: ((),),
    families.TABLES_ENDS: tuple(product(get_args(TablesEnd))),
    families.ERRORS: (
        *(("server", str(code)) for code in sorted(ERROR_CODES)),
        ("server", "other"),
        *(("proxy", str(code)) for code in sorted(ERROR_CODES & _OWN_CODES)),
        ("proxy", "other"),
    ),
    families.PROTOCOL_ERRORS: (("client",),),
    families.LOG_UPKEEP_ERRORS: tuple(product(get_args(LogTask))),
}
"""Families without a server, and the values of their labels."""

OF_SERVERS: Final[Mapping[Definition, tuple[Labels, ...]]] = {
    families.SERVER_CONNECTIONS: ((),),
    families.KEPT_TAKEN: ((),),
    families.LENT: ((),),
    families.KEPT_DROPPED: tuple(product(get_args(Dropped))),
    families.TLS_HANDSHAKES: (("yes",), ("no",)),
    families.CONNECT_FAILURES: tuple(product(get_args(ConnectFailure))),
    families.CONNECTION_WAITS: tuple(product(get_args(SlotWait))),
}
"""Families of every server; the values of the labels behind the server's name."""

OF_PRIMARIES: Final[Mapping[Definition, tuple[Labels, ...]]] = {
    families.GIVEN_BACK: ((),),
    families.BORROWED: ((),),
}
"""Further families of a server while it is, or has been, the primary."""

OF_REPLICAS: Final[Mapping[Definition, tuple[Labels, ...]]] = {
    families.WAITS: tuple(product(get_args(WaitResult))),
    families.FALLBACKS: tuple(
        product(
            (
                *(Reason.WAIT_TIMEOUT, Reason.REPLICA_REFUSED, Reason.REPLICA_FULL),
                *(Reason.REPLICA_LOST, Reason.AUDIT_FAILED, Reason.COMMIT_ORDER),
                Reason.REPLICA_BEHIND,
            )
        )
    ),
    families.CONFIRMATIONS: tuple(product(get_args(Confirmed))),
    families.BINLOG_STREAM_ENDS: tuple(product(get_args(StreamEnd))),
    families.CLOCK_WARNINGS: ((),),
}
"""Further families of a server while it is, or has been, a replica."""

_NOT_OF_PRIMARIES: Final = frozenset({Reason.PROXY, Reason.PROBE, Reason.READ})
_PRIMARY_REASONS: Final = tuple(reason for reason in Reason if reason not in _NOT_OF_PRIMARIES)
_REFUSALS: Final = (
    *(Reason.PROXY, Reason.COMMAND, Reason.WRITE, Reason.PREPARED, Reason.TRANSACTION),
    *(Reason.LOST_WRITES, Reason.PROBE_FAILED, Reason.NO_PRIMARY, Reason.WAIT_TIMEOUT),
    Reason.FLOOD,
)
"""Reasons with which the proxy itself answers with an error."""
_REPLICA_COURSES: Final = (
    *product((Reason.READ,), (Proof.NONE, Proof.KNOWN, Proof.WAITED, Proof.INDEPENDENT)),
    *product((Reason.TRANSACTION,), (Proof.NONE, Proof.KNOWN)),
    (Reason.WAIT_TIMEOUT, Proof.NONE),
    (Reason.DIAGNOSTIC, Proof.NONE),
    *product((Reason.SESSION, Reason.PREPARED, Reason.CURSOR), (Proof.NONE,)),
)


def statements(known: Iterable[tuple[str, str]]) -> Iterable[Labels]:
    """Series of `tidegate_statements_total` for servers in roles that they have had, (name, role).

    Those whose statement no server answered stand before them.
    """
    yield "", "", Reason.PROXY, Proof.NONE, Outcome.OK
    for reason in _REFUSALS:
        yield "", "", reason, Proof.NONE, Outcome.ERROR
    for proof in (Proof.NONE, Proof.KNOWN, Proof.WAITED):
        yield "", "", Reason.READ, proof, Outcome.LOST
    for server, role in known:
        if role == Role.PRIMARY:
            for reason, outcome in product(_PRIMARY_REASONS, Outcome):
                yield role, server, reason, Proof.PRIMARY, outcome
        else:
            for (reason, proof), outcome in product(_REPLICA_COURSES, Outcome):
                yield role, server, reason, proof, outcome
