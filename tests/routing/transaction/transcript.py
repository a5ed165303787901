"""The course of a session's transactions as text: its statements, servers' answers, what follows.

A line `>> SELECT a FROM t -> open` is a statement and the status flags of its answer: `open`
(SERVER_STATUS_IN_TRANS), `read only` (SERVER_STATUS_IN_TRANS_READONLY), `manual`
(SERVER_STATUS_AUTOCOMMIT is not set), or `nothing`; behind `+` stand system variables that a
tracker tells. `error` is an error, and `read_error` one that the parser raises. The line behind it
says which server it went to, why, and where the transaction stands then:

    << r1 read | read_only_on_replica open; r1 begins

Behind the bar are the stage, `open` if a transaction is open or may be, `uncertain` if that is not
known, and what else the next statement depends on; then what servers are told of it, and what is
counted. `-- …` is what happens besides statements. A transcript is played, and the result is
compared with it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import ndiff
from functools import partial
from inspect import cleandoc
from types import SimpleNamespace
from typing import Any

import pytest

from protocol.constants import AUTOCOMMIT, IN_TRANS, IN_TRANS_READONLY
from protocol.constants import Command as Code
from protocol.gtid import EMPTY, GtidSet
from protocol.packet import frame
from protocol.session_track import system_variable_entry
from proxy.client.effects.command_effects import CommandEffects
from proxy.client.prepared import PreparedStatements
from proxy.client.primary_settings import PrimarySettings
from proxy.client.replica_snapshots import ReplicaSnapshots
from proxy.client.requests import command_batch
from proxy.client.statements import transaction as transaction_statements
from proxy.client.statements.replica_checks import NOTHING
from proxy.server.mirror import Mirror
from routing.consistency.decision import (
    ConflictPolicy,
    Decision,
    Level,
    Reason,
    Scope,
    TimeoutPolicy,
    TransactionReads,
)
from routing.consistency.requirement import Requirement
from routing.consistency.rules import Rules, TransactionRules
from routing.policy import choose, on_primary
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.servers.topology import Server, Topology
from routing.session.diagnostics_area import ConnectionArea
from routing.session.session import Session
from routing.sql.classifier import Classifier
from routing.transaction.replica_snapshot import ReplicaSnapshot
from routing.transaction.stage import SNAPSHOT_MOVED

UUID = "11111111-1111-1111-1111-111111111111"
_LINE = re.compile(r"(>>|--) (.*?)(?: -> (.*?)(?: \+ (.*))?)?")
_FLAGS = {
    "nothing": 0,
    "open": IN_TRANS,
    "read only": IN_TRANS_READONLY,
    "manual": 0,
}
_ERRORS = {"error": 1213, "read_error": 1064}
_COMMANDS = {code.name: code for code in Code}


@dataclass
class World:
    """The session that a transcript begins with.

    Attributes:
        reads: `transaction-reads` of its rules.
        isolation: transaction_isolation, as the client has set it; empty for the default.
        tracked: the client tracks its transactions' state.
        conflict: `on-split-conflict` of its rules.
        autocommit: with which the primary begins sessions.
        exact: a server says what its snapshot shows.
        same: replicas have exactly what the primary has.
    """

    reads: TransactionReads = TransactionReads.SPLIT
    isolation: str = ""
    tracked: bool = False
    conflict: ConflictPolicy = ConflictPolicy.ERROR
    autocommit: bool = True
    exact: bool = True
    same: bool = True

    def transcript(self, text: str) -> Callable[[], "Play"]:
        """Plays a transcript when it is called."""
        return partial(self.play, text)

    def play(self, text: str) -> "Play":
        """Play a transcript; fails where something else happens."""
        play = Play(self)
        expected = cleandoc(text).splitlines()
        happened = list(play.lines([line for line in expected if not line.startswith("<<")]))
        if happened != expected:
            pytest.fail("\n".join(["not what happens (+):", *ndiff(expected, happened)]))
        return play


class Connection:
    """Stands in for a connection to a server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.epoch = server.epoch
        self.mirror = Mirror()
        self.stream: Any = answer(0)
        self.area = ConnectionArea(server)
        self.view = None
        self.keepable = True
        self.query_attributes = False
        self.lost = False
        self.max_packet = 1 << 20
        self.sent: list[str] = []

    def send(self, batch: Any) -> None:
        """Note what would be written."""
        self.sent += statements(batch)

    def hide_read_only(self, *, hide: bool) -> None:
        """Nobody looks at the flags that the client is shown."""


class Servers:
    """Stands in for a session's connections."""

    def __init__(self, topology: Topology, session: Session) -> None:
        self.primary = Connection(topology.primary)
        self.replicas = [Connection(server) for server in topology.replicas]
        self._session = session
        session.transaction.status = AUTOCOMMIT

    def of(self, server: Server) -> Connection:
        """The connection to a server."""
        return next(
            connection
            for connection in [self.primary, *self.replicas]
            if connection.server is server
        )

    def track(self) -> None:
        """Nobody looks at trackers."""

    def reset_replicas(self) -> None:
        """Let each follow before its next statement."""
        for replica in self.replicas:
            replica.mirror.needs_reset = True

    def end_transactions(self) -> None:
        """As the real one does."""
        self._session.transaction.on_replicas_ended()
        for replica in self.replicas:
            self.end_transaction(replica)

    def end_transaction(self, replica: Connection) -> None:
        """As the real one does."""
        replica.send(transaction_statements.end_transaction(replica.mirror, False))


class Anything:
    """Stands in for what is told of something, and counts it."""

    def __init__(self) -> None:
        self.counted: list[str] = []
        self.tracked = 0

    def __getattr__(self, name: str) -> Any:
        if name in ("snapshot_split", "split_conflict"):
            return lambda *_: self.counted.append(name)
        return lambda *_, **__: None


class Play:
    """The course of one session's transactions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.topology = Topology("p", ["r1", "r2"])
        for server in self.topology.servers:
            server.observe(f"uuid-{server.name}", (0, 0), gtids("1-5"), EMPTY)
        self.topology.primary.observe(UUID, (0, 0), gtids("1-5"), EMPTY)
        rules = Rules(
            *(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY),
            transactions=TransactionRules(world.reads, world.conflict),
        )
        self.session = Session(rules, 0, term=self.topology.term)
        self.session.on_connect("", world.autocommit)
        if world.isolation:
            self.session.set_variable("transaction_isolation", f"'{world.isolation}'")
        if world.tracked:
            self.session.trackers.set("session_track_transaction_info", "'STATE'")
        self.servers: Any = Servers(self.topology, self.session)
        self.metrics = Anything()
        self.settings = PrimarySettings(self.session, self.servers)
        self.snapshots = ReplicaSnapshots(self.session, self.servers, self.metrics)  # type: ignore[arg-type]
        shared: Any = SimpleNamespace(
            metrics=self.metrics,
            now=lambda: 1000.0,
            catalogues=Anything(),
            known_passwords=Anything(),
            pool=SimpleNamespace(login_cache=Anything()),
        )
        context: Any = SimpleNamespace(
            shared=shared,
            state=self.session,
            rules=SimpleNamespace(by_schema=False),
            servers=self.servers,
            settings=self.settings,
            prepared=PreparedStatements(),
            query_attributes=False,
        )
        self.command_effects = CommandEffects(context)
        self.classifier = Classifier()
        self.in_flight: tuple[Connection, Command, CommandOutcome] | None = None

    def lines(self, lines: list[str]) -> Iterator[str]:
        """Play lines; yields them, and behind each what followed."""
        for line in lines:
            yield line
            match = _LINE.fullmatch(line)
            assert match is not None, line
            direction, text, flags, trackers = match.groups()
            went = self._happen(text) if direction == "--" else self._run(text, flags, trackers)
            yield f"<< {went}{self.state()}{self._done()}"

    # Statements

    def _run(self, text: str, flags: str | None, trackers: str | None) -> str:
        command = self.command(text)
        outcome = CommandOutcome(command)
        statement = command.statement
        decision = None
        if statement is not None and command.code is not Code.COM_STMT_PREPARE:
            session = self.session
            decision = choose(session, statement, self.topology, 1000.0, Requirement(command.rules))
        if decision is not None and self._is_gone(decision):
            if decision.reason is Reason.DIAGNOSTIC:
                decision = on_primary(self.topology, Reason.DIAGNOSTIC)
            elif not self.session.transaction.can_move:
                return f"{decision.server.name} is lost | "
            else:
                decision = on_primary(self.topology, Reason.REPLICA_LOST)
        if decision is None or decision.server is self.topology.primary:
            outcome.reason = reason = Reason.WRITE if decision is None else decision.reason
            connection: Connection = self.servers.primary
            if not self._to_primary(command, outcome):
                return "p conflict | "
        else:
            outcome.set_decision(decision)
            reason = decision.reason
            connection = self.servers.of(decision.server)
            self._to_replica(connection, command, decision)
        if flags is None:
            self.in_flight = (connection, command, outcome)
        else:
            self._answered(connection, command, outcome, flags, trackers)
        return f"{connection.server.name} {reason.value} | "

    def _is_gone(self, decision: Decision) -> bool:
        """Whether the replica that has the transaction's snapshot has it no more."""
        if decision.server is self.topology.primary:
            return False
        inside = decision.reason is Reason.TRANSACTION
        reads = self.session.transaction.reads_on_replica
        if not inside and not (decision.reason is Reason.DIAGNOSTIC and reads):
            return False
        mirror = self.servers.of(decision.server).mirror
        return mirror.transaction_reads is not self.session.transaction.snapshot

    def command(self, text: str) -> Command:
        """A command, by its name and text, or a COM_QUERY."""
        name, _, rest = text.partition(" ")
        code = _COMMANDS.get(name, Code.COM_QUERY)
        sql = rest if name in _COMMANDS else text
        if not sql:
            return Command(code, self.session.rules, frame(bytes([code]), 0))
        statement = self.classifier.classify(sql.encode(), self.session.lexer_modes.flags)
        packet = frame(bytes([code]) + sql.encode(), 0)
        may_write = statement.may_write and code is not Code.COM_STMT_PREPARE
        return Command(code, self.session.rules, packet, statement, may_write)

    def _to_primary(self, command: Command, outcome: CommandOutcome) -> bool:
        """As `Dispatch.to_primary` does; False if the transaction was rolled back instead."""
        transaction, primary = self.session.transaction, self.servers.primary
        self.session.without_primary = False
        if transaction.left_on_replica:
            self.servers.end_transactions()
        moved = transaction.stage == SNAPSHOT_MOVED
        if transaction.snapshot is not None and self.snapshots.ask_or_roll_back(
            primary, command, outcome
        ):
            self._snapshots_shown()
            if moved or self.snapshots.ask_or_roll_back(primary, command, outcome):
                self.session.on_rollback(AUTOCOMMIT)
                return False
        primary.send(self.settings.in_front(primary, command, outcome))
        if transaction.reads is not None:
            primary.send(self.snapshots.in_front(primary, command, outcome))
            self._snapshots_shown()
        return True

    def _snapshots_shown(self) -> None:
        """The servers say what their snapshots show."""
        snapshot = self.session.transaction.snapshot
        if not isinstance(snapshot, ReplicaSnapshot):
            return
        shows = gtids("1-5") if self.world.exact else None
        for moment in (snapshot.primary, snapshot.replica):
            moment.before(shows)
            moment.behind(shows)
        if not self.world.same:
            snapshot.replica.before(gtids("1-4"))
            snapshot.replica.behind(gtids("1-4"))

    def _to_replica(self, replica: Connection, command: Command, decision: Decision) -> None:
        """As `Dispatch` does."""
        session, transaction, mirror = self.session, self.session.transaction, replica.mirror
        if transaction.left_on_replica and decision.reason is not Reason.DIAGNOSTIC:
            self.servers.end_transactions()
        if command.is_read and not transaction.autocommit:
            transaction.on_implied_read(session, command.rules)
        snapshot = transaction.snapshot
        takes = mirror.needs_reset or mirror.transaction_reads is not snapshot
        settings = b"SET x=1"
        batch = command_batch.before_read(
            mirror, NOTHING, command, session, settings, False, is_diagnostic=False
        )
        replica.send(batch)
        if snapshot is not None and takes:
            gtid_set = decision.proof_set or EMPTY
            transaction.on_snapshot(decision.server, gtid_set, command.rules, EMPTY, 0, stale=False)

    def _answered(
        self,
        connection: Connection,
        command: Command,
        outcome: CommandOutcome,
        flags: str,
        trackers: str | None,
    ) -> None:
        words = flags.split(", ")
        error = next((_ERRORS[word] for word in words if word in _ERRORS), 0)
        status = 0 if "manual" in words or error else AUTOCOMMIT
        status |= sum(_FLAGS.get(word, 0) for word in words)
        connection.stream = answer(status, error)
        if trackers:
            pairs = [pair.split("=") for pair in trackers.split(", ")]
            block = b"".join(system_variable_entry(name, value) for name, value in pairs)
            connection.stream.session_states.append(block)
            self.command_effects.take_trackers(connection, command, outcome)  # type: ignore[arg-type]
        self.command_effects.take_over(  # type: ignore[call-arg]
            *(connection, connection.stream, command, outcome),  # type: ignore[arg-type]
            told_later=False,
        )

    # What happens besides

    def _happen(self, text: str) -> str:
        name, _, words = text.partition(" ")
        getattr(self, f"_{name}")(words)
        return ""

    def _leaves(self, name: str) -> None:
        """The answer of the replica that was read from does not count."""
        assert self.in_flight is not None
        replica, _, outcome = self.in_flight
        self.in_flight = None
        assert replica.server.name == name
        inside = outcome.decision is not None and outcome.decision.reason is Reason.TRANSACTION
        if self.session.transaction.withdraw_read(replica.mirror.transaction_reads, inside=inside):
            self.servers.end_transaction(replica)

    def _breaks(self, name: str) -> None:
        """The connection to a replica breaks, and another one is opened."""
        next(
            connection for connection in self.servers.replicas if connection.server.name == name
        ).mirror = Mirror()

    def _answers(self, flags: str) -> None:
        """The answer that was awaited comes."""
        assert self.in_flight is not None
        connection, command, outcome = self.in_flight
        self.in_flight = None
        self._answered(connection, command, outcome, flags, None)

    def _restored(self, flags: str) -> None:
        """The proxy's settings on the primary were made."""
        status = AUTOCOMMIT | sum(_FLAGS[word] for word in flags.split(", "))
        self.settings.on_restore(self.servers.primary, answer(status))

    def _pinged(self, flags: str) -> None:
        """A COM_PING behind a statement was answered."""
        status = AUTOCOMMIT | sum(_FLAGS[word] for word in flags.split(", "))
        self.session.transaction.on_ping(status)

    def _reset(self, _: str) -> None:
        """COM_RESET_CONNECTION, or COM_CHANGE_USER."""
        self.command_effects.reset()

    def _begins(self, words: str) -> None:
        """The client begins a transaction while there is no primary."""
        session, transaction = self.session, self.session.transaction
        if not transaction.may_begin_unheard_of(session):
            return
        session.without_primary = True
        if transaction.is_unheard_of:
            self.servers.end_transactions()
            transaction.on_ended_unheard_of()
        modes = {"": None, "read only": True, "read write": False}
        transaction.on_begun_unheard_of(session, read_only=modes[words])

    def _isolation(self, level: str) -> None:
        self.session.set_variable("transaction_isolation", f"'{level}'")

    def _suspect(self, _: str) -> None:
        """A statement failed that may have changed the session."""
        self.session.trackers_pending = True

    # Where it stands

    def state(self) -> str:
        """Where the transaction stands."""
        transaction, modes = self.session.transaction, self.session.transaction.modes
        words: list[str] = [transaction.stage]
        if transaction.is_open:
            words.append("open")
        if transaction.is_uncertain:
            words.append("uncertain")
        if transaction.reads is not None and transaction.reads.implied:
            words.append("implied")
        if not transaction.autocommit:
            words.append("manual")
        if not transaction.status_tells:
            words.append("untold")
        if transaction.has_savepoint:
            words.append("savepoint")
        if transaction.after_conflict:
            words.append("retry")
        if modes.waiting:
            words.append("set")
        if modes.isolates:
            words.append("isolation")
        if modes.next_is_read_only:
            words.append("next read only")
        if transaction.left_on_replica:
            words.append("to end")
        return " ".join(words)

    def _done(self) -> str:
        done = []
        for connection in [self.servers.primary, *self.servers.replicas]:
            done += [f"{connection.server.name} {text}" for text in connection.sent]
            connection.sent.clear()
        done += self.metrics.counted
        self.metrics.counted.clear()
        return "".join(f"; {text}" for text in done)


def answer(status: int, error: int = 0) -> Any:
    """A complete answer, as its stream shows it."""
    return SimpleNamespace(
        status=status,
        error=b"\xff" + error.to_bytes(2, "little") + b"#HY000it failed" if error else None,
        rows=0,
        warnings=0,
        unnamed=[],
        row=None,
        head=None,
        session_states=[],
    )


_SAYS = {
    transaction_statements.START_READ_ONLY: "begins",
    transaction_statements.START_READ_WRITE: "begins",
    transaction_statements.START_SNAPSHOT_READ_ONLY: "takes a snapshot",
    transaction_statements.START_SNAPSHOT_READ_WRITE: "takes a snapshot",
    transaction_statements.END_TRANSACTION: "ends",
    transaction_statements.ROLL_BACK: "rolls back",
    b"SET autocommit=0": "manual",
    transaction_statements.END_BY_AUTOCOMMIT: "autocommits",
}


def statements(batch: Any) -> list[str]:
    """What a batch says of transactions."""
    return [_SAYS[packet[5:]] for _, packet in batch if packet[5:] in _SAYS]


def gtids(text: str) -> GtidSet:
    """Make a set from its intervals."""
    return GtidSet.parse(f"{UUID}:{text}")
