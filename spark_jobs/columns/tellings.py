"""The second pass: turns what was written, seen and shown into tellings, which are numbers.

Every telling belongs to a series: what one group knows of one source, or what one incarnation of a
server has shown of it. The series are sorted afterwards (`series`). Then each read is compared with
its moment in each of the series that matter to it.
"""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Flags, Numbers
from spark_jobs.columns import hashes, places
from spark_jobs.columns.chunk import Chunk, Rules
from spark_jobs.columns.piece import Piece, read, write
from spark_jobs.columns.places import BLIND, BLOCKED, ROUGH, Places
from spark_jobs.columns.series import MET, OWN, SEEN, SHOWN, TELLING, TOLD, WROTE, Telling, thinned
from spark_jobs.columns.survey import Wanted
from spark_jobs.gtid import MalformedGtidSetError, parse
from spark_jobs.promise import SEEN_LEVELS
from spark_jobs.tables.schema import RUN

COLUMNS: Final = (
    *(*RUN, "kind", "seq", "session", "user", "application", "scope", "level", "class"),
    *("may_write", "arrived_us", "dispatched_us", "ended_us", "server_uuid", "incarnation", "role"),
    *("proof", "proof_set", "wait_us", "outcome", "own_gtids", "own_known", "observed", "digest"),
    "snapshot_us",
)

EVENT: Final = (
    *(*RUN, "session", "seq", "kind", "user", "application", "class", "role", "server_uuid"),
    *("incarnation", "arrived_us", "dispatched_us", "ended_us", "digest", "own_gtids"),
)
"""The columns that are kept of records in ``tides`` and ``opened``."""

_FORMS: Final = 1000
"""How many forms of whole sets are kept at most. Sets of further forms prove nothing here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What tellings are needed.

    Attributes:
        rules: which records are read.
        clusters: the cluster of each proxy.
        wanted: what reads must see, by the kind of group.
        holes: `hashes` of run and seq of the statements before which others are missing, sorted.
        since_us: times in series are counted from then; earlier times count as this one.
    """

    rules: Rules
    clusters: Mapping[str, str]
    wanted: Mapping[str, Wanted]
    holes: Numbers
    since_us: int


Intervals = tuple[Numbers, Numbers]
"""The low ends and the high ends of some intervals."""


@dataclass(frozen=True, slots=True)
class Form:
    """A primary's whole set without the greatest number of the primary's own source.

    Whole sets of a primary mostly differ in that number alone.

    Attributes:
        main: the primary's own source; "" if the set does not have it.
        rest: all other intervals, as (source, low, high).
    """

    main: str
    rest: tuple[tuple[str, int, int], ...]


@dataclass(slots=True)
class Told:
    """What was found in some pieces, besides their tellings.

    Attributes:
        tellings: how many tellings there are.
        own: the sources of what was written, by cluster.
        seen: the sources of what was seen, by cluster.
        shown: the sources of what servers showed, by cluster.
        wrote: the sources of what primaries acknowledged, by cluster.
        rough: clusters in which a write's set or a primary's whole set is odd (`sets`).
        named: the intervals that `own_gtids` name, by cluster and source.
        forms: the forms of primaries' whole sets, by their numbers.
        opened: how many statements left something open.
        tides: how many whole sets of primaries there are.
    """

    tellings: int = 0
    own: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    seen: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    shown: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    wrote: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    rough: set[str] = field(default_factory=set)
    named: dict[tuple[str, str], Intervals] = field(default_factory=dict)
    forms: dict[int, Form] = field(default_factory=dict)
    opened: int = 0
    tides: int = 0

    def add(self, other: "Told") -> None:
        """Add the result of another piece."""
        self.tellings += other.tellings
        for mine, its in (
            *((self.own, other.own), (self.seen, other.seen)),
            *((self.shown, other.shown), (self.wrote, other.wrote)),
        ):
            for cluster, sources in its.items():
                mine[cluster] |= sources
        self.rough |= other.rough
        for key, intervals in other.named.items():
            self.named[key] = merged(*(it for it in (self.named.get(key), intervals) if it))
        self.forms |= other.forms
        self.opened += other.opened
        self.tides += other.tides


def merged(*some: Intervals) -> Intervals:
    """Merge intervals: sorted, and those that touch as one."""
    low, high = (np.concatenate([it[end] for it in some]) for end in (0, 1))
    if not len(low):
        return low, high
    order = np.argsort(low, kind="stable")
    low, most = low[order], np.maximum.accumulate(high[order])
    first = np.ones(len(low), bool)
    first[1:] = low[1:] > most[:-1] + 1
    begins = np.flatnonzero(first)
    return low[begins], most[np.append(begins[1:], len(low)) - 1]


def tell(piece: Piece, plan: Plan, folder: Path) -> Told:
    """Write the tellings of a piece.

    Args:
        piece: the piece.
        plan: what tellings are needed.
        folder: takes ``tellings``, ``tides`` and ``opened``, as Parquet.
    """
    told = Told()
    tellings: list[pa.Table] = []
    events: defaultdict[str, list[pa.Table]] = defaultdict(list)
    for chunk in read(piece, COLUMNS, plan.rules):
        one = _Teller(chunk, plan, told)
        tellings.append(one.tellings())
        for name, table in one.events().items():
            if table.num_rows:
                events[name].append(table)
    write(tellings, folder / "tellings", piece)
    for name, tables in events.items():
        write(tables, folder / name, piece)
    told.tellings = sum(it.num_rows for it in tellings)
    told.tides = sum(it.num_rows for it in events["tides"])
    told.opened = sum(it.num_rows for it in events["opened"])
    return told


class _Teller:
    """Makes the tellings of one chunk."""

    def __init__(self, chunk: Chunk, plan: Plan, told: Told) -> None:
        self._chunk, self._plan, self._told = chunk, plan, told
        self._places = Places(chunk, plan.clusters)
        self._sources = [hashes.of(it) for it in chunk.sets.sources]
        self._found: list[Telling] = []

    def tellings(self) -> pa.Table:
        """All tellings of the chunk: TELLING."""
        for kind, wanted in self._plan.wanted.items():
            self._of_group(kind, wanted)
        self._of_servers()
        self._of_clusters()
        self._of_primaries()
        self._of_places()
        self._name()
        return (
            pa.concat_tables(it.table() for it in self._found)
            if self._found
            else pa.table({name: pa.array([], pa.int64()) for name in TELLING.names})
        )

    def _since(self, us: Numbers) -> Numbers:
        relative: Numbers = np.maximum(us - self._plan.since_us, 0)
        return relative

    def _add(
        self, table: int, rows: Numbers, series: Numbers, at: Numbers, *values: Numbers | int
    ) -> None:
        if len(rows):
            its = [np.broadcast_to(np.asarray(it, np.int64), len(rows)) for it in values]
            self._found.append(Telling(table, series, at, *its))

    def _intervals(self, rows: Numbers, of: Numbers) -> tuple[Numbers, Numbers]:
        """For each interval of these records' sets: the record, and the place of the interval."""
        sets = self._chunk.sets
        sizes = sets.sizes[of[rows]]
        owners = np.repeat(rows, sizes)
        first = np.repeat(sets.begins[of[rows]], sizes)
        step = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return owners, first + step

    def _note(self, where: dict[str, set[str]], rows: Numbers, at: Numbers) -> None:
        """Note the sources of these intervals, by cluster."""
        sets, its = self._chunk.sets, self._places
        if not len(rows):
            return
        width = max(1, len(sets.sources))
        for both in np.unique(its.cluster_codes[rows] * width + sets.source[at]):
            code, source = divmod(int(both), width)
            where[its.clusters[code]].add(sets.sources[source])

    # Groups

    def _of_group(self, kind: str, wanted: Wanted) -> None:
        chunk, sets = self._chunk, self._chunk.sets
        group, there = self._places.group(kind), places.counts(chunk, kind)
        own = kind == "connection"
        ended = chunk.number("ended_us")
        if kind == "cluster":
            ended = ended - self._plan.rules.error_us  # the earliest possible end
        at = chunk.number("seq") if own else self._since(ended)
        writes = there & chunk.is_named
        odd = np.flatnonzero(writes & sets.odd[chunk.named])
        self._add(OWN, odd, places.series(group[odd], BLOCKED), at[odd], 0, 1, 0)
        if wanted.own:
            rows, its = self._intervals(np.flatnonzero(writes), chunk.named)
            self._note(self._told.own, rows, its)
            source = np.array([*self._sources, 0])[sets.source[its]]
            ended = chunk.number("ended_us")[rows]
            self._add(
                OWN,
                rows,
                places.series(group[rows], source),
                at[rows],
                -sets.low[its],
                sets.high[its],
                ended,
            )
        if wanted.seen or kind == "cluster":
            self._saw(kind, group, there, at)

    def _saw(self, kind: str, group: Numbers, there: Flags, at: Numbers) -> None:
        """Tell what was seen in groups, and whether that is certain."""
        chunk, sets = self._chunk, self._chunk.sets
        looks = there & (chunk.of_primary | (kind != "cluster"))
        observed = np.where(chunk.has_whole, chunk.whole, chunk.set("observed"))
        claims = chunk.is_read & chunk.of_replica & chunk.text("proof").isin("known", "waited")
        claims &= chunk.text("proof_set").known & chunk.is_ok & there & (kind != "cluster")
        waited = claims & chunk.text("proof").isin("waited")
        parts = (
            (there & chunk.is_named, chunk.named, np.ones(len(chunk), np.int64)),
            (looks, observed, np.ones(len(chunk), np.int64)),
            (claims, chunk.set("proof_set"), waited.astype(np.int64)),
        )
        ended = chunk.number("ended_us")
        wrote = chunk.is_named & there
        odd = np.flatnonzero((looks & sets.odd[observed]) | (claims & sets.odd[parts[2][1]]))
        self._add(SEEN, odd, places.series(group[odd], BLIND), at[odd], 1, 1, 0)
        for number, name in enumerate(sets.sources):
            top, sure = np.zeros(len(chunk), np.int64), np.zeros(len(chunk), np.int64)
            tops = sets.tops(number)
            for where, of, certain in parts:
                its = np.where(where, tops[of], 0)
                top = np.maximum(top, its)
                sure = np.where(its > 0, np.maximum(sure, certain), sure)
            rows = np.flatnonzero(top)
            if not len(rows):
                continue
            for code in np.unique(self._places.cluster_codes[rows]):
                self._told.seen[self._places.clusters[code]].add(name)
            of_source = places.series(group[rows], self._sources[number])
            values = top[rows], sure[rows], np.where(wrote, ended, 0)[rows]
            self._found += thinned(Telling(SEEN, of_source, at[rows], *values))

    # Servers

    def _of_servers(self) -> None:
        """Tell what servers showed that they have."""
        chunk, named = self._chunk, self._chunk.text("server_uuid").known
        ended = self._since(chunk.number("ended_us"))
        answered = self._since(chunk.number("dispatched_us") + chunk.number("wait_us"))
        waited = named & chunk.is_statement & chunk.text("proof").isin("waited")
        reported = named & chunk.is_statement & chunk.text("observed").filled
        self._shown(named & chunk.is_proof, ended, chunk.set("proof_set"))
        self._shown(waited, answered, chunk.set("proof_set"))
        self._shown(reported, ended, chunk.set("observed"))

    def _shown(self, where: Flags, at: Numbers, of: Numbers) -> None:
        sets, server = self._chunk.sets, self._places.server
        rows = np.flatnonzero(where)
        odd = rows[sets.odd[of[rows]]]
        self._add(SHOWN, odd, places.series(server[odd], ROUGH), at[odd], 1, 1, 0)
        for number, name in enumerate(sets.sources):
            top, prefix = sets.tops(number)[of[rows]], sets.prefixes(number)[of[rows]]
            its = rows[top > 0]
            if not len(its):
                continue
            for code in np.unique(self._places.cluster_codes[its]):
                self._told.shown[self._places.clusters[code]].add(name)
            of_source = places.series(server[its], self._sources[number])
            values = prefix[top > 0], top[top > 0], np.zeros(len(its), np.int64)
            self._found += thinned(Telling(SHOWN, of_source, at[its], *values))

    # Clusters

    def _of_clusters(self) -> None:
        """Tell what primaries acknowledged."""
        chunk, sets = self._chunk, self._chunk.sets
        wrote = chunk.is_statement & chunk.is_named & chunk.of_primary
        rough = (wrote & sets.odd[chunk.named]) | (chunk.has_whole & sets.odd[chunk.whole])
        for code in np.unique(self._places.cluster_codes[rough]):
            self._told.rough.add(self._places.clusters[code])
        rows = np.flatnonzero(wrote)
        at = self._since(chunk.number("ended_us") + self._plan.rules.error_us)
        cluster = self._places.cluster
        for number, name in enumerate(sets.sources):
            top = sets.tops(number)[chunk.named[rows]]
            its = rows[top > 0]
            for code in np.unique(self._places.cluster_codes[its]):
                self._told.wrote[self._places.clusters[code]].add(name)
            of_source = places.series(cluster[its], self._sources[number])
            zero = np.zeros(len(its), np.int64)
            self._found += thinned(Telling(WROTE, of_source, at[its], top[top > 0], zero, zero))

    def _of_primaries(self) -> None:
        """Tell the whole sets of proxies' primaries."""
        chunk, sets = self._chunk, self._chunk.sets
        rows = np.flatnonzero(chunk.has_whole & ~sets.odd[chunk.whole])
        if not len(rows):
            return
        its = chunk.whole[rows]
        main = self._main(rows)
        top, form = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        for source in np.unique(main):
            mine = main == source
            tops, rest = self._forms(int(source), np.unique(its[mine]))
            top[mine], form[mine] = tops[its[mine]], rest[its[mine]]
        asked = self._since(chunk.number("dispatched_us")[rows])
        told = self._since(chunk.number("ended_us")[rows])
        proxy = self._places.group("proxy")[rows]
        self._add(TOLD, rows, proxy, asked, told, top, form)

    def _main(self, rows: Numbers) -> Numbers:
        """The place of each answering primary's own source in `sets.sources`; -1 for none."""
        uuid, places = self._chunk.text("server_uuid"), self._chunk.sets.sources
        its = [places.index(it) if it in places else -1 for it in uuid.values]
        return np.array([*its, -1])[uuid.codes[rows]]

    def _forms(self, main: int, which: Numbers) -> tuple[Numbers, Numbers]:
        """The greatest number of a source in each set, and the number of the set's form."""
        sets = self._chunk.sets
        tops = sets.tops(main) if main >= 0 else np.zeros(len(sets.odd), np.int64)
        prefix = sets.prefixes(main) if main >= 0 else tops
        owner, its = self._intervals(which, np.arange(len(sets.odd)))
        # If the main source has gaps, all its intervals belong to the form.
        apart = (sets.source[its] != main) | (prefix != tops)[owner]
        owner, its = owner[apart], its[apart]
        source = np.array([*self._sources, 0])[sets.source[its]]
        each = hashes.mixed(source, sets.low[its], sets.high[its])
        rest = np.zeros(len(sets.odd), np.int64)
        np.add.at(rest, owner, each)
        name = sets.sources[main] if main >= 0 else ""
        form = hashes.mixed(hashes.of(name), rest)
        for number in np.unique(form[which]):
            if int(number) not in self._told.forms and len(self._told.forms) < _FORMS:
                one = which[np.flatnonzero(form[which] == number)[0]]
                mine = its[owner == one]
                spans = [(sets.sources[sets.source[it]], int(sets.low[it]), int(sets.high[it]))
                         for it in mine]  # fmt: skip
                self._told.forms[int(number)] = Form(name, tuple(spans))
        return np.where(prefix == tops, tops, 0), form

    def _of_places(self) -> None:
        """Tell which servers answered in which groups, where what was seen is remembered."""
        chunk = self._chunk
        uuid = hashes.of_texts(chunk.text("server_uuid").held)[chunk.text("server_uuid").codes]
        known = chunk.known("incarnation").astype(np.int64)
        server = hashes.mixed(uuid, known, chunk.number("incarnation")) >> 1  # so -server fits
        shows = chunk.is_statement & chunk.text("class").isin("read") & chunk.is_ok
        shows &= ~chunk.text("observed").filled & chunk.text("role").known
        remembers = remembering(chunk)
        zero = np.zeros(len(chunk), np.int64)
        for kind, wanted in self._plan.wanted.items():
            if not wanted.seen:
                continue
            group = self._places.group(kind)
            there = shows & (chunk.text("application").filled | (kind != "application"))
            reads = remembers & chunk.owed_in.isin(kind)
            for name, where in (("answered", there), ("read", reads)):
                rows = np.flatnonzero(where)
                place = places.series(group[rows], name)
                met = Telling(MET, place, zero[rows], server[rows], -server[rows], zero[rows])
                self._found += thinned(met)

    def _name(self) -> None:
        """Note the intervals that `own_gtids` name."""
        chunk, sets = self._chunk, self._chunk.sets
        told = chunk.is_told & chunk.text("own_gtids").filled
        rows, its = self._intervals(np.flatnonzero(told), chunk.set("own_gtids"))
        codes = self._places.cluster_codes[rows]
        width = max(1, len(sets.sources))
        for both in np.unique(codes * width + sets.source[its]):
            code, source = divmod(int(both), width)
            mine = its[(codes == code) & (sets.source[its] == source)]
            self._names(code, sets.sources[source], sets.low[mine], sets.high[mine])
        odd = np.flatnonzero(told & sets.odd[chunk.set("own_gtids")])
        for code, number in {(int(self._places.cluster_codes[it]), int(chunk.set("own_gtids")[it]))
                             for it in odd}:  # fmt: skip
            with suppress(MalformedGtidSetError):
                for tsid, start, end in parse(str(chunk.set_texts[number])):
                    self._names(code, tsid, np.array([start]), np.array([end - 1]))

    def _names(self, code: int, source: str, low: Numbers, high: Numbers) -> None:
        key = self._places.clusters[code], source
        before = self._told.named.get(key)
        new = low, high
        self._told.named[key] = merged(new) if before is None else merged(before, new)

    # Events

    def events(self) -> dict[str, pa.Table]:
        """Primaries' whole sets (`tides`), and what was left open (`opened`)."""
        chunk = self._chunk
        opened = chunk.is_statement & chunk.is_unnamed
        if len(self._plan.holes):
            key = hashes.mixed(self._places.run, chunk.number("seq"))
            opened |= chunk.is_statement & np.isin(key, self._plan.holes)
        tides = np.flatnonzero(chunk.has_whole)
        texts = chunk.set_texts.take(pa.array(chunk.whole[tides]))
        return {
            "tides": _kept(chunk, tides).append_column("whole", texts.cast(pa.string())),
            "opened": _kept(chunk, np.flatnonzero(opened))
            .append_column("is_unnamed", pa.array(chunk.is_unnamed[opened]))
            .append_column("is_named", pa.array(chunk.is_named[opened])),
        }


def remembering(chunk: Chunk) -> Flags:
    """Whether each is a replica's read to be judged, at a level that remembers what was seen."""
    proved = chunk.of_replica & chunk.text("proof").isin("known", "waited")
    return chunk.is_judged & proved & chunk.text("level").isin(*SEEN_LEVELS)


def _kept(chunk: Chunk, rows: Numbers) -> pa.Table:
    columns = {}
    for name in EVENT:
        column = chunk.column(name).take(pa.array(rows))
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        columns[name] = column
    return pa.table(columns)
