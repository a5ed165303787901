"""The live view: the newest hours of a log, judged anew whenever new segments arrive.

Theory of operation. A verdict is no sum over records. What a read had to see depends on what ended
before it, on other proxies, too. Whether its server could show that depends on sets that may be
logged later. A late segment may remove a doubt, or raise one. And what a new primary lacks changes
verdicts on reads that were answered long ago. A stream processor that holds state and sees each
record once would have to be a second audit in another form, and the two would have to agree for
ever. So the stream does only what it is good at: it watches the folder, remembers which files it
has seen, and goes on after a crash. For each of its batches

1. the store takes the closed segments that it does not have, whatever the stream says: nothing is
   taken twice if a batch is delivered twice, or if its segment was compressed meanwhile;
2. `audit.judge`, as in the nightly audit, judges the newest hours. It reads the hours before them
   as a warm-up, and also the segments that are still being written;
3. the page, the summary and the metrics are written from this judgement.

So each verdict is the one that an audit would give now, in whatever order segments came. Each
judgement costs as much as an audit of the hours that it reads; the window bounds the cost.

The newest record of the log determines the window, not this machine's clock. But hours in the
future are ignored: else one wrong clock would hide the records of all others.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from spark_jobs import disk, stop_signals
from spark_jobs.audit import audit
from spark_jobs.audit.log import Log
from spark_jobs.day import DAY_US, HOUR_US, Day, Hours, hour_us
from spark_jobs.findings.findings import Findings
from spark_jobs.markdown import counted, moment
from spark_jobs.options import Options
from spark_jobs.paths import escape
from spark_jobs.progress import Progress
from spark_jobs.report import incidents, written
from spark_jobs.report.metrics import Metrics
from spark_jobs.store.store import Span, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_CLOSED: Final = "*.{jsonl,jsonl.gz,jsonl.zst}"


class Live:
    """A live view of one log.

    Attributes:
        metrics: the metrics of the newest judgement.
        error: the error that ended the view; None while it runs.
    """

    def __init__(
        self,
        spark: "SparkSession",
        chosen: Options,
        progress: Progress,
        scratch: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the view; nothing is judged yet.

        Args:
            spark: a session.
            chosen: the options.
            progress: shows the stages.
            scratch: a directory for temporary files, which all workers see; None for the system's.
            clock: Unix time, s.

        Raises:
            OSError: what an earlier view left cannot be read.
        """
        self.metrics = Metrics(chosen.name)
        self.error: OSError | None = None
        self._spark = spark
        self._chosen = chosen
        self._progress = progress
        self._scratch = scratch
        self._clock = clock
        self._verdict = ""
        self._has_looked = False
        self._damaged: set[str] = set()
        self._at_work = Lock()
        self._store = Store(chosen.report_folder / "store")

    def look(self) -> Findings | None:
        """Take new segments, and judge the newest hours.

        Returns:
            The findings; None if nothing is new: no segment was taken, and the damaged ones are the
            same as before.

        Raises:
            OSError: the log cannot be read, or the report cannot be written; the message says why.
        """
        with self._at_work:
            try:
                return self._look()
            finally:
                self._progress.end()

    def end(self) -> None:
        """Wait until no judgement is running."""
        with self._at_work:
            pass

    def _look(self) -> Findings | None:
        from spark_jobs.records import segments
        from spark_jobs.store import parquet

        chosen, store, begun_s = self._chosen, self._store, self._clock()
        now_us, window_us = round(begun_s * 1e6), chosen.window * HOUR_US
        with tempfile.TemporaryDirectory(prefix="look-", dir=self._scratch) as folder:
            scratch = Path(folder)
            listing = segments.list_log(self._spark, chosen.log, chosen.report_folder)
            # Segments that are older than this when they come are left to the nightly audit.
            oldest = f"date={Day.of(now_us - 2 * window_us - DAY_US)}"
            new = [segment for segment in listing.closed if segment.name >= oldest]
            self._progress.stage("taking segments")
            before = store.manifest.newest
            taken, broken = store.take(new, parquet.reader(self._spark))
            hours = {hour_us(hour) for segment in store.manifest.taken for hour in segment.hours}
            come = [hour for hour in hours if hour <= now_us]
            # If damaged segments are all that came, the view says so of the present hours.
            end_us = max(come, default=now_us // HOUR_US * HOUR_US) + HOUR_US
            span = Span(Hours(end_us - window_us, end_us), window_us)
            not_taken = {segment.file: why for segment, why in broken.items()}
            lacking = store.not_taken({**listing.damaged, **not_taken})
            damaged = {file: why for file, why in lacking.items() if span.may_read(file)}
            is_new = taken or not self._has_looked or damaged.keys() != self._damaged
            if not is_new or not (come or damaged or self._has_looked):
                return None
            parts = [segment for segment in broken if segment.file in damaged]
            late = _late(store, span, before) if self._has_looked else ()
            log = Log(
                name=chosen.name,
                lines=parquet.read(self._spark, store, span, [*listing.live, *parts], scratch),
                scratch=scratch,
                span=span,
                complete=store.segments(span.judged),
                live=len(listing.live),
                unread=listing.unread,
                unknown=listing.unknown,
                damaged=damaged,
                period=span.judged,
                notes=[_told(span), *late],
            )
            with disk.replaced(chosen.report_folder) as staged:
                findings = audit.judge(
                    self._spark,
                    log,
                    staged,
                    chosen.clock_error_us,
                    chosen.min_coverage,
                    self._progress.stage,
                )
        duration_s = self._clock() - begun_s
        written.write(findings, chosen.report_folder, duration_s=duration_s)
        self._has_looked, self._damaged = True, set(damaged)
        store.prune(span.begin_us)
        self.metrics.tell(findings, begun_s, duration_s)
        if chosen.textfile is not None:
            self.metrics.write(chosen.textfile)
        if findings.verdict != self._verdict:
            print(findings.verdict, findings.explanation, flush=True)
            for _, description in incidents.shown(findings):
                print(description.title, *description.facts, flush=True)
        self._verdict = findings.verdict
        return findings

    def follow(self, trigger: Mapping[str, str | bool]) -> "StreamingQuery":
        """Look whenever the log has something new.

        Args:
            trigger: of Structured Streaming, such as ``{"processingTime": "10 seconds"}``.

        Returns:
            The query. If it ends with an error, `error` may have the cause.
        """

        def look(_batch: "DataFrame", _number: int) -> None:
            try:
                self.look()
            except OSError as error:
                self.error = error
                raise

        log = self._chosen.log
        (place,) = escape([log if isinstance(log, str) else log.resolve()])
        return (
            self._spark.readStream.schema("value string")
            .option("pathGlobFilter", _CLOSED)
            .text(f"{place}/date=*")
            .writeStream.foreachBatch(look)
            .option("checkpointLocation", str(self._chosen.report_folder / "checkpoint"))
            .trigger(**trigger)  # type: ignore[arg-type]  # one of its overloads
            .start()
        )


def run(
    spark: "SparkSession", chosen: Options, progress: Progress, scratch: Path | None = None
) -> None:
    """Show a log until an error, or `stop_signals.Stopped`, is raised.

    Args:
        spark: a session.
        chosen: the options.
        progress: shows the stages.
        scratch: a directory for temporary files, which all workers see; None for the system's.

    Raises:
        OSError: the log cannot be read, or the report cannot be written; the message says why.
    """
    from pyspark.errors import StreamingQueryException

    view = Live(spark, chosen, progress, scratch)
    with view.metrics.served(chosen.metrics):
        view.look()  # the stream does not report segments that an earlier view has seen
        query = view.follow({"processingTime": "10 seconds"})
        try:
            while not query.awaitTermination(1):
                pass
        except StreamingQueryException as error:
            if view.error is not None:
                raise view.error from error
            raise
        finally:
            if not stop_signals.is_stopping():  # else Java is ending, and ends the query
                query.stop()
            view.end()


def _told(span: Span) -> str:
    begin, end = (
        moment(moment_us)[:16] for moment_us in (span.judged.begin_us, span.judged.end_us)
    )
    return (
        f"Judged live: reads that arrived from {begin} to {end} (UTC), by the segments that have "
        "come so far."
    )


def _late(store: Store, span: Span, take: int) -> Iterator[str]:
    late = [
        segment
        for segment in store.manifest.taken
        if segment.take > take
        and segment.hours
        and max(map(hour_us, segment.hours)) < span.judged.begin_us
    ]
    if late:
        yield (
            f"{counted(len(late), 'segment')} came with older records only: the nightly audit "
            "judges those."
        )
