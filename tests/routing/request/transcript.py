"""The course of a read as text: events for the machine, its answers, and what happens around it.

A line `>> lost()` is an event. `<< Send(p, replica_lost, primary); left r1: replica_lost` is the
step with which the machine answers, and what it noted. `-- after(0.3)` is something that the
machine is not told of. A transcript is played, and the result is compared with the whole
transcript. Servers are `p` and `r1`, `r2` …, sets are intervals of one UUID.

Before a read begins its command has come, and before the machine takes it up the fast path has
sent it: transcripts need not say so.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import ndiff
from inspect import cleandoc

import pytest

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import (
    Decision,
    Level,
    LostPolicy,
    Proof,
    Reason,
    Scope,
    TimeoutPolicy,
)
from routing.consistency.rules import Rules
from routing.policy import on_primary
from routing.request import refusal
from routing.request.command_progress import CommandProgress
from routing.request.read import Read
from routing.request.refusal import no_primary
from routing.request.stage import DONE, TABLE
from routing.request.step import Delay, End, Join, Note, Open, Refuse, Send, Step
from routing.servers.observations import Observation
from routing.servers.rate_limit import RateLimit
from routing.servers.topology import Server, Topology
from routing.servers.waits import Waits
from routing.session.diagnostics_area import ConnectionArea
from routing.session.session import Session
from routing.sql.diagnostics import CONDITIONS, PARTS
from routing.sql.statement import Statement, StatementClass, StatementReason
from tests.routing.transaction.situations import open_on_replica

UUID = "11111111-1111-1111-1111-111111111111"
_LINE = re.compile(r"(>>|--) (\w+)\((.*)\)")


OF_ANY_COMMAND = ("command", "forward", "sent", "first_byte", "ended", "left")
"""Events that the machine of reads is not told of: the command is."""


@dataclass
class World:
    """The situation in which a read begins.

    Attributes:
        applied: for each replica, what it is known to have.
        own: what the scope has written.
        rate: how many reads per second may leave late replicas.
        reads_lagging: replicas are read that lag, where no other is left.
        age: after how many seconds a replica is asked whether it still has what it proved.
    """

    applied: tuple[str, ...] = ("1-5",)
    own: str = "1-5"
    level: Level = Level.READ_OWN_WRITES
    scope: Scope = Scope.CONNECTION
    on_timeout: TimeoutPolicy = TimeoutPolicy.PRIMARY
    on_lost_writes: LostPolicy = LostPolicy.ERROR
    budget: float = 0.25
    rate: float = 1000.0
    reads_lagging: bool = False
    age: float = 1e9

    def play(self, text: str) -> "Play":
        """Play a transcript; fails where something else happens."""
        play = Play(self)
        expected = cleandoc(text).splitlines()
        happened = list(play.lines([line for line in expected if not line.startswith("<<")]))
        if happened != expected:
            pytest.fail("\n".join(["not what happens (+):", *ndiff(expected, happened)]))
        return play


class Play:
    """The course of one read."""

    def __init__(self, world: World) -> None:
        names = [f"r{number}" for number in range(1, len(world.applied) + 1)]
        self.topology = Topology(
            *("p", names, world.rate, world.age), reads_lagging=world.reads_lagging
        )
        self.now = 1000.0
        for server, applied in zip(self.topology.replicas, world.applied, strict=True):
            server.observe(f"uuid-{server.name}", (0, 0), gtids(applied), EMPTY)
        self.topology.primary.observe(UUID, (0, 0), gtids("1-1000"), EMPTY)
        application = "shop" if world.scope is Scope.APPLICATION else ""
        rules = Rules(
            world.level, world.scope, world.budget, world.on_timeout, application=application
        )
        self.session = Session(rules, 0, term=self.topology.term)
        self.session.own_scope.own = gtids(world.own)
        self.session.own_scope.changed_at = self.now if world.own else 0.0
        self.waits = Waits()
        self.progress = CommandProgress()
        self.read = Read(
            self.session, self.topology, self.waits, world.on_lost_writes, self.progress
        )
        self.steps: list[Step] = []
        self.look = 0

    def lines(self, lines: list[str]) -> Iterator[str]:
        """Play lines; yields them, and the machine's steps between them."""
        for line in lines:
            yield line
            match = _LINE.fullmatch(line)
            assert match is not None, line
            direction, name, text = match.groups()
            words = [word.strip() for word in text.split(",")] if text else []
            if direction == "--":
                getattr(self, f"_{name}")(*words)
                continue
            if self.progress.stage == DONE:
                if name in ("begin", "bind", "ask"):
                    self.progress.on_command()
                elif name == "take_up":
                    self.progress.on_forward()
            before = self.progress.stage
            step = self.tell(name, words)
            assert self.progress.stage in TABLE[before, name], f"{line}: {self.progress.stage}"
            if step is not None:
                self.steps.append(step)
                yield f"<< {step_text(step)}{note_text(self.read.note)}"

    def tell(self, event: str, words: list[str]) -> Step | None:
        """Tell the machine, or the command, of an event."""
        read, now = self.read, self.now
        if event == "begin":
            kind = StatementClass(words[0]) if words else StatementClass.READ
            asks = CONDITIONS if kind is StatementClass.DIAGNOSTIC else 0
            statement = Statement(kind, StatementReason.NOTHING, False, "0" * 16, asks=asks)
            return read.begin(statement, None, now)
        if event == "bind":
            read.bind(on_primary(self.topology, Reason(words[0])), None, now)
            return None
        if event == "take_up":
            decision = on_primary(self.topology, Reason.WRITE)
            if words:
                decision = Decision(self._server(words[0]), Reason.READ, Proof.KNOWN, EMPTY)
            kind = StatementClass.READ if words else StatementClass.WRITE
            statement = Statement(kind, StatementReason.NOTHING, False, "0" * 16)
            read.take_up(statement, decision, self.session.own_scope.own, now)
            return None
        if event == "probe_answered":
            executed = None if words == ["nothing"] else gtids(words[0])
            return read.probe_answered(executed, gtids(*words[1:]), now)
        epoch = 0 if read.decision is None else read.decision.server.epoch
        if event == "wait_answered":
            waited = now - read.sent_at
            return read.wait_answered(words[0], *self._said(words[1:]), epoch, waited, now)  # type: ignore[arg-type]
        if event == "confirm_answered":
            return read.confirm_answered(*self._said(words), epoch, now)
        if event == "audit_answered":
            return read.audit_answered(_ANSWERS[words[0]], epoch, now)
        if event == "unsettled":
            return read.unsettled([self._server(word) for word in words], now)
        if event == "settled":
            idle = [self._server(word) for word in words[1:]]
            return read.settled(words[0] == "yes", epoch, idle, now)
        if event == "no_primary":
            return read.no_primary(refusal.no_primary("p", "it broke", may_write=False), now)
        if event == "substituted":
            server = self._server(words[0] if words else "r1")
            read.substituted(Decision(server, Reason.SESSION, Proof.NONE), now)
            return None
        if event == "lost":
            return read.lost("it broke", now)
        if event == "no_primary":
            return read.no_primary(no_primary("p", "it is gone", may_write=False), now)
        if event == "substituted":
            server = self._server(words[0] if words else "r1")
            read.substituted(Decision(server, Reason.READ, Proof.NONE), now)
            return None
        if event in ("refused", "unfit", "opened"):
            reason = Reason(words[0]) if words else None
            return getattr(read, event)(reason, now)  # type: ignore[no-any-return]
        if event in OF_ANY_COMMAND:
            getattr(self.progress, f"on_{event}")()
            return None
        return getattr(read, event)(now)  # type: ignore[no-any-return]

    def _said(self, words: list[str]) -> tuple[bool | None, bool | None]:
        """What a replica says of itself: `still`, and `ordered`."""
        answers = [_ANSWERS[word] for word in words]
        return (answers[0], answers[1]) if answers else (None, None)

    def _server(self, name: str) -> Server:
        return next(server for server in self.topology.servers if server.name == name)

    # What happens around it

    def _after(self, seconds: str) -> None:
        self.now += float(seconds)

    def _wait(self, server: str, text: str) -> None:
        """Let another read wait for this set."""
        self.waits.begin(self._server(server), gtids(text), self.now)

    def _applied(self, server: str, text: str) -> None:
        self._server(server).add_proof(gtids(text), self._server(server).epoch)

    def _down(self, server: str) -> None:
        self._server(server).set_unreachable(self.now)

    def _silent(self, server: str) -> None:
        """Let a server be known not to answer for a while."""
        self._server(server).add_silence(self.now + 1.0)

    def _speaks(self, server: str) -> None:
        """Let a server send something."""
        self._server(server).packets_received += 1

    def _lags(self, *servers: str) -> None:
        """Let servers be too far behind to be read."""
        for server in servers:
            self._server(server).set_lagging(True)

    def _keeps_up(self, server: str) -> None:
        self._server(server).set_lagging(False)

    def _behind(self, server: str, seconds: str = "10") -> None:
        """Let a server lack what was acknowledged so long ago, s."""
        self._server(server).timed_out(self.now, float(seconds))

    def _full(self, delay: str = "") -> None:
        """Let no further read go to the primary, or only after so many seconds."""
        self.topology.primary_rate_limit = _Full(float(delay) if delay else None)

    def _promote(self, server: str) -> None:
        self.topology.promote(self._server(server))

    def _unknown(self) -> None:
        self.session.may_have_written()

    def _looks(self) -> None:
        """Let the monitor begin to look at the primary."""
        self.look = self.topology.observations.begin_look()

    def _looked(self, shown: str) -> None:
        """Let the primary have said what it has and is committing."""
        observation = Observation(self.now, gtids(shown))
        self.topology.observations.end_look(self.look, gtids(shown), observation)

    def _showed_elsewhere(self) -> None:
        """Let another worker's client have been shown something."""
        self.session.own_scope.record_answers_elsewhere()

    def _showed(self, server: str) -> None:
        """Let a server have shown the session something."""
        found = self._server(server)
        self.session.record_answer(found, found.epoch)

    def _snapshot(self, server: str, state: str = "") -> None:
        """Let the session's READ ONLY transaction read on a server, perhaps a "stale" state."""
        open_on_replica(
            *(self.session, self._server(server)),
            required=gtids("1-3"),
            stale=state == "stale",
        )

    def _asks_previous(self, server: str) -> None:
        """Let the previous statement have run on a server."""
        area = ConnectionArea(self._server(server))
        self.session.diagnostics.on_success(area, PARTS, 0, 1)

    def _asked(self) -> None:
        """Write the question in front of the read."""
        self.read.question()


class _Full(RateLimit):
    def __init__(self, delay: float | None) -> None:
        super().__init__(1.0)
        self._delay = delay

    def reserve(self, now: float, most: float) -> float | None:
        return self._delay if most and self._delay is not None and self._delay <= most else None


_ANSWERS = {"yes": True, "no": False, "-": None}


def gtids(text: str = "") -> GtidSet:
    """Make a set from its intervals."""
    return GtidSet.parse(f"{UUID}:{text}") if text else EMPTY


def step_text(step: Step) -> str:
    """A step in the form of a transcript."""
    name = type(step).__name__
    if isinstance(step, Send):
        decision = step.decision
        words = [decision.server.name, decision.reason.value, decision.proof.value]
        return f"{name}({', '.join([*words, 'confirm'] if decision.confirm else words)})"
    if isinstance(step, Join | Delay):
        return f"{name}({step.seconds:g})"
    if isinstance(step, Open):
        return f"{name}({step.server.name})"
    if isinstance(step, Refuse):
        return f"{name}({step.code.code}, {step.reason.value})"
    return f"{name}({step.cause})" if isinstance(step, End) else name


def note_text(note: Note | None) -> str:
    """What was noted, in the form that follows a step."""
    if note is None:
        return ""
    words = []
    if note.left is not None and note.why is not None:
        words.append(f"left {note.left.name}: {note.why.value}")
    if note.proved is not None:
        words.append(f"proved {_intervals(note.proved)}")
    if note.crowded is not None:
        words.append(f"crowded: {note.crowded}")
    if note.stale:
        words.append("stale")
    if note.observation is not None:
        words.append(f"looked {_intervals(note.observation.executed)}")
    if note.lost:
        words.append(f"lost {_intervals(note.lost)}")
    return "".join(f"; {word}" for word in words)


def _intervals(found: GtidSet) -> str:
    return found.text.removeprefix(f"{UUID}:")
