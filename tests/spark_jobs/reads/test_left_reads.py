"""What comparisons leave to the judge, one reason at a time; whatever they settle he says, too.

All scenarios are one log, with simulated traffic. It is compared with its groups whole, and once
more with its groups divided by time, as those of a large log are.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

pytest.importorskip("pyspark")

from tests.spark_jobs.reads.test_many_seeds import traffic
from tests.spark_jobs.reads.test_plain_reads import Compared
from tests.spark_jobs.routing_log import UUID, Run, move

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

P, R, OTHER = UUID["primary"], UUID["r1"], UUID["other"]
ALL = f"{P}:1-30"
REMEMBERS = {"level": "MONOTONIC_READS"}


class Session:
    """A run in which both replicas were shown to have 1 to 30."""

    def __init__(self, number: int) -> None:
        self.run = Run(f"a{number}", proxy=f"scenario{number}")
        for server in ("primary", "r1", "r2"):
            self.run.probe(server, ALL)

    def read(self, claim: str = ALL, whom: str = "r1", /, **fields: object) -> object:
        """Session 1 reads, and owes what it wrote; gives its number."""
        record = self.run.known(1, whom, claim, required=claim)
        record |= fields
        return record["seq"]


Scenario = Callable[[Session], dict[object, str]]
"""Fills a run, and gives the findings of its reads that comparisons settle, by number."""

SCENARIOS: Final[list[Scenario]] = []


Found = dict[object, str | None]
"""What comparisons find of each read, by number; None if it is left to the judge."""


def scenario(told: Scenario) -> Scenario:
    """Add a scenario."""
    SCENARIOS.append(told)
    return told


class Looked(NamedTuple):
    """What comparisons find.

    Attributes:
        expected: of each scenario the name of its run, and what they should find of its reads.
        whole: what they find of each run's reads, with groups that are whole.
        divided: the same, with groups that are divided.
        simulated: the names of the runs of simulated traffic.
    """

    expected: dict[object, tuple[str, Found]]
    whole: dict[str, Found]
    divided: dict[str, Found]
    simulated: set[str]


SEEDS = (1, 2, 3)
"""Violations; each lapse, and sets as of no server; a change of the primary."""


@pytest.fixture(scope="module")
def looked(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Looked:
    """One log of all scenarios, and of simulated traffic."""
    expected: dict[object, tuple[str, Found]] = {}
    runs: list[Run] = []
    for number, told in enumerate(SCENARIOS, 1):
        session = Session(number)
        expected[told] = session.run.name, {**told(session)}
        move(session.run, f"a{number:03x}")
        runs.append(session.run)
    for groups in (in_narrow_groups, in_a_wide_group, in_groups_of_long_ago):
        run, found = groups()
        expected[groups] = run.name, found
        runs.append(run)
    simulated = [run for seed in SEEDS for run in traffic(seed)]
    compared = Compared(spark, tmp_path_factory.mktemp("left"), *runs, *simulated)
    whole = compared.agree(divided=True)
    names = {run.name for run in simulated}
    return Looked(expected, by_run(whole), by_run(compared.divided), names)


def by_run(findings: dict[tuple[str, int], str | None]) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for (name, seq), finding in findings.items():
        found.setdefault(name, {})[seq] = finding
    return found


@scenario
def what_is_written_as_no_server_would(its: Session) -> dict[object, str]:
    before = its.read()
    its.run.write(1, f"{P}:7".upper())
    its.read(f"{P}:1-5")
    its.read()
    its.run.write(2, f"{P}:8")
    other = its.run.known(2, "r1", ALL, required=ALL)["seq"]
    return {before: "nothing written", other: "known"}


@scenario
def what_is_seen_as_no_server_would_say(its: Session) -> dict[object, str]:
    its.run.write(1, f"{P}:4")
    before = its.read(f"{P}:1-5", **REMEMBERS)
    its.run.read(1, "r1", "waited", f"{P}:1-20".upper(), wait_us=1, required=ALL, **REMEMBERS)
    its.read(f"{P}:1-9", "r2", **REMEMBERS)
    # Who owes only what was written is not concerned.
    plain = its.read(f"{P}:1-9", "r2")
    return {before: "known", plain: "known"}


@scenario
def what_a_primarys_answer_told(its: Session) -> dict[object, str]:
    fields = {"observed": f"{P}:1-12", "required": "", **REMEMBERS}
    first = its.run.read(1, "primary", "primary", **fields)["seq"]
    its.read(f"{P}:1-11", "r2", **REMEMBERS)
    return {first: "primary", its.read(f"{P}:1-12", "r2", **REMEMBERS): "known"}


@scenario
def what_a_replicas_answer_told(its: Session) -> dict[object, str]:
    fields = {"observed": f"{P}:1-12", "required": "", **REMEMBERS}
    first = its.run.read(1, "r1", "known", proof_set=f"{P}:1-5", **fields)["seq"]
    its.read(f"{P}:1-11", "r2", **REMEMBERS)
    return {first: "nothing written", its.read(f"{P}:1-12", "r2", **REMEMBERS): "known"}


@scenario
def a_proof_that_nothing_backs(its: Session) -> dict[object, str]:
    its.run.write(1, f"{P}:4")
    its.read(f"{P}:1-31")
    within = its.read()
    its.read(f"{ALL},{OTHER}:1")
    its.read(incarnation=2)
    its.run.probe("r1", f"{P}:1-31")
    now = its.read(f"{P}:1-31")
    return {within: "known", now: "known"}


@scenario
def a_required_set_that_is_too_small(its: Session) -> dict[object, str]:
    its.run.write(1, f"{P}:4")
    its.run.write(1, f"{P}:6")
    named, whole, unknown = (its.read(required=it) for it in (f"{P}:4:6", f"{P}:1-6", None))
    its.read(required=f"{P}:4")
    return dict.fromkeys((named, whole, unknown), "known")


@scenario
def what_is_written_of_several_sources(its: Session) -> dict[object, str]:
    its.run.probe("r1", f"{ALL},{R}:1-9")
    its.run.write(1, f"{P}:4,{R}:2")
    both = its.read(f"{ALL},{R}:1-9")
    its.read(ALL)
    tagged = f"{P}:1-30:blue:1-9,{R}:1-9"
    its.run.probe("r1", tagged)
    its.run.write(1, f"{P}:blue:3")
    three = its.read(tagged)
    its.read(f"{ALL},{R}:1-9")
    return {both: "known", three: "known"}


@scenario
def until_a_question_bounds_it(its: Session) -> dict[object, str]:
    its.run.unnamed(1)
    its.read()
    its.run.probe("primary", f"{P}:1-31")
    its.read()
    its.run.probe("r1", f"{P}:1-31")
    reached = its.read(f"{P}:1-31")
    return {reached: "nothing written"}


@scenario
def who_is_not_concerned_by_what_is_open(its: Session) -> dict[object, str]:
    its.run.unnamed(2, user="bob")
    wide = {"scope": "user", "user": "bob"}
    own = its.read()
    its.read(**wide)
    its.read(level="STRONG")
    return {own: "nothing written"}


@scenario
def a_hole_in_a_session(its: Session) -> dict[object, str]:
    first = its.read()
    its.run.gap(1)
    its.read()
    its.read()
    other = its.run.known(2, "r1", ALL, required="")["seq"]
    its.run.known(3, "r1", ALL, required="", scope="proxy")
    its.run.probe("primary", ALL)
    its.run.probe("r1", ALL)
    bounded = its.read()
    return dict.fromkeys((first, other, bounded), "nothing written")


@scenario
def another_primary(its: Session) -> dict[object, str]:
    its.run.write(1, f"{P}:4")
    before = its.read()
    its.run.read(2, "primary", "primary", required=None)
    new = {"role": "primary"}
    its.run.probe("r2", ALL, **new)
    its.run.write(1, f"{UUID['r2']}:1", server="r2:3306", server_uuid=UUID["r2"])
    its.read(f"{ALL},{UUID['r2']}:1")
    its.run.read(1, "r2", "primary", required=None, **new)
    return {before: "known"}


@scenario
def answers_that_prove_nothing(its: Session) -> dict[object, str]:
    its.run.write(1, f"{P}:4")
    its.run.read(1, "r1", "none", required=ALL)
    its.run.read(1, "r1", "none", required=ALL, reason="wait_timeout")
    its.read(server_uuid=None, incarnation=None)
    its.read(server=None)
    its.run.read(1, "primary", "none", reason="wait_timeout")
    its.read(level="EVENTUAL")
    its.read(level="BOUNDED_STALENESS")
    effort = its.run.read(1, "r1", "none", level="BEST_EFFORT")["seq"]
    primary = its.run.read(1, "primary", "primary", required=None)["seq"]
    return {effort: "best effort", primary: "primary"}


@scenario
def a_snapshot_owes_what_its_first_read_did(its: Session) -> dict[object, str]:
    its.run.write(1, f"{P}:4", scope="user")
    taken_us = its.run.clock.now
    first = its.read(f"{P}:1-4", scope="user")
    its.run.write(2, f"{P}:5", scope="user")
    again = its.read(f"{P}:1-4", scope="user", snapshot_us=taken_us)
    its.read(f"{P}:1-4", scope="user")
    return {first: "known", again: "known"}


@pytest.mark.parametrize("told", SCENARIOS, ids=lambda told: told.__name__)
def test_what_is_settled(told: Scenario, looked: Looked) -> None:
    name, expected = looked.expected[told]
    assert {seq: it for seq, it in looked.whole[name].items() if it} == expected


def in_narrow_groups() -> tuple[Run, Found]:
    """Statements of some sessions, and of each read what is found by comparison."""
    run = Run("n1", proxy="narrow")
    run.probe("primary", f"{P}:1-10")
    run.probe("r1", f"{P}:1-10")
    plain: dict[str, list[object]] = {"nothing written": [], "waited": [], "known": []}
    left: list[int] = []
    plain["nothing written"].append(run.known(1, "r1", f"{P}:1-10", required="")["seq"])
    # Others write in between, so what the session wrote has gaps.
    own = ""
    for number in range(11, 41, 2):
        run.write(1, f"{P}:{number}")
        run.write(2, f"{P}:{number + 1}")
        own += f":{number}"
        wait = run.waited(1, "r1", f"{P}{own}", required=f"{P}{own}")
        # Beyond the first interval, only the last eight writes are looked at one by one.
        (plain["waited"] if own.count(":") <= 9 else left).append(wait["seq"])
    closed = f"{P}:11-33:35:37:39"
    plain["waited"].append(run.waited(1, "r1", closed, required=closed)["seq"])
    run.probe("r1", f"{P}:1-40")
    plain["known"].append(run.known(1, "r1", f"{P}:1-40", required=closed)["seq"])
    beyond = run.known(1, "r1", f"{P}:1-50", required=closed)
    short = run.known(1, "r1", f"{P}:1-38", required=closed)
    understated = run.known(1, "r1", f"{P}:1-40", required=f"{P}:11-37")
    odd = run.waited(1, "r1", f"{P}:1-40:", required=closed)
    nobodys = run.known(1, "r1", f"{P}:1-40", required=closed)
    nobodys["server"] = None
    left += [it["seq"] for it in (beyond, short, understated, odd, nobodys)]
    plain["primary"] = [run.read(1, "primary", "primary", required=None)["seq"]]
    plain["best effort"] = [run.read(1, "r2", "none", level="BEST_EFFORT")["seq"]]
    # Something was committed that has no name, until the primary is asked.
    run.unnamed(3)
    left.append(run.waited(3, "r2", f"{P}:1-40")["seq"])
    run.probe("primary", f"{P}:1-41")
    run.probe("primary", f"{P}:1-41")
    plain["nothing written"].append(run.waited(3, "r2", f"{P}:1-41", required="")["seq"])
    # Two that were acknowledged in another order than they were committed in, and few before them.
    for number in (53, 51, 55, 57, 59, 61, 63, 65):
        run.write(4, f"{P}:{number}")
    several = f"{P}:51:53:55:57:59:61:63:65"
    plain["waited"].append(run.waited(4, "r1", several, required=several)["seq"])
    run.write(4, f"{P}:67")
    left.append(run.waited(4, "r1", f"{several}:67", required=f"{several}:67")["seq"])
    wide_enough = f"{P}:51-53:55-67"
    plain["waited"].append(run.waited(4, "r1", wide_enough, required=wide_enough)["seq"])
    run.gap(2)
    left.append(run.waited(2, "r2", f"{P}:1-41", required=f"{P}:12-40")["seq"])
    move(run, "cafe")
    found: Found = dict.fromkeys(left)
    for finding, reads in plain.items():
        found |= dict.fromkeys(reads, finding)
    return run, found


def in_a_wide_group() -> tuple[Run, Found]:
    """A user's statements of half a minute, and of each read what is found by comparison."""
    run = Run("w1", proxy="wide")
    found: Found = {}

    def reads(finding: str | None, claim: str, **fields: object) -> None:
        rules = {"scope": "user", "required": claim} | fields
        found[run.waited(2, "r1", claim, **rules)["seq"]] = finding

    for name in ("primary", "r1"):
        run.probe(name, f"{P}:1-10")
    reads("nothing written", f"{P}:1-10", required="")
    run.write(1, f"{P}:11")
    run.write(1, f"{P}:13")
    reads("waited", f"{P}:11:13")
    run.clock.now += 25_000_000
    reads("waited", f"{P}:11-13")
    reads("waited", f"{P}:11:13")
    reads(None, f"{P}:1-12")
    reads(None, f"{P}:12-13")
    reads("nothing written", f"{P}:1-10", required="", user="bob")
    run.write(1, f"{P}:15")
    reads("waited", f"{P}:11-13:15")
    reads(None, f"{P}:11-13:16")
    reads(None, f"{P}:11-14")
    run.clock.now += 25_000_000
    reads("waited", f"{P}:1-15")
    # What was seen counts where it is remembered.
    reads("waited", f"{P}:1-20", level="MONOTONIC_READS")
    run.clock.now += 25_000_000
    reads("waited", f"{P}:1-20", level="MONOTONIC_READS")
    reads(None, f"{P}:1-19", level="MONOTONIC_READS")
    run.unnamed(1)
    run.clock.now += 25_000_000
    reads(None, f"{P}:1-20")
    run.probe("primary", f"{P}:1-21")
    run.clock.now += 25_000_000
    reads(None, f"{P}:1-20")
    reads("waited", f"{P}:1-21")
    # Alone in their time.
    run.clock.now += 25_000_000
    reads(None, f"{P}:1-20", level="STRONG")
    reads("waited", f"{P}:1-21", level="STRONG")
    move(run, "beef")
    return run, found


def in_groups_of_long_ago() -> tuple[Run, Found]:
    """A user's statements, the first write long before all others."""
    run = Run("l1", proxy="long")
    for name in ("primary", "r1"):
        run.probe(name, f"{P}:1-10")
    run.write(1, f"{P}:11")
    run.clock.now += 60_000_000
    run.write(1, f"{P}:13")
    left = run.waited(2, "r1", f"{P}:13:15", scope="user", required=f"{P}:13:15")["seq"]
    waited = run.waited(2, "r1", f"{P}:11-13:15", scope="user", required=f"{P}:11-13:15")["seq"]
    move(run, "bead")
    return run, {left: None, waited: "waited"}


GROUPS = {"narrow": in_narrow_groups, "wide": in_a_wide_group, "long ago": in_groups_of_long_ago}


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
def test_what_is_plain_and_what_is_left(groups: object, looked: Looked) -> None:
    name, expected = looked.expected[groups]
    assert looked.whole[name] == expected


def test_divided_groups_owe_what_was_written_before(looked: Looked) -> None:
    name, expected = looked.expected[in_groups_of_long_ago]
    assert looked.divided[name] == expected


@pytest.mark.parametrize("groups", ["whole", "divided"])
def test_most_of_simulated_traffic_is_settled(groups: str, looked: Looked) -> None:
    found = [
        finding
        for name, findings in getattr(looked, groups).items()
        if name in looked.simulated
        for finding in findings.values()
    ]
    settled = [finding for finding in found if finding]
    assert {"known", "waited", "primary", "nothing written"} <= set(settled)
    # That is what comparisons are for.
    assert len(settled) > len(found) / 2
