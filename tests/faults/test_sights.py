"""What a client was shown, in whole or in part, no later read may be older than."""

import pytest

from proxy.server.probe import PROBE_SQL
from routing.decision import Level, Scope
from tests.faults.client import query
from tests.faults.peers import rows
from tests.faults.stage import asked, eventually
from tests.faults.table import COUNT, count, does, table

LEVELS = ("MONOTONIC_READS", "READ_ALL_WRITES")


@pytest.mark.parametrize("level", LEVELS)
async def test_the_primary_finishes_what_a_probe_saw_it_committing(level: str) -> None:
    """The read that asked for the probe may end up there, where the replicas are late."""
    async with table(consistency=Level(level)) as on:
        client = await on.session()
        assert await count(client) == 0
        (session,) = on.proxy.sessions.values()
        session.state.own_scope.may_have_seen()
        owned = b"11111111-1111-1111-1111-111111111111:99#5"
        executed = on.cluster.primary.gtids.executed.text.encode()
        on.cluster.primary.faults.raw_reply(rows([owned, executed], columns=2), matching=PROBE_SQL)
        for replica in on.proxy.topology.replicas:
            replica.timed_out(on.proxy.now() + 1000)
        assert await count(client) == 0
        told = asked(on.cluster.primary)
        assert on.count("tidegate_probes_total") == 1
        assert told[-1] == COUNT
        assert "gtid_owned,_latin1'#" in told[-2]


@pytest.mark.parametrize("lost", ["server", "client"])
async def test_what_was_shown_in_part_was_shown(lost: str) -> None:
    async with table(scope=Scope.USER, consistency=Level.MONOTONIC_READS) as on:
        other = await on.session()
        assert await count(other) == 0
        client = await on.session()
        await does(other, "SET tidegate_consistency = DEFAULT")
        (state,) = on.proxy.scopes.states()
        state.seen_on = None
        begun = rows([b"1"])[:-20]
        for replica in on.cluster.replicas:
            replica.faults.raw_reply(begun, matching=COUNT.encode())
        client.send(query(COUNT))
        await client.read_packet()
        if lost == "server":
            for replica in on.cluster.replicas:
                await replica.stop()
        else:
            client.abort()
        await eventually(lambda: len(on.proxy.sessions) == 1)
        assert state.seen
