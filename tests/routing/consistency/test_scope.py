"""What a scope requires: once it is known, nothing that was told or shown in it is ever missing."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Level, Proof, Reason, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from routing.consistency.scope import COMPACT_ABOVE, PROBE_ABOVE, Scopes, ScopeState
from routing.policy import choose, required_by
from routing.request.pending_probe import PendingProbe
from routing.servers.topology import Role, Server, Topology
from routing.session.session import Session
from routing.sql.statement import Statement, StatementClass, StatementReason
from tests.model.keeper import Keeper
from tests.support.doubts import may_have_seen
from tests.support.gtid_sets import gtids

U = "11111111-1111-1111-1111-111111111111"
V = "22222222-2222-2222-2222-222222222222"
READ = Statement(StatementClass.READ, StatementReason.NOTHING, False, "0" * 16)
OBSERVING = (Level.MONOTONIC_READS, Level.READ_ALL_WRITES)
WIDE = [Scope.USER, Scope.APPLICATION, Scope.PROXY]


def rules_at(
    level: Level = Level.READ_OWN_WRITES,
    scope: Scope = Scope.CONNECTION,
    application: str = "",
    staleness: float = 0.0,
) -> Rules:
    return Rules(level, scope, 0.25, TimeoutPolicy.PRIMARY, staleness, application)


@pytest.fixture
def scope() -> ScopeState:
    return ScopeState(Scope.USER, "ann", 1, unknown=False)


# What each level requires.


@pytest.mark.parametrize("level", list(Level))
def test_what_each_level_requires(scope: ScopeState, level: Level) -> None:
    scope.record_write(gtids(f"{U}:3"), EMPTY)
    scope.record_executed(gtids(f"{U}:1-2:5"), 1.0)
    expected = {
        Level.BEST_EFFORT: "",
        Level.READ_OWN_WRITES: f"{U}:3",
        Level.MONOTONIC_READS: f"{U}:1-3:5",
        Level.READ_ALL_WRITES: f"{U}:1-3:5",
        Level.STRONG: f"{U}:3",
        Level.BOUNDED_STALENESS: "",
    }
    assert scope.required(level) == gtids(expected[level])
    assert scope.everything == gtids(f"{U}:1-3:5")


@pytest.mark.parametrize("level", list(Level))
def test_which_doubt_matters_to_which_level(scope: ScopeState, level: Level) -> None:
    assert scope.is_known(level)
    may_have_seen(scope)
    assert scope.is_known(level) is (level not in OBSERVING)
    scope.unseen = False
    scope.may_have_written()
    assert not scope.is_known(level)


# Probes.


def test_a_new_wide_scope_is_unknown_and_never_empty() -> None:
    state = Scopes().get(Scope.USER, "ann", 1, 0.0)
    assert not any(state.is_known(level) for level in Level)
    state.on_probe(gtids(f"{U}:1-9"), state.doubts)
    assert all(state.is_known(level) for level in Level)
    assert state.required(Level.READ_OWN_WRITES) == gtids(f"{U}:1-9")
    assert state.required(Level.MONOTONIC_READS) == gtids(f"{U}:1-9")


@pytest.mark.parametrize("doubt", [ScopeState.may_have_written, may_have_seen])
def test_a_probe_ends_only_the_doubts_from_before_it_began(
    scope: ScopeState, doubt: Callable[[ScopeState], None]
) -> None:
    doubt(scope)
    began = scope.doubts
    doubt(scope)
    scope.on_probe(gtids(f"{U}:1-5"), began)
    assert scope.unknown or scope.unseen
    assert gtids(f"{U}:1-5") <= scope.everything  # the answer is required all the same
    scope.on_probe(gtids(f"{U}:1-6"), scope.doubts)
    assert scope.is_known(Level.MONOTONIC_READS)
    assert gtids(f"{U}:1-6") <= scope.everything


def test_what_was_only_shown_becomes_no_own_write(scope: ScopeState) -> None:
    scope.record_write(gtids(f"{U}:2:4"), EMPTY)
    may_have_seen(scope)
    scope.on_probe(gtids(f"{U}:1-9"), scope.doubts)
    assert scope.required(Level.READ_OWN_WRITES) == gtids(f"{U}:2-4")
    assert scope.required(Level.MONOTONIC_READS) == gtids(f"{U}:1-9")


def test_a_probe_of_what_is_known_adds_only_what_lies_between(scope: ScopeState) -> None:
    scope.record_write(gtids(f"{U}:2:4"), EMPTY)
    scope.record_executed(gtids(f"{V}:3:5"))
    scope.on_probe(gtids(f"{U}:1-9,{V}:1-9"), scope.doubts)
    assert scope.own == gtids(f"{U}:2-4")
    assert scope.observed == gtids(f"{V}:3-5")


def test_the_primary_covers_what_was_written(scope: ScopeState) -> None:
    scope.record_executed(gtids(f"{U}:1-9"))
    scope.set_covered(gtids(f"{U}:1-9"))
    assert scope.own == EMPTY  # no write was in doubt
    scope.may_have_written()
    scope.set_covered(gtids(f"{U}:1-9"))
    assert scope.own == gtids(f"{U}:1-9")
    assert scope.is_known(Level.READ_OWN_WRITES)


# Which server showed something.


def test_one_server_shows_no_older_states_later(scope: ScopeState) -> None:
    server, other = Server("a:1", Role.REPLICA), Server("b:1", Role.REPLICA)
    scope.record_answer(server, 1)
    scope.record_answer(server, 1)
    assert scope.seen_on is server
    assert scope.is_known(Level.MONOTONIC_READS)
    scope.record_answer(other, 1)
    assert not scope.is_known(Level.MONOTONIC_READS)
    scope.on_primary_settled(other, 1)
    assert scope.seen_on is other
    assert scope.is_known(Level.MONOTONIC_READS)


def test_another_incarnation_of_a_server_may_be_older(scope: ScopeState) -> None:
    server = Server("a:1", Role.REPLICA)
    scope.record_answer(server, 1)
    scope.record_answer(server, 2)
    assert not scope.is_known(Level.MONOTONIC_READS)


def test_what_is_being_committed_bounds_what_was_seen(scope: ScopeState) -> None:
    server = Server("a:1", Role.REPLICA)
    scope.record_answer(server, 1)
    began = scope.doubts
    scope.on_probe(gtids(f"{U}:1-5"), began, gtids(f"{U}:7"))
    assert scope.seen_on is None
    assert scope.required(Level.MONOTONIC_READS) == gtids(f"{U}:1-5:7")
    assert scope.required(Level.READ_OWN_WRITES) == EMPTY
    scope.record_answer(server, 1)
    scope.on_probe(gtids(f"{U}:1-9"), began)
    assert scope.seen_on is server  # it showed something after the question was sent


def test_gaps_are_closed_beyond_a_number_and_only_by_what_the_primary_has(
    scope: ScopeState,
) -> None:
    primary = gtids(f"{U}:1-40")
    numbers = range(10, 10 + 2 * COMPACT_ABOVE, 2)
    for number in numbers:
        scope.record_write(gtids(f"{U}:{number}"), primary)
    assert scope.own.interval_count == COMPACT_ABOVE
    scope.record_write(gtids(f"{V}:7"), primary)
    assert scope.own == gtids(f"{U}:{numbers[0]}-{numbers[-1]},{V}:7")


def test_a_long_set_wants_a_probe_and_does_not_want_it_again(scope: ScopeState) -> None:
    for number in range(PROBE_ABOVE):
        scope.record_write(gtids(f"{U}:{2 * number + 1}"), EMPTY)
    assert not scope.is_long
    scope.record_write(gtids(f"{V}:1"), EMPTY)
    assert scope.is_long
    scope.on_probe(scope.own, scope.doubts)  # these gaps are real
    assert scope.own.interval_count == PROBE_ABOVE + 1
    assert not scope.is_long


# A later primary.


def test_lost_are_those_that_were_required_when_the_question_was_sent(scope: ScopeState) -> None:
    scope.record_write(gtids(f"{U}:1-5"), EMPTY)
    scope.record_executed(gtids(f"{U}:1-6"))
    required_before = scope.everything
    scope.record_write(gtids(f"{V}:1"), EMPTY)  # on the new primary, after it was asked
    lost = scope.compare_with_primary(gtids(f"{U}:1-4"), required_before, 2)
    assert lost == gtids(f"{U}:5-6")
    assert scope.term == 2
    assert scope.own == gtids(f"{U}:1-4,{V}:1")
    assert scope.everything == gtids(f"{U}:1-4,{V}:1")
    assert (scope.lost, scope.lost_untold) == (lost, True)


def test_nothing_is_told_where_nothing_was_lost(scope: ScopeState) -> None:
    scope.record_write(gtids(f"{U}:1-5"), EMPTY)
    assert not scope.compare_with_primary(gtids(f"{U}:1-9"), scope.everything, 2)
    assert (scope.term, scope.lost, scope.lost_untold) == (2, EMPTY, False)
    assert scope.own == gtids(f"{U}:1-5")


def test_losses_add_up(scope: ScopeState) -> None:
    scope.record_write(gtids(f"{U}:1-5"), EMPTY)
    scope.compare_with_primary(gtids(f"{U}:1-4"), scope.everything, 2)
    scope.on_loss_reported()
    scope.compare_with_primary(gtids(f"{U}:1-3"), scope.everything, 3)
    assert scope.lost == gtids(f"{U}:4-5")
    assert scope.lost_untold


# A scope compared with the truth.


class _Truth:
    """One scope, what really happened in it, and the primary."""

    def __init__(self) -> None:
        self.scope = ScopeState(Scope.USER, "ann", 1, unknown=True)
        self.committed = 0
        self.written = EMPTY
        self.shown = EMPTY
        self.known = EMPTY  # what the primary is known to have, which may be less than it has
        self.asked: list[tuple[GtidSet, int]] = []

    @property
    def executed(self) -> GtidSet:
        return gtids(f"{U}:1-{self.committed}") if self.committed else EMPTY

    def commit(self) -> GtidSet:
        self.committed += 1
        return gtids(f"{U}:{self.committed}")

    def step(self, kind: int, which: int) -> None:
        scope = self.scope
        if kind == 0:  # somebody else commits
            self.commit()
        elif kind in (1, 2):
            written = self.commit()
            self.written |= written
            if kind == 1:
                scope.record_write(written, self.known, 1.0)
            else:
                scope.may_have_written()
        elif kind in (3, 4):  # a replica, late or not, shows something
            shown = gtids(f"{U}:1-{max(1, self.committed - which)}") if self.committed else EMPTY
            self.shown |= shown
            if kind == 3:
                scope.record_executed(shown, 1.0)
            else:
                may_have_seen(scope)
        elif kind == 5:
            self.asked.append((self.executed, scope.doubts))
        elif kind == 6 and self.asked:
            scope.on_probe(*self.asked.pop(which % len(self.asked)))
        elif kind == 7:
            self.known = self.executed


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), max_size=60))
def test_what_is_known_misses_nothing_and_invents_nothing(steps: list[tuple[int, int]]) -> None:
    truth = _Truth()
    scope = truth.scope
    for kind, which in steps:
        truth.step(kind, which)
        if scope.is_known(Level.READ_OWN_WRITES):
            assert truth.written <= scope.required(Level.READ_OWN_WRITES)
        if scope.is_known(Level.MONOTONIC_READS):
            assert truth.written | truth.shown <= scope.required(Level.MONOTONIC_READS)
        assert scope.everything <= truth.executed
    scope.on_probe(truth.executed, scope.doubts)
    assert scope.is_known(Level.MONOTONIC_READS)


# The table.


def test_the_least_recently_used_goes_first() -> None:
    scopes = Scopes(limit=2)
    ann = scopes.get(Scope.USER, "ann", 1, 1.0)
    scopes.get(Scope.USER, "bob", 1, 2.0)
    assert scopes.get(Scope.USER, "ann", 1, 3.0) is ann
    scopes.get(Scope.PROXY, "", 1, 4.0)
    assert {(state.kind, state.key) for state in scopes.states()} == {
        (Scope.USER, "ann"),
        (Scope.PROXY, ""),
    }
    assert (len(scopes), scopes.evicted) == (2, 1)


def test_one_scope_at_a_time_is_kept_if_no_more_may_be() -> None:
    scopes = Scopes(limit=1)
    for key in ("ann", "bob", "cid"):
        state = scopes.get(Scope.USER, key, 1, 1.0)
        assert scopes.states() == [state]
    assert scopes.evicted == 2


def test_what_nobody_used_for_long_begins_anew() -> None:
    scopes = Scopes(age=10.0)
    state = scopes.get(Scope.USER, "ann", 1, 1.0)
    state.on_probe(gtids(f"{U}:1"), state.doubts)
    assert scopes.get(Scope.USER, "ann", 1, 11.0) is state
    again = scopes.get(Scope.USER, "ann", 7, 21.5)
    assert again is not state
    assert (again.unknown, again.unseen, again.term) == (True, True, 7)
    assert scopes.evicted == 1


def test_the_new_make_the_old_leave() -> None:
    scopes = Scopes(age=10.0)
    for key in ("ann", "bob"):
        scopes.get(Scope.USER, key, 1, 1.0)
    scopes.get(Scope.USER, "cid", 1, 12.0)
    assert [state.key for state in scopes.states()] == ["cid"]
    assert scopes.evicted == 2


@pytest.mark.parametrize("use", ["read", "write", "sight"])
def test_use_keeps_a_scope_alive(use: str) -> None:
    scopes = Scopes(age=10.0)
    state = scopes.get(Scope.USER, "ann", 1, 1.0)
    if use == "read":
        scopes.get(Scope.USER, "ann", 1, 9.0)
    elif use == "write":
        state.record_write(gtids(f"{U}:1"), EMPTY, 9.0)
    else:
        state.record_executed(gtids(f"{U}:1"), 9.0)
    assert scopes.get(Scope.USER, "ann", 1, 15.0) is state


def test_users_applications_and_kinds_are_told_apart() -> None:
    scopes = Scopes()
    states = [scopes.get(kind, key, 1, 1.0) for kind in WIDE for key in ("", "ann", "bob")]
    assert len(set(map(id, states))) == 9
    alive = {(state.kind, state.key) for state in scopes.alive("ann", "bob")}
    assert alive == {(Scope.PROXY, ""), (Scope.USER, "ann"), (Scope.APPLICATION, "bob")}


@given(
    st.lists(
        st.tuples(
            *(st.sampled_from(WIDE), st.sampled_from(["", "ann", "bob"])),
            st.sampled_from([0.0, 0.0, 1.0, 11.0]),
        ),
        max_size=40,
    )
)
def test_the_table_is_a_list_by_last_use(uses: list[tuple[Scope, str, float]]) -> None:
    """Whatever is remembered of who used what last, and of whose scopes are alive."""
    scopes = Scopes(limit=3, age=10.0)
    expected: list[tuple[Scope, str, float]] = []
    now = 100.0
    for kind, key, pause in uses:
        now += pause
        expected = [use for use in expected if use[:2] != (kind, key)]
        expected = [*expected, (kind, key, now)][-3:]
        state = scopes.get(kind, key, 1, now)
        assert (state.kind, state.key) == (kind, key)
        expected = [use for use in expected if now - use[2] <= 10.0 or use[:2] == (kind, key)]
        names = [use[:2] for use in expected]
        shown = [(state.kind, state.key) for state in scopes.states()]
        assert shown[-1] == (kind, key)
        assert set(names) <= set(shown)  # one that grew old goes when another begins
        for user in ("ann", "bob"):
            wanted = [(Scope.PROXY, ""), (Scope.USER, user), (Scope.APPLICATION, "")]
            alive = scopes.alive(user, "")
            assert [(state.kind, state.key) for state in alive] == [
                name for name in wanted if name in shown
            ]
            assert all(any(state is other for other in scopes.states()) for state in alive)
    assert len(scopes) <= 3


def test_who_names_no_application_reads_with_all_who_name_none() -> None:
    scopes = Scopes()
    state = scopes.get(Scope.APPLICATION, "", 1, 1.0)
    assert scopes.alive("ann", "") == [state]
    assert scopes.alive("ann", "shop") == []


def test_a_probe_of_the_scope_before_ends_no_doubts_of_the_next() -> None:
    """A scope is dropped while the primary is asked, and a write is acknowledged before it returns.

    That write was recorded nowhere, so only a question that is sent later can cover it.
    """
    scopes = Scopes(limit=1)
    before = scopes.get(Scope.USER, "ann", 1, 1.0)
    doubts = before.doubts
    answer = gtids(f"{U}:1-5")
    scopes.get(Scope.USER, "bob", 1, 2.0)
    for state in scopes.alive("ann", ""):
        state.record_write(gtids(f"{U}:6"), EMPTY, 3.0)
    again = scopes.get(Scope.USER, "ann", 1, 4.0)
    again.on_probe(answer, doubts)
    assert not again.is_known(Level.READ_OWN_WRITES)
    again.on_probe(gtids(f"{U}:1-6"), again.doubts)
    assert again.is_known(Level.READ_OWN_WRITES)


# Sessions that share scopes.


class _Proxy:
    """A proxy: its scopes, its topology, and its sessions."""

    def __init__(self, limit: int = 100) -> None:
        self.scopes = Scopes(limit)
        self.topology = Topology("primary:1", ["replica:1"])
        self.primary.observe(U, (0, 0), EMPTY, EMPTY)
        self.topology.replicas[0].observe(V, (0, 0), EMPTY, EMPTY)
        self.now = 1.0

    @property
    def primary(self) -> Server:
        return self.topology.primary

    def session(self, rules: Rules, user: str = "ann") -> Session:
        return Session(rules, 0, self.scopes, user, self.topology.term)

    def required(self, session: Session, rules: Rules) -> GtidSet | None:
        state = session.reading(rules, self.topology.term, self.now)
        return required_by(state, rules, self.topology, self.now, None)

    def probe(self, session: Session, rules: Rules, executed: GtidSet) -> None:
        state = session.reading(rules, self.topology.term, self.now)
        state.on_probe(executed, state.doubts)


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("level", [Level.READ_OWN_WRITES, *OBSERVING])
def test_what_one_session_writes_another_of_the_scope_must_see(kind: Scope, level: Level) -> None:
    proxy = _Proxy()
    rules = rules_at(level, kind, "shop")
    writer, reader = proxy.session(rules), proxy.session(rules)
    assert proxy.required(reader, rules) is None
    decision = choose(reader, READ, proxy.topology, proxy.now)
    assert (decision.reason, decision.proof) == (Reason.PROBE, Proof.PROBED)
    proxy.probe(reader, rules, gtids(f"{U}:1-3"))
    writer.record_write(gtids(f"{U}:5"), proxy.primary, proxy.now)
    assert proxy.required(reader, rules) == gtids(f"{U}:1-3:5")
    assert choose(reader, READ, proxy.topology, proxy.now).proof is Proof.WAITED


@pytest.mark.parametrize(
    ("kind", "user", "application", "shared"),
    [
        (Scope.USER, "ann", "other", True),
        (Scope.USER, "bob", "shop", False),
        (Scope.APPLICATION, "bob", "shop", True),
        (Scope.APPLICATION, "ann", "other", False),
        (Scope.APPLICATION, "ann", "", False),
        (Scope.PROXY, "bob", "other", True),
        (Scope.CONNECTION, "ann", "shop", False),
    ],
)
def test_whose_writes_count(kind: Scope, user: str, application: str, shared: bool) -> None:
    proxy = _Proxy()
    rules = rules_at(scope=kind, application="shop")
    reader = proxy.session(rules)
    proxy.probe(reader, rules, EMPTY)
    # The writer's level and scope do not matter, only its user and application.
    writer = proxy.session(rules_at(Level.BEST_EFFORT, application=application), user)
    writer.record_write(gtids(f"{U}:5"), proxy.primary, proxy.now)
    assert proxy.required(reader, rules) == (gtids(f"{U}:5") if shared else EMPTY)


def test_a_statement_names_an_application_for_itself() -> None:
    proxy = _Proxy()
    own, other = (rules_at(scope=Scope.APPLICATION, application=key) for key in ("shop", "till"))
    session = proxy.session(own)
    for rules in (own, other):
        proxy.probe(session, rules, EMPTY)
    session.record_write(gtids(f"{U}:5"), proxy.primary, proxy.now, other)
    assert proxy.required(session, own) == EMPTY
    assert proxy.required(session, other) == gtids(f"{U}:5")
    assert session.required == gtids(f"{U}:5")


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("doubt", ["written", "seen"])
def test_doubts_are_shared_too(kind: Scope, doubt: str) -> None:
    proxy = _Proxy()
    rules = rules_at(Level.MONOTONIC_READS, kind, "shop")
    reader, other = proxy.session(rules), proxy.session(rules)
    proxy.probe(reader, rules, gtids(f"{U}:1"))
    assert proxy.required(reader, rules) is not None
    if doubt == "written":
        other.may_have_written()
    else:
        for name in ("a:1", "b:1"):
            other.record_answer(Server(name, Role.REPLICA), 1)
    assert proxy.required(reader, rules) is None


@pytest.mark.parametrize("kind", WIDE)
def test_sights_are_shared_too(kind: Scope) -> None:
    proxy = _Proxy()
    rules = rules_at(Level.MONOTONIC_READS, kind, "shop")
    reader, other = proxy.session(rules), proxy.session(rules)
    proxy.probe(reader, rules, gtids(f"{U}:1"))
    other.record_executed(gtids(f"{U}:1-7"), proxy.topology.replicas[0], proxy.now)
    assert proxy.required(reader, rules) == gtids(f"{U}:1-7")


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("end", ["reset", "end"])
def test_a_wider_scope_outlives_reset_and_session(kind: Scope, end: str) -> None:
    proxy = _Proxy()
    rules = rules_at(Level.READ_OWN_WRITES, kind, "shop")
    session = proxy.session(rules)
    proxy.probe(session, rules, EMPTY)
    session.record_write(gtids(f"{U}:5"), proxy.primary, proxy.now)
    if end == "reset":
        session.reset()
    else:
        session = proxy.session(rules)
    assert proxy.required(session, rules) == gtids(f"{U}:5")


def test_a_connections_own_scope_ends_with_it() -> None:
    proxy = _Proxy()
    session = proxy.session(rules_at())
    session.record_write(gtids(f"{U}:5"), proxy.primary, proxy.now)
    assert proxy.required(proxy.session(rules_at()), rules_at()) == EMPTY


def test_a_primary_of_another_term_is_asked_before_anything_is_required() -> None:
    proxy = _Proxy()
    rules = rules_at(scope=Scope.USER)
    session = proxy.session(rules)
    proxy.probe(session, rules, gtids(f"{U}:1-5"))
    for present in (rules_at(), rules):
        assert proxy.required(session, present) is not None
    proxy.topology.promote(proxy.topology.replicas[0])
    for present in (rules_at(), rules):
        assert proxy.required(session, present) is None
    state = session.reading(rules, proxy.topology.term, proxy.now)
    state.compare_with_primary(gtids(f"{U}:1-4"), state.everything, proxy.topology.term)
    assert proxy.required(session, rules) == gtids(f"{U}:1-4")


# Many sessions, in any order, with scopes that come and go.

USERS = ("ann", "bob")
APPLICATIONS = ("", "shop")


class _Crowd:
    """Sessions of two users and two applications, and what was acknowledged in each scope."""

    def __init__(self, limit: int) -> None:
        self.proxy = _Proxy(limit)
        self.sessions = [
            self.proxy.session(rules_at(application=application), user)
            for user in USERS
            for application in APPLICATIONS
        ]
        self.committed = 0
        self.truth: dict[tuple[Scope, str], GtidSet] = {}
        self.probes: list[tuple[Session, Rules, int, GtidSet]] = []
        self.judged = 0

    @property
    def executed(self) -> GtidSet:
        return gtids(f"{U}:1-{self.committed}") if self.committed else EMPTY

    def step(self, kind: int, which: int, wide: Scope) -> None:
        proxy, session = self.proxy, self.sessions[which % len(self.sessions)]
        proxy.now += 1.0
        rules = rules_at(scope=wide, application=session.rules.application)
        if kind in (0, 1):
            self.committed += 1
            written = gtids(f"{U}:{self.committed}")
            for key in _keys(session):
                self.truth[key] = self.truth.get(key, EMPTY) | written
            if kind == 0:
                session.record_write(written, proxy.primary, proxy.now)
            else:
                session.may_have_written()
        elif kind == 2:
            state = session.reading(rules, proxy.topology.term, proxy.now)
            self.probes.append((session, rules, state.doubts, self.executed))
        elif kind == 3 and self.probes:
            session, rules, doubts, executed = self.probes.pop(which % len(self.probes))
            state = session.reading(rules, proxy.topology.term, proxy.now)
            state.on_probe(executed, doubts)
        elif kind == 4:
            session.reset()
        elif kind == 5:
            required = proxy.required(session, rules)
            if required is not None:
                (key,) = (key for key in _keys(session) if key[0] is wide)
                assert self.truth.get(key, EMPTY) <= required <= self.executed
                self.judged += 1


def _keys(session: Session) -> list[tuple[Scope, str]]:
    return [
        (Scope.USER, session.user),
        (Scope.APPLICATION, session.rules.application),
        (Scope.PROXY, ""),
    ]


@pytest.mark.parametrize("seed", range(24))
def test_no_scope_that_is_known_misses_what_was_acknowledged_in_it(seed: int) -> None:
    chance = random.Random(seed)
    crowd = _Crowd(limit=3 + seed % 3)
    for _ in range(600):
        kind = chance.choices(range(6), (20, 1, 10, 12, 2, 20))[0]
        crowd.step(kind, chance.randrange(8), chance.choice(WIDE))
    assert crowd.judged >= 5


# Writes without a GTID.


def test_what_is_not_logged_is_never_forgotten() -> None:
    scopes = Scopes(age=10.0)
    user = scopes.get(Scope.USER, "ann", 1, 0.0)
    scopes.record_unlogged_write("ann", "shop")
    user.on_probe(gtids(f"{U}:1-9"), user.doubts)
    assert user.unlogged
    for kind, key in ((Scope.USER, "ann"), (Scope.APPLICATION, "shop"), (Scope.PROXY, "")):
        for now in (0.0, 100.0):
            assert scopes.get(kind, key, 1, now).unlogged
    assert not scopes.get(Scope.USER, "bob", 1, 0.0).unlogged
    assert not scopes.get(Scope.APPLICATION, "", 1, 0.0).unlogged


def test_what_is_unknown_where_nothing_gets_a_name_is_not_forgotten() -> None:
    scopes = Scopes(age=10.0)
    ann = scopes.get(Scope.USER, "ann", 1, 0.0)
    bob = scopes.get(Scope.USER, "bob", 1, 0.0)
    for scope in (ann, bob):
        scope.on_probe(gtids(f"{U}:1-9"), scope.doubts)
    ann.may_have_written()
    scopes.doubt_logging()
    ann.on_probe(gtids(f"{U}:1-9"), ann.doubts)
    assert ann.unlogged
    assert scopes.get(Scope.USER, "ann", 1, 100.0).unlogged
    assert not scopes.get(Scope.USER, "bob", 1, 100.0).unlogged


def test_too_many_scopes_with_what_is_not_logged_are_all_scopes() -> None:
    scopes = Scopes(limit=4)
    bob = scopes.get(Scope.USER, "bob", 1, 0.0)
    scopes.record_unlogged_write("ann", "shop")
    assert not bob.unlogged
    scopes.record_unlogged_write("cid", "stall")
    assert bob.unlogged
    assert scopes.get(Scope.USER, "ann", 1, 0.0).unlogged
    assert scopes.get(Scope.USER, "dan", 1, 0.0).unlogged


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize("kind", list(Scope))
def test_a_scope_with_what_is_not_logged_reads_from_the_primary(level: Level, kind: Scope) -> None:
    topology = Topology("primary:1", ["replica:1"])
    topology.primary.observe(U, (0, 0), gtids(f"{U}:1-9"), EMPTY)
    topology.replicas[0].observe(V, (0, 0), gtids(f"{U}:1-9"), EMPTY)
    session = Session(
        rules_at(level, kind, "shop", 60.0), 0, Scopes(), user="ann", term=topology.term
    )
    session.record_unlogged_write()
    decision = choose(session, READ, topology, 1.0)
    if level is Level.BEST_EFFORT:
        assert decision.server is topology.replicas[0]
    else:
        assert (decision.server, decision.reason, decision.proof) == (
            topology.primary,
            Reason.UNKNOWN_REQUIRED,
            Proof.PRIMARY,
        )
    session.reset()
    assert choose(session, READ, topology, 1.0) == decision


# The next start.


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), min_size=40, max_size=80))
def test_whoever_is_killed_when_leaves_no_scope_that_requires_too_little(
    steps: list[tuple[int, int]],
) -> None:
    """What is found after a kill is unknown, or holds all that was acknowledged in the scope."""
    keeper = Keeper()
    scopes = Scopes(limit=1)
    scopes.begin_keeping(keeper)
    users = ("ann", "bob")
    written = dict.fromkeys(users, EMPTY)
    committed = 0
    for now, (kind, which) in enumerate(steps):
        user = users[which]
        alive = scopes.alive(user, "")
        if kind < 2:
            committed += 1
            latest = gtids(f"{U}:{committed}")
            written[user] |= latest
            for state in alive:
                state.record_write(latest, EMPTY, float(now))
        elif kind == 2:
            committed += 1
            written[user] |= gtids(f"{U}:{committed}")
            for state in alive:
                state.may_have_written()
        elif kind < 5:
            state = scopes.get(Scope.USER, user, 1, float(now))
            if kind == 4:
                executed = gtids(f"{U}:1-{committed}") if committed else EMPTY
                state.on_probe(executed, state.doubts)
        elif kind < 9:
            keeper.go_on()
        else:
            scopes = Scopes(limit=1)
            scopes.restore(keeper.found(), keeper, float(now))
        for key, found in keeper.rows.items():  # what a kill at this moment would leave
            assert key in keeper.marks or found.unknown or written[found.key] <= found.own


def test_a_scope_that_is_kept_tells_once_that_it_is_ahead(scope: ScopeState) -> None:
    keeper = Keeper()
    scope.begin_keeping(keeper)
    keeper.stop()
    assert keeper.marks == set()
    for number in range(1, 4):
        scope.record_write(gtids(f"{U}:{number}"), EMPTY)
        assert keeper.marks == {(Scope.USER, "ann")}
    keeper.take()
    scope.record_write(gtids(f"{U}:4"), EMPTY)
    keeper.write()
    keeper.learn()
    assert keeper.marks == {(Scope.USER, "ann")}, "the fourth came meanwhile"
    keeper.stop()
    assert keeper.marks == set()
    assert keeper.found()[0].own == gtids(f"{U}:1-4")
    scope.record_write(gtids(f"{U}:2"), EMPTY)
    assert keeper.marks == set(), "that is not new"


def test_an_answer_does_not_settle_what_was_taken_on_trust_after_the_question(
    scope: ScopeState,
) -> None:
    """Another proxy's token, or another worker's slot, may name lost GTIDs."""
    scope.on_probe(EMPTY, scope.doubts)
    pending = PendingProbe(scope, 2)
    scope.record_write(gtids(f"{U}:7"), EMPTY)
    scope.doubt()
    pending.on_answer(scope, gtids(f"{U}:1-6"), EMPTY)
    assert scope.term != 2
    again = PendingProbe(scope, 2)
    assert again.on_answer(scope, gtids(f"{U}:1-6"), EMPTY) == gtids(f"{U}:7")
    assert scope.term == 2


@pytest.mark.parametrize("count", [10_000, 100_000])
def test_scopes_are_bounded_by_bytes(count: int) -> None:
    """However few they are: what each must see may take megabytes."""
    scopes = Scopes()
    executed = GtidSet({U: [(3 * n, 3 * n + 1) for n in range(1, count + 1)]})
    first = scopes.get(Scope.USER, "first", 1, 0.0)
    for number in range(1000):
        state = scopes.get(Scope.USER, f"u{number}", 1, 0.0)
        state.set_covered(executed)
        state.record_executed(executed)
        alive = scopes.alive("first", "") + scopes.alive("u0", "")
        assert scopes.get(Scope.USER, f"u{number}", 1, 0.0) is state, "the one that is used stays"
        left = scopes.alive("first", "") + scopes.alive("u0", "")
        assert left == [
            found for found in alive if any(found is other for other in scopes.states())
        ]
    assert 0 < len(scopes) <= (256 << 20) // (80 * count)
    assert scopes.evicted == 1001 - len(scopes)
    assert scopes.get(Scope.USER, "first", 1, 0.0) is not first
    for number in range(20_000):
        scopes.get(Scope.USER, f"small{number}", 1, 0.0)
    assert len(scopes) == 10_000, "those that are gone count no more"
