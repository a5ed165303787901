"""Checks whether the proxy kept to the procedure, whatever the reads' verdicts are.

A read may have seen all that it had to by luck. The promise was kept only if it was proved, and a
proof takes steps that the log shows: the primary was asked in time; when a read left a replica, a
question to the primary bounded what had been seen there; and nothing that a server claimed is
contradicted by what it showed later. `run_procedure.Procedure` has the rules. It goes through each
proxy's records in the order of their times.
"""

from collections.abc import Collection
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.ordered_pass import ordered_pass
from spark_jobs.procedure import false_proofs, procedure_events
from spark_jobs.procedure.false_proofs import FalseProofs
from spark_jobs.procedure.run_procedure import Procedure
from spark_jobs.procedure.suspects import Suspects
from spark_jobs.promise import CLUSTER_LEVELS
from spark_jobs.scratch import rewritten
from spark_jobs.sql import among
from spark_jobs.storage import Folder
from spark_jobs.tables import small_table
from spark_jobs.tables.schema import LAPSED, NUMBERED, PROCEDURE, RUN
from spark_jobs.verdict import Lapse

_ORDER: Final = ("at_us", "what", "worker", "run", "seq")


def transform(
    records: DataFrame,
    scratch: Folder,
    clock_error_us: int = 0,
    unsteady: Collection[str] = (),
    suspects: Suspects | None = None,
    since_us: int = 0,
) -> DataFrame:
    """Look for steps that were left out. This runs jobs.

    Args:
        records: NUMBERED without repeats.
        scratch: takes tables that the result is made of; all workers see it.
        clock_error_us: by how much the records of unsteady proxies may be out of order, µs.
        unsteady: proxies whose records may be out of order.
        suspects: the records to look at; None for all.
        since_us: all questions from this time on are known; earlier ones may not be.

    Returns:
        PROCEDURE.
    """
    judged = f"is_judged and not {_early(since_us)} as is_judged" if since_us else "is_judged"
    numbered = records.selectExpr(
        *(judged if name == "is_judged" else name for name in NUMBERED.names)
    )
    error_us = f"if({among('proxy', unsteady)}, {clock_error_us}, 0)"
    lapsed = _lapsed(numbered, error_us, suspects, scratch)
    doubtful = _doubtful(numbered, lapsed, suspects)
    if doubtful is not None:
        relied = false_proofs.events(
            numbered.join(fn.broadcast(doubtful), [*false_proofs.SERVER]), error_us
        )
        false = ordered_pass(relied, false_proofs.SERVER, false_proofs.ORDER, FalseProofs, LAPSED)
        several = false if lapsed is None else lapsed.unionAll(false)
        key = (*RUN, "seq", "finding")
        lapsed = several.groupBy(*key).agg(fn.first("lacking").alias("lacking"))
    if lapsed is None:
        return small_table.local(records.sparkSession, [], PROCEDURE)
    return fn.broadcast(lapsed).join(numbered, [*RUN, "seq"]).selectExpr(*PROCEDURE.names)


def _early(since_us: int) -> str:
    """SQL: whether a read needs a question from a time before `since_us`."""
    bound_us = "if(level = 'BOUNDED_STALENESS', coalesce(bound_us, 0), 0)"
    return f"({among('level', CLUSTER_LEVELS)} and moment_us - {bound_us} < {since_us})"


def _lapsed(
    records: DataFrame, error_us: str, suspects: Suspects | None, scratch: Folder
) -> DataFrame | None:
    """LAPSED of what the proxies' events show; None if they show nothing."""
    if suspects is None:
        events = procedure_events.happened(records, error_us)
    elif suspects.has_events:
        events = procedure_events.of_suspects(records, suspects)
    else:
        return None
    events = procedure_events.needed(rewritten(events, scratch / "events"), records)
    found = ordered_pass(events, ("proxy",), _ORDER, Procedure, LAPSED)
    lapsed = rewritten(found, scratch / "lapsed")
    return lapsed if small_table.count(scratch / "lapsed") else None


def _doubtful(
    records: DataFrame, lapsed: DataFrame | None, suspects: Suspects | None
) -> DataFrame | None:
    """`false_proofs.SERVER` of those that contradicted a claim or had many incarnations."""
    replicas = records.where("role = 'replica' and server_uuid is not null")
    parts = []
    if lapsed is not None:
        claims = lapsed.where(f"finding = '{Lapse.CONTRADICTED.value}'").select(*RUN, "seq")
        contradicted = replicas.join(fn.broadcast(claims), [*RUN, "seq"], "left_semi")
        parts.append(contradicted.select(*false_proofs.SERVER))
    if suspects is None:
        changes = f"max(incarnation) - min(incarnation) >= {false_proofs.OFTEN} as often"
        often = replicas.groupBy(*false_proofs.SERVER).agg(fn.expr(changes))
        parts.append(often.where("often").select(*false_proofs.SERVER))
    elif suspects.changed:
        rows = [dict(zip(false_proofs.SERVER, server, strict=True)) for server in suspects.changed]
        schema = replicas.select(*false_proofs.SERVER).schema
        parts.append(small_table.local(records.sparkSession, rows, schema))
    return reduce(DataFrame.unionAll, parts).distinct() if parts else None
