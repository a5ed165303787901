"""Servers as routing sees them: role, health, incarnation, and what they proved to have applied."""

from collections.abc import Iterable
from math import inf
from typing import Final, NamedTuple, Protocol

from protocol.gtid import EMPTY, GtidSet, united
from routing.servers.answer_times import AnswerTimes
from routing.servers.apply_delay import ApplyDelay
from routing.servers.channels import Channels
from routing.servers.clock import Clock
from routing.servers.filters import Filters
from routing.servers.host_addresses import HostAddresses
from routing.servers.lag import Lag
from routing.servers.lateness import LATE_S, Lateness
from routing.servers.missing_gtids import MissingGtids
from routing.servers.observations import Observations, Staleness
from routing.servers.placement import Placement
from routing.servers.primary_share import PrimaryShare
from routing.servers.rate_limit import RateLimit
from routing.servers.refusals import Refusals
from routing.servers.transaction_tables import TransactionTables
from routing.stable_enum import StableStrEnum

_PENDING_LIMIT: Final = 64
RESTART_SLACK_S: Final = 1.0
_BACKOFF_FIRST_S: Final = 0.25
_BACKOFF_LAST_S: Final = 4.0
_RETRY_S: Final = 0.1
"""Between two attempts to reach a server whose host refuses connections."""
_PAUSE_FIRST_S: Final = 0.1
_PAUSE_LAST_S: Final = 4.0
_PAUSE_SHARE: Final = 1 / 8
"""Of the time for which a replica lacks something: what is long missing is asked for seldom."""

_EPOCHS: Final = 1 << 32
_FALLBACK_RATE: Final = 2000.0
TABLES_LIMIT: Final = 16 << 20
"""Bytes for the tables of recent transactions: about 100,000 transactions of two tables each."""


class Role(StableStrEnum):
    """What a server is in the topology."""

    PRIMARY = "primary"
    REPLICA = "replica"


class ProbeResult(StableStrEnum):
    """How the monitor's last look at a server ended."""

    UNKNOWN = "unknown"
    """There was none."""
    ANSWERED = "answered"
    REFUSED = "refused"
    """It is there, and does not let the monitor look."""
    GONE = "gone"


class ApplyListener(Protocol):
    """Takes down what servers say of themselves."""

    def on_identity(
        self, server: "Server", executed: GtidSet, asked_us: int, answered_us: int
    ) -> None:
        """It has more than was known, or began anew; nothing has relied on that yet.

        Times are UTC µs.
        """


class TablesReader(Protocol):
    """Takes what another worker says of the primary's log."""

    def refresh(self) -> None:
        """Enter what is new into the topology's `transaction_tables`."""

    def tell_late(self, at: float) -> None:
        """Say that a replica was late, monotonic s."""


class Server:
    """One MySQL server.

    An applied set belongs to one incarnation of a server, named by `server_uuid` and its start. A
    connection remembers the `epoch` in which it was opened; a proof counts only for connections of
    the present epoch.

    Attributes:
        name: ``host:port``; what metrics, log and messages call it.
        role: primary or replica.
        lagging: it is further behind than a replica may be that is read (max-lag).
        draining: an operator has taken it out of use as a replica (TIDEGATE DRAIN SERVER): it gets
            no read, whatever the reason. It is watched, and may become the primary.
        member_state: its MEMBER_STATE in a group, such as ONLINE; empty outside a group.
        shunned_until: until when it gets no read unless there is a reason: it is down, or lagging.
        addresses: what its host name leads to.
        uuid: `@@server_uuid`; empty until it was first reached.
        address: the one where it was asked for that.
        epoch: counts incarnations seen.
        started_epoch: the one in which it was last seen to have started since it was asked before:
            connections of earlier ones are broken, whether that was noticed or not. (A start that
            has only moved is no proof: it is told by two clocks, and clocks are set.)
        version: `@@version` as its handshake gave it; empty until then.
        refuses: its host refuses connections, as the last attempt to connect has shown.
        packets_received: how many times it has sent something, on whatever connection.
        takes_short: it may take no packets but short ones, as its last login showed.
        max_packet: the max_allowed_packet of the newest session there, bytes; 0 before the first.
        gtids: `@@GLOBAL.gtid_mode` is ON (or was not asked yet).
        behind_since: when the first of what it is known to lack was acknowledged, monotonic s; inf
            since it was last seen to have more.
        behind_until: until when (monotonic s) a wait is not worth trying; see `timed_out`.
        ordered: it commits in the order of its source, so it shows only states that the source had.
        confirmed_at: all that it has proved it had at this moment (monotonic s), or at a later one.
        proof_max_age: how long that counts without being asked for again, s.
        read_only: `@@GLOBAL.read_only`, as the monitor saw it last; None before.
        opened: it was read only, and then no more, and was not started in between.
        probe_result: how the monitor's last look ended.
        seen_at: when that look began, monotonic s.
        sources: UUIDs of those that it is configured to replicate from, running or not ("" where it
            was never connected); None if that was not asked or may not be seen.
        lag: how far it is behind the primary, s, as the monitor measured it; None if unknown.
        staleness: how old its state was when the primary was last seen, by that look; likewise.
        gap: transactions of the primary that it lacks although it has newer ones; likewise.
        replication: how far it is behind each source, by commit timestamps.
        channels: what brings it transactions; None if that is not known.
        clock: what its clock was ahead of the proxy's at the monitor's last look; None if unknown.
        lost_running: its present epoch began since it lost GTIDs while it ran.
        errant: transactions that it has and the primary has not.
        diverged_gtids: those of them with names that the primary itself gives: it lost them, and
            may give, or have given, the names again. What this server has under them is not what
            the primary has. It is so for as long as the server has any of them.
        regained: those of `diverged_gtids` that it has although it lost GTIDs while it ran (RESET
            BINARY LOGS AND GTIDS, which takes all of them): its `gtid_purged` says how
            (`judge_regained`).
        binary_log: the number of the newest file of its binary log, as it was seen last since its
            `diverged_gtids` were found; 0 if unknown.
        divergences: how often they were found, or found anew: what it said before proves nothing.
        diverged_before: what had `diverged_gtids` before the start, by `server_uuid`: of servers
            that were not met since.
        filters: what replication leaves out there.
        compared: the primary was asked what it has of this server's transactions.
        left: it is not to be sent statements any more (`Topology.remove_replica`).
        last_epoch: the one in which it was taken out of use although nothing is wrong with it:
            transactions that have their snapshot there end there. -1 if it was not.
        observations: its topology's.
        apply_listener: is told when it says that it has more, or began anew; None if nobody is.
        answer_times: how soon it answers, as reads at ``wait-budget = auto`` have met.
        apply_delay: how soon it has a write, as WAITs and the monitor have met.
        lateness: whether it has been late for a while.
        missing_gtids: what WAITs ran out for, again and again.
        tier: those of a lower number are asked first (`Placement`).
    """

    def __init__(self, name: str, role: Role) -> None:
        self.name = name
        self.tier = 0
        self.role = role
        self.addresses = HostAddresses(name.rpartition(":")[0].strip("[]"))
        self.lagging = False
        self.draining = False
        self.member_state = ""
        self.shunned_until = 0.0
        self._down_until = 0.0
        self.uuid = ""
        self.address = ""
        self.epoch = 0
        self.started_epoch = 0
        self.version = ""
        self.refuses = False
        self._tried_at = -inf
        self.packets_received = 0
        self._silent_until = 0.0
        self._silent_at = -1  # `packets_received` when it was found to be silent
        self.max_packet = 0
        self.takes_short = False
        self.gtids = True
        self.behind_since = inf
        self.behind_until = 0.0
        self.ordered = True
        self.confirmed_at = 0.0
        self.proof_max_age = inf
        self.read_only: bool | None = None
        self.opened = False
        self.probe_result = ProbeResult.UNKNOWN
        self.seen_at = 0.0
        self.sources: frozenset[str] | None = None
        self.lag: float | None = None
        self.staleness: Staleness | None = None
        self.gap: int | None = None
        self.replication = Lag()
        self.channels: Channels | None = None
        self.clock: Clock | None = None
        self.errant: GtidSet = EMPTY
        self.diverged_gtids: GtidSet = EMPTY
        self.regained: GtidSet = EMPTY
        self.lost_running = False
        self.binary_log = 0
        self.divergences = 0
        self.diverged_before: dict[str, GtidSet] = {}
        self.filters = Filters()
        self.compared = False
        self.left = False
        self.last_epoch = -1
        self.apply_listener: ApplyListener | None = None
        self.observations = Observations()
        self.answer_times: Final = AnswerTimes()
        self.apply_delay: Final = ApplyDelay()
        self.lateness: Final = Lateness()
        self.missing_gtids: Final = MissingGtids()
        self._down_backoff = _BACKOFF_FIRST_S
        self._started = (0.0, 0.0)
        self._unordered_at = 0.0
        self._question_at = 0.0
        self._asked_at = 0.0
        self._applied = EMPTY
        self._mistaken = EMPTY  # what it was last taken to have, and has not
        self._pending: list[GtidSet] = []

    def __repr__(self) -> str:
        """Where it stands; what is limited in time is given as until when, monotonic s."""
        words = [self.role.value, f"epoch {self.epoch}"]
        words += [f"down until {self.down_until:g}"] if self.down_until else []
        words += [f"behind until {self.behind_until:g}"] if self.behind_until else []
        words += ["lagging"] if self.lagging else []
        words += ["draining"] if self.draining else []
        words += [] if self.ordered else ["commits out of order"]
        words += [] if self.gtids else ["without GTIDs"]
        words += ["diverged"] if self.has_diverged else []
        words += ["left"] if self.left else []
        return f"<Server {self.name}: {', '.join(words)}>"

    @property
    def down_until(self) -> float:
        """Until when (monotonic s) it is not asked: it could not be reached, or is drained."""
        return inf if self.draining else self._down_until

    @down_until.setter
    def down_until(self, until: float) -> None:
        self._down_until = until
        self.shunned_until = inf if self.lagging or self.draining else until

    def set_lagging(self, lagging: bool) -> None:
        """Take whether it is further behind than a replica may be that is read."""
        self.lagging = lagging
        self.down_until = self._down_until

    def set_draining(self, draining: bool) -> None:
        """Take whether it is to get no reads; the primary always does."""
        self.draining = draining and self.role is not Role.PRIMARY
        self.down_until = self._down_until

    def is_unreachable(self, now: float) -> bool:
        """Whether it could not be reached lately, drained or not."""
        return now < self._down_until

    @property
    def started(self) -> tuple[float, float]:
        """Between when and when this incarnation started, s since the epoch."""
        return self._started

    @property
    def has_diverged(self) -> bool:
        """Whether it has something else than the primary under a name."""
        return bool(self.diverged_gtids)

    @property
    def applied(self) -> GtidSet:
        """What this incarnation has proved to have committed, visible to new reads."""
        pending = self._pending
        if pending:
            self._applied |= pending[0] if len(pending) == 1 else united(pending)
            pending.clear()
        return self._applied

    def add_proof(self, gtids: GtidSet, epoch: int, asked_at: float = inf) -> bool:
        """Add what a connection of `epoch` proved: a WAIT that ended well, or a tracker.

        Args:
            gtids: the set.
            epoch: the connection's.
            asked_at: when the question was sent, monotonic s. What was sent before the last
                question for all that is proved (`asks`) is left out: the answer to that one does
                not speak of it.

        Returns:
            Whether it was added.
        """
        if epoch != self.epoch or asked_at < self._question_at:
            return False
        if gtids is not self._applied:
            self._pending.append(gtids)
        if len(self._pending) >= _PENDING_LIMIT:
            _ = self.applied  # bounds what is pending
        self.caught_up()
        return True

    @property
    def gtids_trustworthy(self) -> bool:
        """Whether the GTIDs that it has tell what it has."""
        diverged_gtids = self.diverged_gtids is not EMPTY and bool(self.diverged_gtids)
        return (
            self.gtids
            and not diverged_gtids
            and not (self.filters.lacking and self.filters.is_refused)
        )

    def set_read_only(self, read_only: bool) -> None:
        """Take its `read_only`."""
        if read_only:
            self.opened = False
        elif self.read_only:
            self.opened = True
        self.read_only = read_only

    @property
    def takes_writes(self) -> bool:
        """Whether it did when the monitor looked last."""
        return self.probe_result is ProbeResult.ANSWERED and self.read_only is False

    def is_doubtful(self, now: float) -> bool:
        """Whether what it has proved was proved too long ago; `now` is monotonic, s."""
        return now - self.confirmed_at >= self.proof_max_age

    def asks(self, now: float) -> None:
        """It is asked whether it still has `applied`, and commits in order (`add_confirmation`)."""
        self._question_at = max(self._question_at, now)

    def add_confirmation(self, epoch: int, asked_at: float) -> None:
        """A connection of `epoch` said yes to a question of that moment (`asks`), monotonic s."""
        if epoch == self.epoch:
            self.confirmed_at = max(self.confirmed_at, asked_at)

    def distrust(self, epoch: int) -> None:
        """A connection of `epoch` said that it lacks what it was taken to have.

        It may be another incarnation by now, whose connections stayed: nothing is known of it.
        """
        if epoch == self.epoch:
            self._mistaken = self.applied
            self._begin(EMPTY, 0.0)

    def leave(self) -> None:
        """It is not used any more: what connections there prove, or were to be asked, is void."""
        self.left = True
        self.compared = False
        self._mistaken |= self.applied  # if it comes back without some of it, that was lost
        self._begin(EMPTY, 0.0)

    def keeps_order(self, ordered: bool, asked_at: float, answered_at: float) -> None:
        """Take whether it commits in the order of its source; times are monotonic s.

        Connections differ in how fast they are: what was asked before a no may be an older yes.
        """
        if not ordered:
            self.ordered = False
            self._unordered_at = answered_at
        elif asked_at >= self._unordered_at:
            self.ordered = True

    def _begin(self, applied: GtidSet, asked_at: float) -> None:
        """Another incarnation, of which only this is known, by a question of that moment."""
        self.epoch += 1
        self.lost_running = False
        self.confirmed_at = asked_at
        self._question_at = max(self._question_at, asked_at)
        self._applied = applied
        self._pending.clear()
        self.caught_up()

    def observe(
        self,
        uuid: str,
        started: tuple[float, float],
        executed: GtidSet,
        applied_before: GtidSet,
        asked_at: float = 0.0,
        epoch_before: int | None = None,
        sent_at: float = 0.0,
    ) -> int:
        """Take `@@GLOBAL.gtid_executed` as one connection read it; return the epoch it belongs to.

        A new incarnation is told by its uuid, by its start, or by GTIDs that are gone (RESET BINARY
        LOGS AND GTIDS, a crash that lost transactions, a data directory that was replaced).

        Args:
            uuid: `@@server_uuid`.
            started: between when and when the server started, s since the epoch: its Uptime is
                whole seconds, and its answer took time.
            executed: the set that was read.
            applied_before: `applied` when the question was sent; what other connections proved
                meanwhile may be missing from the answer.
            asked_at: when the question was sent, s since the epoch.
            epoch_before: `epoch` at that moment, if that may have changed.
            sent_at: that moment, monotonic s.
        """
        self.packets_received += 1
        restarted = (
            uuid != self.uuid
            or started[0] - self._started[1] > RESTART_SLACK_S
            or self._started[0] - started[1] > RESTART_SLACK_S
        )
        replica = self.role is Role.REPLICA
        if replica and epoch_before is not None and epoch_before != self.epoch:
            # A new incarnation was noticed meanwhile, and this may be the word of the old one. A
            # connection to the same process is as good as any, from now on.
            return epoch_before if restarted else self.epoch
        lost_gtids = not executed.covers(applied_before)
        had = applied_before | self._mistaken
        self._mistaken = EMPTY
        lost = not executed.covers(had)
        if lost:
            # A crash takes its last transactions, and leaves what it has under other names.
            self.diverged_gtids &= executed
            self.regained = EMPTY if restarted else self.diverged_gtids
            if not had & executed:
                self.filters.on_rebuilt()
        if restarted or lost_gtids:
            self._begin(executed, sent_at)
            if restarted:
                self.binary_log = 0
                self.opened = False  # it was its configuration that opened it
                self.read_only = None
            if restarted and (uuid != self.uuid or started[0] > self._asked_at):
                self.started_epoch = self.epoch
            if uuid != self.uuid:
                self.diverged_gtids = self.diverged_before.pop(uuid, EMPTY) & executed
                self.regained = EMPTY
                self.filters.on_rebuilt()
            self.uuid = uuid
        elif not executed <= self.applied and sent_at >= self._question_at:
            self._applied = self.applied | executed
            self.caught_up()
        if lost:
            self.lost_running = not restarted
        self._started = started
        self._asked_at = asked_at
        return self.epoch

    @property
    def may_have_kept(self) -> GtidSet:
        """What it has proved in this epoch, and what it had before that and may have still."""
        return self.applied | self._mistaken

    def add_diverged(self, gtids: GtidSet, binary_log: int | None) -> None:
        """It has transactions of its own under names that the primary gives.

        Args:
            gtids: these names.
            binary_log: as of `Held`. An older one does not tell of a reset since.
        """
        if binary_log is not None or not gtids <= self.diverged_gtids:
            self.diverged_gtids |= gtids
            self.binary_log = binary_log or 0
            self.divergences += 1

    def judge_regained(self, executed: GtidSet, purged: GtidSet) -> None:
        """Judge what it has regained, by `gtid_executed` and `gtid_purged`, read in this order.

        What is purged may have come with older data (SET GLOBAL gtid_purged). All else was written
        to its binary log since it was reset, so it was replicated, from what the primary is now.
        """
        if self.regained <= executed:
            self.diverged_gtids -= self.regained - purged
        self.regained = EMPTY

    def take_binary_log(self, number: int, divergences: int) -> None:
        """Take the number of its newest binary log file, over a connection that was kept.

        It falls only by RESET BINARY LOGS AND GTIDS, which takes all GTIDs: what it has by now it
        was given since it was found to have diverged, be it that nobody has seen it without.

        Args:
            number: the number.
            divergences: `divergences` when it was asked for.
        """
        if divergences != self.divergences:
            return
        if number < self.binary_log:
            self.regained = self.diverged_gtids
        self.binary_log = number

    def predicted_wait(self, changed_at: float, now: float) -> float:
        """How long a WAIT for what was acknowledged at `changed_at` would probably take, s.

        By what was met lately (`routing.servers.apply_delay`).
        """
        return max(0.0, changed_at + self.apply_delay.expected(now) - now)

    def expected_wait(self, changed_at: float, now: float) -> float:
        """As `predicted_wait`, but by `answer_times`, which tell waits of less than 2 ms, too."""
        remaining = self.answer_times.remaining(changed_at, now)
        return self.predicted_wait(changed_at, now) if remaining is None else remaining

    def will_have(self, changed_at: float, now: float, budget: float) -> bool:
        """Whether a WAIT of that length, s, for what was acknowledged then is hardly in vain.

        None is where one ran out and nothing has been applied since, nor where that takes longer by
        what is known.
        """
        delay = self.apply_delay
        if self.behind_since < inf and delay.is_known(now):
            return False
        return changed_at + delay.at_most(now) - now < budget

    def may_have(self, changed_at: float, now: float) -> bool:
        """Whether what was acknowledged then, monotonic s, may have been applied by now."""
        return changed_at + self.apply_delay.at_least(now) <= now

    def applied_after(self, delay: float, waited: float, now: float) -> None:
        """A WAIT ended well, so long after the acknowledgement of what it waited for, s."""
        self.apply_delay.applied(delay, waited, now)
        if waited >= LATE_S:
            self.lateness.on_late(now, waited)
        elif delay < LATE_S:
            self.lateness.on_prompt()

    def timed_out(self, now: float, delay: float = 0.0, waited: float = 0.0) -> None:
        """A WAIT ran out: no read need try for a while, and longer the longer that goes on.

        Args:
            now: monotonic, s.
            delay: how long ago what it waited for was acknowledged, s.
            waited: how long it waited, s.
        """
        self.apply_delay.missing(delay, now)
        self.lateness.on_late(now, waited)
        self.behind_since = min(self.behind_since, now - delay)
        pause = (now - self.behind_since) * _PAUSE_SHARE
        self.behind_until = now + min(max(pause, _PAUSE_FIRST_S), _PAUSE_LAST_S)

    def caught_up(self) -> None:
        """There was progress: waits are worth trying again."""
        self.behind_since = inf
        self.behind_until = 0.0

    def set_unreachable(self, now: float) -> None:
        """It could not be reached: others need not try for a while, and longer each time."""
        self.down_until = now + self._down_backoff
        self._down_backoff = min(self._down_backoff * 2, _BACKOFF_LAST_S)

    def set_silent(self, until: float) -> None:
        """It says nothing: nobody is to try before `until`, monotonic s, unless it is reached."""
        self.down_until = max(self._down_until, until)
        self.add_silence(until)

    def add_silence(self, until: float) -> None:
        """It did not answer; nobody need wait for it before `until`, unless it sends something."""
        self._silent_until = until
        self._silent_at = self.packets_received

    def is_silent(self, now: float) -> bool:
        """Whether it is known not to answer: it has sent nothing since that was found."""
        return now < self._silent_until and self.packets_received == self._silent_at

    def is_gone(self, now: float) -> bool:
        """Whether it is known not to be there: it could not be reached lately, or is silent."""
        return now < self.down_until or self.is_silent(now)

    def may_be_tried(self, now: float) -> bool:
        """Whether to try to reach it although it may be gone: now and then, if that ends at once.

        So it is found again soon after it is back. Who tries says so (`on_try`).
        """
        if not self.is_gone(now):
            return True
        return self.refuses and now - self._tried_at >= _RETRY_S

    def on_try(self, now: float) -> None:
        """Somebody tries to reach it."""
        self._tried_at = now

    def begin_attempt(self, until: float) -> None:
        """Somebody tries to reach it again after a failure: one attempt at a time is enough."""
        if self._down_until:
            self.down_until = max(self._down_until, until)

    def on_moved(self, now: float) -> None:
        """Its name leads elsewhere (`HostAddresses`): what is there is not known; monotonic s.

        Sessions cannot leave a primary for what may be the same server: who asks it finds out.
        """
        self.set_reachable()
        self.compared = False
        if self.role is Role.REPLICA:
            self._mistaken = self.applied
            self._begin(EMPTY, now)

    def set_reachable(self) -> None:
        """A connection was opened."""
        self.down_until = self._silent_until = 0.0
        self._down_backoff = _BACKOFF_FIRST_S


class Held(NamedTuple):
    """What a replica had.

    Attributes:
        replica: the server.
        uuid: its `server_uuid` then.
        gtids: what it had, or was about to have.
        epoch: its `Server.epoch` then.
        binary_log: the number of the newest file of its binary log, asked after that, and after the
            primary may have lost something; 0 if unknown. None: it has lost nothing since.
    """

    replica: Server
    uuid: str
    gtids: GtidSet
    epoch: int
    binary_log: int | None = None


class Topology:
    """One primary and its replicas.

    Attributes:
        primary: takes the writes.
        replicas: those that reads may go to. The list is replaced, never changed.
        standby: servers that are watched, and are sent no statement of a client's: they have just
            come, or are not fit to be used.
        observations: what the primary had at moments of the past.
        refusals: statements that replicas refuse.
        transaction_tables: what the primary's binary log says of its transactions, if it is read.
        tables_reader: enters there what another worker has read; None if this one reads.
        placement: which servers reads ask first; None if all replicas are as good (`place`).
        for_primary: reasons of reads that only the primary answers.
        reads_lagging: replicas that are lagging are read where no other is left.
        primary_rate_limit: lets so many reads per second leave late replicas for the primary.
        primary_share: the primary's part of the reads that could wait (``wait-budget = auto``).
        rivals: servers of which each may be the primary; empty while it is clear who is. None of
            them gets a write.
        withheld: why no write is sent to the primary now; empty if they are.
        lacks_quorum: the primary does not speak for its group: others may commit without it.
        group: the name of the group that the servers are members of: the UUID of their GTIDs. Empty
            if they are in none.
    """

    def __init__(
        self,
        primary: str,
        replicas: list[str],
        fallback_rate: float = _FALLBACK_RATE,
        proof_max_age: float = inf,
        *,
        allows_filters: bool = False,
        reads_lagging: bool = False,
        for_primary: frozenset[StableStrEnum] = frozenset(),
    ) -> None:
        """Names are ``host:port``.

        Args:
            primary: takes the writes.
            replicas: all others.
            fallback_rate: that of `primary_rate_limit`.
            proof_max_age: each server's.
            allows_filters: reads may go where filters leave something out.
            reads_lagging: `reads_lagging`.
            for_primary: `for_primary`.
        """
        self.primary = Server(primary, Role.PRIMARY)
        self.replicas = [Server(name, Role.REPLICA) for name in replicas]
        self.standby: list[Server] = []
        self.observations = Observations()
        self.primary_rate_limit = RateLimit(fallback_rate)
        self.primary_share: Final = PrimaryShare()
        self.refusals = Refusals()
        self.transaction_tables = TransactionTables(TABLES_LIMIT)
        self.tables_reader: TablesReader | None = None
        self.rivals: list[Server] = []
        self.withheld = ""
        self.lacks_quorum = False
        self.group = ""
        self.for_primary = for_primary
        self.reads_lagging = reads_lagging
        self._proof_max_age = proof_max_age
        self._allows_filters = allows_filters
        self._diverged_before: dict[str, GtidSet] = {}
        for server in self.servers:
            self._prepare(server)
        self.placement: Placement[Server] | None = None
        self._before_term = 0  # what the promotions so far count in `term`

    def configure(
        self,
        proof_max_age: float,
        *,
        allows_filters: bool,
        reads_lagging: bool,
        for_primary: frozenset[StableStrEnum],
    ) -> None:
        """Go on with other values of what it was made with."""
        self.for_primary = for_primary
        self.reads_lagging = reads_lagging
        self._proof_max_age = proof_max_age
        self._allows_filters = allows_filters
        for server in self.watched:
            self._prepare(server)

    def place(self, placement: Placement[Server] | None) -> None:
        """Let reads prefer servers as a placement says; by None any replica is as good."""
        self.placement = placement
        self._arrange()

    def _arrange(self) -> None:
        if self.placement is not None:
            self.placement.arrange(self.primary, self.replicas)

    def number_of(self, session_id: int) -> int:
        """What is to be `Session.preferred` of the session with this id."""
        return session_id if self.placement is not None else session_id % max(1, len(self.replicas))

    def first_of(self, number: int) -> Server | None:
        """The replica that the session of this number (`Session.preferred`) asks first."""
        replicas = self.replicas if self.placement is None else self.placement.order(number)
        if not replicas:
            return None
        return replicas[0 if self.placement is not None or number >= len(replicas) else number]

    def in_order(self, number: int) -> list[Server]:
        """The replicas in the order in which the session of this number asks them."""
        if self.placement is not None:
            return self.placement.order(number)
        at = number % max(1, len(self.replicas))
        return [*self.replicas[at:], *self.replicas[:at]]

    def _prepare(self, server: Server) -> None:
        """Let a server have what is the same for all."""
        server.proof_max_age = self._proof_max_age
        server.filters.allowed = self._allows_filters
        server.diverged_before = self._diverged_before
        server.observations = self.observations
        server.apply_listener = self.primary.apply_listener

    @property
    def servers(self) -> list[Server]:
        """The primary first."""
        return [self.primary, *self.replicas]

    @property
    def watched(self) -> list[Server]:
        """These, and those that stand by."""
        return [self.primary, *self.replicas, *self.standby]

    @property
    def term(self) -> int:
        """Names the primary and its incarnation: what one term acknowledged, another may lack."""
        return self._before_term + self.primary.epoch

    def follows_in_order(self, server: Server) -> bool:
        """Whether a server commits all that it has in the primary's order.

        A replica of a replica may do so, too, but that is for that one to tell. So is what order a
        group has. And with filters it may not have what it has committed, or elsewhere.
        """
        sources = server.sources
        if sources is None or self.group or not server.ordered or server.filters.applier != "":
            return False
        return len(sources) == 1 and self.primary.uuid in sources

    @property
    def current_tables(self) -> TransactionTables | None:
        """What the log of the present primary says of its transactions; None if it is not read."""
        if self.tables_reader is not None:
            self.tables_reader.refresh()
        tables = self.transaction_tables
        return tables if tables.term == self.term else None

    @property
    def source_uuid(self) -> str:
        """The UUID under which the primary names what is committed there."""
        return self.group or self.primary.uuid

    def committed(self, committing: GtidSet) -> GtidSet:
        """What the primary is committing, by its own word, and what others have of that already.

        Alone, and in asynchronous replication, a primary owns a GTID before anybody else has it. In
        a group all members learn at once what was certified, and any may be the first to commit.
        """
        if not self.group:
            return committing
        return united([committing, *(replica.applied for replica in self.replicas)])

    def dispute(self, rivals: list[Server]) -> None:
        """It is not clear which of these is the primary; or it is, if there are none."""
        self.rivals = rivals
        names = " and ".join(server.name for server in rivals)
        self.withhold(
            f"{names} take writes, and it is not clear which is the primary" if rivals else ""
        )

    def withhold(self, why: str, *, lacks_quorum: bool = False) -> None:
        """Send the primary no writes, for this reason; or send them again, if it is empty."""
        self.withheld = why
        self.lacks_quorum = lacks_quorum and bool(why)

    def stands(self, replica: Server, epoch: int, term: int, now: float, relies: bool) -> bool:
        """Whether a replica may still be given what it was given before, with no question asked.

        Args:
            replica: it.
            epoch: of its incarnation then.
            term: the one in which that was.
            now: monotonic, s.
            relies: what it had proved matters.
        """
        return (
            replica.epoch == epoch
            and self._before_term + self.primary.epoch == term
            and now >= replica.shunned_until
            and not self.refusals.until
            and self.primary.gtids
            and replica.gtids_trustworthy
            and not (relies and replica.is_doubtful(now))
        )

    @property
    def diverged_gtids(self) -> dict[str, GtidSet]:
        """The servers' `diverged_gtids`, by `server_uuid`; of those not met yet, too."""
        found = dict(self._diverged_before)
        found.update(
            {server.uuid: server.diverged_gtids for server in self.watched if server.diverged_gtids}
        )
        return found

    def remember_diverged(self, diverged_gtids: dict[str, GtidSet]) -> None:
        """It was found before the start that servers with these `server_uuid`s have diverged."""
        self._diverged_before = diverged_gtids
        for server in self.watched:
            server.diverged_before = diverged_gtids

    def held_by_replicas(self, answers: Iterable[Held] | None = None) -> list[Held]:
        """What each replica has, or may have kept; for `compare`, before the primary is asked.

        So have those that stand by, which are compared before they are used.

        Args:
            answers: what replicas have said just now that they have or are about to have, since a
                term of the primary begins; None while one lasts. Whoever has begun anew since then
                has not proved that again, so it stays with its epoch.
        """
        unasked = None if answers is None else 0
        held = {
            (replica, replica.epoch): Held(
                replica, replica.uuid, replica.may_have_kept, replica.epoch, unasked
            )
            for replica in (*self.replicas, *self.standby)
        }
        earlier = []
        for answer in answers or ():
            key = (answer.replica, answer.epoch)
            if key in held:
                held[key] = answer._replace(gtids=held[key].gtids | answer.gtids)
            else:
                earlier.append(answer)
        return [*earlier, *held.values()]

    def compare(self, held: Iterable[Held], has: GtidSet) -> None:
        """Judge replicas by the primary, but for those that have become others meanwhile.

        Args:
            held: what each had before the primary was asked.
            has: what the primary was committing, asked first, with its `gtid_executed`.
        """
        # What the primary had of that as a replica: whoever followed the one before has others.
        diverged_gtids, self.primary.diverged_gtids = self.primary.diverged_gtids, EMPTY
        for replica, uuid, gtids, epoch, binary_log in held:
            if uuid != replica.uuid:
                continue  # a crash may have left some of it; another server has none of it
            replica.compared = bool(uuid)
            if diverged_gtids:
                replica.add_diverged(diverged_gtids, 0)
            since = epoch != replica.epoch
            errant = (gtids & replica.may_have_kept if since else gtids) - has
            if self.group and errant:
                # Any member may be the first to have applied what all have agreed on; the group
                # keeps out who has others.
                errant = GtidSet(
                    {
                        tsid: errant.intervals(tsid)
                        for tsid in errant.tsids
                        if not tsid.startswith(self.group)
                    }
                )
            replica.errant = errant
            for tsid in replica.errant.tsids:
                if tsid.startswith(self.primary.uuid):
                    found = GtidSet({tsid: replica.errant.intervals(tsid)})
                    replica.add_diverged(found, 0 if since else binary_log)
                    if not since:
                        replica.regained -= found  # that is no older than what is known of it
                    elif replica.lost_running:
                        replica.regained |= found

    def meet(self, name: str) -> Server:
        """A server has come, ``host:port``; it stands by."""
        server = Server(name, Role.REPLICA)
        self._prepare(server)
        self.standby = [*self.standby, server]
        return server

    def add_replica(self, server: Server) -> None:
        """Let reads go to a server that stood by; the last of `replicas` is the one that came."""
        self.standby = [other for other in self.standby if other is not server]
        server.left = False
        server.last_epoch = -1
        self.replicas = [*self.replicas, server]
        self._arrange()

    def remove_replica(self, server: Server) -> int:
        """Let a replica stand by; return its index among the replicas till now."""
        index = self.replicas.index(server)
        self.replicas = [other for other in self.replicas if other is not server]
        self._arrange()
        server.leave()
        self.standby = [*self.standby, server]
        return index

    def forget(self, server: Server) -> None:
        """A server that stood by has gone. That it has diverged counts if it comes back."""
        self.standby = [other for other in self.standby if other is not server]
        server.leave()
        if server.diverged_gtids:
            self._diverged_before[server.uuid] = server.diverged_gtids

    def promote(self, server: Server) -> None:
        """A replica has become the primary, and the primary a replica."""
        if server in self.standby:
            self.add_replica(server)
        old = self.primary
        old.role, server.role = Role.REPLICA, Role.PRIMARY
        old.opened = server.opened = False  # that counts once
        server.filters.lacking = False  # what it has is what there is
        server.lag = None
        server.set_lagging(False)
        server.set_draining(False)  # `DrainedServers` has its name, for when it is a replica again
        self.dispute([])
        self.replicas = [old if replica is server else replica for replica in self.replicas]
        self.primary = server
        self._arrange()
        self._before_term += _EPOCHS
        self.observations.clear()
