"""Every planted violation is found, with the right GTIDs, and nothing else is.

Each scenario is one run of its own, named after its function, with its expectation for every read.
All of them are audited together, as one log, so a scenario also shows that the others leave it be.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from spark_jobs.gtid import parse
from spark_jobs.verdict import Finding, Verdict
from tests.spark_jobs.found_segments import lines_of
from tests.spark_jobs.routing_log import UUID, Run, on, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

P, OTHER = UUID["primary"], UUID["other"]

OK = Verdict.OK
VIOLATION = Verdict.VIOLATION
NOT_JUDGED = Verdict.NOT_JUDGED

Record = dict[str, object]
Expectation = tuple[Record, Verdict, Finding, str, list[tuple[str, Record]]]


class Plan(Run):
    """A run of a proxy before a cluster of its own, and what the audit must say of its reads."""

    def __init__(self, name: str) -> None:
        super().__init__(name, proxy=name)
        self.runs: list[Run] = [self]
        self.expected: list[Expectation] = []
        self.lost: list[tuple[Record, str, list[Record]]] = []
        # Who names no primary could be before any.
        self.statement(0, command="COM_PING", **on("primary"), **{"class": "command"})

    def beside(self, name: str, worker: int = 1, proxy: str = "") -> Run:
        """Another run before the same cluster: of another worker, or of another proxy."""
        whose = f"{self.proxy}, {proxy}" if proxy else self.proxy
        run = Run(f"{self.name}, {name}", worker, whose, self.clock)
        run.statement(0, command="COM_PING", **on("primary"), **{"class": "command"})
        self.runs.append(run)
        return run

    def expect(
        self,
        read: Record,
        verdict: Verdict,
        finding: Finding,
        missing: str = "",
        missed: list[Record] | None = None,
        saw: list[Record] | None = None,
        had: list[Record] | None = None,
    ) -> None:
        sources = {"wrote": missed, "saw": saw, "had": had}
        named = [(how, record) for how, records in sources.items() for record in records or []]
        self.expected.append((read, verdict, finding, missing, named))


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
    # The primary may not show yet what a replica has shown.
    read = run.read(7, "primary", "none", reason="wait_timeout", wait_us=50_000)
    run.expect(read, Verdict.GIVEN_UP, Finding.STALE_POLICY)


@scenario
def other_promises(run: Plan) -> None:
    write = run.write(7, f"{P}:10")
    read = run.read(7, "r1", "none", level="BEST_EFFORT")
    run.expect(read, Verdict.NO_PROMISE, Finding.BEST_EFFORT)
    read = run.waited(7, "r1", f"{P}:10", level="LINEARIZABLE")
    run.expect(read, NOT_JUDGED, Finding.UNKNOWN_LEVEL)
    read = run.waited(7, "r1", f"{P}:10", scope="galaxy")
    run.expect(read, NOT_JUDGED, Finding.UNKNOWN_LEVEL)
    read = run.waited(7, "r1", f"{P}:10", level="BOUNDED_STALENESS")
    run.expect(read, NOT_JUDGED, Finding.NO_BOUND)
    # A statement to Tidegate itself.
    nobody = dict.fromkeys(on("primary"))
    run.statement(7, reason="proxy", proof="none", **nobody, **{"class": "proxy"})
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
    run.clock.now -= 3_600_000_000
    read = run.waited(7, "r1", "")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    # What comes later in the session does not reach back, whatever the clock says.
    run.expect(run.read(8, "r1", "none"), OK, Finding.NOTHING_WRITTEN)
    run.clock.now -= 3_600_000_000
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
    # Nor does another server's set.
    run.probe("r2", f"{P}:1-99")
    run.expect(run.known(7, "r1", f"{P}:1-99"), *in_doubt)
    # Unless it has become the primary: what it does not have is lost.
    run.probe("other", f"{P}:1-99", role="primary")
    run.expect(run.known(7, "r1", f"{P}:1-99"), OK, Finding.NOTHING_WRITTEN)


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
    run.probe("r1", f"{P}:1-10", **promoted)
    run.expect(run.read(7, "r1", "primary", **promoted), OK, Finding.PRIMARY)
    run.expect(run.read(9, "r1", "primary", **promoted), OK, Finding.PRIMARY)


@scenario
def more_than_an_example_holds(run: Plan) -> None:
    writes = [run.write(7, f"{P}:{number}") for number in range(1, 80, 2)]
    read = run.waited(7, "r1", "")
    missing = ":".join(str(number) for number in range(1, 33, 2))
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:{missing},…", writes[:5])


@scenario
def a_user_on_two_connections(run: Plan) -> None:
    user = {"scope": "user", "user": "ann"}
    other, elsewhere = run.beside("b"), run.beside("c", proxy="gate2")
    write = run.write(7, f"{P}:10", user="ann")
    read = run.waited(8, "r1", f"{P}:9", **user)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    read = other.known(8, "r1", f"{P}:1-9", **user)
    run.expect(read, VIOLATION, Finding.KNOWN_TOO_SMALL, f"{P}:10", [write])
    run.expect(other.waited(8, "r1", f"{P}:10", **user), OK, Finding.WAITED)
    # Another user, another proxy, and whoever asks for less.
    read = run.read(9, "r1", "none", scope="user", user="bob")
    run.expect(read, OK, Finding.NOTHING_WRITTEN)
    run.expect(elsewhere.read(8, "r1", "none", **user), OK, Finding.NOTHING_WRITTEN)
    run.expect(run.read(8, "r1", "none", user="ann"), OK, Finding.NOTHING_WRITTEN)
    # A connection that has another user now wrote for the one that it had then.
    write = run.write(9, f"{P}:11", user="bob")
    read = run.waited(9, "r1", f"{P}:10", **user)
    run.expect(read, OK, Finding.WAITED)
    read = run.waited(10, "r1", "", scope="user", user="bob")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:11", [write])


@scenario
def an_application(run: Plan) -> None:
    cart = {"scope": "application", "application": "cart"}
    write = run.write(7, f"{P}:10", application="cart", scope="connection")
    run.write(7, f"{P}:11")
    run.write(8, f"{P}:12", application="till")
    read = run.waited(9, "r1", "", user="ann", **cart)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    read = run.read(10, "r1", "none", **cart | {"application": "shelf"})
    run.expect(read, OK, Finding.NOTHING_WRITTEN)
    # Without a key, it is at least the connection.
    for key in (None, ""):
        read = run.waited(7, "r1", f"{P}:11", **cart | {"application": key})
        run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
        read = run.read(9, "r1", "none", **cart | {"application": key})
        run.expect(read, OK, Finding.NOTHING_WRITTEN)


@scenario
def everybody_on_a_proxy(run: Plan) -> None:
    other, elsewhere = run.beside("b"), run.beside("c", proxy="gate2")
    writes = [run.write(7, f"{P}:10"), other.write(7, f"{P}:12", user="ann")]
    elsewhere.write(7, f"{P}:14")
    for level in ("READ_OWN_WRITES", "READ_ALL_WRITES"):
        read = run.waited(9, "r1", f"{P}:11", level=level, scope="proxy")
        run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10:12", writes)
    read = other.waited(9, "r1", f"{P}:10-12", level="READ_ALL_WRITES", scope="proxy")
    run.expect(read, OK, Finding.WAITED)
    # Of what nobody of it has seen, the next connection need see nothing.
    read = other.read(10, "r1", "none", level="READ_ALL_WRITES")
    run.expect(read, OK, Finding.NOTHING_WRITTEN)


@scenario
def what_has_not_ended_is_not_owed(run: Plan) -> None:
    user = {"scope": "user"}
    other = run.beside("b")
    begun = run.clock.now
    write = run.write(7, f"{P}:10", ended_us=begun + 3000)
    run.expect(other.read(8, "r1", "none", **user), OK, Finding.NOTHING_WRITTEN)
    read = other.waited(8, "r1", "", arrived_us=begun + 2999, **user)
    run.expect(read, OK, Finding.NOTHING_WRITTEN)
    read = other.waited(8, "r1", "", arrived_us=begun + 3000, **user)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    # Who is served later came earlier all the same.
    read = other.waited(9, "r1", "", arrived_us=begun + 2000, dispatched_us=begun + 9000, **user)
    run.expect(read, OK, Finding.NOTHING_WRITTEN)


@scenario
def a_state_older_than_the_one_seen(run: Plan) -> None:
    for number, level in enumerate(("MONOTONIC_READS", "READ_ALL_WRITES")):
        seen = run.read(10 + number, "r1", "none", level=level, observed=f"{P}:1-20")
        run.expect(seen, OK, Finding.NOTHING_WRITTEN)
        read = run.waited(10 + number, "r2", f"{P}:1-19", level=level)
        run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:20", saw=[seen])
        # Who asks for the own writes only is owed no more.
        read = run.waited(10 + number, "r2", "")
        run.expect(read, OK, Finding.NOTHING_WRITTEN)
        run.expect(run.waited(10 + number, "r2", f"{P}:1-20", level=level), OK, Finding.WAITED)
    # The same where the newest state was seen on the primary, and by another connection.
    on_primary = {"level": "MONOTONIC_READS", "observed": f"{P}:1-30", "user": "ann"}
    seen = run.read(20, "primary", "primary", **on_primary)
    run.expect(seen, OK, Finding.PRIMARY)
    ann = {"level": "MONOTONIC_READS", "scope": "user", "user": "ann"}
    read = run.waited(21, "r2", f"{P}:1-20", **ann)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:21-30", saw=[seen])
    read = run.waited(22, "r2", "", level="MONOTONIC_READS")
    run.expect(read, OK, Finding.NOTHING_WRITTEN)


@scenario
def a_state_older_than_the_one_proved(run: Plan) -> None:
    monotonic = {"level": "MONOTONIC_READS"}
    run.probe("r1", f"{P}:1-20")
    # No set was reported, but the proof tells what the answer showed.
    seen = run.known(7, "r1", f"{P}:1-20")
    run.expect(seen, OK, Finding.NOTHING_WRITTEN)
    read = run.waited(7, "r2", f"{P}:1-15", **monotonic)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:16-20", saw=[seen])
    seen = run.waited(8, "r1", f"{P}:30", **monotonic)
    run.expect(seen, OK, Finding.NOTHING_WRITTEN)
    run.probe("r2", f"{P}:1-29")
    read = run.known(8, "r2", f"{P}:1-29", **monotonic)
    run.expect(read, VIOLATION, Finding.KNOWN_TOO_SMALL, f"{P}:30", saw=[seen])
    # What nothing backs was perhaps not shown.
    unbacked = run.known(9, "r1", f"{P}:1-99", incarnation=2, **monotonic)
    run.expect(unbacked, OK, Finding.NOTHING_WRITTEN)
    seen = run.waited(9, "r2", f"{P}:25", **monotonic)
    run.expect(seen, OK, Finding.NOTHING_WRITTEN)
    # Nor was what the client did not get.
    read = run.waited(10, "r1", f"{P}:40", outcome="lost", **monotonic)
    run.expect(read, OK, Finding.NOTHING_WRITTEN)
    run.expect(run.waited(10, "r2", f"{P}:30", **monotonic), OK, Finding.NOTHING_WRITTEN)


@scenario
def a_server_that_showed_it_itself(run: Plan) -> None:
    monotonic: Record = {"level": "MONOTONIC_READS"}
    seen = run.waited(7, "r1", f"{P}:20", observed=f"{P}:1-21")
    run.expect(seen, OK, Finding.NOTHING_WRITTEN)
    # Its later states are no older, whatever the proxy asks of it.
    run.expect(run.waited(7, "r1", "", required="", **monotonic), OK, Finding.WAITED)
    run.expect(run.known(7, "r1", f"{P}:1-20", **monotonic), OK, Finding.KNOWN)
    # Those of another server are, and those of another incarnation may be.
    for server in (on("r2"), on("r1", incarnation=2)):
        read = run.waited(7, "r1", "", **server, **monotonic)
        run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:1-21", saw=[seen])
    # What was written is another matter.
    write = run.write(7, f"{P}:22")
    own = run.waited(8, "r1", f"{P}:22")
    run.expect(own, OK, Finding.NOTHING_WRITTEN)
    run.waited(7, "r1", f"{P}:22", level="BEST_EFFORT")
    run.expect(run.records[-1], Verdict.NO_PROMISE, Finding.BEST_EFFORT)
    read = run.waited(7, "r1", "", **monotonic)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:22", [write])


@scenario
def a_write_inside_the_whole_set(run: Plan) -> None:
    whole = {"own_known": False, "observed": f"{P}:1-10", "level": "MONOTONIC_READS"}
    for session, own in ((7, ""), (8, f"{P}:1-10")):
        write = run.write(session, own, **whole)
        read = run.waited(session, "r1", f"{P}:9")
        how = {"missed": [write]} if own else {"saw": [write]}
        run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:1-8:10", **how)
        run.expect(run.waited(session, "r1", f"{P}:1-10"), OK, Finding.WAITED)
    # An error may hide more than the set has.
    run.write(9, "", outcome="error", error_code=1062, **whole)
    run.expect(run.waited(9, "r1", f"{P}:1-10"), NOT_JUDGED, Finding.UNNAMED_WRITE)
    # A whole set of the primary that was asked for after it bounds it.
    seen = run.read(9, "primary", "primary", **whole | {"observed": f"{P}:1-11"})
    run.expect(seen, OK, Finding.PRIMARY)
    run.expect(run.waited(9, "r1", f"{P}:1-11"), OK, Finding.WAITED)


@scenario
def strong(run: Plan) -> None:
    strong = {"level": "STRONG"}
    elsewhere = run.beside("b", proxy="gate2")
    run.expect(run.read(7, "r1", "none", **strong), OK, Finding.NOTHING_WRITTEN)
    write = elsewhere.write(9, f"{P}:10", user="ann", level="BEST_EFFORT")
    read = run.waited(7, "r1", f"{P}:9", **strong)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    # What came through another direct, the primary has told to somebody.
    probe = elsewhere.probe("primary", f"{P}:1-12")
    for scope in ("connection", "user", "application", "proxy"):
        read = run.known(7, "r1", f"{P}:1-10", scope=scope, **strong)
        run.expect(read, VIOLATION, Finding.KNOWN_TOO_SMALL, f"{P}:11-12", had=[probe])
    run.expect(run.waited(7, "r1", f"{P}:1-12", **strong), OK, Finding.WAITED)
    # So does an answer on the primary; one on a replica does not tell what the primary has.
    seen = run.read(8, "primary", "primary", observed=f"{P}:1-13", level="MONOTONIC_READS")
    run.expect(seen, OK, Finding.PRIMARY)
    read = run.waited(7, "r1", f"{P}:1-12", **strong)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:13", saw=[seen])
    ahead = {"observed": f"{P}:1-14", "level": "BEST_EFFORT"}
    run.expect(run.read(8, "r1", "none", **ahead), Verdict.NO_PROMISE, Finding.BEST_EFFORT)
    run.expect(run.waited(7, "r1", f"{P}:1-13", **strong), OK, Finding.WAITED)
    # An answer that came after the read is of no use to it.
    late = run.probe("primary", f"{P}:1-20", ended_us=run.clock.now + 500)
    arrived = int(str(late["ended_us"])) - 1
    read = run.waited(7, "r1", f"{P}:1-13", arrived_us=arrived, **strong)
    run.expect(read, OK, Finding.WAITED)
    read = run.waited(7, "r1", f"{P}:1-13", arrived_us=arrived + 1, **strong)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:14-20", had=[late])
    read = run.read(7, "r1", "none", reason="wait_timeout", wait_us=9, **strong)
    run.expect(read, Verdict.GIVEN_UP, Finding.STALE_POLICY)
    run.expect(run.read(7, "primary", "primary", **strong), OK, Finding.PRIMARY)


@scenario
def anybodys_doubt_is_a_doubt_for_all(run: Plan) -> None:
    strong, proxy = {"level": "STRONG"}, {"scope": "proxy"}
    elsewhere = run.beside("b", proxy="gate2")
    write = run.write(7, f"{P}:10")
    elsewhere.unnamed(8)
    in_doubt = (NOT_JUDGED, Finding.UNNAMED_WRITE)
    run.expect(run.waited(9, "r1", f"{P}:10", **strong), *in_doubt)
    read = run.waited(9, "r1", f"{P}:9", **strong)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    run.expect(run.waited(9, "r1", f"{P}:10", **proxy), OK, Finding.WAITED)
    run.expect(elsewhere.read(9, "r1", "none", **proxy), *in_doubt)
    run.expect(elsewhere.read(9, "r1", "none", scope="user", user="x"), OK, Finding.NOTHING_WRITTEN)
    # Either proxy may ask.
    run.probe("primary", f"{P}:1-11")
    run.expect(run.waited(9, "r1", f"{P}:1-11", **strong), OK, Finding.WAITED)
    run.expect(elsewhere.read(9, "r1", "none", **proxy), *in_doubt)
    run.expect(elsewhere.waited(9, "r1", f"{P}:1-11", **proxy), OK, Finding.NOTHING_WRITTEN)


@scenario
def questions_that_cross(run: Plan) -> None:
    run.unnamed(7)
    # The first to be answered was the last to be asked, and found more.
    begun = run.clock.now
    first = {"dispatched_us": begun, "ended_us": begun + 2500}
    last = {"dispatched_us": begun + 1000, "ended_us": begun + 2000}
    run.probe("primary", f"{P}:1-12", **last)
    run.probe("primary", f"{P}:1-11", **first)
    run.clock.now = begun + 3000
    run.expect(run.waited(7, "r1", f"{P}:1-11"), OK, Finding.NOTHING_WRITTEN)
    run.expect(run.waited(7, "r2", f"{P}:1-10"), NOT_JUDGED, Finding.UNNAMED_WRITE)


@scenario
def bounded_staleness(run: Plan) -> None:
    bounded = {"level": "BOUNDED_STALENESS", "bound_us": 5000}
    elsewhere = run.beside("b", proxy="gate2")
    write = elsewhere.write(8, f"{P}:10")
    ended = int(str(write["ended_us"]))
    for late, scope in ((-1, "connection"), (4999, "user")):
        read = run.waited(7, "r1", "", arrived_us=ended + late, scope=scope, **bounded)
        run.expect(read, OK, Finding.NOTHING_WRITTEN)
    read = run.waited(7, "r1", "", arrived_us=ended + 5000, **bounded)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    read = run.waited(7, "r1", "", arrived_us=ended + 4999, **bounded | {"bound_us": 4000})
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])
    run.expect(
        run.waited(7, "r1", f"{P}:10", arrived_us=ended + 5000, **bounded), OK, Finding.WAITED
    )
    # Own writes are nothing special to it.
    run.clock.now = ended + 10_000
    own = run.write(7, f"{P}:11")
    run.expect(run.waited(7, "r1", f"{P}:10", **bounded), OK, Finding.WAITED)
    run.unnamed(7)
    run.expect(run.waited(7, "r1", f"{P}:10", **bounded), OK, Finding.WAITED)
    probe = run.probe("primary", f"{P}:1-13")
    run.clock.now = int(str(probe["ended_us"])) + 4999
    read = run.waited(7, "r1", f"{P}:10", **bounded)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:11", [own])
    run.expect(
        run.waited(7, "r2", f"{P}:1-11", **bounded),
        VIOLATION,
        Finding.WAITED_TOO_SMALL,
        f"{P}:12-13",
        had=[probe],
    )


@scenario
def missing_records_of_a_worker(run: Plan) -> None:
    user, strong = {"scope": "user"}, {"level": "STRONG"}
    other, elsewhere = run.beside("b"), run.beside("c", proxy="gate2")
    run.write(7, f"{P}:10")
    run.write(8, f"{P}:11")
    run.gap(8)
    in_doubt = (NOT_JUDGED, Finding.MISSING_RECORDS)
    # It is anybody's of this proxy, and of the cluster; a connection knows what it lacks itself.
    run.expect(other.waited(9, "r1", f"{P}:10-11", **user), *in_doubt)
    run.expect(other.read(9, "r1", "none", scope="user", user="x"), *in_doubt)
    run.expect(elsewhere.waited(9, "r1", f"{P}:10-11", **strong), *in_doubt)
    run.expect(elsewhere.read(9, "r1", "none", **user), OK, Finding.NOTHING_WRITTEN)
    run.expect(run.waited(7, "r1", f"{P}:10"), OK, Finding.WAITED)
    # The primary has been asked since.
    elsewhere.probe("primary", f"{P}:1-12")
    run.expect(other.waited(9, "r2", f"{P}:10-11", **user), *in_doubt)
    run.expect(other.waited(9, "r2", f"{P}:1-12", **user), OK, Finding.WAITED)
    run.expect(elsewhere.waited(9, "r2", f"{P}:1-12", **strong), OK, Finding.WAITED)
    # An older state was not yet in doubt.
    old = {"level": "BOUNDED_STALENESS", "bound_us": 1_000_000}
    run.expect(other.read(10, "r1", "none", **old), OK, Finding.NOTHING_WRITTEN)


@scenario
def a_log_that_begins_in_the_middle_of_a_run(run: Plan) -> None:
    other = run.beside("b")
    run.lose(run.records[0])
    run.probe("r1", f"{P}:1-9")
    run.expect(other.read(9, "r1", "none", scope="proxy"), NOT_JUDGED, Finding.MISSING_RECORDS)
    run.expect(other.read(9, "r1", "none"), OK, Finding.NOTHING_WRITTEN)


@scenario
def acknowledged_and_lost(run: Plan) -> None:
    user, strong, seen = {"scope": "user"}, {"level": "STRONG"}, {"level": "MONOTONIC_READS"}
    other = run.beside("b")
    run.probe("primary", f"{P}:1-9")
    writes = [run.write(7, f"{P}:{number}") for number in (10, 11)]
    read = run.read(7, "primary", "primary", observed=f"{P}:1-12", **seen)
    run.expect(read, OK, Finding.PRIMARY)
    read = other.waited(8, "r2", f"{P}:10", **user)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:11", [writes[1]])
    run.unnamed(9, user="zoe")
    # The primary is another one, and does not have :11 and :12.
    promoted = on("r1") | {"role": "primary"}
    run.expect(run.read(7, "r1", "primary", **promoted), NOT_JUDGED, Finding.PRIMARY_CHANGED)
    tide = run.probe("r1", f"{P}:1-10:14", **promoted)
    run.lost = [(tide, f"{P}:11", [writes[1]])]
    for rules in ({}, user, strong):
        run.expect(
            run.waited(7, "r2", f"{P}:1-10", **rules),
            *(
                (VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:14", None, None, [tide])
                if rules is strong
                else (OK, Finding.WAITED)
            ),
        )
        run.expect(run.read(7, "r1", "primary", **promoted, **rules), OK, Finding.PRIMARY)
    run.expect(run.waited(7, "r2", f"{P}:1-10", **seen), OK, Finding.WAITED)
    read = run.waited(7, "r2", f"{P}:1-9", **user)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [writes[0]])
    # What an earlier primary may have committed is in there, or lost, too.
    run.expect(run.waited(9, "r2", f"{P}:1-10:14"), OK, Finding.NOTHING_WRITTEN)
    # A state of before the change, of the primary that there is now.
    old = {
        "level": "BOUNDED_STALENESS",
        "bound_us": run.clock.now - int(str(tide["ended_us"])) + 2000,
    }
    run.expect(run.waited(7, "r2", f"{P}:1-10", **old), OK, Finding.WAITED)


@scenario
def a_primary_that_was_restarted_without_its_newest_writes(run: Plan) -> None:
    run.probe("primary", f"{P}:1-9")
    write = run.write(7, f"{P}:10")
    tide = run.probe("primary", f"{P}:1-9", incarnation=2)
    run.lost = [(tide, f"{P}:10", [write])]
    run.expect(run.waited(7, "r2", f"{P}:1-9"), OK, Finding.NOTHING_WRITTEN)
    # The number is given out again.
    write = run.write(7, f"{P}:10", incarnation=2)
    read = run.waited(7, "r2", f"{P}:1-9")
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{P}:10", [write])


@scenario
def a_proxy_that_names_no_primary(run: Plan) -> None:
    strange = Run(f"{run.name}, b", 0, f"{run.proxy}, gate2", run.clock)
    run.runs.append(strange)
    run.write(7, f"{P}:10")
    # It may stand before any cluster: who can tell what this had to see?
    for level in ("STRONG", "BOUNDED_STALENESS"):
        read = strange.waited(7, "other", f"{P}:10", level=level, bound_us=9)
        run.expect(read, NOT_JUDGED, Finding.UNKNOWN_CLUSTER)
    run.expect(strange.waited(7, "other", ""), OK, Finding.NOTHING_WRITTEN)
    nobody = dict.fromkeys(("server", "server_uuid", "incarnation", "role"))
    read = strange.read(7, "r1", "none", level="STRONG", outcome="error", **nobody)
    run.expect(read, Verdict.NO_ANSWER, Finding.NO_SERVER)
    run.expect(run.waited(7, "r1", f"{P}:10", level="STRONG"), OK, Finding.WAITED)


@scenario
def an_old_primary_that_answers_late(run: Plan) -> None:
    strong, user = {"level": "STRONG"}, {"scope": "user"}
    slow = run.beside("b", proxy="gate2")
    run.probe("primary", f"{P}:1-9")
    begun = run.clock.now
    run.clock.now += 5000
    promoted = on("r1") | {"role": "primary"}
    tide = run.probe("r1", f"{P}:1-8", **promoted)
    # It was asked before the new one, and by who did not yet know the new one; it has more.
    late = {"arrived_us": begun, "dispatched_us": begun + 1, "ended_us": run.clock.now + 500}
    run.probe("primary", f"{P}:1-12", **late)
    run.clock.now += 1000
    slow.probe("primary", f"{P}:1-14")
    whole = {"level": "MONOTONIC_READS", "observed": f"{P}:1-15"}
    run.expect(slow.read(9, "primary", "primary", **whole), OK, Finding.PRIMARY)
    slow.probe("r1", f"{P}:1-8,{UUID['r1']}:1", **promoted)
    read = run.waited(7, "r2", f"{P}:1-8,{UUID['r1']}:1", **strong)
    run.expect(read, OK, Finding.WAITED)
    # What the new one says is owed.
    write = slow.write(8, f"{UUID['r1']}:2", **promoted)
    read = run.waited(7, "r2", f"{P}:1-8,{UUID['r1']}:1", **strong)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{UUID['r1']}:2", [write])
    read = slow.waited(7, "r2", f"{P}:1-8", **user)
    run.expect(read, VIOLATION, Finding.WAITED_TOO_SMALL, f"{UUID['r1']}:2", [write])
    assert tide


def _in_snapshot(run: Plan, level: str, scope: str, **fields: object) -> tuple[Record, Record]:
    """A write, and two reads behind it of a snapshot that was asked for before it."""
    rules: Record = {"level": level, "scope": scope, **fields}
    run.probe("r1", f"{P}:1-5")
    run.probe("primary", f"{P}:1-5")
    begun = run.clock.now
    first = run.known(7, "r1", f"{P}:1-5", snapshot_us=begun, **rules)
    run.write(8, f"{P}:6")
    run.probe("primary", f"{P}:1-6")
    inside: Record = {"reason": "transaction", "snapshot_us": begun, **rules}
    return first, run.known(7, "r1", f"{P}:1-5", **inside)


def _a_snapshot_is_as_old_as_its_first_read(run: Plan, level: str, scope: str) -> None:
    bound: Record = {"bound_us": 1} if level == "BOUNDED_STALENESS" else {}
    first, later = _in_snapshot(run, level, scope, **bound)
    found = Finding.KNOWN if level in ("STRONG", "BOUNDED_STALENESS") else Finding.NOTHING_WRITTEN
    run.expect(first, OK, found)
    run.expect(later, OK, found)


@scenario
def a_strong_snapshot(run: Plan) -> None:
    _a_snapshot_is_as_old_as_its_first_read(run, "STRONG", "connection")


@scenario
def a_bounded_snapshot(run: Plan) -> None:
    _a_snapshot_is_as_old_as_its_first_read(run, "BOUNDED_STALENESS", "connection")


@scenario
def a_user_s_snapshot(run: Plan) -> None:
    _a_snapshot_is_as_old_as_its_first_read(run, "READ_OWN_WRITES", "user")


@scenario
def a_proxy_s_snapshot(run: Plan) -> None:
    _a_snapshot_is_as_old_as_its_first_read(run, "READ_ALL_WRITES", "proxy")


@scenario
def a_snapshot_that_owes_what_was_written_before_it(run: Plan) -> None:
    run.probe("r1", f"{P}:1-5")
    write = run.write(8, f"{P}:6")
    run.probe("primary", f"{P}:1-6")
    rules: Record = {"level": "STRONG", "snapshot_us": run.clock.now}
    run.probe("primary", f"{P}:1-6")
    for reason in ("read", "transaction"):
        read = run.known(7, "r1", f"{P}:1-5", reason=reason, **rules)
        run.expect(read, VIOLATION, Finding.KNOWN_TOO_SMALL, f"{P}:6", [write])


@scenario
def a_snapshot_that_the_log_does_not_tell_of(run: Plan) -> None:
    run.probe("r1", f"{P}:1-5")
    first = run.known(7, "r1", f"{P}:1-5", scope="user")
    write = run.write(8, f"{P}:6")
    later = run.known(7, "r1", f"{P}:1-5", scope="user", reason="transaction")
    run.expect(first, OK, Finding.NOTHING_WRITTEN)
    run.expect(later, VIOLATION, Finding.KNOWN_TOO_SMALL, f"{P}:6", [write])


@scenario
def a_snapshot_that_was_too_early_for_what_has_no_name(run: Plan) -> None:
    run.probe("r1", f"{P}:1-5")
    run.unnamed(8)
    run.probe("primary", f"{P}:1-6")
    rules: Record = {"scope": "user", "snapshot_us": run.clock.now}
    run.expect(run.known(7, "r1", f"{P}:1-5", **rules), NOT_JUDGED, Finding.UNNAMED_WRITE)
    run.probe("r1", f"{P}:1-6")
    later = run.known(7, "r1", f"{P}:1-5", reason="transaction", **rules)
    run.expect(later, NOT_JUDGED, Finding.UNNAMED_WRITE)
    run.expect(run.known(7, "r1", f"{P}:1-6", scope="user"), OK, Finding.NOTHING_WRITTEN)


@scenario
def a_snapshot_beside_which_the_primary_was_read(run: Plan) -> None:
    run.probe("r1", f"{P}:1-5")
    begun = run.clock.now
    rules: Record = {"level": "MONOTONIC_READS"}
    run.expect(
        run.waited(7, "r1", f"{P}:1-5", snapshot_us=begun, **rules), OK, Finding.NOTHING_WRITTEN
    )
    shown = run.read(7, "primary", "primary", observed=f"{P}:1-9", reason="session", **rules)
    run.expect(shown, OK, Finding.PRIMARY)
    run.expect(
        run.known(7, "r1", f"{P}:1-5", snapshot_us=begun, reason="transaction", **rules),
        OK,
        Finding.NOTHING_WRITTEN,
    )
    run.statement(7, command="COM_QUERY", reason="transaction", **on("primary"),
                  **{"class": "transaction"})  # fmt: skip
    read = run.known(7, "r1", f"{P}:1-5", **rules)
    run.expect(read, VIOLATION, Finding.KNOWN_TOO_SMALL, f"{P}:6-9", saw=[shown])


PLANS = {name: Plan(name) for name in SCENARIOS}
for name, plan in SCENARIOS.items():
    plan(PLANS[name])


def own(name: str, text: str) -> str:
    """The UUIDs of a scenario's own cluster."""
    return text.replace("-e53d-", f"-{list(SCENARIOS).index(name):04x}-")


Said = dict[tuple[str, int], dict[str, object]]


@pytest.fixture(scope="module")
def judged(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Said], list[dict[str, object]]]:
    """What the audit says of each read, by scenario and by run and seq; what it says is lost."""
    from spark_jobs.primaries import primary_history
    from spark_jobs.reads import consistency_audit
    from spark_jobs.records import ingest

    log = tmp_path_factory.mktemp("log")
    for name, plan in PLANS.items():
        for path in save(log, *plan.runs):
            path.write_text(own(name, path.read_text()))
    parsed = ingest.parse(lines_of(spark, log))
    assert parsed.where("fault is not null").count() == 0
    records = ingest.number(parsed).persist()
    history = primary_history.learn(records)
    said: dict[str, Said] = {name: {} for name in SCENARIOS}
    for row in consistency_audit.transform(records, history).collect():
        read = row.asDict(recursive=True)
        its = said[row.run.partition(",")[0]]
        assert (row.run, row.seq) not in its, "a read was judged twice"
        its[row.run, row.seq] = read
    lost = primary_history.lost(history.past).collect()
    return said, [row.asDict(recursive=True) for row in lost]


def source(how: str, record: Record, name: str) -> dict[str, object]:
    gtids = record["own_gtids"] if how == "wrote" else record["observed"] or record["proof_set"]
    its = {key: record[key] for key in ("run", "session", "seq", "ended_us", "digest")}
    return {"how": how, **its, "gtids": own(name, str(gtids))}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_read_gets_the_verdict_that_it_deserves(
    judged: tuple[dict[str, Said], object], name: str
) -> None:
    plan, said = PLANS[name], judged[0][name]
    assert {key: (read["verdict"], read["finding"]) for key, read in said.items()} == {
        (read["run"], read["seq"]): (verdict, finding)
        for read, verdict, finding, _, _ in plan.expected
    }
    for read, _, _, missing, named in plan.expected:
        its = said[str(read["run"]), int(str(read["seq"]))]
        assert its["missing"] == (own(name, missing) or None)
        assert its["missed"] == [source(how, record, name) for how, record in named]
        if its["verdict"] != OK:
            required, shown = (
                read[key] and own(name, str(read[key])) for key in ("required", "proof_set")
            )
            assert (its["claimed"], its["shown"]) == (required, shown)


def test_what_was_acknowledged_and_lost_is_told_and_nothing_else(
    judged: tuple[object, list[dict[str, object]]],
) -> None:
    expected = [
        {
            **{key: tide[key] for key in ("proxy", "worker", "run", "seq", "server_uuid")},
            "asked_us": tide["dispatched_us"],
            "server_uuid": own(name, str(tide["server_uuid"])),
            "gtids": own(name, gtids),
            "writes": [source("wrote", write, name) for write in writes],
        }
        for name, plan in PLANS.items()
        for tide, gtids, writes in plan.lost
    ]
    assert sorted(judged[1], key=str) == sorted(expected, key=str)


def test_the_expectations_are_about_sets() -> None:
    # A slip in a scenario's text must not pass for a finding.
    for plan in PLANS.values():
        for _, _, _, missing, _ in plan.expected:
            parse(missing.removesuffix(",…"))
