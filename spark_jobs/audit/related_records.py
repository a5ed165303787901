"""Finds the records that explain a counter-example.

They are the records that name what the read missed, and what the read's server said that it has.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.tables.report_schema import SCENE

_READ = ("proxy", "worker", "run", "seq")
_STORY: Final = SCENE.names[len(_READ) + 1 : -1]


def transform(records: DataFrame, reads: DataFrame) -> DataFrame:
    """Find the records that explain some reads' verdicts.

    Args:
        records: RECORD.
        reads: JUDGED of a few reads.

    Returns:
        SCENE: for each read the records that name what it missed, the last record before it by
        which its server showed a set to the same run, and the next such record after it.
    """
    shown = records.where("kind != 'gap'").selectExpr(
        *(f"{name} as {alias}" for alias, name in _NAMES.items()), f"{_SHOWN} as shown"
    )
    return _sources(shown, reads).unionByName(_evidence(shown, reads))


_NAMES: Final = {
    "by_proxy": "proxy",
    "by_run": "run",
    "by_session": "session",
    "by_seq": "seq",
    "by_user": "user",
    "by_worker": "worker",
    "by_server": "server_uuid",
    # What stands for records of days before does not have its server's name.
    "server": "coalesce(server, server_uuid)",
    **{name: name for name in ("digest", "role", "proof")},
    **{name: name for name in ("arrived_us", "dispatched_us", "ended_us")},
}

_SHOWN: Final = """case when observed != '' then observed
    when proof in ('probed', 'waited') and outcome in ('ok', '') then proof_set end"""
"""The set that a record's server said it has; null if it said nothing."""


def _sources(shown: DataFrame, reads: DataFrame) -> DataFrame:
    missed = reads.selectExpr(*_READ, "explode(missed) as source").selectExpr(
        *_READ,
        "source.how as what",
        "source.run as by_run",
        "source.seq as by_seq",
        "source.gtids as gtids",
    )
    return shown.join(fn.broadcast(missed), ["by_run", "by_seq"]).selectExpr(*SCENE.names)


def _evidence(shown: DataFrame, reads: DataFrame) -> DataFrame:
    names = {"of_server": "server_uuid", "named": "server"}
    names |= {"from_us": "dispatched_us", "until_us": "ended_us"}
    asked = reads.selectExpr(*_READ, *(f"{name} as {alias}" for alias, name in names.items()))
    same = (
        "by_proxy = proxy and by_worker = worker and by_run = run and by_server = of_server "
        "and by_seq != seq"
    )
    own = ", ".join(name for name in _STORY if name != "server")
    story = f"struct({own}, named as server, shown as gtids)"
    before, after = (
        f"{function}(if({when}, {story}, null), if({when}, ended_us, null))"
        for function, when in (("max_by", "ended_us <= from_us"), ("min_by", "ended_us > until_us"))
    )
    return (
        shown.where("shown is not null")
        .join(fn.broadcast(asked), fn.expr(same))
        .groupBy(*_READ)
        .agg(fn.expr(f"{before} as before"), fn.expr(f"{after} as after"))
        .selectExpr(*_READ, "stack(2, 'before', before, 'after', after) as (what, story)")
        .where("story is not null")
        .selectExpr(*_READ, "what", "story.*")
    )
