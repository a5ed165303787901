"""Applies changes of the primary that are over to facts.

What the new primary lacks is removed from facts, and the rest is attributed to the new primary. So
a state names only the last primary, except for runs that have not turned to it. What is removed is
exactly what `judge.Judge` no longer holds reads to after it has gone through the change record by
record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Flags, Numbers, alike, starts
from spark_jobs.columns.chunk import Chunk
from spark_jobs.columns.numbers import Runs
from spark_jobs.columns.survey import Run, Server
from spark_jobs.gtid import parse
from spark_jobs.primaries.primary_history import Term
from spark_jobs.state import facts
from spark_jobs.state.facts import ASKED, FACT, SAW, SHOWED, WROTE
from spark_jobs.tables.schema import RUN

_MOST: Final = 62
"""How many changes of one cluster are considered at most: the newest. Each is a bit of a code."""

_HELD: Final = (WROTE, SAW, SHOWED, ASKED)
"""Facts that reads are held to."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Which servers answered, and when; each array covers all rows.

    Attributes:
        run: the number of the row's run.
        keys: RUN by the number of a run.
        uuid: the number of the row's server; -1 for none.
        uuids: server_uuid by the number of a server.
        primary: whether a primary answered.
        sent_us: when the server was asked.
        ended_us: when the server had answered.
    """

    run: Numbers
    keys: Sequence[Run]
    uuid: Numbers
    uuids: Sequence[str]
    primary: Flags
    sent_us: Numbers
    ended_us: Numbers


@dataclass(frozen=True, slots=True)
class Turns:
    """The changes of primaries that are over.

    Attributes:
        over: by cluster, the terms that began before what is kept as the tail, by `until_us`.
        turned_us: `primary_history.History.successions`.
        presiding: the last primary, by run, for runs that have turned to it or are over.
    """

    over: Mapping[str, Sequence[Term]] = field(default_factory=dict)
    turned_us: Mapping[tuple[object, ...], int] = field(default_factory=dict)
    presiding: Mapping[Run, Server] = field(default_factory=dict)

    def code(self, chunk: Chunk, clusters: Mapping[str, str]) -> Numbers:
        """A bit mask for each record: of the changes that reduce it to what the new primary has."""
        if not self.over:
            return np.zeros(len(chunk), np.int64)
        runs, uuid = Runs(chunk), chunk.text("server_uuid")
        rows = _Rows(
            run=runs.each,
            keys=runs.keys(),
            uuid=uuid.codes,
            uuids=uuid.values,
            primary=chunk.of_primary,
            sent_us=chunk.number("dispatched_us"),
            ended_us=chunk.number("ended_us"),
        )
        return self._code(rows, clusters)

    def code_of(self, of: pa.Table, clusters: Mapping[str, str]) -> Numbers:
        """The same for facts of the state before."""
        if not self.over or not of.num_rows:
            return np.zeros(of.num_rows, np.int64)
        run, _ = alike(*facts.codes(of, RUN))
        keys = of.select(RUN).take(pa.array(np.unique(run, return_index=True)[1])).to_pylist()
        uuid = of.column("server_uuid").combine_chunks().dictionary_encode()
        rows = _Rows(
            run=run,
            keys=[(it["proxy"], it["worker"], it["run"]) for it in keys],
            uuid=uuid.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64),
            uuids=uuid.dictionary.to_pylist(),
            primary=np.array([it == "primary" for it in of.column("role").to_pylist()], bool),
            sent_us=facts.number(of, "dispatched_us"),
            ended_us=facts.number(of, "ended_us"),
        )
        held = np.isin(facts.number(of, "what"), _HELD)
        return np.where(held, self._code(rows, clusters), 0)

    def _code(self, rows: _Rows, clusters: Mapping[str, str]) -> Numbers:
        code = np.zeros(len(rows.run), np.int64)
        names = np.array([clusters[proxy] for proxy, _, _ in rows.keys], object)
        for cluster, terms in self.over.items():
            mine = (names == cluster)[rows.run]
            late = mine & rows.primary
            for bit, term in reversed(list(enumerate(terms[-_MOST:]))):
                turned = [self.turned_us.get((*run, term.server_uuid), 0) for run in rows.keys]
                until = np.maximum(np.array(turned, np.int64), term.until_us)[rows.run]
                own = np.array([*(it == term.server_uuid for it in rows.uuids), False])[rows.uuid]
                begun = rows.ended_us > term.from_us
                # From the newest term on, as in `Judge._held`.
                hit = late & begun & ~own & (rows.sent_us < until)
                late &= ~hit & ~(begun & own & (rows.sent_us >= term.until_us))
                code |= np.where(hit | (mine & (rows.ended_us <= term.until_us)), 1 << bit, 0)
        return code

    def cut(self, of: pa.Table, code: Numbers, clusters: Mapping[str, str]) -> pa.Table:
        """Reduce facts to what the primaries of these changes have."""
        rows = np.flatnonzero(code)
        if not len(rows):
            return of
        texts = of.column("gtids").to_pylist()
        proxies = of.column("proxy").to_pylist()
        for row in rows:
            gtids = parse(texts[row])
            for bit, term in enumerate(self.over[clusters[proxies[row]]][-_MOST:]):
                if code[row] >> bit & 1:
                    gtids = gtids.common(parse(term.executed))
            texts[row] = gtids.text()
        return of.set_column(FACT.get_field_index("gtids"), "gtids", pa.array(texts, pa.string()))

    def renamed(self, of: pa.Table) -> pa.Table:
        """Attribute facts of earlier primaries to the last one."""
        if not self.presiding or not of.num_rows:
            return of
        names = (*RUN, "role", "server_uuid", "incarnation")
        group, count = alike(*facts.codes(of, names))
        order = np.argsort(group, kind="stable")
        one = order[starts(group[order])]
        servers: list[Server] = []
        for it in of.select(names).take(pa.array(one)).to_pylist():
            its = it["server_uuid"], it["incarnation"]
            run = it["proxy"], it["worker"], it["run"]
            servers.append(self.presiding.get(run, its) if it["role"] == "primary" else its)
        place = np.empty(count, np.int64)
        place[group[one]] = np.arange(count)
        for at, (name, kind) in enumerate(
            (("server_uuid", pa.string()), ("incarnation", pa.int64()))
        ):
            its_values = pa.array([server[at] for server in servers], kind)
            column = its_values.take(pa.array(place[group]))
            of = of.set_column(FACT.get_field_index(name), name, column)
        return of
