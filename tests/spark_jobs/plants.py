"""What an audit must find, planted in a simulated log one by one: a read, or a scene at its end."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from protocol.gtid import EMPTY, GtidSet
from spark_jobs.verdict import Finding, Verdict
from tests.spark_jobs.oracle import Record
from tests.spark_jobs.routing_log import UUID, Run, on
from tests.spark_jobs.simulation import PROMISES, Simulation

SESSION = 9001
"""Of scenes; no simulation has so many."""


@dataclass
class Planted:
    """What is to be found, and nothing else.

    Attributes:
        reads: verdict and finding, by run and seq.
        lost: what a primary is to be found not to have.
        records: the log, if it is more than the simulation's.
        clock_error_us: that the audit is to be told.
    """

    reads: dict[tuple[object, object], tuple[Verdict, Finding]] = field(default_factory=dict)
    lost: GtidSet = EMPTY
    records: list[Record] | None = None
    clock_error_us: int = 0


# Reads that relied on what was known


def _spoil(record: Record, finding: Finding, missing: GtidSet) -> None:
    if finding is Finding.NO_PROOF:
        record |= {"proof": "none", "proof_set": None}
    elif finding is Finding.MALFORMED_PROOF:
        record["proof_set"] = f"{UUID['primary']}"
    elif finding is Finding.UNBACKED:
        record["incarnation"] = 99
    else:
        record["proof_set"] = (GtidSet.parse(str(record["proof_set"])) - missing).text
        if finding is Finding.WAITED_TOO_SMALL:
            record |= {"proof": "waited", "wait_us": 5}


def read(finding: Finding) -> Callable[[Simulation, Random], Planted]:
    """A read of each level and scope, as far as the log has one that was owed something."""

    def plant(simulation: Simulation, random: Random) -> Planted:
        verdict = Verdict.NOT_JUDGED if finding is Finding.UNBACKED else Verdict.VIOLATION
        planted = Planted()
        chosen = [
            owing
            for promise in PROMISES
            for owing in simulation.owed.sample(promise, 1, simulation.lost, random)
        ]
        for record, gtids in chosen:
            if finding is Finding.UNBACKED and record["observed"]:
                continue  # which would back it
            tsid = random.choice(gtids.tsids)
            low, end = gtids.intervals(tsid)[-1]
            number = random.choice((low, end - 1))
            _spoil(record, finding, GtidSet({tsid: ((number, number + 1),)}))
            planted.reads[record["run"], record["seq"]] = verdict, finding
        return planted

    return plant


# Scenes at the end of a log


def _stage(simulation: Simulation) -> tuple[Run, dict[str, object], str]:
    """A run when all others are done, its primary, and all that the primary has."""
    run = simulation.runs[0]
    run.clock.now = 1_000_000 + max(int(str(it["ended_us"])) for it in simulation.records())
    primary = on(simulation.primary, simulation.incarnation[simulation.primary])
    primary["role"] = "primary"
    executed = simulation.committed.text
    run.probe(simulation.primary, executed, **primary)
    run.probe("other", executed, incarnation=50)
    return run, primary, executed


def _scene(play: Callable[[Run, dict[str, object], str, str], Record]) -> Callable[..., Record]:
    def stage(simulation: Simulation) -> Record:
        run, primary, executed = _stage(simulation)
        low = max(end for _, end in simulation.committed.intervals(UUID[simulation.primary]))
        return play(run, primary, executed, f"{UUID[simulation.primary]}:{low + 5}")

    return stage


def _known(run: Run, executed: str, **fields: object) -> Record:
    return run.known(SESSION, "other", executed, **{"incarnation": 50, **fields})


def _unnamed(run: Run, primary: dict[str, object], executed: str, new: str) -> Record:
    run.unnamed(SESSION, **primary)
    return _known(run, executed)


def _dropped(run: Run, primary: dict[str, object], executed: str, new: str) -> Record:
    run.statement(SESSION, **{"class": "session", "reason": "session"}, **primary)
    run.gap(SESSION)
    return _known(run, executed)


def _malformed(run: Run, primary: dict[str, object], executed: str, new: str) -> Record:
    run.write(SESSION, f"{UUID['primary']}:5-3", **primary)
    return _known(run, executed)


def _elsewhere(run: Run, primary: dict[str, object], executed: str, new: str) -> Record:
    run.write(SESSION, new, **primary)
    return run.read(SESSION, "other", "primary", role="primary", incarnation=50)


def _unbounded(run: Run, primary: dict[str, object], executed: str, new: str) -> Record:
    return _known(run, executed, level="BOUNDED_STALENESS")


def _galaxy(run: Run, primary: dict[str, object], executed: str, new: str) -> Record:
    run.write(SESSION, new, **primary)
    return _known(run, executed, level="GALAXY")


def _stale(run: Run, primary: dict[str, object], executed: str, new: str) -> Record:
    run.write(SESSION, new, **primary)
    return run.read(SESSION, "other", "none", reason="wait_timeout", incarnation=50)


def _refused(run: Run, primary: dict[str, object], executed: str, new: str) -> Record:
    nobody = dict.fromkeys(on("other"))
    refused = {"class": "read", "reason": "wait_timeout", "outcome": "error", "proof": ""}
    return run.statement(SESSION, **refused, **nobody)


SCENES: dict[Finding, tuple[Verdict, Callable[..., Record]]] = {
    Finding.UNNAMED_WRITE: (Verdict.NOT_JUDGED, _scene(_unnamed)),
    Finding.MISSING_RECORDS: (Verdict.NOT_JUDGED, _scene(_dropped)),
    Finding.MALFORMED_WRITE: (Verdict.NOT_JUDGED, _scene(_malformed)),
    Finding.PRIMARY_CHANGED: (Verdict.NOT_JUDGED, _scene(_elsewhere)),
    Finding.NO_BOUND: (Verdict.NOT_JUDGED, _scene(_unbounded)),
    Finding.UNKNOWN_LEVEL: (Verdict.NOT_JUDGED, _scene(_galaxy)),
    Finding.STALE_POLICY: (Verdict.GIVEN_UP, _scene(_stale)),
    Finding.NO_SERVER: (Verdict.NO_ANSWER, _scene(_refused)),
}


def scene(finding: Finding) -> Callable[[Simulation, Random], Planted]:
    """One read behind all others."""

    def plant(simulation: Simulation, random: Random) -> Planted:
        verdict, stage = SCENES[finding]
        record = stage(simulation)
        return Planted({(record["run"], record["seq"]): (verdict, finding)})

    return plant


def lost(simulation: Simulation, random: Random) -> Planted:
    """An acknowledged write that the primary does not have when it is asked."""
    run, primary, executed = _stage(simulation)
    low = max(end for _, end in simulation.committed.intervals(UUID[simulation.primary]))
    new = f"{UUID[simulation.primary]}:{low + 5}"
    run.write(SESSION, new, **primary)
    run.probe(simulation.primary, executed, **primary)
    return Planted(lost=GtidSet.parse(new))


def perhaps_late(simulation: Simulation, random: Random) -> Planted:
    """A write that was acknowledged before the read, but by less than clocks may err."""
    run, primary, executed = _stage(simulation)
    low = max(end for _, end in simulation.committed.intervals(UUID[simulation.primary]))
    write = run.write(SESSION, f"{UUID[simulation.primary]}:{low}", **primary)
    other = simulation.runs[-1]
    other.clock.now = int(str(write["ended_us"])) + 100
    other.probe("other", executed, incarnation=51)
    strong = {"level": "STRONG", "incarnation": 51}
    record = other.known(SESSION, "other", executed, **strong)
    key = record["run"], record["seq"]
    reads = {key: (Verdict.NOT_JUDGED, Finding.CLOCKS)}
    return Planted(reads, clock_error_us=3000)


def stranger(simulation: Simulation, random: Random) -> Planted:
    """Two clusters, and a proxy that names no primary and no server of either."""
    others = Simulation(random.randrange(1_000_000, 2_000_000), proxies=1, sessions=20)
    others.run(60, failover=False)
    others.finish()
    text = json.dumps(others.records()).replace("-e53d-", "-1111-")
    run = Run("fff", proxy="stranger")
    server = {"server": "r9:3306", "server_uuid": UUID["r1"].replace("-e53d-", "-2222-")}
    read = run.waited(7, "r1", f"{UUID['primary']}:1-9", level="STRONG", **server)
    records = [*simulation.records(), *json.loads(text), *run.records]
    key = read["run"], read["seq"]
    reads = {key: (Verdict.NOT_JUDGED, Finding.UNKNOWN_CLUSTER)}
    return Planted(reads, records=records)
