"""Servers as far as consistency is concerned: commits, binary logs, replication, answers.

Nothing moves by itself: a server does one small step when the scheduler of the simulation says so.

A commit has three moments (measured on MySQL 9.7):

1. *flushed*: it has its GTID and its place in the binary log.
2. *committed*: the engine shows it to others.
3. *executed*: it stands in `gtid_executed`. Its client is told after that.

`Physics` says which of them are apart. With an early dump, replicas may get a transaction, and show
it, between 1 and 2. With a late set, a read may see a transaction between 2 and 3, although no set
that the server reports at its end names it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Flag
from typing import TYPE_CHECKING

from protocol.gtid import EMPTY, GtidSet
from tests.model.wires import LOST, WAITS, Answer, Command, Wire

if TYPE_CHECKING:
    from collections.abc import Callable


class Physics(Flag):
    """Which moments of a commit are apart."""

    SIMPLE = 0
    EARLY_DUMP = 1
    LATE_EXECUTED = 2
    REAL = 3


@dataclass(frozen=True, slots=True)
class Transaction:
    """A write to one register.

    Attributes:
        number: its place among all that were ever flushed on any primary.
        gtid: a set of its GTID alone.
        register: which register.
        value: what was written.
    """

    number: int
    gtid: GtidSet
    register: int
    value: int


class Mysql:
    """One server.

    Attributes:
        name: ``host:port``.
        uuid: @@server_uuid.
        ordered: replica_preserve_commit_order.
        up: it runs.
        started: when it started, s.
        source: where it replicates from; None for the primary.
        binlog: what it flushed, in order.
        state: what a read sees, by register.
        executed: @@GLOBAL.gtid_executed.
        relay: received and not applied yet.
        wires: open connections.
        broken: connections that ended with a crash, which their clients have not noticed yet.
        noticed_from: reads that are sent from then on know what has become of it, s.
    """

    def __init__(self, name: str, uuid: str, *, ordered: bool, physics: Physics) -> None:
        self.name = name
        self.uuid = uuid
        self.ordered = ordered
        self.up = True
        self.started = 0.0
        self.source: Mysql | None = None
        self.binlog: list[Transaction] = []
        self.state: dict[int, int] = {}
        self.executed = EMPTY
        self.relay: list[Transaction] = []
        self.wires: list[Wire] = []
        self.broken: list[Wire] = []
        self.noticed_from = 0.0
        self._physics = physics
        self._flushed: deque[Transaction] = deque()
        self._committed: deque[Transaction] = deque()
        self._has: set[int] = set()  # numbers of what is in the binlog
        self._names = EMPTY  # and their GTIDs
        self._position: int | None = None  # in the source's binlog; None: not connected

    # Commits

    def flush(self, number: int, register: int, value: int) -> Transaction:
        """Give a write its GTID, and go on with its commit as far as that is one step."""
        last = self.executed.intervals(self.uuid)
        behind = [one for one in (*self._flushed, *self._committed) if self.uuid in one.gtid.tsids]
        following = (last[-1][1] if last else 1) + len(behind)
        gtid = GtidSet({self.uuid: [(following, following + 1)]})
        transaction = Transaction(number, gtid, register, value)
        self._take(transaction)
        return transaction

    def _take(self, transaction: Transaction) -> None:
        self.binlog.append(transaction)
        self._has.add(transaction.number)
        self._names |= transaction.gtid
        self._flushed.append(transaction)
        if Physics.EARLY_DUMP not in self._physics or self.source is not None:
            self._commit()

    def _commit(self) -> None:
        transaction = self._flushed.popleft()
        self.state[transaction.register] = transaction.value
        self._committed.append(transaction)
        if Physics.LATE_EXECUTED not in self._physics:
            self._settle()

    def _settle(self) -> None:
        transaction = self._committed.popleft()
        self.executed |= transaction.gtid

    @property
    def owned(self) -> GtidSet:
        """@@GLOBAL.gtid_owned: what is being committed."""
        owned = EMPTY
        for transaction in (*self._flushed, *self._committed):
            owned |= transaction.gtid
        return owned

    def has(self, number: int) -> bool:
        """Whether a transaction is in its binary log."""
        return number in self._has

    def has_all_of(self, other: Mysql) -> bool:
        """Whether its binary log has whatever is in another server's."""
        return other._has <= self._has

    @property
    def is_committing(self) -> bool:
        """Whether `go_on` has something to do."""
        return self.up and bool(self._flushed or self._committed)

    def go_on(self, later: bool) -> None:
        """One more step of a commit that is under way; `later` chooses where there is a choice."""
        if self._committed and (later or not self._flushed):
            self._settle()
        else:
            self._commit()

    def is_pending(self, transaction: Transaction) -> bool:
        """Whether a transaction of its own is not in `executed` yet."""
        return transaction in self._flushed or transaction in self._committed

    # Replication

    @property
    def can_receive(self) -> bool:
        """Whether its source has more for it: what it has no transaction of that name for.

        A source refuses who has more of its own names than itself (error 1236).
        """
        source = self.source
        if source is None or not self.up or not source.up:
            return False
        if self._position is None:
            if source.uuid in (self._names - source._names).tsids:
                return False
            self._position = 0
        relayed = [transaction.gtid for transaction in self.relay]
        while self._position < len(source.binlog):
            gtid = source.binlog[self._position].gtid
            if not gtid <= self._names and gtid not in relayed:
                return True
            self._position += 1
        return False

    def reconnect(self) -> None:
        """Its source was started again; what it had received is received again."""
        self.relay.clear()
        self._position = None

    def receive(self) -> None:
        """Take the next transaction from the source; `can_receive` must be true."""
        if self.source is not None and self._position is not None:
            self.relay.append(self.source.binlog[self._position])
            self._position += 1

    def apply(self, which: int) -> None:
        """Apply a transaction of the relay log: the first, or any that depends on none before."""
        index = 0
        if not self.ordered:
            index = which % len(self.relay)
            register = self.relay[index].register
            for earlier in range(index):
                if self.relay[earlier].register == register:
                    index = earlier
                    break
        self._take(self.relay.pop(index))

    def follow(self, source: Mysql | None) -> None:
        """Replicate from another source, or from none."""
        self.source = source
        self.relay.clear()
        self._position = None

    def clone(self, other: Mysql, uuid: str, now: float) -> None:
        """Begin anew as another server, with the data of one that runs."""
        self.uuid = uuid
        self.binlog = list(other.binlog)
        self.up = True
        self._recover(now)
        self.follow(other)

    # Faults

    def crash(self, cut: Callable[[int], int]) -> None:
        """Stop at once; `cut` says how many of so many answers on their way still arrive."""
        self.up = False
        for wire in self.wires:
            if not wire.closed:
                for _ in range(len(wire.to_client) - cut(len(wire.to_client))):
                    wire.to_client.pop()
                wire.to_client.append(LOST)
                self.broken.append(wire)
            wire.to_server.clear()
        self.wires.clear()

    def restart(self, now: float, lost: int) -> None:
        """Start again, without the last so many transactions, which were not on disk."""
        self.up = True
        if lost:
            del self.binlog[-lost:]
        self._recover(now)
        self.follow(self.source)

    @property
    def can_be_rebuilt(self) -> bool:
        """Whether it is a replica in use."""
        return self.up and self.source is not None and bool(self.binlog) and not self.is_committing

    def rebuild(self, lost: int, noticed_from: float) -> None:
        """Be made anew without the last so many transactions; it runs on, with its connections."""
        del self.binlog[-lost:]
        self._take_stock()
        self.follow(self.source)
        self.noticed_from = noticed_from

    def change_order(self, noticed_from: float) -> None:
        """Preserve the order of commits no more, or again, once there are no gaps."""
        newest = max(self._has, default=0)
        if not self.ordered and any(one.number < newest for one in self.relay):
            return
        self.ordered = not self.ordered
        self.noticed_from = noticed_from

    def _recover(self, now: float) -> None:
        self.started = now
        self._take_stock()

    def _take_stock(self) -> None:
        self._flushed.clear()
        self._committed.clear()
        self._has = {transaction.number for transaction in self.binlog}
        self.state = {one.register: one.value for one in self.binlog}
        self.executed = EMPTY
        for transaction in self.binlog:
            self.executed |= transaction.gtid
        self._names = self.executed

    # Commands

    def is_ready(self, wire: Wire, now: float) -> bool:
        """Whether the connection's next command can go on."""
        if not wire.to_server:
            return False
        if wire.transaction is not None:
            return not self.is_pending(wire.transaction)
        command = wire.to_server[0]
        if command.kind in ("write", "implicit"):
            return all(one.register != command.register for one in self._flushed)  # its row's lock
        if wire.deadline is not None:
            return wire.awaited <= self.executed or now >= wire.deadline
        return True

    def execute(self, wire: Wire, now: float, number: Callable[[Command], int]) -> None:
        """Go on with the connection's next command.

        Args:
            wire: whose.
            now: s.
            number: numbers the transaction of a write that is flushed.
        """
        command = wire.to_server[0]
        if command.kind in ("write", "implicit") and wire.transaction is None:
            wire.transaction = self.flush(number(command), command.register, command.value)
            if self.is_pending(wire.transaction):
                return
        if command.kind in WAITS and wire.deadline is None:
            wire.awaited = self._awaited(wire, command)
            wire.deadline = now + command.budget
            if not wire.awaited <= self.executed:
                return
        if command.kind == "read" and not wire.shown:
            wire.shown = True
            excused = command.sent_at < self.noticed_from
            answer = Answer("rows", self.state.get(command.register, 0), excused=excused)
        else:
            wire.to_server.popleft()
            answer = self._end(wire, command)
        if not wire.closed:
            wire.to_client.append(answer)
        elif not wire.to_server:
            self.wires.remove(wire)

    def _awaited(self, wire: Wire, command: Command) -> GtidSet:
        if command.kind == "settle":
            return self.owned
        return command.gtids if command.exact or not wire.bent else EMPTY

    def _end(self, wire: Wire, command: Command) -> Answer:
        kind = command.kind
        wire.shown = False
        if kind == "identify":
            return Answer(
                "identity",
                gtids=self.executed,
                owned=self.owned,
                uuid=self.uuid,
                started=self.started,
                ordered=self.ordered,
            )
        still = None if command.proved is None else command.proved <= self.executed
        if kind == "confirm":
            tracker = self._tracker(wire)
            return Answer("confirmed", still=still, ordered=self.ordered, tracker=tracker)
        if kind == "track":
            wire.tracking = command.tracking
            wire.own = EMPTY
            return Answer("ok")
        if kind == "bend":
            wire.bent = True
            return Answer("ok")
        if wire.transaction is not None:
            if kind == "write":
                wire.own |= wire.transaction.gtid
            wire.transaction = None  # behind an ERR packet no packet names it
        if kind == "implicit" or kind == "refused":
            return Answer("error")
        if kind in WAITS:
            wire.deadline = None
            timed_out = not wire.awaited <= self.executed
            # GTID_SUBSET reads nothing but the very set.
            has = command.gtids <= self.executed and (command.exact or not wire.bent)
            return Answer(
                "waited",
                int(timed_out),
                has,
                still=still,
                ordered=self.ordered,
                tracker=self._tracker(wire),
            )
        if kind == "probe":
            owned = self.owned
            tracker = self._tracker(wire)
            return Answer("executed", gtids=self.executed, owned=owned, tracker=tracker)
        return Answer("ok", tracker=self._tracker(wire))

    def _tracker(self, wire: Wire) -> GtidSet | None:
        own, wire.own = wire.own, EMPTY
        if wire.tracking == "ALL_GTIDS":
            return self.executed
        return own if own and wire.tracking == "OWN_GTID" else None
