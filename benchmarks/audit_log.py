"""A routing log of any length for benchmarks, computed by Spark as columns.

Sessions take turns and repeat five statements: a write, a read that waits for it, two reads that
rely on what the monitor last saw of a replica, and one on the primary. At MONOTONIC_READS each
answer reports its server's whole set; before each read at STRONG that a replica answers, the
primary is asked. Required sets are as a proxy keeps them: up to eight intervals, whose gaps are
closed when there are more. The log has no violations.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from spark_jobs.day import DAY_US, Hours
from spark_jobs.tables.schema import RECORD

SHAPES: Final = ("connection", "mixed", "one scope")
"""connection: every read is owed its session's writes. mixed: all levels and scopes. one scope: all
reads are owed everything that was written through the one proxy."""

_UUID: Final = "168066ae-e53d-11f1-b607-02fc0000000"
_FROM_US: Final = 1_795_996_800_000_000  # 2026-11-30 00:00:00 UTC
_EVERY_US: Final = 100
_WORKERS: Final = 2
_SESSIONS: Final = 1000
_LOOK_EVERY: Final = 500
"""Statements of a worker between two looks of its monitor at all three servers."""

_STRONG: Final = 10
"""In mixed logs, one session in ten reads at STRONG; in three of five rounds, from a replica."""

_PATTERN: Final = 5
_CLOSED_ABOVE: Final = 8


def records(spark: SparkSession, count: int, shape: str) -> DataFrame:
    """Make RECORD: about `count` of them, in the order of their times within each worker."""
    mixed = shape == "mixed"
    questions = _LOOK_EVERY * 3 // _PATTERN // _STRONG if mixed else 0
    statements = count * _LOOK_EVERY // (_LOOK_EVERY + 3 + questions)
    number = fn.col("id")
    base = spark.range(statements, numPartitions=max(4, count // 500_000)).select(
        number.alias("i"),
        (number % _SESSIONS).alias("s"),
        fn.expr(f"id div {_SESSIONS} + 1").alias("o"),
    )
    looks = spark.range(-(-statements // (_LOOK_EVERY * _WORKERS)) * _WORKERS * 3, numPartitions=2)
    made = _statements(base, shape).unionByName(_looks(looks, mixed=mixed))
    return (made.unionByName(_questions(base)) if mixed else made).select(RECORD.names)


def slowed(log: DataFrame, times: int) -> DataFrame:
    """The log with all times stretched by the factor `times`."""
    later = {
        name: (fn.col(name) - _FROM_US) * times + _FROM_US
        for name in ("arrived_us", "dispatched_us", "ended_us")
    }
    longer = {name: fn.col(name) * times for name in ("wait_us", "bound_us")}
    return log.withColumns(later | longer)


def day_of(count: int) -> tuple[int, Hours, Hours]:
    """The factor that makes a log two days long, and its days, each with half of the records."""
    times = -(-DAY_US // (count // 2 * _EVERY_US))
    middle, end = (_FROM_US + part * _EVERY_US * times for part in (count // 2, count))
    return times, Hours(_FROM_US, middle), Hours(middle, end)


def later_half(count: int) -> Hours:
    """When the later half of the records of such a log arrive."""
    return Hours(_FROM_US + count // 2 * _EVERY_US, _FROM_US + count * _EVERY_US)


def _written(i: str) -> str:
    """How many writes came before the statement with this number."""
    s, o = f"({i} % {_SESSIONS})", f"({i} div {_SESSIONS})"
    return (
        f"({o} * {_SESSIONS // _PATTERN} + "
        f"({s} - pmod(-({o} + 1), {_PATTERN}) + {_PATTERN - 1}) div {_PATTERN})"
    )


def _asked(rounds: str) -> str:
    """In a mixed log: how many reads at STRONG asked the primary in all earlier rounds."""
    return (
        f"({_SESSIONS // _STRONG} * (({rounds} - 1) div {_PATTERN} * 3 "
        f"+ greatest(0, ({rounds} - 1) % {_PATTERN} - 2)))"
    )


_ASKS: Final = f"(s % {_STRONG} = 8 and (o + s) % {_PATTERN} in (1, 2, 3))"
"""Whether a statement of a mixed log is a read at STRONG that a replica answers."""

# All sessions that read at STRONG belong to one worker, and have the same turn.
_QUESTIONS: Final = (
    f"if(s % {_WORKERS} > 0, 0, {_asked('o')} + "
    f"if((o + 8) % {_PATTERN} in (1, 2, 3), (s + 1) div {_STRONG}, 0))"
)
"""How many of its worker's questions come before a statement of a mixed log, without its own."""


def _seq(questions: str) -> Column:
    """Number of a statement in its run."""
    looks = f"(i div {_WORKERS} div {_LOOK_EVERY} + 1) * 3"
    return fn.expr(f"i div {_WORKERS} + {looks} + 1 + {questions}")


def _questions(base: DataFrame) -> DataFrame:
    """In a mixed log: the primary is asked for its set before a read at STRONG."""
    arrived = fn.col("i") * _EVERY_US + _FROM_US
    worker = fn.col("s") % _WORKERS
    columns = {
        "kind": fn.lit("proof"),
        "proxy": fn.lit("gate"),
        "worker": worker,
        "run": fn.concat(fn.lit("a"), worker),
        "seq": _seq(_QUESTIONS),
        "arrived_us": arrived + 1,
        "dispatched_us": arrived + 1,
        "ended_us": arrived + 8,
        "proof": fn.lit("probed"),
        "proof_set": fn.concat(
            fn.lit(f"{_UUID}1:1-"), fn.expr(f"greatest(1, {_written('i')})").cast("string")
        ),
    }
    return _record(base.where(_ASKS).withColumns(_served(fn.lit(1))), columns)


def _statements(base: DataFrame, shape: str) -> DataFrame:
    current, session = fn.expr(f"(o + s) % {_PATTERN}"), fn.col("s")
    write, waits, known = current == 0, current == 1, current.isin(2, 3)
    # The session's own writes: how many there are so far, and how many of them have been closed to
    # one interval.
    first = f"if(s % {_PATTERN} = 0, {_PATTERN}, {_PATTERN} - s % {_PATTERN})"
    base = base.withColumn("first", fn.expr(first)).withColumn(
        "writes", fn.expr(f"greatest(0, (o - first + {_PATTERN}) div {_PATTERN})")
    )
    number = f"({_written(f'((first + {_PATTERN} * (x - 1) - 1) * {_SESSIONS} + s)')} + 1)"
    more = f"writes - {_CLOSED_ABOVE + 1}"
    closed = (
        f"if({more} < 0, 0, {_CLOSED_ABOVE + 1} + {_CLOSED_ABOVE} * (({more}) div {_CLOSED_ABOVE}))"
    )
    own = fn.expr(
        f"if(writes = 0, '', concat_ws(':', '{_UUID}1', if({closed} = 0, null, concat("
        f"element_at(transform(array(1), x -> {number}), 1), '-', "
        f"element_at(transform(array({closed}), x -> {number}), 1))), "
        f"if({closed} = writes, null, array_join(transform(sequence({closed} + 1, writes), "
        f"x -> {number}), ':'))))"
    )
    all_before = fn.expr(f"if({_written('i')} = 0, '', concat('{_UUID}1:1-', {_written('i')}))")
    block = f"(i div {_LOOK_EVERY * _WORKERS} * {_LOOK_EVERY * _WORKERS})"
    seen = fn.concat(fn.lit(f"{_UUID}1:1-"), fn.expr(f"greatest(1, {_written(block)})"))
    level, scope = fn.lit("READ_OWN_WRITES"), fn.lit("connection")
    wide, remembers = fn.lit(False), fn.lit(False)
    if shape == "one scope":
        scope, wide = fn.lit("proxy"), fn.lit(True)
    elif shape == "mixed":
        kind = session % 10
        wide, remembers = kind >= 6, kind == 9
        level = fn.when(kind == 8, "STRONG").when(kind == 9, "MONOTONIC_READS").otherwise(level)
        scope = fn.when(kind == 6, "user").when(kind == 7, "application").otherwise(scope)
    required = fn.when(write, "").when(wide, all_before).otherwise(own)
    # What the monitor last saw never covers all that others have written by now.
    relies, waits = known & ~wide, waits | (known & wide)
    primary = write | (current == 4)
    replica = session % 2 + 2
    server = fn.when(primary, 1).otherwise(replica)
    worker = session % _WORKERS
    questions = f"{_QUESTIONS} + if({_ASKS}, 1, 0)" if shape == "mixed" else "0"
    arrived = fn.col("i") * _EVERY_US + _FROM_US
    none = fn.lit(None)
    columns = {
        "kind": fn.lit("statement"),
        "proxy": fn.lit("gate"),
        "worker": worker,
        "run": fn.concat(fn.lit("a"), worker),
        "seq": _seq(questions),
        "ordinal": fn.col("o"),
        "session": session + 1,
        "user": fn.lit("app") if shape == "one scope" else fn.concat(fn.lit("app"), session % 50),
        "schema": fn.lit("shop"),
        "scope": scope,
        "scope_key": fn.concat(fn.lit("a"), worker, fn.lit("/"), session + 1),
        "application": fn.concat(fn.lit("till"), session % 200),
        "level": level,
        "command": fn.lit("COM_QUERY"),
        "class": fn.when(write, "write").otherwise("read"),
        "digest": fn.lpad(fn.hex(fn.xxhash64(current)), 16, "0"),
        "may_write": write,
        "arrived_us": arrived,
        "dispatched_us": arrived + 10,
        "ended_us": arrived + 60,
        "required": required,
        "reason": fn.when(write, "write").when(current == 4, "replica_behind").otherwise("read"),
        "proof": fn.when(primary, "primary").when(relies, "known").otherwise("waited"),
        "proof_set": fn.when(primary, none).when(relies, seen).otherwise(required),
        "wait_us": fn.when(waits, 20).otherwise(0),
        "outcome": fn.lit("ok"),
        "own_gtids": fn.when(
            write & ~remembers, fn.concat(fn.lit(f"{_UUID}1:"), fn.expr(_written("i")) + 1)
        ).otherwise(""),
        "own_known": ~(write & remembers),
        # A session that tracks ALL_GTIDS is told the server's whole set, not its own writes.
        "observed": fn.when(
            remembers & write, fn.concat(fn.lit(f"{_UUID}1:1-"), fn.expr(_written("i")) + 1)
        )
        .when(remembers, all_before)
        .otherwise(""),
        "bytes": fn.lit(180),
        "rows": fn.when(write, none).otherwise(1),
    }
    return _record(base.withColumns(_served(server)), columns)


def _looks(base: DataFrame, *, mixed: bool) -> DataFrame:
    """Each worker's monitor asks the primary and both replicas for their sets."""
    worker, which = fn.expr(f"id div 3 % {_WORKERS}"), fn.expr("id % 3")
    block = fn.expr(f"id div {3 * _WORKERS}")
    at = f"(id div {3 * _WORKERS} * {_LOOK_EVERY * _WORKERS})"
    # The round that begins now is not counted.
    earlier = _asked(f"(id div {3 * _WORKERS} + 1)")
    questions = f"if(id div 3 % {_WORKERS} > 0, 0, {earlier})" if mixed else "0"
    asked_us = fn.expr(at) * _EVERY_US + _FROM_US - 50
    written = fn.expr(f"greatest(1, {_written(at)})")
    columns = {
        "kind": fn.lit("proof"),
        "proxy": fn.lit("gate"),
        "worker": worker,
        "run": fn.concat(fn.lit("a"), worker),
        "seq": block * (_LOOK_EVERY + 3) + which + 1 + fn.expr(questions),
        "arrived_us": asked_us,
        "dispatched_us": asked_us,
        "ended_us": asked_us + 30,
        "proof": fn.lit("probed"),
        "proof_set": fn.concat(fn.lit(f"{_UUID}1:1-"), written),
    }
    return _record(base.withColumns(_served(which + 1)), columns)


def _served(server: Column) -> dict[str, Column]:
    return {
        "server": fn.concat(fn.lit("r"), server, fn.lit(":3306")),
        "server_uuid": fn.concat(fn.lit(_UUID), server),
        "incarnation": fn.lit(1),
        "role": fn.when(server == 1, "primary").otherwise("replica"),
    }


def _record(rows: DataFrame, columns: dict[str, Column]) -> DataFrame:
    """All columns of a record: these, and for the others what the proxy writes by default."""
    empty = {"string": fn.lit(""), "bigint": fn.lit(0), "boolean": fn.lit(False)}
    named = {**columns, "v": fn.lit(1), **{name: fn.col(name) for name in _served(fn.lit(1))}}
    return rows.select(
        *(
            named.get(
                field.name,
                fn.lit(None) if field.nullable else empty[field.dataType.simpleString()],
            )
            .cast(field.dataType)
            .alias(field.name)
            for field in RECORD
        )
    )
