"""Counts where statements went, and why."""

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.sql import among, literal
from spark_jobs.tables.report_schema import PINNED
from spark_jobs.tables.schema import ERRORS, FALLBACKS, MIX
from spark_jobs.traffic.quantiles import quantiles

DIMENSIONS: Final = ("level", "class", "role", "server", "reason", "proof")

KEPT: Final = ("session", "transaction", "prepared", "cursor", "pinned", "unknown_required")
"""Reasons for which a read goes to the primary, whatever the replicas have."""

_WORST: Final = 20


def mix(statements: DataFrame) -> DataFrame:
    """Count statements by the values of each dimension.

    Args:
        statements: RECORD.

    Returns:
        MIX: dimension by dimension, in each the most frequent value first; and ``fell_back``: how
        many of the statements were tried on another server before.
    """
    names = list(DIMENSIONS)
    cases = " ".join(f"when grouping({name}) = 0 then '{name}'" for name in names)
    counts = (
        f"case {cases} end as dimension",
        f"coalesce({', '.join(names)}) as value",
        "count(*) as statements",
        "count_if(outcome = 'error') as errors",
        "count_if(outcome = 'lost') as lost",
        "count_if(fallbacks != '') as fell_back",
        *quantiles("latency_us", "{}_us"),
    )
    ordinal = f"array_position(array({', '.join(map(literal, names))}), dimension)"
    return (
        statements.selectExpr(
            *(f"coalesce({name}, 'none') as {name}" for name in names),
            "outcome",
            "fallbacks",
            "ended_us - arrived_us as latency_us",
        )
        .groupingSets([[name] for name in names], *names)
        .agg(*map(fn.expr, counts))
        .selectExpr("*", "statements / sum(statements) over (partition by dimension) as share")
        .orderBy(fn.expr(ordinal), fn.desc("statements"), "value")
        .selectExpr(*MIX.names, "fell_back")
    )


def fallbacks(statements: DataFrame) -> DataFrame:
    """Count the servers that were tried before another one answered.

    Args:
        statements: RECORD.

    Returns:
        FALLBACKS: the most frequent first; and ``reads``: how many of the statements were reads.
    """
    # The server's name contains a colon, too.
    server, reason = "regexp_replace(attempt, ':[^:]*$', '')", "substring_index(attempt, ':', -1)"
    return (
        statements.where("fallbacks != ''")
        .selectExpr("class", "explode(split(fallbacks, ',')) as attempt")
        .selectExpr("class", f"{server} as server", f"{reason} as reason")
        .groupBy("server", "reason")
        .agg(fn.expr("count(*) as statements"), fn.expr("count_if(class = 'read') as reads"))
        .orderBy(fn.desc("statements"), "server", "reason")
        .selectExpr(*FALLBACKS.names, "reads")
    )


def errors(statements: DataFrame) -> DataFrame:
    """Count statements that did not end well.

    Args:
        statements: RECORD.

    Returns:
        ERRORS: the most frequent first.
    """
    keys = ("outcome", "error_code", "role")
    return (
        statements.where("outcome != 'ok'")
        .selectExpr("outcome", "error_code", "coalesce(role, 'none') as role")
        .groupBy(*keys)
        .agg(fn.expr("count(*) as statements"))
        .orderBy(fn.desc("statements"), *keys)
        .selectExpr(*ERRORS.names)
    )


def may_be_pinned(mix: Iterable[Mapping[str, object]]) -> bool:
    """Whether `pinned` may find anything, given the rows of `mix`."""
    return any(
        row["fell_back"] or (row["dimension"] == "reason" and row["value"] in KEPT) for row in mix
    )


def pinned(statements: DataFrame) -> DataFrame:
    """Find the reads that are most often kept on the primary or fall back, and their users.

    Args:
        statements: RECORD.

    Returns:
        PINNED, and ``by_user``: twenty rows at most by digest and user, where that is false, and as
        many by user alone, whose ``digest`` is null.
    """
    on_primary = "role <=> 'primary'"
    counts = {
        "reads": "count(*)",
        "on_primary": f"count_if({on_primary})",
        "kept": f"count_if({on_primary} and {among('reason', KEPT)})",
        "fell_back": "count_if(fallbacks != '')",
        "total_us": "sum(ended_us - arrived_us)",
    }
    # Of equally frequent reasons, the first by name.
    frequency = "if(on_primary > 0, struct(-on_primary, reason), null)"
    place = "partition by by_user order by kept + fell_back desc, digest, user"
    return (
        statements.where("class = 'read'")
        .groupingSets(
            [["digest", "user", "reason"], ["user", "reason"]], "digest", "user", "reason"
        )
        .agg(
            fn.expr("grouping(digest) = 1 as by_user"),
            *(fn.expr(f"{count} as {name}") for name, count in counts.items()),
        )
        .groupBy("by_user", "digest", "user")
        .agg(
            *(fn.expr(f"sum({name}) as {name}") for name in counts),
            fn.expr(f"min_by(reason, {frequency}) as reason"),
        )
        .where("kept + fell_back > 0")
        .selectExpr("*", f"row_number() over ({place}) as place")
        .where(f"place <= {_WORST}")
        .orderBy("by_user", "place")
        .selectExpr(*PINNED.names, "by_user")
    )
