"""What each read of a replica was owed, by running maxima over its group.

A read was owed what is between the least and the greatest number that its group knew before it, of
each source: that is more than it was owed, so a claim that covers it is enough. The writes right
before it are there one by one as well, since a session's own set has gaps where others wrote.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from spark_jobs import clusters, groups, numbering
from spark_jobs.columns import gtid_columns
from spark_jobs.columns.facts import Facts
from spark_jobs.primary_history import History
from spark_jobs.promise import PROMISES, SCOPES
from spark_jobs.schema import READ, RUN

LAST: Final = 8
"""Writes before a read that are looked at one by one: a required set has hardly more intervals."""

_PIECE_US: Final = 10_000_000
"""A wide group is cut into pieces of so long."""

_FIRST: Final = -(2**63)
"""When what a piece begins with is told: no record is that early."""

_NEVER: Final = 2**62
"""The end of a set that nothing covers."""


_ORDER: Final = ("at", "turn", "seq", "its_run")
"""`groups.ORDER`, but that a number stands for the run: which run is first there changes no sum."""

_SHOWN: Final = tuple(name for name in READ if name != "seq")
"""What is carried along for a verdict alone."""


def transform(records: DataFrame, history: History, facts: Facts) -> DataFrame:
    """Gather what was before each read that a replica answered and that had a promise.

    Args:
        records: NUMBERED without repeats.
        history: the primary's, of the same records.
        facts: of the same records.

    Returns:
        One row per such read: READ, `cluster`, `group` and `kind`; `claim` and `required`, split;
        and, by slot, `own_low`, `own_top` (written), `all_top` (that, and seen), `early_top`
        (written before the last few), `doubt_top` (what a replica must have reached), followed by
        `doubt_us` (when that was told), `sure` (something was seen for certain), `last` (the last
        few writes), `wrote_us`, `blocked` and `blind` (the judge must look, or must at levels
        that remember).
    """
    events = _events(records, history, facts, facts.wanted)
    slots = range(facts.slots)
    wide = {kind: deep for kind, deep in facts.wanted.items() if kind != "connection"}
    if wide:
        sums = _sums(_events(records, history, facts, wide, for_sums=True), facts)
        events = events.unionByName(sums, allowMissingColumns=True)
    else:
        events = events.withColumns({f"carried{slot}": fn.lit(0) for slot in slots})
    order = Window.partitionBy("group", "piece").orderBy(*_ORDER)
    before = order.rowsBetween(Window.unboundedPreceding, -1)

    def newest(name: str) -> Column:
        return fn.coalesce(fn.max(name).over(before), fn.lit(0))

    running = {
        "wrote_us": fn.last("named_us", ignorenulls=True).over(before),
        "doubt_us": newest("doubt_us"),
        "blocked": newest("blocks"),
        "blind": newest("blinds"),
        "sure": newest("surely"),
    }
    for slot in slots:
        low = fn.when(fn.col(f"named_top{slot}") > 0, fn.col(f"named_low{slot}"))
        running |= {
            f"own_low{slot}": fn.coalesce(fn.min(low).over(before), fn.lit(0)),
            f"own_top{slot}": newest(f"named_top{slot}"),
            f"all_top{slot}": newest(f"seen_top{slot}"),
            f"doubt_top{slot}": newest(f"doubt_top{slot}"),
            f"carried{slot}": newest(f"carried{slot}"),
        }
    window = "over (partition by `group`, piece order by " + ", ".join(_ORDER) + ")"
    last = [fn.expr(f"lag(write, {back}) ignore nulls {window}") for back in range(1, LAST + 1)]
    early = {
        f"early_top{slot}": fn.coalesce(
            fn.expr(f"lag(if(write is null, null, own_top{slot}), {LAST}) ignore nulls {window}"),
            fn.col(f"carried{slot}"),
        )
        for slot in slots
    }
    return (
        events.withColumns(running)
        .withColumns({**early, "last": fn.array_compact(fn.array(*last))})
        .where("judges")
    )


def _sums(events: DataFrame, facts: Facts) -> DataFrame:
    """What each piece of a wide group begins with: the maxima of all before it.

    So a group may be any size: its pieces are gone through side by side.

    Args:
        events: of wide groups.
        facts: of the same records.
    """
    earlier = (
        Window.partitionBy("group").orderBy("piece").rowsBetween(Window.unboundedPreceding, -1)
    )
    slots = range(facts.slots)
    most = ["named_us", "doubt_us", "blocks", "blinds", "surely"]
    most += [f"{name}_top{slot}" for name in ("named", "seen", "doubt") for slot in slots]
    least = {
        f"named_low{slot}": fn.when(fn.col(f"named_top{slot}") > 0, fn.col(f"named_low{slot}"))
        for slot in slots
    }
    return (
        # In a wide group what is named last also ended last.
        events.groupBy("group", "piece")
        .agg(
            *(fn.max(name).alias(name) for name in most),
            *(fn.min(low).alias(name) for name, low in least.items()),
        )
        .withColumns(
            {name: fn.max(name).over(earlier) for name in most}
            | {name: fn.min(name).over(earlier) for name in least}
        )
        .withColumns({f"carried{slot}": fn.col(f"named_top{slot}") for slot in slots})
        .withColumns({"at": fn.lit(_FIRST), "turn": fn.lit(0), "judges": fn.lit(False)})
    )


def _events(
    records: DataFrame,
    history: History,
    facts: Facts,
    kinds: Mapping[str, bool],
    *,
    for_sums: bool = False,
) -> DataFrame:
    """Every record in the groups of these kinds where it is judged or counts.

    For sums nothing is read of what is only judged; but its piece begins with a sum, too.
    """
    replica, level = fn.col("role").eqNullSafe("replica"), fn.col("level")
    is_read, claims = fn.col("is_read") & replica, fn.col("proof").isin("known", "waited")
    bounded = (level != "BOUNDED_STALENESS") | fn.col("bound_us").isNotNull()
    promised = level.isin(*PROMISES) & fn.col("scope").isin(*SCOPES) & bounded
    promised &= fn.col("is_judged") & replica
    if for_sums:
        promised &= fn.col("owed_in").isin(*kinds)
    deep_kinds = [kind for kind, deep in kinds.items() if deep]
    deep = bool(deep_kinds)
    observed = fn.coalesce("whole", "observed") if deep or "cluster" in kinds else fn.lit("")
    wrote = fn.col("named") != ""
    seen = wrote | (fn.col("observed") != "") | is_read if deep else wrote
    told = (
        records.where((fn.col("kind") == "statement") | fn.col("whole").isNotNull())
        .withColumn("cluster", clusters.column(history.clusters))
        .withColumn("turned", _turned(history))
        .where(
            promised
            | seen
            | fn.col("turned")
            | (fn.col("whole").isNotNull() & fn.lit("cluster" in kinds))
        )
        .select(
            *dict.fromkeys((*READ, "kind", "named", "observed", "whole")),
            *("is_read", "is_judged", "is_unnamed", "owed_in", "moment_us", "cluster", "turned"),
            promised.alias("promised"),
            observed.alias("seen"),
            # Texts that nobody looks at are not read.
            fn.when(is_read & claims & fn.lit(deep or not for_sums), fn.col("proof_set")).alias(
                "claim"
            ),
            fn.when(promised & fn.lit(not for_sums), fn.col("required")).alias("required"),
        )
    )
    for name in ("named", "seen", "required"):
        told = gtid_columns.split(told, name, facts.sources, facts.slots)
    told = _claimed(told, facts)
    kind, learns = fn.col("kind"), fn.col("learns")
    looks = (kind != "cluster") | fn.col("role").eqNullSafe("primary")
    shown = (kind != "cluster") & fn.col("claim").isNotNull() & (fn.col("outcome") == "ok")
    judged = fn.col("judges") & fn.col("promised")
    placed = (
        groups.place(told, kinds)
        .withColumn("judges", judged)
        .where(judged | (learns & (wrote | fn.col("turned") | kind.isin(*deep_kinds, "cluster"))))
    )
    slots = range(facts.slots)
    sums: dict[str, Column] = {
        "blocks": fn.when(fn.col("turned") | (learns & fn.col("named_odd")), 1),
        "blinds": fn.when(
            learns & ((looks & fn.col("seen_odd")) | (shown & fn.col("claim_odd"))), 1
        ),
        "named_us": fn.when(learns & wrote & ~fn.col("named_odd"), fn.col("ended_us")),
        "write": fn.when(learns & wrote & ~fn.col("named_odd"), _single("named", facts.slots)),
        "surely": fn.lit(0),
        "doubt_us": fn.lit(None).cast("bigint"),
    }
    for slot in slots:
        own, saw = fn.col(f"named_top{slot}"), fn.col(f"seen_top{slot}")
        claim = fn.col(f"claim_top{slot}")
        certain = fn.greatest(own, fn.when(looks, saw).otherwise(0))
        waited = fn.when(shown & (fn.col("proof") == "waited"), claim).otherwise(0)
        sums["surely"] = fn.greatest(sums["surely"], certain, waited)
        sums[f"named_top{slot}"] = fn.when(learns, own)
        sums[f"seen_top{slot}"] = fn.when(
            learns, fn.greatest(certain, fn.when(shown, claim).otherwise(0))
        )
        sums[f"doubt_top{slot}"] = fn.lit(None).cast("bigint")
    sums["surely"] = fn.when(learns, sums["surely"])
    doubts = _doubts(records, history, facts, kinds)
    wide = kind != "connection"
    # Only what is judged is carried along with all that its verdict shows.
    claimed = [f"{name}_{part}" for name in ("required", "claim") for part in ("odd", "many")]
    verdicts = (*_SHOWN, "cluster", "kind", "required", "claim", *claimed)
    return (
        placed.withColumns(sums)
        .unionByName(doubts, allowMissingColumns=True)
        .withColumns(
            {
                "group": groups.hashed(fn.col("key")),
                "its_run": numbering.run_of(),
                "piece": fn.when(wide, fn.expr(f"at div {_PIECE_US}")).otherwise(0),
            }
        )
        .withColumns({name: fn.when(fn.col("judges"), fn.col(name)) for name in verdicts})
    )


def _claimed(told: DataFrame, facts: Facts) -> DataFrame:
    """Read the claims; one that is what was required, as a WAIT's is, has been read there."""
    same = fn.coalesce(fn.col("claim") == fn.col("required"), fn.lit(False))
    told = told.withColumns({"proved": fn.col("claim"), "as_required": same})
    same = fn.col("as_required")
    told = told.withColumn("claim", fn.when(~same, fn.col("claim")))
    told = gtid_columns.split(told, "claim", facts.sources, facts.slots)
    slots = range(facts.slots)
    parts = ["odd", "many", *(f"{part}{slot}" for part in ("low", "high", "top") for slot in slots)]
    read = {
        f"claim_{part}": fn.when(same, fn.col(f"required_{part}")).otherwise(
            fn.col(f"claim_{part}")
        )
        for part in parts
    }
    return told.withColumns({**read, "claim": fn.col("proved")}).drop("proved", "as_required")


def _single(name: str, slots: int) -> Column:
    """The interval of a set that has one; no other interval holds what has slot -1."""
    found = fn.struct(
        fn.lit(-1).alias("slot"), fn.lit(1).cast("bigint").alias("low"),
        fn.lit(_NEVER).alias("high"), fn.lit("?").alias("text"),
    )  # fmt: skip
    for slot in range(slots):
        its = fn.struct(
            fn.lit(slot).alias("slot"),
            fn.col(f"{name}_low{slot}").alias("low"),
            fn.col(f"{name}_high{slot}").alias("high"),
            _text(f"{name}_low{slot}", f"{name}_high{slot}").alias("text"),
        )
        only = ~fn.col(f"{name}_many") & (fn.col(f"{name}_top{slot}") > 0)
        found = fn.when(only, its).otherwise(found)
    return found


def _text(low: str, high: str) -> Column:
    """How an interval stands in a set's text, between two colons."""
    end = fn.when(fn.col(low) == fn.col(high), "").otherwise(fn.concat(fn.lit("-"), fn.col(high)))
    return fn.concat(fn.lit(":"), fn.col(low), end, fn.lit(":"))


def _turned(history: History) -> Column:
    """Whether a record arrived when another primary may have begun."""
    turned = fn.lit(False)
    for cluster, terms in history.terms.items():
        if terms:
            late = fn.col("arrived_us") > min(term.from_us for term in terms)
            turned = fn.when(fn.col("cluster") == cluster, late).otherwise(turned)
    return turned


def marks(history: History, facts: Facts) -> DataFrame:
    """What a replica must have to have reached each tide mark: that mark's set and all before it.

    Returns:
        `cluster`, `mark`, `doubt_us` (when it was asked for), and `doubt_top` of each slot.
    """
    told = history.past.where(fn.col("what") == "mark").select("cluster", "mark", "at_us", "gtids")
    told = gtid_columns.split(told, "gtids", facts.sources, facts.slots)
    so_far = Window.partitionBy("cluster").orderBy("mark")
    columns = {"doubt_us": fn.max("at_us").over(so_far)}
    for slot in range(facts.slots):
        top = fn.when(fn.col("gtids_odd"), _NEVER).otherwise(fn.col(f"gtids_top{slot}"))
        columns[f"doubt_top{slot}"] = fn.max(top).over(so_far)
    return told.select("cluster", "mark", *(it.alias(name) for name, it in columns.items()))


def _doubts(
    records: DataFrame, history: History, facts: Facts, kinds: Mapping[str, bool]
) -> DataFrame:
    """What records left open, in the groups that it concerns."""
    bounds = history.past.where(fn.col("what") == "bound").select(*RUN, "seq", "mark")
    opened = (
        records.where((fn.col("kind") == "statement") & (fn.col("hole") | fn.col("is_unnamed")))
        .select(
            *dict.fromkeys((*READ, "kind", "named", "observed", "whole", "hole")),
            *("is_read", "is_judged", "is_unnamed", "owed_in", "moment_us"),
            clusters.column(history.clusters).alias("cluster"),
        )
        .join(bounds, [*RUN, "seq"], "left")
        .join(marks(history, facts), ["cluster", "mark"], "left")
    )
    own = fn.col("kind") == "connection"
    tops = {
        f"doubt_top{slot}": fn.coalesce(f"doubt_top{slot}", fn.lit(_NEVER))
        for slot in range(facts.slots)
    }
    # What is missing before a record is missing before its own read; what it left open is not.
    turn = fn.when(own & fn.col("hole"), -1).when(own, 1).otherwise(fn.col("turn"))
    return (
        groups.place(opened, kinds)
        .where(fn.col("learns") & (own | fn.col("is_unnamed")))
        .withColumns({**tops, "turn": turn, "doubt_us": fn.coalesce("doubt_us", fn.lit(_NEVER))})
        .select(*groups.ORDER, *groups.GROUP, "doubt_us", *tops)
        .withColumn("judges", fn.lit(False))
    )
