"""What was decided about a statement: closed enums that metrics, routing log and audit share."""

from math import inf
from typing import Final

from protocol.gtid import GtidSet
from routing.consistency.independence import Independence
from routing.servers.topology import Role, Server
from routing.stable_enum import StableStrEnum

__all__ = [
    "ConflictPolicy",
    "Decision",
    "Level",
    "LostPolicy",
    "Outcome",
    "Proof",
    "Reason",
    "Role",
    "Scope",
    "TimeoutPolicy",
    "TransactionReads",
]


class Level(StableStrEnum):
    """Consistency levels (WL#6972: BEST_EFFORT is L1, READ_OWN_WRITES L2, READ_ALL_WRITES L3)."""

    BEST_EFFORT = "BEST_EFFORT"
    """Anything."""
    READ_OWN_WRITES = "READ_OWN_WRITES"
    """Every write that was acknowledged earlier in the scope."""
    MONOTONIC_READS = "MONOTONIC_READS"
    """That, and never an older state than the scope has seen."""
    READ_ALL_WRITES = "READ_ALL_WRITES"
    """Every write acknowledged, to anyone, before the newest thing that the scope has seen."""
    STRONG = "STRONG"
    """Every write committed on the primary before the read began, by whatever route."""
    BOUNDED_STALENESS = "BOUNDED_STALENESS"
    """A state no older than the bound."""


class Scope(StableStrEnum):
    """Whose writes count as a session's own."""

    CONNECTION = "connection"
    USER = "user"
    """All connections that logged in under one user name."""
    APPLICATION = "application"
    """All connections and statements that name one key."""
    PROXY = "proxy"
    """All connections through this proxy."""


class Proof(StableStrEnum):
    """Why the server that answered was allowed to."""

    NONE = "none"
    """No guarantee was asked for, or the timeout policy `stale` gave it up; the reason tells."""
    PRIMARY = "primary"
    """The primary has every transaction that it acknowledged."""
    KNOWN = "known"
    """The required set is a subset of the replica's applied set."""
    WAITED = "waited"
    """A WAIT ended on the very connection, right before the statement, and the set was there."""
    INDEPENDENT = "independent"
    """What the replica lacks of the required set has changed no table that the statement reads."""
    PROBED = "probed"
    """Only of an intermediate decision: the primary is asked what it has, then it is decided
    again."""


class Reason(StableStrEnum):
    """Why this server was chosen."""

    WRITE = "write"
    """May change data, or cannot be shown not to."""
    SESSION = "session"
    """Reads or changes what lives in the session's connection to the primary."""
    TRANSACTION = "transaction"
    """Starts, ends or runs inside a transaction."""
    PREPARED = "prepared"
    """A prepared statement that only the primary knows, or is to know: one that is too long to be
    classified, or whose text would be read differently now, and which was prepared there before."""
    CURSOR = "cursor"
    """The prepared statement's cursor is open there."""
    COMMAND = "command"
    """A command that is no statement (COM_PING, COM_INIT_DB, …)."""
    PINNED = "pinned"
    """The session holds state that only the primary connection has."""
    DIAGNOSTIC = "diagnostic"
    """Asks about the previous statement, so it goes where that ran."""
    READ = "read"
    """A read on a replica that is allowed to answer; on the primary, its share (read-from)."""
    UNKNOWN_REQUIRED = "unknown_required"
    """The session may have committed something without a known GTID: to the primary, for now."""
    PROBE = "probe"
    """What the read must see is not known before the primary has said what it has."""
    PROBE_FAILED = "probe_failed"
    """The primary could not say what it has."""
    LOST_WRITES = "lost_writes"
    """Writes that were acknowledged are gone from the primary; the policy is to say so once."""
    COMMIT_ORDER = "commit_order"
    """No replica commits in the primary's order, so each may show what the primary never had."""
    FLOOD = "flood"
    """More reads wanted to leave late replicas than the primary is to be given."""
    PROXY = "proxy"
    """A statement to Tidegate itself."""
    NO_GTIDS = "no_gtids"
    """The primary runs without gtid_mode=ON, so no write of the session has a name."""
    NO_PRIMARY = "no_primary"
    """Only the primary could answer, and there is none."""
    NO_REPLICA = "no_replica"
    """No replica is healthy."""
    REPLICA_BEHIND = "replica_behind"
    """The replicas are known to be behind by more than the wait budget."""
    WAIT_DEARER = "wait_dearer"
    """Waiting on a replica would cost more than the primary's answer (``wait-budget = auto``)."""
    REPLICA_LAGGING = "replica_lagging"
    """The replicas are further behind than they may be (max-lag)."""
    WAIT_TIMEOUT = "wait_timeout"
    """The wait budget ran out; the timeout policy named the server (or the error)."""
    REPLICA_REFUSED = "replica_refused"
    """The replica answered that it may not or could not run the statement."""
    REPLICA_FULL = "replica_full"
    """None of the connections to the replica became free in time (max-server-connections)."""
    AUDIT_FAILED = "audit_failed"
    """The replica lacks what it was taken to have, or did not say whether it has it."""
    REPLICA_LOST = "replica_lost"
    """The replica's connection failed, or said nothing any more, before a byte of the result was
    passed on."""


class TimeoutPolicy(StableStrEnum):
    """What a read gets when its wait budget has run out."""

    PRIMARY = "primary"
    ERROR = "error"
    STALE = "stale"


class TransactionReads(StableStrEnum):
    """Where a transaction that may still write reads until it does."""

    PRIMARY = "primary"
    SPLIT = "split"
    """As any read, where each statement has a snapshot of its own."""
    SNAPSHOT = "snapshot"
    """The same; at REPEATABLE READ from one replica's snapshot."""


class ConflictPolicy(StableStrEnum):
    """What a read that belongs to a replica's snapshot gets, where the primary's differs."""

    ERROR = "error"
    ALLOW = "allow"


class LostPolicy(StableStrEnum):
    """What a scope's next read gets when acknowledged writes are gone from the primary."""

    ERROR = "error"
    CONTINUE = "continue"


class Outcome(StableStrEnum):
    """How a statement ended, as its client saw it."""

    OK = "ok"
    ERROR = "error"
    """The server (or the proxy) answered with an ERR packet."""
    LOST = "lost"
    """A connection broke before the answer was complete."""


class Decision:
    """Where a statement goes; never changed.

    Attributes:
        server: the chosen server.
        reason: why it was chosen.
        proof: what will allow the answer, if all goes well.
        proof_set: known: the applied set that covers what is required; independent: the one that
            covers what remains of it; waited: the set to wait for.
        confirm: the server is to be asked, in front, whether it still has all that it has proved.
        independence: what the server need not have of what is required; None if it needs all.
        wait_limit: waited: how long that may take, s, within the wait budget; inf if for all of it.
    """

    def __init__(
        self,
        server: Server,
        reason: Reason,
        proof: Proof,
        proof_set: GtidSet | None = None,
        confirm: bool = False,
        independence: Independence | None = None,
        wait_limit: float = inf,
    ) -> None:
        self.server: Final = server
        self.reason: Final = reason
        self.proof: Final = proof
        self.proof_set: Final = proof_set
        self.confirm: Final = confirm
        self.independence: Final = independence
        self.wait_limit: Final = wait_limit

    @property
    def is_brief(self) -> bool:
        """Whether the WAIT is a brief one, which only sees if the replica has the set by now."""
        return self.wait_limit < inf

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decision):
            return NotImplemented
        return (
            self.server is other.server
            and self.reason is other.reason
            and self.proof is other.proof
            and self.proof_set == other.proof_set
            and self.confirm == other.confirm
            and self.wait_limit == other.wait_limit
        )

    def __hash__(self) -> int:
        return hash((self.server, self.reason, self.proof))

    def __repr__(self) -> str:
        return (
            f"Decision({self.server.name}, {self.reason}, {self.proof}, {self.proof_set},"
            f" confirm={self.confirm})"
        )
