"""Which server a statement goes to, and what will allow its answer. A pure function."""

from routing.decision import Decision, Level, Proof, Reason, TimeoutPolicy
from routing.query import SERVER_SCHEMAS
from routing.session import Session
from routing.statement import Statement, StatementClass
from routing.topology import Server, Topology

_REASONS = {
    StatementClass.WRITE: Reason.WRITE,
    StatementClass.TRANSACTION: Reason.TRANSACTION,
    StatementClass.SESSION: Reason.SESSION,
    StatementClass.PIN: Reason.PINNED,
}


def choose(session: Session, statement: Statement, topology: Topology, now: float) -> Decision:
    """Decide about a text statement.

    Args:
        session: what it must see.
        statement: what it is.
        topology: who could answer.
        now: monotonic time, seconds.
    """
    kind = statement.kind
    if kind is StatementClass.READ:
        return _read(session, topology, now)
    if kind is StatementClass.DIAGNOSTIC:
        last = session.last
        if last is None or last is topology.primary or session.pin:
            return on_primary(topology, Reason.DIAGNOSTIC)
        # What the previous statement left there needs no newer data.
        return Decision(last, Reason.DIAGNOSTIC, Proof.NONE)
    return on_primary(topology, _REASONS[kind])


def on_primary(topology: Topology, reason: Reason) -> Decision:
    """The primary has whatever it acknowledged."""
    return Decision(topology.primary, reason, Proof.PRIMARY)


def _read(session: Session, topology: Topology, now: float) -> Decision:
    guarded = session.rules.level is not Level.BEST_EFFORT
    if guarded and session.unknown:
        return on_primary(topology, Reason.UNKNOWN_REQUIRED)
    if session.in_transaction or not session.autocommit or session.one_shot:
        return on_primary(topology, Reason.TRANSACTION)
    if session.pin:
        return on_primary(topology, Reason.PINNED)
    if session.schema in SERVER_SCHEMAS:
        return on_primary(topology, Reason.SESSION)
    if not guarded:
        chosen = _reachable(session, topology, now)
        if chosen is None:
            return on_primary(topology, Reason.NO_REPLICA)
        return Decision(chosen, Reason.READ, Proof.NONE)
    if not topology.primary.gtids:
        return on_primary(topology, Reason.NO_GTIDS)
    if session.wants_probe:
        return on_primary(topology, Reason.UNKNOWN_REQUIRED)
    return _read_own_writes(session, topology, now)


def _read_own_writes(session: Session, topology: Topology, now: float) -> Decision:
    required = session.required
    replicas = topology.replicas
    count = len(replicas)
    index = session.preferred
    first: Server | None = None
    reachable = False
    for _ in range(count):
        if index >= count:
            index = 0
        server = replicas[index]
        index += 1
        if now < server.down_until or not server.gtids or server in session.avoided:
            continue
        if required <= server.applied:
            return Decision(server, Reason.READ, Proof.KNOWN, server.applied)
        reachable = True
        if first is None and (
            now >= server.behind_until or session.rules.on_timeout is not TimeoutPolicy.PRIMARY
        ):
            first = server
    if first is not None:
        return Decision(first, Reason.READ, Proof.WAITED, required)
    return on_primary(topology, Reason.REPLICA_BEHIND if reachable else Reason.NO_REPLICA)


def _reachable(session: Session, topology: Topology, now: float) -> Server | None:
    replicas = topology.replicas
    for offset in range(len(replicas)):
        server = replicas[(session.preferred + offset) % len(replicas)]
        if now >= server.down_until and server not in session.avoided:
            return server
    return None
