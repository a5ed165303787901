"""The audit by columns in one process: its own passes, with one sort in place of Spark.

What lies between the passes (numbers, what primaries said) is `without_spark`'s, so thousands of
logs can be settled in minutes, and held against what that one's judge says.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.columns import calm, doubts, hashes, plan, series, settle, survey, tellings
from spark_jobs.columns.chunk import EVERYTHING, Rules
from spark_jobs.columns.piece import Piece, pieces
from spark_jobs.columns.steps import Liar
from spark_jobs.primaries import clusters
from spark_jobs.primaries.primary_history import Confirmation, Gaps, Term
from spark_jobs.tables import small_table
from spark_jobs.tables.schema import RECORD
from tests.spark_jobs import without_spark
from tests.spark_jobs.oracle import Record
from tests.spark_jobs.without_spark import Before, Key, _facts, _history, _number, _past

_STORED = small_table.to_arrow(RECORD)
for _name in ("file", "fault", "line"):
    _STORED = _STORED.append(pa.field(_name, pa.string()))


@dataclass(frozen=True)
class Learned:
    """What primaries said, as `columns.plan` wants it."""

    clusters: Mapping[str, str]
    unplaced: frozenset[str]
    terms: Mapping[str, Sequence[Term]]
    confirmations: Mapping[tuple[str, str | None], Sequence[Confirmation]]
    gaps: Mapping[tuple[str, str], Gaps]
    successions: Mapping[tuple[object, ...], int]
    since_us: int = 0


@dataclass(frozen=True)
class Passed:
    """What passes went through, and what they learned on their way.

    Attributes:
        pieces: of the log.
        found: by the first.
        laid: the folder of the series.
        learned: what primaries said.
    """

    pieces: Sequence[Piece]
    found: survey.Survey
    laid: str
    learned: Learned


@dataclass(frozen=True)
class Settled:
    """What columns say of a log.

    Attributes:
        reads: the finding of each that is settled.
        since_write: of each, the time since what it saw was written, or None.
        left: the others.
        suspects: reads that may not have kept the procedure.
        liars: servers that may be contradicted.
        rough: clusters whose primary lacked something, or changed.
        passed: how all of this was found.
    """

    reads: dict[Key, str]
    since_write: dict[Key, object]
    left: set[Key]
    suspects: set[Key]
    liars: set[Liar]
    rough: set[str]
    passed: Passed


def settled(
    records: Iterable[Record],
    folder: Path,
    files: int = 2,
    clock_error_us: int = 0,
    period: tuple[int, int] | None = None,
    before: Before | None = None,
    condensed: Path | None = None,
) -> Settled | None:
    """Settle what can be settled; records may come in any order, and are stored in it.

    None where clocks are such that all is left to the judge.

    Args:
        records: the log's.
        folder: takes what is made on the way.
        files: how many the records are stored in.
        clock_error_us: by how much clocks may differ.
        period: judge only what arrived in it.
        before: what is known of the time before.
        condensed: file of the records of that.
    """
    log = list(records)
    found_clocks = without_spark.clocks_of(log)
    ahead, error_us = found_clocks.ahead, max(found_clocks.error_us, clock_error_us)
    if ahead is None:
        return None
    plain = EVERYTHING if period is None else Rules(*EVERYTHING[:2], *period)
    rules = plain._replace(ahead=ahead, error_us=error_us)
    its = _store(log, folder, files)
    old = [] if condensed is None else list(pieces([str(condensed)], 1))
    found = survey.Survey()
    for one in its:
        found.add(survey.survey(one, plain, None, folder))
    for one in old:
        found.add(survey.before(one, plain))
    known, unplaced = clusters.group(found.named)
    timed = without_spark._corrected(list(_number(log, before)), found_clocks)
    numbered = [it | {"cluster": known[str(it["proxy"])]} for it in timed]
    if before is not None:
        more = (it | _facts(it) for it in before.records)
        numbered += [it | {"cluster": known[str(it["proxy"])]} for it in more]
    since_us = rules.since_us(found.from_us)
    past = list(_past(numbered, known, unplaced, error_us))
    history = _history(past, known)
    learned = Learned(
        known,
        unplaced,
        history.terms,
        history.confirmations,
        history.gaps,
        history.successions,
        before.since_us if before else 0,
    )
    wants = tellings.Plan(
        rules=rules,
        clusters=known,
        wanted=found.wanted,
        holes=_holes(numbered),
        since_us=since_us,
    )
    told = tellings.Told()
    for one in (*its, *old):
        told.add(tellings.tell(one, wants, folder))
    laid = lay(folder / "tellings", folder / "series")
    sources = {name: frozenset(names) for name, names in told.wrote.items()}
    rough = set(told.rough)
    for one in _made(folder / "tides"):
        rough |= calm.rough(one, known, sources, since_us, laid).clusters
    marks = doubts.marks(
        (it.cluster, it.mark or 0, it.at_us or 0, it.gtids or "")
        for it in past
        if it.what == "mark"
    )
    bounds = {(it.proxy, it.worker, it.run, it.seq): it.mark for it in past if it.what == "bound"}
    doubted, doubts_ = _doubted(
        folder, learned, found, marks, bounds, numbered, since_us=since_us, error_us=error_us
    )
    ready = plan.make(
        found,
        told,
        learned,
        rules=rules,
        marks=marks,
        doubted=doubted,
        laid=plan.Laid(since_us, laid, doubts_),
    )
    result = settle.Settled()
    for one in its:
        result.add(settle.settle(one, ready, folder, folder / "reads"))
    reads = {_key(row): str(row["finding"]) for row in _rows(folder / "reads")}
    since_write = {_key(row): row["since_write_us"] for row in _rows(folder / "reads")}
    left = {_key(row) for row in _rows(folder / "left")}
    suspects = {_key(row) for row in _rows(folder / "suspects")}
    assert (len(reads) + len(left), len(left)) == (result.reads, result.left)
    assert len(suspects) == result.suspects
    _keep_strange(numbered, folder / "strange")
    passed = Passed(its, found, laid, learned)
    return Settled(reads, since_write, left, suspects, result.liars, rough, passed)


def lay(tellings_: Path, folder: Path, parts: int = 3) -> str:
    """Put tellings in order and lay them down, in several parts."""
    table = pa.concat_tables([pq.read_table(it) for it in sorted(tellings_.glob("*.parquet"))])
    table = table.sort_by([(name, "ascending") for name in ("series", "at", "y")])
    ordered = folder.with_name(f"{folder.name}.sorted")
    ordered.mkdir()
    size = -(-table.num_rows // parts) or 1
    for number in range(parts):
        part = table.slice(number * size, size)
        pq.write_table(part, ordered / f"{number}.parquet")
    looked = [series.look(str(it)) for it in sorted(ordered.glob("*.parquet"))]
    for place in series.plan([it for it in looked if it is not None], folder):
        series.lay(place)
    return str(folder)


def _store(log: Sequence[Record], folder: Path, files: int) -> list[Piece]:
    place = folder / "records"
    place.mkdir(parents=True)
    nothing = {"file": "date=2026-11-30/a.jsonl", "fault": None, "line": None}
    for number in range(files):
        rows = [it | nothing for it in log[number::files]]
        pq.write_table(pa.Table.from_pylist(rows, _STORED), place / f"{number}.parquet")
    return _made(place)


def _made(folder: Path) -> list[Piece]:
    return list(pieces(sorted(map(str, folder.glob("*.parquet"))), 1))


def _holes(numbered: Iterable[Record]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    found = []
    for it in numbered:
        if it["hole"]:
            proxy, run = hashes.of(str(it["proxy"])), hashes.of(str(it["run"]))
            its_run = hashes.mixed(proxy, int(str(it["worker"])), run)
            found.append(hashes.mixed(its_run, int(str(it["seq"])))[0])
    return np.sort(np.array(found, np.int64))


def _keep_strange(numbered: Sequence[Record], folder: Path) -> None:
    """What `numbering.of_stretches` says."""
    folder.mkdir()
    names = ("proxy", "worker", "run", "seq", "ended_us", "since_us", "missing", "hole")
    rows = [it for it in numbered if it["missing"] or it["hole"]]
    columns = {name: [it[name] for it in rows] for name in names}
    types = {"proxy": pa.string(), "run": pa.string(), "hole": pa.bool_()}
    arrays = {name: pa.array(its, types.get(name, pa.int64())) for name, its in columns.items()}
    pq.write_table(pa.table(arrays), folder / "strange.parquet")


def _doubted(
    folder: Path,
    learned: Learned,
    found: survey.Survey,
    marks: Mapping[str, doubts.Marks],
    bounds: Mapping[tuple[object, ...], int | None],
    numbered: Iterable[Record],
    *,
    since_us: int,
    error_us: int,
) -> tuple[doubts.Doubted, str | None]:
    holes = {_key(it): bool(it["hole"]) for it in numbered}
    rows = [
        row | {"hole": holes[_key(row)], "mark": bounds.get(_key(row))}
        for row in _rows(folder / "opened")
    ]
    doubted = doubts.Doubted()
    if not rows:
        return doubted, None
    place = folder / "doubtful"
    place.mkdir()
    columns = {name: [row[name] for row in rows] for name in doubts.COLUMNS}
    columns["mark"] = pa.array(columns["mark"], pa.int64())  # type: ignore[assignment]  # not null all
    columns["application"] = pa.array(columns["application"], pa.string())  # type: ignore[assignment]  # likewise
    pq.write_table(pa.table(columns), place / "doubtful.parquet")
    for one in _made(place):
        told = doubts.tell(
            *(one, learned.clusters, found.wanted, marks, since_us, error_us),
            folder=folder / "doubts.told",
        )
        doubted.add(told)
    return doubted, lay(folder / "doubts.told", folder / "doubts") if doubted.tellings else None


def _rows(folder: Path) -> list[Record]:
    tables = (pq.read_table(it).to_pylist() for it in sorted(folder.glob("*.parquet")))
    return list(chain.from_iterable(tables))


def _key(row: Record) -> Key:
    return row["proxy"], row["worker"], row["run"], row["seq"]
