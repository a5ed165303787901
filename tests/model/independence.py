"""A primary with tables, views, triggers and definitions, a late replica, and judged reads.

Everything happens in some order that chance chooses: a session writes, others write and define, the
log is read, the primary is asked what names mean and looked at, and the replica applies. The real
code decides about the session's reads; an answer is compared with that of a state which has all
that the session wrote.
"""

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from protocol.gtid import EMPTY, Gtid, GtidSet
from routing.consistency.decision import Decision, Level, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from routing.policy import choose
from routing.servers.observations import Observation
from routing.servers.topology import Topology
from routing.servers.transaction_tables import TableName
from routing.session.session import Session
from routing.sql.catalogue import read
from routing.sql.lexer import MODE_UTF8
from routing.sql.statement import classify_text
from routing.sql.table_meanings import TableMeanings

SOURCE: Final = "11111111-1111-1111-1111-111111111111"
TABLES: Final = ("a", "b", "c")
VIEWS: Final = ("v", "w")
_NOW: Final = 1000.0
_WINDOW: Final = 4
"""How many transactions a replica that commits in any order may apply before an earlier one."""


@dataclass
class State:
    """Of a server: what is in each table, what each view reads, and which keys cascade.

    A foreign key is the table that it refers to, and the table that has it.
    """

    contents: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))
    views: dict[str, str] = field(default_factory=lambda: {"v": "a", "w": "v"})
    keys: set[tuple[str, str]] = field(default_factory=set)

    def answer(self, name: str) -> int:
        """What a read by this name finds."""
        while name in self.views:
            name = self.views[name]
        return self.contents[name]

    def changed_with(self, tables: set[str]) -> set[str]:
        """Tables, and the children to which a change of them cascades."""
        while not (more := {child for parent, child in self.keys if parent in tables}) <= tables:
            tables = tables | more
        return tables


@dataclass(frozen=True)
class Transaction:
    """One of the primary's log.

    Attributes:
        rows: what it writes to tables.
        view: which view is defined anew, and over which name; empty if none is.
        exchanged: two tables that change their names; empty if none do.
        key: which foreign key is added or dropped; empty if none is.
        unnamed: the tables that the log does not name, though the rows of foreign keys changed.
        opaque: the log does not show it as a change of rows.
    """

    rows: tuple[tuple[str, int], ...] = ()
    view: tuple[str, ...] = ()
    exchanged: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    unnamed: frozenset[str] = frozenset()
    opaque: bool = False

    def apply(self, state: State) -> None:
        """Let a state have it."""
        state.contents.update(self.rows)
        if self.view:
            name, over = self.view
            state.views[name] = over
        if self.exchanged:
            first, second = self.exchanged
            contents = state.contents
            contents[first], contents[second] = contents[second], contents[first]
            renamed = {first: second, second: first}
            state.keys = {
                (renamed.get(parent, parent), renamed.get(child, child))
                for parent, child in state.keys
            }
        if self.key:
            parent, child = self.key
            state.keys ^= {(parent, child)}


class Model:
    """One run.

    Args:
        seed: of all that happens.

    Attributes:
        complaints: answers that lack what the session wrote.
        independent: how many reads were.
    """

    def __init__(self, seed: int) -> None:
        chance = self._chance = random.Random(seed)
        self._ordered = chance.random() < 0.8
        self._has_keys = chance.random() < 0.3
        self.complaints: list[str] = []
        self.independent = 0
        self._log: list[Transaction] = []
        self._primary = State()
        self._replica = State()
        self._applied: set[int] = set()
        self._triggers: set[tuple[str, str]] = set()
        self._read = 0
        self._look = (0, EMPTY)
        self._topology = Topology("primary:1", ["replica:1"])
        self._topology.primary.observe(SOURCE, (0, 0), EMPTY, EMPTY)
        self._server = self._topology.replicas[0]
        self._server.observe("replica", (0, 0), EMPTY, EMPTY)
        self._server.sources = frozenset([SOURCE])
        self._server.filters.applier = ""
        self._server.ordered = self._ordered
        self._tables = self._topology.transaction_tables
        self._tables.begin(self._topology.term, EMPTY, 0)
        rules = Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)
        self._session = Session(rules, 0, term=self._topology.term)
        self._session.schema = "app"

    def run(self, steps: int) -> None:
        """Let so many things happen."""
        happen = {
            self._write: 5.0,
            self._define: 0.5,
            self._write_opaquely: 0.1,
            self._follow: 7.0,
            self._notice: 3.0,
            self._apply: 5.0,
            self._prove: 5.0,
            self._ask: 3.0,
            self._begin_look: 4.0,
            self._end_look: 4.0,
            self._judge_read: 10.0,
        }
        for step in self._chance.sample(list(happen), 4):  # each run is of another kind
            happen[step] *= self._chance.choice([0.4, 2.5])
        for step in self._chance.choices(list(happen), list(happen.values()), k=steps):
            step()

    # --- at the primary ------------------------------------------------------------------------

    def _commit(self, transaction: Transaction, *, own: bool) -> None:
        self._log.append(transaction)
        transaction.apply(self._primary)
        if own:
            self._session.own_scope.own |= _set([len(self._log)])
            self._notice_all()

    def _changed(self, *, opaque: bool = False) -> Transaction:
        """Somebody writes to a table, on a connection that may have been reset before."""
        value = len(self._log) + 1
        table = self._chance.choice(TABLES)
        named = {table} | {second for first, second in self._triggers if first == table}
        changed = self._primary.changed_with(named)
        unnamed = frozenset(changed - named) if self._chance.random() < 0.5 else frozenset()
        rows = tuple([(name, value) for name in sorted(changed)])
        return Transaction(rows, unnamed=unnamed, opaque=opaque)

    def _write(self) -> None:
        self._commit(self._changed(), own=self._chance.random() < 0.6)

    def _write_opaquely(self) -> None:
        """By XA, or as a statement."""
        self._commit(self._changed(opaque=True), own=self._chance.random() < 0.5)

    def _define(self) -> None:
        chance = self._chance
        kind = chance.randrange(4 if self._has_keys else 3)
        transaction = Transaction(opaque=True)
        if kind == 0:
            view = chance.choice(VIEWS)
            over = chance.choice(TABLES if view == "v" else (*TABLES, "v"))
            transaction = Transaction(view=(view, over), opaque=True)
        elif kind == 1:
            first, second = chance.sample(TABLES, 2)
            transaction = Transaction(exchanged=(first, second), opaque=True)
        elif kind == 2:
            first, second = chance.sample(TABLES, 2)
            self._triggers ^= {(first, second)}
        else:
            transaction = Transaction(key=tuple(chance.sample(TABLES, 2)), opaque=True)
        self._commit(transaction, own=chance.random() < 0.1)

    # --- what the proxy learns -----------------------------------------------------------------

    def _follow(self) -> None:
        if self._read == len(self._log):
            return
        transaction = self._log[self._read]
        self._read += 1
        gtid = Gtid(SOURCE, self._read)
        if transaction.opaque:
            self._tables.add_opaque(gtid)
        else:
            names = {name for name, _ in transaction.rows} - transaction.unnamed
            self._tables.add_rows(gtid, frozenset(TableName("app", name) for name in names))

    def _notice_all(self) -> None:
        self._topology.primary.add_proof(self._executed(), self._topology.primary.epoch)

    def _notice(self) -> None:
        self._notice_all()

    def _executed(self) -> GtidSet:
        return _set(range(1, len(self._log) + 1))

    def _ask(self) -> None:
        known = self._session.known_tables
        executed, topology = self._topology.primary.applied, self._topology
        meanings = _meanings(self._primary)
        known.take(meanings, executed, topology.observations.looks, topology.term)

    def _begin_look(self) -> None:
        self._look = (self._topology.observations.begin_look(), self._executed())

    def _end_look(self) -> None:
        number, executed = self._look
        if number:
            observation = Observation(_NOW, executed)
            self._topology.observations.end_look(number, executed, observation)

    # --- the replica ---------------------------------------------------------------------------

    def _apply(self) -> None:
        waiting = [n for n in range(1, len(self._log) + 1) if n not in self._applied]
        if waiting:
            self._apply_it(waiting[0] if self._ordered else self._chance.choice(waiting[:_WINDOW]))

    def _apply_it(self, number: int) -> None:
        self._log[number - 1].apply(self._replica)
        self._applied.add(number)

    def _prove(self) -> None:
        self._server.add_proof(_set(self._applied), self._server.epoch)

    # --- reads ---------------------------------------------------------------------------------

    def _judge_read(self) -> None:
        name = self._chance.choice((*TABLES, *VIEWS))
        statement = classify_text(f"SELECT * FROM {name}".encode(), MODE_UTF8)  # noqa: S608 - of the test
        decision = choose(self._session, statement, self._topology, _NOW)
        if decision.independence is None:
            return
        self.independent += 1
        self._wait(decision)
        found = self._replica.answer(name)
        expected = self._expected().answer(name)
        if found != expected:
            self.complaints.append(f"{name}: {found}, not {expected}, behind {len(self._log)}")

    def _wait(self, decision: Decision) -> None:
        """Until the replica has what the decision requires."""
        assert decision.independence is not None
        while not _set(self._applied).covers(decision.independence.remaining):
            self._apply()

    def _expected(self) -> State:
        """The replica's state with all that the session wrote, and what was defined before that."""
        own = self._session.own_scope.own
        last = max([end for _, end in own.intervals(SOURCE)], default=1)
        state = State()
        for number, transaction in enumerate(self._log, 1):
            before = transaction.opaque and number < last
            if before or number in self._applied or Gtid(SOURCE, number) in own:
                transaction.apply(state)
        return state


def _set(numbers: Iterable[int]) -> GtidSet:
    gtids = EMPTY
    for number in numbers:
        gtids |= GtidSet.of(SOURCE, number, number + 1)
    return gtids


def _meanings(state: State) -> TableMeanings:
    """What the primary says of its names."""
    tables = json.dumps([["app", name, "InnoDB"] for name in TABLES])
    views = [
        ["app", name, f"select `app`.`{over}`.`i` AS `i` from `app`.`{over}`"]  # noqa: S608 - of the test
        for name, over in state.views.items()
    ]
    usages = [["app", name, "app", over] for name, over in state.views.items()]
    keys = [["app", child, "app", parent] for parent, child in sorted(state.keys)]
    *_, catalogue = read(
        json.dumps(views).encode(),
        json.dumps(usages).encode(),
        base_tables=tables.encode(),
        foreign_keys=json.dumps(keys).encode(),
    )
    assert catalogue is not None
    return catalogue.tables
