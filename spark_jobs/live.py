"""The live view: the newest hours of a log, judged anew whenever segments come.

Theory of operation. A verdict is no sum over records. What a read had to see depends on what ended
before it, on other proxies too; whether its server could show it, on sets that may be told later; a
late segment may do away with a doubt, or raise one; and what a new primary lacks tells of reads
long answered. Operators that hold state and see each record once would have to be the audit a
second time, in another form, and the two would have to agree for ever. So the stream brings only
what it is good for: it watches the folder, remembers what it has seen, and goes on after a crash.
For each of its batches

1. the store takes the closed segments that it does not have, each once, whatever the stream says:
   a batch that is given twice, or whose segment was compressed meanwhile, takes nothing twice;
2. `audit.judge`, the one of the nightly audit, judges the newest hours. The hours before them warm
   it up, and what is still being written is read, too;
3. the page, the summary and the metrics are those of this judgement.

So each verdict is the one that an audit would give now, whatever the order in which segments came.
It costs as much as an audit of the hours that it reads, each time; the window bounds it.

The window is told by the log, not by this machine's clock, except that hours which have not come
yet tell nothing: else one wrong clock would end the view of all others.
"""

import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from spark_jobs import audit
from spark_jobs.day import DAY_US, HOUR_US, Day, Hours, hour_us
from spark_jobs.findings import Findings
from spark_jobs.log import Log
from spark_jobs.markdown import counted, moment
from spark_jobs.options import Options
from spark_jobs.progress import Progress
from spark_jobs.report import written
from spark_jobs.report.metrics import Metrics
from spark_jobs.store.store import Span, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_CLOSED: Final = "*.{jsonl,jsonl.gz,jsonl.zst}"


class Live:
    """A view of one log.

    Attributes:
        metrics: of the newest judgement.
        error: what ended it; None while it runs.
    """

    def __init__(
        self,
        spark: "SparkSession",
        chosen: Options,
        progress: Progress,
        shared: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open it; nothing is judged yet.

        Args:
            spark: a session.
            chosen: what was asked for.
            progress: is told the name of each stage that begins.
            shared: where other machines see what is unpacked; None if none work.
            clock: Unix time.

        Raises:
            OSError: what an earlier view left cannot be read.
        """
        self.metrics = Metrics(chosen.name)
        self.error: OSError | None = None
        self._spark = spark
        self._chosen = chosen
        self._progress = progress
        self._shared = shared
        self._clock = clock
        self._verdict = ""
        self._has_looked = False
        self._at_work = Lock()
        self._store = Store(chosen.out / "store")

    def look(self) -> Findings | None:
        """Take what is new, and judge the newest hours.

        Returns:
            What was found; None if nothing is new.

        Raises:
            OSError: the log cannot be read, or what is found not written; the message tells.
        """
        with self._at_work:
            try:
                return self._look()
            finally:
                self._progress.end()

    def end(self) -> None:
        """Wait until nothing is at work."""
        with self._at_work:
            pass

    def _look(self) -> Findings | None:
        from spark_jobs import segments
        from spark_jobs.store import parquet

        chosen, store, begun_s = self._chosen, self._store, self._clock()
        now_us, window_us = round(begun_s * 1e6), chosen.window * HOUR_US
        with tempfile.TemporaryDirectory(prefix="tidegate-live-", dir=self._shared) as folder:
            scratch = Path(folder)
            listing = segments.list_segments(chosen.log, scratch, chosen.out)
            # What is older than this when it comes is the nightly audit's.
            oldest = f"date={Day.of(now_us - 2 * window_us - DAY_US)}"
            new = [it for it in listing.closed if it.name >= oldest]
            self._progress.stage("taking segments")
            before = store.manifest.newest
            taken = store.take(new, scratch, partial(parquet.stage, self._spark))
            hours = {hour_us(hour) for it in store.manifest.taken for hour in it.hours}
            come = [hour for hour in hours if hour <= now_us]
            if not come or (self._has_looked and not taken):
                return None
            end_us = max(come) + HOUR_US
            span = Span(Hours(end_us - window_us, end_us), window_us)
            late = _late(store, span, before) if self._has_looked else ()
            log = Log(
                name=chosen.name,
                lines=parquet.read(self._spark, store, span, listing.live, scratch),
                scratch=scratch,
                span=span,
                complete=store.segments(span.judged),
                live=len(listing.live),
                unread=listing.unread,
                unknown=listing.unknown,
                period=span.judged,
                notes=[_told(span), *late],
            )
            findings = audit.judge(
                self._spark,
                log,
                chosen.out,
                chosen.clock_error_us,
                chosen.min_coverage,
                self._progress.stage,
            )
        duration_s = self._clock() - begun_s
        written.write(findings, chosen.out, duration_s=duration_s)
        self._has_looked = True
        store.prune(span.begin_us)
        self.metrics.tell(findings, begun_s, duration_s)
        if chosen.textfile is not None:
            self.metrics.write(chosen.textfile)
        if findings.verdict != self._verdict:
            print(findings.verdict, findings.explanation, flush=True)
        self._verdict = findings.verdict
        return findings

    def follow(self, trigger: Mapping[str, str | bool]) -> "StreamingQuery":
        """Look whenever the log has something new.

        Args:
            trigger: of Structured Streaming, such as ``{"processingTime": "10 seconds"}``.

        Returns:
            The query. Where it ends with an error, that may be `error`.
        """
        from spark_jobs import ingest

        def look(_batch: "DataFrame", _number: int) -> None:
            try:
                self.look()
            except OSError as error:
                self.error = error
                raise

        (log,) = ingest.names([self._chosen.log.resolve()])
        return (
            self._spark.readStream.schema("value string")
            .option("pathGlobFilter", _CLOSED)
            .text(f"{log}/date=*")
            .writeStream.foreachBatch(look)
            .option("checkpointLocation", str(self._chosen.out / "checkpoint"))
            .trigger(**trigger)  # type: ignore[arg-type]  # one of its overloads
            .start()
        )


def run(
    spark: "SparkSession", chosen: Options, progress: Progress, shared: Path | None = None
) -> None:
    """Show a log until this process is told to stop.

    Args:
        spark: a session.
        chosen: what was asked for.
        progress: is told the name of each stage that begins.
        shared: where other machines see what is unpacked; None if none work.

    Raises:
        OSError: the log cannot be read, or what is found not written; the message tells.
    """
    from pyspark.errors import StreamingQueryException

    view = Live(spark, chosen, progress, shared)
    with _until_told() as is_told, view.metrics.served(chosen.metrics):
        view.look()  # what an earlier view has seen is no news to the stream
        query = view.follow({"processingTime": "10 seconds"})
        try:
            while not is_told() and not query.awaitTermination(1):
                pass
        except StreamingQueryException as error:
            if view.error is not None:
                raise view.error from error
            raise
        finally:
            query.stop()
            view.end()


@contextmanager
def _until_told() -> Iterator[Callable[[], bool]]:
    """Whether SIGTERM or SIGINT came."""
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda it, _frame: came.append(it))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _told(span: Span) -> str:
    begin, end = (moment(it)[:16] for it in (span.judged.begin_us, span.judged.end_us))
    return (
        f"Judged live: reads that arrived from {begin} to {end} (UTC), by what has come of the log "
        "so far."
    )


def _late(store: Store, span: Span, take: int) -> Iterator[str]:
    late = [
        it
        for it in store.manifest.taken
        if it.take > take and it.hours and max(map(hour_us, it.hours)) < span.judged.begin_us
    ]
    if late:
        yield (
            f"Of {counted(len(late), 'segment')} that came, all records are older than that: the "
            "nightly audit judges them."
        )
