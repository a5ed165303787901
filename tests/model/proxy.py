"""The proxy of the simulation: the real routing code, driven as `proxy.client` drives it.

Each method is one step that nothing can come between, as a callback of the event loop is: a
command, an answer of a server, a timer, a client that is gone. Names are those of
`proxy.client.session`, `proxy.client.reads`, `proxy.client.effects` and `proxy.server.probe`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from protocol.gtid import EMPTY, GtidSet
from proxy.server.waits import Wait, Waits
from routing.consistency import REMEMBERING
from routing.decision import Decision, Level, Proof, Reason, TimeoutPolicy
from routing.gathering import Gathering
from routing.policy import choose, on_primary
from routing.scope import Scopes, ScopeState
from routing.session import Session
from routing.statement import Statement, StatementClass, Touch
from routing.topology import Server, Topology
from tests.model.servers import WRITES, Answer, Command, CommandKind, Mysql, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from routing.consistency import Rules

_READ = Statement(StatementClass.READ, Touch.NOTHING, False, "0" * 16)

Purpose = Literal["identify", "track", "reset", "forward", "probe", "gather", "wait", "settle"]
ReplyKind = Literal["ok", "rows", "error", "told", "lost"]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a client gets.

    Attributes:
        kind: `rows` is a part, the others are an end; `told` is the error of lost writes, `error`
            any other, `lost` the end of the connection.
        value: what was read.
        stale: the guarantee was given up, as the timeout policy says.
        refused: the proxy gave the error: the statement did not run.
    """

    kind: ReplyKind
    value: int = 0
    stale: bool = False
    refused: bool = False


@dataclass(slots=True, eq=False)
class Request:
    """A client's statement, and what becomes of it."""

    kind: CommandKind | Literal["reset", "set"]
    register: int = 0
    value: int = 0
    rules: Rules | None = None  # the statement's own; of `set`: the session's from now on
    arrived: float = 0.0
    scope: ScopeState | None = None  # that it reads in
    decision: Decision | None = None
    probed: GtidSet | None = None
    observed: GtidSet = EMPTY
    started: bool = False  # rows were passed on
    stale: bool = False
    asked: GtidSet = EMPTY
    doubts: int = 0
    term: int = 0
    sent_at: float = 0.0
    waited: float = 0.0  # for other reads' WAITs, s

    @property
    def may_write(self) -> bool:
        """Whether it is one of those that change data."""
        return self.kind in WRITES


class Link:
    """The proxy's end of a connection to a server."""

    def __init__(
        self, server: Server, mysql: Mysql, answer: Callable[[Link, Answer], None]
    ) -> None:
        self.server = server
        self.wire = Wire(mysql, self._receive)
        self.epoch = -1
        self.tracking = "OFF"
        self.lost = False
        self.purposes: deque[Purpose] = deque()
        self._trackings: deque[str] = deque()
        self.applied_before = EMPTY
        self._answer = answer

    def _receive(self, answer: Answer) -> None:
        self._answer(self, answer)

    @property
    def busy(self) -> bool:
        """Whether it has not answered all that it was sent."""
        return bool(self.purposes)

    @property
    def tracks_all(self) -> bool:
        """Whether each answer brings the server's whole set."""
        return self.tracking == "ALL_GTIDS"

    def send(self, purpose: Purpose, command: Command) -> None:
        """Send a command, and remember what its answer is for."""
        self.purposes.append(purpose)
        self.wire.send(command)

    def track(self, tracking: str, purpose: Purpose = "track") -> None:
        """Set session_track_gtids."""
        self._trackings.append(tracking)
        self.send(purpose, Command("track", tracking=tracking))

    def tracked(self) -> None:
        """It is set, also for what answers come from now on."""
        self.tracking = self._trackings.popleft()

    def identify(self, tracking: str) -> None:
        """Ask who is there, and set what is tracked."""
        self.applied_before = self.server.applied
        self.track(tracking)
        self.send("identify", Command("identify"))

    def identified(self, answer: Answer, slack: float) -> None:
        """Take the answer; the start is known to be within `slack` of what it says, s."""
        started = (answer.started - slack, answer.started + slack)
        uuid, executed = answer.uuid, answer.gtids
        self.epoch = self.server.observed(uuid, started, executed, self.applied_before)

    def close(self) -> None:
        """Hang up."""
        self.lost = True
        self.wire.close()


class Probes:
    """The shared probes of the primary."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.gathering: Gathering[ProxySession] = Gathering()
        self._asked_at = 0.0

    def ask(self, session: ProxySession) -> None:
        """Let a read have the answer to a question that is sent from now on."""
        self.gathering.arrive(session)
        self.begin()

    def leave(self, session: ProxySession) -> None:
        """A session ends."""
        if self.gathering.leave(session):
            self.begin()

    def begin(self) -> None:
        """Ask, if there is somebody who waits and no question in flight."""
        while asked := self.gathering.begin():
            link = asked[0].primary_for_probe()
            if link is not None:
                self._asked_at = self._proxy.now()
                link.send("gather", Command("probe"))
                return
            leader = asked[0]
            self.gathering.leave(leader)
            leader.probed(None)

    def answered(self, link: Link, answer: Answer) -> None:
        """What the primary has, over the leader's connection."""
        asked = self.gathering.asked
        if not asked or asked[0].primary_for_probe() is not link:
            return
        topology = self._proxy.topology
        link.server.proved(answer.gtids, link.epoch)
        if link.server is topology.primary:
            topology.observations.add(self._asked_at, answer.gtids)
        for session in self.gathering.end():
            session.probed(answer)
        self.begin()


class ProxySession:
    """One client's session, in the proxy."""

    def __init__(
        self, proxy: Proxy, rules: Rules, user: str, preferred: int, reply: Callable[[Reply], None]
    ) -> None:
        self.proxy = proxy
        self._rules = rules
        self._user = user
        self._preferred = preferred
        self._reply = reply
        self.state = Session(rules, preferred, proxy.scopes, user, proxy.topology.term)
        self.request = Request("set")
        self.primary: Link | None = None
        self._replicas: dict[Server, Link] = {}
        self._active: Link | None = None
        self._opening: Link | None = None
        self._delayed = False  # it may leave for the primary a bit later
        self._wait: Wait | None = None  # in flight before its read, or another read's
        self._joined: Server | None = None  # where another read's is
        self._joined_at = 0.0
        self._probing = False
        self._answered = True
        self.ended = False

    @property
    def rules(self) -> Rules:
        """What the request asks for."""
        return self.request.rules or self.state.rules

    # Login

    def login(self) -> None:
        """Open the connection to the primary."""
        proxy = self.proxy
        server = proxy.topology.primary
        mysql = proxy.servers[server]
        if not mysql.up:
            self.end()
            return
        self.primary = Link(server, mysql, self.answer)
        self._answered = False
        self.primary.identify(self._rules.tracking)

    def _logged_in(self, link: Link) -> None:
        proxy = self.proxy
        if link.server is not proxy.topology.primary:
            self.end()  # it was one until a moment ago
            return
        self.state = Session(
            self._rules, self._preferred, proxy.scopes, self._user, proxy.topology.term
        )
        self._done(Reply("ok"))

    # A command

    def command(self, request: Request) -> None:
        """Serve a statement."""
        self.request = request
        self._answered = False
        request.arrived = self.proxy.now()
        if request.kind == "read":
            self.route()
        elif request.kind == "set":
            if request.rules is not None:
                self._adjust(request.rules)
            request.rules = None
            self._done(Reply("ok"))
        else:
            self.dispatch(on_primary(self.proxy.topology, Reason.WRITE))

    def _adjust(self, rules: Rules) -> None:
        if self.state.adjust(rules):
            self._drop_replicas()
            self._restore_settings()

    def _restore_settings(self) -> None:
        if self.primary is not None:
            self.primary.track(self.state.tracking)

    def route(self) -> None:
        """Let the policy decide about the read, and dispatch it."""
        proxy, request, state, rules = self.proxy, self.request, self.state, self.rules
        topology, now = proxy.topology, proxy.now()
        decision = choose(state, _READ, topology, now, rules, request.probed)
        if rules.level is not Level.BEST_EFFORT:
            scope = state.reading(rules, topology.term, now)
            if rules.level is not Level.BOUNDED_STALENESS:
                request.scope = scope
            if scope.lost_untold:
                scope.lost_untold = False
                proxy.told(scope)
                self._done(Reply("told", refused=True))
                return
            if decision.proof is Proof.PROBED:
                self._ask(scope)
                return
            if decision.reason is Reason.REPLICA_BEHIND and (
                topology.fallbacks.reserve(now, 0.0) is None
            ):
                decision = choose(state, _READ, topology, now, rules, request.probed, crowded=True)
        if decision.proof is Proof.WAITED and decision.proof_set is not None:
            budget = rules.wait_budget - request.waited
            if budget > 0 and self._join(decision.server, decision.proof_set, budget):
                return
        self.dispatch(decision)

    def dispatch(self, decision: Decision) -> None:
        """Write the request to the server that was decided on."""
        request = self.request
        request.decision = decision
        if decision.server is self.proxy.topology.primary:
            self._to_primary()
            return
        link = self._replicas.get(decision.server)
        if link is not None and link.epoch != decision.server.epoch:
            link.close()
            link = None
        if link is None:
            self._open_replica(decision.server)
        elif link.busy:
            self.dispatch(on_primary(self.proxy.topology, Reason.REPLICA_BEHIND))
        else:
            self._active = link
            if decision.proof is Proof.WAITED and decision.proof_set is not None:
                request.sent_at = now = self.proxy.now()
                self._wait = self.proxy.waits.begin(decision.server, decision.proof_set, now)
                budget = self.rules.wait_budget
                link.send("wait", Command("wait", gtids=decision.proof_set, budget=budget))
            link.send("forward", Command("read", request.register))

    def _to_primary(self) -> None:
        self._delayed = False
        request, state, link = self.request, self.state, self.primary
        if link is None or link.lost:
            self.end()
            return
        self._active = link
        if request.kind == "reset":
            link.track("OFF", "reset")
            return
        if self.older_than_seen():
            link.send("settle", Command("settle", budget=self.rules.wait_budget))
        guarded = self.rules.level is not Level.BEST_EFFORT
        if state.wants_probe and request.kind == "read" and guarded:
            link.send("probe", Command("probe"))
        if request.kind != "set":
            link.send("forward", Command(request.kind, request.register, request.value))

    def older_than_seen(self) -> bool:
        """Whether the primary may not show yet what a replica has shown."""
        proxy, rules = self.proxy, self.rules
        if rules.level not in REMEMBERING:
            return False
        primary = proxy.topology.primary
        scope = self.state.reading(rules, proxy.topology.term, proxy.now())
        seen = scope.unseen or scope.seen_on not in (None, primary)
        return seen or not scope.everything <= primary.applied

    def settled(self, link: Link, *, shows_all: bool) -> None:
        """The WAIT on the primary was answered."""
        if shows_all:
            self.state.own_scope.settled(link.server, link.epoch)
        else:
            self.request.stale = True

    def _open_replica(self, server: Server) -> None:
        proxy = self.proxy
        mysql = proxy.servers[server]
        if not mysql.up:
            server.unreachable(proxy.now())
            self.route()
            return
        self._opening = Link(server, mysql, self.answer)
        self._opening.identify("ALL_GTIDS" if self.state.tracking == "ALL_GTIDS" else "OFF")

    # Another read's WAIT

    def _join(self, server: Server, gtids: GtidSet, budget: float) -> bool:
        proxy = self.proxy
        now = proxy.now()
        wait = proxy.waits.join(server, gtids, self, now)  # type: ignore[arg-type]
        if wait is not None:
            self._wait, self._joined, self._joined_at = wait, server, now
            proxy.timers.append((now + budget, lambda: self._out_of_time(wait)))
        return wait is not None

    def released(self) -> None:
        """The WAIT that was joined has ended, well or not."""
        self._part()
        self.route()

    def _out_of_time(self, wait: Wait) -> None:
        if self._wait is not wait or self._joined is None:
            return
        server = self._joined
        self._part()
        if self.rules.on_timeout is TimeoutPolicy.STALE:
            self.request.stale = True
            self.dispatch(Decision(server, Reason.WAIT_TIMEOUT, Proof.NONE))
        else:
            self._waited_too_long()

    def _part(self) -> None:
        if self._joined is not None and self._wait is not None:
            self.request.waited += self.proxy.now() - self._joined_at
            if self in self._wait.joined:
                self._wait.joined.remove(self)  # type: ignore[arg-type]
            self._wait = self._joined = None

    def _end_wait(self, server: Server) -> None:
        """Its own WAIT is over: those who joined it need not wait any more."""
        wait = self._wait
        if wait is not None and self._joined is None:
            self._wait = None
            self.proxy.waits.end(server, wait)

    # The primary's set

    def _ask(self, scope: ScopeState) -> None:
        self._probing = True
        request = self.request
        request.asked = scope.everything
        request.doubts = scope.doubts
        request.term = self.proxy.topology.term
        self.proxy.probes.ask(self)

    def primary_for_probe(self) -> Link | None:
        """The primary connection, if it can ask the primary for what it has."""
        link = self.primary
        if link is None or link.lost or link.server is not self.proxy.topology.primary:
            return None
        return link

    def probed(self, answer: Answer | None) -> None:
        """What the primary has, by a question that was sent after `_ask`; None if it cannot say."""
        if not self._probing:
            return
        self._probing = False
        proxy, request, rules = self.proxy, self.request, self.rules
        topology = proxy.topology
        if answer is None:
            self.dispatch(on_primary(topology, Reason.PROBE_FAILED))
            return
        executed, owned = answer.gtids, answer.owned
        if rules.level is not Level.BOUNDED_STALENESS:
            scope = self.state.reading(rules, topology.term, proxy.now())
            if request.term != topology.term:
                self._ask(scope)
                return
            if scope.term != topology.term:
                scope.verified(executed | owned, request.asked, topology.term)
            scope.probed(executed, request.doubts, owned)
        request.probed = executed | owned if rules.level in REMEMBERING else executed
        self.route()

    # Answers

    def answer(self, link: Link, answer: Answer) -> None:
        """An answer of a server, or the end of its connection, has arrived."""
        if self.ended or link.lost:
            return
        if answer.kind == "lost":
            self._link_lost(link)
            return
        if answer.kind == "rows":
            if link is self._active:
                self.request.started = True
                self._reply(Reply("rows", answer.value, self.request.stale))
            return
        purpose = link.purposes.popleft()
        if purpose == "identify":
            self._identified(link, answer)
        elif purpose == "track":
            link.tracked()
        elif purpose == "reset":
            link.tracked()
            self._reset()
        elif purpose == "probe":
            if answer.tracker is not None:
                self.take_tracker(link, answer.tracker)
            self.state.probed(answer.gtids, answer.owned)
            link.server.proved(answer.gtids, link.epoch)
        elif purpose == "gather":
            self.proxy.probes.answered(link, answer)
        elif purpose == "settle":
            self.settled(link, shows_all=answer.value == 0)
        elif link is self._active and purpose == "wait":
            self.waited(link, reached=answer.value == 0)
        elif link is self._active and purpose == "forward":
            if answer.tracker is not None:
                self.take_tracker(link, answer.tracker)
            self._finish(link, answer)

    def _identified(self, link: Link, answer: Answer) -> None:
        proxy = self.proxy
        link.identified(answer, proxy.start_slack)
        self.learn_order(link.server, proxy.servers[link.server])
        if link is self.primary:
            self._logged_in(link)
            return
        self._opening = None
        link.server.reached()
        self._replicas[link.server] = link
        self.route()

    def learn_order(self, server: Server, mysql: Mysql) -> None:
        """Take over whether a replica commits in its source's order."""
        server.ordered = mysql.ordered

    def take_tracker(self, link: Link, gtids: GtidSet) -> None:
        """Learn from a tracker of the answer to the request."""
        request, state, server, now = self.request, self.state, link.server, self.proxy.now()
        server.proved(gtids, link.epoch)
        if link.tracks_all:
            request.observed |= gtids
            state.saw(gtids, server, now, request.rules)
            if not request.may_write:
                return
        state.wrote(gtids, server, now, request.rules)

    def shown(self, link: Link) -> None:
        """Take note of what showed the client something, and of writes that nobody tracks."""
        request = self.request
        if request.kind == "read":
            self.state.showed(link.server, link.epoch, request.rules)
        if request.may_write and link.tracking == "OFF":
            self.state.may_have_written(request.rules)

    def failed(self) -> None:
        """A command that may write ended in an error: it may have committed before."""
        self.state.may_have_written(self.request.rules)

    def waited(self, link: Link, *, reached: bool) -> None:
        """Judge the answer to a WAIT."""
        request, server, now = self.request, link.server, self.proxy.now()
        decision = request.decision
        if decision is None or decision.proof_set is None:
            return
        waited = now - request.sent_at
        if reached:
            server.proved(decision.proof_set, link.epoch)
            server.applied_after(now - self._changed_at(waited), waited, now)
        else:
            server.timed_out(now, now - self._changed_at(waited))
            if self.rules.on_timeout is TimeoutPolicy.STALE:
                request.stale = True
            else:
                self._fall_back(Reason.WAIT_TIMEOUT)
        self._end_wait(server)

    def _changed_at(self, waited: float) -> float:
        topology, now = self.proxy.topology, self.proxy.now()
        if self.rules.level in (Level.STRONG, Level.BOUNDED_STALENESS):
            return now - waited
        return self.state.reading(self.rules, topology.term, now).changed_at

    def _fall_back(self, reason: Reason) -> None:
        """A replica's answer does not count: run the statement on the primary, or fail it."""
        self._active = None
        decision = self.request.decision
        if decision is not None:
            self._end_wait(decision.server)
        if reason is Reason.WAIT_TIMEOUT:
            self._waited_too_long()
        else:
            self.dispatch(on_primary(self.proxy.topology, reason))

    def _waited_too_long(self) -> None:
        proxy, rules = self.proxy, self.rules
        if rules.on_timeout is TimeoutPolicy.ERROR:
            self._done(Reply("error", refused=True))
            return
        delay = proxy.topology.fallbacks.reserve(proxy.now(), rules.wait_budget)
        if delay is None:
            self._done(Reply("error", refused=True))
        elif delay > 0:
            self._delayed = True
            proxy.timers.append((proxy.now() + delay, self._leave_late_replica))
        else:
            self.dispatch(on_primary(proxy.topology, Reason.WAIT_TIMEOUT))

    def _leave_late_replica(self) -> None:
        if self._delayed and not self.ended:
            self.dispatch(on_primary(self.proxy.topology, Reason.WAIT_TIMEOUT))

    def _finish(self, link: Link, answer: Answer) -> None:
        """The answer is complete: take over what it changed, and tell the client of its end."""
        error = answer.kind == "error"
        if error and self.request.may_write:
            self.failed()
        self.shown(link)
        if self.request.kind == "read":
            self.proxy.judge_told(self.request)
        self._done(Reply("error" if error else "ok", stale=self.request.stale))

    def _done(self, reply: Reply) -> None:
        self._answered = True
        self._active = None
        self._reply(reply)

    # The session as a whole

    def _reset(self) -> None:
        tracking = self.state.tracking
        self.state.reset()
        if self.state.tracking != tracking:
            self._drop_replicas()
        self._restore_settings()
        self._done(Reply("ok"))

    def _drop_replicas(self) -> None:
        for link in self._replicas.values():
            link.close()
        self._replicas.clear()

    def _link_lost(self, link: Link) -> None:
        if link is self.primary:
            self.leave_primary()
            return
        link.close()
        if link is self._opening:
            self._opening = None
            link.server.unreachable(self.proxy.now())
            self.route()
            return
        if self._replicas.get(link.server) is link:
            del self._replicas[link.server]
        if link is self._active:
            if self.request.started:
                self.end()
            else:
                self._fall_back(Reason.REPLICA_LOST)

    def leave_primary(self) -> None:
        """The primary, or the connection to it, is gone; the session was that connection."""
        if self.request.may_write and not self._answered:
            self.state.may_have_written(self.request.rules)
        self.end()

    def client_lost(self) -> None:
        """The client is gone."""
        self.end()

    def end(self) -> None:
        """Let go of all servers, and of the client."""
        if self.ended:
            return
        self.ended = True
        if self.request.started and not self._answered and self._active is not None:
            self.partly_shown(self._active)
        if self._probing:
            self._probing = False
            self.proxy.probes.leave(self)
        if self._joined is not None:
            self._part()
        elif self.request.decision is not None:
            self._end_wait(self.request.decision.server)
        for link in (self.primary, self._opening):
            if link is not None:
                link.close()
        self._drop_replicas()
        if self in self.proxy.sessions:
            self.proxy.sessions.remove(self)
        self._reply(Reply("lost"))

    def partly_shown(self, link: Link) -> None:
        """Rows went to the client, and their end will never come."""
        self.state.showed(link.server, link.epoch, self.request.rules)


@dataclass(eq=False)
class Proxy:
    """One proxy before one primary and its replicas.

    Attributes:
        servers: the real ones behind those that routing knows.
        topology: as routing sees it.
        scopes: the wide ones.
        now: the monotonic clock, s.
        start_slack: how far off a server's start may be told, s.
        timers: what is to be done when.
        owing: wide scopes that have to tell of lost writes, and since when.
        silent: reads that were answered in a scope that had to tell and did not.
    """

    servers: dict[Server, Mysql]
    topology: Topology
    scopes: Scopes
    now: Callable[[], float]
    start_slack: float = 0.4
    sessions: list[ProxySession] = field(default_factory=list)
    timers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    owing: dict[int, tuple[ScopeState, float]] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.probes = Probes(self)
        self.waits = Waits()
        self._told: dict[tuple[int, int], ScopeState] = {}

    def connect(
        self, rules: Rules, user: str, number: int, reply: Callable[[Reply], None]
    ) -> ProxySession:
        """A client comes."""
        preferred = number % max(1, len(self.topology.replicas))
        session = ProxySession(self, rules, user, preferred, reply)
        self.sessions.append(session)
        session.login()
        return session

    def promote(self, server: Server) -> None:
        """Another server is the primary: sessions, which lived on the old one, have to end."""
        self.topology.promote(server)
        self.owe(server)
        for session in list(self.sessions):
            if session.primary is None or session.primary.server is not server:
                session.leave_primary()

    def owe(self, primary: Server) -> None:
        """Note which scopes have to tell of lost writes."""
        mysql = self.servers[primary]
        executed = mysql.executed | mysql.owned
        for scope in self.scopes.states():
            if not scope.everything <= executed:
                self.owing[id(scope)] = (scope, self.now())

    def hint(self, server: Server, gtids: GtidSet) -> None:
        """A server's binlog stream has these: it may not show them yet, so they prove nothing."""

    def told(self, scope: ScopeState) -> None:
        """A reader is told that acknowledged writes are gone."""
        self.owing.pop(id(scope), None)
        told = (id(scope), self.topology.term)
        if not scope.lost or told in self._told:
            self.silent.append(f"{scope.kind} {scope.key!r} was told of what it knew")
        self._told[told] = scope

    def judge_told(self, request: Request) -> None:
        """A read was answered: had its scope to tell of lost writes first?"""
        scope = request.scope
        if scope is None or id(scope) not in self.owing:
            return
        if self.owing[id(scope)][1] < request.arrived:
            why = request.decision.reason if request.decision else ""
            self.silent.append(f"{scope.kind} {scope.key!r} was not told of its lost writes: {why}")
