"""One act is told once, with its consequences counted."""

from collections import Counter

import pytest

from spark_jobs.findings.incident import Failover, Incident, group
from spark_jobs.gtid import parse
from spark_jobs.report.incidents import beyond, describe, shown
from spark_jobs.verdict import Finding, Lapse, Verdict
from tests.spark_jobs.found import GTID, findings, incident, lapsed, lost, read


def test_hundreds_of_reads_are_one_incident() -> None:
    parts = [
        incident(since_us=number, until_us=number, users=Counter({f"u{number % 3}": 1}))
        for number in range(445)
    ]
    (act,) = group(reversed(parts))
    assert (act.reads, act.since_us, act.until_us) == (445, 0, 444)
    assert act.users == {"u0": 149, "u1": 148, "u2": 148}
    assert act.read == parts[0].read


def test_another_server_or_another_mistake_is_another_incident() -> None:
    parts = [incident(), incident(culprit="r2:3306", reads=9), incident(Finding.NO_PROOF)]
    assert [act.culprit for act in group(parts)] == ["r2:3306", "r1:3306", "r1:3306"]


def failover(**parts: object) -> Incident:
    names: dict[str, object] = {"culprit": "old:3306", "successor": "new:3306", "reads": 0}
    return incident(Failover.TWO_PRIMARIES, **(names | parts))


def test_what_a_failover_lost_and_who_missed_it_is_one_incident() -> None:
    stale = failover(reads=445, read=read(Finding.KNOWN_TOO_SMALL), servers=Counter(r2=445))
    gone = failover(lost=parse(f"{GTID}:7"), loss=lost(), servers=Counter(), until_us=62_000_000)
    late = incident(Lapse.LEFT, reads=1000, lapse=lapsed(Lapse.LEFT))
    first, second = group([late, stale, gone, gone, incident(reads=446)][::-1])[:2]
    assert second.cause == Finding.KNOWN_TOO_SMALL
    description = describe(first)
    assert description.title == "old:3306 went on as primary after new:3306 had taken over."
    assert description.facts == [
        "445 reads may have been stale and 1 acknowledged transaction is lost, from 1970-01-01 "
        "00:00:01 to 00:01:02 UTC.",
        "Users, at least: app (3).",
        "Answered by: r2 (445).",
    ]
    assert description.next_step.startswith("Stop old:3306, or set super_read_only = ON there")
    assert description.source == (
        "table `reads`, verdict `violation`, finding `known set too small`. The applied set that "
        "the proxy relied on does not cover what the read had to see. Also table `lost`."
    )
    assert len(description.examples) == 2


@pytest.mark.parametrize("cause", [*Failover, *Lapse, *Finding])
def test_each_cause_has_its_words(cause: Failover | Lapse | Finding) -> None:
    judged = {Finding.KNOWN_TOO_SMALL, Finding.WAITED_TOO_SMALL}
    judged |= {Finding.NO_PROOF, Finding.MALFORMED_PROOF}
    if isinstance(cause, Finding) and cause not in judged:
        return  # it belongs to no violation
    lapse = lapsed(cause) if isinstance(cause, Lapse) else None
    description = describe(incident(cause, culprit="{r1}", successor="{r2}", lapse=lapse))
    assert "{r1}" in description.title
    assert description.title.endswith(".")
    assert description.next_step.endswith(".")
    for word in ("lapse", "unasked", "seq", "settled", "tide"):
        assert word not in f"{description.title} {description.facts} {description.next_step}"


def test_all_that_the_first_read_missed_is_asked_for() -> None:
    missing = f"{GTID}{''.join(f':{2 * number}' for number in range(1, 17))}"
    for text in (missing, f"{missing},…"):
        first = read(Finding.KNOWN_TOO_SMALL, missing=text)
        told = describe(incident(read=first, reads=2)).next_step
        assert f"GTID_SUBSET('{missing}', @@GLOBAL.gtid_executed) on r1:3306." in told
        assert "If it returns 1, the server has these by now: check in the same way" in told


def test_names_from_the_log_stay_on_their_line() -> None:
    description = describe(incident(culprit="a\nb", users=Counter({"x\x1b[2J": 2})))
    assert description.title.startswith("a\\nb answered reads")
    assert description.facts[1] == "Users: x\\x1b[2J (2)."


def test_only_the_first_are_shown_and_the_others_counted() -> None:
    many = [incident(culprit=f"r{number}") for number in range(23)]
    found = findings(incidents=many)
    assert len(shown(found)) == 20
    assert beyond(found) == "Not shown: 3 more incidents; see table `reads`."
    assert beyond(findings(incidents=many[:20])) == ""


def test_losses_do_not_hide_a_stale_read_or_a_read_without_a_proof() -> None:
    losses = [failover(culprit=f"p{number}", loss=lost()) for number in range(25)]
    stale = [incident(culprit=f"r{number}") for number in range(2)]
    unproved = [incident(Lapse.LEFT, lapse=lapsed(Lapse.LEFT), culprit=f"x{it}") for it in range(2)]
    found = findings(incidents=group([*losses, *stale, *unproved]))
    acts = [act.culprit for act, _ in shown(found)]
    assert acts == [*(f"p{number}" for number in range(18)), "r0", "x0"]
    assert beyond(found) == (
        "Not shown: 9 more incidents; see table `lost`, table `reads`, table `procedure`."
    )
    few = findings(incidents=group([*losses[:20], stale[0]]))
    assert [act.culprit for act, _ in shown(few)][-2:] == ["p18", "r0"]
    assert beyond(few) == "Not shown: 1 more incident; see table `lost`."


def test_many_users_are_counted_not_listed() -> None:
    description = describe(
        incident(users=Counter({f"u{number}": 9 - number for number in range(8)}))
    )
    assert description.facts[1] == "Users: u0 (9), u1 (8), u2 (7), u3 (6), u4 (5), 3 more."
    assert Verdict.VIOLATION in description.source
