"""A replica takes over with all that was written, or without the last of it."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from mysql_mocker.server.cluster import Cluster, PromotionError
from mysql_mocker.server.server import Server
from tests.mysql_mocker.conftest import ACCOUNTS
from tests.mysql_mocker.raw_client import RawClient
from tests.support.background_cluster import BackgroundCluster
from tests.support.waiting import until

Connect = Callable[..., RawClient]


@pytest.fixture
def mocker() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(lambda: Cluster(replicas=2, accounts=ACCOUNTS)) as running:
        yield running


def has(reader: RawClient, count: int) -> Callable[[], bool]:
    return lambda: reader.value("SELECT COUNT(*) FROM t") == str(count)


def late(mocker: BackgroundCluster, *servers: Server) -> None:
    for server in servers:
        mocker.call(lambda server=server: setattr(server, "apply_delay", 3600))  # type: ignore[misc]


def test_nothing_is_lost_and_all_follow(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, primary: Server
) -> None:
    first, second = mocker.cluster.replicas
    client.query("CREATE TABLE t (n INT)")
    late(mocker, first, second)
    client.query("INSERT INTO t VALUES (1)")
    assert mocker.run(mocker.cluster.promote(first)) == []
    assert mocker.cluster.primary is first
    assert mocker.cluster.replicas == [primary, second]
    writer = connect(first)
    assert writer.reply("INSERT INTO t VALUES (2)").ok
    for server in (primary, second):
        mocker.call(lambda server=server: setattr(server, "apply_delay", 0))  # type: ignore[misc]
        until(has(connect(server), 2), "all have both")
    assert client.reply("INSERT INTO t VALUES (3)").error.code == 1290


def test_what_is_lost_was_acknowledged_and_is_gone(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, primary: Server
) -> None:
    first, second = mocker.cluster.replicas
    client.query("CREATE TABLE t (n INT)")
    late(mocker, first, second)
    for n in range(4):
        client.query(f"INSERT INTO t VALUES ({n})")  # noqa: S608 - a number
    assert mocker.run(mocker.cluster.promote(first, lose=3)) == [primary]
    assert not primary.running
    assert has(connect(first), 1)()
    mocker.call(lambda: setattr(second, "apply_delay", 0))
    assert connect(first).reply("INSERT INTO t VALUES (9)").ok
    until(has(connect(second), 2), "the other replica follows")


def test_what_a_replica_has_it_cannot_lose(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, primary: Server
) -> None:
    first, second = mocker.cluster.replicas
    client.query("CREATE TABLE t (n INT)")
    client.query("INSERT INTO t VALUES (1)")
    reader = connect(first)
    until(lambda: reader.executed() == client.executed(), "it is there")
    with pytest.raises(PromotionError, match="has applied 2 of the newest 2"):
        mocker.run(mocker.cluster.promote(first, lose=2))
    with pytest.raises(PromotionError, match="primary is not a running replica"):
        mocker.run(mocker.cluster.promote(primary))
    assert client.reply("INSERT INTO t VALUES (2)").ok
    until(has(reader, 2), "nothing has changed")
    # What a replica has and the new primary lacks keeps that replica out.
    late(mocker, second)
    client.query("INSERT INTO t VALUES (3)")
    until(has(reader, 3), "one replica has it")
    assert mocker.run(mocker.cluster.promote(second, lose=1)) == [primary, first]
    assert has(connect(second), 2)()


def test_of_two_promotions_at_once_the_second_is_from_the_first(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, primary: Server
) -> None:
    first, second = mocker.cluster.replicas
    client.query("CREATE TABLE t (n INT)")
    late(mocker, first, second)
    client.query("INSERT INTO t VALUES (1)")

    async def both() -> list[list[Server]]:
        async with first.engine.write_lock:
            running = [
                asyncio.ensure_future(mocker.cluster.promote(new)) for new in (first, second)
            ]
            for _ in range(20):  # until neither can go on
                await asyncio.sleep(0)
        return await asyncio.gather(*running)

    assert mocker.run(both()) == [[], []]
    assert mocker.cluster.primary is second
    assert [server.read_only for server in mocker.cluster.servers] == [True, True, False]
    assert connect(second).reply("INSERT INTO t VALUES (2)").ok
    assert has(connect(second), 2)()
