"""Makes the events that `run_procedure.Procedure` goes through from records."""

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

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
from spark_jobs.procedure.suspects import Suspects
from spark_jobs.promise import CLUSTER_LEVELS, SCOPES, SEEN_LEVELS
from spark_jobs.reads import backing, groups
from spark_jobs.sql import among, any_of
from spark_jobs.tables.schema import RUN

EVERY: Final = dict.fromkeys((LOST, TOLD, CLAIMED, ANSWERED, ASKED, READ), "true")
"""SQL for each kind of event: of which records it is looked for."""


def happened(records: DataFrame, error_us: str, which: Mapping[int, str] = EVERY) -> DataFrame:
    """Find the events by which a proxy's procedure is judged.

    Args:
        records: NUMBERED, and what `which` compares.
        error_us: SQL: by how much the times of a record may be off. Within that, each time is taken
            in the proxy's favour.
        which: the kinds of events that are looked for, as EVERY has them.

    Returns:
        The columns of `run_procedure.Event`.
    """
    statement, on_replica, ok = "kind = 'statement'", "role <=> 'replica'", "outcome = 'ok'"
    probed = (
        "case when kind = 'proof' and proof = 'probed' then proof_set "
        f"when {statement} and observed != '' then observed end"
    )
    waited = "proof = 'waited' and proof_set is not null"
    # Another proof follows a wait elsewhere, which counts in `wait_us` all the same.
    begun_us = "dispatched_us + if(proof = 'waited', wait_us, 0)"
    answered_us = f"if({statement}, dispatched_us + wait_us, ended_us)"
    shows = f"{statement} and class = 'read' and {ok} and observed = '' and role is not null"
    strict = among("level", (*CLUSTER_LEVELS, *SEEN_LEVELS))
    reads = f"is_judged and {on_replica} and {strict} and proof in ('known', 'waited')"
    has_set = f"{on_replica} and ({probed}) is not null"
    events = (
        ("missing > 0", LOST, "since_us", "''"),
        ("whole is not null", TOLD, f"ended_us - {error_us}", "whole"),
        (f"{on_replica} and {waited}", CLAIMED, answered_us, "proof_set"),
        (has_set, CLAIMED, "ended_us", probed),
        (has_set, ASKED, f"least(dispatched_us, ended_us) - {error_us}", probed),
        (shows, ANSWERED, f"ended_us + {error_us}", "''"),
        (reads, READ, "dispatched_us", "coalesce(proof_set, '')"),
    )
    wanted = [
        (f"({where}) and {which[what]}", at_us, what, gtids)
        for where, what, at_us, gtids in events
        if what in which
    ]
    made = ", ".join(
        f"if({where}, struct({at_us} as at_us, {what} as what, {gtids} as gtids), null)"
        for where, at_us, what, gtids in wanted
    )
    sent_us = f"dispatched_us + 2 * {error_us}"
    values = {
        "arrived_us": "moment_us",
        "asked_us": f"if(what = {ANSWERED}, {begun_us} + {error_us}, {sent_us})",
        "until_us": "greatest(since_us, ended_us)",
        "shown": f"if({ok} and observed != '', observed, null)",
    }
    return (
        records.where(any_of(where for where, *_ in wanted))
        .selectExpr("*", f"inline(array_compact(array({made})))")
        .selectExpr(*(f"{values.get(name, name)} as {name}" for name in Event._fields))
    )


def of_suspects(records: DataFrame, suspects: Suspects) -> DataFrame:
    """Find the events of suspects, and those by which they are judged.

    This is for clocks that agree.

    Args:
        records: NUMBERED.
        suspects: some reads or servers.

    Returns:
        The columns of `run_procedure.Event`: the reads, the sets that primaries told their proxies,
        the answers in the groups in which the reads are judged, and what the servers said.
    """
    which: dict[int, str] = {}
    if suspects.reads is not None:
        of_proxies = among("proxy", suspects.proxies)
        which |= {LOST: of_proxies, TOLD: of_proxies, READ: "is_suspect"}
        if suspects.groups is None:
            which[ANSWERED] = of_proxies
        elif suspects.groups:
            which[ANSWERED] = any_of(_belongs(kind, suspects.groups) for kind in SCOPES)
        reads = suspects.reads.selectExpr(*RUN, "seq", "true as is_suspect")
        # Spark broadcasts them if they are few; a bad night may have millions.
        records = records.join(reads, [*RUN, "seq"], "left")
    if suspects.liars is None:
        which |= dict.fromkeys((CLAIMED, ASKED), "true")
    elif suspects.liars:
        of_liars = f"{backing.NUMBER} in ({', '.join(map(str, suspects.liars))})"
        which |= dict.fromkeys((CLAIMED, ASKED), of_liars)
    return happened(records, "0", which)


def _belongs(kind: str, numbers: Iterable[int]) -> str:
    """SQL: whether a record's group of a kind is among some."""
    belongs = f"{groups.number_of(kind)} in ({', '.join(map(str, numbers))})"
    return f"application != '' and {belongs}" if kind == "application" else belongs


def needed(events: DataFrame, records: DataFrame) -> DataFrame:
    """Leave out events that say nothing new, and add the ends of runs.

    Args:
        events: columns of `run_procedure.Event`.
        records: NUMBERED, the records that the events were made from.
    """
    names = Event._fields
    # The first claim of each set is enough: many statements may wait for the same set.
    key = ("proxy", "worker", "run", "server_uuid", "incarnation", "gtids", "what")
    others = ", ".join(name for name in names if name not in key)
    claims = (
        events.where(f"what = {CLAIMED}")
        .groupBy(*key)
        .agg(fn.expr(f"min_by(struct({others}), struct(at_us, seq)) as first"))
        .selectExpr(*key, "first.*")
    )
    # Answers matter only in runs with reads at levels that remember what was seen.
    remembers = records.where(f"is_judged and {among('level', SEEN_LEVELS)}").select(*RUN)
    answers = events.where(f"what = {ANSWERED}")
    answers = answers.join(fn.broadcast(remembers.distinct()), [*RUN], "left_semi")
    return (
        events.where(f"what not in ({CLAIMED}, {ANSWERED})")
        .unionByName(claims)
        .unionByName(answers)
        .unionByName(_ends(records), allowMissingColumns=True)
        .select(*names)
    )


def _ends(records: DataFrame) -> DataFrame:
    """The ends of runs: the last records before a crash may be missing from the log."""
    ended = f"max(seq) as seq, max(ended_us) as at_us, max(ended_us) + {TAIL_US} as until_us"
    return (
        records.groupBy(*RUN)
        .agg(*map(fn.expr, ended.split(", ")))
        .selectExpr("*", f"{LOST} as what")
    )
