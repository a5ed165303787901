"""Findings made by hand, for reports without Spark."""

from collections import Counter
from dataclasses import fields

from spark_jobs.findings.findings import Findings
from spark_jobs.findings.incident import Incident
from spark_jobs.findings.results import Summary
from spark_jobs.tables.row import Row
from spark_jobs.verdict import Finding, Lapse, Verdict

GTID = "168066ae-e53d-11f1-b607-02fc00000001"


def run(**columns: object) -> Row:
    plain = {"proxy": "gate", "worker": 0, "run": "a1", "statements": 1200, "proofs": 3, "gaps": 0}
    numbers = {"first_seq": 1, "last_seq": 1203, "missing": 0, "declared": 0}
    more = {"repeated": 0, "conflicting": 0, "from_us": 0, "to_us": 86_400_000_000 - 1}
    return Row(plain | numbers | more | columns)


def verdict(
    verdict: Verdict,
    finding: Finding,
    reads: int,
    level: str = "READ_OWN_WRITES",
    scope: str = "connection",
) -> Row:
    promise = {"level": level, "scope": scope}
    return Row(promise | {"verdict": verdict.value, "finding": finding.value, "reads": reads})


def missed(how: str = "wrote", **columns: object) -> dict[str, object]:
    plain = {"how": how, "run": "a1", "session": 7, "seq": 4, "ended_us": 1_000_000}
    return plain | {"digest": None, "gtids": f"{GTID}:7"} | columns


def read(finding: Finding, **columns: object) -> Row:
    plain: dict[str, object] = {
        "proxy": "gate",
        "worker": 0,
        "run": "a1",
        "session": 7,
        "seq": 9,
        "ordinal": 3,
        "arrived_us": 1_002_500,
        "dispatched_us": 1_002_550,
        "ended_us": 1_002_900,
        "user": "app",
        "digest": "00ff",
        "server": "r1:3306",
        "role": "replica",
        "reason": "read",
        "proof": "known",
        "finding": finding.value,
        "claimed": None,
        "shown": "",
        "missing": f"{GTID}:7",
        "missed": [missed()],
        "level": "READ_OWN_WRITES",
        "scope": "connection",
        "bound_us": None,
    }
    return Row(plain | columns)


def lost(**columns: object) -> Row:
    plain = {"proxy": "gate", "worker": 0, "run": "a1", "seq": 9, "server_uuid": GTID}
    writes = {"asked_us": 1_002_500, "gtids": f"{GTID}:7", "writes": [missed()]}
    return Row(plain | writes | columns)


def incident(cause: str = Finding.KNOWN_TOO_SMALL, **parts: object) -> Incident:
    """An act of r1 that concerned one read, unless said otherwise."""
    plain: dict[str, object] = {"cause": cause, "culprit": "r1:3306", "successor": ""}
    plain |= {"since_us": 1_002_500, "until_us": 1_002_500, "reads": 1}
    plain |= {"users": Counter(app=1), "servers": Counter({"r1:3306": 1})}
    if cause in list(Finding):
        plain["read"] = read(Finding(cause))
    return Incident(**(plain | parts))  # type: ignore[arg-type]  # by name


def lapsed(finding: Lapse, **columns: object) -> Row:
    """A read without a valid proof."""
    return Row(read(Finding.KNOWN).as_dict() | {"finding": finding.value, "lacking": ""} | columns)


def findings(**parts: object) -> Findings:
    empty = (
        "faults",
        "lost",
        "undecided",
        "lag",
        "replication",
        "mix",
        "fallbacks",
        "errors",
    )
    plain: dict[str, object] = {name: [] for name in empty}
    plain |= {"log": "/log", "complete": 1, "live": 0, "understated": 0, "runs": [run()]}
    plain |= {"verdicts": [verdict(Verdict.OK, Finding.KNOWN, 1000)]}
    return Findings(**(plain | parts))  # type: ignore[arg-type]  # assembled by name


def scene(what: str, **columns: object) -> Row:
    """A record of the story of `read`."""
    of_read = {"proxy": "gate", "run": "a1", "worker": 0, "seq": 9, "what": what}
    of_record = {"by_proxy": "gate", "by_run": "a1", "by_session": 7, "by_seq": 4}
    plain = {"by_user": "app", "digest": None, "server": "primary:3306", "role": "primary"}
    times = {"arrived_us": 999_000, "dispatched_us": 999_020, "ended_us": 1_000_000}
    more = {"proof": "primary", "gtids": f"{GTID}:7"}
    return Row(of_read | of_record | plain | times | more | columns)


def summary(date: str, **figures: object) -> Summary:
    """A judgement of a day."""
    numbers = dict.fromkeys((field.name for field in fields(Summary)), 0)
    texts = {"date": date, "warm_up": "", "verdict": "Clean.", "explanation": "", "verdicts": []}
    plain = {"coverage": 1.0, "min_coverage": 1.0, "duration_s": 60.0, "judgement": 1}
    return Summary(**(numbers | texts | plain | figures))  # type: ignore[arg-type]  # by name
