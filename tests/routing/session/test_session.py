"""What a session must see: every write adds to it, and only an answer makes it known again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import IN_TRANS
from protocol.gtid import EMPTY
from routing.consistency.decision import Level, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from routing.consistency.scope import COMPACT_ABOVE, PROBE_ABOVE, Scopes
from routing.servers.topology import Role, Server
from routing.session.diagnostics_area import NOT_KNOWN, ConnectionArea
from routing.session.session import NO_ROLE, Session
from routing.session.trackers import Trackers
from routing.sql.diagnostics import PARTS
from routing.sql.lexer import MODE_ANSI_QUOTES
from routing.sql.session_locks import PinReason
from routing.transaction.routable import is_per_statement, is_serializable
from tests.support.gtid_sets import gtids

U = "11111111-1111-1111-1111-111111111111"
V = "22222222-2222-2222-2222-222222222222"


def session_at(level: Level = Level.READ_OWN_WRITES) -> Session:
    return Session(Rules(level, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY), 0)


@pytest.fixture
def session() -> Session:
    return session_at()


@pytest.fixture
def primary() -> Server:
    return Server("primary:3306", Role.PRIMARY)


# The required set.


def test_it_is_the_union_of_all_that_was_written(session: Session, primary: Server) -> None:
    assert session.required == EMPTY
    for text in (f"{U}:7", f"{U}:3", f"{V}:1", f"{U}:tag:2", f"{U}:4-5"):
        session.record_write(gtids(text), primary)
    assert session.required == gtids(f"{U}:3-5:7:tag:2,{V}:1")


def test_what_the_primary_lacks_is_required_all_the_same(session: Session, primary: Server) -> None:
    primary.observe(U, (0, 0), gtids(f"{U}:1-3"), EMPTY)
    for number in range(1, 60, 2):
        session.record_write(gtids(f"{U}:{number}"), primary)
    assert gtids(f"{U}:59") <= session.required


def test_gaps_are_closed_by_what_the_primary_is_known_to_have(
    session: Session, primary: Server
) -> None:
    primary.observe(U, (0, 0), gtids(f"{U}:1-100,{V}:1-100"), EMPTY)
    own = [10 + 2 * k for k in range(COMPACT_ABOVE)]
    for number in own:
        session.record_write(gtids(f"{U}:{number}"), primary)
    assert session.required.interval_count == COMPACT_ABOVE  # short enough as it is
    session.record_write(gtids(f"{U}:{own[-1] + 2}"), primary)
    # Nothing is added before the first, after the last, or of another source.
    assert session.required == gtids(f"{U}:10-{own[-1] + 2}")


@given(st.lists(st.integers(1, 400), max_size=60), st.sets(st.integers(1, 400)))
def test_closing_gaps_never_forgets_and_never_invents(written: list[int], others: set[int]) -> None:
    session = session_at()
    primary = Server("primary:3306", Role.PRIMARY)
    for number in sorted(others):
        primary.add_proof(gtids(f"{U}:{number}"), 0)
    committed = EMPTY
    for number in sorted(others):
        committed |= gtids(f"{U}:{number}")
    for number in written:
        new_gtid = gtids(f"{U}:{number}")
        committed |= new_gtid
        session.record_write(new_gtid, primary)
        primary.add_proof(new_gtid, 0)
        assert new_gtid <= session.required
    own = EMPTY
    for number in written:
        own |= gtids(f"{U}:{number}")
    assert own <= session.required <= committed


# Unknown, and known again.


def test_a_probe_makes_it_known_again(session: Session, primary: Server) -> None:
    session.record_write(gtids(f"{V}:5"), primary)
    assert not session.wants_probe
    session.may_have_written()
    assert session.unknown
    assert session.wants_probe
    session.on_probe(gtids(f"{U}:1-9"))
    assert not session.unknown
    assert not session.wants_probe
    # All that the primary has, and what was required before.
    assert session.required == gtids(f"{U}:1-9,{V}:5")


def test_a_write_does_not_make_it_known_again(session: Session, primary: Server) -> None:
    session.may_have_written()
    session.record_write(gtids(f"{U}:5"), primary)
    assert session.unknown


def test_a_probe_of_a_known_set_closes_gaps_and_adds_nothing_else(
    session: Session, primary: Server
) -> None:
    session.record_write(gtids(f"{U}:3:7"), primary)
    session.on_probe(gtids(f"{U}:1-100,{V}:1-100"))
    assert session.required == gtids(f"{U}:3-7")


def test_a_set_with_many_gaps_wants_a_probe(session: Session, primary: Server) -> None:
    for k in range(PROBE_ABOVE):
        session.record_write(gtids(f"{U}:{2 * k + 1}"), primary)
    assert not session.wants_probe
    session.record_write(gtids(f"{U}:{2 * PROBE_ABOVE + 1}"), primary)
    assert session.wants_probe
    session.on_probe(gtids(f"{U}:1-1000"))
    assert session.required.interval_count == 1
    assert not session.wants_probe


def test_gaps_that_a_probe_does_not_close_are_not_asked_about_again(
    session: Session, primary: Server
) -> None:
    for k in range(PROBE_ABOVE + 1):
        session.record_write(gtids(f"{U}:{2 * k + 1}"), primary)
    session.on_probe(session.required)
    assert not session.wants_probe
    for k in range(PROBE_ABOVE + 1, 2 * (PROBE_ABOVE + 1)):
        session.record_write(gtids(f"{U}:{2 * k + 1}"), primary)
    assert not session.wants_probe
    session.record_write(gtids(f"{V}:1"), primary)
    assert session.wants_probe


# Rights.


def test_roles_and_schemas_count_each_time_they_are_given(session: Session) -> None:
    assert (session.role, session.role_version) == (None, 0)
    session.set_schema("app")
    session.set_schema("app")
    assert session.schema_version == 2
    assert (session.schema_role, session.schema_role_version) == (None, 0)
    session.set_role("reader")
    session.set_role("reader")
    assert (session.role, session.role_version) == ("reader", 2)
    assert session.schema_role_version == 0
    session.set_schema("app")
    assert (session.schema_role, session.schema_role_version) == ("reader", 2)


def test_a_reset_keeps_the_role_and_another_login_does_not(session: Session) -> None:
    session.set_role("reader")
    session.reset()
    assert (session.role, session.role_version) == ("reader", 1)
    session.on_login("another")
    assert (session.user, session.role, session.role_version) == ("another", None, 0)


def test_roles_that_only_the_primary_knows_are_none_until_it_names_them(
    session: Session,
) -> None:
    """So that no replica lets a session read by a role that the primary has not given it."""
    session.set_login_roles("`a`@`%`")
    assert session.active_roles == "`a`@`%`"
    for role in ("ALL", "all EXCEPT `b`", "DEFAULT"):
        session.set_role(role)
        assert session.active_roles == NO_ROLE
        version = session.role_version
        session.set_active_roles("`b`@`%`,`c`@`%`")
        assert session.active_roles == "`b`@`%`,`c`@`%`"
        assert session.role_version == version + 1
    session.set_role("`b`")
    assert session.active_roles == "`b`"
    session.set_active_roles("`\u00e9`@`%`")
    assert session.active_roles == NO_ROLE


def test_what_a_session_sees_is_that_of_its_roles_on_the_primary(session: Session) -> None:
    """Also where no replica can be told of these."""
    assert session.seeing_roles == NO_ROLE
    session.set_login_roles("`\u00e9`@`%`")
    assert (session.active_roles, session.seeing_roles) == (NO_ROLE, "`\u00e9`@`%`")
    session.set_role("ALL")  # the primary may not tell which these are
    assert (session.active_roles, session.seeing_roles) == (NO_ROLE, "ALL")
    session.set_active_roles("`\u00e9`@`%`")
    assert (session.active_roles, session.seeing_roles) == (NO_ROLE, "`\u00e9`@`%`")
    session.set_role("NONE")
    assert session.seeing_roles == NO_ROLE


# COM_RESET_CONNECTION.


def test_a_reset_forgets_the_state_and_never_a_write(session: Session, primary: Server) -> None:
    session.on_connect("ANSI_QUOTES")
    session.record_write(gtids(f"{U}:5"), primary)
    session.may_have_written()
    session.schema = "app"
    session.avoided = frozenset({primary})
    session.transaction.on_restore(IN_TRANS)
    session.transaction.on_autocommit_set(False)
    session.pins.acquire(PinReason.TABLE_LOCK)
    session.transaction.modes.set_next("transaction_read_only", "ON")
    session.diagnostics.on_success(ConnectionArea(primary), PARTS, 2, 1)
    session.set_variable("time_zone", "'+00:00'")
    session.lexer_modes.set_sql_mode("'NO_BACKSLASH_ESCAPES'")
    session.lexer_modes.set_sql_mode(None)
    session.trackers.set("session_track_gtids", "ALL_GTIDS")
    session.trackers.set("session_track_schema", "OFF")
    session.trackers.set("session_track_system_variables", "NULL")
    version = session.variables_version
    session.reset()
    assert session.required == gtids(f"{U}:5")
    assert session.unknown
    assert session.schema == "app"  # fact 7.9
    assert session.avoided == frozenset({primary})
    assert not session.transaction.is_open
    assert session.transaction.autocommit
    assert not session.pins.reasons
    assert not session.transaction.modes.waiting
    diagnostics = session.diagnostics
    assert (diagnostics.conditions, diagnostics.found_rows, diagnostics.row_count) == (
        0,
        NOT_KNOWN,
        0,
    )
    assert session.variables == {}
    assert session.variables_version != version
    assert session.lexer_modes.flags == MODE_ANSI_QUOTES
    assert session.lexer_modes.known
    assert session.trackers.gtids == "OWN_GTID"
    assert session.trackers.shown == {0, 1, 4, 5}
    assert session.trackers.settings(gtids=True) == Trackers("OWN_GTID").settings(gtids=True)


def test_a_server_that_starts_sessions_without_autocommit(session: Session) -> None:
    session.on_connect("", autocommit=False)
    transaction = session.transaction
    assert not transaction.autocommit
    assert not transaction.status_tells
    transaction.on_autocommit_set(True)  # SET autocommit = 1
    session.reset()
    assert not transaction.autocommit
    assert not transaction.status_tells


@pytest.mark.parametrize(
    ("level", "apart", "serializable"),
    [
        ("READ-COMMITTED", True, False),
        ("READ-UNCOMMITTED", True, False),
        ("REPEATABLE-READ", False, False),
        ("SERIALIZABLE", False, True),
    ],
)
def test_what_a_session_begins_with_is_as_if_it_had_set_it(
    session: Session, level: str, apart: bool, serializable: bool
) -> None:
    version = session.variables_version
    session.on_connect("", isolation=level)
    assert (is_per_statement(session), is_serializable(session)) == (apart, serializable)
    carried = {} if level == "REPEATABLE-READ" else {"transaction_isolation": f"'{level}'"}
    assert session.variables == carried, "replicas have MySQL's own default"
    assert (session.variables_version != version) == bool(carried)
    session.reset()
    assert not is_per_statement(session)
    session.on_connect("", isolation="READ-COMMITTED")  # the default may be another by then
    assert is_per_statement(session)


def test_a_level_that_cannot_be_written_is_none(session: Session) -> None:
    session.on_connect("", isolation="READ'COMMITTED")
    assert session.variables == {}


# Variables.


def test_variables_are_kept_in_the_order_of_their_last_assignment(session: Session) -> None:
    session.set_variable("names", "latin1")
    session.set_variable("character_set_results", "utf8mb4")
    session.set_variable("names", "utf8mb4")
    assert list(session.variables.items()) == [
        ("character_set_results", "utf8mb4"),
        ("names", "utf8mb4"),
    ]


def test_each_assignment_changes_the_version(session: Session) -> None:
    versions = {session.variables_version}
    for value in ("1", "2", "2"):
        session.set_variable("sort_buffer_size", value)
        versions.add(session.variables_version)
    assert len(versions) == 3
    for _ in range(2):  # what is set between may change it, too
        session.set_variable("names", "latin1")
        versions.add(session.variables_version)
    assert len(versions) == 5


# Other rules.


def rules_at(level: Level, scope: Scope = Scope.CONNECTION) -> Rules:
    return Rules(level, scope, 0.25, TimeoutPolicy.PRIMARY)


@pytest.mark.parametrize("before", list(Level))
@pytest.mark.parametrize("after", list(Level))
def test_what_was_not_tracked_before_is_in_doubt_when_it_is_needed(
    before: Level, after: Level
) -> None:
    session = session_at(before)
    session.own_scope.on_probe(EMPTY, session.own_scope.doubts)  # nothing is in doubt
    tracked, needed = rules_at(before).tracking, rules_at(after).tracking
    assert session.adjust(rules_at(after)) is (tracked != needed)
    assert session.trackers.gtids == needed
    assert session.unknown is (tracked == "OFF" and needed != "OFF")


@pytest.mark.parametrize("level", list(Level))
def test_a_reset_returns_to_the_rules_that_it_began_with(level: Level) -> None:
    session = session_at(Level.MONOTONIC_READS)
    session.own_scope.on_probe(EMPTY, session.own_scope.doubts)
    session.adjust(rules_at(level))
    session.reset()
    assert session.rules == session.initial_rules == rules_at(Level.MONOTONIC_READS)
    assert session.trackers.gtids == "ALL_GTIDS"


def test_a_client_that_tracks_less_gets_less_and_a_reset_ends_that() -> None:
    session = session_at(Level.MONOTONIC_READS)
    session.trackers.set("session_track_gtids", "OWN_GTID")
    assert session.trackers.gtids == "OWN_GTID"
    session.reset()
    assert session.trackers.gtids == "ALL_GTIDS"


@pytest.mark.parametrize("level", list(Level))
def test_a_session_that_did_nothing_yet_has_nothing_to_doubt(level: Level) -> None:
    assert session_at(level).own_scope.is_known(level)


# What it saw.


def test_what_the_primary_shows_covers_all_that_the_session_wrote(primary: Server) -> None:
    session = session_at(Level.MONOTONIC_READS)
    session.may_have_written()
    session.record_executed(gtids(f"{U}:1-9"), primary)
    assert session.required == gtids(f"{U}:1-9")
    assert session.own_scope.is_known(Level.MONOTONIC_READS)


def test_what_a_replica_shows_ends_no_doubt() -> None:
    session = session_at(Level.MONOTONIC_READS)
    session.may_have_written()
    session.record_executed(gtids(f"{U}:1-9"), Server("replica:3306", Role.REPLICA))
    assert session.required == EMPTY
    assert session.own_scope.observed == gtids(f"{U}:1-9")
    assert session.unknown


def test_what_the_primary_shows_one_session_ends_no_doubt_of_its_user(primary: Server) -> None:
    """Another session may have committed meanwhile."""
    scopes = Scopes()
    session, other = (
        Session(rules_at(Level.MONOTONIC_READS, Scope.USER), 0, scopes, "ann") for _ in range(2)
    )
    state = session.reading(session.rules, 0, 1.0)
    state.on_probe(EMPTY, state.doubts)
    other.may_have_written()
    session.record_executed(gtids(f"{U}:1-9"), primary)
    assert not state.is_known(Level.MONOTONIC_READS)
