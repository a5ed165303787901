"""The first pass through a log: what it holds, and all that follows from single records.

The result for one piece is a `Survey`, and surveys add up. The numbers of records go to files, as
stretches (`numbers`), since there may be more of them than fit into one process.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np

from spark_jobs.arrays import NEVER, Flags, Numbers, alike, in_order
from spark_jobs.columns.chunk import Chunk, Rules
from spark_jobs.columns.numbers import Numbering, Runs
from spark_jobs.columns.piece import Piece, batches, read, write
from spark_jobs.promise import OWN_LEVELS, SEEN_LEVELS
from spark_jobs.tables.schema import RUN

Run = tuple[str, int, str]
"""The columns RUN of a record."""

Server = tuple[str | None, int | None]
"""A server's UUID and incarnation; each run counts incarnations for itself."""

COLUMNS: Final = tuple(
    dict.fromkeys(
        (
            *(*RUN, "kind", "seq", "session", "ordinal", "dropped", "application", "scope"),
            *("level", "class", "may_write", "arrived_us", "dispatched_us", "ended_us", "server"),
            *("server_uuid", "incarnation", "role", "proof", "proof_set", "outcome", "own_gtids"),
            *("own_known", "observed", "line", "bound_us"),
        )
    )
)


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

    def add(self, other: "RunSurvey") -> None:
        """Add the result of another piece."""
        self.records += other.records
        self.from_us = min(self.from_us, other.from_us)
        self.to_us = max(self.to_us, other.to_us)
        self.fallen += other.fallen
        self.kinds.update(other.kinds)
        self.first_seq = min(self.first_seq, other.first_seq)
        self.last_seq = max(self.last_seq, other.last_seq)
        self.arrived_us = min(self.arrived_us, other.arrived_us)
        self.ended_us = max(self.ended_us, other.ended_us)


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

    def add(self, other: "Reign") -> None:
        """Add the result of another piece."""
        self.from_us = min(self.from_us, other.from_us)
        self.to_us = max(self.to_us, other.to_us)
        if other.first is not None:
            self.first = min(self.first or other.first, other.first)
        if other.last is not None:
            self.last = max(self.last or other.last, other.last, key=lambda it: it[0])


@dataclass(slots=True)
class Survey:
    """What was found in some pieces.

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
        lagging: whether some record holds replication lag.
        from_us: the earliest time.
        bound_us: the largest bound of a read in the judged period.
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
    lagging: bool = False
    from_us: int = NEVER
    bound_us: int = 0

    def add(self, other: Self) -> None:
        """Add the result of another piece."""
        self.records += other.records
        self.faults.update(other.faults)
        self.named |= other.named
        for kind, its in other.wanted.items():
            mine = self.wanted.get(kind, Wanted(own=False, seen=False))
            self.wanted[kind] = Wanted(mine.own or its.own, mine.seen or its.seen)
        self.writers |= other.writers
        self.servers |= other.servers
        for key, reign in other.reigns.items():
            self.reigns.setdefault(key, Reign()).add(reign)
        for run, its_run in other.runs.items():
            self.runs.setdefault(run, RunSurvey()).add(its_run)
        self.unnamed += other.unnamed
        self.nameless += other.nameless
        self.lagging |= other.lagging
        self.from_us = min(self.from_us, other.from_us)
        self.bound_us = max(self.bound_us, other.bound_us)


def survey(piece: Piece, rules: Rules, dates: tuple[str, str] | None, folder: Path) -> Survey:
    """Look at a piece.

    Args:
        piece: the piece.
        rules: which of its records are read.
        dates: the first and the last day of the segments whose lines that are no record count; None
            for all segments.
        folder: takes the stretches, as Parquet.
    """
    found = Survey()
    stretches, session_stretches = [], []
    found.faults = _faults(piece, dates)
    for chunk in read(piece, COLUMNS, rules):
        runs = Runs(chunk)
        numbering = Numbering(chunk, runs)
        stretches.append(numbering.stretches())
        session_stretches.append(numbering.session_stretches())
        _look(chunk, runs, found)
    write(stretches, folder / "stretches", piece)
    write(session_stretches, folder / "session_stretches", piece)
    return found


def before(piece: Piece, rules: Rules) -> Survey:
    """Find the servers that are named by records which stand for the time before (`state`)."""
    found = Survey()
    for chunk in read(piece, COLUMNS, rules):
        runs = Runs(chunk)
        _look_at_servers(chunk, runs, runs.keys(), found)
    return found


def _faults(piece: Piece, dates: tuple[str, str] | None) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for batch in batches(piece, ["fault"]):
        if batch.column("fault").null_count == batch.num_rows:
            continue
        # Few pieces have a fault; the column `file` is read only for those.
        break
    else:
        return found
    for batch in batches(piece, ["file", "fault"]):
        rows = batch.filter(batch.column("fault").is_valid())
        for file, fault in zip(
            rows.column("file").to_pylist(), rows.column("fault").to_pylist(), strict=True
        ):
            date = file.partition("/")[0].removeprefix("date=")
            if dates is None or dates[0] <= date <= dates[1]:
                found[file, fault] += 1
    return found


def _look(chunk: Chunk, runs: Runs, found: Survey) -> None:
    keys = runs.keys()
    found.records += len(chunk)
    found.unnamed += int(chunk.is_unnamed.sum())
    nameless = chunk.is_unnamed | (chunk.is_named & ~chunk.text("own_gtids").filled)
    nameless &= chunk.is_statement & chunk.of_primary & chunk.is_told
    found.nameless += int(nameless.sum())
    found.lagging |= _tells_lag(chunk)
    for name in ("arrived_us", "dispatched_us", "ended_us"):
        found.from_us = min(found.from_us, int(chunk.number(name).min()))
    _look_at_runs(chunk, runs, keys, found)
    _look_at_servers(chunk, runs, keys, found)
    _look_at_reads(chunk, found)


def _tells_lag(chunk: Chunk) -> bool:
    lines = chunk.column("line")
    if lines.null_count == len(lines):
        return False
    return any('"lag"' in it for it in lines.drop_null().to_pylist())


def _look_at_runs(chunk: Chunk, runs: Runs, keys: Sequence[Run], found: Survey) -> None:
    ended, arrived, seq = (chunk.number(it) for it in ("ended_us", "arrived_us", "seq"))
    fallen = ended < np.maximum(arrived, chunk.number("dispatched_us"))
    its, count, told = runs.each, len(runs), chunk.is_told
    here, kinds = its[told], chunk.text("kind")
    kind_counts = np.zeros((count, len(kinds.held)), np.int64)
    np.add.at(kind_counts, (here, kinds.codes[told]), 1)
    columns = (
        np.bincount(its, minlength=count),
        _least(its, ended, count),
        _most(its, ended, count),
        np.bincount(its[fallen], minlength=count),
        _least(here, seq[told], count),
        _most(here, seq[told], count),
        _least(here, arrived[told], count),
        _most(here, ended[told], count),
    )
    for key, of_kinds, row in zip(keys, kind_counts, zip(*columns, strict=True), strict=True):
        records, from_us, to_us, fell, *others = map(int, row)
        counted = Counter(dict(zip(kinds.values, map(int, of_kinds), strict=True)))
        one = RunSurvey(records, from_us, to_us, fell, counted, *others)
        found.runs.setdefault(key, RunSurvey()).add(one)


def _least(groups: Numbers, values: Numbers, count: int) -> Numbers:
    least = np.full(count, NEVER)
    np.minimum.at(least, groups, values)
    return least


def _most(groups: Numbers, values: Numbers, count: int) -> Numbers:
    most = np.full(count, -NEVER)
    np.maximum.at(most, groups, values)
    return most


def _look_at_servers(chunk: Chunk, runs: Runs, keys: Sequence[Run], found: Survey) -> None:
    uuid, role, incarnation = (
        chunk.text("server_uuid"),
        chunk.text("role"),
        chunk.number("incarnation"),
    )
    writes = chunk.is_named | chunk.is_unnamed
    served = chunk.of_primary & ~chunk.text("outcome").isin("lost")
    has_incarnation = chunk.known("incarnation")
    sent, ended = chunk.number("dispatched_us"), chunk.number("ended_us")
    for rows in _alike(runs.each, uuid.codes, role.codes, incarnation, has_incarnation):
        row = int(rows[0])
        run = keys[int(runs.each[row])]
        server = uuid.at(row), int(incarnation[row]) if has_incarnation[row] else None
        its_role = role.at(row)
        found.named.add((run[0], server[0], its_role))
        found.servers.add((run, server, its_role))
        if (writes[rows] & (chunk.is_named[rows] | (server[0] is not None))).any():
            found.writers.add((run[0], server[0]))
        if its_role != "primary":
            continue
        reign = found.reigns.setdefault((run, server), Reign())
        answers = rows[served[rows]]
        if len(answers):
            reign.add(Reign(int(sent[answers].min()), int(sent[answers].max())))
        whole = rows[chunk.has_whole[rows] & chunk.is_told[rows]]
        if len(whole):
            first, last = whole[np.argmin(sent[whole])], whole[np.argmax(ended[whole])]
            reign.add(
                Reign(
                    first=(int(sent[first]), _whole(chunk, int(first))),
                    last=(int(ended[last]), _whole(chunk, int(last))),
                )
            )


def _whole(chunk: Chunk, row: int) -> str:
    column = "proof_set" if chunk.is_probed[row] else "observed"
    return chunk.text(column).at(row) or ""


def _alike(*columns: Numbers | Flags) -> Iterator[Numbers]:
    """Group the rows that agree in some columns, which must have few values."""
    codes, count = alike(*columns)
    ends = np.cumsum(np.bincount(codes, minlength=count))
    yield from np.split(in_order(codes, count), ends[:-1])


def _look_at_reads(chunk: Chunk, found: Survey) -> None:
    owed, judged, level = chunk.owed_in, chunk.is_judged, chunk.text("level")
    own, seen = level.isin(*OWN_LEVELS), level.isin(*SEEN_LEVELS)
    bounds = chunk.number("bound_us")[judged & level.isin("BOUNDED_STALENESS")]
    found.bound_us = max(found.bound_us, int(bounds.max(initial=0)))
    for number, kind in enumerate(owed.values):
        its = judged & (owed.codes == number)
        if its.any():
            mine = found.wanted.get(kind, Wanted(own=False, seen=False))
            found.wanted[kind] = Wanted(
                own=mine.own or bool(own[its].any()), seen=mine.seen or bool(seen[its].any())
            )
