"""Finds the records that explain a counter-example.

They are the records that name what the read missed, and what the read's server said that it has.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.tables.report_schema import SCENE
from spark_jobs.tables.schema import JUDGED, RECORD

_READ = ("proxy", "worker", "run", "seq")
_STORY = SCENE.names[len(_READ) + 1 : -1]


def transform(records: DataFrame, reads: DataFrame) -> DataFrame:
    """Find the records that explain some reads' verdicts.

    Args:
        records: RECORD.
        reads: JUDGED of a few reads.

    Returns:
        SCENE: for each read the records that name what it missed, the last record before it by
        which its server showed a set to the same run, and the next such record after it.
    """
    shown = records.select(RECORD.names).where("kind != 'gap'").select(*_columns(), _shown())
    return _sources(shown, reads).unionByName(_evidence(shown, reads)).select(SCENE.names)


def _columns() -> list[Column]:
    names = {"by_proxy": "proxy", "by_run": "run", "by_session": "session", "by_seq": "seq"}
    names |= {"by_user": "user", "by_worker": "worker", "by_server": "server_uuid"}
    same = ("digest", "server", "role", "proof", "arrived_us", "dispatched_us", "ended_us")
    names |= {name: name for name in same}
    return [fn.col(name).alias(alias) for alias, name in names.items()]


def _shown() -> Column:
    """The set that a record's server said it has; null if it said nothing."""
    proved = fn.col("proof").isin("probed", "waited") & (fn.col("outcome").isin("ok", ""))
    return (
        fn.when(fn.col("observed") != "", fn.col("observed"))
        .when(proved, fn.col("proof_set"))
        .alias("shown")
    )


def _sources(shown: DataFrame, reads: DataFrame) -> DataFrame:
    missed = (
        reads.select(JUDGED.names)
        .select(*_READ, fn.explode("missed").alias("source"))
        .select(
            *_READ,
            fn.col("source.how").alias("what"),
            fn.col("source.run").alias("by_run"),
            fn.col("source.seq").alias("by_seq"),
            fn.col("source.gtids").alias("gtids"),
        )
    )
    return shown.join(fn.broadcast(missed), ["by_run", "by_seq"]).select(SCENE.names)


def _evidence(shown: DataFrame, reads: DataFrame) -> DataFrame:
    asked = reads.select(JUDGED.names).select(
        *_READ,
        fn.col("server_uuid").alias("of_server"),
        fn.col("dispatched_us").alias("from_us"),
        fn.col("ended_us").alias("until_us"),
    )
    same = (
        (fn.col("by_proxy") == fn.col("proxy"))
        & (fn.col("by_worker") == fn.col("worker"))
        & (fn.col("by_run") == fn.col("run"))
        & (fn.col("by_server") == fn.col("of_server"))
        & (fn.col("by_seq") != fn.col("seq"))
    )
    story = fn.struct(*_STORY, fn.col("shown").alias("gtids"))
    before = fn.col("ended_us") <= fn.col("from_us")
    after = fn.col("ended_us") > fn.col("until_us")
    newest = fn.max_by(fn.when(before, story), fn.when(before, fn.col("ended_us")))
    next_one = fn.min_by(fn.when(after, story), fn.when(after, fn.col("ended_us")))
    both = (("before", newest), ("after", next_one))
    return (
        shown.where("shown is not null")
        .join(fn.broadcast(asked), same)
        .groupBy(*_READ)
        .agg(*(column.alias(name) for name, column in both))
        .select(
            *_READ,
            fn.explode(
                fn.array(
                    *(
                        fn.struct(fn.lit(name).alias("what"), fn.col(name).alias("story"))
                        for name, _ in both
                    )
                )
            ).alias("one"),
        )
        .select(*_READ, "one.*")
        .where("story is not null")
        .select(*_READ, "what", "story.*")
    )
