"""Which reads and servers are left for the procedure's judge."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from tests.spark_jobs.reads.test_plain_reads import Compared
from tests.spark_jobs.routing_log import UUID, Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

P = UUID["primary"]
EVERYBODY = f"{P}:1-20"


class Steps:
    """A run, and what of it is left."""

    def __init__(self) -> None:
        self.run = Run()
        self.left: set[object] = set()

    def strict(self, *, left: bool, claim: str = EVERYBODY, ago: int = 0, **fields: object) -> None:
        """A read at STRONG that arrived `ago` µs before the last question was sent."""
        questions = [it for it in self.run.records if it["kind"] == "proof"]
        arrived_us = int(str(questions[-1]["dispatched_us"])) - ago
        self.run.clock.now = max(self.run.clock.now, arrived_us)
        rules = {"level": "STRONG", "arrived_us": arrived_us, "required": claim} | fields
        self._note(self.run.waited(9, "r1", claim, **rules), left=left)

    def remembers(self, server: str, *, left: bool, session: int = 3, **fields: object) -> None:
        """A read at MONOTONIC_READS."""
        rules = {"level": "MONOTONIC_READS", "required": EVERYBODY} | fields
        self._note(self.run.waited(session, server, EVERYBODY, **rules), left=left)

    def _note(self, record: dict[str, object], *, left: bool) -> None:
        if left:
            self.left.add(record["seq"])


@pytest.mark.deep  # test_plain_reads.py compares whole audits, the procedure among it
def test_what_is_left_for_the_judge_of_steps(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.audit import judgement
    from spark_jobs.clocks import clocks
    from spark_jobs.procedure import suspects
    from spark_jobs.reads import backing

    steps = Steps()
    run = steps.run
    run.probe("r1", f"{P}:1-5")
    run.probe("primary", f"{P}:1-5")
    steps.strict(left=False)  # asked at the moment at which it arrived
    run.probe("primary", f"{P}:1-6")
    steps.strict(left=True, ago=-1)  # asked before
    # But not before the snapshot that it shares was asked for.
    asked_us = next(r["dispatched_us"] for r in reversed(run.records) if r["kind"] == "proof")
    steps.strict(left=False, ago=-1, snapshot_us=asked_us)
    run.probe("primary", f"{P}:1-21")
    steps.strict(left=True)  # the proof lacks what was told
    run.probe("primary", f"{P}:1-20")
    steps.strict(left=False, ago=2000)  # the second set of its time is covered
    late = run.probe("primary", f"{P}:1-20")
    late["ended_us"] = int(str(late["ended_us"])) + 1000
    steps.strict(left=True)  # it was told after the read was sent
    run.probe("primary", f"{P}:1-20:")
    steps.strict(left=True)  # which is no set
    # Four sets are looked at, however they cross.
    for end in (30, 31, 32, 33, 20):
        run.probe("primary", f"{P}:1-{end}")
    steps.strict(left=True, ago=4000)
    steps.strict(left=True, claim=f"{P}:1-20:", ago=4000)
    # Within the bound, and in the next piece.
    run.probe("primary", f"{P}:1-20")
    bounded = "BOUNDED_STALENESS"
    steps.strict(left=False, ago=-5000, bound_us=5000, level=bounded)
    run.probe("primary", f"{P}:1-20")
    steps.strict(left=True, ago=-5000, bound_us=4999, level=bounded)
    steps.strict(left=False, ago=-5000, bound_us=None, level=bounded)
    run.clock.now += 20_000_000 - run.clock.now % 10_000_000 - 100
    run.clock.now += 100_000
    run.probe("primary", f"{P}:1-20")
    steps.strict(left=False, ago=100_010)

    # At levels that remember: answers without a set, of one server and of two.
    run.read(3, "r1", "none", level="BEST_EFFORT")
    steps.remembers("r1", left=True)
    run.read(4, "r1", "none", level="BEST_EFFORT")
    steps.remembers("r1", left=False, session=4)
    steps.remembers("r2", left=True)
    steps.remembers("r2", left=False, session=5, observed=EVERYBODY)
    steps.remembers("r1", left=False, session=5, observed=EVERYBODY)
    for server in ("r1", "r2"):
        steps.remembers(server, left=True, session=6, user="bob", scope="user")
    for holes, observed in ((False, EVERYBODY), (True, f"{P}:1-3:5-20")):
        steps.remembers("r1", left=holes, session=7, level="READ_ALL_WRITES", observed=observed)

    # What a replica claimed, and showed when it was asked.
    other = Run("b1", proxy="other")
    for server, executed in (("r1", f"{P}:1-9"), ("r2", f"{P}:1-8"), ("other", f"{P}:1-9:")):
        other.waited(1, server, f"{P}:9", required=f"{P}:9", level="READ_OWN_WRITES")
        other.probe(server, executed)

    # What was claimed of a source that nothing else names.
    nobodys = f"{UUID['r1'].replace('e53d', 'beef')}:5"
    other.waited(1, "r1", nobodys, required=nobodys, incarnation=2)
    other.probe("r1", f"{P}:1-9", incarnation=2)

    compared = Compared(spark, tmp_path, run, other)
    once = compared.look()
    timed, known = judgement.prepared(once, clocks.learn(once.records), 0, tmp_path / "rows", [])
    found = suspects.find(timed, known, [], tmp_path / "rows")
    assert found.reads is not None
    assert found.liars is not None
    assert {row.seq for row in found.reads.collect()} == steps.left
    liars = timed.where(f"{backing.NUMBER} in ({', '.join(map(str, found.liars))})")
    of_other = liars.where("run = 'b1'").select("server_uuid", "incarnation").distinct()
    expected = {(UUID["r2"], 1), (UUID["other"], 1), (UUID["r1"], 2)}
    assert {tuple(row) for row in of_other.collect()} == expected
    compared.agree()
    monkeypatch.setattr(suspects, "_MOST", 0)  # of too many, each answer and claim is looked at
    many = suspects.find(timed, known, [], tmp_path / "rows")
    assert many
    assert (many.groups, many.liars) == (None, None)
    compared.agree()
