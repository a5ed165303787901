"""Applies changes of the primary that are over to facts.

What the new primary lacks is removed from facts, and the rest is attributed to the new primary. So
a state names only the last primary, except for runs that have not turned to it. What is removed is
exactly what `judge.Judge` no longer holds reads to after it has gone through the change record by
record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from spark_jobs.gtid import parse
from spark_jobs.primaries import clusters
from spark_jobs.primaries.primary_history import History, Term
from spark_jobs.records.survey import Run, Server, Survey
from spark_jobs.state.facts import ASKED, FACT, SAW, SHOWED, WROTE
from spark_jobs.tables.schema import RUN

_MOST: Final = 62
"""How many changes of one cluster are considered at most: the newest. Each is a bit of a code."""

_HELD: Final = (WROTE, SAW, SHOWED, ASKED)
"""Facts that reads are held to."""

_PRESIDING: Final = StructType(
    [
        *(FACT[name] for name in RUN),
        StructField("is_moved", BooleanType()),
        StructField("new_uuid", StringType()),
        StructField("new_incarnation", FACT["incarnation"].dataType),
    ]
)


@dataclass(frozen=True, slots=True)
class Turns:
    """The changes of primaries that are over.

    Attributes:
        clusters: the cluster of each proxy.
        over: by cluster, the terms that began before what is kept as the tail, by `until_us`.
        turned_us: `primary_history.History.successions`.
        presiding: the last primary, by run, for runs that have turned to it or are over.
    """

    clusters: Mapping[str, str] = field(default_factory=dict)
    over: Mapping[str, Sequence[Term]] = field(default_factory=dict)
    turned_us: Mapping[tuple[object, ...], int] = field(default_factory=dict)
    presiding: Mapping[Run, Server] = field(default_factory=dict)

    def code(self) -> Column:
        """A bit mask for each record: of the changes that reduce it to what the new primary has."""
        nothing = fn.lit(0).cast("bigint")
        code = nothing
        for cluster, terms in self.over.items():
            proxies = [
                name for name, its_cluster in self.clusters.items() if its_cluster == cluster
            ]
            code = fn.when(fn.col("proxy").isin(*proxies), self._code(terms)).otherwise(code)
        return code

    def _code(self, terms: Sequence[Term]) -> Column:
        sent, ended, uuid = (fn.col(name) for name in ("dispatched_us", "ended_us", "server_uuid"))
        states = [
            fn.struct(
                fn.lit(1 << bit).cast("bigint").alias("bit"),
                fn.lit(term.from_us).cast("bigint").alias("from_us"),
                fn.lit(term.until_us).cast("bigint").alias("until_us"),
                self._turned_us(term).cast("bigint").alias("turned_us"),
                fn.lit(term.server_uuid).cast("string").alias("uuid"),
            )
            for bit, term in enumerate(terms[-_MOST:])
        ]

        def add(state: Column, term: Column) -> Column:
            begun, own = ended > term["from_us"], fn.coalesce(term["uuid"] == uuid, fn.lit(False))
            late = state["late"] & begun
            hit = late & ~own & (sent < fn.greatest(term["turned_us"], term["until_us"]))
            ends = hit | (late & own & (sent >= term["until_us"]))
            bit = fn.when(hit | (ended <= term["until_us"]), term["bit"]).otherwise(0)
            return fn.struct(
                (state["late"] & ~ends).alias("late"), (state["code"] + bit).alias("code")
            )

        primary = fn.col("role").eqNullSafe("primary")
        begin = fn.struct(primary.alias("late"), fn.lit(0).cast("bigint").alias("code"))
        # From the newest term on, as in `Judge._held`.
        return fn.aggregate(fn.array(*reversed(states)), begin, add)["code"]

    def _turned_us(self, term: Term) -> Column:
        """When a record's run turned to the primary of a term; 0 if it did not."""
        turned = fn.lit(0)
        for (*run, uuid), at_us in self.turned_us.items():
            if uuid == term.server_uuid and self.clusters.get(str(run[0])) in self.over:
                proxy, worker, its_run = run
                same = (fn.col("proxy") == fn.lit(proxy)) & (fn.col("worker") == fn.lit(worker))
                same &= fn.col("run") == fn.lit(its_run)
                turned = fn.when(same, at_us).otherwise(turned)
        return turned

    def held(self) -> Column:
        """The same as `code` for facts; 0 for those that reads are not held to."""
        return fn.when(fn.col("what").isin(*_HELD), self.code()).otherwise(0)

    def cut(self, facts: DataFrame) -> DataFrame:
        """Reduce facts to what the primaries of these changes have.

        Args:
            facts: FACT and `turned`.

        Returns:
            FACT.
        """
        if not self.over:
            return facts.select(FACT.names)
        executed = {
            cluster: [term.executed for term in terms[-_MOST:]]
            for cluster, terms in self.over.items()
        }

        def reduced(text: str, cluster: str, code: int) -> str:
            if not code:
                return text
            gtids = parse(text)
            for bit, text_of_term in enumerate(executed[cluster]):
                if code >> bit & 1:
                    gtids = gtids.common(parse(text_of_term))
            return gtids.text()

        common = fn.udf(reduced, StringType(), useArrow=False)
        cluster = clusters.column(self.clusters)
        return facts.withColumn("gtids", common("gtids", cluster, "turned")).select(FACT.names)

    def renamed(self, facts: DataFrame) -> DataFrame:
        """Attribute facts of earlier primaries to the last one; other columns are kept."""
        if not self.presiding:
            return facts
        rows = [(*run, True, *server) for run, server in self.presiding.items()]
        presiding = facts.sparkSession.createDataFrame(rows, _PRESIDING)
        moved = fn.col("is_moved") & (fn.col("role") == "primary")
        return (
            facts.join(fn.broadcast(presiding), [*RUN], "left")
            .withColumns(
                {
                    "server_uuid": fn.when(moved, fn.col("new_uuid")).otherwise(
                        fn.col("server_uuid")
                    ),
                    "incarnation": fn.when(moved, fn.col("new_incarnation")).otherwise(
                        fn.col("incarnation")
                    ),
                }
            )
            .select(facts.columns)
        )


def turns(history: History, survey: Survey, until_us: int) -> Turns:
    """The changes of primaries that are over.

    Args:
        history: the history of the primaries.
        survey: its `reigns` are those of all runs; its `runs` have records in the log.
        until_us: everything that is condensed had ended by then.
    """
    over = {
        cluster: sorted(
            (term for term in terms if term.until_us <= until_us), key=lambda term: term.until_us
        )
        for cluster, terms in history.terms.items()
    }
    over = {cluster: terms for cluster, terms in over.items() if terms}
    last: dict[Run, tuple[int, Server]] = {}
    for (run, server), reign in survey.reigns.items():
        if reign.from_us <= until_us:
            began = reign.from_us, server
            last[run] = max(last.get(run, began), began, key=lambda since: since[0])
    presiding: dict[Run, Server] = {}
    for run, (_, (uuid, incarnation)) in last.items():
        its_terms = over.get(history.clusters[run[0]])
        if its_terms:
            newest = its_terms[-1].server_uuid
            if uuid == newest:
                presiding[run] = uuid, incarnation
            elif run not in survey.runs:
                presiding[run] = newest, None
    return Turns(history.clusters, over, history.successions, presiding)
