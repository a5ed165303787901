"""A server is given a client's file where the client asked for that, and nowhere else."""

import pytest

from protocol.constants import Capability
from protocol.packet import frame
from routing.consistency.decision import Level
from tests.faults.client import BASE, MODERN, query
from tests.faults.proxy_fixture import eventually, proxy_fixture
from tests.faults.table_fixture import COUNT, count, table_fixture

WANTED = frame(b"\xfb/etc/passwd", 1)
LOAD = "LOAD DATA LOCAL INFILE 'file' INTO TABLE t"
FILES = Capability.CLIENT_LOCAL_FILES


@pytest.mark.parametrize(
    ("capabilities", "sql"),
    [
        (BASE, LOAD),
        (MODERN, LOAD),
        (MODERN | FILES, "SELECT 'a' FOR UPDATE"),
        (MODERN | FILES, "SET @a = 'LOAD DATA INFILE'"),
        (BASE | FILES, "CALL loads()"),
        (MODERN | FILES, f"PREPARE p FROM {'x' * 70_000}"),
    ],
)
async def test_a_primary_that_wants_a_file_unasked_is_left(
    capabilities: Capability, sql: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session(capabilities=capabilities)
        proxy.cluster.primary.faults.raw_reply(WANTED, matching=sql[-40:].encode())
        client.send(query(sql))
        assert await client.rest() == b""
        assert "local file" in caplog.text
        await eventually(lambda: proxy.cluster.primary.connections <= 1)  # the monitor's


@pytest.mark.parametrize("sql", [LOAD, "SELECT 1; load /* one */ data\n local infile 'x'"])
async def test_a_client_that_asks_is_asked(sql: str) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session(capabilities=MODERN | FILES)
        proxy.cluster.primary.faults.raw_reply(WANTED, matching=sql.encode())
        client.send(query(sql))
        assert await client.read_packet() == WANTED[4:]


async def test_a_long_text_may_ask() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session(capabilities=MODERN | FILES)
        sql = f"/* {'x' * (2 << 20)} */ {LOAD}"
        proxy.cluster.primary.faults.raw_reply(WANTED, matching=LOAD.encode())
        client.send(query(sql))
        assert await client.read_packet() == WANTED[4:]


async def test_a_primary_that_wants_a_file_of_the_proxy_is_left() -> None:
    async with table_fixture(consistency=Level.STRONG) as proxy:
        client = await proxy.session()
        proxy.cluster.primary.faults.raw_reply(WANTED, matching=b"gtid_executed")
        client.send(query(COUNT))
        assert b"passwd" not in await client.rest()
        assert await count(await proxy.session()) == 0


async def test_a_replica_that_wants_a_file_is_left() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session(capabilities=MODERN | FILES)
        for replica in proxy.cluster.replicas:
            replica.faults.raw_reply(WANTED, matching=b"infile", times=None)
        assert (await client.query("SELECT 'load data local infile'")).rows
