"""Finds the reads and servers that may show a lapse of the procedure, and leaves out all others.

A read at STRONG or BOUNDED_STALENESS is no lapse if one of the first sets that the primary was
asked for in the read's time was received before the read was sent, and the read's proof covers that
set. At the levels that remember what was seen, nothing was left unasked if only one server answered
in a group. And a server is not contradicted by a set that holds all that it had shown before.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.promise import CLUSTER_LEVELS, SEEN_LEVELS
from spark_jobs.reads import backing, groups
from spark_jobs.reads.plain_reads import Known
from spark_jobs.running import Kind, Order, running
from spark_jobs.scratch import rewritten
from spark_jobs.sql import all_of, among, any_of
from spark_jobs.storage import Folder
from spark_jobs.tables import small_table
from spark_jobs.tables.schema import RUN

_FIRST: Final = 4
"""How many sets after a read's moment are tried; `run_procedure` tries at least as many."""

_MOST: Final = 10_000
"""So many groups and servers at most are told apart from all others: each is in a query's text."""


@dataclass(frozen=True)
class Suspects:
    """What may show a lapse.

    Attributes:
        reads: RUN and `seq` of reads; None if there are none.
        proxies: of these reads.
        groups: the numbers (`groups.number_of`) of the groups in which those of these reads are
            judged that must see what was seen before; None if there are too many.
        liars: the numbers (`backing.NUMBER`) of servers that may be contradicted; None if there are
            too many.
        changed: servers (`false_proofs.SERVER`) of which a run counted many new incarnations.
    """

    reads: DataFrame | None
    proxies: Collection[str]
    groups: Collection[int] | None
    liars: Collection[int] | None
    changed: Collection[tuple[str, int, str, str]]

    def __bool__(self) -> bool:
        """Whether there is anything to look at."""
        return self.has_events or bool(self.changed)

    @property
    def has_events(self) -> bool:
        """Whether some events of a proxy are to be gone through."""
        return self.reads is not None or self.liars is None or bool(self.liars)


def find(
    rows: DataFrame,
    known: Known,
    changed: Collection[tuple[str, int, str, str]],
    scratch: Folder,
) -> Suspects:
    """Look for suspects; this runs jobs.

    Args:
        rows: NUMBERED with `cluster` and bounds, as `plain_reads.bounded` makes them.
        known: what is known of the log.
        changed: see `Suspects`.
        scratch: takes a table.
    """
    seen = f"if({among('level', SEEN_LEVELS)}, {groups.number_of_owed()}, null) as seen_in"
    no_server, no_group = (
        f"cast(null as bigint) as {name}" for name in (backing.SERVER, "seen_in")
    )
    parts = [part.selectExpr(*RUN, "seq", no_server, seen) for part in _reads(rows, known)]
    parts.append(_liars(rows, known).selectExpr(*RUN, "seq", backing.SERVER, no_group))
    found = rewritten(reduce(DataFrame.unionAll, parts), scratch / "suspects")
    if not small_table.count(scratch / "suspects"):
        return Suspects(None, (), (), (), changed)
    is_read = f"{backing.SERVER} is null"
    reads, proxies, seen_in, liars = found.selectExpr(
        f"count_if({is_read})",
        f"collect_set(if({is_read}, proxy, null))",
        *(f"slice(collect_set({name}), 1, {_MOST + 1})" for name in ("seen_in", backing.SERVER)),
    ).collect()[0]
    return Suspects(
        reads=found.where(is_read).select(*RUN, "seq").distinct() if reads else None,
        proxies=sorted(proxies),
        groups=sorted(seen_in) if len(seen_in) <= _MOST else None,
        liars=sorted(liars) if len(liars) <= _MOST else None,
        changed=changed,
    )


_PROVED: Final = "role = 'replica' and proof in ('known', 'waited')"


def _reads(rows: DataFrame, known: Known) -> Iterator[DataFrame]:
    wanted = known.survey.wanted
    if "cluster" in wanted:
        yield _unasked(rows, known)
    if any(want.seen for kind, want in wanted.items() if kind != "cluster"):
        remembers = f"(is_judged and {_PROVED} and {among('level', SEEN_LEVELS)})"
        for kind, want in wanted.items():
            if want.seen and kind != "cluster":
                yield _crossing(rows, remembers, kind)
        yield rows.where(f"{remembers} and {_is_holed(known)}")


def _is_holed(known: Known) -> str:
    """Whether an answer at READ_ALL_WRITES may have shown gaps."""
    gaps = (f"observed_end_{k} != observed_top_{k}" for k in known.bounds.numbers)
    shown = "level = 'READ_ALL_WRITES' and outcome = 'ok' and observed != ''"
    return f"{shown} and {any_of(('observed_odd', *gaps))}"


def _unasked(rows: DataFrame, known: Known) -> DataFrame:
    """The reads for which the primary may not have been asked in time."""
    numbers, bounded = known.bounds.numbers, "level = 'BOUNDED_STALENESS'"
    asks = (
        f"is_judged and {_PROVED} and {among('level', CLUSTER_LEVELS)} "
        f"and (not {bounded} or bound_us is not null)"
    )
    spans = ", ".join(f"array(whole_low_{k}, whole_top_{k})" for k in numbers)
    events = (
        "if(whole is not null and not whole_odd, struct(dispatched_us as at, 0 as turn), null)",
        f"if({asks}, struct(moment_us - if({bounded}, bound_us, 0) as at, 1 as turn), null)",
    )
    # From the newest on: the sets right before a read in this order were asked for after it.
    backwards = "over (partition by proxy order by at desc, turn)"
    following = ", ".join(
        f"lag(set, {place}) ignore nulls {backwards}" for place in range(1, _FIRST + 1)
    )
    held = (
        f"(s.spans[{k}][1] = 0 or proof_set_low_{k} > 0 and proof_set_low_{k} <= s.spans[{k}][0] "
        f"and s.spans[{k}][1] <= proof_set_end_{k})"
        for k in numbers
    )
    is_proof = all_of(("s.ended_us <= dispatched_us", *held))
    return (
        rows.selectExpr("*", f"inline(array_compact(array({', '.join(events)})))")
        .selectExpr("*", f"if(turn = 0, struct(ended_us, array({spans}) as spans), null) as set")
        .selectExpr("*", f"array_compact(array({following})) as sets")
        .where(
            f"turn = 1 and (proof_set_odd or not coalesce(exists(sets, s -> {is_proof}), false))"
        )
    )


def _crossing(rows: DataFrame, remembers: str, kind: str) -> DataFrame:
    """The reads that may have left a server: several servers answered in their group."""
    shows = (
        "kind = 'statement' and class = 'read' and outcome = 'ok' and observed = '' "
        "and role is not null"
    )
    if kind == "application":
        shows += " and application != ''"
    is_answer = f"coalesce({shows}, false)"
    is_read = f"coalesce({remembers} and owed_in = '{kind}', false)"
    server = "xxhash64(server_uuid, incarnation is not null, incarnation)"
    grouped = rows.selectExpr(
        "*",
        f"{groups.number_of(kind)} as `group`",
        f"{server} as server_of",
        f"{is_answer} as is_answer",
        f"{is_read} as remembers",
    )
    crossed = (
        grouped.where("is_answer or remembers")
        .groupBy("group")
        .agg(
            fn.expr("min(server_of) != max(server_of) as several"),
            fn.expr("bool_or(is_answer) and bool_or(remembers) as both"),
        )
        .where("several and both")
    )
    return grouped.where("remembers").join(crossed, "group", "left_semi")


def _liars(rows: DataFrame, known: Known) -> DataFrame:
    """Answers of servers whose whole set may lack what they had shown before."""
    bounds = known.bounds
    whole = {
        "proof_set": "kind = 'proof' and proof = 'probed' and proof_set is not null",
        "observed": "kind = 'statement' and observed != ''",
    }
    events = []
    for name, where in whole.items():
        fields = [f"{name}_odd as odd"]
        fields += (f"{bounds.prefix(name, k)} as whole_{k}" for k in bounds.numbers)
        events.append(f"if({where}, struct({', '.join(fields)}), null)")
    answers = rows.where("role = 'replica'").selectExpr(
        *RUN,
        "seq",
        "server_uuid",
        backing.SERVER_OF,
        "least(dispatched_us, ended_us) as at",
        "1 as turn",
        f"inline(array_compact(array({', '.join(events)})))",
    )
    tops = (f"top_{k}" for k in bounds.numbers)
    shown = backing.shown(rows, bounds).selectExpr(backing.SERVER, "at", "0 as turn", "odd", *tops)
    order = Order([backing.SERVER], ("at", "turn"), including=True, bucket=known.bucket())
    values: dict[str, tuple[Kind, str]] = {
        f"shown_{k}": ("max", f"top_{k}") for k in bounds.numbers
    }
    values["rough"] = "max", "if(turn = 0, int(odd), null)"
    both = answers.unionByName(shown, allowMissingColumns=True)
    lacks = (f"whole_{k} < coalesce(shown_{k}, 0)" for k in bounds.numbers)
    belied = any_of(("odd", "server_uuid is null", "coalesce(rough, 0) > 0", *lacks))
    return running(both, order, values).where(f"turn = 1 and {belied}")
