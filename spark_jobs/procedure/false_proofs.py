"""Finds reads that relied on transactions which their server turned out to lack.

A server that lacks a transaction now has lacked it ever since it started, unless it lost it. So the
next whole set that it is asked for bounds what a read before it can have shown. If that set lacks
what the read had to see, then either the proof was false, or the server lost transactions.

Within one incarnation it lost none, as far as the proxy knows, so the read is reported. A proxy
that sees a server lack what it had proved takes it for a new incarnation. So a false proof that the
proxy notices looks like a loss, with one difference: what is gone was shown by proofs alone, not by
the last whole set that was received before. A crash may do that, too, but not again and again.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pyspark.sql import DataFrame

from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.ordered_pass import Handler
from spark_jobs.procedure.run_procedure import Lapsed
from spark_jobs.tables.schema import RUN
from spark_jobs.verdict import Lapse

OFTEN: Final = 3
"""From so many losses on that look like false proofs, a server's losses count as false proofs."""

RELIED, HAD = range(2)
"""Kinds of events; at the same microsecond they sort in this order.

RELIED: a read ended that was answered on a proof, and had to see `gtids`. HAD: the server was asked
for its whole set, which is `gtids`.
"""

SERVER: Final = (*RUN, "server_uuid")
ORDER: Final = ("at_us", "what", "seq")

_MOST: Final = 16
"""Intervals that a finding names at most."""


class Event(NamedTuple):
    """What happened to a server, as one run knows it, from `at_us` to `until_us`."""

    proxy: str
    worker: int
    run: str
    server_uuid: str
    seq: int
    at_us: int
    until_us: int
    what: int
    incarnation: int | None
    gtids: str


def events(records: DataFrame, error_us: str) -> DataFrame:
    """Make the events of records.

    Args:
        records: NUMBERED, of replicas.
        error_us: SQL: by how much the times of a record may be off.

    Returns:
        The columns of `Event`.
    """
    whole = (
        "case when kind = 'proof' and proof = 'probed' then proof_set "
        "when observed != '' then observed end"
    )
    relied = "is_read and proof in ('known', 'waited') and outcome = 'ok' and required != ''"
    earliest, latest = (f"{which}(dispatched_us, ended_us)" for which in ("least", "greatest"))
    happened = (
        (relied, "ended_us", "ended_us", RELIED, "required"),
        (
            f"({whole}) is not null",
            f"{earliest} - {error_us}",
            f"{latest} + {error_us}",
            HAD,
            whole,
        ),
    )
    made = (
        f"if({where}, struct({at_us} as at_us, {until_us} as until_us, {what} as what, "
        f"{gtids} as gtids), null)"
        for where, at_us, until_us, what, gtids in happened
    )
    found = records.selectExpr("*", f"inline(array_compact(array({', '.join(made)})))")
    return found.select(*Event._fields)


class FalseProofs(Handler):
    """Goes through the events of one server in one run."""

    def __init__(self) -> None:
        self._reads: list[Event] = []
        self._had = GtidSet()
        self._unanswered: list[tuple[int, GtidSet]] = []
        self._lost: list[Lapsed] = []
        self._losses = 0

    def eval(self, row: Iterable[object]) -> Iterator[Lapsed]:
        """Take the next event; yield LAPSED of the reads that it contradicts."""
        event = Event._make(row)
        if event.what == RELIED:
            self._reads.append(event)
            return
        try:
            had = parse(event.gtids)
        except MalformedGtidSetError:
            return
        before = self._before(event.at_us)
        reads, self._reads = self._reads, []
        lost = []
        for read in reads:
            lacking = _lacking(read, had)
            if lacking:
                lapsed = Lapsed(*read[:3], read.seq, Lapse.CONTRADICTED.value, lacking)
                if read.incarnation == event.incarnation:
                    yield lapsed
                else:
                    lost.append(lapsed)
        if lost and had.covers(before):
            self._lost += lost
            self._losses += 1
        self._unanswered.append((event.until_us, had))

    def _before(self, at_us: int) -> GtidSet:
        """The last whole set that was received by then.

        Sets that were still on their way may be older than one that is asked for now.
        """
        received_before = [received for received in self._unanswered if received[0] <= at_us]
        if received_before:
            self._had = max(received_before, key=lambda received: received[0])[1]
            self._unanswered = [received for received in self._unanswered if received[0] > at_us]
        return self._had

    def terminate(self) -> Iterator[Lapsed]:
        """Yield LAPSED of the losses, if there are more than a server can really have had."""
        if self._losses >= OFTEN:
            yield from self._lost


def _lacking(read: Event, had: GtidSet) -> str:
    try:
        lacking = parse(read.gtids).minus(had, _MOST)
    except MalformedGtidSetError:
        return ""
    return lacking.shortened(_MOST) if lacking else ""
