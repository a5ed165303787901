"""What goes to a server in front of a command, told without a server or a connection."""

import pytest

from protocol.constants import IN_TRANS
from protocol.constants import Command as Code
from protocol.gtid import GtidSet
from protocol.packet import frame
from protocol.response_stream import RESULTS
from proxy.client.prepared import PreparedStatements
from proxy.client.requests import command_batch
from proxy.client.statements.diagnostics import replay_batch
from proxy.client.statements.replica_checks import NOTHING, ReplicaChecks
from proxy.server.exchange import (
    FORWARD,
    FORWARD_CURSOR,
    FORWARD_ROW,
    SETUP,
    WAIT,
    Batch,
    Purpose,
)
from proxy.server.gtid_question import PROBE_SQL
from proxy.server.mirror import Mirror
from routing.consistency.decision import (
    Decision,
    Level,
    Proof,
    Reason,
    Scope,
    TimeoutPolicy,
    TransactionReads,
)
from routing.consistency.rules import Rules, TransactionRules
from routing.request.command import Command
from routing.servers.topology import Role, Server, Topology
from routing.session.diagnostics_area import NOTHING_TO_REPLAY, DiagnosticsReplay
from routing.session.prepared import PreparedHandle, PreparedStatement
from routing.session.session import Session
from routing.sql.classifier import Classifier
from tests.routing.transaction.situations import open_read_only, run

U = "11111111-1111-1111-1111-111111111111"
SET = GtidSet.parse(f"{U}:1-9")
OWN = Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)
SNAPSHOT = Rules(
    *(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY),
    transactions=TransactionRules(TransactionReads.SNAPSHOT),
)
SETTINGS = b"SET SESSION session_track_gtids=OWN_GTID"
WAITS = (
    f"SELECT WAIT_FOR_EXECUTED_GTID_SET(_latin1'{U}:1-9',0.250) a,"
    f"GTID_SUBSET(_latin1'{U}:1-9',@@GLOBAL.gtid_executed) b LIMIT 1"
)

PRIMARY = Server("primary:3306", Role.PRIMARY)
REPLICA = Server("replica:3306", Role.REPLICA)

KNOWN = Decision(REPLICA, Reason.READ, Proof.KNOWN, SET)
WAITED = Decision(REPLICA, Reason.READ, Proof.WAITED, SET)
CONFIRMED = Decision(REPLICA, Reason.READ, Proof.KNOWN, SET, confirm=True)
ASKS = Decision(REPLICA, Reason.DIAGNOSTIC, Proof.NONE)


def command(sql: str) -> Command:
    text = sql.encode()
    statement = Classifier().classify(text, 0)
    packet = frame(b"\x03" + text, 0)
    return Command(Code.COM_QUERY, OWN, packet, statement, statement.may_write)


class On:
    """A session, and what the connection to one of its servers was told of it."""

    def __init__(self) -> None:
        self.state = Session(OWN, 0)
        self.mirror = Mirror()

    def before(
        self,
        decision: Decision = KNOWN,
        sql: str = "SELECT 1 FROM t",
        *,
        question: str = "",
        audited: GtidSet | None = None,
        query_attributes: bool = False,
    ) -> Batch:
        waits = decision.proof is Proof.WAITED
        asking = NOTHING
        if waits or question or audited is not None:
            asking = ReplicaChecks(decision.proof_set if waits else None, 0.25, question, audited)
        return command_batch.before_read(
            self.mirror,
            asking,
            command(sql),
            self.state,
            SETTINGS,
            query_attributes,
            is_diagnostic=decision.reason is Reason.DIAGNOSTIC,
        )


def purposes_and_texts(batch: Batch) -> list[tuple[Purpose, str]]:
    """What each command is for, and what it says; each is one whole packet."""
    found = []
    for exchange, packet in batch:
        payload = packet[4:]
        assert packet == frame(payload, 0)
        code, text = Code(payload[0]), payload[1:].decode()
        found.append((exchange.purpose, text if code is Code.COM_QUERY else f"{code.name} {text}"))
    return found


def test_nothing_goes_in_front_where_all_is_known() -> None:
    assert On().before() == ()


def test_a_wait_is_one_command_with_its_answer() -> None:
    on = On()
    assert on.before(WAITED) == ((WAIT, frame(b"\x03" + WAITS.encode(), 0)),)
    assert on.before(WAITED, query_attributes=True) == (
        (WAIT, frame(b"\x03\x00\x01" + WAITS.encode(), 0)),
    )


def test_what_is_asked_goes_within_the_wait_or_alone() -> None:
    on = On()
    [(purpose, sql)] = purposes_and_texts(on.before(WAITED, question="1 c"))
    assert (purpose, sql) == (Purpose.WAIT, WAITS.replace(" b LIMIT", " b,1 c LIMIT"))
    assert purposes_and_texts(on.before(CONFIRMED, question="1 c")) == [
        (Purpose.CONFIRM, "SELECT 1 c LIMIT 1")
    ]
    [(purpose, _)] = purposes_and_texts(on.before(audited=SET))
    assert purpose is Purpose.AUDIT


def test_the_session_comes_before_the_wait_and_its_rights_behind_it() -> None:
    on = On()
    on.mirror.needs_reset = True
    on.state.set_variable("sql_mode", "'ANSI'")
    on.state.set_schema("app")
    on.state.set_role("reader")
    audit = f"SELECT GTID_SUBSET(_latin1'{U}:1-9',@@GLOBAL.gtid_executed) LIMIT 1"
    assert purposes_and_texts(on.before(WAITED, audited=SET)) == [
        (Purpose.SETUP, "COM_RESET_CONNECTION "),
        (Purpose.SETUP, SETTINGS.decode()),
        (Purpose.SETUP, "SET @@SESSION.sql_mode=_latin1'ANSI'"),
        (Purpose.WAIT, WAITS),
        (Purpose.AUDIT, audit),
        (Purpose.SETUP, "COM_INIT_DB app"),
        (Purpose.SETUP, "SET ROLE reader"),
    ]
    assert on.mirror.has(on.state)
    assert on.before() == ()


def test_a_schema_by_itself_stands_behind_a_statement() -> None:
    on = On()
    on.state.set_role("reader")
    on.state.set_schema("app")
    on.mirror.role_version, on.mirror.schema_version = on.state.role_version, -1
    assert purposes_and_texts(on.before()) == [
        (Purpose.SETUP, "DO 0"),
        (Purpose.SETUP, "COM_INIT_DB app"),
    ]


def test_each_transaction_is_begun_once_and_again_behind_a_reset() -> None:
    on = On()
    open_read_only(on.state)
    begun = [(Purpose.SETUP, "START TRANSACTION READ ONLY")]
    assert purposes_and_texts(on.before(WAITED)) == [(Purpose.WAIT, WAITS), *begun]
    assert on.mirror.transaction_reads is on.state.transaction.reads
    assert on.before() == ()
    on.mirror.needs_reset = True
    assert purposes_and_texts(on.before())[2:] == begun
    open_read_only(on.state)  # another one
    assert purposes_and_texts(on.before()) == begun


def test_what_a_snapshot_shows_is_asked_before_it_and_behind_it() -> None:
    on = On()
    on.state.transaction.on_autocommit_set(False)
    on.state.transaction.on_implied_read(on.state, SNAPSHOT)
    assert purposes_and_texts(on.before()) == [
        (Purpose.SETUP, "SET autocommit=0"),
        (Purpose.SNAPSHOT_BEFORE, PROBE_SQL.decode()),
        (Purpose.SETUP, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"),
        (Purpose.SNAPSHOT_AFTER, PROBE_SQL.decode()),
    ]


def test_reads_per_statement_are_in_a_transaction_until_it_moves() -> None:
    on = On()
    on.state.transaction.on_autocommit_set(False)
    on.state.set_variable("transaction_isolation", "'READ-COMMITTED'")
    on.mirror.variables_version = on.state.variables_version
    on.state.transaction.on_implied_read(on.state, OWN)
    assert purposes_and_texts(on.before()) == [(Purpose.SETUP, "SET autocommit=0")]
    on.mirror.transaction_reads = None
    run(on.state, "INSERT INTO t VALUES (1)", IN_TRANS)
    assert on.before() == ()


def test_a_user_variable_is_given_once() -> None:
    on = On()
    on.state.user_variables.assign("x", "7")
    read = "SELECT a FROM t WHERE b = @x"
    assert on.before(sql=read) == ((SETUP, frame(b"\x03SET @`x`=7", 0)),)
    assert on.before(sql=read) == ()


def test_what_is_asked_of_the_statement_before_needs_no_rights() -> None:
    on = On()
    on.state.set_schema("app")
    on.state.set_role("reader")
    assert purposes_and_texts(on.before(ASKS, "SHOW WARNINGS")) == [
        (Purpose.SETUP, "COM_INIT_DB app")
    ]


def test_a_server_imitates_what_another_ran() -> None:
    again = frame(b"\x03SELECT a FROM t", 0)
    by = DiagnosticsReplay(finds=1, again=again, clears=True, counts=0)
    assert purposes_and_texts(replay_batch(by, query_attributes=False)) == [
        (Purpose.REPLAY_DIAGNOSTICS, "SELECT 1 LIMIT 1"),
        (Purpose.REPLAY_DIAGNOSTICS, "SELECT a FROM t"),
        (Purpose.REPLAY_DIAGNOSTICS, "/* */"),
        (Purpose.REPLAY_DIAGNOSTICS, "COM_PING "),
    ]
    shows = [(Purpose.REPLAY_DIAGNOSTICS, "SHOW WARNINGS LIMIT 0")]
    assert (
        purposes_and_texts(replay_batch(DiagnosticsReplay(counts=-1), query_attributes=False))
        == shows
    )
    assert replay_batch(NOTHING_TO_REPLAY, query_attributes=True) == ()


def test_statements_are_prepared_before_they_would_be_read_otherwise() -> None:
    on = On()
    on.state.schema = on.mirror.schema = "app"
    prepared = PreparedStatements()
    text = b"SELECT a FROM t"
    prepared.add(PreparedStatement(1, Classifier().classify(text, 0), text, on.state))
    on.state.schema = "other"
    sets = command("SET sql_mode = 'ANSI'")
    assert purposes_and_texts(
        command_batch.prepare_before(on.mirror, sets, on.state, prepared)
    ) == [
        (Purpose.SETUP, "COM_INIT_DB app"),
        (Purpose.PREPARE_STATEMENT, "COM_STMT_PREPARE SELECT a FROM t"),
        (Purpose.SETUP, "COM_INIT_DB other"),
    ]
    assert on.mirror.preparing == [1]
    assert command_batch.prepare_before(on.mirror, command("SET @x = 1"), on.state, prepared) == ()


def test_a_command_goes_as_it_came_but_for_a_servers_own_ids() -> None:
    read = command("SELECT 1 FROM t")
    assert command_batch.expected(read) is FORWARD[RESULTS]
    assert command_batch.own_packet(read, None, False) is read.packet
    assert command_batch.expected(command("SELECT GET_LOCK('a', 1)")) is FORWARD_ROW

    prepared = PreparedStatement(1, read.statement, b"SELECT 1 FROM t", Session(OWN, 0))
    execute = b"\x17" + b"%b\x00\x01\x00\x00\x00"
    packet = frame(execute % b"\x01\x00\x00\x00", 0)
    runs = Command(Code.COM_STMT_EXECUTE, OWN, packet, read.statement, prepared=prepared)
    assert command_batch.expected(runs) is FORWARD[RESULTS]
    renamed = frame(execute % b"\x09\x00\x00\x00", 0)
    assert command_batch.own_packet(runs, PreparedHandle(9), False) == renamed
    prepared.new_long_data().append(frame(b"\x18\x01\x00\x00\x00\x00\x00x", 0))
    long = frame(b"\x18\x09\x00\x00\x00\x00\x00x", 0)
    assert command_batch.own_packet(runs, PreparedHandle(9), False) == long + renamed
    prepared.asks_cursor = True
    assert command_batch.expected(runs) is FORWARD_CURSOR


MONOTONIC = Rules(Level.MONOTONIC_READS, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)


@pytest.mark.parametrize(
    ("sql", "shows"),
    [
        ("SELECT CONNECTION_ID(), v FROM t", True),
        ("DO 1 IN (TABLE t)", True),
        ("EXECUTE p", True),
        ("SELECT CONNECTION_ID()", False),
        ("SET NAMES utf8mb4", False),
    ],
)
def test_what_may_read_tables_may_show_less_than_was_seen(sql: str, shows: bool) -> None:
    topology = Topology("primary:3306", ["replica:3306"])
    topology.primary.gtids = True
    state = Session(MONOTONIC, 0)
    state.record_answer(topology.replicas[0], 1, MONOTONIC)
    classified = command("SELECT CONNECTION_ID()" if sql == "EXECUTE p" else sql)
    question = Command(
        Code.COM_QUERY, MONOTONIC, frame(b"\x03" + sql.encode(), 0), classified.statement
    )
    assert command_batch.older_than_seen(question, state, topology, 0.0) is shows
