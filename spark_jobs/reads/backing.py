"""Tells which reads rely on no more than their servers had been shown to have, by comparison.

This is the question of `evidence`, answered by windows for the usual sets. Evidence is united per
run and per incarnation of a server: of each source, the greatest n so that the server has shown
1..n. A claim whose numbers are no greater is backed. Claims with other sources, or sets that are
not written as servers write them, count as not backed here.
"""

from typing import Final

from pyspark.sql import DataFrame

from spark_jobs.gtid_columns import Bounds
from spark_jobs.running import Kind, Order, running
from spark_jobs.sql import all_of
from spark_jobs.tables.schema import RUN

SERVER: Final = "server_of"
"""The column that identifies an incarnation of a server, as its run counts them."""

NUMBER: Final = f"xxhash64({', '.join(RUN)}, server_uuid, incarnation is not null, incarnation)"
"""SQL for its value of a record; two servers have the same number with probability 2**-64."""

SERVER_OF: Final = f"{NUMBER} as {SERVER}"
"""SQL that makes this column of a record."""


def shown(records: DataFrame, bounds: Bounds) -> DataFrame:
    """What servers showed that they have.

    Args:
        records: NUMBERED and the bounds of ``proof_set`` and ``observed``.
        bounds: which bounds these are.

    Returns:
        SERVER, `at` (µs), and of each source k ``prefix_k`` and ``top_k``; `odd`.
    """
    parts = (
        ("kind = 'proof'", "ended_us", "proof_set"),
        ("kind = 'statement' and proof = 'waited'", "dispatched_us + wait_us", "proof_set"),
        ("kind = 'statement'", "ended_us", "observed"),
    )
    events = []
    for where, at, name in parts:
        fields = [f"{at} as at", f"{name}_odd as odd"]
        fields += (f"{bounds.prefix(name, k)} as prefix_{k}" for k in bounds.numbers)
        fields += (f"{name}_top_{k} as top_{k}" for k in bounds.numbers)
        events.append(f"if({where} and {name} != '', struct({', '.join(fields)}), null)")
    return records.where("server_uuid is not null").selectExpr(
        SERVER_OF, f"inline(array_compact(array({', '.join(events)})))"
    )


def weigh(records: DataFrame, bounds: Bounds, bucket: str | None = None) -> DataFrame:
    """Tell of each ``known`` read of a replica whether its server had shown all that it relies on.

    Args:
        records: NUMBERED and the bounds of ``proof_set`` and ``observed``.
        bounds: which bounds these are.
        bucket: SQL that rises with `at`; None to go through each server in one task.

    Returns:
        RUN, `seq` and `backed`.
    """
    tops = (f"proof_set_top_{k} as top_{k}" for k in bounds.numbers)
    is_bounded = "server_uuid is not null and not proof_set_odd as is_bounded"
    # A structure, which takes no room where it is null.
    read = f"struct({', '.join((*RUN, 'seq', is_bounded, *tops))}) as read"
    asked = records.where("is_read and role = 'replica' and proof = 'known'").selectExpr(
        SERVER_OF, "dispatched_us as at", "1 as turn", read
    )
    prefixes = (f"prefix_{k}" for k in bounds.numbers)
    evidence = shown(records, bounds).selectExpr(SERVER, "at", "0 as turn", *prefixes)
    order = Order([SERVER], ("at", "turn"), including=True, bucket=bucket)
    both = asked.unionByName(evidence, allowMissingColumns=True)
    values: dict[str, tuple[Kind, str]] = {
        f"shown_{k}": ("max", f"prefix_{k}") for k in bounds.numbers
    }
    covered = (f"read.top_{k} <= coalesce(shown_{k}, 0)" for k in bounds.numbers)
    weighed = running(both, order, values).where("turn = 1")
    return weighed.selectExpr(
        *(f"read.{name}" for name in (*RUN, "seq")),
        f"{all_of(('read.is_bounded', *covered))} as backed",
    )
