"""Drives the reads of a simulated session by the real state machine (`routing.request.read`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.gtid import EMPTY
from routing.consistency.decision import Level, LostPolicy, Proof, Reason
from routing.request.command_progress import CommandProgress
from routing.request.read import Read
from routing.request.stage import ASKING, TABLE
from routing.request.step import Ask, Delay, End, Join, Open, Pass, Refuse, Send, Step
from routing.request.wait_results import WaitResult
from tests.model.links import Link, Reply
from tests.model.tables import READS
from tests.model.wires import Answer, Command

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from protocol.gtid import GtidSet
    from routing.consistency.decision import Decision
    from routing.request.stage import Event
    from routing.servers.topology import Server
    from routing.servers.waits import Wait
    from routing.sql.statement import Statement
    from tests.model.proxy import Proxy
    from tests.model.session import ProxySession


class Reads:
    """The reads of one session; there is one at a time."""

    def __init__(self, proxy: Proxy, session: ProxySession) -> None:
        self._proxy = proxy
        self._session = session
        self.progress = CommandProgress()
        self.read = Read(
            session.state, proxy.topology, proxy.waits, LostPolicy.ERROR, self.progress
        )
        self._timers = 0  # the number of the timer that counts
        self._wait: Wait | None = None  # the WAIT in flight in front of this session's read
        self._past: Decision | None = None  # the decision of a read that the machine does not know
        self._joined: Wait | None = None  # another read's WAIT, which this read has joined

    def _tell(self, event: Event, *arguments: Any, **named: Any) -> Any:
        """Tell the machine of an event, and check its next stage against the table."""
        before = self.read.stage
        step = getattr(self.read, event)(*arguments, **named)
        assert self.read.stage in TABLE[before, event], (before, event, self.read.stage)
        return step

    @property
    def statement(self) -> Statement:
        """What the session's request is, if that is a read."""
        return READS[self._session.request.register]

    def route(self) -> None:
        """Begin a read."""
        self.progress.on_command()
        self._perform(self._tell("begin", self.statement, self._session.rules, self._proxy.now()))

    # Without the machine, as in `proxy.client.fast_path`

    def go_without(self) -> None:
        """A command that is no read is about to be sent."""
        self.progress.on_command()
        self.progress.on_sent()

    def go_past(self, link: Link, decision: Decision) -> None:
        """A plain read is about to be sent; send the WAIT that it needs in front."""
        self._past = decision
        self.progress.on_forward()
        if self._session.rules.level not in (Level.BEST_EFFORT, Level.BOUNDED_STALENESS):
            self._session.request.scope = self.read.cached_decision.scope
        if decision.proof is Proof.WAITED and decision.proof_set is not None:
            budget = self._session.rules.wait_budget
            self._wait = self._proxy.waits.begin(link.server, decision.proof_set, self._proxy.now())
            link.send("wait", self.wait_command(decision.proof_set, budget, None))

    def _take_up(self) -> None:
        """Hand a read over to the machine that was sent without it."""
        decision, self._past = self._past, None
        if decision is not None:
            required, sent_at = self.read.cached_decision.required, self._session.request.sent_at
            reached = decision.proof is Proof.WAITED and self._wait is None
            self._tell("take_up", self.statement, decision, required, sent_at, reached=reached)

    def _takes(self, link: Link, answer: Answer) -> bool:
        """Take a WAIT's answer without the machine, if it says that the replica has the set."""
        decision = self._past
        if decision is None or not self.is_there(answer):
            return False
        cached_decision, now = self.read.cached_decision, self._proxy.now()
        requirement, sent_at = cached_decision.requirement, self._session.request.sent_at
        cached_decision.wait_answered(
            decision, "reached", requirement, link.epoch, sent_at, now - sent_at, now
        )
        self._end_wait()
        return True

    def first_byte(self) -> None:
        """The client gets a part of the answer; without the machine, it is taken whole."""
        if self._past is None:
            self.progress.on_first_byte()

    def ended(self) -> None:
        """The client has its answer."""
        self._past = None
        self.progress.on_ended()

    # Steps

    def _perform(self, step: Step) -> None:
        proxy, session, read = self._proxy, self._session, self.read
        request = session.request
        if session.rules.level not in (Level.BEST_EFFORT, Level.BOUNDED_STALENESS):
            request.scope = read.scope or request.scope
        if read.note is not None and read.note.stale:
            request.stale = True
        read.note = None
        if isinstance(step, Send):
            session.dispatch(step.decision)
        elif isinstance(step, Ask):
            proxy.probes.ask(session)
        elif isinstance(step, Join):
            self._joined = step.wait
            step.wait.joined.append(self)
            self._after(step.seconds, self._out_of_time)
        elif isinstance(step, Open):
            session.open_replica(step.server)
        elif isinstance(step, Delay):
            self._after(step.seconds, self._turn_came)
        elif isinstance(step, Refuse):
            lost_writes = step.reason is Reason.LOST_WRITES
            if lost_writes and read.scope is not None:
                proxy.told(read.scope)
            session.done(Reply("told" if lost_writes else "error", refused=True))
        else:
            assert isinstance(step, Pass), step

    def _after(self, seconds: float, then: Callable[[], None]) -> None:
        self._timers += 1
        number = self._timers
        self._proxy.timers.append(
            (self._proxy.now() + seconds, lambda: then() if number == self._timers else None)
        )

    def _in_time(self) -> None:
        self._timers += 1

    # What it waits for

    def probed(self, answer: Answer | None) -> None:
        """The answer to a question that was sent to the primary after `Ask`; None if it failed."""
        executed = None if answer is None else answer.gtids
        owned = EMPTY if answer is None else answer.owned
        self._perform(self._tell("probe_answered", executed, owned, self._proxy.now()))

    def on_released(self) -> None:
        """The WAIT that was joined has ended, successfully or not."""
        self._leave_joined()
        self._perform(self._tell("released", self._proxy.now()))

    def _out_of_time(self) -> None:
        self._leave_joined()
        self._perform(self._tell("out_of_time", self._proxy.now()))

    def _leave_joined(self) -> None:
        self._in_time()
        joined, self._joined = self._joined, None
        if joined is not None and self in joined.joined:
            joined.joined.remove(self)

    def _turn_came(self) -> None:
        self._perform(self._tell("turn_came", self._proxy.now()))

    def leave(self) -> None:
        """The client or its primary is gone."""
        self._leave_joined()
        asking = self.read.stage == ASKING
        self._past = None
        self.progress.on_left()
        self._end_wait()
        if asking:
            self._proxy.probes.leave(self._session)

    # Its connection

    def absent(self) -> None:
        """There is no connection to the server that was chosen."""
        self._perform(self._tell("absent", self._proxy.now()))

    def unfit(self, reason: Reason) -> None:
        """The connection to the server that was chosen cannot be used now."""
        self._perform(self._tell("unfit", reason, self._proxy.now()))

    def opened(self, failed: Reason | None) -> None:
        """There is a connection to the replica, or a reason why not."""
        self._perform(self._tell("opened", failed, self._proxy.now()))

    # What goes to a replica in front of the read

    def send_before(self, link: Link, decision: Decision) -> None:
        """Send what the decision requires in front of the read."""
        if decision.proof is Proof.WAITED and decision.proof_set is not None:
            self._wait = self._proxy.waits.begin(link.server, decision.proof_set, self._proxy.now())
            proved = self.read.question() if decision.confirm else None
            link.send("wait", self.wait_command(decision.proof_set, self.read.wait_limit, proved))
        elif decision.confirm:
            link.send("confirm", Command("confirm", proved=self.read.question()))

    def wait_command(self, gtids: GtidSet, budget: float, proved: GtidSet | None) -> Command:
        """A WAIT that means the same in every session."""
        return Command("wait", gtids=gtids, budget=budget, proved=proved)

    def is_there(self, answer: Answer) -> bool:
        """Whether the answer to a WAIT says that the replica has the set."""
        return answer.has

    def waited(self, link: Link, answer: Answer) -> None:
        """The WAIT before the read was answered."""
        if self._takes(link, answer):
            return
        self._take_up()
        now = self._proxy.now()
        result: WaitResult = "reached" if self.is_there(answer) else "timeout"
        waited = now - self.read.sent_at
        state = answer.still, answer.ordered
        step = self._tell("wait_answered", result, *state, link.epoch, waited, now)
        self._judged(step)

    def confirmed(self, link: Link, answer: Answer) -> None:
        """The question before the read was answered."""
        state = answer.still, answer.ordered
        self._judged(self._tell("confirm_answered", *state, link.epoch, self._proxy.now()))

    def _judged(self, step: Step) -> None:
        if isinstance(step, Pass):
            self._end_wait()
            self._perform(step)
        else:
            self._leave(step)

    # On the primary

    def settled(self, link: Link, idle: list[Server], *, shows: bool) -> None:
        """The WAIT on the primary was answered."""
        step = self._tell("settled", shows, link.epoch, idle, self._proxy.now())
        if isinstance(step, Refuse):
            self._session.done(Reply("unsettled", refused=True))
            return
        self._session.deactivate()
        self._perform(step)

    # Elsewhere

    def lost(self) -> None:
        """The replica's connection broke."""
        self._take_up()
        step = self._tell("lost", "it broke", self._proxy.now())
        if isinstance(step, End):
            self._session.end()
        else:
            self._leave(step)

    def _leave(self, step: Step) -> None:
        """Ignore the replica's answer, and go on with a step."""
        self._end_wait()
        self._session.deactivate()
        self._perform(step)

    def _end_wait(self) -> None:
        """This session's WAIT is over: reads that joined it need not wait any more."""
        wait = self._wait
        if wait is not None:
            self._wait = None
            self._proxy.waits.end(wait)
