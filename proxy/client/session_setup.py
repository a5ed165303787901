"""What a server must be told before it can run a session's statement, as batches of commands.

No I/O. What a batch tells is noted in the connection's `Mirror`, so that the next one builds on it;
`query_attributes` is how the connection was negotiated (CLIENT_QUERY_ATTRIBUTES).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.command import com_query
from protocol.packet import frame
from proxy.server.exchange import (
    AUDIT,
    CONFIRM,
    DEFAULTS,
    END,
    IMITATE_SETTING,
    PREPARE,
    ROLES,
    ROLLBACK,
    SNAPSHOT,
    SNAPSHOT_AFTER,
    SNAPSHOT_BEFORE,
    WAIT,
    WAIT_FOR_OWNED,
)
from proxy.server.gtid_question import PROBE_SQL
from routing.session.defaults import ASK as ASK_DEFAULTS
from routing.session.defaults import COLUMN, SETS, differences, in_one_set
from routing.session.variables import FLAGS, SWITCH, exact
from routing.transaction.replica_snapshot import ReplicaSnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.gtid import GtidSet
    from proxy.server.exchange import Batch, Exchange
    from proxy.server.mirror import Mirror
    from routing.session.session import Session
    from routing.transaction.replica_reads import ReplicaReads

_SETTLE_SQL: Final = (
    b"SELECT /*+ MAX_EXECUTION_TIME(%d) */ WAIT_FOR_EXECUTED_GTID_SET("
    b"REGEXP_REPLACE(REGEXP_REPLACE(@@GLOBAL.gtid_owned,"
    b"_latin1'#[0-9]+?(?=[0-9a-f]{8}-)',_latin1','),_latin1'#[0-9]+',_latin1''),%b) LIMIT 1"
)
_BEGUN_SQL: Final = (
    b"SELECT CONVERT(@@SESSION.transaction_isolation USING binary)"
    b",CONVERT(@@SESSION.autocommit USING binary),CONVERT(@@SESSION.sql_mode USING binary)"
    b",CONVERT(@@SESSION.character_set_client USING binary),%b LIMIT 1"
)
_ROLES_SQL: Final = b"SELECT CAST(CURRENT_ROLE() AS BINARY) LIMIT 1"
_PLAIN: Final = com_query(b"", False)
_ATTRIBUTES: Final = com_query(b"", True)
_PLAIN_TEXT: Final = _PLAIN.decode("ascii")
_ATTRIBUTES_TEXT: Final = _ATTRIBUTES.decode("ascii")
_LONGEST_SET: Final = 1000
"""How long a SET of several variables gets, bytes; max_allowed_packet is 1024 at least."""
_TIMEOUTS: Final[dict[float, str]] = {}
_MOST_TIMEOUTS: Final = 64
_HINT_S: Final = 1.0
"""How much later than a WAIT's own end the server may end it, s."""
END_TRANSACTION: Final = b"COMMIT AND NO CHAIN NO RELEASE"
END_BY_AUTOCOMMIT: Final = b"SET autocommit=1"
START_READ_ONLY: Final = b"START TRANSACTION READ ONLY"
START_READ_WRITE: Final = b"START TRANSACTION READ WRITE"
START_SNAPSHOT_READ_ONLY: Final = b"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
START_SNAPSHOT_READ_WRITE: Final = b"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ WRITE"
ROLL_BACK: Final = b"ROLLBACK AND NO CHAIN NO RELEASE"
PING: Final = b"\x01\x00\x00\x00\x0e"
"""A COM_PING, framed."""
"""Whatever completion_type is: a transaction that follows by itself would keep a snapshot."""
RESET_CONNECTION: Final = b"\x01\x00\x00\x00\x1f"


def statement_packet(sql: bytes, query_attributes: bool) -> bytes:
    """One of the proxy's own statements, framed for a connection."""
    return frame(_ATTRIBUTES + sql if query_attributes else _PLAIN + sql, 0)


def prepare(mirror: Mirror, state: Session, settings: bytes, query_attributes: bool) -> Batch:
    """Gives a connection the session's variables.

    Args:
        mirror: of the connection.
        state: of the session.
        settings: the SET statement that made the connection fit for its purpose.
        query_attributes: were negotiated.
    """
    batch: Batch = ()
    if mirror.needs_reset:
        batch = _reset(mirror, state, settings, query_attributes)
    if mirror.variables_version != state.variables_version:
        begun = mirror.variables_version >= 0
        base = {} if begun else differences(state.defaults, mirror.defaults)
        mirror.variables_version = state.variables_version
        # A server may not take a value that the client has replaced since.
        own = {
            name: literal
            for name, literal in base.items()
            if name == FLAGS or name not in state.variables
        }
        told = [*assignments(own), *assignments(state.variables)]
        mirror.untouched = mirror.untouched and not told
        batch += _prepared_by(told, query_attributes)
    return batch


def _reset(mirror: Mirror, state: Session, settings: bytes, query_attributes: bool) -> Batch:
    """A reset, and the question whether the session begins there as it did before.

    It has the server's own character sets then, which may be others than those of the login.
    """
    question: Batch = ()
    mirror.reset()
    if mirror.defaults.values and state.defaults.values:
        sets = [state.defaults.values[name] for name in SETS]
        settings += b"," + in_one_set(*sets)
        mirror.defaults = mirror.defaults.in_sets_of(state.defaults)
        question = ((DEFAULTS, statement_packet(ASK_DEFAULTS, query_attributes)),)
    mirror.begin(state)
    again = statement_packet(settings, query_attributes)
    return ((PREPARE, RESET_CONNECTION), (PREPARE, again), *question)


def ask_defaults(state: Session, query_attributes: bool) -> Batch:
    """What the primary's session begins with, behind a COM_RESET_CONNECTION."""
    question = _BEGUN_SQL % (COLUMN if state.defaults.values else b"''")
    return ((DEFAULTS, statement_packet(question, query_attributes)),)


def ask_roles(query_attributes: bool) -> Batch:
    """Which roles are active on the primary, behind a SET ROLE that does not name them."""
    return ((ROLES, statement_packet(_ROLES_SQL, query_attributes)),)


def assign_user_variables(
    mirror: Mirror, state: Session, names: tuple[str, ...], query_attributes: bool
) -> Batch:
    """Gives a connection user variables whose values are known."""
    assignments, given = [], mirror.user_variables
    for name in state.user_variables.expanded(names):
        literal = state.user_variables.value(name)
        if literal and given.get(name) != literal:
            given[name] = literal
            mirror.untouched = False
            assignments.append(_encoded(f"@`{name}`={literal}"))
    return _prepared_by(_sets(assignments), query_attributes)


def _prepared_by(statements: list[bytes], query_attributes: bool) -> Batch:
    """Statements that must succeed."""
    return tuple([(PREPARE, statement_packet(sql, query_attributes)) for sql in statements])


def wait(
    state: Session, gtids: GtidSet, budget: float, further: str, query_attributes: bool
) -> Batch:
    """A WAIT for a set (`wait_packet`)."""
    return ((WAIT, wait_packet(state, gtids, budget, further, query_attributes)),)


def wait_packet(
    state: Session, gtids: GtidSet, budget: float, further: str, query_attributes: bool
) -> bytes:
    """A WAIT for a set, framed.

    Two values come back: what the WAIT said (0 reached, 1 timed out), and what GTID_SUBSET, which
    reads the set by itself and more strictly, said of it afterwards (1 applied). Behind them are
    those of `further`: columns that are asked for beside (`proxy.client.proof_check`), or none.

    The text is our own canonical one (a malformed set can look satisfied, fact 3.1), and the
    timeout is never 0, which would mean for ever (fact 4.1). What else a session may have set must
    not change what is asked: hence the character sets, LIMIT and the hint (docs/mysql-behaviour.md,
    *Statements of the proxy's own*).
    """
    seconds = max(budget, 0.001)
    text, hint, timeout = gtids.text, _hint(state, seconds), _timeout(seconds)
    beside = "," + further if further else ""
    command = _ATTRIBUTES_TEXT if query_attributes else _PLAIN_TEXT
    sql = (
        f"{command}SELECT {hint}WAIT_FOR_EXECUTED_GTID_SET(_latin1'{text}',{timeout}) a,"
        f"GTID_SUBSET(_latin1'{text}',@@GLOBAL.gtid_executed) b{beside} LIMIT 1"
    )
    return frame(sql.encode("ascii"), 0)


def _timeout(seconds: float) -> str:
    """As a number of SQL; sessions have few different ones."""
    text = _TIMEOUTS.get(seconds)
    if text is None:
        text = format(seconds, ".3f")
        if len(_TIMEOUTS) < _MOST_TIMEOUTS:
            _TIMEOUTS[seconds] = text
    return text


def confirm(state: Session, question: str, query_attributes: bool) -> Batch:
    """A question by itself (`proxy.client.proof_check`)."""
    sql = f"SELECT {_hint(state, 0.0)}{question} LIMIT 1"
    return ((CONFIRM, statement_packet(sql.encode("ascii"), query_attributes)),)


def audit(state: Session, gtids: GtidSet, query_attributes: bool) -> Batch:
    """A question for the server's own word on a set."""
    sql = (
        f"SELECT {_hint(state, 0.0)}GTID_SUBSET(_latin1'{gtids.text}',@@GLOBAL.gtid_executed)"
        " LIMIT 1"
    )
    return ((AUDIT, statement_packet(sql.encode("ascii"), query_attributes)),)


def _hint(state: Session, seconds: float) -> str:
    """What keeps the client's own max_execution_time from ending a statement of the proxy's."""
    if not state.limits_time:
        return ""  # it costs the server a timer
    return f"/*+ MAX_EXECUTION_TIME({_hint_ms(seconds)}) */ "


def _hint_ms(seconds: float) -> int:
    return round((seconds + _HINT_S) * 1000)


def settle(budget: float, query_attributes: bool) -> Batch:
    """A WAIT, on the primary, for all that it has begun to commit.

    Two replacements make a set of `gtid_owned` (`protocol.gtid_owned` has its form).
    """
    seconds = max(budget, 0.001)
    sql = _SETTLE_SQL % (_hint_ms(seconds), f"{seconds:.3f}".encode("ascii"))
    return ((WAIT_FOR_OWNED, statement_packet(sql, query_attributes)),)


def begin_transaction(mirror: Mirror, reads: ReplicaReads, query_attributes: bool) -> Batch:
    """What begins a READ ONLY transaction on a replica as the client did."""
    mirror.transaction_reads = reads
    mirror.untouched = False
    batch: Batch = ()
    if not reads.autocommit:
        batch = ((PREPARE, statement_packet(b"SET autocommit=0", query_attributes)),)
    if isinstance(reads, ReplicaSnapshot):
        batch += _take_snapshot(PREPARE, START_SNAPSHOT_READ_ONLY, query_attributes)
    elif not reads.implied:
        batch += ((PREPARE, statement_packet(START_READ_ONLY, query_attributes)),)
    return batch


def _take_snapshot(start: Exchange, sql: bytes, query_attributes: bool) -> Batch:
    """A snapshot that is taken now, and the questions by which it is known what it shows."""
    probe = statement_packet(PROBE_SQL, query_attributes)
    return (
        (SNAPSHOT_BEFORE, probe),
        (start, statement_packet(sql, query_attributes)),
        (SNAPSHOT_AFTER, probe),
    )


def take_primary_snapshot(query_attributes: bool) -> Batch:
    """The primary's own snapshot for a transaction that was a replica's.

    Nothing was done in the primary's transaction yet; that it begins again shows nowhere.
    """
    return _take_snapshot(SNAPSHOT, START_SNAPSHOT_READ_WRITE, query_attributes)


def roll_back(query_attributes: bool) -> Batch:
    """The end of a transaction that cannot go on."""
    return ((ROLLBACK, statement_packet(ROLL_BACK, query_attributes)),)


def begin_implied(reads: ReplicaReads, query_attributes: bool) -> Batch:
    """Let the primary hear of the transaction that a read on a replica has begun, before all else.

    Then it refuses what cannot be done in one, and its status flags tell of it.
    """
    sql = START_READ_WRITE if reads.may_write else START_READ_ONLY
    return ((IMITATE_SETTING, statement_packet(sql, query_attributes)),)


def end_transaction(mirror: Mirror, query_attributes: bool) -> Batch:
    """Lets a replica's READ ONLY transaction end, if there is one."""
    reads, mirror.transaction_reads = mirror.transaction_reads, None
    if reads is None:
        return ()
    end = END_TRANSACTION if reads.autocommit else END_BY_AUTOCOMMIT
    return ((END, statement_packet(end, query_attributes)),)


def rights(mirror: Mirror, state: Session, refreshed: bool, query_attributes: bool) -> Batch:
    """The session's role and schema, where they are not those that it gave last, in its order.

    They stand behind the WAIT, which may be for a GRANT, a REVOKE, or the schema itself. Like a
    server, a replica looks up again what the session may do; so the same is told again, too.

    Args:
        mirror: of the connection to a replica.
        state: of the session.
        refreshed: a statement stands before. What COM_INIT_DB finds is what the statement before it
            found, if roles are active.
        query_attributes: were negotiated.
    """
    batch: Batch = ()
    if state.schema and mirror.schema_version != state.schema_version:
        if state.schema_role_version == state.role_version:
            batch = _choose_role(mirror, state, query_attributes)
        elif mirror.role != state.schema_role and state.schema_role is not None:
            batch = _set_role(mirror, state.schema_role, query_attributes)
        if not batch and not refreshed:
            batch = ((PREPARE, statement_packet(b"DO 0", query_attributes)),)
        batch += choose_schema(mirror, state.schema)
        mirror.schema_version = state.schema_version
    return batch + _choose_role(mirror, state, query_attributes)


def _choose_role(mirror: Mirror, state: Session, query_attributes: bool) -> Batch:
    if mirror.role_version == state.role_version:
        return ()
    mirror.role_version = state.role_version
    # Also where nobody has one: to look up the rights of the account itself again.
    return _set_role(mirror, state.active_roles, query_attributes)


def _set_role(mirror: Mirror, role: str, query_attributes: bool) -> Batch:
    mirror.role = role
    return ((PREPARE, statement_packet(_encoded(f"SET ROLE {role}"), query_attributes)),)


def choose_schema(mirror: Mirror, schema: str) -> Batch:
    """A COM_INIT_DB.

    It stands behind the WAIT, which may be for the very statement that created the schema.
    """
    mirror.schema = schema
    return ((PREPARE, frame(b"\x02" + schema.encode("utf-8", "surrogateescape"), 0)),)


def assignments(variables: Mapping[str, str]) -> list[bytes]:
    """A SET for each run of ordinary variables and for each NAMES and CHARACTER SET, in order."""
    statements: list[bytes] = []
    run: list[bytes] = []
    for name, literal in variables.items():
        if name in ("names", "character set", FLAGS):
            statements += _sets(run)
            run = []
            if name == FLAGS:
                statements += _sets([_encoded(f"@@SESSION.{SWITCH}={exact(literal)}")])
            elif name == "names":
                statements.append(_encoded(f"SET NAMES {literal}"))
            else:
                statements.append(_encoded(f"SET {literal}"))
        else:
            run.append(_encoded(f"@@SESSION.{name}={exact(literal)}"))
    return statements + _sets(run)


def _sets(assignments: list[bytes]) -> list[bytes]:
    """As few SET statements as are short enough for any max_allowed_packet, if one alone is."""
    statements: list[bytes] = []
    for assignment in assignments:
        if statements and len(statements[-1]) + len(assignment) < _LONGEST_SET:
            statements[-1] += b"," + assignment
        else:
            statements.append(b"SET " + assignment)
    return statements


def _encoded(sql: str) -> bytes:
    return sql.encode("utf-8", "surrogateescape")
