"""Makes the events that `run_procedure.Procedure` goes through from records."""

from collections.abc import Collection
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from spark_jobs.procedure.run_procedure import (
    ANSWERED,
    ASKED,
    CLAIMED,
    LOST,
    READ,
    TAIL_US,
    TOLD,
    Event,
)
from spark_jobs.procedure.suspects import Liar
from spark_jobs.promise import CLUSTER_LEVELS, SCOPES, SEEN_LEVELS
from spark_jobs.tables.schema import NUMBERED, RUN

EVERY = (LOST, TOLD, CLAIMED, ANSWERED, ASKED, READ)


def happened(
    records: DataFrame, error_us: Column, which: Collection[int] = EVERY, *more: str
) -> DataFrame:
    """Find the events by which a proxy's procedure is judged.

    Args:
        records: NUMBERED, and the columns `more`.
        error_us: by how much the times of a record may be off. Within that, each time is taken in
            the proxy's favour.
        which: the kinds of events that are looked for.
        more: columns of the records that are kept.

    Returns:
        The columns of `run_procedure.Event`, and `more`.
    """
    statement, kind = fn.col("kind") == "statement", fn.col("kind")
    role, level, proof = fn.col("role"), fn.col("level"), fn.col("proof")
    observed, whole = fn.col("observed"), fn.col("whole")
    sent, ended = fn.col("dispatched_us"), fn.col("ended_us")
    on_replica, ok = role.eqNullSafe("replica"), fn.col("outcome") == "ok"
    probed = fn.when((kind == "proof") & (proof == "probed"), fn.col("proof_set")).when(
        statement & (observed != ""), observed
    )
    strict = level.isin(*CLUSTER_LEVELS, *SEEN_LEVELS)
    waited = (proof == "waited") & fn.col("proof_set").isNotNull()
    # Another proof follows a wait elsewhere, which counts in `wait_us` all the same.
    begun_us = sent + fn.when(proof == "waited", fn.col("wait_us")).otherwise(0)
    answered_us = fn.when(statement, sent + fn.col("wait_us")).otherwise(ended)
    shows = statement & (fn.col("class") == "read") & ok & (observed == "") & role.isNotNull()
    reads = fn.col("is_judged") & on_replica & strict & proof.isin("known", "waited")
    has_set, proof_set, nothing = probed.isNotNull(), fn.col("proof_set"), fn.lit("")
    events = [
        (fn.col("missing") > 0, LOST, fn.col("since_us"), nothing),
        (whole.isNotNull(), TOLD, ended - error_us, whole),
        (on_replica & waited, CLAIMED, answered_us, proof_set),
        (on_replica & has_set, CLAIMED, ended, probed),
        (on_replica & has_set, ASKED, fn.least(sent, ended) - error_us, probed),
        (shows, ANSWERED, ended + error_us, nothing),
        (reads, READ, sent, fn.coalesce(proof_set, nothing)),
    ]
    events = [event for event in events if event[1] in which]
    return (
        records.where(reduce(or_, (where for where, *_ in events)))
        .withColumn("arrived_us", fn.col("moment_us"))
        .withColumn("until_us", fn.greatest("since_us", "ended_us"))
        .withColumn("shown", fn.when(ok & (observed != ""), observed))
        .withColumn("event", fn.explode(fn.array_compact(fn.array(*map(_event, events)))))
        .select("*", "event.*")
        .withColumn(
            "asked_us",
            fn.when(fn.col("what") == ANSWERED, begun_us + error_us).otherwise(sent + 2 * error_us),
        )
        .select(*Event._fields, *more)
    )


def of_suspects(records: DataFrame, reads: DataFrame | None, liars: Collection[Liar]) -> DataFrame:
    """Find the events of some reads and servers, and those by which they are judged.

    This is for clocks that agree.

    Args:
        records: NUMBERED.
        reads: RUN and `seq` of some reads; None for none.
        liars: servers.

    Returns:
        The columns of `run_procedure.Event`: the reads, the sets that primaries told their proxies,
        the answers in the groups in which the reads are judged, and what the servers said.
    """
    parts: list[DataFrame] = []
    no_error = fn.lit(0)
    if reads is not None:
        proxies = reads.select("proxy").distinct()
        of_proxies = records.join(fn.broadcast(proxies), "proxy", "left_semi")
        parts.append(happened(of_proxies, no_error, (LOST, TOLD)))
        judged = happened(of_proxies, no_error, (READ,), "owed_in")
        judged = judged.join(fn.broadcast(reads), [*RUN, "seq"], "left_semi")
        parts.append(judged.drop("owed_in"))
        seen = judged.where(fn.col("level").isin(*SEEN_LEVELS))
        groups = seen.select(_group(fn.col("owed_in")).alias("group")).distinct()
        kinds = fn.explode(fn.array(*(fn.lit(kind) for kind in SCOPES)))
        answers = happened(of_proxies, no_error, (ANSWERED,)).withColumn("kind", kinds)
        answers = answers.withColumn("group", _group(fn.col("kind")))
        answers = answers.join(fn.broadcast(groups), "group", "left_semi")
        parts.append(answers.drop("group", "kind").distinct())
    if liars:
        names = (*RUN, "server_uuid", "incarnation")
        types = StructType([NUMBERED[name] for name in names])
        servers = records.sparkSession.createDataFrame(list(liars), types)
        same = reduce(
            and_, (fn.col(f"claim.{name}").eqNullSafe(fn.col(f"server.{name}")) for name in names)
        )
        claims = happened(records, no_error, (CLAIMED, ASKED)).alias("claim")
        claims = claims.join(fn.broadcast(servers.alias("server")), same, "left_semi")
        parts.append(claims.select("claim.*"))
    return reduce(DataFrame.unionByName, (part.select(*Event._fields) for part in parts))


def _group(kind: Column) -> Column:
    """A number for the event's group of this kind; null if it belongs to none."""
    keys = {
        "connection": (*RUN, "session"),
        "user": ("proxy", "user"),
        "application": ("proxy", "application"),
        "proxy": ("proxy",),
    }
    group = fn.lit(None).cast("bigint")
    for name, key in keys.items():
        belongs = kind == name
        if name == "application":
            belongs &= fn.coalesce(fn.col("application") != "", fn.lit(False))
        group = fn.when(belongs, fn.xxhash64(fn.lit(name), *key)).otherwise(group)
    return group


def needed(events: DataFrame, records: DataFrame) -> DataFrame:
    """Leave out events that say nothing new, and add the ends of runs.

    Args:
        events: columns of `run_procedure.Event`.
        records: NUMBERED, the records that the events were made from.
    """
    what, names = fn.col("what"), Event._fields
    remembers = (
        records.where(fn.col("is_judged") & fn.col("level").isin(*SEEN_LEVELS))
        .select(*RUN)
        .distinct()
    )
    # The first claim of each set is enough: many statements may wait for the same set.
    first = ("proxy", "worker", "run", "server_uuid", "incarnation", "gtids", "what")
    claims = (
        events.where(what == CLAIMED)
        .groupBy(*first)
        .agg(
            *(
                fn.min_by(name, fn.struct("at_us", "seq")).alias(name)
                for name in names
                if name not in first
            )
        )
    )
    # Answers matter only in runs with reads at levels that remember what was seen.
    answers = events.where(what == ANSWERED).join(fn.broadcast(remembers), [*RUN], "left_semi")
    rest = events.where(~what.isin(CLAIMED, ANSWERED))
    return (
        rest.select(*names)
        .unionByName(claims.select(*names))
        .unionByName(answers.select(*names))
        .unionByName(_ends(records), allowMissingColumns=True)
        .select(*names)
    )


def _ends(records: DataFrame) -> DataFrame:
    """The ends of runs: the last records before a crash may be missing from the log."""
    return (
        records.groupBy(*RUN)
        .agg(fn.max("seq").alias("seq"), fn.max("ended_us").alias("at_us"))
        .withColumns({"what": fn.lit(LOST), "until_us": fn.col("at_us") + TAIL_US})
    )


def _event(event: tuple[Column, int, Column, Column]) -> Column:
    where, what, at_us, gtids = event
    return fn.when(
        where,
        fn.struct(at_us.alias("at_us"), fn.lit(what).alias("what"), gtids.alias("gtids")),
    )
