"""Condenses the records of a piece into the facts that stand for them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Flags, Numbers, alike, in_order, starts
from spark_jobs.columns import settle
from spark_jobs.columns.chunk import Chunk, Rules
from spark_jobs.columns.numbers import Runs
from spark_jobs.columns.piece import Piece, read, write
from spark_jobs.columns.places import Places
from spark_jobs.columns.series import Series
from spark_jobs.columns.survey import Run
from spark_jobs.gtid import MalformedGtidSetError, parse
from spark_jobs.state import facts
from spark_jobs.state.cut import is_before
from spark_jobs.state.facts import HAD, RAN, SAW, SHOWED, SPOKE, UNREAD, WROTE
from spark_jobs.state.turns import Turns
from spark_jobs.state.unions import united
from spark_jobs.tables.schema import RUN

COLUMNS: Final = (
    *(*RUN, "kind", "seq", "session", "ordinal", "user", "application", "class", "may_write"),
    *("arrived_us", "dispatched_us", "ended_us", "server_uuid", "incarnation", "role", "proof"),
    *("proof_set", "wait_us", "outcome", "own_gtids", "own_known", "observed"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be condensed, and how.

    Attributes:
        rules: which records are looked at.
        late: by run, the `seq` from which on its records stay in the tail.
        clusters: the cluster of each proxy.
        turns: the changes of primaries that are over.
        series: the folder of the series (`columns.series`) of what servers had shown; None if
            there are none.
        since_us: times in series are counted from then.
    """

    rules: Rules
    late: Mapping[Run, int]
    clusters: Mapping[str, str]
    turns: Turns
    series: str | None
    since_us: int


@dataclass(slots=True)
class Condensed:
    """Counts over some pieces.

    Attributes:
        facts: how many facts were made.
        unproved: how many reads relied on sets that their servers may not have been shown to have.
    """

    facts: int = 0
    unproved: int = 0

    def add(self, other: "Condensed") -> None:
        """Add the counts of another piece."""
        self.facts += other.facts
        self.unproved += other.unproved


def condense(piece: Piece, plan: Plan, folder: Path) -> Condensed:
    """Condense a piece.

    Args:
        piece: records of the log.
        plan: what to condense, and how.
        folder: takes ``facts``; and ``unproved``, one fact SHOWED per read with its claim and its
            `seq`, as if the read had shown its claim. Both are FACT, as Parquet.
    """
    made: defaultdict[str, list[pa.Table]] = defaultdict(list)
    turned: list[Numbers] = []
    for chunk in read(piece, COLUMNS, plan.rules):
        its = _Condenser(chunk, plan)
        made["facts"] += its.tables
        turned += its.turned
        made["unproved"] += its.unproved
    found = Condensed()
    if made["facts"]:
        every = pa.concat_tables(made["facts"])
        code = np.concatenate(turned)
        together = facts.merged(every.append_column("turned", pa.array(code)), code)
        code = facts.number(together, "turned")
        made["facts"] = [plan.turns.cut(together.drop_columns("turned"), code, plan.clusters)]
    for name in ("facts", "unproved"):
        write(made[name], folder / name, piece)
    found.facts = sum(it.num_rows for it in made["facts"])
    found.unproved = sum(it.num_rows for it in made["unproved"])
    return found


class _Condenser:
    """Condenses one chunk.

    Attributes:
        tables: FACT.
        turned: `Turns.code` of each row of `tables`.
        unproved: FACT of the reads whose claims must be weighed one by one.
    """

    def __init__(self, chunk: Chunk, plan: Plan) -> None:
        self._chunk, self._plan = chunk, plan
        self._runs = Runs(chunk)
        self.tables: list[pa.Table] = []
        self.turned: list[Numbers] = []
        self.unproved: list[pa.Table] = []
        self._old = is_before(self._runs, chunk.number("seq"), plan.late)
        if self._old.any():
            self._numbers()
            self._servers()
            self._statements()

    # What is grouped

    def _make(
        self,
        what: int,
        rows: Numbers,
        names: Sequence[str],
        of: Numbers | None = None,
        turned: Numbers | None = None,
    ) -> None:
        """Make facts of some records: records that agree in the named columns become one fact."""
        if not len(rows):
            return
        chunk = self._chunk
        keys = [self._runs.each[rows]]
        for name in names:
            if name in ("session", "incarnation"):
                keys += [chunk.number(name)[rows], chunk.known(name)[rows].astype(np.int64)]
            else:
                keys.append(chunk.text(name).codes[rows])
        if turned is not None:
            keys.append(turned)
        group, count = alike(*keys)
        order = in_order(group, count)
        first = np.flatnonzero(starts(group[order]))
        one = rows[order[first]]
        columns: dict[str, pa.Array | Numbers] = dict(
            zip(RUN, self._runs.columns(one), strict=True)
        )
        for name in names:
            columns[name] = _plain(chunk.column(name).take(pa.array(one)))
        for name in ("ordinal", "seq", "dispatched_us", "ended_us"):
            columns[name] = np.maximum.reduceat(chunk.number(name)[rows][order], first)
        if of is not None:
            sets = chunk.sets
            columns["gtids"] = united(sets, chunk.set_texts, group, of[rows], count)
        self.tables.append(facts.table(what, columns, count))
        code = np.zeros(count, np.int64) if turned is None else turned[order[first]]
        self.turned.append(code)

    def _numbers(self) -> None:
        chunk = self._chunk
        self._make(RAN, np.flatnonzero(self._old), ())
        self._make(SPOKE, np.flatnonzero(self._old & chunk.is_statement), ("session",))

    def _servers(self) -> None:
        chunk = self._chunk
        named = self._old & chunk.text("server_uuid").known
        waited = chunk.is_statement & chunk.text("proof").isin("waited")
        for where, of in (
            (named & (chunk.is_proof | waited), chunk.set("proof_set")),
            (named & chunk.is_statement, chunk.set("observed")),
        ):
            rows = np.flatnonzero(where & self._sound(of) & (self._size(of) > 0))
            self._make(HAD, rows, ("server_uuid", "incarnation"), of)

    # Statements

    def _statements(self) -> None:
        chunk = self._chunk
        statement = self._old & chunk.is_statement
        code = self._plan.turns.code(chunk, self._plan.clusters)
        whose = ("session", "user", "application")
        server = ("role", "server_uuid", "incarnation")

        def make(what: int, where: Flags, names: Sequence[str], of: Numbers) -> None:
            rows = np.flatnonzero(where & self._sound(of) & (self._size(of) > 0))
            self._make(what, rows, names, of, code[rows])

        wrote = statement & chunk.is_named
        make(WROTE, wrote, (*whose, *server), chunk.named)
        unread = np.flatnonzero(wrote & ~self._sound(chunk.named))
        self._make(UNREAD, unread, (*whose, *server))
        observed = chunk.set("observed")
        at_replica = chunk.of_replica & chunk.text("server_uuid").known
        known = wrote & (chunk.named == observed)  # WROTE covers it: what was written was seen
        make(SAW, statement & ~at_replica & ~known, whose, observed)
        make(SHOWED, statement & at_replica, (*whose, *server), observed)
        claims = statement & chunk.is_read & chunk.of_replica & chunk.is_ok
        claim = chunk.set("proof_set")
        waited, relied = (claims & chunk.text("proof").isin(it) for it in ("waited", "known"))
        sure = relied & at_replica & self._backed(relied & at_replica, claim)
        make(SHOWED, at_replica & (waited | sure), (*whose, *server), claim)
        make(SAW, ~at_replica & waited, whose, claim)
        rest = np.flatnonzero(relied & ~sure & self._sound(claim) & (self._size(claim) > 0))
        if len(rest):
            self.unproved.append(self._each(rest, (*whose, *server)))

    def _backed(self, where: Flags, claim: Numbers) -> Flags:
        backed = np.zeros(len(where), bool)
        plan, rows = self._plan, np.flatnonzero(where)
        if plan.series is not None and len(rows):
            its = Places(self._chunk, plan.clusters)
            series = Series.open(plan.series)
            backed[rows] = settle.backed(self._chunk, its, series, rows, claim, plan.since_us)
            backed &= ~self._chunk.sets.odd[claim]
        return backed

    def _each(self, rows: Numbers, names: Sequence[str]) -> pa.Table:
        """Make a fact SHOWED of each of some records, with its claim."""
        chunk, its = self._chunk, pa.array(rows)
        columns: dict[str, pa.Array | Numbers] = dict(
            zip(RUN, self._runs.columns(rows), strict=True)
        )
        columns |= {name: _plain(chunk.column(name).take(its)) for name in names}
        for name in ("ordinal", "seq", "dispatched_us", "ended_us"):
            columns[name] = chunk.number(name)[rows]
        columns["gtids"] = _plain(chunk.column("proof_set").take(its))
        return facts.table(SHOWED, columns, len(rows))

    # Sets

    def _size(self, of: Numbers) -> Numbers:
        """How many intervals each set has; 1 for odd sets."""
        sets = self._chunk.sets
        found: Numbers = np.where(sets.odd, 1, sets.sizes)[of]
        return found

    def _sound(self, of: Numbers) -> Flags:
        """Whether each text is a well-formed set."""
        chunk = self._chunk
        sound = np.ones(len(chunk.sets.odd), bool)
        for place in np.flatnonzero(chunk.sets.odd):
            try:
                parse(str(chunk.set_texts[int(place)]))
            except MalformedGtidSetError:
                sound[place] = False
        flags: Flags = sound[of]
        return flags


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
