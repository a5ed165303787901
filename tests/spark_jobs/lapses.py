"""Steps that a proxy left out, planted in a simulated log one by one; events without Spark."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from random import Random

from protocol.gtid import GtidSet
from spark_jobs.procedure import false_proofs
from spark_jobs.procedure.false_proofs import FalseProofs
from spark_jobs.procedure.run_procedure import (
    ANSWERED,
    ASKED,
    CLAIMED,
    LOST,
    READ,
    TAIL_US,
    TOLD,
    Event,
    Lapsed,
    Procedure,
)
from spark_jobs.promise import CLUSTER_LEVELS, SEEN_LEVELS
from spark_jobs.verdict import Lapse
from tests.spark_jobs.oracle import Record
from tests.spark_jobs.routing_log import Run
from tests.spark_jobs.simulation import Simulation

Planted = set[tuple[object, object]]
"""Run and seq of the statements that lapsed."""


def plant(lapse: Lapse, runs: Iterable[Run], random: Random, most: int) -> Planted:
    """Spoil a few statements of each proxy, after the log was finished."""
    planted: Planted = set()
    for records in _by_proxy(it for run in runs for it in run.records).values():
        spoilt = {
            Lapse.NOT_ASKED: _not_asked,
            Lapse.LEFT: _left,
            Lapse.CONTRADICTED: _contradicted,
            Lapse.HOLES: _holes,
        }[lapse](records, random, most)
        planted |= {(record["run"], record["seq"]) for record in spoilt}
    return planted


def _not_asked(records: list[Record], random: Random, most: int) -> list[Record]:
    """The question had been sent before the read arrived, or longer ago than its bound."""
    asked = [_us(it, "dispatched_us") for it in records if _whole(it, "primary")]
    until_us = _until_us(records)
    spoilt = []
    for level in CLUSTER_LEVELS:
        reads = [
            it
            for it in records
            if it["level"] == level and _relies(it) and _us(it, "dispatched_us") < until_us
        ]
        for it in random.sample(reads, min(most, len(reads))):
            newest_us = max(us for us in asked if us <= _us(it, "dispatched_us"))
            if level == "STRONG" or newest_us >= _us(it, "arrived_us"):
                it["arrived_us"] = newest_us + 1
            if level == "BOUNDED_STALENESS":
                it["bound_us"] = _us(it, "arrived_us") - newest_us - 1
            spoilt.append(it)
    return spoilt


def _left(records: list[Record], random: Random, most: int) -> list[Record]:
    """The answer before, another server's, had no set."""
    asked = [_us(it, "dispatched_us") for it in records if _whole(it, "primary")]
    until_us = _until_us(records)
    newest: dict[object, Record] = {}
    pairs = []
    for it in records:
        before = newest.get(it["session"])
        if _relies(it) and it["level"] in SEEN_LEVELS and before is not None:
            since, until = _us(before, "ended_us"), _us(it, "dispatched_us")
            alike = before["server"] == it["server"] or before["class"] != "read"
            unasked = not any(since <= us <= until for us in asked)
            if not alike and before["observed"] and unasked and until < until_us:
                pairs.append((before, it))
        if it["kind"] == "statement":
            newest[it["session"]] = it
    chosen = random.sample(pairs, min(most, len(pairs)))
    for before, _ in chosen:
        before["observed"] = ""
    # Whoever shares a scope with the answer and left its server, too.
    return [it for it in records if any(_leaves(it, before, records) for before, _ in chosen)]


def _leaves(it: Record, before: Record, records: list[Record]) -> bool:
    scope = str(it["scope"])
    names = {"connection": "session", "proxy": "proxy"}
    name = names.get(scope, scope) if scope != "application" or it["application"] else "session"
    ended, until = _us(before, "ended_us"), _us(it, "dispatched_us")
    since = ended
    if _run(it) != _run(before):  # another worker may ask before the answer is recorded
        since = _begun_us(before)
    return (
        it["level"] in SEEN_LEVELS
        and _relies(it)
        and until < _until_us(records)
        and it[name] == before[name]
        and (it["server_uuid"], it["incarnation"]) != (before["server_uuid"], before["incarnation"])
        and ended <= _us(it, "arrived_us")
        and not any(
            since <= _us(told, "dispatched_us") and _us(told, "ended_us") <= until
            for told in records
            if _whole(told, "primary") is not None
            and GtidSet.parse(_whole(told, "primary") or "") <= GtidSet.parse(str(it["proof_set"]))
        )
    )


def _until_us(records: list[Record]) -> int:
    """When a proxy's first run ends: it may have been told more, and crashed."""
    ends: defaultdict[object, int] = defaultdict(int)
    for it in records:
        ends[it["worker"], it["run"]] = max(ends[it["worker"], it["run"]], _us(it, "ended_us"))
    return min(ends.values())


def _contradicted(records: list[Record], random: Random, most: int) -> list[Record]:
    """A WAIT told of a transaction that the replica did not have."""
    shown = [it for it in records if _whole(it, "replica")]
    waits = [
        it
        for it in records
        if it["proof"] == "waited" and any(_later_of_the_same(other, it) for other in shown)
    ]
    for number, it in enumerate(spoilt := random.sample(waits, min(most, len(waits)))):
        claim = GtidSet.parse(str(it["proof_set"]))
        never = GtidSet.parse(f"{claim.tsids[0].partition(':')[0]}:{900_000 + 2 * number}")
        it["proof_set"] = (claim | never).text
    return spoilt


def _holes(records: list[Record], random: Random, most: int) -> list[Record]:
    """A replica had its newest transaction, and not yet the one before it."""
    found = []
    told = GtidSet.parse("")
    for it in records:
        told |= GtidSet.parse(_whole(it, "primary") or "")
    claims: defaultdict[object, list[tuple[int, GtidSet]]] = defaultdict(list)
    for event in _events(records, 0):
        if event.what == CLAIMED:
            claims[event.server].append((event.at_us, GtidSet.parse(event.gtids or "")))
    for it in records:
        if it["level"] != "READ_ALL_WRITES" or not it["observed"] or not _relies(it):
            continue
        its = GtidSet.parse(str(it["observed"]))
        for tsid in its.tsids:
            low, end = its.intervals(tsid)[-1]
            if ":" in tsid or low >= end - 2:
                continue
            name = GtidSet({tsid: ((end - 2, end - 1),)})
            if not name <= told:
                continue
            before = claims[_event(it, READ, 0, "").server]
            if not any(us <= _us(it, "dispatched_us") and name <= claim for us, claim in before):
                found.append((it, name))
    chosen = random.sample(found, min(most, len(found)))
    for it, name in chosen:
        it["observed"] = (GtidSet.parse(str(it["observed"])) - name).text
    return [it for it, _ in chosen]


# Events


def lapses(
    log: Iterable[Record],
    clock_error_us: int = 0,
    unsteady: Collection[str] = (),
    since_us: int = 0,
) -> list[Lapsed]:
    """What `Procedure` finds, by events that are made here.

    Args:
        log: records.
        clock_error_us: by how much they may be out of order.
        unsteady: proxies of which they may.
        since_us: from when on all questions are known.
    """
    found: list[Lapsed] = []
    for proxy, records in _by_proxy(log).items():
        procedure = Procedure()
        error_us = clock_error_us if proxy in unsteady else 0
        for event in sorted(
            _events(records, error_us, since_us), key=lambda it: (it.at_us, it.what, it.run, it.seq)
        ):
            found += procedure.eval(event)  # type: ignore[arg-type]  # a Row is a tuple
        found += procedure.terminate()
        known = {it[:5] for it in found}
        claims = {it[:4] for it in found if it.finding == Lapse.CONTRADICTED}
        found += [it for it in _relied(records, claims, error_us) if it[:5] not in known]
    return found


def _relied(
    records: list[Record], claims: set[tuple[str, int, str, int]], error_us: int
) -> Iterator[Lapsed]:
    """What `FalseProofs` finds of the servers that `procedure` has go through it."""
    servers: defaultdict[tuple[object, ...], list[Record]] = defaultdict(list)
    for it in records:
        if it["role"] == "replica" and it["server_uuid"] is not None:
            servers[it["proxy"], it["worker"], it["run"], it["server_uuid"]].append(it)
    for its in servers.values():
        incarnations = [_us(it, "incarnation") for it in its]
        often = max(incarnations) - min(incarnations) >= false_proofs.OFTEN
        if often or any((*_run(it), it["seq"]) in claims for it in its):
            server = FalseProofs()
            told = sorted(_reliances(its, error_us), key=lambda it: (it.at_us, it.what, it.seq))
            for event in told:
                yield from server.eval(event)  # type: ignore[arg-type]  # a Row is a tuple
            yield from server.terminate()


def _reliances(records: list[Record], error_us: int) -> Iterator[false_proofs.Event]:
    for it in records:
        sent, ended = _us(it, "dispatched_us"), _us(it, "ended_us")
        at = {"at_us": ended, "until_us": ended}
        plain = {**at, "what": false_proofs.RELIED, "gtids": it["required"]}
        if _relies(it) and it["outcome"] == "ok" and it["required"]:
            yield false_proofs.Event(*((it | plain)[name] for name in false_proofs.Event._fields))  # type: ignore[arg-type]  # as in the log
        whole = _whole(it, "replica")
        if whole is not None:
            at = {"at_us": min(sent, ended) - error_us, "until_us": max(sent, ended) + error_us}
            plain = {**at, "what": false_proofs.HAD, "gtids": whole}
            yield false_proofs.Event(*((it | plain)[name] for name in false_proofs.Event._fields))  # type: ignore[arg-type]  # as in the log


def _run(it: Record) -> tuple[object, ...]:
    return it["proxy"], it["worker"], it["run"]


def _events(records: list[Record], error_us: int, since_us: int = 0) -> Iterator[Event]:
    newest: dict[object, Record] = {}
    for it in records:
        run = it["worker"], it["run"]
        if run not in newest or _us(it, "ended_us") >= _us(newest[run], "ended_us"):
            newest[run] = it
    for it in newest.values():
        ended = _us(it, "ended_us")
        yield _event(it, LOST, ended, "")._replace(until_us=ended + TAIL_US)
    for record in records:
        moment = record.get("moment_us") or record.get("snapshot_us") or record["arrived_us"]
        it = record | {"arrived_us": moment}
        if it.get("missing"):
            yield _event(it, LOST, _us(it, "since_us"), "")
        sent, ended = _us(it, "dispatched_us"), _us(it, "ended_us")
        statement = it["kind"] == "statement"
        waited_us = sent + _us(it, "wait_us") if statement else ended
        whole = _whole(it, "replica")
        if (told := _whole(it, "primary")) is not None:
            yield _event(it, TOLD, ended - error_us, told, 2 * error_us)
        if whole is not None:
            yield _event(it, CLAIMED, ended, whole)
            yield _event(it, ASKED, min(sent, ended) - error_us, whole)
        if it["role"] == "replica" and it["proof"] == "waited":
            yield _event(it, CLAIMED, waited_us, str(it["proof_set"]))
        if it["class"] == "read" and it["outcome"] == "ok" and not it["observed"]:
            begun_us = _begun_us(it) + error_us
            yield _event(it, ANSWERED, ended + error_us, "")._replace(asked_us=begun_us)
        bound_us = _us(it, "bound_us") if it["level"] == "BOUNDED_STALENESS" else 0
        early = it["level"] in CLUSTER_LEVELS and int(str(moment)) - bound_us < since_us
        if _relies(it) and it["level"] in (*CLUSTER_LEVELS, *SEEN_LEVELS) and not early:
            yield _event(it, READ, sent, str(it["proof_set"]))


def _event(it: Record, what: int, at_us: int, gtids: str, later_us: int = 0) -> Event:
    asked_us = _us(it, "dispatched_us") + later_us
    until_us = max(_us(it, "ended_us"), int(str(it.get("since_us") or 0)))
    own = {"at_us": at_us, "what": what, "asked_us": asked_us, "gtids": gtids}
    own["until_us"] = until_us
    own["shown"] = it["observed"] or None
    return Event(**{name: own.get(name, it.get(name)) for name in Event._fields})  # type: ignore[arg-type]  # as in the log


def _by_proxy(log: Iterable[Record]) -> dict[str, list[Record]]:
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for it in log:
        found[str(it["proxy"])].append(it)
    for records in found.values():
        records.sort(key=lambda it: _us(it, "ended_us"))
    return found


def _whole(it: Record, role: str) -> str | None:
    if it["role"] != role:
        return None
    return str(it["proof_set"]) if it["proof"] == "probed" else str(it["observed"]) or None


def _relies(it: Record) -> bool:
    return it["role"] == "replica" and it["class"] == "read" and it["proof"] in ("known", "waited")


def _begun_us(it: Record) -> int:
    """When the server began with a statement, or earlier; other waits than its own do not count."""
    return _us(it, "dispatched_us") + (_us(it, "wait_us") if it["proof"] == "waited" else 0)


def _later_of_the_same(shown: Record, it: Record) -> bool:
    same = ("worker", "server", "incarnation")
    return _us(shown, "dispatched_us") > _us(it, "ended_us") and all(
        shown[name] == it[name] for name in same
    )


def _us(it: Record, name: str) -> int:
    return int(str(it[name] or 0))


def troubled(seed: int, random: Random, steps: int) -> list[Run]:
    """Traffic with failovers, lost and unnamed writes, violations, lapses, or missing records."""
    simulation = Simulation(seed, proxies=1 + seed % 2, sessions=9)
    simulation.run(steps, failover=seed % 4 == 3)
    runs = list(simulation.finish())
    if seed % 3 == 1:
        simulation.spoil(seed % 5)
    if seed % 5 == 2:
        for lapse in Lapse:
            plant(lapse, runs, random, 1)
    if seed % 6 == 4:
        for run in runs:
            run.records[:] = [record for record in run.records if random.randrange(60)]
    return runs
