"""Sums up how long reads waited, when, and what other levels would have shown or cost."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.day import HOUR_US
from spark_jobs.promise import PROMISES
from spark_jobs.sql import among
from spark_jobs.tables.report_schema import HOURS, WAITS, WRITTEN
from spark_jobs.tables.schema import LAG
from spark_jobs.traffic.quantiles import begin_of, quantiles

MINUTE_US: Final = 60_000_000

_WORST: Final = 10
_WRITTEN: Final = 3

_WAITED: Final = "(proof = 'waited' or wait_us > 0)"

_SUMS: Final = (
    "count(*) as reads",
    "count(waited_us) as waited",
    "coalesce(sum(waited_us), 0L) as wait_total_us",
    "count(fallback_us) as fell_back",
    "coalesce(sum(fallback_us), 0L) as fallback_total_us",
)

Rows = Sequence[Mapping[str, object]]


def waits(statements: DataFrame) -> DataFrame:
    """Sum up by level how long reads waited, and how much time fallbacks to other servers cost.

    Args:
        statements: RECORD.

    Returns:
        WAITS: the level that cost most first.
    """
    sums = (
        *_SUMS,
        *quantiles("waited_us", "wait_{}_us"),
        *quantiles("fallback_us", "fallback_{}_us"),
    )
    return (
        _costs(statements)
        .groupBy("level")
        .agg(*map(fn.expr, sums))
        .orderBy(fn.desc("wait_total_us"), "level")
        .selectExpr(*WAITS.names)
    )


def minutes(statements: DataFrame) -> DataFrame:
    """Find the minutes in which reads lost most time.

    Args:
        statements: RECORD.

    Returns:
        MINUTES without `writes` and `written`: ten rows at most, the worst first.
    """
    lost = "wait_total_us + fallback_total_us"
    return (
        _costs(statements)
        .groupBy("minute_us")
        .agg(*map(fn.expr, (*_SUMS, "max(waited_us) as wait_max_us")))
        .where(f"{lost} > 0")
        .orderBy(fn.expr(lost).desc(), "minute_us")
        .limit(_WORST)
    )


def written(statements: DataFrame, worst: Collection[int]) -> DataFrame:
    """Find out what was written in some minutes.

    Args:
        statements: RECORD.
        worst: the begins of the minutes, µs.

    Returns:
        ``minute_us``, ``writes`` (how many statements wrote) and ``written`` (`MINUTES`).
    """
    row = f"struct({', '.join(f'row.{name}' for name in WRITTEN.names)})"
    by_rank = "partition by minute_us order by writes desc, digest, schema, user"
    ranked = f"if(rank <= {_WRITTEN}, struct(rank, {', '.join(WRITTEN.names)}), null)"
    found = f"transform(array_sort(collect_list({ranked})), row -> {row})"
    kind = f"array<{WRITTEN.simpleString()}>"
    minute = begin_of(MINUTE_US, "arrived_us")
    return (
        statements.where("class = 'write' and outcome = 'ok'")
        .selectExpr(f"{minute} as minute_us", "coalesce(digest, '') as digest", "schema", "user")
        .where(f"minute_us in ({', '.join(map(str, worst))})")
        .groupBy("minute_us", "digest", "schema", "user")
        .agg(fn.expr("count(*) as writes"))
        .selectExpr("*", f"row_number() over ({by_rank}) as rank")
        .groupBy("minute_us")
        .agg(fn.expr("sum(writes) as writes"), fn.expr(f"cast({found} as {kind}) as written"))
    )


def with_written(worst: Rows, found: Rows) -> list[dict[str, object]]:
    """Add to minutes what was written in them.

    Args:
        worst: the rows of `minutes`.
        found: the rows of `written`.

    Returns:
        MINUTES.
    """
    nothing: dict[str, object] = {"writes": 0, "written": []}
    by_minute = {row["minute_us"]: row for row in found}
    return [{**row, **nothing, **by_minute.get(row["minute_us"], {})} for row in worst]


def probes(records: DataFrame) -> DataFrame:
    """Find out how long questions to the primary took.

    Args:
        records: RECORD.

    Returns:
        One row: ``p50``, ``p95``, ``p99`` and ``max``, µs; null if there was no question.
    """
    asked = records.where("kind = 'proof' and proof = 'probed' and role = 'primary'")
    return asked.agg(*map(fn.expr, quantiles("ended_us - dispatched_us", "{}")))


def lag(reads: DataFrame) -> DataFrame:
    """Sum up the waits by server and proof.

    ``since_write`` runs from the newest acknowledged write of the read's group to the WAIT's
    answer, so it is an upper bound of the replication lag that the read saw. A wait that ran out is
    counted for the server that answered in the end.

    Args:
        reads: JUDGED.

    Returns:
        LAG, of the servers whose reads waited.
    """
    sums = (
        "count(*) as reads",
        *quantiles("wait_us", "wait_{}_us"),
        "count(since_write_us) as after_write",
        *quantiles("since_write_us", "since_write_{}_us"),
    )
    return (
        reads.where(_WAITED)
        .selectExpr("coalesce(server, 'none') as server", "proof", "wait_us", "since_write_us")
        .groupBy("server", "proof")
        .agg(*map(fn.expr, sums))
        .orderBy("server", "proof")
        .selectExpr(*LAG.names)
    )


def hours(reads: DataFrame) -> DataFrame:
    """Sum up the waits by hour and server.

    Args:
        reads: JUDGED.

    Returns:
        HOURS.
    """
    sums = (
        "count(*) as reads",
        "count(waited_us) as waited",
        *quantiles("waited_us", "wait_{}_us"),
        *quantiles("since_write_us", "since_write_{}_us"),
    )
    return (
        reads.where("server is not null")
        .selectExpr(
            f"{begin_of(HOUR_US, 'arrived_us')} as hour_us",
            "server",
            f"if({_WAITED}, wait_us, null) as waited_us",
            "since_write_us",
        )
        .groupBy("hour_us", "server")
        .agg(*map(fn.expr, sums))
        .orderBy("hour_us", "server")
        .selectExpr(*HOURS.names)
    )


def exposed(reads: DataFrame) -> DataFrame:
    """Find by replica how many reads may have missed a write at BEST_EFFORT, and how old it was.

    Args:
        reads: JUDGED.

    Returns:
        The columns ``server`` to ``age_max_us`` of FOREGONE.
    """
    promised = sorted(set(PROMISES) - {"STRONG"})
    may_miss = "proof = 'waited' and since_write_us is not null"
    age = f"if({may_miss}, greatest(0, since_write_us - wait_us), null)"
    sums = (
        "count(*) as reads",
        "count(age_us) as exposed",
        *quantiles("age_us", "age_{}_us"),
    )
    return (
        reads.where(f"role = 'replica' and {among('level', promised)}")
        .selectExpr("server", f"{age} as age_us")
        .groupBy("server")
        .agg(*map(fn.expr, sums))
    )


def foregone(shown: Rows, fell_back: Rows, probe: Mapping[str, object], lags: Rows) -> Rows:
    """Estimate what BEST_EFFORT would have shown, and what STRONG would have cost.

    At BEST_EFFORT a read would not have waited. When a read that waited was sent, its server may
    have lacked what it waited for, so `exposed` is an upper bound of the stale reads. When the wait
    ran out, the server certainly lacked it, so ``late`` is a lower bound. At STRONG a read waits
    until the primary has been asked after the read's arrival, and then, while something is being
    written, until its server has that.

    Args:
        shown: the rows of `exposed`.
        fell_back: the rows of `routing_mix.fallbacks`.
        probe: the row of `probes`.
        lags: rows of `schema.REPLICATION`.

    Returns:
        FOREGONE.
    """
    by_server = {str(row["server"]): row for row in shown}
    too_late = {
        str(row["server"]): row["reads"]
        for row in fell_back
        if row["reads"] and row["reason"] == "wait_timeout"
    }
    nothing: dict[str, object] = {"reads": 0, "exposed": 0}
    nothing |= dict.fromkeys(f"age_{which}_us" for which in ("p50", "p95", "p99", "max"))
    rows: list[Mapping[str, object]] = []
    for server in sorted({*by_server, *too_late}):
        row = {**nothing, **by_server.get(server, {}), "server": server}
        row["late"] = too_late.get(server, 0)
        for which in ("p50", "p99"):
            took, lagged = probe[which], _greatest(lags, server, which)
            row[f"probe_{which}_us"] = took
            row[f"lag_{which}_us"] = lagged
            row[f"strong_{which}_us"] = took + (lagged or 0) if isinstance(took, int) else None
        rows.append(row)
    return rows


def _greatest(lags: Rows, server: str, which: str) -> int | None:
    found = [row[f"end_to_end_{which}_us"] for row in lags if row["server"] == server]
    return max((lag for lag in found if isinstance(lag, int)), default=None)


def _costs(statements: DataFrame) -> DataFrame:
    """Reads, with the time that each waited and lost by fallbacks; null where it did not."""
    lost = "greatest(0, dispatched_us - arrived_us)"
    return statements.where("class = 'read'").selectExpr(
        "level",
        f"{begin_of(MINUTE_US, 'arrived_us')} as minute_us",
        f"if({_WAITED}, wait_us, null) as waited_us",
        f"if(fallbacks != '', {lost}, null) as fallback_us",
    )
