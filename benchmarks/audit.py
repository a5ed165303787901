"""What the nightly audit costs: ``python -m benchmarks.audit``.

Logs of 1, 3 and 10 million records are judged from Parquet, by columns and by the judge alone.
Beside that stands what a plain hash of all columns takes, of the same Parquet and of the same
records as JSON. Figures are processor time (of Java and of the Python workers) and elapsed time.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.audit_log import SHAPES, records
from benchmarks.processor import cpu_seconds
from benchmarks.report import machine
from spark_jobs.spark_session import start_spark, what_is_missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SIZES: Final = (1_000_000, 3_000_000, 10_000_000)


class _Bench:
    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._java: int = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]  # Java

    def measure(self, name: str, count: int, work: Callable[[], None]) -> None:
        """Do it and print a row."""
        cpu, began = cpu_seconds(self._java), time.monotonic()
        work()
        cpu, elapsed = cpu_seconds(self._java) - cpu, time.monotonic() - began
        print(
            f"| {name} | {count:,} | {elapsed:.1f} | {cpu:.1f} | {cpu / count * 1e6:.1f} |",
            flush=True,
        )

    def make(self, count: int, shape: str, *, json: bool) -> "DataFrame":
        """Make a log, as NUMBERED in Parquet; with its JSON if wanted."""
        from pyspark.sql import functions as fn

        from spark_jobs import ingest

        made = records(self._spark, count, shape)
        if json:
            made.write.mode("overwrite").json(str(self._folder / "json"), ignoreNullFields=False)
        path = str(self._folder / "records")
        numbered = ingest.number(
            made.withColumns({"file": fn.lit("log"), "fingerprint": fn.xxhash64("run", "seq")})
        )
        numbered.write.mode("overwrite").parquet(path)
        return self._spark.read.parquet(path)

    def hash_parquet(self, numbered: "DataFrame") -> None:
        """Hash every column of the log."""
        from pyspark.sql import functions as fn

        numbered.select(fn.bit_xor(fn.xxhash64(*numbered.columns))).collect()

    def hash_json(self) -> None:
        """Hash every column of the log, from its JSON."""
        from pyspark.sql import functions as fn

        from spark_jobs.schema import RECORD

        lines = self._spark.read.schema(RECORD).json(str(self._folder / "json"))
        lines.select(fn.bit_xor(fn.xxhash64(*RECORD.names))).collect()

    def audit(self, numbered: "DataFrame", *, by_judge: bool) -> None:
        """Judge every read, and keep the verdicts."""
        from spark_jobs import consistency_audit, primary_history

        history = primary_history.learn(numbered, plainly=not by_judge)
        out = str(self._folder / "reads")
        consistency_audit.transform(numbered, history).write.mode("overwrite").parquet(out)
        history.past.unpersist()
        judged = self._spark.read.parquet(out)
        told = judged.groupBy("verdict").count().collect()
        wrong = {row["verdict"]: row["count"] for row in told if row["verdict"] != "ok"}
        if wrong:
            raise AssertionError(f"the log is clean, and the audit says {wrong}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=_SIZES, metavar="N")
    parser.add_argument("--shape", choices=SHAPES, nargs="+", default=["connection", "one scope"])
    parser.add_argument("--only", choices=("columns", "judge"), help="leave out the other")
    parser.add_argument("--no-json", action="store_true", help="leave out the hash of the JSON")
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
        print("\n| work | records | elapsed s | CPU s | CPU µs a record |\n|---|---|---|---|---|")
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
    bench.measure(f"hash of the Parquet, {shape}", count, lambda: bench.hash_parquet(log))
    if options.only != "judge":
        bench.measure(f"by columns, {shape}", count, lambda: bench.audit(log, by_judge=False))
    if options.only != "columns":
        bench.measure(f"by the judge, {shape}", count, lambda: bench.audit(log, by_judge=True))


if __name__ == "__main__":
    sys.exit(main())
