"""Reads that do not wait for writes to other tables, on the fast path and without."""

import json
from typing import Any, Final

import pytest

from protocol.gtid import Gtid, GtidSet
from routing.consistency.decision import Proof, Scope
from routing.servers.observations import Observation
from routing.servers.transaction_tables import TableName
from routing.session.session import NO_ROLE
from routing.sql.catalogue import read
from tests.faults.client import Client
from tests.faults.path_fixture import READ, WRITE, PathFixture, on_both_paths
from tests.faults.proxy_fixture import statements_of

OTHER: Final = "SELECT s FROM wide WHERE id = 2"
WRITE_OTHER: Final = "INSERT INTO wide VALUES ({}, 'x')"
TABLES: Final = {name: TableName("test", name) for name in ("t", "wide")}


class Followed:
    """A proxy whose primary's log is read, with a replica that applies nothing for now."""

    def __init__(self, path: PathFixture, client: Client) -> None:
        self.path, self.client = path, client
        self.topology = path.proxy.shared.topology
        self.replica = path.proxy.cluster.replicas[0]
        primary = self.topology.primary
        for server in self.topology.replicas:
            server.sources = frozenset([primary.uuid])
            server.filters.applier = ""
        self.tables = self.topology.transaction_tables
        self.tables.begin(self.topology.term, primary.applied, 0)
        rows = json.dumps([[*table, "InnoDB"] for table in TABLES.values()])
        *_, catalogue = read(None, None, base_tables=rows.encode(), foreign_keys=b"[]")
        assert catalogue is not None
        account = path.proxy.shared.catalogues.of("app", NO_ROLE)
        looks = self.topology.observations
        account.tables.take(catalogue.tables, primary.applied, looks.looks, self.topology.term)
        looks.end_look(looks.begin_look(), primary.applied, Observation(0.0, primary.applied))
        self._seen = primary.applied

    async def write(self, sql: str, *names: str) -> None:
        """Write, and let the log tell of it."""
        await self.path.execute(self.client, sql)
        applied = self.topology.primary.applied
        for gtid in numbers(applied - self._seen):
            self.tables.add_rows(gtid, frozenset(TABLES[name] for name in names))
        self._seen = applied

    async def read(self, sql: str) -> Any:
        """Read; gives the outcome."""
        await self.path.execute(self.client, sql)
        return self.path.sessions[self.client]._current.outcome

    def applies(self, *, running: bool) -> None:
        """Let the replica apply what comes, or stop it."""
        assert self.replica.applier is not None
        self.replica.applier.running = running

    def waits(self) -> int:
        return sum("WAIT_FOR" in text for text in statements_of(self.replica))


def numbers(gtids: GtidSet) -> list[Gtid]:
    return [
        Gtid(tsid, number)
        for tsid in gtids.tsids
        for start, end in gtids.intervals(tsid)
        for number in range(start, end)
    ]


async def follow(path: PathFixture) -> Followed:
    client = await path.client()
    await path.execute(client, READ)
    return Followed(path, client)


@pytest.mark.parametrize("scope", [Scope.CONNECTION, Scope.USER, Scope.PROXY])
async def test_a_read_behind_a_write_to_another_table_goes_at_once(scope: Scope) -> None:
    async def scenario(path: PathFixture) -> None:
        followed = await follow(path)
        followed.applies(running=False)
        for number in (2, 3):
            await followed.write(WRITE_OTHER.format(number), "wide")
            outcome = await followed.read(READ)
            assert (outcome.proof, outcome.wait_us) == (Proof.INDEPENDENT, 0)
            assert outcome.decision.server is followed.topology.replicas[0]
            await path.execute(followed.client, "SHOW TIDEGATE LAST")
        assert not followed.waits()
        followed.applies(running=True)
        outcome = await followed.read(OTHER)
        assert outcome.proof is Proof.WAITED
        assert followed.waits() == 1
        outcome = await followed.read(READ)
        assert outcome.proof is Proof.KNOWN

    played = await on_both_paths(scenario, scope=scope)
    assert played.went_fast > 0


async def test_a_read_waits_for_what_remains_and_proves_no_more() -> None:
    async def scenario(path: PathFixture) -> None:
        followed = await follow(path)
        replica = followed.topology.replicas[0]
        await followed.write(WRITE, "t")
        remains = followed.topology.primary.applied
        await path.proxy.caught_up()
        followed.applies(running=False)
        await followed.write(WRITE_OTHER.format(2), "wide")
        outcome = await followed.read(READ)
        assert outcome.proof is Proof.INDEPENDENT
        assert outcome.decision.proof_set <= remains
        assert followed.waits() == 1
        assert not replica.applied.covers(outcome.required)
        assert replica.applied.covers(outcome.decision.proof_set)
        await path.execute(followed.client, "SHOW TIDEGATE LAST")
        outcome = await followed.read(READ)  # what the WAIT proved is enough for this
        assert (outcome.proof, outcome.wait_us) == (Proof.INDEPENDENT, 0)
        assert followed.waits() == 1
        followed.applies(running=True)
        outcome = await followed.read(OTHER)
        assert outcome.proof is Proof.WAITED
        assert followed.waits() == 2

    await on_both_paths(scenario)


async def test_the_record_names_the_tables_and_what_the_wait_proved() -> None:
    lines: list[dict[str, Any]] = []

    async def scenario(path: PathFixture) -> None:
        followed = await follow(path)
        path.log.take(1 << 30)
        await followed.write(WRITE, "t")
        await path.proxy.caught_up()
        followed.applies(running=False)
        await followed.write(WRITE_OTHER.format(2), "wide")
        for sql in (READ, READ, OTHER.replace("wide", "t")):
            await path.execute(followed.client, sql)
        followed.applies(running=True)
        path.log.finish()
        lines[:] = [json.loads(line) for line in path.log.take(1 << 30).splitlines()]

    await on_both_paths(scenario)
    reads = [line for line in lines if line.get("class") == "read"]
    assert [line["proof"] for line in reads] == ["independent"] * 3
    assert [line["tables"] for line in reads] == ["`test`.`t`"] * 3
    proofs = [line for line in lines if line["kind"] == "proof" and line["proof"] == "waited"]
    (waited,) = (GtidSet.parse(line["proof_set"]) for line in proofs)
    shown = GtidSet.parse(reads[0]["proof_set"])
    assert waited.count() == 1
    assert shown.covers(waited)
    assert shown.count() > 1, "and what was known of the replica before"
    assert proofs[0]["seq"] < reads[0]["seq"]


async def test_audited_reads_are_asked_for_what_remains() -> None:
    async def scenario(path: PathFixture) -> None:
        followed = await follow(path)
        followed.applies(running=False)
        await followed.write(WRITE_OTHER.format(2), "wide")
        outcome = await followed.read(READ)
        assert outcome.proof is Proof.INDEPENDENT
        assert not outcome.fallbacks
        assert path.proxy.count("tidegate_audited_reads_total") == 1
        followed.applies(running=True)

    await on_both_paths(scenario, self_audit=1.0)
