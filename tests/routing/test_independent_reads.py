"""Reads that need not wait for what changed none of their tables, premise by premise."""

import json
from collections.abc import Callable

import pytest

from protocol.gtid import EMPTY, Gtid, GtidSet
from routing.consistency.decision import Decision, Level, Proof, Reason, Scope, TimeoutPolicy
from routing.consistency.requirement import Requirement
from routing.consistency.rules import Rules
from routing.policy import choose
from routing.servers.observations import Observation
from routing.servers.topology import Server, Topology
from routing.servers.transaction_tables import TableName
from routing.session.session import Session
from routing.sql.catalogue import read
from routing.sql.lexer import MODE_UTF8
from routing.sql.statement import Statement, classify_text
from routing.sql.table_meanings import TableMeanings
from tests.routing.transaction.situations import open_read_only
from tests.support.gtid_sets import gtids

U = "11111111-1111-1111-1111-111111111111"
NOW = 1000.0
OF_A, OF_B = (frozenset([TableName("app", name)]) for name in ("a", "b"))
READ_A, READ_B, READ_V, READ_NOTHING = (
    classify_text(text, MODE_UTF8)
    for text in (b"SELECT * FROM a", b"SELECT * FROM b", b"SELECT * FROM v", b"SELECT 1")
)


def numbers(text: str) -> GtidSet:
    return gtids(f"{U}:{text}" if text else "")


def meanings() -> TableMeanings:
    """Tables a and b, and a view over b."""
    view = [["app", "v", "select `app`.`b`.`i` AS `i` from `app`.`b`"]]
    tables = [["app", "a", "InnoDB"], ["app", "b", "InnoDB"]]
    *_, catalogue = read(
        json.dumps(view).encode(),
        b'[["app","v","app","b"]]',
        base_tables=json.dumps(tables).encode(),
        foreign_keys=b"[]",
    )
    assert catalogue is not None
    return catalogue.tables


class World:
    """A primary whose log is read from 10 on, late replicas, and a session."""

    def __init__(self, *applied: str, level: Level = Level.READ_OWN_WRITES) -> None:
        applied = applied or ("1-10",)
        self.topology = Topology("primary:1", [f"replica:{k}" for k in range(len(applied))])
        self.topology.primary.observe(U, (0, 0), numbers("1-10"), EMPTY)
        for k, (server, text) in enumerate(zip(self.topology.replicas, applied, strict=True)):
            server.observe(f"uuid-{k}", (0, 0), numbers(text), EMPTY)
            server.sources = frozenset([U])
            server.filters.applier = ""
        self.tables = self.topology.transaction_tables
        self.tables.begin(self.topology.term, numbers("1-10"), 0)
        rules = Rules(level, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)
        self.session = Session(rules, 0, term=self.topology.term)
        self.session.schema = "app"
        self.asks("1-10")
        self.looks("1-10")

    def asks(self, executed: str | None, same: TableMeanings | None = None) -> None:
        """The primary, which is known to have these, says what names mean; perhaps the same."""
        looks, term = self.topology.observations.looks, self.topology.term
        gtids = None if executed is None else numbers(executed)
        self.session.known_tables.take(same or meanings(), gtids, looks, term)

    def looks(self, executed: str) -> None:
        """The monitor finds that the primary has these, or is committing them."""
        observations = self.topology.observations
        observation = Observation(NOW, numbers(executed))
        observations.end_look(observations.begin_look(), numbers(executed), observation)

    @property
    def replica(self) -> Server:
        return self.topology.replicas[0]

    def write(
        self, number: int, tables: frozenset[TableName] | None, *, logged: bool = True
    ) -> None:
        """The session writes to these tables, or something that is no change of rows."""
        self.session.own_scope.own |= numbers(str(number))
        if logged and tables is None:
            self.tables.add_opaque(Gtid(U, number))
        elif logged and tables is not None:
            self.tables.add_rows(Gtid(U, number), tables)

    def decide(self, statement: Statement = READ_A) -> Decision:
        return choose(self.session, statement, self.topology, NOW)

    def waits(self, text: str, statement: Statement = READ_A) -> None:
        """A read waits for these transactions at the first replica."""
        decision = self.decide(statement)
        assert decision == Decision(self.replica, Reason.READ, Proof.WAITED, numbers(text))

    def is_independent(self, statement: Statement = READ_A) -> None:
        """A read goes to the first replica at once, though that lacks something."""
        decision = self.decide(statement)
        applied = self.replica.applied
        assert decision == Decision(self.replica, Reason.READ, Proof.INDEPENDENT, applied)
        less = decision.independence
        assert less is not None
        assert applied.covers(less.remaining)
        assert less.required == self.session.own_scope.own
        assert less.left_out == less.required - less.remaining


def test_a_write_to_another_table_is_left_out() -> None:
    world = World()
    world.write(11, OF_B)
    world.is_independent()
    less = world.decide().independence
    assert less is not None
    assert (less.left_out, less.tables) == (numbers("11"), OF_A)


def test_what_reads_no_table_depends_on_none() -> None:
    world = World()
    world.write(11, OF_A)
    world.is_independent(READ_NOTHING)


def test_a_write_to_a_table_of_the_read_is_waited_for() -> None:
    world = World()
    world.write(11, OF_A)
    world.waits("11")
    assert world.decide().independence is None


def test_a_read_waits_for_no_more_than_what_remains() -> None:
    world = World()
    world.write(11, OF_A)
    world.write(12, OF_B)
    world.waits("11")
    less = world.decide().independence
    assert less is not None
    assert (less.left_out, less.remaining) == (numbers("12"), numbers("11"))
    world.replica.add_proof(numbers("11"), world.replica.epoch)
    world.is_independent()


def test_a_view_reads_the_tables_under_it() -> None:
    world = World()
    world.write(11, OF_B)
    world.waits("11", READ_V)
    world.waits("11", READ_B)


def test_a_trigger_or_a_cascade_names_its_table_in_the_log() -> None:
    world = World()
    world.write(11, OF_A | OF_B)
    world.waits("11")


def test_premise_1_the_log_is_read_through_what_is_left_out() -> None:
    world = World()
    world.write(11, OF_B, logged=False)
    world.waits("11")


@pytest.mark.parametrize("own", [True, False])
def test_premise_2_and_4_whatever_is_no_change_of_rows_matters(own: bool) -> None:
    world = World()
    world.write(11, OF_B)
    world.is_independent()
    if own:
        world.write(12, None)
        world.waits("11-12")
    else:
        world.tables.add_opaque(Gtid(U, 12))
        world.waits("11")
    # Once the replica has it, and the primary was asked anew, the rule is of use again.
    world.topology.primary.add_proof(numbers("11-12"), world.topology.primary.epoch)
    world.asks("1-12")
    world.looks("1-12")
    world.waits("11-12" if own else "11")
    world.replica.add_proof(numbers("1-12"), world.replica.epoch)
    world.write(13, OF_B)
    world.is_independent()


def unordered(world: World) -> None:
    world.replica.ordered = False


def of_another_source(world: World) -> None:
    world.replica.sources = frozenset(["another"])


def of_two_sources(world: World) -> None:
    world.replica.sources = frozenset([U, "another"])


def of_unknown_source(world: World) -> None:
    world.replica.sources = None


def with_filters(world: World) -> None:
    world.replica.filters.applier = "REPLICATE_REWRITE_DB=((a,b))"


def with_unknown_filters(world: World) -> None:
    world.replica.filters.applier = None


def in_a_group(world: World) -> None:
    world.topology.group = U


def of_another_primary(world: World) -> None:
    world.tables.term += 1


def names_not_known(world: World) -> None:
    world.session.known_tables.take(meanings(), None, 0, world.topology.term)


def names_of_another_primary(world: World) -> None:
    world.session.known_tables.take(meanings(), numbers("1-10"), 0, world.topology.term - 1)


def names_asked_before_the_log(world: World) -> None:
    world.asks("1-9")
    world.looks("1-11")


def names_asked_ahead_of_the_log(world: World) -> None:
    world.asks("1-12")
    world.looks("1-12")


def names_may_show_what_the_log_does_not(world: World) -> None:
    world.asks("1-11")
    world.looks("1-12")


def nobody_knows_what_names_may_show(world: World) -> None:
    world.topology.observations.begin_look()  # before the answer came
    world.asks("1-11")
    world.topology.observations.end_look(2, numbers("1-11"), Observation(NOW, numbers("1-11")))


def another_schema(world: World) -> None:
    world.session.schema = "other"


def log_not_read(world: World) -> None:
    world.tables.forget("lost")


@pytest.mark.parametrize(
    "happen",
    [
        *(unordered, of_another_source, of_two_sources, of_unknown_source, in_a_group),
        *(with_filters, with_unknown_filters),
        *(of_another_primary, names_not_known, names_of_another_primary),
        *(names_asked_before_the_log, names_asked_ahead_of_the_log, another_schema, log_not_read),
        *(names_may_show_what_the_log_does_not, nobody_knows_what_names_may_show),
    ],
)
def test_without_a_premise_a_read_waits_for_everything(happen: Callable[[World], None]) -> None:
    world = World()
    world.write(11, OF_B)
    world.is_independent()
    happen(world)
    world.waits("11")
    assert world.decide().independence is None


@pytest.mark.parametrize(
    "level", [Level.MONOTONIC_READS, Level.READ_ALL_WRITES, Level.STRONG, Level.BOUNDED_STALENESS]
)
def test_levels_that_order_what_was_seen_wait_for_everything(level: Level) -> None:
    world = World(level=level)
    world.write(11, OF_B)
    world.session.own_scope.observed = numbers("1-11")
    requirement = Requirement(world.session.rules, probed=numbers("1-11"))
    decision = choose(world.session, READ_A, world.topology, NOW, requirement)
    assert (decision.proof, decision.independence) == (Proof.WAITED, None)


def test_a_snapshot_is_one_state_for_later_reads_of_other_tables() -> None:
    world = World()
    world.write(11, OF_B)
    open_read_only(world.session)
    world.waits("11")
    assert world.decide().independence is None


def test_names_count_as_soon_as_the_log_shows_all_that_their_answer_may_show() -> None:
    world = World()
    world.write(11, OF_B)
    names_may_show_what_the_log_does_not(world)
    world.waits("11")
    assert not world.session.known_tables.outdated
    world.tables.add_rows(Gtid(U, 12), OF_B)
    world.is_independent()
    nobody_knows_what_names_may_show(world)
    world.waits("11")
    world.looks("1-11")
    world.is_independent()


def answered_once() -> tuple[World, TableMeanings]:
    """A read is independent, by an answer that may come anew."""
    world, answer = World(), meanings()
    world.asks("1-10", answer)
    world.looks("1-10")
    world.write(11, OF_B)
    world.is_independent()
    return world, answer


@pytest.mark.parametrize("executed", ["1-10", "1-12", None])
def test_the_same_answer_anew_interrupts_nothing(executed: str | None) -> None:
    world, same = answered_once()
    world.asks(executed, same)
    world.is_independent()


def test_the_same_answer_anew_is_needed_behind_a_definition() -> None:
    world, same = answered_once()
    world.tables.add_opaque(Gtid(U, 12))
    world.replica.add_proof(numbers("1-12"), world.replica.epoch)
    world.write(13, OF_B)
    world.asks("1-11", same)  # before the definition
    world.waits("11:13")
    world.asks("1-12", same)
    world.waits("11:13")  # it may show more than that
    world.looks("1-12")
    world.is_independent()


def test_the_same_answer_from_another_primary_is_bounded_anew() -> None:
    world, same = answered_once()
    world.session.known_tables.take(same, numbers("1-10"), 1, world.topology.term + 1)
    world.waits("11")


def test_a_replica_that_has_everything_is_known_as_before() -> None:
    world = World("1-11")
    world.write(11, OF_B)
    assert world.decide().proof is Proof.KNOWN


def test_each_replica_is_judged_by_what_it_has() -> None:
    world = World("1-10", "1-11")
    world.write(11, OF_A)
    world.write(12, OF_B)
    decision = world.decide()
    assert (decision.server, decision.proof) == (world.topology.replicas[1], Proof.INDEPENDENT)
    assert world.decide(READ_B).proof_set == numbers("11-12")


def test_a_doubtful_replica_is_asked_first() -> None:
    world = World()
    world.write(11, OF_B)
    world.replica.proof_max_age = 1.0
    assert world.decide().confirm
    world.replica.add_confirmation(world.replica.epoch, NOW)
    assert not world.decide().confirm


def test_that_names_are_to_be_asked_anew_is_noted_where_it_helps() -> None:
    world = World()
    known = world.session.known_tables
    world.write(11, OF_B)
    world.decide()
    assert not known.outdated
    world.tables.add_opaque(Gtid(U, 12))
    world.decide()
    assert not known.outdated  # by what is known of the primary, the answer would be no newer
    world.topology.primary.add_proof(numbers("11-12"), world.topology.primary.epoch)
    world.decide()
    assert known.outdated
    world.asks("1-12")
    assert not known.outdated


def test_a_prepared_statement_reads_where_it_was_prepared() -> None:
    world = World()
    world.write(11, OF_B)
    prepared = READ_A.reading_in("app")
    world.session.schema = "other"
    world.is_independent(prepared)
    world.session.schema = "app"
    assert world.decide(READ_A.reading_in("other")).independence is None
