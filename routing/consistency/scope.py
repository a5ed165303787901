"""What the sessions of one scope must see, and the table of the scopes that are alive.

Every session has a scope of its own, which ends with it. Wider scopes (a user, an application, the
whole proxy) live in a table, from the first read that asks for one until nobody used it for a
while, or until there are too many. Whatever a session writes or sees is recorded in its own scope
and into those of its wider scopes that are alive. Nothing is lost for a scope that is not alive: it
begins as *unknown*, and its first read asks the primary what it has.

A `Keeper` may keep wider scopes for the next start. It is told that a scope requires more (`ahead`)
before the client is told, and only once until it has kept that (`ScopeState.on_kept`).

Where several workers serve the sessions of one scope, a `Sharer` records what sessions do for the
other workers, and takes over what those have recorded before a scope is read (`sharing`).
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Level, Scope
from routing.consistency.rules import REMEMBERING
from routing.servers.topology import Server

COMPACT_ABOVE: Final = 8
"""Intervals beyond which gaps in a required set are filled with what the primary is known to
have."""

PROBE_ABOVE: Final = 64
"""Intervals beyond which the primary is asked for its set, so that the required one gets short."""

_DOUBTS: Final = 1 << 32
"""More doubts than one scope ever counts."""


_MOST_BYTES: Final = 256 << 20
"""What the sets of a worker's scopes may take, as if they shared nothing."""

_NO_TERM: Final = -1
_SOME_TIME: Final = 1 << 62
"""Later than any look at the primary."""


class KeptScope(NamedTuple):
    """What a restart must not lose of a wider scope.

    Which server showed it something is not in it: at a level that remembers, the first read of a
        restored scope asks the primary.

    Attributes:
        kind, key, own, observed, lost, lost_untold, unknown, used_at: those of the `ScopeState`.
        growth: how often it had come to require more when this was taken.
    """

    kind: Scope
    key: str
    own: GtidSet
    observed: GtidSet
    lost: GtidSet
    lost_untold: bool
    unknown: bool
    used_at: float
    growth: int = 0


class Keeper(Protocol):
    """Keeps wider scopes for the next start."""

    def ahead(self, scope: "ScopeState") -> None:
        """From now on the scope may require more than what is kept of it.

        When this returns, that must be recorded so that it is found after a crash.
        """

    def on_change(self, scope: "ScopeState") -> None:
        """There is something to keep of the scope, sooner or later."""

    def on_drop(self, scope: "ScopeState") -> None:
        """The scope is not alive any more, so what is kept of it may become too small."""

    def on_unlogged_write(self, keys: "tuple[ScopeKey, ...]") -> None:
        """A first write without a GTID was made in these scopes; empty means in any scope."""


class ScopeWriter(Protocol):
    """Records for other workers what a session does."""

    def record_write(self, gtids: GtidSet, primary_applied: GtidSet) -> None:
        """A server acknowledged these transactions."""

    def may_have_written(self) -> None:
        """A command that may write ended, and nothing said what it committed."""

    def record_answer(self) -> None:
        """A server's answer went to a client."""


class Sharer(Protocol):
    """Shares wider scopes with other workers."""

    def writers(self, user: str, application: str) -> "Sequence[ScopeWriter]":
        """The writers that record what a session of this user and application does."""

    def refresh(self, scope: "ScopeState", remembers: bool, now: float) -> None:
        """Let a scope require what other workers have written.

        `remembers`: it is read at a level that does.
        """

    def on_drop(self, scope: "ScopeState") -> None:
        """The scope is not alive any more in this worker."""

    def on_unlogged_write(self, keys: "tuple[ScopeKey, ...]") -> None:
        """A first write without a GTID was made in these scopes; empty means in any scope."""


class ScopeState:
    """What the reads of one scope must be able to see.

    Attributes:
        kind: how wide it is.
        key: whose it is; empty for a connection's own and for the proxy's.
        own: GTIDs that were acknowledged in it.
        observed: sets that servers showed in it, and upper bounds of what was seen.
        unknown: something may have been committed in it whose GTID no packet told.
        unlogged: something was written in it without any GTID (`sql_log_bin=0`): no replica can be
            shown to have it.
        seen_on: the one server that showed what `observed` may not bound; None if none did.
        seen_epoch: that server's epoch then.
        unseen: more than one server did, or it is not known which.
        shown_at: how many looks at the primary had begun (`Observations.looks`) when anything was
            shown last that `observed` may not bound.
        term: the primary's term (`Topology.term`) that the sets belong to.
        changed_at: when something was last acknowledged or seen, monotonic s.
        used_at: when it was last asked for or recorded in, monotonic s.
        lost: acknowledged GTIDs that a later primary does not have.
        lost_untold: no read was told of them yet.
        doubted: counts the calls of `doubt`.
        keeper: keeps it for the next start; None if nobody does.
        memory: the bytes that its sets took at the last `take_growth`, about.
    """

    def __init__(self, kind: Scope, key: str, term: int, *, unknown: bool, doubts: int = 0) -> None:
        """Begin with nothing; doubts are counted from `doubts` on."""
        self.kind = kind
        self.key = key
        self.own: GtidSet = EMPTY
        self.observed: GtidSet = EMPTY
        self.unknown = unknown
        self.unlogged = False
        self.seen_on: Server | None = None
        self.seen_epoch = 0
        self.unseen = unknown
        self.shown_at = _SOME_TIME if unknown else 0
        self.term = term
        self.changed_at = 0.0
        self.used_at = 0.0
        self.lost: GtidSet = EMPTY
        self.lost_untold = False
        self.doubted = doubts
        # The number of the last doubt, of the last about writes, of the last about what was shown.
        self._doubts = self._unnamed = self._shown = doubts
        self._probe_above = PROBE_ABOVE
        self._measured = EMPTY  # of `own`, and how long it was
        self._length = 0
        self.keeper: Keeper | None = None
        self.memory = 0
        self._sized_own = self._sized_observed = EMPTY
        self._growth = 0
        self._is_ahead = False  # the keeper knows that what is kept may be too small
        self._is_changed = False  # the keeper knows that there is something to keep

    def take_growth(self) -> int:
        """By how many bytes its sets have grown since this was asked last."""
        if self.own is self._sized_own and self.observed is self._sized_observed:
            return 0
        self._sized_own, self._sized_observed = self.own, self.observed
        before = self.memory
        self.memory = self.own.memory
        if self.observed is not self.own:
            self.memory += self.observed.memory
        return self.memory - before

    def required(self, level: Level) -> GtidSet:
        """What a read at this level must see, as far as it is known."""
        if level in REMEMBERING:
            return self.everything
        if level is Level.BEST_EFFORT or level is Level.BOUNDED_STALENESS:
            return EMPTY
        return self.own

    @property
    def everything(self) -> GtidSet:
        """Own and observed; what is observed mostly holds what is own."""
        if not self.own <= self.observed:
            self.observed |= self.own
        return self.observed

    def is_known(self, level: Level) -> bool:
        """Whether it is known what a read at this level must see."""
        return not self.unknown and not (self.unseen and level in REMEMBERING)

    def may_grow_long(self, gtids: GtidSet) -> bool:
        """Whether what must be seen is to be shortened when these are added."""
        return self.own.interval_count + gtids.interval_count > COMPACT_ABOVE

    def record_write(self, gtids: GtidSet, primary_applied: GtidSet, now: float = 0.0) -> None:
        """A server acknowledged these transactions.

        `primary_applied` is needed only if its own `may_grow_long` by them.
        """
        own = self.own | gtids
        if own.interval_count > COMPACT_ABOVE:
            own = own.compact(primary_applied)
        self.record_united_write(own, now)

    def record_united_write(self, own: GtidSet, now: float) -> None:
        """The same, where the caller has already united these with its own."""
        if own is not self.own:
            self.own = own
            self._on_growth()
        self.changed_at = self.used_at = now

    def record_executed(self, executed: GtidSet, now: float = 0.0) -> None:
        """A server had this at the end of a statement.

        The statement may have seen a little more (`record_answer`): rows are visible a moment
        before their transaction joins `gtid_executed`.
        """
        if not executed <= self.observed:
            self.observed |= executed
            self.changed_at = self.used_at = now
            self._on_change()

    def set_covered(self, executed: GtidSet) -> None:
        """All that was written in it so far is in this set."""
        if self.unknown:
            self.own |= executed
            self._on_change()
        self.unknown = False

    def may_have_written(self) -> None:
        """A command that may write ended, and nothing said what it committed (fact 2.3)."""
        self.unknown = True
        self._doubts += 1
        self._unnamed = self._doubts
        self._on_growth()

    @property
    def last_write_doubt(self) -> int:
        """The number of the last doubt about writes."""
        return self._unnamed

    def record_answer(self, server: Server, epoch: int) -> None:
        """An answer of this server went to a client: its later states are no older."""
        self._doubts += 1
        self._shown = self._doubts
        self.shown_at = max(self.shown_at, server.observations.looks)
        if self.seen_on is None:
            self.seen_on = server
            self.seen_epoch = epoch
        elif self.seen_on is not server or self.seen_epoch != epoch:
            self.unseen = True

    def record_answers_elsewhere(self) -> None:
        """Answers went to clients of other workers, from some server."""
        self._doubts += 1
        self._shown = self._doubts
        self.unseen = True
        self.shown_at = _SOME_TIME

    def record_loss_elsewhere(self, gtids: GtidSet, *, tell: bool) -> None:
        """Another worker found that the primary lacks these; whether readers are to be told."""
        new = gtids - self.lost
        if new:
            self.own -= new
            self.observed -= new
            self.lost |= new
            self.lost_untold = self.lost_untold or tell
            self._on_change()

    def on_primary_settled(self, primary: Server, epoch: int) -> None:
        """The primary has finished all that it had begun to commit: it shows whatever was seen."""
        self.seen_on = primary
        self.seen_epoch = epoch
        self.unseen = False

    @property
    def is_unbounded(self) -> bool:
        """Whether something was shown that `observed` may not bound."""
        return self.unseen or self.seen_on is not None

    @property
    def doubts(self) -> int:
        """Counts what made it unknown; a probe ends the doubts that were there when it began.

        Doubts about writes and about what was shown are counted separately: in a scope that many
        share, something is shown all the time.
        """
        return self._doubts

    def on_probe(self, executed: GtidSet, doubts: int, owned: GtidSet = EMPTY) -> None:
        """What the primary had and was committing, asked when the count of doubts was `doubts`.

        The two together bound all that anybody had seen on any server.
        """
        before = self.unknown, self.own, self.observed
        if self.unknown:
            self.own |= executed
            self.unknown = self._unnamed > doubts
        else:
            self.own = self.own.compact(executed)
        if self.is_unbounded:
            self.observed = self.observed | executed | owned
            if self._shown <= doubts:
                self._forget_shown()
        else:
            self.observed = self.observed.compact(executed)
        # A set that stays long after a probe has real gaps; asking again would not shorten it.
        self._probe_above = max(PROBE_ABOVE, 2 * self.own.interval_count)
        if before != (self.unknown, self.own, self.observed):
            self._on_change()

    def take_bound(self, gtids: GtidSet) -> None:
        """All that was shown in it is among these, which the primary had or was committing."""
        self.observed = self.observed | gtids
        self._forget_shown()
        self._on_change()

    def _forget_shown(self) -> None:
        """`observed` bounds all that was shown."""
        self.seen_on = None
        self.unseen = False
        self.shown_at = 0

    def doubt(self) -> None:
        """The primary may lack what its reads must see: the next read asks."""
        self.term = _NO_TERM
        self.doubted += 1

    def compare_with_primary(
        self, executed: GtidSet, required: GtidSet, term: int, doubted: int | None = None
    ) -> GtidSet:
        """Compare with what the primary of a new term has; return what is lost.

        Args:
            executed: the primary's `gtid_executed`.
            required: `everything` when the primary was asked; what its sessions wrote later is not
                in doubt.
            term: the primary's.
            doubted: the attribute when the primary was asked, if that may be another by now.
        """
        if doubted is None or doubted == self.doubted:
            self.term = term
        lost = required - executed
        if lost:
            self.own -= lost
            self.observed -= lost
            self.lost |= lost
            self.lost_untold = True
            self._on_change()
        return lost

    def on_loss_reported(self) -> None:
        """A reader was told of `lost`, or is not to be told."""
        self.lost_untold = False
        self._on_change()

    @property
    def is_long(self) -> bool:
        """Whether the primary should be asked, so that the required set gets short."""
        if self.own is not self._measured:
            self._measured = self.own
            self._length = self.own.interval_count
        return self._length > self._probe_above

    # For the next start

    def begin_keeping(self, keeper: Keeper | None) -> None:
        """From now on `keeper` keeps it, or nobody; so far it has kept nothing."""
        self.keeper = keeper
        self._is_ahead = self._is_changed = False
        if keeper is not None:
            self._on_growth()

    def to_keep(self) -> KeptScope:
        """What there is to keep; the keeper is told of later changes."""
        self._is_changed = False
        return KeptScope(
            self.kind,
            self.key,
            self.own,
            self.observed,
            self.lost,
            self.lost_untold,
            self.unknown,
            self.used_at,
            self._growth,
        )

    def on_kept(self, kept: KeptScope) -> bool:
        """This was kept.

        Returns whether nothing more is required by now; if so, `ahead` is told of the next growth.
        """
        if kept.growth != self._growth:
            return False
        self._is_ahead = False
        return True

    def on_keep_failed(self) -> None:
        """Keeping it has failed."""
        self._on_change()

    def _on_growth(self) -> None:
        """More is required than before."""
        self._growth += 1
        keeper = self.keeper
        if keeper is not None and not self._is_ahead:
            self._is_ahead = True
            keeper.ahead(self)
        self._on_change()

    def _on_change(self) -> None:
        keeper = self.keeper
        if keeper is not None and not self._is_changed:
            self._is_changed = True
            keeper.on_change(self)

    @classmethod
    def from_kept(cls, kept: KeptScope, keeper: Keeper, doubts: int) -> "ScopeState":
        """A scope that was kept, before a primary was asked whether it has all that."""
        state = cls(kept.kind, kept.key, _NO_TERM, unknown=kept.unknown, doubts=doubts)
        state.unseen = True
        state.shown_at = _SOME_TIME
        state.own, state.observed = kept.own, kept.observed
        state.lost, state.lost_untold = kept.lost, kept.lost_untold
        state.used_at = kept.used_at
        state.keeper = keeper
        if kept.unknown:
            state._on_growth()  # it is unknown, which may not have been kept
        return state


ScopeKey = tuple[Scope, str]

# Members of enums, looked up once.
_USER: Final = Scope.USER
_APPLICATION: Final = Scope.APPLICATION
_OF_PROXY: Final = (Scope.PROXY, "")


class Scopes:
    """The wider scopes that are alive: least recently used first.

    They are bounded by number, age and bytes: a scope of a primary with many gaps takes a megabyte.

    Attributes:
        age: how long each is alive since its last use, s.
        in_use: some are alive in this worker, or may be in another.
        evicted: how many were dropped, for their age or for want of room.
    """

    def __init__(self, limit: int = 10_000, age: float = 3600.0) -> None:
        """At most `limit` scopes, each for `age` seconds since its last use."""
        self._limit = limit
        self.age = age
        self._states: OrderedDict[ScopeKey, ScopeState] = OrderedDict()
        self._newest: ScopeState | None = None  # the last of them: most reads are in one scope
        # Those of each user's statements that name no application, while none begins or ends
        self._alive: dict[str, list[ScopeState]] = {}
        self._memory = 0
        self._begun = 0
        self._unlogged: set[ScopeKey] = set()
        self._unlogged_unknown = False  # there may be some in any scope
        self._keeper: Keeper | None = None
        self._sharer: Sharer | None = None
        self._was_unlogged: Callable[[ScopeKey], bool] = _never
        self.in_use = False
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._states)

    def states(self) -> list[ScopeState]:
        """Those that are alive."""
        return list(self._states.values())

    def share(self, sharer: Sharer | None) -> None:
        """From now on `sharer` shares all scopes with other workers, or nobody does."""
        self._sharer = sharer
        self.in_use = sharer is not None or bool(self._states)

    def get(
        self, kind: Scope, key: str, term: int, now: float, remembers: bool = False
    ) -> ScopeState:
        """The scope, which begins as unknown if it is not alive.

        `remembers`: it is read at a level that does.
        """
        state = self._newest
        if state is None or state.kind is not kind or state.key != key:
            state = self._states.get((kind, key))
        if state is None or now - state.used_at > self.age:
            if state is not None:
                self._drop(state)
            # A probe that began for this scope's predecessor does not cover what was missed since.
            self._begun += 1
            doubts = self._begun * _DOUBTS
            state = ScopeState(kind, key, term, unknown=True, doubts=doubts)
            state.unlogged = self._is_unlogged((kind, key))
            self._states[kind, key] = state
            self._alive.clear()
            self.in_use = True
            state.used_at = now
            if self._keeper is not None:
                state.begin_keeping(self._keeper)
            self._make_room(now)
        state.used_at = now
        if state is not self._newest:
            self._states.move_to_end((kind, key))
            self._newest = state
        if self._sharer is not None:
            self._sharer.refresh(state, remembers, now)
        grown = state.take_growth()
        if grown:
            self._memory += grown
            if self._memory > _MOST_BYTES:
                self._make_room(now)
        return state

    def alive(self, user: str, application: str) -> list[ScopeState]:
        """Those of a statement's wider scopes that somebody reads in; not to be changed."""
        found = None if application else self._alive.get(user)
        if found is None:
            states = (self._states.get(key) for key in keys_of(user, application))
            found = [state for state in states if state is not None]
            if not application:  # else clients could name any number of them
                self._alive[user] = found
        return found

    def writers_elsewhere(self, user: str, application: str) -> Sequence[ScopeWriter]:
        """The writers that record what a session does for other workers."""
        sharer = self._sharer
        return () if sharer is None else sharer.writers(user, application)

    def record_unlogged_write(self, user: str, application: str) -> None:
        """Something without a GTID was written in all these scopes, alive or not.

        It is never forgotten: no replica will ever have it.
        """
        self._add_unlogged(keys_of(user, application))
        for state in self.alive(user, application):
            state.unlogged = True

    def doubt_logging(self) -> None:
        """What is unknown in scopes that are alive may have no GTID (`record_unlogged_write`)."""
        unknown = [state for state in self._states.values() if state.unknown]
        for state in unknown:
            state.unlogged = True
        if unknown:
            self._add_unlogged(tuple([(state.kind, state.key) for state in unknown]))

    def _add_unlogged(self, keys: tuple[ScopeKey, ...]) -> None:
        if self._unlogged_unknown:
            return
        new = tuple([key for key in keys if key not in self._unlogged])
        if not new:
            return
        if len(self._unlogged) + len(new) > self._limit:
            self.all_unlogged()
            new = ()
        else:
            self._unlogged.update(new)
        if self._keeper is not None:
            self._keeper.on_unlogged_write(new)
        if self._sharer is not None:
            self._sharer.on_unlogged_write(new)

    def _is_unlogged(self, key: ScopeKey) -> bool:
        return self._unlogged_unknown or key in self._unlogged or self._was_unlogged(key)

    def all_unlogged(self) -> None:
        """Something without a GTID may have been written in any scope."""
        self._unlogged_unknown = True
        self._unlogged.clear()
        for state in self._states.values():
            state.unlogged = True

    # For the next start

    @property
    def unlogged_keys(self) -> frozenset[ScopeKey] | None:
        """Scopes in which something without a GTID was written; None for all of them."""
        return None if self._unlogged_unknown else frozenset(self._unlogged)

    def restore(self, kept: Iterable[KeptScope], keeper: Keeper, now: float) -> None:
        """Begin with what `keeper` has kept so far; it goes on to keep the scopes.

        Args:
            kept: scopes, with `used_at` on the clock of today.
            keeper: whoever kept them.
            now: monotonic, s.
        """
        self._keeper = keeper
        for stored in sorted(kept, key=_used_at):
            self._begun += 1
            state = ScopeState.from_kept(stored, keeper, self._begun * _DOUBTS)
            state.unlogged = self._is_unlogged((stored.kind, stored.key))
            self._states[stored.kind, stored.key] = state
            self._memory += state.take_growth()
        self._newest = None
        self._alive.clear()
        self.in_use = self.in_use or bool(self._states)
        self._make_room(now)

    def remember_unlogged(self, was_unlogged: Callable[[ScopeKey], bool]) -> None:
        """Take a function that says whether an earlier run wrote without a GTID in a scope."""
        self._was_unlogged = was_unlogged

    def restore_unlogged(self, keys: Iterable[ScopeKey]) -> None:
        """Something without a GTID was written in these before the start."""
        self._add_unlogged(tuple(keys))
        for key in self._unlogged:
            if key in self._states:
                self._states[key].unlogged = True

    def begin_keeping(self, keeper: Keeper | None) -> None:
        """From now on `keeper` keeps all scopes that are alive, or nobody does."""
        self._keeper = keeper
        for state in self._states.values():
            state.begin_keeping(keeper)

    def _drop(self, state: ScopeState) -> None:
        del self._states[state.kind, state.key]
        if state is self._newest:
            self._newest = None
        self._alive.clear()
        self.in_use = bool(self._states) or self._sharer is not None
        self.evicted += 1
        self._memory -= state.memory
        state.keeper = None
        if self._keeper is not None:
            self._keeper.on_drop(state)
        if self._sharer is not None:
            self._sharer.on_drop(state)

    def _make_room(self, now: float) -> None:
        states = self._states
        while states:
            oldest = next(iter(states.values()))
            few = len(states) <= self._limit and now - oldest.used_at <= self.age
            if few and (self._memory <= _MOST_BYTES or len(states) == 1):
                return
            self._drop(oldest)


def _never(_: ScopeKey) -> bool:
    return False


def _used_at(kept: KeptScope) -> float:
    return kept.used_at


def keys_of(user: str, application: str) -> tuple[ScopeKey, ...]:
    """The keys of a statement's wider scopes."""
    # All sessions that name no application share one scope.
    return _OF_PROXY, (_USER, user), (_APPLICATION, application)
