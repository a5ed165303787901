"""What columns leave to the judge, one reason at a time; whatever they settle he says, too."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("numpy")

from spark_jobs.verdict import Finding, Verdict
from tests.spark_jobs.by_columns import settled
from tests.spark_jobs.routing_log import UUID, Run
from tests.spark_jobs.without_spark import audit

P, R, OTHER = UUID["primary"], UUID["r1"], UUID["other"]
ALL = f"{P}:1-30"
REMEMBERS = {"level": "MONOTONIC_READS"}


class Session:
    """A run in which both replicas were shown to have 1 to 30, and what columns find in it."""

    def __init__(self, folder: Path, *runs: Run) -> None:
        self.run = Run()
        self._others = runs
        self._folder = folder
        for server in ("primary", "r1", "r2"):
            self.run.probe(server, ALL)

    def read(self, claim: str = ALL, whom: str = "r1", /, **fields: object) -> object:
        """Session 1 reads, and owes what it wrote; gives its number."""
        record = self.run.known(1, whom, claim, required=claim)
        record |= fields
        return record["seq"]

    def settled(self) -> dict[object, str]:
        """The findings of this run's reads that columns settle, by number."""
        log = [record for run in (self.run, *self._others) for record in run.records]
        found, said = settled(log, self._folder), audit(log)
        assert said.error_us == 0
        for key, finding in found.reads.items():
            right = Verdict.NO_PROMISE if finding == Finding.BEST_EFFORT else Verdict.OK
            assert (said.reads[key].verdict, said.reads[key].finding) == (right, finding)
        assert found.reads.keys() | found.left == said.reads.keys()
        return {key[3]: finding for key, finding in found.reads.items() if key[2] == "a1"}


def test_what_is_written_as_no_server_would(tmp_path: Path) -> None:
    its = Session(tmp_path)
    before = its.read()
    its.run.write(1, f"{P}:7".upper())
    its.read(f"{P}:1-5")
    its.read()
    its.run.write(2, f"{P}:8")
    other = its.run.known(2, "r1", ALL, required=ALL)["seq"]
    assert its.settled() == {before: "nothing written", other: "known"}


def test_what_is_seen_as_no_server_would_say(tmp_path: Path) -> None:
    its = Session(tmp_path)
    its.run.write(1, f"{P}:4")
    before = its.read(f"{P}:1-5", **REMEMBERS)
    its.run.read(1, "r1", "waited", f"{P}:1-20".upper(), wait_us=1, required=ALL, **REMEMBERS)
    its.read(f"{P}:1-9", "r2", **REMEMBERS)
    # Who owes only what was written is not concerned.
    plain = its.read(f"{P}:1-9", "r2")
    found = its.settled()
    assert found == {before: "known", plain: "known"}


@pytest.mark.parametrize("server", ["primary", "r1"])
def test_what_an_answer_told(tmp_path: Path, server: str) -> None:
    its = Session(tmp_path)
    its.run.read(1, server, "primary" if server == "primary" else "known", observed=f"{P}:1-12",
                 proof_set=f"{P}:1-5", required="", **REMEMBERS)  # fmt: skip
    short, enough = (its.read(f"{P}:1-{end}", "r2", **REMEMBERS) for end in (11, 12))
    found = its.settled()
    assert (short in found, found[enough]) == (False, "known")


def test_a_proof_that_nothing_backs(tmp_path: Path) -> None:
    its = Session(tmp_path)
    its.run.write(1, f"{P}:4")
    its.read(f"{P}:1-31")
    within = its.read()
    its.read(f"{ALL},{OTHER}:1")
    its.read(incarnation=2)
    its.run.probe("r1", f"{P}:1-31")
    now = its.read(f"{P}:1-31")
    assert its.settled() == {within: "known", now: "known"}


def test_a_required_set_that_is_too_small(tmp_path: Path) -> None:
    its = Session(tmp_path)
    its.run.write(1, f"{P}:4")
    its.run.write(1, f"{P}:6")
    named, whole, unknown = (its.read(required=it) for it in (f"{P}:4:6", f"{P}:1-6", None))
    its.read(required=f"{P}:4")
    assert its.settled() == dict.fromkeys((named, whole, unknown), "known")


def test_what_is_written_of_several_sources(tmp_path: Path) -> None:
    its = Session(tmp_path)
    its.run.probe("r1", f"{ALL},{R}:1-9")
    its.run.write(1, f"{P}:4,{R}:2")
    both = its.read(f"{ALL},{R}:1-9")
    its.read(ALL)
    tagged = f"{P}:1-30:blue:1-9,{R}:1-9"
    its.run.probe("r1", tagged)
    its.run.write(1, f"{P}:blue:3")
    three = its.read(tagged)
    its.read(f"{ALL},{R}:1-9")
    assert its.settled() == {both: "known", three: "known"}


def test_until_a_question_bounds_it(tmp_path: Path) -> None:
    its = Session(tmp_path)
    its.run.unnamed(1)
    its.read()
    its.run.probe("primary", f"{P}:1-31")
    its.read()
    its.run.probe("r1", f"{P}:1-31")
    reached = its.read(f"{P}:1-31")
    assert its.settled() == {reached: "nothing written"}


def test_who_is_not_concerned_by_what_is_open(tmp_path: Path) -> None:
    its = Session(tmp_path)
    its.run.unnamed(2, user="bob")
    wide = {"scope": "user", "user": "bob"}
    own = its.read()
    its.read(**wide)
    its.read(level="STRONG")
    assert its.settled() == {own: "nothing written"}


def test_a_hole_in_a_session(tmp_path: Path) -> None:
    its = Session(tmp_path)
    first = its.read()
    its.run.gap(1)
    its.read()
    its.read()
    other = its.run.known(2, "r1", ALL, required="")["seq"]
    its.run.known(3, "r1", ALL, required="", scope="proxy")
    its.run.probe("primary", ALL)
    its.run.probe("r1", ALL)
    bounded = its.read()
    assert its.settled() == dict.fromkeys((first, other, bounded), "nothing written")


def test_another_primary(tmp_path: Path) -> None:
    its = Session(tmp_path)
    its.run.write(1, f"{P}:4")
    before = its.read()
    its.run.read(2, "primary", "primary", required=None)
    new = {"role": "primary"}
    its.run.probe("r2", ALL, **new)
    its.run.write(1, f"{UUID['r2']}:1", server="r2:3306", server_uuid=UUID["r2"])
    its.read(f"{ALL},{UUID['r2']}:1")
    its.run.read(1, "r2", "primary", required=None, **new)
    assert its.settled() == {before: "known"}


def test_answers_that_prove_nothing(tmp_path: Path) -> None:
    its = Session(tmp_path)
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
    assert its.settled() == {effort: "best effort", primary: "primary"}


def test_a_snapshot_owes_what_its_first_read_did(tmp_path: Path) -> None:
    its = Session(tmp_path)
    its.run.write(1, f"{P}:4", scope="user")
    taken_us = its.run.clock.now
    first = its.read(f"{P}:1-4", scope="user")
    its.run.write(2, f"{P}:5", scope="user")
    again = its.read(f"{P}:1-4", scope="user", snapshot_us=taken_us)
    its.read(f"{P}:1-4", scope="user")
    assert its.settled() == {first: "known", again: "known"}
