"""Mutants: each patches an error into the routing code, or into how the simulated proxy drives it.

A mutant is a function of pytest's `monkeypatch`. The simulation catches each of them, so it means
something that it finds nothing wrong with the real code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from protocol.gtid import EMPTY, GtidSet
from proxy.state.state_file import PrimaryTerm, StateFile
from routing import policy
from routing.consistency.decision import Decision, Level, Proof, Reason, Scope
from routing.consistency.scope import KeptScope, Scopes, ScopeState
from routing.request import read
from routing.request.cached_decision import CachedDecision
from routing.request.read import Read
from routing.servers import transaction_tables
from routing.servers.failover import Election
from routing.servers.gathering import Gathering
from routing.servers.observations import Observations
from routing.servers.topology import Server, Topology
from routing.servers.transaction_tables import TransactionTables
from routing.session.known_tables import KnownTables
from routing.session.session import Session
from tests.model import session
from tests.model.keeper import Keeper
from tests.model.links import Link
from tests.model.monitor import Monitor
from tests.model.options import FOLLOWED, WEIGHTS, Options
from tests.model.proxy import Proxy
from tests.model.reads import Reads
from tests.model.session import ProxySession
from tests.model.succession import Worker
from tests.model.terms import PrimaryEpoch

if TYPE_CHECKING:
    from routing.request.step import Step
    from tests.model.wires import Answer, Command

Patch = Callable[["pytest.MonkeyPatch"], None]

_OFTEN: Final[dict[str, float]] = {
    "hang_up": 0.4,
    "restart_replica": 3,
    "restore_primary": 0.4,
    "promote": 0.6,
    "notice": 40,
    "direct": 8,
    "delay": 20,
    "apply": 30,
    "rebuild_replica": 0.6,
    "change_order": 0.6,
    "look": 6,
    "await_acknowledgement": 1,
    "repair": 3,
    "keep": 6,
    "restart_proxy": 1.5,
    "place": 6,
}
_SELDOM: Final[dict[str, float]] = {
    "apply": 2,
    "commit": 1.5,
    "answer": 15,
    "receive": 3,
    "direct": 0.3,
    "hang_up": 0.05,
    "repair": 0.02,
}


@dataclass(frozen=True)
class Mutant:
    """One mutant.

    Attributes:
        name: what is wrong.
        patch: patches the error in.
        options: options of a simulation in which the error matters.
        seed: the first seed to try: the first one that caught it when this was written.
    """

    name: str
    patch: Patch
    options: Options
    seed: int


ALL: list[Mutant] = []
_REMEMBERING: Final = (Level.MONOTONIC_READS, Level.READ_ALL_WRITES)
_DISORDER: Final = (False, False, False)


def _mutant(
    *,
    levels: tuple[Level, ...] = (Level.READ_OWN_WRITES,),
    scopes: tuple[Scope, ...] = (Scope.CONNECTION,),
    often: tuple[str, ...] = (),
    seldom: tuple[str, ...] = ("apply",),
    seed: int = 0,
    base: dict[str, float] = WEIGHTS,
    **options: Any,
) -> Callable[[Patch], Patch]:
    chosen_often = {kind: _OFTEN[kind] for kind in often}
    chosen_seldom = {kind: _SELDOM[kind] for kind in seldom}
    weights = {**base, **chosen_often, **chosen_seldom}

    def decorated(patch: Patch) -> Patch:
        chosen = Options(levels=levels, scopes=scopes, weights=weights, **options)
        ALL.append(Mutant(patch.__name__, patch, chosen, seed))
        return patch

    return decorated


# Who is asked first.


@_mutant(often=("place",))
def read_from_the_nearest_whatever_it_has(patch: pytest.MonkeyPatch) -> None:
    among = policy._among_replicas

    def nearest(session: Session, topology: Topology, now: float, *arguments: Any) -> Decision:
        first = topology.first_of(session.preferred)
        if topology.placement is None or first is None or now < first.shunned_until:
            return among(session, topology, now, *arguments)
        return Decision(first, Reason.READ, Proof.KNOWN, first.applied)

    patch.setattr(policy, "_among_replicas", nearest)


# What is required.


@_mutant(replicas=_DISORDER, clients=2)
def keep_only_the_last_tracker(patch: pytest.MonkeyPatch) -> None:
    def wrote(self: ScopeState, gtids: GtidSet, primary: GtidSet, now: float = 0.0) -> None:
        self.own = gtids
        self.changed_at = self.used_at = now

    patch.setattr(ScopeState, "record_write", wrote)


@_mutant(replicas=_DISORDER, clients=2)
def keep_only_the_highest_number(patch: pytest.MonkeyPatch) -> None:
    def wrote(self: ScopeState, gtids: GtidSet, primary: GtidSet, now: float = 0.0) -> None:
        both = self.own | gtids
        ends = {tsid: both.intervals(tsid)[-1][1] for tsid in both.tsids}
        self.own = GtidSet({tsid: [(end - 1, end)] for tsid, end in ends.items()})
        self.changed_at = self.used_at = now

    patch.setattr(ScopeState, "record_write", wrote)


@_mutant(seed=13)
def forget_on_reset(patch: pytest.MonkeyPatch) -> None:
    reset = Session.reset

    def forget(self: Session) -> None:
        reset(self)
        self.own_scope = ScopeState(Scope.CONNECTION, "", self.own_scope.term, unknown=False)

    patch.setattr(Session, "reset", forget)


@_mutant(seed=1)
def ignore_what_was_committed_before_an_error(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProxySession, "failed", lambda self: None)


@_mutant(levels=(Level.READ_OWN_WRITES, Level.BEST_EFFORT), seed=6)
def ignore_writes_that_nobody_tracks(patch: pytest.MonkeyPatch) -> None:
    shown = ProxySession.shown

    def only_reads(self: ProxySession, link: Link) -> None:
        if not self.request.may_write:
            shown(self, link)

    patch.setattr(ProxySession, "shown", only_reads)


@_mutant(levels=_REMEMBERING)
def forget_what_was_observed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScopeState, "record_executed", lambda self, executed, now=0.0: None)
    patch.setattr(ScopeState, "record_answer", lambda self, server, epoch: None)


@_mutant(levels=_REMEMBERING, seldom=("commit",), seed=25)
def take_a_tracker_for_a_bound_of_what_was_seen(patch: pytest.MonkeyPatch) -> None:
    """But rows are visible before their GTID is in any set."""
    patch.setattr(ScopeState, "record_answer", lambda self, server, epoch: None)


@_mutant(levels=_REMEMBERING, scopes=(Scope.PROXY,), seldom=("commit",), seed=110)
def take_what_the_primary_has_executed_for_all_that_was_seen(patch: pytest.MonkeyPatch) -> None:
    """But a replica can show what the primary is still committing."""
    probed = ScopeState.on_probe
    patch.setattr(
        ScopeState,
        "on_probe",
        lambda self, executed, doubts, owned=None: probed(self, executed, doubts),
    )


@_mutant(levels=_REMEMBERING, seldom=("commit",), seed=4)
def take_the_primary_for_the_newest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(policy, "shows_less", lambda scope, primary: False)


@_mutant(levels=_REMEMBERING, seldom=("commit",), seed=45)
def read_the_primary_though_it_did_not_finish_committing(patch: pytest.MonkeyPatch) -> None:
    """The wait budget can run out while the primary awaits a semi-synchronous acknowledgement."""

    def go_on(self: Read, primary: Server, idle: Any, now: float) -> Step:
        return self._send(Decision(primary, Reason.WAIT_TIMEOUT, Proof.PRIMARY), now)

    patch.setattr(Read, "_not_shown", go_on)


@_mutant(levels=_REMEMBERING, often=("await_acknowledgement",), registers=1, seed=28)
def what_is_committed_in_the_engine_may_be_late(patch: pytest.MonkeyPatch) -> None:
    """The primary was asked for what it has executed, but may still show less than replicas."""
    patch.setattr(policy, "shows_less", lambda scope, primary: scope.unseen)


@_mutant(levels=_REMEMBERING, seldom=("commit",), seed=230)
def think_the_primary_has_what_a_probe_of_it_named(patch: pytest.MonkeyPatch) -> None:
    """But the probe's answer also named what the primary was still committing."""

    def less(scope: ScopeState, primary: Server) -> bool:
        return scope.unseen or scope.seen_on not in (None, primary)

    patch.setattr(policy, "shows_less", less)


@_mutant(
    levels=(Level.READ_OWN_WRITES, Level.MONOTONIC_READS),
    scopes=(Scope.USER,),
    registers=1,
    seed=68,
)
def only_levels_that_remember_see(patch: pytest.MonkeyPatch) -> None:
    """But what a session is shown at another level counts in its scope, too."""
    shown = ProxySession.shown

    def remembered(self: ProxySession, link: Link) -> None:
        if self.request.may_write or link.tracks_all:
            shown(self, link)

    patch.setattr(ProxySession, "shown", remembered)


@_mutant(
    levels=_REMEMBERING,
    scopes=(Scope.PROXY,),
    often=("hang_up",),
    registers=1,
    clients=2,
    seed=1399,
)
def forget_what_was_shown_in_part(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProxySession, "partly_shown", lambda self, link: None)


@_mutant(scopes=(Scope.USER,))
def a_session_owes_nothing_to_its_user(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scopes, "alive", lambda self, user, application: [])


@_mutant(scopes=(Scope.APPLICATION,), errors=5, seed=62)
def a_failed_statements_application_is_its_sessions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProxySession, "failed", lambda self: self.state.may_have_written())


# Scopes that come and go.


@_mutant(scopes=(Scope.USER, Scope.PROXY), scope_limit=2)
def a_wide_scope_begins_empty(patch: pytest.MonkeyPatch) -> None:
    make = ScopeState.__init__

    def empty(self: ScopeState, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        self.unknown = self.unseen = False

    patch.setattr(ScopeState, "__init__", empty)


@_mutant(scopes=(Scope.USER,), scope_limit=1, clients=5, often=("delay",), registers=1, seed=530)
def a_probe_of_a_dropped_scope_counts_for_the_next(patch: pytest.MonkeyPatch) -> None:
    make = ScopeState.__init__

    def from_zero(self: ScopeState, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **{**named, "doubts": 0})

    patch.setattr(ScopeState, "__init__", from_zero)


# Probes.


@_mutant(
    levels=(Level.STRONG,),
    clients=6,
    often=("direct", "delay"),
    seldom=("apply", "answer"),
    seed=178,
)
def join_the_probe_in_flight(patch: pytest.MonkeyPatch) -> None:
    arrive = Gathering.arrive

    def join(self: Gathering[Any], reader: Any) -> None:
        if self.asked:
            self.asked.append(reader)
        else:
            arrive(self, reader)

    patch.setattr(Gathering, "arrive", join)


@_mutant(
    scopes=(Scope.PROXY,),
    errors=6,
    clients=6,
    often=("delay",),
    seldom=("apply", "answer"),
    seed=59,
)
def a_probe_ends_all_doubts(patch: pytest.MonkeyPatch) -> None:
    probed = ScopeState.on_probe

    def end_all(self: ScopeState, executed: GtidSet, doubts: int, owned: GtidSet = EMPTY) -> None:
        probed(self, executed, self.doubts, owned)

    patch.setattr(ScopeState, "on_probe", end_all)


@_mutant(levels=(Level.STRONG,))
def strong_takes_what_the_scope_knows(patch: pytest.MonkeyPatch) -> None:
    required_by = policy.required_by

    def known(scope: ScopeState, rules: Any, topology: Topology, *more: Any) -> GtidSet | None:
        if rules.level is Level.STRONG and scope.is_known(Level.STRONG) and not scope.unknown:
            return scope.own
        return required_by(scope, rules, topology, *more)

    patch.setattr(policy, "required_by", known)
    patch.setattr(read, "required_by", known)


@_mutant(levels=(Level.BOUNDED_STALENESS,))
def a_bound_is_as_good_as_any_observation(patch: pytest.MonkeyPatch) -> None:
    since = Observations.since
    patch.setattr(Observations, "since", lambda self, moment: since(self, moment - 3.0))


# Proofs.


@_mutant(seed=1)
def take_the_binlog_stream_for_proof(patch: pytest.MonkeyPatch) -> None:
    def believe(self: Proxy, server: Server, gtids: GtidSet) -> None:
        server.add_proof(gtids, server.epoch)

    patch.setattr(Proxy, "hint", believe)


@_mutant(replicas=(True,), registers=1, often=("restart_replica",), seed=4)
def keep_an_applied_set_across_a_restart(patch: pytest.MonkeyPatch) -> None:
    def observed(self: Server, uuid: str, started: Any, executed: GtidSet, *_: Any) -> int:
        if not self.epoch:
            self.epoch = 1
        self.add_proof(executed, self.epoch)
        return self.epoch

    patch.setattr(Server, "observe", observed)


@_mutant()
def take_a_wait_that_ran_out_for_a_success(patch: pytest.MonkeyPatch) -> None:
    answered = Read.wait_answered

    def content(self: Read, result: str, *more: Any) -> Step:
        return answered(self, "reached", *more)

    patch.setattr(Read, "wait_answered", content)


@_mutant(levels=(Level.MONOTONIC_READS,), scopes=(Scope.USER,), replicas=_DISORDER, seed=107)
def a_higher_number_proves_the_lower(patch: pytest.MonkeyPatch) -> None:
    proved = Server.add_proof

    def filled(self: Server, gtids: GtidSet, epoch: int, *_: Any) -> None:
        ends = {tsid: gtids.intervals(tsid)[-1][1] for tsid in gtids.tsids}
        proved(self, GtidSet({tsid: [(1, end)] for tsid, end in ends.items()}), epoch)

    patch.setattr(Server, "add_proof", filled)


@_mutant(levels=(Level.READ_ALL_WRITES,), replicas=_DISORDER, seed=3)
def read_all_writes_from_replicas_in_any_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Server, "keeps_order", lambda self, *_: None)


@_mutant(seed=7)
def ask_in_the_sessions_own_character_set(patch: pytest.MonkeyPatch) -> None:
    """A WAIT reads a garbled set as an empty one, and so it succeeds."""
    command = Reads.wait_command

    def inexact(self: Reads, *arguments: Any) -> Command:
        return replace(command(self, *arguments), exact=False)

    patch.setattr(Reads, "wait_command", inexact)
    patch.setattr(Reads, "is_there", lambda self, answer: answer.value == 0)


# Replicas that become others while they run.


_REBUILT: Final[dict[str, Any]] = {
    "often": ("rebuild_replica", "apply"),
    "seldom": ("direct", "hang_up"),
    "replicas": (True,),
    "registers": 1,
    "clients": 2,
}


@_mutant(**_REBUILT, proof_max_age=0.0, seed=2)
def take_a_proof_for_good(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Server, "is_doubtful", lambda self, now: False)


@_mutant(**_REBUILT, proof_max_age=0.3, seed=10)
def take_any_answer_for_a_confirmation(patch: pytest.MonkeyPatch) -> None:
    doubt = Read._doubt

    def content(self: Read, still: bool | None, *more: Any) -> Reason | None:
        return doubt(self, None if still is None else True, *more)

    patch.setattr(Read, "_doubt", content)


@_mutant(
    levels=(Level.READ_ALL_WRITES,),
    often=("change_order",),
    replicas=(True, True),
    proof_max_age=0.0,
    seed=555,
)
def ask_for_the_order_of_commits_at_logins_alone(patch: pytest.MonkeyPatch) -> None:
    doubt = Read._doubt

    def in_order(self: Read, still: bool | None, ordered: bool | None, *more: Any) -> Reason | None:
        return doubt(self, still, True, *more)

    patch.setattr(Read, "_doubt", in_order)


@_mutant(
    levels=(Level.READ_ALL_WRITES,),
    often=("change_order", "look"),
    replicas=(True, True),
    proof_max_age=0.3,
    seed=199,
)
def hear_no_replica_that_gave_up_the_order(patch: pytest.MonkeyPatch) -> None:
    """The read that finds it out runs elsewhere, but further reads still go to the replica."""
    keeps_order = Server.keeps_order

    def only_yes(self: Server, ordered: bool, asked_at: float, answered_at: float) -> None:
        if ordered or not self.epoch:
            keeps_order(self, ordered, asked_at, answered_at)

    patch.setattr(Server, "keeps_order", only_yes)


# Another primary.


@_mutant(scopes=(Scope.USER, Scope.PROXY), often=("promote",))
def compare_nothing_with_a_new_primary(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Topology, "term", 0)


@_mutant(
    scopes=(Scope.USER, Scope.PROXY),
    clients=6,
    replicas=(True,),
    often=("promote", "notice", "delay"),
    seldom=("receive",),
    seed=79,
)
def hear_an_old_primary_out(patch: pytest.MonkeyPatch) -> None:
    def promote(self: Proxy, server: Server) -> None:
        self.topology.promote(server)
        self.owe(self.servers[server].executed | self.servers[server].owned)

    patch.setattr(Proxy, "promote", promote)


# The same primary, without its last transactions.


@_mutant(often=("restore_primary",), seed=59)
def compare_no_replica_with_a_primary_that_came_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Topology, "compare", lambda self, had, has: None)


@_mutant(often=("restore_primary",), seed=12)
def judge_replicas_by_what_they_are_known_to_have(patch: pytest.MonkeyPatch) -> None:
    """The proxy may not know yet what replicas received last."""
    patch.setattr(PrimaryEpoch, "replicas", lambda self: [])


@_mutant(scopes=(Scope.USER, Scope.PROXY), often=("restore_primary",))
def compare_a_scope_when_it_is_read_in(patch: pytest.MonkeyPatch) -> None:
    """By then the primary has given the GTIDs of lost transactions to others."""
    patch.setattr(PrimaryEpoch, "scopes", lambda self: [])


@_mutant(often=("restore_primary",), seed=6)
def use_a_primary_that_came_back_before_it_was_compared(patch: pytest.MonkeyPatch) -> None:
    begin = PrimaryEpoch.begin

    def at_once(self: PrimaryEpoch, session: ProxySession, link: Link) -> None:
        session.logged_in(link)
        session.logged_in = lambda link: None  # type: ignore[method-assign]
        begin(self, session, link)

    patch.setattr(PrimaryEpoch, "begin", at_once)


_STRAYED: Final[dict[str, Any]] = {
    "levels": (Level.READ_OWN_WRITES, Level.STRONG),
    "replicas": (True,),
    "registers": 1,
    "clients": 3,
    "proof_max_age": 0.0,
}


@_mutant(**_STRAYED, often=("restore_primary", "look"), seldom=("repair",), seed=14)
def take_a_verdict_back_when_names_are_given_again(patch: pytest.MonkeyPatch) -> None:
    compare = Topology.compare

    def by_this_look_alone(self: Topology, held: Any, has: GtidSet) -> None:
        for replica in self.replicas:
            replica.diverged_gtids = EMPTY
        compare(self, held, has)

    patch.setattr(Topology, "compare", by_this_look_alone)


@_mutant(
    **_STRAYED, often=("restore_primary", "rebuild_replica", "look"), seldom=("repair",), seed=113
)
def take_a_verdict_back_when_the_last_is_lost(patch: pytest.MonkeyPatch) -> None:
    """After a crash, a replica still has what it had before its last transactions."""
    observed = Server.observe

    def acquit(self: Server, uuid: str, started: Any, executed: GtidSet, *more: Any) -> int:
        epoch = self.epoch
        found = observed(self, uuid, started, executed, *more)
        if self.epoch != epoch and not more[0] <= executed:
            self.diverged_gtids = EMPTY
        return found

    patch.setattr(Server, "observe", acquit)


@_mutant(
    **_STRAYED, often=("restore_primary", "rebuild_replica", "look"), seldom=("repair",), seed=251
)
def acquit_a_replica_by_a_reset_before_the_loss(patch: pytest.MonkeyPatch) -> None:
    answered = Monitor._answered

    def remembering(self: Monitor, link: Link, answer: Answer) -> None:
        answered(self, link, answer)
        link.server.binary_log = max(link.server.binary_log, answer.binary_log)

    def keeping(self: Server, gtids: GtidSet, binary_log: int) -> None:
        self.diverged_gtids |= gtids
        self.divergences += 1

    patch.setattr(Monitor, "_answered", remembering)
    patch.setattr(Server, "add_diverged", keeping)


@_mutant(
    **_STRAYED, often=("restore_primary", "rebuild_replica", "look"), seldom=("repair",), seed=2099
)
def let_a_number_stand_when_the_same_is_lost_again(patch: pytest.MonkeyPatch) -> None:
    add = Server.add_diverged

    def if_new(self: Server, gtids: GtidSet, binary_log: int | None) -> None:
        if not gtids <= self.diverged_gtids:
            add(self, gtids, binary_log)

    patch.setattr(Server, "add_diverged", if_new)


@_mutant(**_STRAYED, often=("restore_primary", "repair", "look", "delay"), seed=31)
def judge_a_new_server_by_the_one_before(patch: pytest.MonkeyPatch) -> None:
    """What the server had was asked before the server was made anew."""
    compare = Topology.compare

    def by_name(self: Topology, held: Any, has: GtidSet) -> None:
        compare(
            self,
            [replica_gtids._replace(uuid=replica_gtids.replica.uuid) for replica_gtids in held],
            has,
        )

    patch.setattr(Topology, "compare", by_name)


@_mutant(**_STRAYED, often=("restore_primary", "repair", "look"))
def never_take_a_verdict_back(patch: pytest.MonkeyPatch) -> None:
    observed = Server.observe

    def condemn(self: Server, *arguments: Any) -> int:
        diverged_gtids = self.diverged_gtids
        epoch = observed(self, *arguments)
        self.diverged_gtids |= diverged_gtids
        return epoch

    patch.setattr(Server, "observe", condemn)


# Scopes that outlive the proxy.

_RESTARTS: Final = ("keep", "restart_proxy")


@_mutant(scopes=(Scope.USER, Scope.PROXY), often=_RESTARTS, registers=1, seed=20)
def mark_no_scope_that_more_is_required_of(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Keeper, "mark", lambda self, key: None)


@_mutant(scopes=(Scope.USER, Scope.PROXY), often=_RESTARTS, registers=1, seed=137)
def take_the_mark_away_before_all_is_written(patch: pytest.MonkeyPatch) -> None:
    take = Keeper.take

    def take_and_clear(self: Keeper) -> None:
        take(self)
        for scope, kept in self._taken:
            if scope.on_kept(kept):
                self.clear((scope.kind, scope.key))

    patch.setattr(Keeper, "take", take_and_clear)


@_mutant(scopes=(Scope.USER, Scope.PROXY), often=_RESTARTS, registers=1, seed=408)
def take_the_mark_away_whatever_came_meanwhile(patch: pytest.MonkeyPatch) -> None:
    def always(self: ScopeState, kept: KeptScope) -> bool:
        self._is_ahead = False
        return True

    patch.setattr(ScopeState, "on_kept", always)


@_mutant(
    levels=_REMEMBERING, scopes=(Scope.USER, Scope.PROXY), often=_RESTARTS, registers=1, seed=38
)
def forget_with_a_restart_that_something_was_seen(patch: pytest.MonkeyPatch) -> None:
    found = ScopeState.from_kept.__func__  # type: ignore[attr-defined]

    def unseen(cls: type[ScopeState], kept: KeptScope, keeper: Any, doubts: int) -> ScopeState:
        state: ScopeState = found(cls, kept, keeper, doubts)
        state.unseen = False
        return state

    patch.setattr(ScopeState, "from_kept", classmethod(unseen))


@_mutant(
    scopes=(Scope.PROXY,), often=(*_RESTARTS, "promote", "notice"), registers=1, clients=3, seed=7
)
def compare_no_scope_that_was_found(patch: pytest.MonkeyPatch) -> None:
    """The primary at the start may lack what was acknowledged in a restored scope."""
    scopes = PrimaryEpoch.scopes

    def others(self: PrimaryEpoch) -> list[ScopeState]:
        found = [scope for scope in scopes(self) if scope.term == -1 and scope.key in ("", "ann")]
        for scope in found:
            scope.term = self._proxy.topology.term
        return [scope for scope in scopes(self) if scope not in found]

    patch.setattr(PrimaryEpoch, "scopes", others)


@_mutant(
    levels=(Level.STRONG,),
    often=("restart_proxy", "restore_primary"),
    seldom=("repair",),
    registers=3,
    seed=27,
)
def forget_with_a_restart_who_has_diverged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Keeper, "on_compared", lambda self, diverged_gtids: None)


# The last decision stands.


@_mutant(levels=(Level.READ_OWN_WRITES, Level.STRONG), clients=3, seed=84)
def think_a_session_plain_that_was_changed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProxySession, "changed", lambda self: None)
    _let_a_decision_stand_at_any_level(patch)


@_mutant(levels=(Level.READ_OWN_WRITES, Level.STRONG), clients=3, seed=4)
def think_any_session_plain(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(session, "is_plain", lambda state: True)
    _let_a_decision_stand_at_any_level(patch)


def _let_a_decision_stand_at_any_level(patch: pytest.MonkeyPatch) -> None:
    """Otherwise the policy would say that the primary is to be asked."""
    of = CachedDecision.of

    def at_any_level(self: CachedDecision, names: Any, now: float) -> Decision | None:
        self._level = self._session.rules.level
        return of(self, names, now)

    patch.setattr(CachedDecision, "of", at_any_level)


@_mutant(clients=2)
def let_a_decision_stand_whatever_was_written(patch: pytest.MonkeyPatch) -> None:
    of = CachedDecision.of

    def forgetful(self: CachedDecision, names: Any, now: float) -> Decision | None:
        self._own = self._session.own_scope.own
        return of(self, names, now)

    patch.setattr(CachedDecision, "of", forgetful)


@_mutant(errors=6, clients=2)
def let_a_decision_stand_while_writes_are_unknown(patch: pytest.MonkeyPatch) -> None:
    of = CachedDecision.of

    def sure(self: CachedDecision, names: Any, now: float) -> Decision | None:
        scope = self._session.own_scope
        before, scope.unknown = scope.unknown, False
        try:
            return of(self, names, now)
        finally:
            scope.unknown = before

    patch.setattr(CachedDecision, "of", sure)


@_mutant(often=("restart_replica",), clients=2, seed=5841)
def let_a_decision_stand_for_another_incarnation(patch: pytest.MonkeyPatch) -> None:
    stands = Topology.stands

    def any_epoch(
        self: Topology, replica: Server, epoch: int, term: int, now: float, relies: bool
    ) -> bool:
        return stands(self, replica, replica.epoch, term, now, relies)

    patch.setattr(Topology, "stands", any_epoch)


@_mutant(scopes=(Scope.USER, Scope.PROXY), clients=4, seed=3)
def let_a_decision_stand_in_the_scope_of_the_connection(patch: pytest.MonkeyPatch) -> None:
    of = CachedDecision.of

    def alone(self: CachedDecision, names: Any, now: float) -> Decision | None:
        session = self._session
        with pytest.MonkeyPatch.context() as scopes:
            scopes.setattr(session, "reading", lambda rules, term, now: session.own_scope)
            return of(self, names, now)

    patch.setattr(CachedDecision, "of", alone)


@_mutant(levels=(Level.MONOTONIC_READS,), scopes=(Scope.USER, Scope.PROXY), clients=4, seed=292)
def let_a_decision_stand_whatever_was_seen_elsewhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CachedDecision, "_goes_on", lambda self, scope, decision: True)


@_mutant(clients=2)
def take_any_answer_to_a_wait_past_the_machine(patch: pytest.MonkeyPatch) -> None:
    """The WAIT may have ended although GTID_SUBSET says that the set is not there."""
    patch.setattr(Reads, "is_there", lambda self, answer: self._past is not None or answer.has)


@_mutant(clients=2, seed=367)
def send_a_read_past_the_machine_behind_what_is_not_answered_yet(
    patch: pytest.MonkeyPatch,
) -> None:
    """The answers to an older WAIT and its read are then taken for this read's."""
    patch.setattr(ProxySession, "_is_free", lambda self, link: link.epoch == link.server.epoch)


@_mutant(clients=2)
def wait_past_the_machine_for_what_was_required_before(patch: pytest.MonkeyPatch) -> None:
    of = CachedDecision.of

    def late(self: CachedDecision, names: Any, now: float) -> Decision | None:
        decision = of(self, names, now)
        if decision is None or decision.proof is not Proof.WAITED or not self._required:
            return decision
        return Decision(decision.server, decision.reason, decision.proof, self._required)

    patch.setattr(CachedDecision, "of", late)


# Writes to other tables.

_TABLES: Final[dict[str, Any]] = {
    "base": FOLLOWED,
    "seldom": (),
    "replicas": (True, True),
    "views": True,
}
_DEFINED_OFTEN: Final = {**FOLLOWED, "ask_names": 0.5, "direct": 4, "apply": 9}
_WITHOUT_LOOKS: Final = {**FOLLOWED, "look": 0}


@_mutant(**_TABLES, registers=2, seed=472)
def leave_out_what_the_log_does_not_show_yet(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction_tables, "_last_outside", lambda numbers, start, end: start - 1)


@_mutant(**_TABLES)
def leave_out_what_changed_the_tables_of_the_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction_tables, "_last_inside", lambda numbers, start, end: start - 1)


@_mutant(**_TABLES, seed=25)
def take_a_definition_for_a_change_of_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        TransactionTables, "add_opaque", lambda self, gtid: self.add_rows(gtid, frozenset())
    )


@_mutant(**{**_TABLES, "replicas": _DISORDER}, seed=98)
def leave_out_writes_where_commits_are_out_of_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Topology, "follows_in_order", lambda self, server: True)


@_mutant(**_TABLES, seed=15)
def leave_out_writes_where_definitions_are_missing(patch: pytest.MonkeyPatch) -> None:
    still = TransactionTables.still_required

    def without(
        self: TransactionTables, required: GtidSet, applied: GtidSet, tables: Any
    ) -> GtidSet:
        return still(self, required, applied | (self._base - required), tables)

    patch.setattr(TransactionTables, "still_required", without)


@_mutant(**{**_TABLES, "base": _DEFINED_OFTEN}, registers=2, seed=294)
def rely_on_names_that_were_defined_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        TransactionTables,
        "definitions_stand",
        lambda self, executed: self.begun and self.read_through.covers(executed),
    )


@_mutant(**_TABLES, seed=73)
def rely_on_names_whose_definition_the_log_does_not_show_yet(patch: pytest.MonkeyPatch) -> None:
    def counts(self: KnownTables, log: TransactionTables, topology: Topology) -> bool:
        executed = self._executed
        return executed is not None and log.definitions_stand(executed)

    patch.setattr(KnownTables, "_counts", counts)


@_mutant(**_TABLES, seed=29)
def take_what_is_independent_for_known(patch: pytest.MonkeyPatch) -> None:
    decided = CachedDecision.decided

    def known(self: CachedDecision, decision: Decision, requirement: Any) -> None:
        if decision.proof is Proof.INDEPENDENT:
            decision = Decision(
                decision.server, decision.reason, Proof.KNOWN, decision.proof_set, decision.confirm
            )
        decided(self, decision, requirement)

    patch.setattr(CachedDecision, "decided", known)


@_mutant(**{**_TABLES, "base": _WITHOUT_LOOKS, "views": False}, seed=152)
def think_a_wait_for_what_remains_proves_all(patch: pytest.MonkeyPatch) -> None:
    answered = CachedDecision.wait_answered

    def all_of_it(
        self: CachedDecision, decision: Decision, result: Any, requirement: Any, *more: Any
    ) -> None:
        answered(self, decision, result, requirement, *more)
        if result == "reached" and requirement.gtids is not None:
            decision.server.add_proof(requirement.gtids, more[0])

    patch.setattr(CachedDecision, "wait_answered", all_of_it)


@_mutant(**_TABLES, levels=_REMEMBERING, seed=31)
def leave_out_writes_where_what_was_seen_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(policy, "_OWN_WRITES", Level.MONOTONIC_READS)


SuccessionMutant = Callable[["pytest.MonkeyPatch"], None]


# Who the primary is (`tests.model.succession`).


def take_a_restart_for_an_opening(patch: pytest.MonkeyPatch) -> None:
    observed = Server.observe

    def forgetful(self: Server, *args: Any) -> int:
        before = self.read_only, self.opened
        epoch = observed(self, *args)
        self.read_only, self.opened = before
        return epoch

    patch.setattr(Server, "observe", forgetful)


def promote_what_still_replicates(patch: pytest.MonkeyPatch) -> None:
    claims = Election._claims

    def claims_all(self: Election, server: Server) -> bool:
        sources, server.sources = server.sources, frozenset()
        found = claims(self, server)
        server.sources = sources
        return found

    patch.setattr(Election, "_claims", claims_all)


def let_the_primary_take_writes_while_another_does(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Worker, "withholds", lambda self: False)


def start_with_what_is_configured(patch: pytest.MonkeyPatch) -> None:
    """The worker never looks up what other workers have found."""
    keep = Worker.keep

    def keep_alone(self: Worker, now: int) -> None:
        pending = self.pending
        keep(self, now)
        if pending is not None:
            self.term = pending
            self.follow()

    patch.setattr(Worker, "learn", lambda self: None)
    patch.setattr(Worker, "keep", keep_alone)


def let_the_last_one_decide(patch: pytest.MonkeyPatch) -> None:
    def add(self: StateFile, term: PrimaryTerm) -> PrimaryTerm:
        self._used.execute(
            "INSERT OR REPLACE INTO primary_terms VALUES (?, ?, ?, ?)",
            (term.number, term.address, term.server_uuid, term.since_us),
        )
        return term

    patch.setattr(StateFile, "_add", add)


def forget_what_the_old_primary_had(patch: pytest.MonkeyPatch) -> None:
    obstacle = Election._obstacle

    def had_nothing(self: Election, server: Server) -> str:
        self._had = EMPTY
        return obstacle(self, server)

    patch.setattr(Election, "_obstacle", had_nothing)


def follow_an_old_primary_that_came_back(patch: pytest.MonkeyPatch) -> None:
    followed = Election.on_primary

    def unsettled(self: Election, server: Server) -> None:
        followed(self, server)
        self.settled = False

    patch.setattr(Election, "on_primary", unsettled)


OF_SUCCESSION: Final[list[SuccessionMutant]] = [
    take_a_restart_for_an_opening,
    promote_what_still_replicates,
    let_the_primary_take_writes_while_another_does,
    start_with_what_is_configured,
    let_the_last_one_decide,
    forget_what_the_old_primary_had,
    follow_an_old_primary_that_came_back,
]
