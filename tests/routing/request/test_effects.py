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


class On:
    """A session and its connection to the primary."""

    def __init__(self, level: Level = Level.READ_OWN_WRITES) -> None:
        self.state = Session(Rules(level, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY), 0)
        self.server = Server("primary:3306", Role.PRIMARY)
        self.server.observed(U, (0, 0), EMPTY, EMPTY)
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
        return effects.succeeded(self.command, self.outcome, self.state)

    def fail(self, sql: str | None, *blocks: bytes, may_write: bool = True) -> bool:
        self.begin(sql, may_write=may_write)
        self.tell(*blocks)
        return effects.failed(self.command, self.outcome, self.state)


@pytest.fixture
def on() -> On:
    return On()


CHANGED = state_change_entry(True)


# Trackers.


def test_gtids_of_every_packet_join_what_is_required_and_what_is_applied(on: On) -> None:
    on.state.wrote(gtids(f"{U}:1"), on.server)
    on.begin("INSERT INTO t VALUES (1)")
    on.tell(gtids_entry(gtids(f"{U}:5")), b"", gtids_entry(gtids(f"{U}:7")))
    on.tell(gtids_entry(gtids(f"{U}:6")))
    assert on.state.required == gtids(f"{U}:1:5-7")
    assert on.outcome.own == gtids(f"{U}:5-7")
    assert on.server.applied == gtids(f"{U}:5-7")
    assert (on.tracked, on.unread) == (3, 0)


def test_gtids_of_a_connection_to_an_earlier_incarnation_prove_nothing(on: On) -> None:
    on.server.observed("another", (0, 0), EMPTY, EMPTY)
    on.begin("INSERT INTO t VALUES (1)")
    on.tell(gtids_entry(gtids(f"{U}:5")))
    assert on.state.required == gtids(f"{U}:5")
    assert on.server.applied == EMPTY


def test_an_encoding_that_is_unknown_makes_the_required_set_unknown(on: On) -> None:
    on.begin("INSERT INTO t VALUES (1)")
    on.tell(entry(3, b"\x05whatever") + gtids_entry(gtids(f"{U}:5")))
    assert on.state.unknown
    assert on.state.required == gtids(f"{U}:5")
    assert (on.tracked, on.unread) == (1, 1)


def test_the_schema(on: On) -> None:
    on.begin("USE app")
    on.tell(schema_entry("app"))
    assert on.state.schema == "app"
    on.tell(schema_entry(""))
    assert on.state.schema == ""


def test_other_trackers_are_passed_over(on: On) -> None:
    on.begin("SELECT 1")
    on.tell(system_variable_entry("identity", "7") + entry(4, b"\0") + entry(77, b"x"))
    assert not on.outcome.state_changed
    assert on.state.variables == {}


def test_a_tracker_tells_autocommit_even_where_the_status_lies(on: On) -> None:
    on.state.connected("", autocommit=False)
    on.succeed("SET autocommit = 0", system_variable_entry("autocommit", "OFF"))
    assert not on.state.transaction.autocommit
    assert not on.state.transaction.status_tells
    on.succeed("SET autocommit = DEFAULT", system_variable_entry("autocommit", "ON"))
    assert on.state.transaction.autocommit
    assert on.state.transaction.status_tells


def test_only_a_tracker_s_word_makes_a_session_read_only(on: On) -> None:
    on.succeed("SET SESSION TRANSACTION READ ONLY")
    assert not on.state.transaction.modes.read_only
    on.succeed(
        "SET SESSION TRANSACTION READ ONLY", system_variable_entry("transaction_read_only", "ON")
    )
    assert on.state.transaction.modes.read_only
    on.succeed("CALL p()", system_variable_entry("transaction_read_only", "OFF"))
    assert not on.state.transaction.modes.read_only


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
def test_what_may_have_spent_a_mode(on: On, sql: str | None, kept: bool) -> None:
    on.begin(sql)
    assert command_properties.keeps_modes(on.command, on.outcome) is kept


def test_a_state_change_of_one_result_is_not_taken_back_by_the_next(on: On) -> None:
    on.begin("CALL p()")
    on.tell(CHANGED, state_change_entry(False))
    assert on.outcome.state_changed


@pytest.mark.parametrize(
    "block", [b"\x03", b"\x03\x05\x00", entry(3, b""), entry(2, b"x"), entry(1, b"\x09a")]
)
def test_malformed_trackers(on: On, block: bytes) -> None:
    on.begin("INSERT INTO t VALUES (1)")
    with pytest.raises(MalformedPacketError):
        on.tell(block)


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
        "SELECT 1; CREATE TEMPORARY TABLE t (id INT)",
    ],
)
def test_what_a_replica_cannot_be_told_pins(on: On, sql: str) -> None:
    on.succeed(sql)
    assert on.state.pins.reasons
    on.state.reset()
    assert not on.state.pins.reasons


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
def test_what_concerns_no_read_on_a_replica(on: On, sql: str) -> None:
    assert not on.succeed(sql)
    assert not on.state.pins.reasons
    assert on.state.variables == {}


def test_literals_are_carried_over(on: On) -> None:
    on.succeed("SET NAMES latin1 COLLATE latin1_bin")
    on.succeed("SET time_zone = '+05:00', @@SESSION.sort_buffer_size = 1024, sql_mode = 'ANSI'")
    assert on.state.variables == {
        "names": "latin1 COLLATE latin1_bin",
        "time_zone": "'+05:00'",
        "sort_buffer_size": "1024",
        "sql_mode": "'ANSI'",
    }
    assert not on.state.pins.reasons
    assert on.state.lexer_modes.known


def test_a_one_shot_waits_for_the_next_transaction(on: On) -> None:
    on.succeed("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    assert on.state.transaction.modes.waiting
    assert on.state.variables == {}


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
        ("CREATE TABLE t2 (a INT)", True),
        (None, False),
    ],
)
def test_a_one_shot_is_spent_on_what_comes_to_a_table(on: On, sql: str | None, spent: bool) -> None:
    on.begin(sql)
    assert command_properties.began_transaction(on.command) is spent


def test_a_one_shot_is_spent_on_an_execution_and_not_on_its_preparation(on: On) -> None:
    statement = on.classifier.classify(b"SELECT * FROM t", 0)
    for code, spent in ((Code.COM_STMT_PREPARE, False), (Code.COM_STMT_EXECUTE, True)):
        command = Command(code, on.state.rules, statement=statement)
        assert command_properties.began_transaction(command) is spent


def test_autocommit_is_told_by_the_statement_where_the_status_lies(on: On) -> None:
    on.state.connected("", autocommit=False)
    on.succeed("SET autocommit = 1")
    assert on.state.transaction.autocommit
    assert on.state.transaction.status_tells
    for value in ("0", "OFF", "'off'", "@a", "DEFAULT"):
        on.succeed(f"SET autocommit = {value}")
        assert not on.state.transaction.autocommit


# Tracking itself.


@pytest.mark.parametrize("value", ["OFF", "OWN_GTID", "'ALL_GTIDS'", "DEFAULT", "@x"])
def test_what_touches_tracking_is_restored(on: On, value: str) -> None:
    assert on.succeed(f"SET session_track_gtids = {value}", CHANGED)
    assert not on.state.pins.reasons
    assert not on.state.unknown
    assert on.succeed(f"SET SESSION session_track_schema = {value}")
    assert on.succeed("SET @@session_track_state_change = OFF")


def test_what_was_written_behind_it_in_the_same_command_is_unknown(on: On) -> None:
    assert on.succeed("SET session_track_gtids = OFF; INSERT INTO t VALUES (1)", CHANGED)
    assert on.state.unknown


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
def test_a_state_change_that_the_statement_explains(on: On, sql: str) -> None:
    assert not on.succeed(sql, CHANGED)
    assert not on.state.pins.reasons
    assert not on.state.unknown


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
def test_a_state_change_that_nothing_explains(on: On, sql: str | None) -> None:
    """A procedure, a trigger or an earlier failure may have changed anything."""
    assert on.succeed(sql, CHANGED)
    assert on.state.pins.reasons
    assert on.state.unknown


def test_a_command_that_writes_nothing_may_change_the_state(on: On) -> None:
    assert not on.succeed(None, CHANGED, may_write=False)  # COM_INIT_DB
    assert not on.state.pins.reasons


# Failures.


@pytest.mark.parametrize(
    "sql", ["INSERT INTO t VALUES (1)", "SELECT 1", "SET time_zone = 'x'", "SET ROLE r"]
)
def test_a_statement_that_failed_changed_nothing(on: On, sql: str) -> None:
    assert not on.fail(sql)
    assert not on.state.pins.reasons
    assert on.state.variables == {}
    assert not on.succeed("SET time_zone = '+05:00'", CHANGED)
    assert not on.state.pins.reasons


@pytest.mark.parametrize(
    "sql",
    [
        "SET time_zone = '+05:00'; SELECT * FROM nowhere",
        "SET session_track_gtids = OFF; SELECT * FROM nowhere",
        "SELECT GET_LOCK('a', 1); SELECT * FROM nowhere",
    ],
)
def test_of_several_statements_some_may_have_been_executed(on: On, sql: str) -> None:
    assert on.fail(sql)
    assert on.state.pins.reasons
    assert on.state.unknown


def test_a_state_change_before_the_error(on: On) -> None:
    assert on.fail("CALL p()", CHANGED)
    assert on.state.pins.reasons


@pytest.mark.parametrize("sql", ["CALL p()", "SELECT f()", "gibberish", None])
@pytest.mark.parametrize("following", ["SET @a = 1", "ROLLBACK", "SELECT 1", None])
def test_what_a_program_changed_before_it_failed_comes_with_the_next_ok(
    on: On, sql: str | None, following: str | None
) -> None:
    """ERR packets have no trackers, and a later SET would seem to explain the change."""
    assert not on.fail(sql)
    assert not on.state.pins.reasons
    on.state.own_scope.unknown = False
    assert on.succeed(following, CHANGED, may_write=False)
    assert on.state.pins.reasons
    assert on.state.unknown


def test_a_program_that_failed_and_changed_nothing(on: On) -> None:
    assert not on.fail("CALL p()")
    assert not on.succeed("ROLLBACK")
    assert not on.succeed("SET time_zone = '+05:00'", CHANGED)
    assert not on.state.pins.reasons


def test_a_reset_ends_the_suspicion(on: On) -> None:
    on.fail("CALL p()")
    on.state.reset()
    assert not on.succeed("SET time_zone = '+05:00'", CHANGED)
    assert not on.state.pins.reasons


# Writes that no tracker told of.


def test_what_a_client_was_shown_and_where(on: On) -> None:
    scope = on.state.own_scope
    on.begin("SELECT 1")
    on.outcome.rows = 1
    effects.shown(on.command, on.outcome, on.state, on.server, on.epoch)
    assert (scope.seen_on, scope.seen_epoch) == (on.server, on.epoch)
    on.epoch += 1  # another incarnation may be older
    on.outcome.rows = 1
    effects.shown(on.command, on.outcome, on.state, on.server, on.epoch)
    assert not scope.is_known(Level.MONOTONIC_READS)
    assert scope.is_known(Level.READ_OWN_WRITES)


def test_an_answer_counts_where_it_came_from(on: On) -> None:
    scope, area = on.state.own_scope, ConnectionArea(on.server)
    on.begin("SELECT 1")
    on.outcome.rows = 2
    assert effects.answered(on.command, on.outcome, on.state, area, on.epoch)
    assert (scope.seen_on, scope.seen_epoch) == (on.server, on.epoch)
    assert (on.state.diagnostics.found_rows, on.state.diagnostics.found_at) == (2, area)
    doubts = scope.doubts
    assert effects.answered(on.command, on.outcome, on.state, area, on.epoch)
    assert scope.doubts == doubts  # that is no news
    shared = on.state.scopes.get(Scope.USER, on.state.user, scope.term, 0.0)
    doubts = shared.doubts
    assert effects.answered(on.command, on.outcome, on.state, area, on.epoch)
    assert shared.doubts > doubts  # the primary may have been asked for another session meanwhile


@pytest.mark.parametrize("sql", ["SELECT 1", "UPDATE t SET a = 1"])
def test_a_whole_set_is_observed_and_is_a_writers_own(on: On, sql: str) -> None:
    on.begin(sql)
    told = gtids(f"{U}:1-9")
    effects.observed(told, on.outcome, on.state, on.server, on.command.rules, 3.0)
    assert (on.outcome.observed, on.outcome.own) == (told, EMPTY)
    assert on.state.own_scope.observed == told
    assert on.state.required == (told if on.outcome.may_write else EMPTY)


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
def test_a_write_shows_nothing_but_itself(on: On, sql: str, rows: int, showed: bool) -> None:
    on.begin(sql)
    on.outcome.rows = rows
    effects.shown(on.command, on.outcome, on.state, on.server, on.epoch)
    assert (on.state.own_scope.seen_on is not None) is showed


def test_a_set_of_the_whole_primary_covers_all_that_was_written_before(on: On) -> None:
    on.tracks_all = True
    on.state.may_have_written()
    on.begin("SELECT 1")
    on.tell(gtids_entry(gtids(f"{U}:1-9")))
    assert on.state.own_scope.is_known(Level.MONOTONIC_READS)
    assert on.state.own_scope.everything == gtids(f"{U}:1-9")


def test_a_write_that_is_not_tracked_is_not_forgotten() -> None:
    on = On(Level.BEST_EFFORT)
    on.begin("UPDATE t SET a = 1")
    on.outcome.rows = 1
    effects.shown(on.command, on.outcome, on.state, on.server, on.epoch)
    assert on.state.unknown
    on = On()
    on.begin("UPDATE t SET a = 1")
    on.outcome.rows = 1
    effects.shown(on.command, on.outcome, on.state, on.server, on.epoch)
    assert not on.state.unknown


# What a session holds.


def test_a_row_tells_whether_a_lock_was_taken(on: On) -> None:
    for row, held in ((b"\x010", False), (b"\xfb", False), (b"\x011", True)):
        on.begin("SELECT GET_LOCK('a', 1)")
        effects.succeeded(on.command, on.outcome, on.state, row)
        assert bool(on.state.pins.reasons) is held
    on.begin("SELECT RELEASE_LOCK('a')")
    effects.succeeded(on.command, on.outcome, on.state, b"\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00")
    assert not on.state.pins.reasons


@pytest.mark.parametrize("release", ["RELEASE_LOCK('a')", "RELEASE_ALL_LOCKS()"])
def test_a_select_without_a_row_releases_no_lock(on: On, release: str) -> None:
    on.succeed("SELECT GET_LOCK('a', 1)")
    on.succeed(f"SELECT {release}")
    on.begin(f"SELECT {release}; SELECT 1")
    on.outcome.rows = 1
    effects.succeeded(on.command, on.outcome, on.state)
    assert on.state.pins.text == "named lock a"
    on.begin(f"SELECT {release}")
    on.outcome.rows = 1
    effects.succeeded(on.command, on.outcome, on.state)
    assert not on.state.pins.reasons
    on.succeed("SELECT GET_LOCK('a', 1)")
    on.succeed(f"DO {release}")
    assert not on.state.pins.reasons


def test_several_statements_and_their_first_row(on: On) -> None:
    on.begin("SELECT GET_LOCK('a', 1); SELECT GET_LOCK('b', 1)")
    effects.succeeded(on.command, on.outcome, on.state, b"\x010")
    assert on.state.pins.text == "named lock a, named lock b"


def test_a_schema_may_change_between_several_statements(on: On) -> None:
    on.state.schema = "app"
    on.succeed("CREATE TEMPORARY TABLE t (a INT); USE app")
    on.succeed("DROP TABLE app.t")
    assert on.state.pins.text == "temporary table"


def test_a_lock_that_was_taken_before_the_statement_failed_is_held(on: On) -> None:
    assert not on.fail("SELECT GET_LOCK('a', 1)")
    assert on.state.pins.text == "named lock a"
    on.fail("SELECT RELEASE_LOCK('a')")
    on.fail("CREATE TEMPORARY TABLE t (a INT)")
    assert on.state.pins.text == "named lock a"


def test_an_xa_transaction_ends_with_the_status_flag(on: On) -> None:
    on.state.transaction.restored(IN_TRANS)
    on.succeed("XA START 'a'")
    on.succeed("XA END 'a'")
    assert on.state.pins.text == "xa transaction"
    on.state.transaction.restored(0)
    on.succeed("XA PREPARE 'a'")
    assert not on.state.pins.reasons


# User variables.


def test_user_variables_that_set_assigns_literals(on: On) -> None:
    on.succeed("SET @a = 5, @b = 'x', @c = @a + 1", CHANGED)
    variables = on.state.user_variables
    assert (variables.value("a"), variables.value("b"), variables.value("c")) == ("5", "'x'", None)
    on.succeed("SELECT @a := 6")
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
def test_strings_depend_on_how_they_are_read(on: On, sql: str) -> None:
    on.succeed("SET @a = 'x', @b = 1")
    on.succeed(sql)
    assert on.state.user_variables.value("a") is None
    assert on.state.user_variables.value("b") == "1"


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
    on: On, sql: str | None, forgets: bool, ends: bool
) -> None:
    on.succeed("SET @a = 5")
    if ends:
        on.succeed(sql)
    else:
        on.fail(sql)
    assert on.state.user_variables.know(("a", "b")) is not forgets


def test_an_assignment_that_failed_may_have_been_done(on: On) -> None:
    on.fail("SET @a = 5")
    on.fail("SELECT 5 INTO @b")
    variables = on.state.user_variables
    assert (variables.value("a"), variables.value("b"), variables.value("c")) == (
        None,
        None,
        "",
    )


def test_a_reset_makes_them_null(on: On) -> None:
    on.succeed("SET @a = 5")
    on.state.reset()
    assert on.state.user_variables.value("a") == ""


# System variables that trackers tell.


def told(**values: str) -> bytes:
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
def test_a_value_that_a_tracker_tells_is_carried(on: On, sql: str) -> None:
    on.succeed("SET group_concat_max_len = @x")
    assert on.state.pins.text == "variable group_concat_max_len"
    assert not on.succeed(sql, told(time_zone="+05:00"), CHANGED)
    assert on.state.variables["time_zone"] == "'+05:00'"
    assert not on.succeed("SET group_concat_max_len = @y", told(group_concat_max_len="9"), CHANGED)
    assert on.state.variables["group_concat_max_len"] == "9"
    assert not on.state.pins.reasons


def test_what_a_program_sets_is_carried(on: On) -> None:
    assert on.succeed("CALL p()", told(sql_mode="ANSI_QUOTES", lc_time_names="de_DE"), CHANGED)
    assert on.state.variables == {"sql_mode": "'ANSI_QUOTES'", "lc_time_names": "'de_DE'"}
    assert on.state.lexer_modes.flags & MODE_ANSI_QUOTES
    assert on.state.pins.text == "unknown"  # it may also have made a temporary table


def test_sql_mode_is_known_by_its_tracker(on: On) -> None:
    on.succeed("SET sql_mode = 4")
    assert not on.state.lexer_modes.known
    on.succeed("SET sql_mode = 4", told(sql_mode="ANSI_QUOTES"))
    assert on.state.lexer_modes.known
    assert on.state.lexer_modes.flags & MODE_ANSI_QUOTES
    assert not on.state.pins.reasons


@pytest.mark.parametrize("name", ["sql_log_bin", "sql_auto_is_null", "profiling"])
def test_variables_that_keep_a_session_on_the_primary(on: On, name: str) -> None:
    harmless = "ON" if name == "sql_log_bin" else "OFF"
    harmful = "OFF" if name == "sql_log_bin" else "ON"
    on.succeed(f"SET {name} = @x", told(**{name: harmful}), CHANGED)
    assert on.state.pins.text == f"variable {name}"
    on.succeed(f"SET {name} = @x", told(**{name: harmless}), CHANGED)
    assert not on.state.pins.reasons
    on.succeed(f"SET {name} = {harmful}")
    assert on.state.pins.reasons
    on.succeed(f"SET {name} = '{harmless.lower()}'")
    assert not on.state.pins.reasons
    assert not on.state.variables


def test_set_names_is_carried_with_its_collation(on: On) -> None:
    trackers = told(
        character_set_client="latin1",
        character_set_connection="latin1",
        character_set_results="latin1",
    )
    on.succeed("SET NAMES latin1 COLLATE latin1_bin", trackers, CHANGED)
    assert on.state.variables == {"names": "latin1 COLLATE latin1_bin"}
    on.succeed("SET NAMES DEFAULT", trackers, CHANGED)
    assert list(on.state.variables)[1:] == [
        *("character_set_client", "character_set_connection", "character_set_results")
    ]


def test_no_character_set_for_results(on: On) -> None:
    on.succeed("SET character_set_results = @x", told(character_set_results=""), CHANGED)
    assert on.state.variables == {"character_set_results": "NULL"}


@pytest.mark.parametrize("value", ["a'b", "a\\b", "é"])
def test_a_value_that_cannot_be_written_pins(on: On, value: str) -> None:
    on.succeed("SET lc_messages = @x", told(lc_messages=value), CHANGED)
    assert on.state.pins.text == "variable lc_messages"
    assert not on.state.variables


def test_what_a_program_does_to_tracking_is_restored(on: On) -> None:
    tracking = told(session_track_gtids="ALL_GTIDS", session_track_system_variables="*")
    assert on.succeed("CALL p()", tracking, CHANGED)
    assert on.state.trackers.gtids == "ALL_GTIDS"
    assert on.state.trackers.shown_variables == "*"


def test_roles_are_carried_as_they_are_written(on: On) -> None:
    assert not on.succeed("SET ROLE a, `b`")
    assert (on.state.role, on.state.role_version) == ("a , `b`", 1)
    on.succeed("SET ROLE NONE")
    on.succeed("SET ROLE NONE")
    assert (on.state.role, on.state.role_version) == ("NONE", 3)
    assert not on.state.variables
    assert not on.state.pins.reasons


def test_a_replica_tells_nothing_of_the_session(on: On) -> None:
    on.server.role = Role.REPLICA
    on.succeed("SELECT 1", told(time_zone="+05:00"))
    assert not on.state.variables


def test_flags_of_the_optimizer_add_up(on: On) -> None:
    on.succeed("SET optimizer_switch = 'mrr=off'", told(optimizer_switch="mrr=off,a=on"))
    on.succeed('SET optimizer_switch = "a=off"')
    assert on.state.variables == {FLAGS: "'mrr=off,a=off'"}
    on.succeed("SET optimizer_switch = 'mrr=on'")
    assert on.state.variables == {FLAGS: "'mrr=on,a=off'"}
    on.succeed("SET optimizer_switch = 'default'")
    assert on.state.variables == {"optimizer_switch": "'default'"}
    on.succeed("SET optimizer_switch = 'a=on'")
    assert list(on.state.variables.items()) == [
        ("optimizer_switch", "'default'"),
        (FLAGS, "'a=on'"),
    ]
    version = on.state.variables_version
    on.succeed("SET optimizer_switch = 'default'")
    assert on.state.variables == {"optimizer_switch": "'default'"}
    assert on.state.variables_version != version
    on.succeed("SET optimizer_switch = @x")
    assert on.state.pins.text == "variable optimizer_switch"
    on.succeed("SET optimizer_switch = 'a=on\\n'")
    assert on.state.pins.text == "variable optimizer_switch"
    on.succeed("SET optimizer_switch = DEFAULT")
    assert not on.state.pins.reasons


# What a program hides.


HIDDEN = [
    system_variable_entry("session_track_gtids", "OFF"),
    system_variable_entry("session_track_state_change", "OFF"),
    system_variable_entry("session_track_system_variables", ""),
    b"",
]


@pytest.mark.parametrize("block", HIDDEN)
@pytest.mark.parametrize("sql", ["CALL p()", "SELECT f()", "INSERT INTO t VALUES (1)"])
def test_a_program_that_changes_what_is_told_is_not_trusted(on: On, sql: str, block: bytes) -> None:
    assert on.succeed(sql, block)
    assert on.state.unknown
    assert PinReason.UNKNOWN in on.state.pins.reasons
    assert on.outcome.unlogged == (b"system_variables" in block)


@pytest.mark.parametrize("block", HIDDEN)
def test_also_where_it_failed_and_the_next_answer_tells(on: On, block: bytes) -> None:
    on.fail("CALL p()")
    on.state.own_scope.probed(EMPTY, on.state.own_scope.doubts)
    assert on.succeed("SELECT 1", block) == bool(block)


def test_an_empty_block_behind_an_error_hides_nothing(on: On) -> None:
    on.state.may_have_written()  # as after each error
    assert not on.succeed("CALL p()", b"")


@pytest.mark.parametrize("name", ["session_track_gtids", "session_track_state_change"])
def test_a_set_that_shows_what_it_sets_is_trusted(on: On, name: str) -> None:
    assert on.succeed(f"SET SESSION {name} = OFF", system_variable_entry(name, "OFF"))
    assert not on.state.unknown
    assert not on.state.pins.reasons


# Writes that are not logged.


def unlogged(on: On, sql: str, *blocks: bytes, logged: bool = True) -> bool:
    on.succeed(sql, *blocks)
    return effects.wrote_unlogged(on.command, on.outcome, on.server, logged)


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
def test_what_is_written_while_nothing_is_logged(on: On, sql: str, writes: bool) -> None:
    assert unlogged(on, sql, logged=False) == writes
    assert not unlogged(on, sql)
    on.server.gtids = False
    assert unlogged(on, sql) == writes


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
def test_what_a_tracker_tells_of_logging(on: On, sql: str, writes: bool) -> None:
    assert unlogged(on, sql, OFF_AND_ON) == writes


def test_what_failed_may_have_written_without_logging(on: On) -> None:
    on.fail("CALL p()")
    assert unlogged(on, "SELECT 1", OFF_AND_ON)


def test_a_table_that_is_imported_is_not_logged(on: On) -> None:
    assert unlogged(on, "IMPORT TABLE FROM 'x.sdi'")


def test_an_import_that_is_refused_has_written_nothing(on: On) -> None:
    """Or any account could keep everybody's reads on the primary."""
    on.fail("IMPORT TABLE FROM 'x.sdi'")
    assert effects.wrote_unlogged(on.command, on.outcome, on.server, logged=True)
    on.outcome.error = ServerErrorCode.ER_ACCESS_DENIED_ERROR.code
    assert not effects.wrote_unlogged(on.command, on.outcome, on.server, logged=True)
