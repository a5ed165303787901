"""What a replica must be told before it can run a session's statement, as packets in one write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.command import com_query
from protocol.packet import frame
from proxy.server.connection import (
    AUDIT,
    BEFORE,
    BEHIND,
    CONFIRM,
    IMITATE,
    PREPARE,
    ROLLBACK,
    SETTLE,
    SNAPSHOT,
    WAIT,
)
from proxy.server.gtid_question import PROBE_SQL
from routing.session.split import Split
from routing.session.split_snapshot import Moment, SplitSnapshot
from routing.session.variables import FLAGS, SWITCH, exact

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from proxy.server.connection import Exchange, ServerConnection
    from routing.session.session import Session
    from routing.session.snapshot import Snapshot

_SETTLE_SQL: Final = (
    b"SELECT /*+ MAX_EXECUTION_TIME(%d) */ WAIT_FOR_EXECUTED_GTID_SET("
    b"REGEXP_REPLACE(REGEXP_REPLACE(@@GLOBAL.gtid_owned,"
    b"_latin1'#[0-9]+?(?=[0-9a-f]{8}-)',_latin1','),_latin1'#[0-9]+',_latin1''),%b) LIMIT 1"
)
_PLAIN: Final = com_query(b"", False)
_ATTRIBUTES: Final = com_query(b"", True)
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


def statement_packet(connection: ServerConnection, sql: bytes) -> bytes:
    """One of the proxy's own statements, framed for this connection."""
    return frame(_ATTRIBUTES + sql if connection.query_attributes else _PLAIN + sql, 0)


def prepare(connection: ServerConnection, state: Session) -> bytes:
    """Packets that give the connection the session's variables; registers their answers."""
    packets = []
    mirror = connection.mirror
    if mirror.needs_reset:
        packets += [RESET_CONNECTION, statement_packet(connection, connection.settings)]
        connection.expect(PREPARE)
        connection.expect(PREPARE)
        mirror.reset()
        connection.hide_read_only(hide=False)
    if mirror.variables_version != state.variables_version:
        mirror.variables_version = state.variables_version
        for sql in assignments(state.variables):
            packets.append(statement_packet(connection, sql))
            connection.expect(PREPARE)
    return b"".join(packets)


def assign_user_variables(
    connection: ServerConnection, state: Session, names: tuple[str, ...]
) -> bytes:
    """Packets that give the connection user variables whose values are known."""
    assignments, given = [], connection.mirror.user_variables
    for name in state.user_variables.expanded(names):
        literal = state.user_variables.value(name)
        if literal and given.get(name) != literal:
            given[name] = literal
            assignments.append(_encoded(f"@`{name}`={literal}"))
    packets = []
    for sql in _sets(assignments):
        connection.expect(PREPARE)
        packets.append(statement_packet(connection, sql))
    return b"".join(packets)


def wait(
    connection: ServerConnection, state: Session, gtids: GtidSet, budget: float, further: str
) -> bytes:
    """A WAIT for a set; registers its answer.

    Two values come back: what the WAIT said (0 reached, 1 timed out), and what GTID_SUBSET, which
    reads the set by itself and more strictly, said of it afterwards (1 applied). Behind them are
    those of `further`: columns that are asked for beside (`proxy.client.confirmation`), or none.

    The text is our own canonical one (a malformed set can look satisfied, fact 3.1), and the
    timeout is never 0, which would mean for ever (fact 4.1). What else a session may have set must
    not change what is asked: hence the character sets, LIMIT and the hint (docs/mysql-behaviour.md,
    *Statements of the proxy's own*).
    """
    connection.expect(WAIT)
    seconds = max(budget, 0.001)
    text, hint, timeout = gtids.text, _hint(state, seconds), _timeout(seconds)
    beside = "," + further if further else ""
    sql = (
        f"SELECT {hint}WAIT_FOR_EXECUTED_GTID_SET(_latin1'{text}',{timeout}) a,"
        f"GTID_SUBSET(_latin1'{text}',@@GLOBAL.gtid_executed) b{beside} LIMIT 1"
    )
    return statement_packet(connection, sql.encode("ascii"))


def _timeout(seconds: float) -> str:
    """As a number of SQL; sessions have few different ones."""
    text = _TIMEOUTS.get(seconds)
    if text is None:
        text = format(seconds, ".3f")
        if len(_TIMEOUTS) < _MOST_TIMEOUTS:
            _TIMEOUTS[seconds] = text
    return text


def confirm(connection: ServerConnection, state: Session, question: str) -> bytes:
    """A question by itself (`proxy.client.confirmation`); registers its answer."""
    connection.expect(CONFIRM)
    sql = f"SELECT {_hint(state, 0.0)}{question} LIMIT 1"
    return statement_packet(connection, sql.encode("ascii"))


def audit(connection: ServerConnection, state: Session, gtids: GtidSet) -> bytes:
    """A question for the server's own word on a set; registers its answer."""
    connection.expect(AUDIT)
    sql = (
        f"SELECT {_hint(state, 0.0)}GTID_SUBSET(_latin1'{gtids.text}',@@GLOBAL.gtid_executed)"
        " LIMIT 1"
    )
    return statement_packet(connection, sql.encode("ascii"))


def _hint(state: Session, seconds: float) -> str:
    """What keeps the client's own max_execution_time from ending a statement of the proxy's."""
    if "max_execution_time" not in state.variables:
        return ""  # it costs the server a timer
    return f"/*+ MAX_EXECUTION_TIME({_hint_ms(seconds)}) */ "


def _hint_ms(seconds: float) -> int:
    return round((seconds + _HINT_S) * 1000)


def settle(connection: ServerConnection, budget: float) -> bytes:
    """A WAIT, on the primary, for all that it has begun to commit; registers its answer.

    Two replacements make a set of `gtid_owned` (`protocol.gtid_owned` has its form).
    """
    connection.expect(SETTLE)
    seconds = max(budget, 0.001)
    sql = _SETTLE_SQL % (_hint_ms(seconds), f"{seconds:.3f}".encode("ascii"))
    return statement_packet(connection, sql)


def begin_transaction(connection: ServerConnection, snapshot: Snapshot | Split) -> bytes:
    """What begins a READ ONLY transaction on a replica as the client did; registers its answers.

    Of one that may write, its client is not told that this one is READ ONLY.
    """
    connection.mirror.snapshot = snapshot
    connection.hide_read_only(hide=isinstance(snapshot, (Split, SplitSnapshot)))
    data = b""
    if not snapshot.autocommit:
        connection.expect(PREPARE)
        data = statement_packet(connection, b"SET autocommit=0")
    if isinstance(snapshot, SplitSnapshot):
        snapshot.there = Moment()
        data += _take_snapshot(connection, PREPARE, START_SNAPSHOT_READ_ONLY)
    elif not snapshot.implied:
        connection.expect(PREPARE)
        data += statement_packet(connection, START_READ_ONLY)
    return data


def _take_snapshot(connection: ServerConnection, start: Exchange, sql: bytes) -> bytes:
    """A snapshot that is taken now, and the questions by which it is known what it shows."""
    connection.expect(BEFORE)
    connection.expect(start)
    connection.expect(BEHIND)
    probe = statement_packet(connection, PROBE_SQL)
    return probe + statement_packet(connection, sql) + probe


def move_snapshot(primary: ServerConnection, snapshot: SplitSnapshot) -> bytes:
    """The primary's own snapshot for a transaction that was a replica's; registers its answers.

    Nothing was done in the primary's transaction yet; that it begins again shows nowhere.
    """
    snapshot.implied = False
    snapshot.move(primary.server)
    return _take_snapshot(primary, SNAPSHOT, START_SNAPSHOT_READ_WRITE)


def roll_back(primary: ServerConnection) -> bytes:
    """The end of a transaction that cannot go on; registers its answer."""
    primary.expect(ROLLBACK)
    return statement_packet(primary, ROLL_BACK)


def begin_implied(primary: ServerConnection, snapshot: Snapshot | Split | None) -> bytes:
    """Let the primary hear of the transaction that a read on a replica has begun, before all else.

    Then it refuses what cannot be done in one, and its status flags tell of it.
    """
    if snapshot is None or not snapshot.implied:
        return b""
    if not isinstance(snapshot, Split) and not snapshot.is_elsewhere:
        return b""
    snapshot.implied = False
    writes = isinstance(snapshot, (Split, SplitSnapshot))
    sql = START_READ_WRITE if writes else START_READ_ONLY
    primary.expect(IMITATE)
    return statement_packet(primary, sql)


def end_transaction(connection: ServerConnection) -> None:
    """Let a replica's READ ONLY transaction end; what it still answers comes first."""
    mirror = connection.mirror
    if mirror.snapshot is not None and not connection.lost:
        connection.expect(PREPARE)
        end = END_TRANSACTION if mirror.snapshot.autocommit else END_BY_AUTOCOMMIT
        connection.write(statement_packet(connection, end))
    mirror.snapshot = None
    connection.hide_read_only(hide=False)


def rights(connection: ServerConnection, state: Session, refreshed: bool) -> bytes:
    """The session's role and schema, where they are not those that it gave last, in its order.

    They stand behind the WAIT, which may be for a GRANT, a REVOKE, or the schema itself. Like a
    server, a replica looks up again what the session may do; so the same is told again, too.

    Args:
        connection: to a replica.
        state: of the session.
        refreshed: a statement stands before. What COM_INIT_DB finds is what the statement before it
            found, if roles are active.
    """
    data, mirror = b"", connection.mirror
    if state.schema and mirror.schema_version != state.schema_version:
        if state.schema_role_version == state.role_version:
            data = _choose_role(connection, state)
        elif mirror.role != state.schema_role and state.schema_role is not None:
            data = _set_role(connection, state.schema_role)
        if not data and not refreshed:
            connection.expect(PREPARE)
            data = statement_packet(connection, b"DO 0")
        data += choose_schema(connection, state.schema)
        mirror.schema_version = state.schema_version
    return data + _choose_role(connection, state)


def _choose_role(connection: ServerConnection, state: Session) -> bytes:
    if connection.mirror.role_version == state.role_version:
        return b""
    connection.mirror.role_version = state.role_version
    # Nobody has one: it is told that, to look up the rights of the account itself again.
    return _set_role(connection, "NONE" if state.role is None else state.role)


def _set_role(connection: ServerConnection, role: str) -> bytes:
    connection.expect(PREPARE)
    connection.mirror.role = role
    return statement_packet(connection, _encoded(f"SET ROLE {role}"))


def choose_schema(connection: ServerConnection, schema: str) -> bytes:
    """A COM_INIT_DB; registers its answer.

    It stands behind the WAIT, which may be for the very statement that created the schema.
    """
    connection.expect(PREPARE)
    connection.mirror.schema = schema
    return frame(b"\x02" + schema.encode("utf-8", "surrogateescape"), 0)


def assignments(variables: dict[str, str]) -> list[bytes]:
    """A SET for each run of ordinary variables and for each NAMES, in the order they were set."""
    statements: list[bytes] = []
    run: list[bytes] = []
    for name, literal in variables.items():
        if name in ("names", "character set", FLAGS):
            statements += _sets(run)
            run = []
            if name == FLAGS:
                statements += _sets([_encoded(f"@@SESSION.{SWITCH}={exact(literal)}")])
            else:
                statements.append(_encoded(f"SET {name.upper()} {literal}"))
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
