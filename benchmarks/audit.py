"""What the nightly audit costs: ``./dev bench audit``.

Logs of 1, 3 and 10 million records are audited from Parquet, in the form in which a night's audit
reads them: everything that ``tidegate audit`` does, except its report. For comparison, the cost of
a plain hash of all columns is measured, from the same Parquet and from the same records as JSON,
and the cost of turning that JSON into Parquet. Figures are elapsed time, processor time and peak
memory (of Python, of Java and of the Python workers).
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.audit_log import SHAPES, day_of, later_half, records, slowed
from benchmarks.memory import PeakMemory
from benchmarks.processor import cpu_seconds
from benchmarks.report import machine
from spark_jobs.day import Day
from spark_jobs.spark_session import start_spark, what_is_missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.day import Hours
    from spark_jobs.state.states import Staged, State, States

_SIZES: Final = (1_000_000, 3_000_000, 10_000_000)


class _Bench:
    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._java: int = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # Java

    def measure(self, name: str, count: int, work: Callable[[], None]) -> None:
        """Do the work and print a row."""
        cpu, began = self._cpu(), time.monotonic()
        with PeakMemory(os.getpid()) as memory:
            work()
        cpu, elapsed = self._cpu() - cpu, time.monotonic() - began
        print(
            f"| {name} | {count:,} | {elapsed:.1f} | {cpu:.1f} | {cpu / count * 1e6:.1f} "
            f"| {memory.bytes / 2**30:.1f} |",
            flush=True,
        )

    def _cpu(self) -> float:
        return time.process_time() + cpu_seconds(self._java)

    def make(self, count: int, shape: str, *, json: bool, slower: int = 1) -> "DataFrame":
        """Make a log as Parquet, as PARSED, `slower` times as long; also as JSON if `json`."""
        from pyspark.sql import functions as fn

        made = slowed(records(self._spark, count, shape), slower)
        if json:
            # Files as large as a proxy's segments.
            files = made.write.mode("overwrite").option("maxRecordsPerFile", 80_000)
            files.json(str(self._folder / "json"), ignoreNullFields=False)
            day = self._folder / "log" / "date=2026-11-30"
            shutil.rmtree(day, ignore_errors=True)
            day.mkdir(parents=True)
            for file in (self._folder / "json").glob("*.json"):
                file.rename(day / f"{file.stem}.jsonl")
        nothing = fn.lit(None).cast("string")
        path = str(self._folder / "records")
        made.withColumns(
            {
                "file": fn.lit("date=2026-11-30/gate.jsonl"),
                "fault": nothing,
                "line": nothing,
            }
        ).write.mode("overwrite").parquet(path)
        return self._spark.read.parquet(path)

    def part(self, name: str, which: str) -> "DataFrame":
        """Copy a part of the log to a folder of its own."""
        target = str(self._folder / name)
        log = self._spark.read.parquet(str(self._folder / "records"))
        log.where(which).write.mode("overwrite").parquet(target)
        return self._spark.read.parquet(target)

    @property
    def states(self) -> "States":
        """The audit's states at the ends of days."""
        from spark_jobs.state.states import States

        return States(self._folder / "states")

    def take_json(self) -> None:
        """Read every line as JSON and write it as Parquet by hours, as the audit does once."""
        from spark_jobs.records import segments, take

        taken = self._folder / "taken"
        listing = segments.list_segments(self._folder / "log")
        take.by_hour(self._spark, listing.closed, taken)
        shutil.rmtree(taken)

    def hash_parquet(self, log: "DataFrame") -> None:
        """Hash every column of the log."""
        from pyspark.sql import functions as fn

        log.select(fn.bit_xor(fn.xxhash64(*log.columns))).collect()

    def hash_json(self) -> None:
        """Hash every column of the log, from its JSON."""
        from pyspark.sql import functions as fn

        from spark_jobs.tables.schema import RECORD

        log = self._folder / "log" / "date=2026-11-30"
        lines = self._spark.read.schema(RECORD).json(str(log))
        lines.select(fn.bit_xor(fn.xxhash64(*RECORD.names))).collect()

    def audit(
        self,
        parsed: "DataFrame",
        *,
        period: "Hours | None" = None,
        before: "State | None" = None,
        ends: "Staged | None" = None,
    ) -> None:
        """Everything that an audit does, except its report."""
        from spark_jobs.audit import audit
        from spark_jobs.audit.log import Log
        from spark_jobs.records.take import Kept

        out = self._folder / "audit"
        log = Log(
            name="benchmark",
            lines=Kept(parsed),
            scratch=self._folder,
            complete=1,
            live=0,
            period=period,
            before=before,
            ends=ends,
        )
        findings = audit.judge(self._spark, log, out)
        shutil.rmtree(out)
        if findings.exit_code:
            raise AssertionError(f"the log is clean, but the audit says {findings.explanation}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="./dev bench audit", description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=_SIZES, metavar="N")
    parser.add_argument(
        "--shape", choices=SHAPES, nargs="+", default=["mixed", "connection", "one scope"]
    )
    parser.add_argument(
        "--warm-up", action="store_true", help="also with as many records before those judged"
    )
    parser.add_argument(
        "--state", action="store_true", help="also two days, the later with the earlier one's state"
    )
    parser.add_argument("--no-json", action="store_true", help="leave out what is done with JSON")
    parser.add_argument("--dir", type=Path, help="where the logs are made (a temporary directory)")
    options = parser.parse_args(arguments)
    missing = what_is_missing()
    if missing:
        print(missing, file=sys.stderr)
        return 1
    print("\n".join(f"{name}: {value}" for name, value in machine().items()))
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-audit-", dir=options.dir))
    spark = start_spark(folder / "spark.log")
    try:
        bench = _Bench(spark, folder)
        print(
            "\n| work | records | elapsed s | CPU s | CPU µs a record | peak GB |"
            "\n|---|---|---|---|---|---|"
        )
        for shape in options.shape:
            for count in options.records:
                _one(bench, shape, count, options)
    finally:
        spark.stop()
        shutil.rmtree(folder)
    return 0


def _one(bench: _Bench, shape: str, count: int, options: argparse.Namespace) -> None:
    json = not options.no_json and shape == options.shape[0]
    log = bench.make(count, shape, json=json)
    if json:
        bench.measure("hash of the JSON", count, bench.hash_json)
        bench.measure("the JSON into Parquet", count, bench.take_json)
    bench.measure(f"hash of the Parquet, {shape}", count, lambda: bench.hash_parquet(log))
    bench.measure(f"audit, {shape}", count, lambda: bench.audit(log))
    if options.warm_up:
        both, period = bench.make(2 * count, shape, json=False), later_half(2 * count)
        bench.measure(
            f"audit after a warm-up, {shape}", count, lambda: bench.audit(both, period=period)
        )
    if options.state:
        times, first, second = day_of(2 * count)
        bench.make(2 * count, shape, json=False, slower=times)
        part = bench.part("first", f"arrived_us < {first.end_us}")
        other = bench.part("second", f"arrived_us >= {second.begin_us}")
        keeps = bench.states.stage(1)
        bench.measure(
            f"audit that keeps a state, {shape}",
            count,
            lambda: bench.audit(part, period=first, ends=keeps),
        )
        bench.states.keep(keeps)
        state = next(bench.states.before(Day.of(second.end_us).after))
        size = sum(file.stat().st_size for file in Path(str(state.folder)).rglob("*.parquet"))
        print(f"| the state: {size:,} bytes |", flush=True)
        again = bench.states.stage(1)
        bench.measure(
            f"audit that begins with it and keeps the next, {shape}",
            count,
            lambda: bench.audit(other, period=second, before=state, ends=again),
        )


if __name__ == "__main__":
    sys.exit(main())
