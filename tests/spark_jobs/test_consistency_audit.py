"""Every planted violation is found, with the right GTIDs, and nothing else is.

Each scenario is one run of its own, named after its function, with its expectation for every read.
All of them are audited together, as one log, so a scenario also shows that the others leave it be.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from spark_jobs.gtid import parse
from spark_jobs.verdict import Finding, Verdict
from tests.spark_jobs.routing_log import UUID, Run, on, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

P, OTHER = UUID["primary"], UUID["other"]

OK = Verdict.OK
VIOLATION = Verdict.VIOLATION
NOT_JUDGED = Verdict.NOT_JUDGED

Record = dict[str, object]
Expectation = tuple[Record, Verdict, Finding, str, list[Record]]


class Plan(Run):
    """A run and what the audit must say of its reads."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.expected: list[Expectation] = []

    def expect(
        self,
        read: Record,
        verdict: Verdict,
        finding: Finding,
        missing: str = "",
        missed: list[Record] | None = None,
    ) -> None:
        self.expected.append((read, verdict, finding, missing, missed or []))


SCENARIOS: dict[str, Callable[[Plan], None]] = {}


def scenario(plan: Callable[[Plan], None]) -> Callable[[Plan], None]:
    SCENARIOS[plan.__name__] = plan
    return plan


@scenario
def a_clean_log(run: Plan) -> None:
    run.probe("r1", f"{P}:1-5")
    run.expect(run.known(7, "r1", f"{P}:1-5"), OK, Finding.NOTHING_WRITTEN)
    run.write(7, f"{P}:6")
    run.expect(run.waited(7, "r1", f"{P}:6"), OK, Finding.WAITED)
    run.expect(run.known(7, "r1", f"{P}:1-6"), OK, Finding.KNOWN)
    run.write(7, f"{P}:9")
    run.write(7, "")
    run.expect(run.read(7, "primary", "primary"), OK, Finding.PRIMARY)
    run.probe("r2", f"{P}:1-20")
    run.expect(run.known(7, "r2", f"{P}:1-20"), OK, Finding.KNOWN)
    run.expect(run.waited(7, "r1", f"{P}:6:9"), OK, Finding.WAITED)
    run.expect(run.known(7, "r1", f"{P}:1-6:9"), OK, Finding.KNOWN)


@scenario
def a_known_set_that_does_not_cover(run: Plan) -> None:
    run.probe("r1", f"{P}:1-9")
    write = run.write(7, f"{P}:10")
    read = run.known(7, "r1", f"{P}:1-9")
    run.expect(read, VIOLATION, Finding.KNOWN_TOO_SMALL, f"{P}:10", [write])


@scenario
def a_known_set_that_does_not_cover_but_might_have(run: Plan) -> None:
    # The log shows that the server had it: the proxy had no grounds all the same.
    run.probe("r1", f"{P}:1-10")
    write = run.write(7, f"{P}:10")
    read = run.known(7, "r1", f"{P}:1-9")
    run.expect(read, VIOLATION, Finding.KNOWN_TOO_SMALL, f"{P}:10", [write])


@scenario
def a_waited_set_that_is_too_small(run: Plan) -> None:
    first = run.write(7, f"{P}:10")
    run.write(7, f"{P}:11")
    read = run.waited(7, "r1", f"{P}:11")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [first])


@scenario
def only_the_last_tracker_kept(run: Plan) -> None:
    writes = [run.write(7, f"{P}:{number}") for number in (3, 5, 8)]
    run.probe("r1", f"{P}:1-2:8")
    read = run.known(7, "r1", f"{P}:1-2:8", required=f"{P}:8")
    run.expect(read, VIOLATION, Finding.KNOWN_TOO_SMALL, f"{P}:3:5", writes[:2])


@scenario
def only_the_highest_gtid_of_a_statement_kept(run: Plan) -> None:
    write = run.write(7, f"{P}:10-14:20")
    read = run.waited(7, "r1", f"{P}:14:20")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10-13", [write])
    read = run.waited(7, "r1", f"{P}:10-12:14:20")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:13", [write])
    run.expect(run.waited(7, "r1", f"{P}:10-20"), OK, Finding.WAITED)


@scenario
def a_write_forgotten_after_a_reset(run: Plan) -> None:
    write = run.write(7, f"{P}:10")
    run.statement(7, command="COM_RESET_CONNECTION", **on("primary"), **{"class": "command"})
    read = run.waited(7, "r1", "")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])


@scenario
def a_missing_tag(run: Plan) -> None:
    write = run.write(7, f"{P}:5:blue:2")
    run.probe("r1", f"{P}:1-9")
    read = run.known(7, "r1", f"{P}:1-9")
    run.expect(read, VIOLATION, Finding.KNOWN_TOO_SMALL, f"{P}:blue:2", [write])
    run.probe("r1", f"{P}:1-9:blue:1-2")
    run.expect(run.known(7, "r1", f"{P}:1-9:blue:1-2"), OK, Finding.KNOWN)


@scenario
def a_missing_uuid(run: Plan) -> None:
    first = run.write(7, f"{OTHER}:4")
    run.write(7, f"{P}:4")
    read = run.waited(7, "r1", f"{P}:1-9")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{OTHER}:4", [first])
    run.expect(run.waited(7, "r1", f"{P}:4,{OTHER}:4"), OK, Finding.WAITED)


@scenario
def a_replica_without_any_proof(run: Plan) -> None:
    write = run.write(7, f"{P}:10")
    read = run.read(7, "r1", "none")
    run.expect(read, VIOLATION, Finding.NO_PROOF, f"{P}:10", [write])
    read = run.read(7, "r1", "primary")
    run.expect(read, VIOLATION, Finding.NO_PROOF, f"{P}:10", [write])
    read = run.read(7, "r1", "known", None)
    run.expect(read, VIOLATION, Finding.NO_PROOF, f"{P}:10", [write])
    # A missing table is what a replica that is behind may answer.
    read = run.read(7, "r1", "none", outcome="error", error_code=1146)
    run.expect(read, VIOLATION, Finding.NO_PROOF, f"{P}:10", [write])
    # What was taken for a write, and answered by a replica, has read there.
    read = run.write(7, "", proof="none", **on("r1"))
    run.expect(read, VIOLATION, Finding.NO_PROOF, f"{P}:10", [write])
    run.expect(run.read(8, "r1", "none"), OK, Finding.NOTHING_WRITTEN)


@scenario
def sets_that_a_server_reads_as_empty(run: Plan) -> None:
    write = run.write(7, f"{P}:10")
    for trap in (P, f"{P}:10-9", f"{P}:blue", "garbage"):
        read = run.waited(7, "r1", trap)
        run.expect(read, VIOLATION, Finding.MALFORMED_PROOF, f"{P}:10", [write])
    # Nor do they back what is claimed later.
    read = run.known(7, "r1", f"{P}:1-10")
    run.expect(read, NOT_JUDGED, Finding.UNBACKED, f"{P}:10", [write])


@scenario
def stale_by_policy(run: Plan) -> None:
    run.expect(
        run.read(7, "r1", "none", reason="wait_timeout", wait_us=9), OK, Finding.NOTHING_WRITTEN
    )
    run.write(7, f"{P}:10")
    read = run.read(7, "r1", "none", f"{P}:10", reason="wait_timeout", wait_us=50_000)
    run.expect(read, Verdict.GIVEN_UP, Finding.STALE_POLICY)
    run.unnamed(8)
    read = run.read(8, "r1", "none", reason="wait_timeout", wait_us=50_000)
    run.expect(read, Verdict.GIVEN_UP, Finding.STALE_POLICY)


@scenario
def other_promises(run: Plan) -> None:
    write = run.write(7, f"{P}:10")
    read = run.read(7, "r1", "none", level="BEST_EFFORT")
    run.expect(read, Verdict.NO_PROMISE, Finding.BEST_EFFORT)
    read = run.waited(7, "r1", f"{P}:10", level="STRONG")
    run.expect(read, NOT_JUDGED, Finding.UNKNOWN_LEVEL)
    read = run.waited(7, "r1", f"{P}:10", scope="user", scope_key="app")
    run.expect(read, NOT_JUDGED, Finding.UNKNOWN_LEVEL)
    read = run.waited(7, "r1", f"{P}:1")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    # About the statement before it, wherever that ran.
    run.read(7, "r1", "none", reason="diagnostic", **{"class": "diagnostic"})


@scenario
def a_write_under_another_level_counts(run: Plan) -> None:
    write = run.write(7, f"{P}:10", level="BEST_EFFORT")
    read = run.waited(7, "r1", "")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])


@scenario
def a_read_that_writes_counts(run: Plan) -> None:
    write = run.read(7, "primary", "primary", own_gtids=f"{P}:10", may_write=True)
    run.expect(write, OK, Finding.PRIMARY)
    read = run.waited(7, "r1", "")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])


@scenario
def no_server_answered(run: Plan) -> None:
    run.write(7, f"{P}:10")
    nobody = {"server": None, "server_uuid": None, "incarnation": None, "role": None}
    read = run.read(7, "r1", "none", reason="wait_timeout", outcome="error", **nobody)
    run.expect(read, Verdict.NO_ANSWER, Finding.NO_SERVER)


@scenario
def the_same_session_number(run: Plan) -> None:
    # Session 7 writes in nearly every other run; this one has written nothing.
    run.expect(run.read(7, "r1", "none"), OK, Finding.NOTHING_WRITTEN)
    run.write(9, f"{P}:10")
    run.expect(run.read(7, "r1", "none"), OK, Finding.NOTHING_WRITTEN)


@scenario
def the_clock_ties_and_steps_back(run: Plan) -> None:
    write = run.write(7, f"{P}:10")
    read = run.waited(7, "r1", "", arrived_us=write["ended_us"])
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    # A client may send its next command before it has the answer to this one.
    read = run.waited(7, "r1", "", arrived_us=write["arrived_us"])
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    run.now -= 3_600_000_000
    read = run.waited(7, "r1", "")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    # What comes later in the session does not reach back, whatever the clock says.
    run.expect(run.read(8, "r1", "none"), OK, Finding.NOTHING_WRITTEN)
    run.now -= 3_600_000_000
    run.write(8, f"{P}:11")


@scenario
def unbacked_claims(run: Plan) -> None:
    write = run.write(7, f"{P}:10")
    claim = f"{P}:1-10"
    gone = (NOT_JUDGED, Finding.UNBACKED, f"{P}:10", [write])
    run.expect(run.known(7, "r1", claim), *gone)
    run.probe("r2", claim)
    run.expect(run.known(7, "r1", claim), *gone)
    run.probe("r1", f"{P}:1-9")
    run.expect(run.known(7, "r1", claim), *gone)
    run.expect(run.known(7, "r1", claim, **on("r1", incarnation=2)), *gone)
    run.expect(run.known(7, "r1", claim, server_uuid=None), *gone)
    # The server's answer came a microsecond after the read had left.
    read = run.known(7, "r1", claim)
    run.expect(read, *gone)
    run.probe("r1", claim, ended_us=int(str(read["dispatched_us"])) + 1)
    run.expect(run.known(7, "r1", claim), OK, Finding.KNOWN)
    run.expect(run.known(7, "r1", claim, **on("r1", incarnation=2)), *gone)


@scenario
def evidence_of_every_kind(run: Plan) -> None:
    run.write(7, f"{P}:10")
    # At the very microsecond.
    wait = run.waited(8, "r1", f"{P}:10", outcome="lost")
    run.expect(wait, OK, Finding.NOTHING_WRITTEN)
    at = int(str(wait["dispatched_us"])) + int(str(wait["wait_us"]))
    read = run.known(7, "r1", f"{P}:10", dispatched_us=at)
    run.expect(read, OK, Finding.KNOWN)
    # What is claimed beyond the session's writes is nobody's harm.
    run.expect(run.known(7, "r1", f"{P}:1-99,{OTHER}:1-5"), OK, Finding.KNOWN)
    run.write(7, f"{P}:11")
    seen = run.read(8, "r2", "none", level="BEST_EFFORT", observed=f"{P}:1-11")
    run.expect(seen, Verdict.NO_PROMISE, Finding.BEST_EFFORT)
    run.expect(run.known(7, "r2", f"{P}:1-11"), OK, Finding.KNOWN)
    run.probe("r1", f"{P}:11", proof="waited")
    run.expect(run.known(7, "r1", f"{P}:10-11"), OK, Finding.KNOWN)


@scenario
def an_unnamed_write(run: Plan) -> None:
    run.probe("r1", f"{P}:1-9")
    run.probe("primary", f"{P}:1-11")
    write = run.write(7, f"{P}:10")
    run.unnamed(7)
    in_doubt = (NOT_JUDGED, Finding.UNNAMED_WRITE)
    run.expect(run.waited(7, "r1", f"{P}:1-10"), *in_doubt)
    run.expect(run.read(7, "primary", "primary"), OK, Finding.PRIMARY)
    # A doubt is no excuse for what has a name.
    read = run.waited(7, "r1", f"{P}:1-9")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    # Other sessions are in no doubt.
    run.expect(run.read(8, "r1", "none"), OK, Finding.NOTHING_WRITTEN)
    # What bounds it is what the primary had afterwards: nothing that another server had.
    run.probe("r2", f"{P}:1-99")
    run.expect(run.waited(7, "r1", f"{P}:1-10"), *in_doubt)
    run.probe("primary", f"{P}:1-12")
    run.expect(run.waited(7, "r1", f"{P}:1-11"), *in_doubt)
    run.expect(run.waited(7, "r1", f"{P}:1-12"), OK, Finding.WAITED)
    run.expect(run.known(7, "r1", f"{P}:1-12"), OK, Finding.KNOWN)
    # The mark that r2 had passed before anybody asked.
    run.expect(run.waited(7, "r2", f"{P}:10"), OK, Finding.WAITED)
    run.expect(run.waited(7, "r2", f"{P}:10", **on("r2", incarnation=2)), *in_doubt)
    # The next one is a new doubt, even though nobody knows that it wrote.
    run.write(7, "", outcome="lost")
    run.expect(run.known(7, "r1", f"{P}:1-12"), *in_doubt)


@scenario
def an_unnamed_write_that_stays_so(run: Plan) -> None:
    failed = run.unnamed(7)
    # Asked while it was still running.
    run.probe("primary", f"{P}:1-99", dispatched_us=int(str(failed["ended_us"])) - 1)
    run.probe("r1", f"{P}:1-99")
    in_doubt = (NOT_JUDGED, Finding.UNNAMED_WRITE)
    run.expect(run.known(7, "r1", f"{P}:1-99"), *in_doubt)
    run.expect(run.read(7, "r1", "none"), *in_doubt)
    # A part of what the primary has does not bound it.
    run.probe("primary", f"{P}:1-99", proof="waited")
    run.expect(run.known(7, "r1", f"{P}:1-99"), *in_doubt)
    # Another server's set does not bound it, whatever its role is now.
    run.probe("other", f"{P}:1-99", role="primary")
    run.expect(run.known(7, "r1", f"{P}:1-99"), *in_doubt)


@scenario
def missing_records(run: Plan) -> None:
    run.probe("r1", f"{P}:1-10")
    write = run.write(7, f"{P}:10")
    run.expect(run.known(7, "r1", f"{P}:1-10"), OK, Finding.KNOWN)
    run.write(8, f"{P}:10")
    run.lose(run.write(7, f"{P}:11"))
    in_doubt = (NOT_JUDGED, Finding.MISSING_RECORDS)
    run.expect(run.known(7, "r1", f"{P}:1-10"), *in_doubt)
    run.expect(run.read(7, "primary", "primary"), OK, Finding.PRIMARY)
    read = run.waited(7, "r1", "")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    # Whose records are all there is not touched.
    run.expect(run.known(8, "r1", f"{P}:1-10"), OK, Finding.KNOWN)
    run.expect(run.read(9, "r1", "none"), OK, Finding.NOTHING_WRITTEN)
    # What the primary had afterwards bounds what they can have written.
    run.probe("primary", f"{P}:1-11")
    run.expect(run.known(7, "r1", f"{P}:1-10"), *in_doubt)
    run.expect(run.waited(7, "r1", f"{P}:1-11"), OK, Finding.WAITED)


@scenario
def a_log_that_begins_in_the_middle(run: Plan) -> None:
    for record in (run.probe("r1", f"{P}:1-10"), run.write(7, f"{P}:10")):
        run.lose(record)
    run.expect(run.read(7, "r1", "none"), NOT_JUDGED, Finding.MISSING_RECORDS)
    run.expect(run.read(8, "r1", "none"), OK, Finding.NOTHING_WRITTEN)
    run.probe("primary", f"{P}:1-20")
    run.probe("r1", f"{P}:1-20")
    run.expect(run.known(7, "r1", f"{P}:1-20"), OK, Finding.NOTHING_WRITTEN)


@scenario
def a_gap_that_the_proxy_owns_up_to(run: Plan) -> None:
    run.write(7, f"{P}:10")
    run.gap(7, 8, 7)
    run.expect(run.waited(7, "r1", f"{P}:10"), NOT_JUDGED, Finding.MISSING_RECORDS)
    run.expect(run.read(8, "r1", "none"), NOT_JUDGED, Finding.MISSING_RECORDS)
    run.expect(run.read(9, "r1", "none"), OK, Finding.NOTHING_WRITTEN)


@scenario
def an_own_set_that_is_none(run: Plan) -> None:
    run.write(7, P)
    run.expect(run.waited(7, "r1", f"{P}:1-99"), NOT_JUDGED, Finding.MALFORMED_WRITE)


@scenario
def another_primary(run: Plan) -> None:
    run.write(7, f"{P}:10")
    promoted = on("r1") | {"role": "primary"}
    run.expect(run.read(7, "primary", "primary"), OK, Finding.PRIMARY)
    read = run.read(7, "r1", "primary", **promoted)
    run.expect(read, NOT_JUDGED, Finding.PRIMARY_CHANGED)
    run.expect(run.read(8, "r1", "primary", **promoted), OK, Finding.PRIMARY)
    run.unnamed(9)
    read = run.read(9, "r1", "primary", **promoted)
    run.expect(read, NOT_JUDGED, Finding.PRIMARY_CHANGED)


@scenario
def more_than_an_example_holds(run: Plan) -> None:
    writes = [run.write(7, f"{P}:{number}") for number in range(1, 80, 2)]
    read = run.waited(7, "r1", "")
    missing = ":".join(str(number) for number in range(1, 33, 2))
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:{missing},…", writes[:5])


PLANS = {name: Plan(name) for name in SCENARIOS}
for name, plan in SCENARIOS.items():
    plan(PLANS[name])


@pytest.fixture(scope="module")
def judged(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[int, dict[str, object]]]:
    """What the audit says of each read, by run and seq."""
    from spark_jobs import consistency_audit, evidence, ingest

    log = tmp_path_factory.mktemp("log")
    save(log, *PLANS.values())
    segments = ingest.find_segments(log, tmp_path_factory.mktemp("scratch"))
    parsed = ingest.parse(ingest.read(spark, segments))
    assert parsed.where("fault is not null").count() == 0
    records = ingest.number(parsed).persist()
    said: dict[str, dict[int, dict[str, object]]] = {name: {} for name in SCENARIOS}
    for row in consistency_audit.transform(records, evidence.transform(records)).collect():
        read = row.asDict(recursive=True)
        assert read["seq"] not in said[row.run], "a read was judged twice"
        said[row.run][row.seq] = read
    return said


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_read_gets_the_verdict_that_it_deserves(
    judged: dict[str, dict[int, dict[str, object]]], name: str
) -> None:
    plan, said = PLANS[name], judged[name]
    assert {seq: (read["verdict"], read["finding"]) for seq, read in said.items()} == {
        read["seq"]: (verdict, finding) for read, verdict, finding, _, _ in plan.expected
    }
    for read, _, _, missing, missed in plan.expected:
        its = said[int(str(read["seq"]))]
        assert its["missing"] == (missing or None)
        assert its["missed"] == [
            {
                "seq": write["seq"],
                "ended_us": write["ended_us"],
                "digest": write["digest"],
                "gtids": write["own_gtids"],
            }
            for write in missed
        ]
        if its["verdict"] != OK:
            assert (its["claimed"], its["shown"]) == (read["required"], read["proof_set"])


def test_the_expectations_are_about_sets() -> None:
    # A slip in a scenario's text must not pass for a finding.
    for plan in PLANS.values():
        for _, _, _, missing, _ in plan.expected:
            parse(missing.removesuffix(",…"))
