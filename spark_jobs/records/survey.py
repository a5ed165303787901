"""What a log holds: one aggregation over its records, and what follows from it in the driver."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from spark_jobs.day import Period
from spark_jobs.gtid_columns import is_formed
from spark_jobs.promise import OWN_LEVELS, SEEN_LEVELS
from spark_jobs.tables.schema import RUN

NEVER: Final = 2**62
"""Greater than any time or number."""

Run = tuple[str, int, str]
"""The columns RUN of a record."""

Server = tuple[str | None, int | None]
"""A server's UUID and incarnation; each run counts incarnations for itself."""


class Wanted(NamedTuple):
    """What the reads that are judged by one kind of group must see.

    Attributes:
        own: whether some must see only what was written in the group (READ_OWN_WRITES).
        seen: whether some must see what was seen there, too.
    """

    own: bool
    seen: bool


@dataclass(slots=True)
class RunSurvey:
    """The records of a run, repeats included.

    Attributes:
        records: how many there are.
        from_us: the earliest end.
        to_us: the latest end.
        fallen: how many ended before they began.
        kinds: how many records of each kind arrived in the judged period.
        first_seq, last_seq: the least and the greatest `seq` of these.
        arrived_us: the earliest arrival of these.
        ended_us: the latest end of these.
    """

    records: int = 0
    from_us: int = NEVER
    to_us: int = -NEVER
    fallen: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    first_seq: int = NEVER
    last_seq: int = -NEVER
    arrived_us: int = NEVER
    ended_us: int = -NEVER


@dataclass(slots=True)
class Reign:
    """The time in which a primary answered a run, and the first and last set that it told.

    Attributes:
        from_us: when it was sent the first statement that it answered.
        to_us: when it was sent the last statement that it answered.
        first: when it was first asked for its whole set in the judged period, and that set; None if
            it was not.
        last: when its last such answer was received, and that set; None if there was none.
    """

    from_us: int = NEVER
    to_us: int = -NEVER
    first: tuple[int, str] | None = None
    last: tuple[int, str] | None = None


@dataclass(slots=True)
class Survey:
    """What was found.

    Attributes:
        records: how many records there are.
        faults: how many lines are no record, by file and fault.
        named: proxy, server_uuid and role, as records name them.
        wanted: what the reads that are judged must see, by the kind of group.
        writers: proxy and server_uuid of servers that wrote or may have.
        servers: run, server and role of the servers that answered.
        reigns: the reigns of primaries, by run and server.
        runs: the runs.
        unnamed: how many statements may have committed GTIDs that no record names.
        nameless: how many statements on primaries, in the judged period, did not report their own
            GTIDs, or may not have reported all.
        wholes: how many whole sets of primaries there are.
        lagging: whether some record holds replication lag.
        judged: how many reads are to be judged.
        from_us: the earliest time.
        bound_us: the largest bound of a read in the judged period.
        sources: the sources of GTIDs (TSIDs), by proxy, as far as the longest sets tell.
    """

    records: int = 0
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    named: set[tuple[str, str | None, str | None]] = field(default_factory=set)
    wanted: dict[str, Wanted] = field(default_factory=dict)
    writers: set[tuple[str, str | None]] = field(default_factory=set)
    servers: set[tuple[Run, Server, str | None]] = field(default_factory=set)
    reigns: dict[tuple[Run, Server], Reign] = field(default_factory=dict)
    runs: dict[Run, RunSurvey] = field(default_factory=dict)
    unnamed: int = 0
    nameless: int = 0
    wholes: int = 0
    lagging: bool = False
    judged: int = 0
    from_us: int = NEVER
    bound_us: int = 0
    sources: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add_servers(self, other: "Survey") -> None:
        """Add the servers of other records, which are not judged."""
        self.named |= other.named
        self.writers |= other.writers
        self.servers |= other.servers
        for key, reign in other.reigns.items():
            mine = self.reigns.setdefault(key, Reign())
            mine.from_us = min(mine.from_us, reign.from_us)
            mine.to_us = max(mine.to_us, reign.to_us)
        for proxy, sources in other.sources.items():
            self.sources[proxy] |= sources

    def sources_of(self, clusters: Mapping[str, str]) -> dict[str, set[str]]:
        """The sources of GTIDs by cluster, given the cluster of each proxy."""
        found: dict[str, set[str]] = {name: set() for name in clusters.values()}
        for proxy, sources in self.sources.items():
            found[clusters[proxy]] |= sources
        return found


_WHERE: Final = (*RUN, "kind", "server_uuid", "incarnation", "role", "owed_in", "level")


def look(parsed: DataFrame, period: Period | None, dates: tuple[str, str] | None) -> Survey:
    """Look at a log; this runs a job.

    Args:
        parsed: PARSED of the records that are read, with the columns of `statement.facts`, and all
            lines that are no record.
        period: the judged period; None for all.
        dates: the first and the last day of the segments whose lines that are no record count; None
            for all segments.
    """
    keys = [f"if(fault is null, {name}, null) as {name}" for name in _WHERE]
    keys += (f"if(fault is null, null, {name}) as {name}" for name in ("file", "fault"))
    rows = (
        parsed.selectExpr("*", f"{_told(period)} as told")
        .groupBy(*map(fn.expr, keys))
        .agg(*(fn.expr(f"{figure} as {name}") for name, figure in _figures().items()))
        .collect()
    )
    found = Survey()
    for row in rows:
        if row.fault is None:
            _add(found, row)
        else:
            date = row.file.partition("/")[0].removeprefix("date=")
            if dates is None or dates[0] <= date <= dates[1]:
                found.faults[row.file, row.fault] += row.records
    return found


def _told(period: Period | None) -> str:
    """Whether a record arrived in the judged period: the report's tables count only these."""
    if period is None:
        return "true"
    return f"arrived_us >= {period.begin_us} and arrived_us < {period.end_us}"


def _figures() -> dict[str, str]:
    primary, judged, whole = "role <=> 'primary'", "is_read and told", "told and whole is not null"
    return {
        "records": "count(*)",
        "from_us": "min(ended_us)",
        "to_us": "max(ended_us)",
        "least_us": "least(min(arrived_us), min(dispatched_us), min(ended_us))",
        "fallen": "count_if(ended_us < greatest(arrived_us, dispatched_us))",
        "told": "count_if(told)",
        "first_seq": "min(if(told, seq, null))",
        "last_seq": "max(if(told, seq, null))",
        "told_from_us": "min(if(told, arrived_us, null))",
        "told_to_us": "max(if(told, ended_us, null))",
        "judged": f"count_if({judged})",
        "bound_us": f"max(if({judged} and level = 'BOUNDED_STALENESS', bound_us, null))",
        "names": "coalesce(bool_or(named != ''), false)",
        "unnamed": "count_if(is_unnamed)",
        "nameless": f"""count_if(kind = 'statement' and {primary} and told
            and (is_unnamed or named != '' and own_gtids = ''))""",
        "served_from_us": f"min(if({primary} and outcome != 'lost', dispatched_us, null))",
        "served_to_us": f"max(if({primary} and outcome != 'lost', dispatched_us, null))",
        "wholes": "count_if(whole is not null)",
        "first": f"min(if({whole}, struct(dispatched_us as us, whole as gtids), null))",
        "last": f"max(if({whole}, struct(ended_us as us, whole as gtids), null))",
        "sources": f"collect_set({_sources('own_gtids')})",
        "shown_sources": f"collect_set(if(kind = 'proof', {_sources('proof_set')}, null))",
        "lagging": """count_if(contains(line, '"lag"'))""",
    }


def _sources(text: str) -> str:
    """A set without its numbers: a colon stands for the intervals of a source."""
    return f"if({is_formed(text)}, regexp_replace({text}, '(:[0-9][0-9-]*)+', ':'), null)"


def _add(found: Survey, row: Row) -> None:
    found.records += row.records
    found.unnamed += row.unnamed
    found.nameless += row.nameless
    found.wholes += row.wholes
    found.judged += row.judged
    found.lagging |= row.lagging > 0
    found.from_us = min(found.from_us, row.least_us)
    for text in (*row.sources, *row.shown_sources):
        found.sources[row.proxy].update(_named_in(text))
    _add_run(found, row)
    _add_server(found, row)
    if row.judged:
        found.bound_us = max(found.bound_us, row.bound_us or 0)
        mine = found.wanted.get(row.owed_in, Wanted(own=False, seen=False))
        found.wanted[row.owed_in] = Wanted(
            mine.own or row.level in OWN_LEVELS, mine.seen or row.level in SEEN_LEVELS
        )


def _named_in(text: str) -> Iterator[str]:
    """The sources in a text of `_sources`."""
    for item in text.split(","):
        uuid, *parts = item.split(":")
        source = uuid
        for part in parts:
            if part:
                source = f"{uuid}:{part}"
            else:
                yield source


def _run(row: Row) -> Run:
    return row.proxy, row.worker, row.run


def _add_run(found: Survey, row: Row) -> None:
    run = found.runs.setdefault(_run(row), RunSurvey())
    run.records += row.records
    run.from_us, run.to_us = min(run.from_us, row.from_us), max(run.to_us, row.to_us)
    run.fallen += row.fallen
    if row.told:
        run.kinds[row.kind] += row.told
        run.first_seq = min(run.first_seq, row.first_seq)
        run.last_seq = max(run.last_seq, row.last_seq)
        run.arrived_us = min(run.arrived_us, row.told_from_us)
        run.ended_us = max(run.ended_us, row.told_to_us)


def _add_server(found: Survey, row: Row) -> None:
    server = row.server_uuid, row.incarnation
    found.named.add((row.proxy, row.server_uuid, row.role))
    found.servers.add((_run(row), server, row.role))
    if row.names or (row.unnamed and row.server_uuid is not None):
        found.writers.add((row.proxy, row.server_uuid))
    if row.role != "primary":
        return
    reign = found.reigns.setdefault((_run(row), server), Reign())
    if row.served_from_us is not None:
        reign.from_us = min(reign.from_us, row.served_from_us)
        reign.to_us = max(reign.to_us, row.served_to_us)
    if row.first is not None:
        first, last = (row.first.us, row.first.gtids), (row.last.us, row.last.gtids)
        reign.first = min(reign.first or first, first)
        reign.last = max(reign.last or last, last, key=lambda told: told[0])
