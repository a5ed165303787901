"""Replication lag by commit timestamps: per transaction, per hop, per source (WL#7319).

Times are UTC microseconds by the clock of the server that took them. A lag that spans two servers
is corrected by what their clocks are known to differ (`routing.servers.clock`), and by no more.

Of a transaction that was applied: *end to end* is from its commit on the first server, *last hop*
from its commit on the immediate source, *upstream* what lies between these two commits, *transport*
from the immediate source's commit until it was received, *apply* the applier's own work.

Of a source now: how long the oldest transaction waits that is known to be missing; 0 where nothing
is. A server names only the newest that it has received, so what it has not applied is remembered
from look to look: a wait may be understated by the time between two looks.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from protocol.gtid import EMPTY, Gtid, GtidSet
from routing.servers.clock import Clock
from routing.servers.replication_status import Coordinator, Receiver, Stamped, Worker

_PENDING: Final = 4096
_SOURCES: Final = 64
"""At most so many pairs of a channel and a source are tracked on one server."""
_TAGS: Final = 1024
"""At most so many tags of a source are tracked when timestamps are compared."""
_SILENT_US: Final = 60_000_000
"""How long the last timestamps of a silent source count against those of other sources."""
_NO_CHANNEL: Final = "it has no replication channel"
_NO_TABLES: Final = "its performance_schema is off"


class Look(NamedTuple):
    """What a server said about its replication, asked in this order.

    Attributes:
        receivers: one for each channel.
        workers: all channels'.
        now_us: its clock.
        executed: its `gtid_executed`.
        coordinators: as `workers`; empty if they may not be seen.
        delays: SOURCE_DELAY by channel, s; likewise.
        has_tables: its performance_schema is on: else the tables are empty.
    """

    receivers: Sequence[Receiver]
    workers: Sequence[Worker]
    now_us: int
    executed: GtidSet
    coordinators: Sequence[Coordinator] = ()
    delays: Mapping[str, int] = {}
    has_tables: bool = True


class Behind(NamedTuple):
    """What the primary is known to have and a replica lacks, by the proxy's clock alone.

    Attributes:
        primary: the primary's UUID.
        missing: the first such set that was seen there.
        us: how long ago that was.
    """

    primary: str
    missing: GtidSet = EMPTY
    us: int = 0


class Span(NamedTuple):
    """A time between two events.

    Attributes:
        us: how long; negative where clocks differ by more than is known.
        error_us: how far from that it may be; None where one of the clocks is not known.
    """

    us: int
    error_us: int | None = 0

    @property
    def is_known(self) -> bool:
        """Whether both clocks are."""
        return self.error_us is not None

    @property
    def least_us(self) -> int:
        """The least that is certain; 0 where nothing is."""
        return 0 if self.error_us is None else max(0, self.us - self.error_us)


class Transaction(NamedTuple):
    """A transaction that a replica has applied.

    Attributes:
        channel: by which it came.
        stamped: its name and timestamps, as the replica gave them.
        end_to_end: None where the first server's commit is not known.
        last_hop: None where the immediate source's is not known.
    """

    channel: str
    stamped: Stamped
    end_to_end: Span | None
    last_hop: Span | None

    @property
    def apply_us(self) -> int | None:
        """From the beginning to the end of its application."""
        began, ended = self.stamped.began_us, self.stamped.ended_us
        return None if began is None or ended is None else ended - began


class SourceLag(NamedTuple):
    """How far a replica is behind one source, by one channel.

    Attributes:
        channel: its name.
        source: UUID of the server that commits the transactions first.
        waits: age of the oldest of its transactions that is missing, from its commit there; None
            where something is missing, or may be, and nobody knows since when.
        hop_waits: the same from its commit on the immediate source.
        applied: the newest that was applied, as far as seen.
        transport: of the newest that was received, as far as seen.
    """

    channel: str
    source: str
    waits: Span | None
    hop_waits: Span | None
    applied: Transaction | None
    transport: Span | None


class _Source:
    """What is remembered of a source and channel."""

    def __init__(self) -> None:
        self.pending: deque[Stamped] = deque()  # received and not applied, the oldest first
        self.applied: Transaction | None = None
        self.received = ""  # the newest
        self.transport: Span | None = None
        self.disordered = False
        self.judged_us = 0  # when its timestamps were compared last
        self._judged: dict[str, int] = {}

    @property
    def blank(self) -> bool:
        """Nothing has ever come from it."""
        return self.applied is None and not self.received

    def remember(self, stamped: Stamped) -> None:
        """It has been received."""
        if not self.pending or self.pending[-1].gtid != stamped.gtid:
            self.pending.append(stamped)
        if len(self.pending) > _PENDING:
            self.pending = deque(list(self.pending)[::2])  # the oldest stays

    def judge(self, stamped: Stamped, now_us: int) -> None:
        """Compare its timestamps (F6), if it is newer than what was compared so far."""
        if not stamped.original_us or not stamped.immediate_us:
            return
        tsid, number = Gtid.parse(stamped.gtid)
        if len(self._judged) >= _TAGS:
            self._judged.clear()
        if number > self._judged.get(tsid, 0):
            self._judged[tsid] = number
            self.judged_us = now_us
            self.disordered = stamped.original_us > stamped.immediate_us


class Lag:
    """A replica's lag behind each source; pure, told by one look after the other.

    Attributes:
        cause: why it is not measured by commit timestamps; empty while it is.
        by_heartbeats: it is measured by heartbeats instead.
        sources: by channel and source.
        transported: of what was received since the look before, as far as seen: source and how long
            that took.
        disordered: F6 of WL#7319: a source's newest transaction has an original commit that is
            newer than its immediate one, so clocks or timestamps are wrong.
    """

    def __init__(self) -> None:
        self.cause = "it was not asked yet"
        self.by_heartbeats = False
        self.sources: list[SourceLag] = []
        self.transported: list[tuple[str, Span]] = []
        self.disordered = False
        self._kept: dict[tuple[str, str], _Source] = {}
        self._direct: frozenset[tuple[str, str]] = frozenset()  # channels and immediate sources
        self._shown: frozenset[tuple[str, str]] = frozenset()
        self._epoch = -1
        self._now_us = 0

    def set_unmeasured(self, cause: str) -> None:
        """The last look did not tell it."""
        self.cause = cause
        self.by_heartbeats = False
        self.sources = []

    def beats(self, source: str, waits: Span) -> None:
        """After `set_unmeasured`: heartbeats tell how long the oldest beat waits."""
        self.by_heartbeats = True
        self.sources = [SourceLag("", source, waits, None, None, None)]

    def take(
        self,
        look: Look,
        epoch: int,
        own: Clock,
        clocks: Mapping[str, Clock],
        behind: Behind | None = None,
    ) -> list[Transaction]:
        """Take a look; return what was applied since the last one, as far as seen.

        Args:
            look: what the server said.
            epoch: its incarnation; what was seen of an earlier one does not count.
            own: its clock.
            clocks: those of servers, by UUID, as far as known.
            behind: None if nothing is known of the primary.
        """
        begins = epoch != self._epoch
        channels = {receiver.channel: receiver for receiver in look.receivers}
        self._direct = frozenset((entry.channel, entry.source) for entry in look.receivers)
        if begins:
            self._epoch = epoch
            self._kept.clear()
        self._kept = {
            key: kept for key, kept in self._kept.items() if key[0] in channels and not kept.blank
        }
        if not channels:
            self.set_unmeasured(_NO_CHANNEL if look.has_tables else _NO_TABLES)
            return []
        self._now_us = look.now_us
        self.transported = []
        newest = [
            (worker.channel, worker.applied)
            for worker in look.workers
            if worker.applied is not None and worker.channel in channels
        ]
        # Workers that commit in order may tell of their ends in another one.
        newest.sort(key=lambda entry: (entry[1].immediate_us or 0, entry[1].ended_us or 0))
        new: list[Transaction] = []
        for channel, stamped in newest:
            if (channel, stamped.gtid) in self._shown and not begins:
                continue
            transaction = Transaction(
                channel,
                stamped,
                between(stamped.original_us, stamped.ended_us, own, clocks.get(stamped.source)),
                between(
                    stamped.immediate_us,
                    stamped.ended_us,
                    own,
                    clocks.get(channels[channel].source),
                ),
            )
            kept = self._of(channel, stamped.source)
            kept.applied = transaction
            kept.judge(stamped, self._now_us)
            new.append(transaction)
        self._shown = frozenset((channel, stamped.gtid) for channel, stamped in newest)
        for receiver in look.receivers:
            self._received(receiver, own, clocks)
        if behind is not None:
            self._expect(look.receivers, behind.missing)
        self.cause = ""
        self.by_heartbeats = False
        self.disordered = any(self._contradicts(channel) for channel in channels)
        self.sources = [
            self._source(channels[channel], source, kept, look, own, clocks, behind)
            for (channel, source), kept in self._kept.items()
        ]
        return [] if begins else new  # who knows when those were

    def lacks_for(self, primary: str) -> float:
        """How long the oldest of the primary's transactions waits that is missing, s; at least.

        0 where nothing is missing, or that cannot be told. Only what is certain in spite of the
        clocks counts, and nothing where timestamps contradict each other.
        """
        if self.disordered:
            return 0.0
        waits = (
            self._since_commit(primary, source.channel, source.hop_waits, source.waits)
            for source in self.sources
            if source.source == primary
        )
        return max((span.least_us for span in waits if span is not None), default=0) / 1e6

    def applied_after(self, transactions: Iterable[Transaction], primary: str) -> list[float]:
        """How long after their commits the primary's transactions were applied, s, at least.

        Of those whose clocks are known; none where timestamps contradict each other.
        """
        spans = (
            self._since_commit(
                primary, transaction.channel, transaction.last_hop, transaction.end_to_end
            )
            for transaction in transactions
            if transaction.stamped.source == primary and not self.disordered
        )
        return [span.least_us / 1e6 for span in spans if span is not None and span.is_known]

    def _since_commit(
        self, source: str, channel: str, hop: Span | None, whole: Span | None
    ) -> Span | None:
        """Which of the two counts from the commit on a source, as far as that is told.

        Its original timestamps may be another server's, whose binary log was replayed there.
        """
        return hop if hop is not None and (channel, source) in self._direct else whole

    def _contradicts(self, channel: str) -> bool:
        """Whether a source's timestamps are wrong, unless it is silent and others' are right.

        One that was primary once may never commit again.
        """
        here = [kept for key, kept in self._kept.items() if key[0] == channel]
        right_us = max((kept.judged_us for kept in here if not kept.disordered), default=0)
        return any(kept.disordered and right_us < kept.judged_us + _SILENT_US for kept in here)

    def _of(self, channel: str, source: str) -> _Source:
        key = (channel, source)
        kept = self._kept.get(key)
        if kept is None:
            kept = _Source()
            if len(self._kept) < _SOURCES:
                self._kept[key] = kept
        return kept

    def _received(self, receiver: Receiver, own: Clock, clocks: Mapping[str, Clock]) -> None:
        stamped = receiver.queued
        if stamped is not None:
            kept = self._of(receiver.channel, stamped.source)
            kept.remember(stamped)
            kept.judge(stamped, self._now_us)
            span = between(stamped.immediate_us, stamped.ended_us, own, clocks.get(receiver.source))
            if kept.received not in ("", stamped.gtid) and span is not None:
                self.transported.append((stamped.source, span))
            kept.received, kept.transport = stamped.gtid, span
        elif receiver.source and not any(key[0] == receiver.channel for key in self._kept):
            self._of(receiver.channel, receiver.source)  # nothing came yet

    def _expect(self, receivers: Sequence[Receiver], missing: GtidSet) -> None:
        """Add an entry for each source of which something is missing, even if nothing ever came."""
        for tsid in missing.tsids:
            source = tsid.partition(":")[0]
            if not any(key[1] == source for key in self._kept):
                direct = [receiver.channel for receiver in receivers if receiver.source == source]
                self._of(direct[0] if direct else receivers[0].channel, source)

    def _source(
        self,
        receiver: Receiver,
        source: str,
        kept: _Source,
        look: Look,
        own: Clock,
        clocks: Mapping[str, Clock],
        behind: Behind | None,
    ) -> SourceLag:
        executed = look.executed
        pending = kept.pending
        while pending and (pending[0].gtid in executed or pending[0].gtid not in receiver.received):
            pending.popleft()
        missing = [
            worker.applying
            for worker in look.workers
            if worker.channel == receiver.channel
            and worker.applying is not None
            and worker.applying.source == source
            and worker.applying.gtid not in executed
        ]
        if pending:
            missing.append(pending[0])
        waits = _oldest(
            [transaction.original_us for transaction in missing], look, own, clocks.get(source)
        )
        hop_waits = _oldest(
            [transaction.immediate_us for transaction in missing],
            look,
            own,
            clocks.get(receiver.source),
        )
        if not missing and not _has(receiver.received - executed, source):
            is_known = receiver.running or (behind is not None and source == behind.primary)
            waits = hop_waits = Span(0) if is_known else None
        if behind is not None and _has(behind.missing, source):
            known = Span(behind.us)
            waits = _longer(waits, known)
            if receiver.source == source:
                hop_waits = _longer(hop_waits, known)
            elif hop_waits is not None and not hop_waits.us:
                hop_waits = None  # this hop or an earlier one may be stuck
        return SourceLag(receiver.channel, source, waits, hop_waits, kept.applied, kept.transport)


def _longer(span: Span | None, known: Span) -> Span:
    return known if span is None else max(span, known, key=lambda entry: entry.us)


def _oldest(commits: list[int | None], look: Look, own: Clock, source: Clock | None) -> Span | None:
    known = [commit for commit in commits if commit is not None]
    return between(min(known), look.now_us, own, source) if known else None


def between(
    from_us: int | None, to_us: int | None, own: Clock | None, other: Clock | None
) -> Span | None:
    """From a moment by another server's clock to one by this server's; None is not known."""
    if from_us is None or to_us is None:
        return None
    if own is None or other is None:
        return Span(to_us - from_us, None)
    if other is own:
        return Span(to_us - from_us)
    difference = own.ahead_of(other)
    return Span(to_us - from_us - difference.least, difference.error)


def _has(gtids: GtidSet, source: str) -> bool:
    return any(tsid.partition(":")[0] == source for tsid in gtids.tsids)
