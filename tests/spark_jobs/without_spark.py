"""The audit without Spark: its own judges, fed by plain Python instead of columns.

What columns do there (numbering, placing records into groups, putting events in order) is written
here again, record by record, so that thousands of logs can be judged in minutes. A test holds both
against each other.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import NamedTuple, TypeVar

from spark_jobs.clocks import clock_evidence, clocks
from spark_jobs.clocks.clock_offsets import solve
from spark_jobs.gtid import MalformedGtidSetError, parse
from spark_jobs.primaries import clusters, primary_snapshots
from spark_jobs.primaries.primary_history import Confirmation, Gaps, Term
from spark_jobs.promise import CLUSTER_LEVELS, OWN_LEVELS, SCOPES, SEEN_LEVELS
from spark_jobs.reads import evidence
from spark_jobs.reads.event import Event as JudgeEvent
from spark_jobs.reads.judge import Judge
from spark_jobs.tables.schema import JUDGED
from tests.spark_jobs.lapses import lapses
from tests.spark_jobs.oracle import Record

_Tuple = TypeVar("_Tuple")

Key = tuple[object, object, object, object]
"""Proxy, worker, run and seq."""


class Said(NamedTuple):
    """What is said of a read."""

    verdict: str
    finding: str
    missing: str | None
    since_write_us: int | None


@dataclass
class Audited:
    """What the audit finds in a log.

    Attributes:
        reads: what is said of each.
        lost: what a primary lacked that had been acknowledged, by its proxy.
        lapses: records with which the procedure was not kept, and how.
        clocks: proxies whose clocks are wrong.
        error_us: by how much clocks may still differ.
        unsteady: proxies whose own records may be out of order by that.
        learned: what all of this follows from.
    """

    reads: dict[Key, Said]
    lost: list[tuple[str, str]]
    lapses: dict[Key, str]
    clocks: set[str]
    error_us: int
    unsteady: frozenset[str]
    learned: "Learned"


@dataclass
class Learned:
    """What the audit learned on its way.

    Attributes:
        records: NUMBERED and `cluster`, in corrected times.
        past: PAST.
        history: what is small of it.
        backing: BACKING by RUN and seq.
    """

    records: list[Record]
    past: "list[primary_snapshots._Past]"
    history: "_History"
    backing: "dict[tuple[object, ...], dict[str, object]]"


@dataclass
class Before:
    """What is known of the time before the records.

    Attributes:
        records: those that stand for many, and what their numbers would tell.
        seqs: the last number of each run, and when that ended.
        ordinals: the last one of each session.
        since_us: from when on the order of records is known.
    """

    records: Sequence[Record] = ()
    seqs: dict[object, tuple[int, int]] = field(default_factory=dict)
    ordinals: dict[object, int] = field(default_factory=dict)
    since_us: int = 0


def audit(
    records: Iterable[Record],
    clock_error_us: int = 0,
    period: tuple[int, int] | None = None,
    before: Before | None = None,
) -> Audited:
    """Judge a log; its records may come in any order.

    Args:
        records: the log's.
        clock_error_us: by how much clocks may differ.
        period: judge only what arrived in it.
        before: what is known of the time before.
    """
    before = before or Before()
    numbered = list(_number(records, before))
    found = _clocks(numbered)
    timed = [*_corrected(numbered, found), *(it | _facts(it) for it in before.records)]
    error_us = max(found.error_us, clock_error_us)
    known, unplaced = clusters.group(
        {(_text(it, "proxy"), _name(it, "server_uuid"), _name(it, "role")) for it in timed}
    )
    for it in timed:
        it["cluster"] = known[_text(it, "proxy")]
        if period is not None:
            it["is_judged"] = it["is_read"] and period[0] <= _us(it, "arrived_us") < period[1]
    past = list(_past(timed, known, unplaced, error_us))
    history = _history(past, known)
    history.since_us = before.since_us
    backing = _backing(timed, past, history)
    reads = _judge(timed, backing, history, unplaced, error_us, found.unsteady)

    def during(us: int) -> bool:
        return period is None or period[0] <= us < period[1]

    lost = [
        (str(it.proxy), str(it.gtids))
        for it in past
        if it.what == "lost" and during(it.until_us or 0)
    ]
    lapsed = lapses(timed, error_us, found.unsteady, before.since_us)
    arrived = {(*_run(it), it["seq"]): _us(it, "arrived_us") for it in timed}
    told = {it[:4]: it.finding for it in lapsed if during(arrived[it[:4]])}
    learned = Learned(timed, past, history, backing)
    wrong = {it.proxy for it in found.found}
    return Audited(reads, lost, told, wrong, found.error_us, found.unsteady, learned)


# Records


def _number(records: Iterable[Record], known: Before | None = None) -> Iterator[Record]:
    before: dict[object, tuple[int, int]] = dict(known.seqs) if known else {}
    ordinals: dict[object, int] = dict(known.ordinals) if known else {}
    for plain in sorted(records, key=lambda it: (str(_run(it)), _us(it, "seq"))):
        it = dict(plain)
        run = _run(it)
        last, it["since_us"] = before.get(run, (0, 0))
        it["missing"] = _us(it, "seq") - 1 - last
        before[run] = _us(it, "seq"), _us(it, "ended_us")
        session = (*run, it["session"])
        it["hole"] = False
        if it["kind"] == "statement":
            it["hole"] = it["ordinal"] != ordinals.get(session, 0) + 1
            ordinals[session] = _us(it, "ordinal")
        yield it | _facts(it)


def _facts(it: Record) -> Record:
    statement, primary = it["kind"] == "statement", it["role"] == "primary"
    observed, own = it["observed"], it["own_gtids"]
    told = it["own_known"] or (observed and it["outcome"] == "ok")
    whole = None
    if primary and it["kind"] == "proof" and it["proof"] == "probed":
        whole = it["proof_set"]
    elif primary and statement and observed:
        whole = observed
    keyed = it["scope"] != "application" or it["application"]
    owed_in = "connection"
    if it["level"] in CLUSTER_LEVELS:
        owed_in = "cluster"
    elif it["level"] in (*OWN_LEVELS, *SEEN_LEVELS) and it["scope"] in SCOPES and keyed:
        owed_in = _text(it, "scope")
    is_read = (
        statement
        and it["class"] != "diagnostic"
        and (it["class"] == "read" or it["role"] == "replica")
    )
    return {
        "is_read": is_read,
        "is_judged": is_read,
        "is_unnamed": statement and (not told or (it["may_write"] and it["outcome"] == "lost")),
        "named": own or (observed if it["may_write"] and primary else ""),
        "whole": whole,
        "owed_in": owed_in,
        "moment_us": it["arrived_us"] if it.get("snapshot_us") is None else it["snapshot_us"],
    }


# Clocks


def clocks_of(records: Iterable[Record]) -> clocks.Clocks:
    """What a log tells of its clocks."""
    return _clocks(list(_number(records)))


def _clocks(records: Sequence[Record]) -> clocks.Clocks:
    by_run: defaultdict[tuple[str, int, str], list[Record]] = defaultdict(list)
    for it in records:
        by_run[_text(it, "proxy"), _us(it, "worker"), _text(it, "run")].append(it)
    spans = {
        run: SimpleNamespace(
            from_us=min(_us(it, "ended_us") for it in its),
            to_us=max(_us(it, "ended_us") for it in its),
            records=len(its),
        )
        for run, its in by_run.items()
    }
    steps = {}
    for run, its in by_run.items():
        falls = []
        before, proof = (0, 0), (0, 0)
        for it in its:
            seq, ended = _us(it, "seq"), _us(it, "ended_us")
            begun = max(_us(it, "arrived_us"), _us(it, "dispatched_us"))
            statement = it["kind"] == "statement"
            if ended < begun or (statement and ended < max(before[1], proof[0])):
                after, last_us = clocks.later(before, proof[1], proof[0], ended)
                falls.append(clocks.Fall(after, seq, last_us, begun, ended))
            if statement:
                before, proof = (seq, ended), (0, 0)
            else:
                proof = max(proof, (ended, seq))
        found = clocks.stepped(falls)
        if found and len(found) <= clocks._STEPS:
            steps[run] = found
    numbers = clocks._number(spans, steps)  # type: ignore[arg-type]  # as much of a Row as is read
    names = {number for its in numbers.values() for number in its}
    if len(names) < 2:
        return clocks.Clocks()
    bounds = _bounds(records, numbers, steps)
    for run, stepped in steps.items():
        for step, (earlier, later) in zip(stepped, pairwise(numbers[run]), strict=True):
            fallen = step.to_us - step.from_us
            bounds[later, earlier] = min(fallen, bounds.get((later, earlier), fallen))
    sizes: defaultdict[int, int] = defaultdict(int)
    for run, own in numbers.items():
        sizes[own[0]] += spans[run].records
    offsets = solve(sorted(names, key=lambda number: (-sizes[number], number)), bounds)
    told = list(clocks._found(numbers, steps, offsets))
    unsteady = frozenset(proxy for proxy, _, _ in (spans if offsets.slack_us else steps))
    error_us = offsets.error_us + clocks._unseen_us(spans, numbers, offsets)  # type: ignore[arg-type]  # as above
    return clocks.Clocks(told, error_us, list(steps.items()), unsteady)


def _behind(it: Record, steps: Sequence[clocks.Step]) -> int:
    return sum(
        _us(it, "seq") >= step.seq
        or (_us(it, "seq") > step.after and _us(it, "ended_us") <= step.to_us)
        for step in steps
    )


def _bounds(
    records: Sequence[Record],
    numbers: Mapping[tuple[str, int, str], Sequence[int]],
    steps: Mapping[tuple[str, int, str], Sequence[clocks.Step]],
) -> dict[tuple[int, int], int]:
    """What each clock is at most ahead of each other."""
    events: defaultdict[tuple[object, ...], list[tuple[int, int, tuple[object, ...], int]]]
    events = defaultdict(list)
    spans: dict[tuple[object, ...], tuple[int, int]] = {}
    for it in records:
        wrote = it["kind"] == "statement" and it["own_gtids"]
        if it["role"] != "primary" or it["server_uuid"] is None or not (wrote or it["whole"]):
            continue
        sent, ended = _us(it, "dispatched_us"), _us(it, "ended_us")
        if sent > ended:
            continue
        run = (_text(it, "proxy"), _us(it, "worker"), _text(it, "run"))
        clock = numbers[run][_behind(it, steps.get(run, ()))]
        seat = (clock, *run, it["server_uuid"], it["incarnation"])
        low, high = spans.get(seat[1:], (sent, ended))
        spans[seat[1:]] = min(low, sent), max(high, ended)
        for text, is_whole in ((it["own_gtids"], False), (it["whole"], True)):
            intervals: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
            with suppress(MalformedGtidSetError):
                for tsid, start, end in parse(str(text or "")):
                    intervals[tsid].append((start, end))
            for tsid, its in intervals.items():
                source = (it["server_uuid"], tsid)
                last = its[-1][1] - 1
                told = [(last, clock_evidence._TOLD, ended)]
                if is_whole:
                    told.append((last + 1, clock_evidence._ASKED, sent))
                    if its[0][0] == 1:
                        told.append((its[0][1], clock_evidence._ANSWERED, ended))
                else:
                    told.append((its[0][0], clock_evidence._SENT, sent))
                events[source] += [(number, what, seat, us) for number, what, us in told]
    found: dict[tuple[int, int], int] = {}
    for its in events.values():
        asked: dict[tuple[object, ...], int] = {}
        wrote_at: dict[tuple[object, ...], int] = {}
        for _, what, seat, us in sorted(its, key=lambda event: event[:2]):
            if what in (clock_evidence._ASKED, clock_evidence._SENT):
                newest = asked if what == clock_evidence._ASKED else wrote_at
                newest[seat] = max(us, newest.get(seat, 0))
                continue
            before = asked if what == clock_evidence._TOLD else wrote_at
            for other, its_us in before.items():
                (low, high), (its_low, its_high) = spans[seat[1:]], spans[other[1:]]
                if seat[0] != other[0] and low <= its_high and its_low <= high:
                    pair = int(str(seat[0])), int(str(other[0]))
                    found[pair] = min(us - its_us, found.get(pair, us - its_us))
    return found


def _corrected(records: Sequence[Record], found: clocks.Clocks) -> list[Record]:
    ahead = {(it.proxy, it.worker, it.run, it.from_seq): it.ahead_us for it in found.found}
    wrong = {key[:3] for key in ahead}
    steps = dict(found.steps)
    timed = []
    for it in records:
        run = (_text(it, "proxy"), _us(it, "worker"), _text(it, "run"))
        if run in wrong:
            stepped = steps.get(run, ())
            now = [ahead.get((*run, seq), 0) for seq in (1, *(step.seq for step in stepped))]
            place = _behind(it, stepped)
            own, here, before = _us(it, "ended_us"), now[place], now[max(0, place - 1)]
            times = {
                name: _us(it, name) - (before if _us(it, name) > own else here)
                for name in ("arrived_us", "dispatched_us", "moment_us")
            }
            rest = {name: _us(it, name) - here for name in ("ended_us", "since_us")}
            it = it | times | rest
        timed.append(dict(it))
    return timed


# What primaries said


def _past(
    records: Sequence[Record],
    known: Mapping[str, str],
    unplaced: frozenset[str],
    error_us: int,
) -> Iterator[primary_snapshots._Past]:
    events: defaultdict[str, list[primary_snapshots.Event]] = defaultdict(list)
    reigns: dict[tuple[object, ...], tuple[int, int]] = {}
    for it in records:
        sent, ended = _us(it, "dispatched_us"), _us(it, "ended_us")
        own, statement = str(it["cluster"]), it["kind"] == "statement"
        if it["role"] == "primary" and it["outcome"] != "lost":
            server = (own, *_run(it), it["server_uuid"], it["incarnation"])
            low, high = reigns.get(server, (sent, sent))
            reigns[server] = min(low, sent), max(high, sent)
        happened = []
        if statement and it["named"] and it["role"] == "primary":
            happened.append((primary_snapshots.WROTE, ended + error_us))
        if statement and (it["hole"] or it["is_unnamed"]):
            unnamed = it["is_unnamed"]
            at_us = ended + error_us if unnamed else _us(it, "arrived_us")
            happened.append((primary_snapshots.OPEN, at_us))
        if _us(it, "missing") > 0:
            happened.append((primary_snapshots.GAP, ended))
        if it["whole"] is not None:
            happened.append((primary_snapshots.TIDE, sent))
        for what, at_us in happened:
            doubtful = what in (primary_snapshots.OPEN, primary_snapshots.GAP)
            everywhere = doubtful and own in unplaced
            for cluster in sorted(set(known.values())) if everywhere else [own]:
                abroad = cluster != own
                nobodys = what == primary_snapshots.GAP or (
                    what == primary_snapshots.OPEN and not it["is_unnamed"]
                )
                plain = {
                    "cluster": cluster,
                    "at_us": at_us,
                    "what": primary_snapshots.GAP if abroad else what,
                    "server_uuid": None if nobodys or abroad else it["server_uuid"],
                    "is_whole": it["own_gtids"] == "",
                    "gtids": it["whole"] if what == primary_snapshots.TIDE else it["named"],
                }
                events[cluster].append(_event(primary_snapshots.Event, it | plain))
    zero = {
        "session": 0,
        "seq": 0,
        "what": primary_snapshots.REIGN,
        "since_us": 0,
        "is_whole": False,
    }
    for (cluster, proxy, worker, run, uuid, incarnation), (low, high) in reigns.items():
        whose: Record = {"cluster": cluster, "proxy": proxy, "worker": worker, "run": run}
        whose |= {"server_uuid": uuid, "incarnation": incarnation, "at_us": low, "ended_us": high}
        events[str(cluster)].append(_event(primary_snapshots.Event, whose | zero))
    for its in events.values():
        one = primary_snapshots.PrimarySnapshots()
        for event in sorted(its, key=lambda e: (e.at_us, e.what, e.proxy, e.worker, e.run, e.seq)):
            yield from one.eval(event)  # type: ignore[arg-type]  # a Row is a tuple
        yield from one.terminate()


@dataclass
class _History:
    terms: dict[str, list[Term]]
    confirmations: dict[tuple[str, str | None], list[Confirmation]]
    gaps: dict[tuple[str, str], Gaps]
    successions: dict[tuple[object, ...], int]
    since_us: int = 0


def _history(past: Iterable[primary_snapshots._Past], known: Mapping[str, str]) -> _History:
    terms: defaultdict[str, list[Term]] = defaultdict(list)
    confirmations: defaultdict[tuple[str, str | None], list[Confirmation]] = defaultdict(list)
    gaps: defaultdict[tuple[str, str], list[tuple[int, int | None]]] = defaultdict(list)
    successions: dict[tuple[object, ...], int] = {}
    for it in past:
        at_us, until_us = it.at_us or 0, it.until_us or 0
        if it.what == "term":
            terms[it.cluster].append(Term(at_us, until_us, it.gtids or "", it.server_uuid))
        elif it.what == "succeeded":
            key = (it.proxy, it.worker, it.run, it.server_uuid)
            successions[key] = min(at_us, successions.get(key, at_us))
        elif it.what == "confirmed":
            confirmation = Confirmation(until_us, it.answered_us or 0)
            confirmations[it.cluster, it.server_uuid].append(confirmation)
        elif it.what == "gap":
            if it.cluster == known[str(it.proxy)]:
                gaps["proxy", str(it.proxy)].append((at_us, it.mark))
            gaps["cluster", it.cluster].append((at_us, it.mark))
    return _History(
        {name: sorted(its, key=lambda term: term[:3]) for name, its in terms.items()},
        {key: sorted(its) for key, its in confirmations.items()},
        {key: Gaps(its) for key, its in gaps.items()},
        successions,
    )


# What servers were shown to have


def _backing(
    records: Sequence[Record], past: Iterable[primary_snapshots._Past], history: _History
) -> dict[tuple[object, ...], dict[str, object]]:
    runs: defaultdict[tuple[object, ...], list[evidence._Event]] = defaultdict(list)
    for it in records:
        runs[it["cluster"], *_run(it)] += [_event(evidence._Event, one) for one in _tellings(it)]
    for it in past:
        for (cluster, proxy, worker, run), events in runs.items():
            if it.what == "mark" and it.cluster == cluster:
                whose: Record = {"proxy": proxy, "worker": worker, "run": run, "seq": it.mark}
                whose |= {"cluster": cluster, "at_us": it.at_us, "what": evidence._MARK}
                events.append(_event(evidence._Event, whose | {"gtids": it.gtids}))
    found: dict[tuple[object, ...], dict[str, object]] = {}
    handler = type("_RunWithTerms", (evidence._Run,), {"terms": history.terms})
    for events in runs.values():
        one = handler()
        for event in sorted(events, key=lambda e: (e.at_us, e.what, e.seq)):
            for *key, unbacked, reached, _ in one.eval(event):
                found[tuple(key)] = {"unbacked": unbacked, "reached": reached}
    for it in past:
        if it.what == "bound":
            its = found.setdefault((it.proxy, it.worker, it.run, it.seq), {})
            marks = (its.get("mark"), it.mark)
            its["mark"] = max((int(str(mark)) for mark in marks if mark is not None), default=None)
    return found


def _tellings(it: Record) -> Iterator[Record]:
    sent, ended, statement = (
        _us(it, "dispatched_us"),
        _us(it, "ended_us"),
        it["kind"] == "statement",
    )
    waits = it["proof"] == "waited"
    waited_us = sent + (_us(it, "wait_us") if it["proof"] in ("waited", "independent") else 0)
    shown = it | {"what": evidence._SHOWN}
    if it["kind"] == "proof":
        yield shown | {"at_us": ended, "gtids": it["proof_set"]}
    if statement and waits:
        yield shown | {"at_us": waited_us, "gtids": it["proof_set"]}
    if statement and it["observed"]:
        yield shown | {"at_us": ended, "gtids": it["observed"]}
    if it["is_read"] and it["role"] == "replica":
        claim = it["proof_set"] if it["proof"] in ("known", "independent") else None
        yield it | {"what": evidence._READ, "at_us": waited_us, "gtids": claim}


# Judging


def _judge(
    records: Sequence[Record],
    backing: Mapping[tuple[object, ...], Mapping[str, object]],
    history: _History,
    unplaced: frozenset[str],
    error_us: int,
    unsteady: frozenset[str],
) -> dict[Key, Said]:
    nothing: Record = {"unbacked": None, "reached": None, "mark": None}
    groups: defaultdict[tuple[object, ...], list[JudgeEvent]] = defaultdict(list)
    for it in records:
        if it["kind"] == "statement" or it["whole"] is not None:
            full = it | nothing | backing.get((*_run(it), it["seq"]), {})
            for place in _places(full, error_us):
                seen = place["whole"] if place["whole"] is not None else place["observed"]
                event = _event(JudgeEvent, place | {"observed": seen})
                groups[event.kind, event.key].append(event)
    known = {
        "terms": history.terms,
        "confirmations": history.confirmations,
        "gaps": history.gaps,
        "unplaced": unplaced,
        "successions": history.successions,
        "unsteady": unsteady,
        "clock_error_us": error_us,
        "since_us": history.since_us,
    }
    handler = type("_JudgeWithHistory", (Judge,), known)
    said: dict[Key, Said] = {}
    names = JUDGED.names
    for its in groups.values():
        judge = handler()
        for event in sorted(its, key=lambda e: (e.at, e.turn, e.proxy, e.worker, e.run, e.seq)):
            for row in judge.eval(event):
                one = dict(zip(names, row, strict=True))
                key = (one["proxy"], one["worker"], one["run"], one["seq"])
                said[key] = Said(
                    *(one[name] for name in ("verdict", "finding", "missing", "since_write_us"))
                )
    return said


def _places(it: Record, error_us: int) -> Iterator[Record]:
    """Where a record stands, as `groups.place` says."""
    statement, ended, owed_in = it["kind"] == "statement", _us(it, "ended_us"), it["owed_in"]
    is_read, is_judged = it["is_read"], it["is_judged"]
    writes = bool(it["named"]) or bool(it["is_unnamed"])
    tells = statement and (writes or it["observed"] or is_read)
    tells_all = writes or it["whole"] is not None
    session = (*_run(it), it["session"])
    keys: dict[str, object] = {
        "connection": session,
        "user": (it["proxy"], it["user"]),
        "application": (it["proxy"], it["application"]),
        "proxy": it["proxy"],
        "cluster": it["cluster"],
    }
    plain: Record = {"turn": 0, "judges": False, "learns": True, "maybe": False}
    if statement:
        own = {"kind": "connection", "key": session, "at": it["seq"]}
        judges = is_judged and owed_in == "connection"
        yield it | plain | own | {"judges": judges}
    counts = {"user": tells, "application": tells and it["application"], "proxy": tells}
    for kind, count in counts.items():
        if count:
            yield it | plain | {"kind": kind, "key": keys[kind], "at": ended}
    if tells_all:
        cluster = it | plain | {"kind": "cluster", "key": it["cluster"]}
        yield cluster | {"at": ended + error_us}
        if error_us:
            yield cluster | {"at": ended - error_us, "maybe": True}
    if is_judged and owed_in != "connection":
        bound_us = _us(it, "bound_us") if it["level"] == "BOUNDED_STALENESS" else 0
        place = {"kind": owed_in, "key": keys[str(owed_in)], "at": _us(it, "moment_us") - bound_us}
        yield it | plain | place | {"turn": 1, "judges": True, "learns": False}


# Fields


def _event(kind: type[_Tuple], it: Record) -> _Tuple:
    names = kind._fields  # type: ignore[attr-defined]  # of a NamedTuple
    return kind(*(it.get(name) for name in names))


def _run(it: Record) -> tuple[object, object, object]:
    return it["proxy"], it["worker"], it["run"]


def _us(it: Record, name: str) -> int:
    return int(str(it[name] or 0))


def _text(it: Record, name: str) -> str:
    return str(it[name])


def _name(it: Record, name: str) -> str | None:
    return None if it[name] is None else str(it[name])
