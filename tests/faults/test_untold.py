"""A client without CLIENT_DEPRECATE_EOF, whose primary is asked for what a result did not tell."""

import pytest

from routing.consistency.decision import Level, Scope
from tests.faults.client import BASE, query
from tests.faults.proxy_fixture import eventually
from tests.faults.table_fixture import COUNT, count, execute, probes, table_fixture

WRITES = "ANALYZE TABLE t"
PING = b"\x0e"
REFUSED = b"\x09\x00\x00\x01\xff\x25\x05#70100"


async def test_a_result_ends_when_it_is_known_what_it_wrote() -> None:
    async with table_fixture(scope=Scope.USER) as proxy:
        client, other = await proxy.session(capabilities=BASE), await proxy.session()
        primary = proxy.cluster.primary
        await count(other)
        before = proxy.count("tidegate_required_unknown_total", "result")
        gate = primary.faults.hold_reply(matching=PING)
        client.send(query(WRITES))
        await eventually(lambda: gate.held)
        # The writer was told of no end, and nobody knows of the write.
        assert proxy.count("tidegate_required_unknown_total", "result") == before
        (writer,) = [s for s in proxy.shared.sessions if s._current.stage != "done"]
        assert writer._current.answer.ending
        gate.open()
        await client.answer()
        assert proxy.count("tidegate_required_unknown_total", "result") == before + 1
        probed = probes(proxy)
        await count(other)
        assert probes(proxy) == probed + 1


async def test_what_the_primary_does_not_say_may_be_anything() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session(capabilities=BASE)
        proxy.cluster.primary.faults.raw_reply(REFUSED, matching=PING)
        assert (await client.query(WRITES)).rows
        assert proxy.count("tidegate_required_unknown_total", "result") == 1
        assert await count(client) == 0


@pytest.mark.parametrize("sent", [0, 3])
@pytest.mark.parametrize("sql", [WRITES, "CALL nothing()", f"{COUNT} FOR UPDATE"])
async def test_a_primary_that_is_lost_before_it_says_it(sql: str, sent: int) -> None:
    async with table_fixture() as proxy:
        client = await proxy.session(capabilities=BASE)
        proxy.cluster.primary.faults.drop_connection_after(sent, matching=PING)
        client.send(query(sql))
        rest = await client.rest()
        # Neither an end that nobody knows to be one, nor what stands behind it.
        assert not rest.endswith(b"\xfe\x00\x00\x02\x00")
        if sql.startswith("CALL"):
            assert rest == b""
        await eventually(lambda: not proxy.shared.sessions or len(proxy.shared.sessions) == 1)


async def test_commands_that_wait_are_answered_in_order() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session(capabilities=BASE)
        texts = [WRITES, COUNT, "SELECT 'a'", "INSERT INTO t VALUES (1)", COUNT]
        for text in texts:
            client.send(query(text))
        answers = [await client.answer() for _ in texts]
        assert [answer.value for answer in answers[1:3]] == [b"0", b"a"]
        assert answers[3].ok.affected_rows == 1
        assert answers[4].value == b"1"


async def test_a_client_that_leaves_meanwhile() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session(capabilities=BASE)
        gate = proxy.cluster.primary.faults.hold_reply(matching=PING)
        client.send(query(WRITES))
        await eventually(lambda: gate.held)
        client.abort()
        await eventually(lambda: len(proxy.shared.sessions) <= 1)
        gate.open()


async def test_what_is_told_late_is_shown_late() -> None:
    """Who reads behind an answer's end has the primary asked what there was then."""
    async with table_fixture(scope=Scope.PROXY, consistency=Level.MONOTONIC_READS) as proxy:
        client, other = await proxy.session(capabilities=BASE), await proxy.session()
        await count(other)
        await execute(client, "SELECT GET_LOCK('a', 1)")  # it reads on the primary
        gate = proxy.cluster.primary.faults.hold_reply(matching=PING)
        client.send(query(COUNT))
        await eventually(lambda: gate.held)
        # It has been asked what anybody saw by now, but the client has not seen the end.
        probed = probes(proxy)
        assert await count(other) == 0
        assert probes(proxy) == probed + 1
        gate.open()
        assert (await client.answer()).value == b"0"
        assert await count(other) == 0
        assert probes(proxy) == probed + 2
        await count(other)
        assert probes(proxy) == probed + 2
