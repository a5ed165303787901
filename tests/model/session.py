"""One client's session in the simulated proxy, as in `proxy.client.session`.

Each method is one step that nothing can interrupt, like a callback of the event loop.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from routing import policy
from routing.consistency.decision import Decision, Level, Reason
from routing.consistency.rules import REMEMBERING
from routing.policy import on_primary
from routing.session.plain import is_plain
from routing.session.session import Session
from tests.model.links import Link, Reply, Request
from tests.model.reads import Reads
from tests.model.wires import Answer, Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.gtid import GtidSet
    from routing.consistency.rules import Rules
    from routing.servers.topology import Server
    from tests.model.proxy import Proxy


class ProxySession:
    """One client's session, in the proxy."""

    def __init__(
        self, proxy: Proxy, rules: Rules, user: str, number: int, reply: Callable[[Reply], None]
    ) -> None:
        self.proxy = proxy
        self._rules = rules
        self._user = user
        self.number = number
        self._reply = reply
        preferred = proxy.topology.number_of(number)
        self.state = Session(rules, preferred, proxy.scopes, user, proxy.topology.term)
        proxy.begin_session(self.state)
        self.request = Request("set")
        self.primary: Link | None = None
        self._replicas: dict[Server, Link] = {}
        self._active: Link | None = None
        self._opening: Link | None = None
        self.reads = Reads(proxy, self)
        self._answered = True
        self.bent = False
        self.ended = False

    @property
    def rules(self) -> Rules:
        """The rules that the request asks for."""
        return self.request.rules or self.state.rules

    def prefer_replica(self, index: int) -> None:
        """Ask the servers in another order from now on."""
        self.state.preferred = index
        self.reads.read.cached_decision.forget()

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
        self.primary.identify(self._rules.tracking, proxy.now())

    def logged_in(self, link: Link) -> None:
        """The term of the primary has begun."""
        proxy = self.proxy
        if link.server is not proxy.topology.primary:
            self.end()  # it was the primary until a moment ago
            return
        preferred = proxy.topology.number_of(self.number)
        self.state = Session(self._rules, preferred, proxy.scopes, self._user, proxy.topology.term)
        proxy.begin_session(self.state)
        self.reads = Reads(proxy, self)
        self.done(Reply("ok"))

    # A command

    def command(self, request: Request) -> None:
        """Serve a statement."""
        self.request = request
        self._answered = False
        request.arrived = self.proxy.now()
        if request.rules is not None or request.kind in ("set", "reset"):
            self.changed()
        if request.kind == "read":
            if not self._goes_fast():
                self.reads.route()
        elif request.kind == "set":
            if request.rules is not None:
                self._adjust(request.rules)
            self.bent = self.bent or request.bends
            request.rules = None
            self.done(Reply("ok"))
        else:
            self.reads.go_without()
            self.dispatch(on_primary(self.proxy.topology, Reason.WRITE))

    def changed(self) -> None:
        """The session may have changed: the next statement finds out whether it is plain."""
        self.state.plain = False

    def _goes_fast(self) -> bool:
        """Send a read where the last one went, as `proxy.client.fast_path` does; False if not."""
        state, now = self.state, self.proxy.now()
        if self.request.rules is not None:
            return False
        state.plain = state.plain or is_plain(state)
        decision = (
            self.reads.read.cached_decision.of(self.reads.statement.tables, now)
            if state.plain
            else None
        )
        link = None if decision is None else self._replicas.get(decision.server)
        if decision is None or link is None or self.bent or not self._is_free(link):
            return False
        self._active = link
        self.request.decision = decision
        self.request.sent_at = now
        self.reads.go_past(link, decision)
        link.send("forward", self.proxy.read_command(self.request.register, now))
        return True

    def _is_free(self, link: Link) -> bool:
        """Whether a replica's connection is idle, and leads to its present incarnation."""
        return not link.busy and link.epoch == link.server.epoch

    def _adjust(self, rules: Rules) -> None:
        if self.state.adjust(rules):
            self._drop_replicas()
            self._restore_settings()

    def _restore_settings(self) -> None:
        if self.primary is not None:
            self.primary.track(self.state.trackers.gtids)

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
            self.reads.absent()
        elif link.busy:
            self.reads.unfit(Reason.REPLICA_BEHIND)
        else:
            self._active = link
            if self.bent and not link.bent:
                link.bent = True
                link.send("bend", Command("bend"))
            request.sent_at = self.reads.read.sent_at
            self.reads.send_before(link, decision)
            link.send("forward", self.proxy.read_command(request.register, self.proxy.now()))

    def _to_primary(self) -> None:
        request, state, link = self.request, self.state, self.primary
        if link is None or link.lost:
            self.end()
            return
        self._active = link
        if request.kind == "reset":
            link.track("OFF", "reset")
            return
        if not self.reads.read.is_settled and self.older_than_seen():
            link.send("settle", Command("settle", budget=self.rules.wait_budget))
            if request.kind == "read":
                return  # `settled` continues
        guarded = self.rules.level is not Level.BEST_EFFORT
        if state.wants_probe and request.kind == "read" and guarded:
            link.send("probe", Command("probe"))
        if request.kind != "set":
            now = self.proxy.now()
            command = Command(request.kind, request.register, request.value, sent_at=now)
            link.send("forward", command)

    def older_than_seen(self) -> bool:
        """Whether the primary may not show yet what a replica has shown."""
        proxy, rules = self.proxy, self.rules
        if rules.level not in REMEMBERING:
            return False
        primary = proxy.topology.primary
        scope = self.state.reading(rules, proxy.topology.term, proxy.now())
        return policy.shows_less(scope, primary)

    def settled(self, link: Link, *, shows_all: bool) -> None:
        """The WAIT on the primary was answered; a write runs in any case."""
        if self.request.kind == "read":
            idle = [server for server in self._replicas if self._is_idle(server)]
            self.reads.settled(link, idle, shows=shows_all)
        elif shows_all:
            self.state.own_scope.on_primary_settled(link.server, link.epoch)

    def open_replica(self, server: Server) -> None:
        """Open a connection to a replica."""
        proxy = self.proxy
        mysql = proxy.servers[server]
        if not mysql.up:
            server.set_unreachable(proxy.now())
            self.reads.opened(Reason.REPLICA_LOST)
            return
        self._opening = Link(server, mysql, self.answer)
        tracking = "ALL_GTIDS" if self.state.trackers.gtids == "ALL_GTIDS" else "OFF"
        self._opening.identify(tracking, proxy.now())

    def primary_for_probe(self) -> Link | None:
        """The primary connection, if it can ask the primary for what it has."""
        link = self.primary
        if link is None or link.lost or link.server is not self.proxy.topology.primary:
            return None
        return link

    # Answers

    def answer(self, link: Link, answer: Answer) -> None:
        """An answer of a server, or the end of its connection, has arrived."""
        if self.ended or link.lost:
            return
        if answer.kind == "lost":
            self.changed()
            self._link_lost(link)
            return
        if answer.kind == "error":
            self.changed()
        if answer.kind == "rows":
            if link is self._active:
                self.request.started = True
                self.reads.first_byte()
                stale = self.request.stale or answer.excused
                self._reply(Reply("rows", answer.value, stale, register=answer.register))
            return
        purpose = link.purposes.popleft()
        if purpose == "identify":
            self._identified(link, answer)
        elif purpose == "compare":
            self.proxy.primary_epoch.compared(link, answer)
        elif purpose == "track":
            link.tracked()
        elif purpose == "reset":
            link.tracked()
            self._reset()
        elif purpose == "probe":
            if answer.tracker is not None:
                self.take_tracker(link, answer.tracker)
            self.state.on_probe(answer.gtids, answer.owned)
            link.server.add_proof(answer.gtids, link.epoch)
        elif purpose == "gather":
            self.proxy.probes.answered(link, answer)
        elif purpose == "settle":
            if link is self._active:
                self.settled(link, shows_all=answer.value == 0)
        elif link is self._active and purpose == "wait":
            self.reads.waited(link, answer)
        elif link is self._active and purpose == "confirm":
            self.reads.confirmed(link, answer)
        elif link is self._active and purpose == "forward":
            if answer.tracker is not None:
                self.take_tracker(link, answer.tracker)
            self._finish(link, answer)

    def _identified(self, link: Link, answer: Answer) -> None:
        proxy = self.proxy
        link.identified(answer, proxy.start_slack)
        self.learn_order(link.server, answer, link.asked_at)
        if link is self.primary:
            proxy.primary_epoch.begin(self, link)
            return
        self._opening = None
        link.server.set_reachable()
        self._replicas[link.server] = link
        self.reads.opened(None)

    def learn_order(self, server: Server, answer: Answer, asked_at: float) -> None:
        """Take over whether a replica commits in its source's order."""
        server.keeps_order(answer.ordered, asked_at, self.proxy.now())

    def take_tracker(self, link: Link, gtids: GtidSet) -> None:
        """Learn from a tracker of the answer to the request."""
        request, state, server, now = self.request, self.state, link.server, self.proxy.now()
        asked_at = inf if link is self.primary else request.sent_at
        server.add_proof(gtids, link.epoch, asked_at)
        if link.tracks_all:
            request.observed |= gtids
            state.record_executed(gtids, server, now, request.rules)
            if not request.may_write:
                return
        state.record_write(gtids, server, now, request.rules)

    def shown(self, link: Link) -> None:
        """Note which server showed the client something, and writes that are not tracked."""
        request = self.request
        if request.kind == "read":
            self.state.record_answer(link.server, link.epoch, request.rules)
        if request.may_write and link.tracking == "OFF":
            self.state.may_have_written(request.rules)

    def failed(self) -> None:
        """A command that may write ended in an error: it may have committed before."""
        self.state.may_have_written(self.request.rules)

    def _finish(self, link: Link, answer: Answer) -> None:
        """The answer is complete: take over what it changed, and tell the client of its end."""
        error = answer.kind == "error"
        if error and self.request.may_write:
            self.failed()
        self.shown(link)
        if self.request.kind == "read":
            self.proxy.judge_told(self.request)
        self.done(Reply("error" if error else "ok", stale=self.request.stale))

    def done(self, reply: Reply) -> None:
        """End the request."""
        self._answered = True
        self._active = None
        self.reads.ended()
        self._reply(reply)

    def _is_idle(self, server: Server) -> bool:
        """Whether there is an idle connection to the present incarnation of a replica."""
        link = self._replicas.get(server)
        return link is not None and link.epoch == server.epoch and not link.busy

    def deactivate(self) -> None:
        """From now on, ignore what the active connection still answers to the request."""
        self._active = None

    # The session as a whole

    def _reset(self) -> None:
        self.bent = False
        tracking = self.state.trackers.gtids
        self.state.reset()
        if self.state.trackers.gtids != tracking:
            self._drop_replicas()
        self._restore_settings()
        self.done(Reply("ok"))

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
            link.server.set_unreachable(self.proxy.now())
            self.reads.opened(Reason.REPLICA_LOST)
            return
        if self._replicas.get(link.server) is link:
            del self._replicas[link.server]
        if link is self._active:
            self.reads.lost()

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
        self.reads.leave()
        self.proxy.primary_epoch.leave(self)
        for link in (self.primary, self._opening):
            if link is not None:
                link.close()
        self._drop_replicas()
        if self in self.proxy.sessions:
            self.proxy.sessions.remove(self)
        self._reply(Reply("lost"))

    def partly_shown(self, link: Link) -> None:
        """Rows went to the client, and their end will never come."""
        self.state.record_answer(link.server, link.epoch, self.request.rules)
