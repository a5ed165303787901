"""Simulated servers, as far as consistency matters: commits, binary logs, replication, answers.

Nothing happens by itself: a server does one small step when the scheduler of the simulation says
so.

A commit has three steps (measured on MySQL 9.7):

1. *flushed*: the transaction has its GTID and its place in the binary log.
2. *committed*: the engine shows it to others.
3. *executed*: it is in `gtid_executed`. Its client is told after that.

`Physics` says which of them are separate. With an early dump, replicas may receive a transaction,
and show it, between 1 and 2. With a late set, a read may see a transaction between 2 and 3,
although no set that the server reports at the read's end names it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Flag
from typing import TYPE_CHECKING, Final

from protocol.gtid import EMPTY, GtidSet
from tests.model.wires import LOST, WAITS, Answer, Command, Wire

if TYPE_CHECKING:
    from collections.abc import Callable


VIEW: Final = -1
"""In place of a register: a view over one of them. What is written there defines it anew, over the
register of the value modulo the number of registers."""


class Physics(Flag):
    """Which steps of a commit are separate."""

    SIMPLE = 0
    EARLY_DUMP = 1
    LATE_EXECUTED = 2
    REAL = 3


@dataclass(frozen=True, slots=True)
class Transaction:
    """A write to one register.

    Attributes:
        number: its number among all that were ever flushed on any primary.
        gtid: a set that holds only its GTID.
        register: the register.
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
        up: whether it runs.
        started: when it started, s.
        source: the server from which it replicates; None for the primary.
        binlog: the transactions that it flushed, in order.
        files: the number of its newest binary log file.
        purged: @@GLOBAL.gtid_purged.
        state: what a read sees, by register.
        executed: @@GLOBAL.gtid_executed.
        relay: transactions that were received and are not applied yet.
        wires: open connections.
        broken: connections that a crash has broken, which their clients have not noticed yet.
        noticed_from: for reads that are sent from then on, the proxy must know that the server was
            changed, s.
    """

    def __init__(self, name: str, uuid: str, *, ordered: bool, physics: Physics) -> None:
        self.name = name
        self.uuid = uuid
        self.ordered = ordered
        self.up = True
        self.started = 0.0
        self.source: Mysql | None = None
        self.binlog: list[Transaction] = []
        self.files = 2  # it was started before
        self.purged = EMPTY
        self.state: dict[int, int] = {}
        self.executed = EMPTY
        self.relay: list[Transaction] = []
        self.wires: list[Wire] = []
        self.broken: list[Wire] = []
        self.noticed_from = 0.0
        self._physics = physics
        self._flushed: deque[Transaction] = deque()
        self._committed: deque[Transaction] = deque()
        self._has: set[int] = set()  # numbers of the transactions in the binlog
        self._names = EMPTY  # GTIDs of the transactions in the binlog
        self._position: int | None = None  # in the source's binlog; None: not connected

    # Commits

    def flush(self, number: int, register: int, value: int) -> Transaction:
        """Give a write its GTID, and do the steps of its commit that are not separate."""
        last = self.executed.intervals(self.uuid)
        behind = [
            transaction
            for transaction in (*self._flushed, *self._committed)
            if self.uuid in transaction.gtid.tsids
        ]
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

    def register(self, register: int, registers: int) -> int:
        """The register that a read of one, or of the view over one of so many, reads here."""
        return self.state.get(VIEW, 0) % registers if register == VIEW else register

    def has(self, number: int) -> bool:
        """Whether a transaction is in its binary log."""
        return number in self._has

    def has_all_of(self, other: Mysql) -> bool:
        """Whether its binary log has all transactions of another server's."""
        return other._has <= self._has

    @property
    def is_committing(self) -> bool:
        """Whether `go_on` has something to do."""
        return self.up and bool(self._flushed or self._committed)

    def go_on(self, later: bool) -> None:
        """Do the next step of a commit; `later` prefers transactions that are further advanced."""
        if self._committed and (later or not self._flushed):
            self._settle()
        else:
            self._commit()

    def is_pending(self, transaction: Transaction) -> bool:
        """Whether a transaction is being committed, and not in `executed` yet."""
        return transaction in self._flushed or transaction in self._committed

    # Replication

    @property
    def can_receive(self) -> bool:
        """Whether its source has a transaction with a GTID that it lacks.

        A source refuses a replica that has more of the source's own GTIDs than the source itself
        (error 1236).
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
        """Its source was restarted: transactions in the relay log are received again."""
        self.relay.clear()
        self._position = None

    def receive(self) -> None:
        """Take the next transaction from the source; `can_receive` must be true."""
        if self.source is not None and self._position is not None:
            self.relay.append(self.source.binlog[self._position])
            self._position += 1

    def apply(self, which: int) -> None:
        """Apply a transaction of the relay log: the first, or any that needs no earlier one."""
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
        """Begin anew as another server, with the data of a running one."""
        self.uuid = uuid
        self.binlog = list(other.binlog)
        self.up = True
        self._recover(now)
        self.follow(other)

    # Faults

    def crash(self, cut: Callable[[int], int]) -> None:
        """Stop at once; `cut` chooses how many of the answers on their way still arrive."""
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
        """Start again, without the last `lost` transactions, which were not on disk."""
        self.up = True
        self.files += 1
        if lost:
            del self.binlog[-lost:]
        self._recover(now)
        self.follow(self.source)

    @property
    def can_be_rebuilt(self) -> bool:
        """Whether it is a running replica that is not committing anything."""
        return self.up and self.source is not None and bool(self.binlog) and not self.is_committing

    def rebuild(self, lost: int, noticed_from: float) -> None:
        """Lose the last `lost` transactions while running on, with all connections open.

        It is given older data: RESET BINARY LOGS AND GTIDS, and SET GLOBAL gtid_purged.
        """
        del self.binlog[-lost:]
        self._take_stock()
        self.files, self.purged = 1, self.executed
        self.follow(self.source)
        self.noticed_from = noticed_from

    def change_order(self, noticed_from: float) -> None:
        """Stop preserving the order of commits; or preserve it again, if there are no gaps."""
        newest = max(self._has, default=0)
        if not self.ordered and any(transaction.number < newest for transaction in self.relay):
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
        self.state = {transaction.register: transaction.value for transaction in self.binlog}
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
            return all(
                transaction.register != command.register for transaction in self._flushed
            )  # row locks
        if wire.deadline is not None:
            return wire.awaited <= self.executed or now >= wire.deadline
        return True

    def execute(self, wire: Wire, now: float, number: Callable[[Command], int]) -> None:
        """Go on with the connection's next command.

        Args:
            wire: the connection.
            now: the time, s.
            number: gives a number to the transaction of a write that is flushed.
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
            register = self.register(command.register, command.registers)
            value = self.state.get(register, 0)
            answer = Answer("rows", value, excused=excused, register=register)
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
                binary_log=self.files,
                purged=self.purged,
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
            wire.transaction = None  # after an ERR packet, no packet reports its GTID
        if kind == "implicit" or kind == "refused":
            return Answer("error")
        if kind in WAITS:
            wire.deadline = None
            timed_out = not wire.awaited <= self.executed
            # GTID_SUBSET is only true for the exact set.
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
