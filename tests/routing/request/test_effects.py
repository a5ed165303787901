"""What a finished command changed in its session, by its trackers and its classification."""

import pytest

from protocol.constants import IN_TRANS
from protocol.constants import Command as Code
from protocol.errors import MalformedPacketError, ServerErrorCode
from protocol.gtid import EMPTY, GtidSet
from protocol.packet import frame
from protocol.session_track import (
    entry,
    gtids_entry,
    schema_entry,
    state_change_entry,
    system_variable_entry,
)
from routing.consistency.decision import Level, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from routing.request import command_properties, effects
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.request.trackers import TRACKS_ALL, TrackerReader
from routing.servers.topology import Role, Server
from routing.session.diagnostics_area import ConnectionArea
from routing.session.session import Session
from routing.session.variables import FLAGS
from routing.sql.classifier import Classifier
from routing.sql.lexer import MODE_ANSI_QUOTES
from routing.sql.session_locks import PinReason

U = "11111111-1111-1111-1111-111111111111"


def gtids(text: str) -> GtidSet:
    return GtidSet.parse(text)


class PrimarySession:
    """A session and its connection to the primary."""

    def __init__(self, level: Level = Level.READ_OWN_WRITES) -> None:
        self.state = Session(Rules(level, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY), 0)
        self.server = Server("primary:3306", Role.PRIMARY)
        self.server.observe(U, (0, 0), EMPTY, EMPTY)
        self.epoch = self.server.epoch
        self.tracks_all = False
        self.tracked = self.unread = 0
        self._command(Command(Code.COM_SLEEP, self.state.rules))
        self.classifier = Classifier()

    def begin(self, sql: str | None, *, may_write: bool = True) -> None:
        """Begin a command: a statement, or another one if `sql` is None."""
        if sql is None:
            self._command(Command(Code.COM_PING, self.state.rules, may_write=may_write))
            return
        statement = self.classifier.classify(sql.encode(), self.state.lexer_modes.flags)
        packet = frame(b"\x03" + sql.encode(), 0)
        rules = self.state.rules
        self._command(Command(Code.COM_QUERY, rules, packet, statement, statement.may_write))

    def _command(self, command: Command) -> None:
        self.command = command
        self.outcome = CommandOutcome(command)

    def tell(self, *blocks: bytes) -> None:
        tracking = TRACKS_ALL if self.tracks_all else 0
        tracked, unread = TrackerReader(self.state).take(
            blocks, self.command, self.outcome, self.server, self.epoch, tracking
        )
        self.tracked += tracked
        self.unread += unread

    def succeed(self, sql: str | None, *blocks: bytes, may_write: bool = True) -> bool:
        self.begin(sql, may_write=may_write)
        self.tell(*blocks)
        return effects.apply_success(self.command, self.outcome, self.state)

    def fail(self, sql: str | None, *blocks: bytes, may_write: bool = True) -> bool:
        self.begin(sql, may_write=may_write)
        self.tell(*blocks)
        return effects.apply_error(self.command, self.outcome, self.state)


@pytest.fixture
def session() -> PrimarySession:
    return PrimarySession()


CHANGED = state_change_entry(True)


# Trackers.


def test_gtids_of_every_packet_join_what_is_required_and_what_is_applied(
    session: PrimarySession,
) -> None:
    session.state.record_write(gtids(f"{U}:1"), session.server)
    session.begin("INSERT INTO t VALUES (1)")
    session.tell(gtids_entry(gtids(f"{U}:5")), b"", gtids_entry(gtids(f"{U}:7")))
    session.tell(gtids_entry(gtids(f"{U}:6")))
    assert session.state.required == gtids(f"{U}:1:5-7")
    assert session.outcome.own == gtids(f"{U}:5-7")
    assert session.server.applied == gtids(f"{U}:5-7")
    assert (session.tracked, session.unread) == (3, 0)


def test_gtids_of_a_connection_to_an_earlier_incarnation_prove_nothing(
    session: PrimarySession,
) -> None:
    session.server.observe("another", (0, 0), EMPTY, EMPTY)
    session.begin("INSERT INTO t VALUES (1)")
    session.tell(gtids_entry(gtids(f"{U}:5")))
    assert session.state.required == gtids(f"{U}:5")
    assert session.server.applied == EMPTY


def test_an_encoding_that_is_unknown_makes_the_required_set_unknown(
    session: PrimarySession,
) -> None:
    session.begin("INSERT INTO t VALUES (1)")
    session.tell(entry(3, b"\x05whatever") + gtids_entry(gtids(f"{U}:5")))
    assert session.state.unknown
    assert session.state.required == gtids(f"{U}:5")
    assert (session.tracked, session.unread) == (1, 1)


def test_the_schema(session: PrimarySession) -> None:
    session.begin("USE app")
    session.tell(schema_entry("app"))
    assert session.state.schema == "app"
    session.tell(schema_entry(""))
    assert session.state.schema == ""


def test_other_trackers_are_passed_over(session: PrimarySession) -> None:
    session.begin("SELECT 1")
    session.tell(system_variable_entry("identity", "7") + entry(4, b"\0") + entry(77, b"x"))
    assert not session.outcome.state_changed
    assert session.state.variables == {}


def test_a_tracker_tells_autocommit_even_where_the_status_lies(session: PrimarySession) -> None:
    session.state.on_connect("", autocommit=False)
    session.succeed("SET autocommit = 0", system_variable_entry("autocommit", "OFF"))
    assert not session.state.transaction.autocommit
    assert not session.state.transaction.status_tells
    session.succeed("SET autocommit = DEFAULT", system_variable_entry("autocommit", "ON"))
    assert session.state.transaction.autocommit
    assert session.state.transaction.status_tells


def test_only_a_tracker_s_word_makes_a_session_read_only(session: PrimarySession) -> None:
    session.succeed("SET SESSION TRANSACTION READ ONLY")
    assert not session.state.transaction.modes.read_only
    session.succeed(
        "SET SESSION TRANSACTION READ ONLY", system_variable_entry("transaction_read_only", "ON")
    )
    assert session.state.transaction.modes.read_only
    session.succeed("CALL p()", system_variable_entry("transaction_read_only", "OFF"))
    assert not session.state.transaction.modes.read_only


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        *(("SET TRANSACTION READ ONLY", True), ("SET autocommit = 0", True), ("USE app", True)),
        *(("SELECT @@sql_mode", True), ("SET @@transaction_read_only = 1", True), (None, False)),
        *(("SELECT @@sql_mode, n FROM t", False), ("SET @a = (SELECT n FROM t)", False)),
        *(("SELECT @@sql_mode, (TABLE t)", False), ("SET @a = (table t)", False)),
        *(("CALL p()", False), ("SELECT f()", False), ("EXECUTE s", False), ("SAVEPOINT s", False)),
        ("SET TRANSACTION READ ONLY; SELECT * FROM t", False),
    ],
)
def test_what_may_have_spent_a_mode(session: PrimarySession, sql: str | None, kept: bool) -> None:
    session.begin(sql)
    assert command_properties.keeps_modes(session.command, session.outcome) is kept


def test_a_state_change_of_one_result_is_not_taken_back_by_the_next(
    session: PrimarySession,
) -> None:
    session.begin("CALL p()")
    session.tell(CHANGED, state_change_entry(False))
    assert session.outcome.state_changed


@pytest.mark.parametrize(
    "block", [b"\x03", b"\x03\x05\x00", entry(3, b""), entry(2, b"x"), entry(1, b"\x09a")]
)
def test_malformed_trackers(session: PrimarySession, block: bytes) -> None:
    session.begin("INSERT INTO t VALUES (1)")
    with pytest.raises(MalformedPacketError):
        session.tell(block)


# What pins.


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TEMPORARY TABLE t (id INT)",
        "LOCK TABLES t READ",
        "SELECT GET_LOCK('a', 1)",
        "HANDLER t OPEN",
        "EXECUTE s",
        "XA START 'a'",
        "SET sql_log_bin = 0",
        "SET sql_auto_is_null = 1",
        "SET optimizer_trace = 'enabled=on'",
        "SET rand_seed1 = 5",
        "SET timestamp = @x",
        "SET SESSION pseudo_replica_mode = 1",
        "SET gtid_next = 'ANONYMOUS'",
        "SET gtid_next = @x",
        "SET sql_mode = @@GLOBAL.sql_mode",
        "SET sql_mode = 4",
        "SET time_zone = @tz",
        "SET @@SESSION.max_join_size = 1 + 1",
        "SET NAMES latin1, time_zone = @tz",
        "SET NAMES 'swe7' COLLATE swe7_bin",
        "SET CHARACTER SET swe7",
        "SET character_set_client = SWE7",
        "SELECT 1; CREATE TEMPORARY TABLE t (id INT)",
    ],
)
def test_what_a_replica_cannot_be_told_pins(session: PrimarySession, sql: str) -> None:
    session.succeed(sql)
    assert session.state.pins.reasons
    session.state.reset()
    assert not session.state.pins.reasons


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "INSERT INTO t VALUES (1)",
        "BEGIN",
        "SET @a = 1",
        "SET autocommit = 0",
        "SET autocommit = @a",
        "SET gtid_next = AUTOMATIC",
        f"SET gtid_next = '{U}:9'",
        "SET foreign_key_checks = @old",
        "SET GLOBAL max_connections = 9",
        "SET PERSIST sort_buffer_size = 1",
        "SET SESSION transaction_read_only = ON",
        "SET TRANSACTION READ ONLY",
    ],
)
def test_what_concerns_no_read_on_a_replica(session: PrimarySession, sql: str) -> None:
    assert not session.succeed(sql)
    assert not session.state.pins.reasons
    assert session.state.variables == {}


def test_literals_are_carried_over(session: PrimarySession) -> None:
    session.succeed("SET NAMES latin1 COLLATE latin1_bin")
    session.succeed(
        "SET time_zone = '+05:00', @@SESSION.sort_buffer_size = 1024, sql_mode = 'ANSI'"
    )
    assert session.state.variables == {
        "names": "latin1 COLLATE latin1_bin",
        "time_zone": "'+05:00'",
        "sort_buffer_size": "1024",
        "sql_mode": "'ANSI'",
    }
    assert not session.state.pins.reasons
    assert session.state.lexer_modes.known


def test_a_one_shot_waits_for_the_next_transaction(session: PrimarySession) -> None:
    session.succeed("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    assert session.state.transaction.modes.waiting
    assert session.state.variables == {}


@pytest.mark.parametrize(
    ("sql", "spent"),
    [
        ("SELECT * FROM t", True),
        ("SELECT 1", False),
        ("SHOW WARNINGS", False),
        ("SELECT @@sql_mode", False),
        ("SET @a = 1", False),
        ("USE app", False),
        ("SAVEPOINT s", False),
        ("BEGIN", True),
        ("COMMIT", True),
        ("DELETE FROM t", True),
        ("SELECT * FROM t FOR UPDATE", True),
        ("SELECT 1 FOR UPDATE", False),
        ("TABLE t", True),
        ("SELECT * FROM (SELECT 1) AS d", False),
        ("SHOW CREATE TABLE t", False),
        ("SHOW COLUMNS FROM t", False),
        ("EXPLAIN SELECT * FROM t", False),
        ("CREATE TABLE t2 (a INT)", True),
        (None, False),
    ],
)
def test_a_one_shot_is_spent_on_what_comes_to_a_table(
    session: PrimarySession, sql: str | None, spent: bool
) -> None:
    session.begin(sql)
    assert command_properties.begins_transaction(session.command) is spent


def test_a_one_shot_is_spent_on_an_execution_and_not_on_its_preparation(
    session: PrimarySession,
) -> None:
    executed = Code.COM_STMT_EXECUTE
    for code, sql, spent in (
        (Code.COM_STMT_PREPARE, b"SELECT * FROM t", False),
        (executed, b"SELECT * FROM t", True),
        (executed, b"SELECT 1", False),
    ):
        statement = session.classifier.classify(sql, 0)
        command = Command(code, session.state.rules, statement=statement)
        assert command_properties.begins_transaction(command) is spent


def test_autocommit_is_told_by_the_statement_where_the_status_lies(session: PrimarySession) -> None:
    session.state.on_connect("", autocommit=False)
    session.succeed("SET autocommit = 1")
    assert session.state.transaction.autocommit
    assert session.state.transaction.status_tells
    for value in ("0", "OFF", "'off'", "@a", "DEFAULT"):
        session.succeed(f"SET autocommit = {value}")
        assert not session.state.transaction.autocommit


# Tracking itself.


@pytest.mark.parametrize("value", ["OFF", "OWN_GTID", "'ALL_GTIDS'", "DEFAULT", "@x"])
def test_what_touches_tracking_is_restored(session: PrimarySession, value: str) -> None:
    assert session.succeed(f"SET session_track_gtids = {value}", CHANGED)
    assert not session.state.pins.reasons
    assert not session.state.unknown
    assert session.succeed(f"SET SESSION session_track_schema = {value}")
    assert session.succeed("SET @@session_track_state_change = OFF")


def test_what_was_written_behind_it_in_the_same_command_is_unknown(session: PrimarySession) -> None:
    assert session.succeed("SET session_track_gtids = OFF; INSERT INTO t VALUES (1)", CHANGED)
    assert session.state.unknown


# State changes.


@pytest.mark.parametrize(
    "sql",
    [
        "SET time_zone = '+05:00'",
        "SET @a = 1",
        "USE app",
        "DEALLOCATE PREPARE s",
        "SET SESSION TRANSACTION READ ONLY",
        "SELECT /*+ SET_VAR(sort_buffer_size = 100000) */ 1",
        "SELECT /*+ set_var(sort_buffer_size = 100000) */ id FROM t",
    ],
)
def test_a_state_change_that_the_statement_explains(session: PrimarySession, sql: str) -> None:
    assert not session.succeed(sql, CHANGED)
    assert not session.state.pins.reasons
    assert not session.state.unknown


@pytest.mark.parametrize(
    "sql",
    [
        "CALL p()",
        "INSERT INTO t VALUES (1)",
        "SELECT f()",
        "SELECT 1",
        "SELECT @@time_zone",
        "ROLLBACK",
        "COMMIT",
        "EXECUTE s",
        "SELECT 1; INSERT INTO t VALUES (1)",
        "an unknown statement",
        None,
    ],
)
def test_a_state_change_that_nothing_explains(session: PrimarySession, sql: str | None) -> None:
    """A procedure, a trigger or an earlier failure may have changed anything."""
    assert session.succeed(sql, CHANGED)
    assert session.state.pins.reasons
    assert session.state.unknown


def test_a_command_that_writes_nothing_may_change_the_state(session: PrimarySession) -> None:
    assert not session.succeed(None, CHANGED, may_write=False)  # COM_INIT_DB
    assert not session.state.pins.reasons


# Failures.


@pytest.mark.parametrize(
    "sql", ["INSERT INTO t VALUES (1)", "SELECT 1", "SET time_zone = 'x'", "SET ROLE r"]
)
def test_a_statement_that_failed_changed_nothing(session: PrimarySession, sql: str) -> None:
    assert not session.fail(sql)
    assert not session.state.pins.reasons
    assert session.state.variables == {}
    assert not session.succeed("SET time_zone = '+05:00'", CHANGED)
    assert not session.state.pins.reasons


@pytest.mark.parametrize(
    "sql",
    [
        "SET time_zone = '+05:00'; SELECT * FROM nowhere",
        "SET session_track_gtids = OFF; SELECT * FROM nowhere",
        "SELECT GET_LOCK('a', 1); SELECT * FROM nowhere",
    ],
)
def test_of_several_statements_some_may_have_been_executed(
    session: PrimarySession, sql: str
) -> None:
    assert session.fail(sql)
    assert session.state.pins.reasons
    assert session.state.unknown


def test_a_state_change_before_the_error(session: PrimarySession) -> None:
    assert session.fail("CALL p()", CHANGED)
    assert session.state.pins.reasons


@pytest.mark.parametrize("sql", ["CALL p()", "SELECT f()", "gibberish", None])
@pytest.mark.parametrize("following", ["SET @a = 1", "ROLLBACK", "SELECT 1", None])
def test_what_a_program_changed_before_it_failed_comes_with_the_next_ok(
    session: PrimarySession, sql: str | None, following: str | None
) -> None:
    """ERR packets have no trackers, and a later SET would seem to explain the change."""
    assert not session.fail(sql)
    assert not session.state.pins.reasons
    session.state.own_scope.unknown = False
    assert session.succeed(following, CHANGED, may_write=False)
    assert session.state.pins.reasons
    assert session.state.unknown


def test_a_program_that_failed_and_changed_nothing(session: PrimarySession) -> None:
    assert not session.fail("CALL p()")
    assert not session.succeed("ROLLBACK")
    assert not session.succeed("SET time_zone = '+05:00'", CHANGED)
    assert not session.state.pins.reasons


def test_a_reset_ends_the_suspicion(session: PrimarySession) -> None:
    session.fail("CALL p()")
    session.state.reset()
    assert not session.succeed("SET time_zone = '+05:00'", CHANGED)
    assert not session.state.pins.reasons


# Writes that no tracker told of.


def test_what_a_client_was_shown_and_where(session: PrimarySession) -> None:
    scope = session.state.own_scope
    session.begin("SELECT 1")
    session.outcome.rows = 1
    effects.record_answer(
        session.command, session.outcome, session.state, session.server, session.epoch
    )
    assert (scope.seen_on, scope.seen_epoch) == (session.server, session.epoch)
    session.epoch += 1  # another incarnation may be older
    session.outcome.rows = 1
    effects.record_answer(
        session.command, session.outcome, session.state, session.server, session.epoch
    )
    assert not scope.is_known(Level.MONOTONIC_READS)
    assert scope.is_known(Level.READ_OWN_WRITES)


def test_an_answer_counts_where_it_came_from(session: PrimarySession) -> None:
    scope, area = session.state.own_scope, ConnectionArea(session.server)
    session.begin("SELECT 1")
    session.outcome.rows = 2
    assert effects.record_result(
        session.command, session.outcome, session.state, area, session.epoch
    )
    assert (scope.seen_on, scope.seen_epoch) == (session.server, session.epoch)
    assert (session.state.diagnostics.found_rows, session.state.diagnostics.found_at) == (2, area)
    doubts = scope.doubts
    assert effects.record_result(
        session.command, session.outcome, session.state, area, session.epoch
    )
    assert scope.doubts == doubts  # that is no news
    shared = session.state.scopes.get(Scope.USER, session.state.user, scope.term, 0.0)
    doubts = shared.doubts
    assert effects.record_result(
        session.command, session.outcome, session.state, area, session.epoch
    )
    assert shared.doubts > doubts  # the primary may have been asked for another session meanwhile


@pytest.mark.parametrize("sql", ["SELECT 1", "UPDATE t SET a = 1"])
def test_a_whole_set_is_observed_and_is_a_writers_own(session: PrimarySession, sql: str) -> None:
    session.begin(sql)
    executed = gtids(f"{U}:1-9")
    effects.record_observed(
        executed, session.outcome, session.state, session.server, session.command.rules, 3.0
    )
    assert (session.outcome.observed, session.outcome.own) == (executed, EMPTY)
    assert session.state.own_scope.observed == executed
    assert session.state.required == (executed if session.outcome.may_write else EMPTY)


@pytest.mark.parametrize(
    ("sql", "rows", "showed"),
    [
        ("SELECT 1", 0, True),  # an empty result shows something, too
        ("SELECT a FROM t FOR UPDATE", 0, True),
        ("INSERT INTO t VALUES (1)", 0, False),
        ("UPDATE t SET a = 1", 0, False),
        ("ANALYZE TABLE t", 4, True),
        ("CALL p()", 0, True),  # it may have had a result without rows
        ("INSERT INTO t VALUES (1); SELECT a FROM t", 0, True),
    ],
)
def test_a_write_shows_nothing_but_itself(
    session: PrimarySession, sql: str, rows: int, showed: bool
) -> None:
    session.begin(sql)
    session.outcome.rows = rows
    effects.record_answer(
        session.command, session.outcome, session.state, session.server, session.epoch
    )
    assert (session.state.own_scope.seen_on is not None) is showed


def test_a_set_of_the_whole_primary_covers_all_that_was_written_before(
    session: PrimarySession,
) -> None:
    session.tracks_all = True
    session.state.may_have_written()
    session.begin("SELECT 1")
    session.tell(gtids_entry(gtids(f"{U}:1-9")))
    assert session.state.own_scope.is_known(Level.MONOTONIC_READS)
    assert session.state.own_scope.everything == gtids(f"{U}:1-9")


def test_a_write_that_is_not_tracked_is_not_forgotten() -> None:
    session = PrimarySession(Level.BEST_EFFORT)
    session.begin("UPDATE t SET a = 1")
    session.outcome.rows = 1
    effects.record_answer(
        session.command, session.outcome, session.state, session.server, session.epoch
    )
    assert session.state.unknown
    session = PrimarySession()
    session.begin("UPDATE t SET a = 1")
    session.outcome.rows = 1
    effects.record_answer(
        session.command, session.outcome, session.state, session.server, session.epoch
    )
    assert not session.state.unknown


# What a session holds.


def test_a_row_tells_whether_a_lock_was_taken(session: PrimarySession) -> None:
    for row, held in ((b"\x010", False), (b"\xfb", False), (b"\x011", True)):
        session.begin("SELECT GET_LOCK('a', 1)")
        effects.apply_success(session.command, session.outcome, session.state, row)
        assert bool(session.state.pins.reasons) is held
    session.begin("SELECT RELEASE_LOCK('a')")
    effects.apply_success(
        session.command, session.outcome, session.state, b"\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"
    )
    assert not session.state.pins.reasons


@pytest.mark.parametrize("release", ["RELEASE_LOCK('a')", "RELEASE_ALL_LOCKS()"])
def test_a_select_without_a_row_releases_no_lock(session: PrimarySession, release: str) -> None:
    session.succeed("SELECT GET_LOCK('a', 1)")
    session.succeed(f"SELECT {release}")
    session.begin(f"SELECT {release}; SELECT 1")
    session.outcome.rows = 1
    effects.apply_success(session.command, session.outcome, session.state)
    assert session.state.pins.text == "named lock a"
    session.begin(f"SELECT {release}")
    session.outcome.rows = 1
    effects.apply_success(session.command, session.outcome, session.state)
    assert not session.state.pins.reasons
    session.succeed("SELECT GET_LOCK('a', 1)")
    session.succeed(f"DO {release}")
    assert not session.state.pins.reasons


def test_several_statements_and_their_first_row(session: PrimarySession) -> None:
    session.begin("SELECT GET_LOCK('a', 1); SELECT GET_LOCK('b', 1)")
    effects.apply_success(session.command, session.outcome, session.state, b"\x010")
    assert session.state.pins.text == "named lock a, named lock b"


def test_a_schema_may_change_between_several_statements(session: PrimarySession) -> None:
    session.state.schema = "app"
    session.succeed("CREATE TEMPORARY TABLE t (a INT); USE app")
    session.succeed("DROP TABLE app.t")
    assert session.state.pins.text == "temporary table"


def test_a_lock_that_was_taken_before_the_statement_failed_is_held(session: PrimarySession) -> None:
    assert not session.fail("SELECT GET_LOCK('a', 1)")
    assert session.state.pins.text == "named lock a"
    session.fail("SELECT RELEASE_LOCK('a')")
    session.fail("CREATE TEMPORARY TABLE t (a INT)")
    assert session.state.pins.text == "named lock a"


def test_an_xa_transaction_ends_with_the_status_flag(session: PrimarySession) -> None:
    session.state.transaction.on_restore(IN_TRANS)
    session.succeed("XA START 'a'")
    session.succeed("XA END 'a'")
    assert session.state.pins.text == "xa transaction"
    session.state.transaction.on_restore(0)
    session.succeed("XA PREPARE 'a'")
    assert not session.state.pins.reasons


@pytest.mark.parametrize("end", ["XA ROLLBACK 'a'", "xa  commit 'a' one phase"])
def test_an_xa_transaction_with_an_error_ends_with_its_own_statement(
    session: PrimarySession, end: str
) -> None:
    session.state.transaction.on_restore(IN_TRANS)
    session.succeed("XA START 'a'")
    session.fail("UPDATE t SET a = 1")
    session.state.transaction.on_restore(0)  # a deadlock has rolled it back
    session.succeed("SELECT 1")
    session.succeed("SAVEPOINT a")
    assert session.state.pins.text.startswith("xa transaction")
    session.succeed(end)
    assert not session.state.pins.reasons


# User variables.


def test_user_variables_that_set_assigns_literals(session: PrimarySession) -> None:
    session.succeed("SET @a = 5, @b = 'x', @c = @a + 1", CHANGED)
    variables = session.state.user_variables
    assert (variables.value("a"), variables.value("b"), variables.value("c")) == ("5", "'x'", None)
    session.succeed("SELECT @a := 6")
    assert variables.value("a") is None
    assert variables.know(("b", "d"))


@pytest.mark.parametrize(
    "sql",
    [
        "SET NAMES latin1",
        "SET sql_mode = ''",
        "SET collation_connection = latin1_bin",
        "SET @a = 'x', NAMES latin1",
        "SET NAMES latin1, @a = 'x'",
    ],
)
def test_strings_depend_on_how_they_are_read(session: PrimarySession, sql: str) -> None:
    session.succeed("SET @a = 'x', @b = 1")
    session.succeed(sql)
    assert session.state.user_variables.value("a") is None
    assert session.state.user_variables.value("b") == "1"


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(
    ("sql", "forgets"),
    [
        ("INSERT INTO t VALUES (1)", True),  # a trigger
        ("CALL p()", True),
        ("SELECT f()", True),
        ("EXECUTE s", True),
        ("CREATE TABLE t SELECT f()", True),
        ("SELECT 1; INSERT INTO t VALUES (1)", True),
        ("SELECT 1; SELECT 2", False),
        (None, True),
        ("SELECT 1", False),
        ("SELECT a FROM t FOR UPDATE", False),
        ("CREATE TEMPORARY TABLE t (a INT)", False),
        ("SELECT @@sql_mode", False),
        ("COMMIT", False),
        ("SET time_zone = '+00:00'", False),
    ],
)
def test_what_may_assign_any_user_variable(
    session: PrimarySession, sql: str | None, forgets: bool, ends: bool
) -> None:
    session.succeed("SET @a = 5")
    if ends:
        session.succeed(sql)
    else:
        session.fail(sql)
    assert session.state.user_variables.know(("a", "b")) is not forgets


def test_an_assignment_that_failed_may_have_been_done(session: PrimarySession) -> None:
    session.fail("SET @a = 5")
    session.fail("SELECT 5 INTO @b")
    variables = session.state.user_variables
    assert (variables.value("a"), variables.value("b"), variables.value("c")) == (
        None,
        None,
        "",
    )


def test_a_reset_makes_them_null(session: PrimarySession) -> None:
    session.succeed("SET @a = 5")
    session.state.reset()
    assert session.state.user_variables.value("a") == ""


# System variables that trackers tell.


def variable_trackers(**values: str) -> bytes:
    return b"".join(system_variable_entry(name, value) for name, value in values.items())


@pytest.mark.parametrize(
    "sql",
    [
        "SET time_zone = @old",
        "SET time_zone = DEFAULT",
        "SET @@time_zone = CONCAT('+05', ':00')",
        "SELECT 1; SET time_zone = @old",
        "SET time_zone = '+5:00'",
    ],
)
def test_a_value_that_a_tracker_tells_is_carried(session: PrimarySession, sql: str) -> None:
    session.succeed("SET group_concat_max_len = @x")
    assert session.state.pins.text == "variable group_concat_max_len"
    assert not session.succeed(sql, variable_trackers(time_zone="+05:00"), CHANGED)
    assert session.state.variables["time_zone"] == "'+05:00'"
    assert not session.succeed(
        "SET group_concat_max_len = @y", variable_trackers(group_concat_max_len="9"), CHANGED
    )
    assert session.state.variables["group_concat_max_len"] == "9"
    assert not session.state.pins.reasons


def test_what_a_program_sets_is_carried(session: PrimarySession) -> None:
    assert session.succeed(
        "CALL p()", variable_trackers(sql_mode="ANSI_QUOTES", lc_time_names="de_DE"), CHANGED
    )
    assert session.state.variables == {"sql_mode": "'ANSI_QUOTES'", "lc_time_names": "'de_DE'"}
    assert session.state.lexer_modes.flags & MODE_ANSI_QUOTES
    assert session.state.pins.text == "unknown"  # it may also have made a temporary table


@pytest.mark.parametrize(
    "sql",
    [
        "SET NAMES utf8mb4",
        "SET CHARACTER SET latin1",
        "SET character_set_client = latin1",
        "SET NAMES swe7, character_set_client = latin1",
    ],
)
def test_a_client_that_leaves_swe7_leaves_the_primary(session: PrimarySession, sql: str) -> None:
    trackers = variable_trackers(character_set_client="swe7")
    session.succeed("SET character_set_client = @x", trackers, CHANGED)
    assert session.state.pins.reasons
    session.succeed(sql)
    assert not session.state.pins.reasons


def test_sql_mode_is_known_by_its_tracker(session: PrimarySession) -> None:
    session.succeed("SET sql_mode = 4")
    assert not session.state.lexer_modes.known
    session.succeed("SET sql_mode = 4", variable_trackers(sql_mode="ANSI_QUOTES"))
    assert session.state.lexer_modes.known
    assert session.state.lexer_modes.flags & MODE_ANSI_QUOTES
    assert not session.state.pins.reasons


@pytest.mark.parametrize("name", ["sql_log_bin", "sql_auto_is_null", "profiling"])
def test_variables_that_keep_a_session_on_the_primary(session: PrimarySession, name: str) -> None:
    harmless = "ON" if name == "sql_log_bin" else "OFF"
    harmful = "OFF" if name == "sql_log_bin" else "ON"
    session.succeed(f"SET {name} = @x", variable_trackers(**{name: harmful}), CHANGED)
    assert session.state.pins.text == f"variable {name}"
    session.succeed(f"SET {name} = @x", variable_trackers(**{name: harmless}), CHANGED)
    assert not session.state.pins.reasons
    session.succeed(f"SET {name} = {harmful}")
    assert session.state.pins.reasons
    session.succeed(f"SET {name} = '{harmless.lower()}'")
    assert not session.state.pins.reasons
    assert not session.state.variables


def test_set_names_is_carried_with_its_collation(session: PrimarySession) -> None:
    trackers = variable_trackers(
        character_set_client="latin1",
        character_set_connection="latin1",
        character_set_results="latin1",
    )
    session.succeed("SET NAMES latin1 COLLATE latin1_bin", trackers, CHANGED)
    assert session.state.variables == {"names": "latin1 COLLATE latin1_bin"}
    session.succeed("SET NAMES DEFAULT", trackers, CHANGED)
    assert list(session.state.variables)[1:] == [
        *("character_set_client", "character_set_connection", "character_set_results")
    ]


def test_no_character_set_for_results(session: PrimarySession) -> None:
    session.succeed(
        "SET character_set_results = @x", variable_trackers(character_set_results=""), CHANGED
    )
    assert session.state.variables == {"character_set_results": "NULL"}


@pytest.mark.parametrize("value", ["a'b", "a\\b", "é"])
def test_a_value_that_cannot_be_written_pins(session: PrimarySession, value: str) -> None:
    session.succeed("SET lc_messages = @x", variable_trackers(lc_messages=value), CHANGED)
    assert session.state.pins.text == "variable lc_messages"
    assert not session.state.variables


def test_what_a_program_does_to_tracking_is_restored(session: PrimarySession) -> None:
    tracking = variable_trackers(
        session_track_gtids="ALL_GTIDS", session_track_system_variables="*"
    )
    assert session.succeed("CALL p()", tracking, CHANGED)
    assert session.state.trackers.gtids == "ALL_GTIDS"
    assert session.state.trackers.shown_variables == "*"


def test_roles_are_carried_as_they_are_written(session: PrimarySession) -> None:
    assert not session.succeed("SET ROLE a, `b`")
    assert (session.state.role, session.state.role_version) == ("a , `b`", 1)
    session.succeed("SET ROLE NONE")
    session.succeed("SET ROLE NONE")
    assert (session.state.role, session.state.role_version) == ("NONE", 3)
    assert not session.state.variables
    assert not session.state.pins.reasons


def test_a_replica_tells_nothing_of_the_session(session: PrimarySession) -> None:
    session.server.role = Role.REPLICA
    session.succeed("SELECT 1", variable_trackers(time_zone="+05:00"))
    assert not session.state.variables


def test_flags_of_the_optimizer_add_up(session: PrimarySession) -> None:
    session.succeed(
        "SET optimizer_switch = 'mrr=off'", variable_trackers(optimizer_switch="mrr=off,a=on")
    )
    session.succeed('SET optimizer_switch = "a=off"')
    assert session.state.variables == {FLAGS: "'mrr=off,a=off'"}
    session.succeed("SET optimizer_switch = 'mrr=on'")
    assert session.state.variables == {FLAGS: "'mrr=on,a=off'"}
    session.succeed("SET optimizer_switch = 'default'")
    assert session.state.variables == {"optimizer_switch": "'default'"}
    session.succeed("SET optimizer_switch = 'a=on'")
    assert list(session.state.variables.items()) == [
        ("optimizer_switch", "'default'"),
        (FLAGS, "'a=on'"),
    ]
    version = session.state.variables_version
    session.succeed("SET optimizer_switch = 'default'")
    assert session.state.variables == {"optimizer_switch": "'default'"}
    assert session.state.variables_version != version
    session.succeed("SET optimizer_switch = @x")
    assert session.state.pins.text == "variable optimizer_switch"
    session.succeed("SET optimizer_switch = 'a=on\\n'")
    assert session.state.pins.text == "variable optimizer_switch"
    session.succeed("SET optimizer_switch = DEFAULT")
    assert not session.state.pins.reasons


# What a program hides.


HIDDEN = [
    system_variable_entry("session_track_gtids", "OFF"),
    system_variable_entry("session_track_state_change", "OFF"),
    system_variable_entry("session_track_system_variables", ""),
    b"",
]


@pytest.mark.parametrize("block", HIDDEN)
@pytest.mark.parametrize("sql", ["CALL p()", "SELECT f()", "INSERT INTO t VALUES (1)"])
def test_a_program_that_changes_what_is_told_is_not_trusted(
    session: PrimarySession, sql: str, block: bytes
) -> None:
    assert session.succeed(sql, block)
    assert session.state.unknown
    assert PinReason.UNKNOWN in session.state.pins.reasons
    assert session.outcome.unlogged == (b"system_variables" in block)


@pytest.mark.parametrize("block", HIDDEN)
def test_also_where_it_failed_and_the_next_answer_tells(
    session: PrimarySession, block: bytes
) -> None:
    session.fail("CALL p()")
    session.state.own_scope.on_probe(EMPTY, session.state.own_scope.doubts)
    assert session.succeed("SELECT 1", block) == bool(block)


def test_an_empty_block_behind_an_error_hides_nothing(session: PrimarySession) -> None:
    session.state.may_have_written()  # as after each error
    assert not session.succeed("CALL p()", b"")


@pytest.mark.parametrize("name", ["session_track_gtids", "session_track_state_change"])
def test_a_set_that_shows_what_it_sets_is_trusted(session: PrimarySession, name: str) -> None:
    assert session.succeed(f"SET SESSION {name} = OFF", system_variable_entry(name, "OFF"))
    assert not session.state.unknown
    assert not session.state.pins.reasons


# Writes that are not logged.


def unlogged(session: PrimarySession, sql: str, *blocks: bytes, logged: bool = True) -> bool:
    session.succeed(sql, *blocks)
    return effects.is_unlogged_write(session.command, session.outcome, session.server, logged)


OFF_AND_ON = system_variable_entry("sql_log_bin", "ON")


@pytest.mark.parametrize(
    ("sql", "writes"),
    [
        ("UPDATE t SET a = 1", True),
        ("CREATE TABLE t (a INT)", True),
        ("GRANT SELECT ON t TO u", True),
        ("CALL p()", True),
        ("SELECT f()", True),
        ("EXECUTE s", True),
        ("LOAD DATA INFILE 'x' INTO TABLE t", True),
        ("BINLOG 'x'", True),
        ("SELECT a FROM t", False),
        ("SET @x = 1", False),
        ("BEGIN", False),
        ("COMMIT", False),
        ("ANALYZE TABLE t", False),
        ("OPTIMIZE TABLE t", False),
        ("SELECT a FROM t FOR UPDATE", False),
        ("CREATE TEMPORARY TABLE t (a INT)", False),
        ("SELECT 1; SELECT 2", False),
    ],
)
def test_what_is_written_while_nothing_is_logged(
    session: PrimarySession, sql: str, writes: bool
) -> None:
    assert unlogged(session, sql, logged=False) == writes
    assert not unlogged(session, sql)
    session.server.gtids = False
    assert unlogged(session, sql) == writes


@pytest.mark.parametrize(
    ("sql", "writes"),
    [
        ("CALL p()", True),
        ("SELECT f()", True),
        ("SET sql_log_bin = 0; UPDATE t SET a = 1; SET sql_log_bin = 1", True),
        ("SET sql_log_bin = 0", False),
        ("SET sql_log_bin = 0; SELECT 1", False),
    ],
)
def test_what_a_tracker_tells_of_logging(session: PrimarySession, sql: str, writes: bool) -> None:
    assert unlogged(session, sql, OFF_AND_ON) == writes


def test_what_failed_may_have_written_without_logging(session: PrimarySession) -> None:
    session.fail("CALL p()")
    assert unlogged(session, "SELECT 1", OFF_AND_ON)


def test_a_table_that_is_imported_is_not_logged(session: PrimarySession) -> None:
    assert unlogged(session, "IMPORT TABLE FROM 'x.sdi'")


def test_an_import_that_is_refused_has_written_nothing(session: PrimarySession) -> None:
    """Or any account could keep everybody's reads on the primary."""
    session.fail("IMPORT TABLE FROM 'x.sdi'")
    assert effects.is_unlogged_write(session.command, session.outcome, session.server, logged=True)
    session.outcome.error = ServerErrorCode.ER_ACCESS_DENIED_ERROR.code
    assert not effects.is_unlogged_write(
        session.command, session.outcome, session.server, logged=True
    )
