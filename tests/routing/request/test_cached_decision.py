"""A plain read is sent by a standing decision, which is what the state machine would decide."""

from collections.abc import Callable
from inspect import signature
from itertools import product
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import IN_TRANS
from protocol.gtid import EMPTY, Gtid, GtidSet
from routing.consistency.decision import Decision, Level, LostPolicy, Proof, Scope, TimeoutPolicy
from routing.consistency.rules import AUTO, Rules
from routing.policy import choose
from routing.request.command_progress import CommandProgress
from routing.request.read import Read
from routing.request.step import Ask, Join, Send
from routing.servers.observations import Observation
from routing.servers.topology import Server, Topology
from routing.servers.transaction_tables import TableName
from routing.servers.waits import Waits
from routing.session.plain import is_plain
from routing.session.session import Session
from routing.sql.statement import classify_text
from routing.sql.table_meanings import TableMeanings

U: Final = "11111111-1111-1111-1111-111111111111"
LEVELS: Final = [
    *(Level.READ_OWN_WRITES, Level.MONOTONIC_READS),
    *(Level.BOUNDED_STALENESS, Level.BEST_EFFORT),
]
STALENESS: Final = 100.0
TABLES: Final = [TableName("app", name) for name in ("a", "b")]
READ: Final = classify_text(b"SELECT * FROM app.a", 0)
MEANINGS: Final = TableMeanings({tuple(table): frozenset([table]) for table in TABLES})
AGE: Final = 60.0


def gtids(text: str) -> GtidSet:
    return GtidSet.parse(",".join(f"{U}:{part}" for part in text.split(",") if part))


class World:
    """A session and its servers; each method is something that may happen.

    `which` is 0 or 1, for two of a kind; `_which`, where there is only one.
    """

    def __init__(
        self,
        scope: Scope,
        preferred: int,
        on_timeout: TimeoutPolicy = TimeoutPolicy.PRIMARY,
        level: Level = Level.READ_OWN_WRITES,
    ) -> None:
        self.now = 1000.0
        self.topology = Topology("p", ["r1", "r2"], proof_max_age=AGE)
        self.committed = 5
        self.topology.primary.observe("uuid-p", (0, 0), gtids("1-5"), EMPTY)
        for replica in self.topology.replicas:
            replica.observe(f"uuid-{replica.name}", (0, 0), gtids("1-3"), EMPTY, sent_at=self.now)
        rules = Rules(level, scope, 0.25, on_timeout, STALENESS)
        self.level = level
        self.session = Session(rules, preferred, user="app", term=self.topology.term)
        self.waits = Waits()
        self.progress = CommandProgress()
        self.read = Read(self.session, self.topology, self.waits, LostPolicy.ERROR, self.progress)

    @property
    def scope(self) -> Any:
        return self.session.reading(self.session.rules, self.topology.term, self.now)

    @property
    def stands(self) -> Decision | None:
        """The decision that stands, if the session is plain."""
        return (
            self.read.cached_decision.of(READ.tables, self.now) if is_plain(self.session) else None
        )

    def reads(self, which: int) -> None:
        """Read by the decision that stands, or else as the policy says.

        `which` says whether the connection is to an earlier incarnation of the replica.
        """
        self._reads(lambda: None, which)

    def _reads(self, meanwhile: Callable[[], None], late: int) -> None:
        stands = self.stands
        if stands is None:
            self._decide(None, meanwhile, late)
            return
        epoch, sent_at = stands.server.epoch - late, self.now
        rules = self.session.rules
        meanwhile()
        if stands.proof is Proof.WAITED:
            requirement = self.read.cached_decision.requirement
            self.read.cached_decision.wait_answered(
                stands, "reached", requirement, epoch, sent_at, 0.1, self.now
            )
        self._show(stands.server, epoch, rules)

    def _show(self, server: Server, epoch: int, rules: Rules) -> None:
        """Let a server's answer show what it has, and tell it where that is tracked."""
        if rules.level is Level.MONOTONIC_READS:
            server.add_proof(server.applied, epoch)
            self.session.record_executed(server.applied, server, self.now, rules)
        self.session.record_answer(server, epoch, rules)

    def reads_as_it_asks(self, which: int) -> None:
        """Read by rules of the read's own."""
        level = (Level.BOUNDED_STALENESS, Level.MONOTONIC_READS)[which]
        scope = self.session.rules.scope
        self._decide(Rules(level, scope, 0.25, TimeoutPolicy.PRIMARY, STALENESS), lambda: None, 0)

    def reads_while_others_write(self, _which: int) -> None:
        self._reads(lambda: self.another_writes(0), 0)

    def writes_while_it_reads(self, _which: int) -> None:
        """Write during a read, as no client can: what is written then was not waited for."""
        self._reads(lambda: self.writes(0), 0)

    def another_waits(self, which: int) -> None:
        """Let another read wait for the same set; by `which`, long enough to be joined or not."""
        required = self.scope.required(self.session.rules.level)
        if required:
            since = self.now - (0.1, 0.001)[which]
            self.waits.begin(self.topology.replicas[0], GtidSet.parse(required.text), since)

    def waits_end(self, _which: int) -> None:
        for wait in [wait for waits in self.waits._waits.values() for wait in waits]:
            self.waits.end(wait)

    def takes_its_time(self, which: int) -> None:
        """Let a WAIT take longer than the budget, or less."""
        self.topology.replicas[which].applied_after((0.3, 0.1)[which], 0.1, self.now)

    def has_little_time(self, which: int) -> None:
        rules = self.session.rules
        budget = (0.0, 0.05)[which]
        self.session.adjust(Rules(rules.level, rules.scope, budget, rules.on_timeout, STALENESS))

    def gives_many(self, which: int) -> None:
        """Let the session write GTIDs with gaps between them."""
        for _ in range((9, 70)[which]):
            self.committed += 2
            self.session.record_write(gtids(str(self.committed)), self.topology.primary, self.now)

    def _decide(self, rules: Rules | None, meanwhile: Callable[[], None], late: int) -> None:
        self.progress.on_command()
        step = self.read.begin(READ, rules, self.now)
        if isinstance(step, Ask):
            executed = gtids(f"1-{self.committed}")
            self.topology.observations.add(self.now, executed)
            step = self.read.probe_answered(executed, EMPTY, self.now)
        meanwhile()
        self.read.note = None
        if isinstance(step, Join):
            self.waits_end(0)
            step = self.read.released(self.now)
        if isinstance(step, Send):
            decision = step.decision
            epoch = decision.server.epoch - late
            if decision.proof is Proof.WAITED:
                self.read.wait_answered("reached", True, True, epoch, 0.1, self.now)
            elif decision.confirm:
                self.read.confirm_answered(True, True, epoch, self.now)
            self._show(decision.server, epoch, rules or self.session.rules)
        self.progress.on_ended()

    def writes(self, _which: int) -> None:
        self.committed += 1
        written = gtids(str(self.committed))
        self.session.record_write(written, self.topology.primary, self.now)
        self.topology.primary.add_proof(written, self.topology.primary.epoch)

    def another_writes(self, _which: int) -> None:
        self.committed += 1
        for scope in self.session.scopes.states():
            scope.record_write(gtids(str(self.committed)), EMPTY, self.now)

    def applies(self, which: int) -> None:
        server = self.topology.replicas[which]
        server.add_proof(gtids(f"1-{self.committed}"), server.epoch)

    def is_down(self, which: int) -> None:
        self.topology.replicas[which].set_unreachable(self.now)

    def is_up(self, which: int) -> None:
        self.topology.replicas[which].set_reachable()

    def lacks_what_it_had(self, which: int) -> None:
        server = self.topology.replicas[which]
        server.distrust(server.epoch)

    def is_made_anew(self, which: int) -> None:
        server = self.topology.replicas[which]
        server.observe(f"new-{server.epoch}", (self.now, self.now), gtids("1-3"), EMPTY)

    def is_confirmed(self, which: int) -> None:
        server = self.topology.replicas[which]
        server.asks(self.now)
        server.add_confirmation(server.epoch, self.now)

    def is_asked(self, which: int) -> None:
        self.topology.replicas[which].asks(self.now + which)

    def has_strayed(self, which: int) -> None:
        server = self.topology.replicas[which]
        server.diverged_gtids = EMPTY if server.diverged_gtids else gtids("4")

    def is_logged(self, which: int) -> None:
        """Let the primary's log tell that all that was written changed one table, or the other."""
        topology, tables = self.topology, self.topology.transaction_tables
        if topology.current_tables is None:
            tables.begin(topology.term, gtids("1-3"), 0)
        for number in range(4, self.committed + 1):
            gtid = Gtid(U, number)
            if gtid not in tables.read_through:
                tables.add_rows(gtid, frozenset([TABLES[which]]))
        looked = topology.observations.looks
        self.session.known_tables.take(MEANINGS, gtids("1-3"), looked, topology.term)
        observation = Observation(self.now, gtids("1-3"))
        topology.observations.end_look(
            topology.observations.begin_look(), tables.read_through, observation
        )
        for server in topology.replicas:
            server.sources = frozenset([topology.primary.uuid])
            server.filters.applier = ""

    def is_filtered(self, which: int) -> None:
        filters = self.topology.replicas[which].filters
        filters.lacking = not filters.lacking

    def names_nothing(self, which: int) -> None:
        server = self.topology.servers[which]
        server.gtids = not server.gtids

    def is_refused(self, _which: int) -> None:
        self.topology.refusals.add(READ.digest, self.now - 599.5)

    def time_passes(self, which: int) -> None:
        self.now += AGE / 2 + which

    def is_doubted(self, _which: int) -> None:
        self.scope.doubt()

    def is_verified(self, which: int) -> None:
        self.scope.compare_with_primary(
            gtids("1-3" if which else "1-99"), self.scope.own, self.topology.term
        )

    def others_lost_writes(self, which: int) -> None:
        self.scope.record_loss_elsewhere(gtids("4"), tell=which == 1)

    def primary_begins_anew(self, _which: int) -> None:
        primary = self.topology.primary
        primary.observe(f"new-{primary.epoch}", (self.now, self.now), gtids("1-99"), EMPTY)

    def is_promoted(self, which: int) -> None:
        self.topology.promote(self.topology.replicas[which])

    def may_have_written(self, _which: int) -> None:
        for scope in (self.session.own_scope, *self.session.scopes.states()):
            scope.may_have_written()

    def is_probed(self, _which: int) -> None:
        self.scope.on_probe(gtids(f"1-{self.committed}"), self.scope.doubts)

    def writes_unlogged(self, which: int) -> None:
        if which:
            self.session.record_unlogged_write()

    def chooses_rules(self, which: int) -> None:
        level = (self.level, Level.STRONG)[which]
        scope = (self.session.rules.scope, Scope.USER)[which]
        self.session.adjust(Rules(level, scope, 0.25, TimeoutPolicy.PRIMARY, STALENESS))

    def chooses_a_level(self, which: int) -> None:
        """Choose the next level, or the one before."""
        rules = self.session.rules
        number = LEVELS.index(rules.level) if rules.level in LEVELS else 0
        level = LEVELS[(number + (1, -1)[which]) % len(LEVELS)]
        self.session.adjust(Rules(level, rules.scope, 0.25, TimeoutPolicy.PRIMARY, STALENESS))

    def chooses_auto(self, which: int) -> None:
        """Let reads wait where that is worth it; by `which`, it is not."""
        rules = self.session.rules
        self.session.adjust(Rules(rules.level, rules.scope, AUTO, rules.on_timeout, STALENESS))
        self.topology.primary_share.share = (0.99, 0.01)[which]
        for server in self.topology.servers:
            server.answer_times.answered(0.001, 0.0)
            server.answer_times.caught_up(0.1, 0.1, self.now)

    def another_reads(self, which: int) -> None:
        """Let another session of the scope be shown something by a replica."""
        server = self.topology.replicas[which]
        for scope in self.session.scopes.states():
            scope.record_answer(server, server.epoch)

    def is_settled(self, _which: int) -> None:
        """Let the primary have shown all that was seen."""
        primary = self.topology.primary
        self.session.own_scope.on_primary_settled(primary, primary.epoch)

    def is_looked_at(self, which: int) -> None:
        """Let the monitor see what the primary has; by `which`, the log does not have it yet."""
        executed = gtids(f"1-{self.committed}")
        observation = Observation(self.now, executed, self.topology.primary.epoch)
        observation.logged = which == 0
        self.topology.observations.take(observation)

    def begins(self, _which: int) -> None:
        transaction = self.session.transaction
        transaction.on_restore(0 if transaction.is_open else IN_TRANS)

    def is_behind(self, which: int) -> None:
        self.topology.replicas[which].timed_out(self.now, 1.0)

    def lags(self, which: int) -> None:
        replica = self.topology.replicas[which]
        replica.set_lagging(not replica.lagging)

    def is_read_though_it_lags(self, which: int) -> None:
        self.topology.reads_lagging = which == 1

    def is_left_out(self, which: int) -> None:
        self.session.avoided ^= {self.topology.replicas[which]}


HAPPENINGS: Final[list[Callable[[World, int], None]]] = [
    *(World.reads, World.writes, World.another_writes, World.applies, World.is_down, World.is_up),
    *(World.lacks_what_it_had, World.is_made_anew, World.is_confirmed, World.is_asked),
    *(World.has_strayed, World.is_filtered, World.names_nothing, World.is_refused),
    *(World.time_passes, World.is_doubted, World.is_verified, World.others_lost_writes),
    *(
        World.primary_begins_anew,
        World.is_promoted,
        World.may_have_written,
        World.is_probed,
        World.writes_unlogged,
    ),
    *(World.chooses_rules, World.begins, World.is_left_out, World.is_behind),
    *(World.reads_as_it_asks, World.reads_while_others_write, World.writes_while_it_reads),
    *(World.another_waits, World.waits_end, World.takes_its_time, World.has_little_time),
    *(World.gives_many, World.chooses_a_level, World.another_reads, World.is_settled),
    *(World.is_looked_at, World.lags, World.is_read_though_it_lags, World.is_logged),
    World.chooses_auto,
]
happenings = st.tuples(
    st.one_of(
        st.sampled_from(HAPPENINGS),
        st.sampled_from([World.reads, World.applies, World.writes]),
        st.sampled_from([World.reads, World.is_looked_at]),
        st.sampled_from([World.writes, World.is_logged]),
    ),
    st.integers(0, 1),
)


def check(world: World) -> None:
    """Check that the standing decision is the machine's; only a known proof's set may differ."""
    stands = world.stands
    if stands is None:
        return
    session, topology = world.session, world.topology
    scope, required = world.read.cached_decision.scope, world.read.cached_decision.required
    best_effort = session.rules.level is Level.BEST_EFFORT
    if best_effort:
        assert scope is None
    else:
        assert scope is world.scope
        assert not scope.lost_untold  # the machine would refuse the read
    chosen = choose(session, READ, topology, world.now)
    progress = CommandProgress()
    progress.on_command()
    machine = Read(session, topology, world.waits, LostPolicy.ERROR, progress)
    step = machine.begin(READ, None, world.now)
    assert isinstance(step, Send)  # neither Join nor Ask
    assert step.decision == chosen
    assert machine.note is None
    assert machine.required is required
    assert machine.scope is scope
    assert stands.server is chosen.server
    assert (stands.reason, stands.proof, stands.confirm) == (
        *(chosen.reason, chosen.proof, chosen.confirm),
    )
    assert not stands.confirm
    if stands.proof is Proof.PRIMARY:
        assert session.rules.is_auto
        assert session.rules.level is Level.READ_OWN_WRITES
        return
    if best_effort:
        assert stands.proof is Proof.NONE
        return
    assert stands.proof_set is not None
    assert chosen.proof_set is not None
    if stands.proof is Proof.WAITED:
        independence = stands.independence
        remaining = required if independence is None else independence.remaining
        assert stands.proof_set == chosen.proof_set == remaining
        assert independence is not None or stands.proof_set is required
    elif stands.proof is Proof.INDEPENDENT:
        assert stands.independence is not None
        assert stands.proof_set == chosen.proof_set
    else:
        assert stands.proof is Proof.KNOWN
        assert required <= stands.proof_set <= chosen.proof_set


Step = tuple[Callable[[World, int], None], int]


@given(
    st.sampled_from([Scope.CONNECTION, Scope.USER]),
    st.integers(0, 3),
    st.sampled_from(TimeoutPolicy),
    st.sampled_from(LEVELS),
    st.lists(happenings, max_size=25),
)
def test_what_stands_is_what_the_policy_decides(
    scope: Scope, preferred: int, on_timeout: TimeoutPolicy, level: Level, steps: list[Step]
) -> None:
    world = World(scope, preferred, on_timeout, level)
    for happens, which in steps:
        happens(world, which)
        check(world)


SNAPSHOT_BEFORE: Final[list[list[Step]]] = [
    [(World.reads, 0)],
    [(World.writes, 0)],
    [(World.reads, 0), (World.writes, 0)],
    [(World.writes, 0), (World.reads, 0)],
    [(World.is_down, 0), (World.reads, 0)],
]
EACH: Final[list[Step]] = [
    (happens, which)
    for happens in HAPPENINGS
    for which in ((0,) if "_which" in signature(happens).parameters else (0, 1))
]


@pytest.mark.not_plain
@pytest.mark.parametrize("scope", [Scope.CONNECTION, Scope.USER])
@pytest.mark.parametrize(
    "before",
    [
        *SNAPSHOT_BEFORE[:2],
        *(pytest.param(steps, marks=pytest.mark.not_fast) for steps in SNAPSHOT_BEFORE[2:]),
    ],
)
def test_whatever_two_things_happen(scope: Scope, before: list[Step]) -> None:
    _whatever_two_things_happen(scope, before, Level.READ_OWN_WRITES)


@pytest.mark.parametrize(
    ("level", "scope"),
    [
        (Level.MONOTONIC_READS, Scope.CONNECTION),
        pytest.param(Level.MONOTONIC_READS, Scope.USER, marks=pytest.mark.deep),
        pytest.param(Level.BOUNDED_STALENESS, Scope.CONNECTION, marks=pytest.mark.deep),
        pytest.param(Level.BEST_EFFORT, Scope.USER, marks=pytest.mark.deep),
    ],
)
def test_whatever_two_things_happen_at_another_level(level: Level, scope: Scope) -> None:
    _whatever_two_things_happen(scope, [(World.is_looked_at, 0), (World.reads, 0)], level)


def _whatever_two_things_happen(scope: Scope, before: list[Step], level: Level) -> None:
    for first, second in product(EACH, EACH):
        world = World(scope, 0, level=level)
        for happens, which in (*before, first, second, (World.reads, 0)):
            happens(world, which)
            check(world)


@pytest.mark.parametrize("scope", [Scope.CONNECTION, Scope.USER])
def test_a_read_that_is_known_stands(scope: Scope) -> None:
    world = World(scope, 0)
    world.reads(0)
    before = world.stands
    assert before is not None
    assert before is world.stands
    world.writes(0)
    assert world.stands is not before
    world.applies(0)
    world.reads(0)
    stands = world.stands
    assert stands is not None
    assert stands is world.stands


@pytest.mark.parametrize("scope", [Scope.CONNECTION, Scope.USER])
def test_a_read_behind_a_write_waits(scope: Scope) -> None:
    world = World(scope, 0)
    world.reads(0)
    world.writes(0)
    stands = world.stands
    assert stands is not None
    assert stands.proof is Proof.WAITED
    assert stands.proof_set is world.scope.own
    world.reads(0)
    behind = world.stands
    assert behind is not None
    assert (behind.server, behind.proof) == (stands.server, Proof.KNOWN)


@pytest.mark.parametrize("late", [0, 1])
def test_a_read_joins_another_ones_wait(late: int) -> None:
    """The machine joins it, once the WAIT has lasted long enough."""
    world = World(Scope.CONNECTION, 0)
    world.writes(0)
    world.another_waits(late)
    assert (world.stands is None) == (late == 0)
    world.waits_end(0)
    assert world.stands is not None


def test_what_does_not_depend_on_a_write_proves_nothing_for_the_next_read() -> None:
    world = World(Scope.CONNECTION, 0)
    world.applies(0)
    world.writes(0)
    world.is_logged(1)
    for _ in range(2):
        stands = world.stands
        assert stands is not None
        assert stands.proof is Proof.INDEPENDENT
        world.reads(0)
    other = world.read.cached_decision.of(None, world.now)
    assert other is not None
    assert (other.proof, other.proof_set) == (Proof.WAITED, world.scope.own)


def test_a_wait_for_what_remains_proves_no_more() -> None:
    world = World(Scope.CONNECTION, 0)
    world.applies(0)
    world.writes(0)
    world.is_logged(0)
    world.writes(0)
    world.is_logged(1)
    stands = world.stands
    assert stands is not None
    assert (stands.proof, stands.proof_set) == (Proof.WAITED, gtids("6"))
    world.reads(0)
    assert world.topology.replicas[0].applied == gtids("1-6")
    assert world.scope.own == gtids("6-7")
    stands = world.stands
    assert stands is not None
    assert stands.proof is Proof.INDEPENDENT


def test_what_a_wait_has_proved_stands() -> None:
    world = World(Scope.CONNECTION, 0)
    world.writes(0)
    world.reads(0)
    stands = world.stands
    assert stands is not None
    assert stands.proof_set == gtids("6")
    world.time_passes(0)
    world.time_passes(0)
    assert world.stands is None


def test_a_read_that_relies_on_nothing_stands_for_ever() -> None:
    world = World(Scope.CONNECTION, 0)
    world.reads(0)
    for _ in range(5):
        world.time_passes(1)
    assert world.stands is not None


def test_what_another_replica_than_the_first_has_is_decided_anew_each_time() -> None:
    world = World(Scope.CONNECTION, 0)
    world.is_down(0)
    world.reads(0)
    stands = world.stands
    assert stands is not None
    assert (stands.server.name, stands.proof) == ("r2", Proof.KNOWN)
    assert stands is not world.stands
    world.is_up(0)
    stands = world.stands
    assert stands is not None
    assert stands.server.name == "r1"


def test_a_read_goes_on_where_something_was_shown() -> None:
    world = World(Scope.CONNECTION, 0, level=Level.MONOTONIC_READS)
    world.is_down(0)
    world.reads(0)
    world.is_up(0)
    stands = world.stands
    assert stands is not None
    assert (stands.server.name, stands.proof) == ("r2", Proof.KNOWN)
    assert stands is world.stands
    world.is_down(1)
    assert world.stands is None  # the primary has to be asked for what was seen


@pytest.mark.parametrize("scope", [Scope.CONNECTION, Scope.USER])
def test_what_was_seen_must_be_seen_again(scope: Scope) -> None:
    world = World(scope, 0, level=Level.MONOTONIC_READS)
    world.reads(0)
    assert world.stands is world.stands is not None
    world.writes(0)
    world.applies(0)
    world.reads(0)
    stands = world.stands
    assert stands is not None
    assert stands.proof_set is not None
    assert world.scope.observed == gtids("1-6")
    assert world.scope.observed <= stands.proof_set
    for scope_state in (world.session.own_scope, world.scope):
        scope_state.unseen = True
    assert world.stands is None


def test_a_read_of_bounded_staleness_relies_on_what_the_log_has() -> None:
    world = World(Scope.CONNECTION, 0, level=Level.BOUNDED_STALENESS)
    assert world.stands is None  # the primary has to be asked
    world.applies(0)
    world.is_looked_at(1)
    assert world.stands is None
    world.reads(0)
    stands = world.stands
    assert stands is not None
    assert stands == world.stands
    assert world.read.cached_decision.required == gtids("1-5")
    world.now += STALENESS + 1
    assert world.stands is None


def test_a_read_of_best_effort_goes_to_the_first_replica_that_is_there() -> None:
    world = World(Scope.USER, 0, level=Level.BEST_EFFORT)
    stands = world.stands
    assert stands is not None
    assert (stands.server.name, stands.proof) == ("r1", Proof.NONE)
    assert stands == world.stands
    assert not world.session.scopes.states()
    world.is_down(0)
    stands = world.stands
    assert stands is not None
    assert stands.server.name == "r2"
